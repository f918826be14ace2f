/* SPDX-License-Identifier: MIT */
/* everything.c - a program that does a little of everything with malloc, to be run under other conditions: all
 * calls, all kinds of blocks, resized, handed between threads, given by the C library to be freed, and with
 * WITH_CXX all forms of operator new. Silent; exit status 0 when all held.
 *
 *     --any-malloc   where another malloc stands before ours, as intended
 *     --no-threads   where none may be started
 *     --no-thp       without huge pages in this process from the start
 *     --once         where all takes long
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../common/pattern.h"
#include "../preload/which_malloc.h"

#ifdef WITH_CXX
unsigned everything_of_cxx(void);
#endif

enum { THREADS = 3, ROUNDS = 2 };

/* From nothing to a large block that moves when it grows. */
static const size_t sizes[] = {
    0, 1, 8, 16, 17, 24, 48, 100, 129, 500, 1000, 2048, 2049, 4096, 6000, 16384, 16385, 30000, 65536, 300000, 1100000,
};
enum { SIZES = sizeof sizes / sizeof sizes[0], CALLS = 10 };

/* Of long blocks the beginning is looked at, and the last byte. */
enum { LOOKED_AT = 8000 };

static void fill(unsigned char *block, size_t size, uint64_t seed)
{
    if (size == 0)
        return;
    block[size - 1] = (unsigned char)seed;
    pattern_fill(block, size <= LOOKED_AT ? size : LOOKED_AT, seed);
}

/* The first `kept` bytes of a block that was filled with `size`. */
static bool holds(const unsigned char *block, size_t kept, size_t size, uint64_t seed)
{
    return pattern_holds(block, kept <= LOOKED_AT ? kept : LOOKED_AT, seed) &&
           (kept < size || size <= LOOKED_AT || block[size - 1] == (unsigned char)seed);
}

static unsigned failed(const char *what, size_t size)
{
    /* Standard error may be closed, and stdio may be what is wrong. */
    char line[100];
    const int length = snprintf(line, sizeof line, "%s, %zu bytes\n", what, size);
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
        _exit(3);
    return 1;
}

static void *make(unsigned call, size_t size)
{
    void *block = NULL;

    switch (call) {
    case 0:
        return malloc(size);
    case 1:
        block = calloc(1, size);
        return block != NULL && bytes_are_zero(block, size) ? block : NULL;
    case 2:
        return realloc(NULL, size);
    case 3:
        block = calloc(size, 1);
        return block != NULL && bytes_are_zero(block, size) ? block : NULL;
    case 4:
        block = aligned_alloc(64, size);
        return (uintptr_t)block % 64 == 0 ? block : NULL;
    case 5:
        return posix_memalign(&block, 4096, size) == 0 && (uintptr_t)block % 4096 == 0 ? block : NULL;
    case 6:
        block = memalign(256, size);
        return (uintptr_t)block % 256 == 0 ? block : NULL;
    case 7:
        block = valloc(size);
        return (uintptr_t)block % 4096 == 0 ? block : NULL;
    case 8:
        return reallocarray(NULL, size, 1);
    default:
        return reallocarray(malloc(10), 1, size + 1);
    }
}

/* Every call with every size, all at once, then each resized up and down. */
static unsigned use(uint64_t seed, void *leave[SIZES], void *found[SIZES])
{
    void *blocks[CALLS][SIZES];
    unsigned errors = 0;

    for (unsigned call = 0; call < CALLS; call++) {
        for (size_t i = 0; i < SIZES; i++) {
            blocks[call][i] = make(call, sizes[i]);
            if (blocks[call][i] == NULL || (uintptr_t)blocks[call][i] % 16 != 0 ||
                malloc_usable_size(blocks[call][i]) < sizes[i])
                errors += failed("no good block", sizes[i]);
            else
                fill(blocks[call][i], sizes[i], seed + call);
        }
    }
    for (unsigned call = 0; call < CALLS; call++) {
        for (size_t i = 0; i < SIZES; i++) {
            const size_t size = call % 2 == 0 ? sizes[i] * 3 + 1 : sizes[i] / 3 + 1;
            const size_t kept = size < sizes[i] ? size : sizes[i];
            void *block = blocks[call][i];
            if (block == NULL)
                continue;
            if (!holds(block, sizes[i], sizes[i], seed + call))
                errors += failed("a block changed", sizes[i]);
            block = call % 4 < 2 ? realloc(block, size) : reallocarray(block, size, 1);
            if (block == NULL || !holds(block, kept, sizes[i], seed + call))
                errors += failed("resizing lost a block", size);
            if (call == 0 && leave != NULL) {
                fill(block, size, 1000 + i);
                leave[i] = block;
            } else {
                free(block);
            }
        }
    }
    for (size_t i = 0; found != NULL && i < SIZES; i++) {
        if (found[i] == NULL)
            continue;
        if (!holds(found[i], sizes[i] * 3 + 1, sizes[i] * 3 + 1, 1000 + i))
            errors += failed("a block of another thread changed", sizes[i]);
        free(found[i]);
        found[i] = NULL;
    }
    return errors;
}

/* Blocks that the C library makes and the program frees. */
static unsigned use_the_c_library(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const stream = open_memstream(&text, &size);
    unsigned errors = 0;

    if (stream == NULL || fprintf(stream, "%0*d", 3000, 1) != 3000 || fclose(stream) != 0 || size != 3000)
        return failed("open_memstream", size);
    char *const copy = strdup(text);
    char *const path = realpath("/", NULL);
    char *const here = getcwd(NULL, 0);
    char *number = NULL;
    if (copy == NULL || strcmp(copy, text) != 0 || path == NULL || asprintf(&number, "%d", 12345) != 5)
        errors += failed("strdup, realpath or asprintf", 0);
    free(text);
    free(copy);
    free(path);
    free(here);
    free(number);
    free(NULL);
    return errors;
}

static void *chain[2][SIZES];

static void *thread(void *argument)
{
    const unsigned self = (unsigned)(uintptr_t)argument;
    return (void *)(uintptr_t)(use(self * 100, NULL, NULL) + use_the_c_library());
}

/* Finds what the thread before left behind, and leaves something. */
static void *link_of_the_chain(void *argument)
{
    const unsigned self = (unsigned)(uintptr_t)argument;
    return (void *)(uintptr_t)use(self, chain[self % 2], chain[(self + 1) % 2]);
}

static unsigned use_threads(void)
{
    pthread_t ids[THREADS];
    unsigned errors = 0;
    void *result = NULL;

    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, thread, (void *)i) != 0)
            return failed("no thread", i);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(ids[i], &result);
        errors += (unsigned)(uintptr_t)result;
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&ids[0], NULL, link_of_the_chain, (void *)i) != 0)
            return failed("no thread", i);
        pthread_join(ids[0], &result);
        errors += (unsigned)(uintptr_t)result;
    }
    return errors + use(0, NULL, chain[0]) + use(0, NULL, chain[1]);
}

int main(int count, char **arguments)
{
    bool ours = true, threads = true;
    unsigned rounds = ROUNDS;
    unsigned errors = 0;
    void *volatile block = NULL; /* the compiler warns of sizes that cannot be */

    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--any-malloc") == 0)
            ours = false;
        else if (strcmp(arguments[i], "--no-threads") == 0)
            threads = false;
        else if (strcmp(arguments[i], "--once") == 0)
            rounds = 1;
        else if (strcmp(arguments[i], "--no-thp") != 0 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
            return 2;
    }
    if (ours)
        require_our_malloc();
    for (unsigned round = 0; round < rounds; round++) {
        errors += use(round, NULL, NULL) + use_the_c_library();
        if (threads)
            errors += use_threads();
#ifdef WITH_CXX
        errors += everything_of_cxx();
#endif
        /* All goes back: the next round finds memory that was taken away. */
#ifdef __GLIBC__
        malloc_trim(0);
#endif
    }
    if (ours) { /* sanitizers end the program for these */
        volatile size_t size = SIZE_MAX;
        errno = 0;
        block = malloc(size - 100);
        if (block != NULL || errno != ENOMEM)
            errors += failed("a block of all addresses", size);
        block = calloc(size / 2, 3);
        if (block != NULL)
            errors += failed("a product that overflows", size);
        if (posix_memalign((void **)(uintptr_t)&block, 24, 1) != EINVAL)
            errors += failed("an alignment of 24", 24);
    }
    return errors != 0;
}
