/* SPDX-License-Identifier: MIT */
/* ifunc.c - a program that allocates while the dynamic linker still binds it: the function that chooses among the
 * versions of another one runs then, before .preinit_array and all constructors, and before thread-local variables
 * have their initial values. */
#include <stdlib.h>
#include <string.h>

#include <shardmm/shardmm.h>

#include "../preload/which_malloc.h"

enum { BLOCKS = 6 };

static char *blocks[BLOCKS];
static const size_t sizes[BLOCKS] = {1, 100, 5000, 20000, 300000, 2000000};

static int the_only_version(void)
{
    return 7;
}

__attribute__((used)) static int (*choose(void))(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(malloc(sizes[i]));
        blocks[i] = calloc(1, sizes[i]);
        if (blocks[i] != NULL)
            blocks[i][sizes[i] - 1] = 'b';
    }
    free(NULL);
    return the_only_version;
}

int chosen(void) __attribute__((ifunc("choose")));

int main(void)
{
    require_our_malloc();
    if (chosen() != 7)
        return 1;
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL || blocks[i][sizes[i] - 1] != 'b')
            return 1;
        blocks[i] = realloc(blocks[i], sizes[i] * 2);
        free(blocks[i]);
    }

    /* The heap of then is the heap of now. */
    void *const address = dlsym(RTLD_DEFAULT, "shardmm_stats_get");
    int (*get)(struct shardmm_stats *, size_t);
    struct shardmm_stats stats;
    memcpy(&get, &address, sizeof get);
    if (get(&stats, sizeof stats) != 0 || stats.heaps_live != 1) {
        fputs("the first thread has lost a heap\n", stderr);
        return 1;
    }
    return 0;
}
