/* SPDX-License-Identifier: MIT */
/* lines.c - the C side of the example: makes blocks that Rust frees, and resizes and frees blocks of Rust's. */
#include <stdlib.h>
#include <string.h>

#include <shardmm/shardmm.h>

#ifdef PLAIN
#define ALLOCATE malloc
#define RESIZE realloc
#define FREE free
#else
#define ALLOCATE shardmm_malloc
#define RESIZE shardmm_realloc
#define FREE shardmm_free
#endif

/* A copy of `length` bytes, for the caller to free. */
char *lines_copy(const char *text, size_t length)
{
    char *const copy = ALLOCATE(length);

    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

/* `text` with `times` copies behind each other; takes `text`. */
char *lines_repeat(char *text, size_t length, size_t times)
{
    char *const all = RESIZE(text, length * times);

    if (all == NULL)
        return NULL;
    for (size_t i = 1; i < times; i++)
        memcpy(all + i * length, all, length);
    return all;
}

void lines_free(char *text)
{
    FREE(text);
}
