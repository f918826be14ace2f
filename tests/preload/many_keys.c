/* SPDX-License-Identifier: MIT */
/* many_keys.c - the library starts in a process whose first keys are taken, and in threads whose destructors
 * go on allocating.
 *
 * pthread_setspecific() on a key of 32 or above calls calloc(): a heap that is being born is asked for memory.
 * Destructors run in rounds: ours may come before the program's, which then allocate and free in a thread
 * without a heap. Thousands of such threads must leave the resident set flat.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "which_malloc.h"

enum { KEYS = 200, THREADS = 4000, WARM_UP = 400, ROUNDS = 3 };

static pthread_key_t keys[KEYS];
static unsigned keys_made;

/* Each key's value is a block with a count of the rounds that its destructor still asks for. */
struct value {
    unsigned key, rounds;
    char *text;
};

static void destroy(void *argument)
{
    struct value *const value = argument;

    free(value->text);
    value->text = malloc(100 + value->key * 50);
    if (value->text == NULL)
        abort();
    memset(value->text, 'd', 100 + value->key * 50);
    if (value->rounds-- > 1) {
        if (pthread_setspecific(keys[value->key], value) != 0)
            abort();
        return;
    }
    free(value->text);
    free(value);
}

/* Before any constructor has run, so before the library can have made a key of its own. */
static void take_keys(void)
{
    while (keys_made < KEYS && pthread_key_create(&keys[keys_made], destroy) == 0)
        keys_made++;
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = take_keys;

static void *thread(void *argument)
{
    const unsigned number = (unsigned)(uintptr_t)argument;

    /* Every thread uses a few keys, low and high ones. */
    for (unsigned i = number % 7; i < KEYS; i += 41) {
        struct value *const value = malloc(sizeof *value);
        if (value == NULL)
            abort();
        value->key = i;
        value->rounds = 1 + (number + i) % ROUNDS;
        value->text = calloc(1, 2000 + i);
        if (value->text == NULL || pthread_setspecific(keys[i], value) != 0)
            abort();
    }
    return NULL;
}

static long resident_pages(void)
{
    FILE *const file = fopen("/proc/self/statm", "r");
    long total = 0, resident = 0;

    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2)
        abort();
    fclose(file);
    return resident;
}

int main(void)
{
    long before = 0;

    if (keys_made != KEYS) {
        fprintf(stderr, "only %u keys\n", keys_made);
        return 2;
    }
    require_our_malloc();
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_t id;
        if (i == WARM_UP)
            before = resident_pages();
        if (pthread_create(&id, NULL, thread, (void *)i) != 0 || pthread_join(id, NULL) != 0)
            return 2;
    }
    const long grown = (resident_pages() - before) * (sysconf(_SC_PAGESIZE) / 1024);
    /* A leak of one small page a thread would be 225 MiB here, of 100 bytes a thread 350 KiB. */
    if (grown > 256) {
        fprintf(stderr, "%d threads left %ld KiB\n", THREADS - WARM_UP, grown);
        return 1;
    }
    return 0;
}
