/* SPDX-License-Identifier: MIT */
/* too_large.c - sizes that no process has, at every name of the malloc family: NULL and ENOMEM, and what was to be
 * resized is as it was.
 *
 * Holds off: sums that wrap while a size is rounded, and become small ones. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "which_malloc.h"

static int errors;

/* Volatile, so that the compiler does not take a block for freed that could not be resized. */
static void *(*volatile resize)(void *, size_t) = realloc;
static void *(*volatile resize_array)(void *, size_t, size_t) = reallocarray;

static void check(const char *name, size_t size, const void *result)
{
    if (result == NULL && errno == ENOMEM)
        return;
    fprintf(stderr, "%s of %zu bytes: result %p, errno %d\n", name, size, result, errno);
    errors++;
}

#define TRY(name, ...)                                                                                    \
    do {                                                                                                  \
        errno = 0;                                                                                        \
        check(#name, size, name(__VA_ARGS__));                                                            \
    } while (0)

/* Volatile as well: compilers warn of an alignment that they cannot believe. */
static const size_t volatile alignments[] = {(size_t)1 << 40, (size_t)1 << 62};

static void try_all(size_t size)
{
    void *aligned = &errors;
    char *const block = malloc(100);

    if (block == NULL)
        abort();
    memset(block, 'x', 100);
    TRY(malloc, size);
    TRY(calloc, 1, size);
    TRY(calloc, size, 1);
    TRY(calloc, size, size);
    TRY(calloc, 16, size);
    TRY(realloc, NULL, size);
    TRY(resize, block, size);
    TRY(reallocarray, NULL, 1, size);
    TRY(resize_array, block, size, 16);
    TRY(aligned_alloc, 16, size);
    TRY(aligned_alloc, alignments[0], size);
    TRY(memalign, 4096, size);
    TRY(memalign, alignments[1], size);
    TRY(valloc, size);
    TRY(pvalloc, size);
    errno = 0;
    if (posix_memalign(&aligned, 64, size) != ENOMEM || aligned != &errors || errno != 0) {
        fprintf(stderr, "posix_memalign of %zu bytes\n", size);
        errors++;
    }
    for (int i = 0; i < 100; i++)
        if (block[i] != 'x')
            errors++;
    free(block);
}

int main(void)
{
    static const size_t around[] = {(size_t)1 << 47, (size_t)1 << 48, (size_t)1 << 62, (size_t)1 << 63};
    /* Volatile, so that the compiler neither warns of the sizes nor works them out. */
    static const size_t volatile distances[] = {0, 1, 15, 16, 17, 4095, 4096, 65536, 4u << 20};

    require_our_malloc();
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
        const size_t distance = distances[i];
        try_all(SIZE_MAX - distance);
        try_all((size_t)PTRDIFF_MAX - distance);
        for (size_t k = 0; k < sizeof around / sizeof around[0]; k++)
            try_all(around[k] + distance);
    }
    return errors != 0;
}
