/* SPDX-License-Identifier: MIT */
/* test_twins.c - the assembler fast paths against their C twins, on the same random states: the same result, the same
 * miss with the same arguments, the same memory of heap, descriptors and blocks, and the registers that a call
 * preserves. The routines run on a heap of the test's own; what they miss comes to the test's own slow paths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <shardmm/shardmm.h>

#include "c_twins.h"
#include "entry/slow.h"
#include "heap/heap.h"

enum { ROUNDS = 40000, SEGMENTS = 3, PAGES = 3 };

/* Pages that have memory; the last one shows that the whole index is used. */
static const unsigned page_numbers[PAGES] = {1, 2, SMM_PAGE_COUNT - 1};

/* Two segments of the heap, and one of another heap between them; so far apart that the first and the last differ in
 * the highest bit by which the heap's table is indexed. */
static const unsigned owned[2] = {0, 2};
enum { SLOTS_APART = SMM_OWN_COUNT / 4 };

static struct {
    struct smm_heap heap;
    struct smm_page empty; /* what the fast paths may never write */
} state;
static char *slots;

struct smm_heap smm_empty_heap; /* fast.asm names it as the first heap of a thread */

static uint64_t random_state = 20;

static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t random_below(size_t limit)
{
    return (size_t)(random_next() % limit);
}

/* ---- What is compared ---- */

struct outcome {
    uint64_t result;
    int missed; /* by which slow path; 0: none */
    uint64_t arguments[2];
    char call[24];
};

static struct outcome outcome;

enum { MALLOC_SLOW = 1, CALLOC_SLOW, REALLOC_SLOW, FREE_SLOW, FREE_RARE };

static void miss(int which, uint64_t first, uint64_t second, const char *call)
{
    outcome.missed = which;
    outcome.arguments[0] = first;
    outcome.arguments[1] = second;
    snprintf(outcome.call, sizeof outcome.call, "%s", call);
}

void *smm_malloc_slow(size_t size)
{
    miss(MALLOC_SLOW, size, 0, "");
    return &outcome;
}

void *smm_calloc_slow(size_t count, size_t size)
{
    miss(CALLOC_SLOW, count, size, "");
    return &outcome;
}

void *smm_realloc_slow(void *block, size_t size)
{
    miss(REALLOC_SLOW, (uintptr_t)block, size, "");
    return &outcome;
}

void smm_free_slow(void *block, const char *call)
{
    miss(FREE_SLOW, (uintptr_t)block, 0, call);
}

void smm_free_rare(struct smm_page *page, void *block, const char *call)
{
    miss(FREE_RARE, (uintptr_t)page, (uintptr_t)block, call);
    smm_store_relaxed(&page->used, 1); /* no fast path comes to a full page twice */
}

enum { REGIONS = 1 + SEGMENTS * (1 + PAGES), REGION_MAX = SMM_PAGE_SIZE };

static struct region {
    void *address;
    size_t size;
    char *before, *after;
} regions[REGIONS];

static char copies[2][REGIONS][REGION_MAX];

/* ---- Calling ---- */

/* Calls a function with marks in the registers that it has to preserve, and writes what is in them afterwards. */
uint64_t call_marked(void (*function)(void), const uint64_t arguments[3], uint64_t preserved[6]);
__asm__("        .text\n"
        "        .type call_marked, @function\n"
        "call_marked:\n"
        "        push %rbx\n"
        "        push %rbp\n"
        "        push %r12\n"
        "        push %r13\n"
        "        push %r14\n"
        "        push %r15\n"
        "        push %rdx\n"
        "        mov %rdi, %rax\n"
        "        mov (%rsi), %rdi\n"
        "        mov 16(%rsi), %rdx\n"
        "        mov 8(%rsi), %rsi\n"
        "        mov $1, %ebx\n"
        "        mov $2, %ebp\n"
        "        mov $3, %r12d\n"
        "        mov $4, %r13d\n"
        "        mov $5, %r14d\n"
        "        mov $6, %r15d\n"
        "        call *%rax\n"
        "        pop %rcx\n"
        "        mov %rbx, (%rcx)\n"
        "        mov %rbp, 8(%rcx)\n"
        "        mov %r12, 16(%rcx)\n"
        "        mov %r13, 24(%rcx)\n"
        "        mov %r14, 32(%rcx)\n"
        "        mov %r15, 40(%rcx)\n"
        "        pop %r15\n"
        "        pop %r14\n"
        "        pop %r13\n"
        "        pop %r12\n"
        "        pop %rbp\n"
        "        pop %rbx\n"
        "        ret\n"
        "        .size call_marked, . - call_marked\n");

#define FUNCTION(name) ((void (*)(void))(name))

enum call { MALLOC, CALLOC, REALLOC, FREE, FREE_SIZED, FREE_ALIGNED_SIZED, CALLS };

static const struct {
    const char *name;
    void (*assembler)(void);
    void (*c)(void);
    bool gives_result;
} calls[CALLS] = {
    [MALLOC] = {"malloc", FUNCTION(shardmm_malloc), FUNCTION(smm_twin_malloc), true},
    [CALLOC] = {"calloc", FUNCTION(shardmm_calloc), FUNCTION(smm_twin_calloc), true},
    [REALLOC] = {"realloc", FUNCTION(shardmm_realloc), FUNCTION(smm_twin_realloc), true},
    [FREE] = {"free", FUNCTION(shardmm_free), FUNCTION(smm_twin_free), false},
    [FREE_SIZED] = {"free_sized", FUNCTION(shardmm_free_sized), FUNCTION(smm_twin_free_sized), false},
    [FREE_ALIGNED_SIZED] = {"free_aligned_sized", FUNCTION(shardmm_free_aligned_sized),
                            FUNCTION(smm_twin_free_aligned_sized), false},
};

static struct outcome run(void (*function)(void), const uint64_t arguments[3], bool gives_result)
{
    struct smm_heap *const saved = smm_heap_self;
    uint64_t preserved[6];

    memset(&outcome, 0, sizeof outcome);
    smm_heap_self = &state.heap;
    const uint64_t result = call_marked(function, arguments, preserved);
    smm_heap_self = saved;
    outcome.result = gives_result ? result : 0;
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(preserved[i], i + 1);
    return outcome;
}

/* ---- Random states ---- */

static struct smm_segment *segment(unsigned index)
{
    return (struct smm_segment *)(void *)(slots + index * SLOTS_APART * SMM_SLOT_SIZE);
}

static char *page_memory(unsigned segment_index, unsigned page_index)
{
    return (char *)segment(segment_index) + page_numbers[page_index] * SMM_PAGE_SIZE;
}

/* Any multiple of 16 in memory that is there. */
static void *random_block(void)
{
    return page_memory((unsigned)random_below(SEGMENTS), (unsigned)random_below(PAGES)) +
           random_below(SMM_PAGE_SIZE / SMM_BLOCK_ALIGN) * SMM_BLOCK_ALIGN;
}

/* Far enough from the end of its page for any item. */
static void *random_item(void)
{
    return page_memory((unsigned)random_below(SEGMENTS), (unsigned)random_below(PAGES)) +
           random_below((SMM_PAGE_SIZE - SMM_SMALL_MAX) / SMM_BLOCK_ALIGN) * SMM_BLOCK_ALIGN;
}

static struct smm_page *random_page(void)
{
    if (random_below(8) == 0)
        return &state.empty;
    return &segment((unsigned)random_below(SEGMENTS))->pages[page_numbers[random_below(PAGES)]];
}

static void change_page(struct smm_page *page)
{
    static const int32_t counts[] = {0, 1, 2, 3, 1000, 4096, SMM_PAGE_FULL + 1, SMM_PAGE_FULL + 77, -1};

    if (page == &state.empty)
        return;
    page->free = random_below(4) == 0 ? NULL : random_item();
    if (page->free != NULL)
        page->free->link = random_below(3) == 0 ? NULL : random_item();
    page->local_free = random_below(3) == 0 ? NULL : random_item();
    smm_store_relaxed(&page->used, counts[random_below(sizeof counts / sizeof counts[0])]);
    page->item_size = (uint16_t)(random_below(9) == 0 ? 0 : smm_class_size((unsigned)random_below(SMM_CLASS_COUNT)));
    page->free_is_zero = random_below(2) != 0;
}

static void change_state(void)
{
    struct smm_small *const small = &state.heap.small;

    for (unsigned i = 0; i < 4; i++) {
        small->direct[random_below(SMM_DIRECT_COUNT)] = random_page();
        small->classes[random_below(SMM_CLASS_COUNT)].first = random_page();
        change_page(random_page());
    }
    /* Now and then a segment is not known, or another one has its entry. */
    for (unsigned i = 0; i < 2; i++) {
        const size_t slot = smm_slot_of(segment(owned[i]));
        const size_t index = slot % SMM_OWN_COUNT;
        const size_t none = index == 0 ? SMM_OWN_NONE : 0;
        small->own[index] = random_below(10) != 0 ? slot : random_below(2) == 0 ? none : slot + SMM_OWN_COUNT;
    }
}

static size_t random_size(void)
{
    static const size_t around[] = {0, 16, 128, 2048, 2049, 16384, 16385, 1 << 20, (size_t)1 << 32, PTRDIFF_MAX, SIZE_MAX - 15};

    if (random_below(3) != 0)
        return random_below(random_below(2) == 0 ? 300 : 20000);
    return around[random_below(sizeof around / sizeof around[0])] - 2 + random_below(5);
}

static uint64_t random_address(void)
{
    static const uint64_t wild[] = {0, 1, 8, 4096, UINT64_MAX, (uint64_t)1 << 47, (uint64_t)1 << 63};
    const uint64_t block = (uintptr_t)random_block();

    switch (random_below(12)) {
    case 0:
        return wild[random_below(sizeof wild / sizeof wild[0])];
    case 1:
        return block | (random_below(UINT16_MAX) + 1) << 48; /* an own one but for the bits on top */
    default:
        return block;
    }
}

static void random_arguments(enum call call, uint64_t arguments[3])
{
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 100, (uint64_t)1 << 32, (uint64_t)1 << 60, UINT64_MAX};

    for (unsigned i = 0; i < 3; i++)
        arguments[i] = random_next();
    switch (call) {
    case MALLOC:
        arguments[0] = random_size();
        break;
    case CALLOC:
        arguments[0] = counts[random_below(sizeof counts / sizeof counts[0])];
        arguments[1] = random_size();
        break;
    case REALLOC:
        arguments[0] = random_address();
        arguments[1] = random_size();
        break;
    case FREE:
    case FREE_SIZED:
    case FREE_ALIGNED_SIZED:
    case CALLS:
        arguments[0] = random_address();
        break;
    }
}

/* ---- The test ---- */

static int make_memory(void **unused)
{
    /* The first slot's entry is the first of the heap's table, which is also that of addresses near NULL. */
    const size_t alignment = SMM_OWN_COUNT * SMM_SLOT_SIZE;
    const size_t size = SEGMENTS * SLOTS_APART * SMM_SLOT_SIZE + alignment;
    char *const reserved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned count = 0;

    (void)unused;
    if (reserved == MAP_FAILED)
        return -1;
    slots = (char *)(((uintptr_t)reserved + alignment - 1) & ~(uintptr_t)(alignment - 1));
    regions[count++] = (struct region){.address = &state, .size = sizeof state};
    for (unsigned s = 0; s < SEGMENTS; s++) {
        regions[count++] = (struct region){.address = segment(s), .size = sizeof(struct smm_segment)};
        for (unsigned p = 0; p < PAGES; p++)
            regions[count++] = (struct region){.address = page_memory(s, p), .size = SMM_PAGE_SIZE};
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        struct region *const region = &regions[i];
        region->before = copies[0][i];
        region->after = copies[1][i];
        if (i == 0)
            continue;
        const size_t whole = (region->size + SMM_OS_PAGE_MIN - 1) & ~(SMM_OS_PAGE_MIN - 1);
        if (mprotect(region->address, whole, PROT_READ | PROT_WRITE) != 0)
            return -1;
        for (size_t at = 0; i % (1 + PAGES) != 1 && at < region->size; at += 8)
            *(uint64_t *)(void *)((char *)region->address + at) = random_next() | 1; /* 0 would hide a clearing */
    }
    for (size_t i = 0; i < SMM_DIRECT_COUNT; i++)
        state.heap.small.direct[i] = &state.empty;
    for (unsigned i = 0; i < SMM_CLASS_COUNT; i++)
        state.heap.small.classes[i].first = &state.empty;
    state.heap.small.own[0] = SMM_OWN_NONE;
    return 0;
}

/* Holds off: two implementations of one routine that drift apart. */
static void test_both_do_the_same(void **unused)
{
    unsigned hits[CALLS] = {0}, misses[CALLS] = {0};

    (void)unused;
    _Static_assert(sizeof state <= REGION_MAX, "regions have room");
    for (unsigned round = 0; round < ROUNDS; round++) {
        const enum call call = (enum call)random_below(CALLS);
        uint64_t arguments[3];

        change_state();
        random_arguments(call, arguments);
        for (unsigned i = 0; i < REGIONS; i++)
            memcpy(regions[i].before, regions[i].address, regions[i].size);
        const struct outcome by_c = run(calls[call].c, arguments, calls[call].gives_result);
        for (unsigned i = 0; i < REGIONS; i++) {
            memcpy(regions[i].after, regions[i].address, regions[i].size);
            memcpy(regions[i].address, regions[i].before, regions[i].size);
        }
        const struct outcome by_assembler = run(calls[call].assembler, arguments, calls[call].gives_result);

        bool same = memcmp(&by_c, &by_assembler, sizeof by_c) == 0;
        for (unsigned i = 0; i < REGIONS; i++)
            same &= memcmp(regions[i].after, regions[i].address, regions[i].size) == 0;
        if (!same)
            fail_msg("%s(%#llx, %#llx) in round %u: C result %#llx miss %d, assembler result %#llx miss %d, or memory",
                     calls[call].name, (unsigned long long)arguments[0], (unsigned long long)arguments[1], round,
                     (unsigned long long)by_c.result, by_c.missed, (unsigned long long)by_assembler.result,
                     by_assembler.missed);
        (by_c.missed != 0 ? misses : hits)[call]++;
    }
    for (unsigned i = 0; i < CALLS; i++) {
        printf("%-20s %6u hits %6u misses\n", calls[i].name, hits[i], misses[i]);
        assert_true(hits[i] > 300 && misses[i] > 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_do_the_same)};

    return cmocka_run_group_tests(tests, make_memory, NULL);
}
