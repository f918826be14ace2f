/* SPDX-License-Identifier: MIT */
/* early_start.c - every entry point is valid from the first instruction of the process.
 *
 * The functions of .preinit_array run before the constructors of all libraries, ours included; constructors
 * of the lowest priority before the others of the program. What they allocate lives on, is resized in main()
 * and freed in atexit() and the destructor, the last things that run.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "which_malloc.h"

enum { KINDS = 7, SIZES = 8 };

static const size_t sizes[SIZES] = {0, 1, 100, 5000, 16384, 20000, 900000, 3000000};

/* A set of blocks of every size by every entry point. */
struct blocks {
    unsigned char *block[KINDS][SIZES];
    unsigned char seed;
};

static struct blocks from_preinit, from_constructor, from_main;
static unsigned preinit_runs;

/* stdio may not be used yet. */
static void stop(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(3);
    _exit(2);
}

static void check(const struct blocks *set, unsigned kind, unsigned i)
{
    const unsigned char *const block = set->block[kind][i];
    for (size_t at = 0; at < sizes[i]; at++) {
        if (block[at] != (unsigned char)(set->seed + kind + i))
            stop("a block that was made early changed\n");
    }
    if (malloc_usable_size(set->block[kind][i]) < sizes[i])
        stop("a usable size is too small\n");
}

static void fill(struct blocks *set, unsigned char seed)
{
    errno = 0;
    free(NULL);
    set->seed = seed;
    for (unsigned i = 0; i < SIZES; i++) {
        const size_t size = sizes[i];
        void *aligned = NULL;

        set->block[0][i] = malloc(size);
        set->block[1][i] = calloc(size, 1);
        set->block[2][i] = realloc(NULL, size);
        set->block[3][i] = reallocarray(NULL, size, 1);
        set->block[4][i] = aligned_alloc(64, size);
        set->block[5][i] = memalign(4096, size);
        if (posix_memalign(&aligned, 256, size) != 0)
            stop("posix_memalign failed\n");
        set->block[6][i] = aligned;

        if ((uintptr_t)set->block[4][i] % 64 != 0 || (uintptr_t)set->block[5][i] % 4096 != 0 ||
            (uintptr_t)set->block[6][i] % 256 != 0)
            stop("a block is not aligned\n");
        for (unsigned kind = 0; kind < KINDS; kind++) {
            if (set->block[kind][i] == NULL)
                stop("no memory\n");
            memset(set->block[kind][i], (unsigned char)(seed + kind + i), size);
        }
    }
    if (errno != 0)
        stop("errno changed\n");
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned i = 0; i < SIZES; i++)
            check(set, kind, i);
    }
}

static void drop(struct blocks *set)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned i = 0; i < SIZES; i++) {
            check(set, kind, i);
            free(set->block[kind][i]);
            set->block[kind][i] = NULL;
        }
    }
}

static void preinit(void)
{
    preinit_runs++;
    fill(&from_preinit, 10);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = preinit;

__attribute__((constructor(101))) static void constructor(void)
{
    fill(&from_constructor, 60);
}

__attribute__((destructor(101))) static void destructor(void)
{
    drop(&from_main);
}

static void at_exit(void)
{
    drop(&from_constructor);
}

/* Blocks of before any thread, freed by another. */
static void *thread(void *unused)
{
    drop(&from_preinit);
    return unused;
}

int main(void)
{
    pthread_t id;

    if (preinit_runs != 1)
        stop(".preinit_array did not run\n");
    require_our_malloc();
    fill(&from_main, 110);
    if (pthread_create(&id, NULL, thread, NULL) != 0 || pthread_join(id, NULL) != 0)
        stop("no thread\n");
    if (atexit(at_exit) != 0)
        stop("no atexit\n");
    return 0;
}
