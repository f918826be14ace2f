/* SPDX-License-Identifier: MIT */
/* consumer.c [replaced] - uses the calls of ShardMM; with "replaced" malloc must be ShardMM's, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shardmm/shardmm.h>

static int fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    return 1;
}

static void *work(void *argument)
{
    char *const text = argument;
    char *const longer = shardmm_realloc(text, 100000);

    if (longer != NULL)
        longer[99999] = 'x';
    return longer;
}

int main(int count, char **arguments)
{
    const int replaced = count > 1 && strcmp(arguments[1], "replaced") == 0;
    struct shardmm_stats before, after;
    pthread_t thread;
    void *longer;

    if (strcmp(shardmm_version(), SHARDMM_VERSION_STRING) != 0)
        return fail("the header and the library are of different versions");
    if (shardmm_stats_get(&before, sizeof before) != 0)
        return fail("no statistics");

    char *const text = shardmm_malloc(6);
    if (text == NULL)
        return fail("no memory");
    memcpy(text, "hello", 6);
    if (pthread_create(&thread, NULL, work, text) != 0 || pthread_join(thread, &longer) != 0)
        return fail("no thread");
    if (longer == NULL || strcmp(longer, "hello") != 0)
        return fail("a block lost its contents");
    if (shardmm_stats_get(&after, sizeof after) != 0 || after.medium_blocks < before.medium_blocks + 1)
        return fail("the statistics miss a block");
    shardmm_free(longer);

    if (replaced) {
        /* Either side may free what the other handed out. */
        void *const block = malloc(1000);
        if (block == NULL || shardmm_usable_size(block) != shardmm_good_size(1000))
            return fail("malloc is not ShardMM's");
        shardmm_free(block);
        free(shardmm_malloc(2000000));
    }
    printf("ShardMM %s\n", shardmm_version());
    return 0;
}
