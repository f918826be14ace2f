/* SPDX-License-Identifier: MIT */
/* count.c - counts calls by kind and by the power of two of their size, from all threads. */

#include "count.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Not through bench.h: the names there with BENCH_COUNT are these functions. */
void *count_malloc(size_t size);
void *count_calloc(size_t count, size_t size);
void *count_realloc(void *block, size_t size);
void count_free(void *block);

/* Bucket i holds the sizes from 2^(i-1) + 1 to 2^i. */
enum { BUCKETS = 48 };
enum kind { MALLOC, CALLOC, REALLOC, KINDS };
static const char *const kind_names[KINDS] = {"malloc", "calloc", "realloc"};
static _Atomic uint64_t calls[KINDS][BUCKETS], frees;

static void count(enum kind kind, size_t size)
{
    const int bucket = size <= 1 ? 0 : 64 - __builtin_clzll(size - 1);
    atomic_fetch_add_explicit(&calls[kind][bucket], 1, memory_order_relaxed);
}

void *count_malloc(size_t size)
{
    count(MALLOC, size);
    return malloc(size);
}

void *count_calloc(size_t number, size_t size)
{
    count(CALLOC, number * size);
    return calloc(number, size);
}

void *count_realloc(void *block, size_t size)
{
    count(REALLOC, size);
    return realloc(block, size);
}

void count_free(void *block)
{
    if (block != NULL)
        atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    free(block);
}

static uint64_t calls_of(enum kind kind, int bucket)
{
    return atomic_load_explicit(&calls[kind][bucket], memory_order_relaxed);
}

/* A line for each kind of call: how many, and the part of each power of two of their sizes. */
void count_print(bool json)
{
    if (json)
        printf("{");
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t total = 0;
        for (int bucket = 0; bucket < BUCKETS; bucket++)
            total += calls_of((enum kind)kind, bucket);
        printf(json ? "\"%s\": {\"calls\": %" PRIu64 ", \"sizes\": {" : "    %-7s %9" PRIu64, kind_names[kind], total);
        const char *separator = json ? "" : ": ";
        for (int bucket = 0; bucket < BUCKETS; bucket++) {
            const uint64_t part = calls_of((enum kind)kind, bucket), size = UINT64_C(1) << bucket;
            const double percent = 100 * (double)part / (double)(total != 0 ? total : 1);
            if (part == 0)
                continue;
            if (json)
                printf("%s\"%" PRIu64 "\": %" PRIu64, separator, size, part);
            else if (percent < 0.1)
                printf("%sto %" PRIu64 " %" PRIu64 " x", separator, size, part);
            else
                printf("%sto %" PRIu64 " %.*f %%", separator, size, percent < 10, percent);
            separator = ", ";
        }
        printf(json ? "}}, " : "\n");
    }
    printf(json ? "\"free\": %" PRIu64 "}\n" : "    free    %9" PRIu64 "\n",
           atomic_load_explicit(&frees, memory_order_relaxed));
}
