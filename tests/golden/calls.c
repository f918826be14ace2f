/* SPDX-License-Identifier: MIT */
/* calls.c - calls that take the fast path and nothing else, for counting their instructions.
 *
 *     calls SCENARIO COUNT
 *
 * Each scenario first brings its page into a state in which COUNT calls find an item at hand, then makes them.
 * Run with N and with 2 N, the difference is N calls, whatever else the process does. With C_TWINS the calls are those
 * of the C twins, else the library's own. */
#include <stdlib.h>
#include <string.h>

#if C_TWINS
#include "c_twins.h"
#define CALL(name) smm_twin_##name
#else
#include <shardmm/shardmm.h>
#define CALL(name) shardmm_##name
#endif

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
        blocks[i] = CALL(malloc)(size);
    for (unsigned i = 1; i < items; i++)
        CALL(free)(blocks[i]);
    use(CALL(malloc)(size));
}

static void malloc_and_free(size_t size, unsigned items, long count)
{
    make_list(size, items);
    for (long i = 0; i < count; i++) {
        void *const block = CALL(malloc)(size);
        use(block);
        CALL(free)(block);
    }
}

static void realloc_in_place(long count)
{
    void *block = CALL(malloc)(DIRECT_SIZE);

    for (long i = 0; i < count; i++) {
        block = CALL(realloc)(block, DIRECT_SIZE - 4);
        use(block);
    }
}

static void calloc_used(long count)
{
    make_list(DIRECT_SIZE, DIRECT_ITEMS);
    for (long i = 0; i < count; i++) {
        void *const block = CALL(calloc)(1, DIRECT_SIZE);
        use(block);
        CALL(free)(block);
    }
}

/* From the first items that the page cuts, of memory that is new. */
static void calloc_new(long count)
{
    use(CALL(calloc)(1, ZERO_SIZE));
    for (long i = 0; i < count; i++)
        use(CALL(calloc)(1, ZERO_SIZE));
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
