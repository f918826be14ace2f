/* SPDX-License-Identifier: MIT */
/* calls.c - calls that take the fast path and nothing else, for counting their instructions.
 *
 *     calls SCENARIO COUNT
 *
 * Each scenario first brings its page into a state in which COUNT calls find an item at hand, then makes them.
 * Run with N and with 2 N, the difference is N calls, whatever else the process does. */
#include <stdlib.h>
#include <string.h>

#include <shardmm/shardmm.h>

enum { DIRECT_SIZE = 64, DIRECT_ITEMS = 1024, TABLE_SIZE = 3000, TABLE_ITEMS = 21, ZERO_SIZE = 96 };

/* The compiler may not know that a block is not used. */
static void use(void *block)
{
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* Has a page hand out all its items and take all but one back: they wait in one list, which the next malloc
 * brings to the front. The one that stays keeps the page in use. */
static void make_list(size_t size, unsigned items)
{
    static void *blocks[DIRECT_ITEMS];

    for (unsigned i = 0; i < items; i++)
        blocks[i] = shardmm_malloc(size);
    for (unsigned i = 1; i < items; i++)
        shardmm_free(blocks[i]);
    use(shardmm_malloc(size));
}

static void malloc_and_free(size_t size, unsigned items, long count)
{
    make_list(size, items);
    for (long i = 0; i < count; i++) {
        void *const block = shardmm_malloc(size);
        use(block);
        shardmm_free(block);
    }
}

static void realloc_in_place(long count)
{
    void *block = shardmm_malloc(DIRECT_SIZE);

    for (long i = 0; i < count; i++) {
        block = shardmm_realloc(block, DIRECT_SIZE - 4);
        use(block);
    }
}

static void calloc_used(long count)
{
    make_list(DIRECT_SIZE, DIRECT_ITEMS);
    for (long i = 0; i < count; i++) {
        void *const block = shardmm_calloc(1, DIRECT_SIZE);
        use(block);
        shardmm_free(block);
    }
}

/* From the first items that the page cuts, of memory that is new. */
static void calloc_new(long count)
{
    use(shardmm_calloc(1, ZERO_SIZE));
    for (long i = 0; i < count; i++)
        use(shardmm_calloc(1, ZERO_SIZE));
}

int main(int arguments, char **argument)
{
    if (arguments != 3)
        return 2;
    const char *const scenario = argument[1];
    const long count = strtol(argument[2], NULL, 10);
    if (strcmp(scenario, "direct") == 0)
        malloc_and_free(DIRECT_SIZE, DIRECT_ITEMS, count);
    else if (strcmp(scenario, "table") == 0)
        malloc_and_free(TABLE_SIZE, TABLE_ITEMS, count);
    else if (strcmp(scenario, "realloc") == 0)
        realloc_in_place(count);
    else if (strcmp(scenario, "calloc_used") == 0)
        calloc_used(count);
    else if (strcmp(scenario, "calloc_new") == 0)
        calloc_new(count);
    else
        return 2;
    return 0;
}
