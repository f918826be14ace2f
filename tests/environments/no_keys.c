/* SPDX-License-Identifier: MIT */
/* no_keys.c - a process that has taken every key of thread-specific data before the library's first call: nothing
 * will tell the library of the ends of threads then. All threads still allocate, and leave nothing behind. */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../preload/which_malloc.h"

enum { THREADS = 5000, WARM_UP = 1000, AT_ONCE = 4 };

static unsigned keys_made;

static void take_keys(void)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        keys_made++;
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = take_keys;

static void *thread(void *left)
{
    static const size_t sizes[] = {20, 300, 5000, 30000, 1200000};
    char *blocks[5];

    for (unsigned i = 0; i < 5; i++) {
        blocks[i] = calloc(1, sizes[i]);
        if (blocks[i] == NULL)
            abort();
        memset(blocks[i], (int)i + 1, sizes[i] < 6000 ? sizes[i] : 6000);
    }
    for (unsigned i = 0; i < 5; i++) {
        blocks[i] = realloc(blocks[i], sizes[i] * 2);
        if (blocks[i] == NULL || blocks[i][10] != (char)(i + 1))
            abort();
        free(blocks[i]);
    }
    free(left);
    return malloc(100);
}

static long resident_pages(void)
{
    FILE *const file = fopen("/proc/self/statm", "r");
    long total = 0, resident = 0;

    malloc_trim(0); /* what waits for the next request depends on the time */
    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2)
        abort();
    fclose(file);
    return resident;
}

int main(void)
{
    void *left[AT_ONCE] = {NULL};
    pthread_t ids[AT_ONCE];
    long before = 0;

    if (keys_made < 100) {
        fprintf(stderr, "only %u keys\n", keys_made);
        return 2;
    }
    require_our_malloc();
    for (unsigned i = 0; i < THREADS; i += AT_ONCE) {
        if (i == WARM_UP)
            before = resident_pages();
        for (unsigned j = 0; j < AT_ONCE; j++)
            if (pthread_create(&ids[j], NULL, thread, left[j]) != 0)
                return 2;
        for (unsigned j = 0; j < AT_ONCE; j++)
            if (pthread_join(ids[j], &left[j]) != 0 || left[j] == NULL)
                return 2;
    }
    const long grown = (resident_pages() - before) * (sysconf(_SC_PAGESIZE) / 1024);
    /* A leak of one small page a thread would be 250 MiB here, of 100 bytes a thread 390 KiB. */
    if (grown > 350) {
        fprintf(stderr, "%d threads left %ld KiB\n", THREADS - WARM_UP, grown);
        return 1;
    }
    return 0;
}
