/* SPDX-License-Identifier: MIT */
/* test_medium.c - chunks of arenas: where blocks lie, what merges, exact boundaries in place, what is known to
 * be zero, and what goes back to the system.
 *
 * Each test starts with a heap of its own, whose arenas stay behind. */
#include "medium/medium.h"

#include <sys/mman.h>

#include "platform/platform.h"
#include "unit.h"

static struct smm_medium heap;
static struct smm_medium other; /* of another thread */

static int fresh_heap(void **state)
{
    (void)state;
    memset(&heap, 0, sizeof heap);
    memset(&other, 0, sizeof other);
    smm_store_relaxed(&smm_medium_settings.huge_pages, SMM_HUGE_NEVER);
    return 0;
}

static int verified(void **state)
{
    (void)state;
    return smm_medium_verify(&heap) == 0 && smm_medium_verify(&other) == 0 ? 0 : -1;
}

static char *alloc(size_t size)
{
    size_t dirty;
    char *const block = smm_medium_alloc(&heap, size, SMM_BLOCK_ALIGN, &dirty);
    assert_non_null(block);
    return block;
}

static size_t usable(const void *block)
{
    enum smm_fault fault = SMM_FAULT_UNKNOWN;
    const size_t size = smm_medium_usable(block, &fault);
    assert_int_equal(fault, SMM_FAULT_NONE);
    return size;
}

static void release(void *block)
{
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_NONE);
}

static bool resize(void *block, size_t size)
{
    enum smm_fault fault = SMM_FAULT_UNKNOWN;
    const bool done = smm_medium_resize(block, size, &fault);
    assert_int_equal(fault, SMM_FAULT_NONE);
    return done;
}

static unsigned arena_count(void)
{
    unsigned count = 0;
    for (const struct smm_arena *arena = heap.arenas; arena != NULL; arena = arena->older)
        count++;
    return count;
}

/* ---- Sizes and places ---- */

static void the_usable_size_is_the_good_size(void **state)
{
    (void)state;
    for (size_t size = SMM_SMALL_MAX + 1; size <= SMM_MEDIUM_MAX; size += 2039) {
        char *const block = alloc(size);
        assert_int_equal(usable(block), smm_medium_good_size(size));
        assert_in_range(usable(block), size, size + SMM_UNIT - 1);
        release(block);
    }
    assert_int_equal(smm_medium_good_size(SMM_UNIT * 100), SMM_UNIT * 100);
    assert_int_equal(smm_medium_good_size(SMM_UNIT * 100 + 1), SMM_UNIT * 101);
    assert_int_equal(smm_medium_good_size(SMM_MEDIUM_MAX), SMM_MEDIUM_MAX);
    /* What is aligned may be small. */
    assert_int_equal(smm_medium_good_size(1), SMM_CHUNK_LEAST * SMM_UNIT);
}

static void blocks_made_one_after_another_lie_one_after_another(void **state)
{
    char *const first = alloc(20000);
    char *expected = first;

    (void)state;
    for (size_t size = 17000; size < 60000; size += 1700) {
        expected += usable(expected);
        char *const block = alloc(size);
        assert_ptr_equal(block, expected);
        assert_int_equal((uintptr_t)block % SMM_UNIT, 0);
    }
    assert_int_equal(smm_kind_of(first), SMM_KIND_MEDIUM);
}

static void a_freed_block_is_the_next_one_of_its_size(void **state)
{
    (void)state;
    char *const before = alloc(30000);
    char *const block = alloc(40000);
    (void)alloc(50000);
    release(block);
    assert_ptr_equal(alloc(40000), block);
    assert_int_equal(usable(before), smm_medium_good_size(30000));
}

static void a_larger_free_chunk_is_split(void **state)
{
    (void)state;
    char *const block = alloc(100000);
    (void)alloc(20000);
    const size_t size = usable(block);
    release(block);
    assert_ptr_equal(alloc(20000), block);
    assert_int_equal(usable(block), smm_medium_good_size(20000));
    /* The rest is exactly what the first part left. */
    const size_t rest = size - usable(block);
    char *const second = alloc(rest);
    assert_ptr_equal(second, block + usable(block));
    assert_int_equal(usable(second), rest);
}

static void free_neighbours_merge_in_every_order(void **state)
{
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        char *blocks[3];
        for (unsigned k = 0; k < 3; k++)
            blocks[k] = alloc(20000 + k * 7000);
        char *const wall = alloc(20000);
        const size_t all = (size_t)(wall - blocks[0]);
        for (unsigned k = 0; k < 3; k++)
            release(blocks[orders[i][k]]);
        assert_int_equal(smm_medium_verify(&heap), 0);
        char *const merged = alloc(all);
        assert_ptr_equal(merged, blocks[0]);
        assert_int_equal(usable(merged), all);
        release(merged);
        /* And one byte more does not fit there. */
        char *const beyond = alloc(all + 1);
        assert_true(beyond > wall);
        release(beyond);
        release(wall);
        assert_int_equal(smm_medium_verify(&heap), 0);
    }
}

static void an_arena_without_blocks_is_as_new(void **state)
{
    char *blocks[200];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = alloc(50000);
    const unsigned arenas = arena_count();
    assert_true(arenas > 1);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        release(blocks[i * 7 % COUNT_OF(blocks)]);
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_int_equal(heap.index.levels, 0);
    assert_int_equal(smm_medium_live_blocks(&heap), 0);
    assert_int_equal(smm_medium_live_bytes(&heap), 0);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        (void)alloc(50000);
    assert_int_equal(arena_count(), arenas);
}

static void blocks_lie_at_multiples_of_their_alignment(void **state)
{
    char *blocks[1000];
    size_t count = 0;

    (void)state;
    for (size_t alignment = 16; alignment <= SMM_MEDIUM_ALIGN_MAX; alignment *= 2) {
        static const size_t sizes[] = {16385, 20000, 65536, 65537, 300000, SMM_MEDIUM_MAX};
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            for (unsigned again = 0; again < 2; again++) {
                size_t dirty;
                char *const block = smm_medium_alloc(&heap, sizes[i], alignment, &dirty);
                assert_non_null(block);
                assert_int_equal((uintptr_t)block & (alignment - 1), 0);
                /* What the alignment needed in front and behind was given back. */
                assert_int_equal(usable(block), smm_medium_good_size(sizes[i]));
                memset(block, 0xdd, usable(block));
                blocks[count++] = block;
                assert_int_equal(smm_medium_verify(&heap), 0);
            }
    }
    while (count != 0)
        release(blocks[--count]);
    assert_int_equal(heap.index.levels, 0);
}

/* ---- Resizing in place ---- */

static void a_block_grows_by_exactly_the_free_chunk_behind_it(void **state)
{
    (void)state;
    char *const block = alloc(20000);
    char *const next = alloc(30000);
    (void)alloc(20000);
    const size_t all = usable(block) + usable(next);

    assert_false(resize(block, usable(block) + 1));
    release(next);
    assert_false(resize(block, all + 1));
    assert_int_equal(usable(block), smm_medium_good_size(20000));
    assert_true(resize(block, all));
    assert_int_equal(usable(block), all);
    memset(block, 0x11, all);
    assert_int_equal(smm_medium_live_blocks(&heap), 2);
    assert_int_equal(smm_medium_live_bytes(&heap), all + smm_medium_good_size(20000));
}

static void a_block_that_grows_takes_no_more_than_it_needs(void **state)
{
    (void)state;
    char *const block = alloc(20000);
    char *const next = alloc(30000);
    (void)alloc(20000);
    const size_t before = usable(block);
    const size_t rest = usable(next) - SMM_UNIT;

    release(next);
    assert_true(resize(block, before + 1));
    assert_int_equal(usable(block), before + SMM_UNIT);
    assert_ptr_equal(alloc(rest), next + SMM_UNIT);
}

static void the_last_block_grows_up_to_the_end_of_its_arena(void **state)
{
    (void)state;
    (void)alloc(20000);
    char *const last = alloc(20000);
    const size_t room = SMM_SLOT_SIZE - ((uintptr_t)last & SMM_SLOT_MASK);

    assert_false(resize(last, room + 1));
    assert_true(resize(last, room));
    assert_int_equal(usable(last), room);
    memset(last, 0x22, room);
    assert_int_equal(smm_medium_verify(&heap), 0);
    /* And back: what it gives up is there for the next one. */
    assert_true(resize(last, 20000));
    assert_ptr_equal(alloc(20000), last + usable(last));
}

static void a_block_shrinks_in_place_by_every_unit(void **state)
{
    (void)state;
    char *const block = alloc(60000);
    char *const wall = alloc(20000);
    const size_t before = usable(block);

    assert_true(resize(block, before));
    assert_true(resize(block, before - SMM_UNIT + 1));
    assert_int_equal(usable(block), before);
    assert_true(resize(block, before - SMM_UNIT));
    assert_int_equal(usable(block), before - SMM_UNIT);
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_true(resize(block, 30000));
    assert_int_equal(usable(block), smm_medium_good_size(30000));
    /* All that it gave up is one chunk. */
    assert_ptr_equal(alloc((size_t)(wall - block) - usable(block)), block + usable(block));
}

/* A rest that is too small for any block waits for a neighbour, and is in no bin. */
static void a_rest_too_small_for_a_block_is_merged_from_both_sides(void **state)
{
    (void)state;
    char *const block = alloc(40 * SMM_KIB);
    char *const next = alloc(40 * SMM_KIB);
    (void)alloc(40 * SMM_KIB);

    for (unsigned crumb = 1; crumb < SMM_CHUNK_LEAST; crumb++) {
        assert_true(resize(block, 40 * SMM_KIB - crumb * SMM_UNIT));
        assert_int_equal(heap.index.levels, 0);
        assert_int_equal(smm_medium_verify(&heap), 0);
        assert_true(resize(block, 40 * SMM_KIB));
    }
    assert_true(resize(block, 30 * SMM_KIB));
    release(next);
    assert_int_equal(smm_medium_verify(&heap), 0);
    char *const both = alloc(50 * SMM_KIB);
    assert_ptr_equal(both, block + 30 * SMM_KIB);
    assert_int_equal(heap.index.levels, 0);
    assert_true(resize(both, 45 * SMM_KIB));
    release(block);
    assert_ptr_equal(alloc(30 * SMM_KIB), block);
    release(both);
    assert_ptr_equal(alloc(50 * SMM_KIB), both);
}

static void a_block_is_never_shorter_than_what_the_index_can_hold(void **state)
{
    size_t dirty;

    (void)state;
    char *const block = smm_medium_alloc(&heap, 100, 64 * SMM_KIB, &dirty);
    assert_int_equal(usable(block), SMM_CHUNK_LEAST * SMM_UNIT);
    assert_true(resize(block, 1));
    assert_int_equal(usable(block), SMM_CHUNK_LEAST * SMM_UNIT);
    release(block);
}

static void the_tail_of_a_shrunk_block_merges_with_what_follows(void **state)
{
    (void)state;
    char *const block = alloc(60000);
    char *const next = alloc(30000);
    (void)alloc(20000);
    const size_t all = usable(block) + usable(next);

    release(next);
    assert_true(resize(block, 20000));
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_ptr_equal(alloc(all - usable(block)), block + usable(block));
}

static void no_size_beyond_an_arena_is_reached_in_place(void **state)
{
    (void)state;
    char *const block = alloc(60000);
    assert_false(resize(block, SMM_SLOT_SIZE));
    assert_false(resize(block, (size_t)PTRDIFF_MAX));
    assert_int_equal(usable(block), smm_medium_good_size(60000));
}

/* ---- What is zero ---- */

static void what_is_not_dirty_is_zero(void **state)
{
    enum { BLOCKS = 60 };
    char *blocks[BLOCKS] = {NULL};
    uint64_t seed = 6;
    size_t zero_bytes = 0;

    (void)state;
    for (unsigned round = 0; round < 4000; round++) {
        const size_t i = random_below(&seed, BLOCKS);
        if (blocks[i] != NULL) {
            release(blocks[i]);
            blocks[i] = NULL;
        } else {
            const size_t size = 16385 + random_below(&seed, random_below(&seed, 8) ? 60000 : 1000000);
            const size_t alignment = (size_t)16 << random_below(&seed, random_below(&seed, 4) ? 4 : 17);
            size_t dirty = SIZE_MAX;
            blocks[i] = smm_medium_alloc(&heap, size, alignment, &dirty);
            assert_non_null(blocks[i]);
            if (dirty < usable(blocks[i])) {
                zero_bytes += usable(blocks[i]) - dirty;
                assert_int_equal(first_not_zero(blocks[i] + dirty, usable(blocks[i]) - dirty),
                                 usable(blocks[i]) - dirty);
            }
            memset(blocks[i], 0xff, usable(blocks[i]));
        }
        if (random_below(&seed, 300) == 0)
            (void)smm_medium_trim(&heap, 0, smm_os_now() + 100000, 0);
        if (random_below(&seed, 500) == 0)
            (void)smm_medium_purge(&heap);
    }
    /* The test would say nothing if all were dirty. */
    assert_true(zero_bytes > 10 * SMM_MIB);
}

static void a_new_arena_is_zero_from_the_first_block_on(void **state)
{
    size_t dirty = SIZE_MAX;

    (void)state;
    char *const block = smm_medium_alloc(&heap, 500000, SMM_BLOCK_ALIGN, &dirty);
    assert_int_equal(dirty, 0);
    assert_int_equal(first_not_zero(block, usable(block)), usable(block));
    memset(block, 1, usable(block));
    const size_t size = usable(block);
    release(block);
    assert_ptr_equal(smm_medium_alloc(&heap, 500000, SMM_BLOCK_ALIGN, &dirty), block);
    assert_true(dirty >= size);
}

/* ---- Misuse ---- */

static void a_second_free_is_found(void **state)
{
    (void)state;
    char *blocks[5];
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = alloc(20000 + i * 1000);
    /* Alone, merged into the one before, merged into the one behind, and merged into the top. */
    static const unsigned order[] = {1, 2, 0, 4, 3};
    for (unsigned i = 0; i < COUNT_OF(order); i++) {
        release(blocks[order[i]]);
        for (unsigned k = 0; k <= i; k++) {
            assert_int_equal(smm_medium_free(&heap, blocks[order[k]]), SMM_FAULT_FREED);
            assert_int_equal(smm_medium_free(&other, blocks[order[k]]), SMM_FAULT_FREED);
        }
    }
    assert_int_equal(smm_medium_live_blocks(&heap), 0);
}

static void a_freed_block_has_no_size_and_is_not_resized(void **state)
{
    (void)state;
    char *const block = alloc(20000);
    enum smm_fault fault = SMM_FAULT_NONE;

    (void)alloc(20000);
    release(block);
    assert_int_equal(smm_medium_usable(block, &fault), 0);
    assert_int_equal(fault, SMM_FAULT_FREED);
    assert_false(smm_medium_resize(block, 30000, &fault));
    assert_int_equal(fault, SMM_FAULT_FREED);
}

static void the_inside_of_a_block_is_no_block(void **state)
{
    (void)state;
    char *const block = alloc(30000);
    assert_int_equal(smm_medium_free(&heap, block + 16), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_medium_free(&heap, block + SMM_UNIT - 1), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_medium_free(&heap, block + SMM_UNIT), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_medium_free(&other, block + 2 * SMM_UNIT), SMM_FAULT_INTERIOR);
    for (size_t offset = 0; offset < (size_t)(block - (char *)heap.arenas); offset += 16)
        assert_int_equal(smm_medium_free(&heap, (char *)heap.arenas + offset), SMM_FAULT_INTERIOR);
    release(block);
}

/* Where blocks began once nothing looks live, whatever was carved, merged, cut and resized over it. */
static void no_place_but_the_start_of_a_block_looks_live(void **state)
{
    enum { BLOCKS = 30 };
    char *blocks[BLOCKS] = {NULL};
    uint64_t seed = 12;

    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        const size_t i = random_below(&seed, BLOCKS);
        if (blocks[i] == NULL) {
            size_t dirty;
            blocks[i] = smm_medium_alloc(&heap, 16385 + random_below(&seed, 200000),
                                         (size_t)16 << random_below(&seed, 14), &dirty);
        } else if (random_below(&seed, 2)) {
            (void)resize(blocks[i], 16385 + random_below(&seed, 200000));
        } else {
            release(blocks[i]);
            blocks[i] = NULL;
        }
        for (struct smm_arena *arena = heap.arenas; arena != NULL; arena = arena->older)
            for (size_t offset = 0; offset < SMM_SLOT_SIZE; offset += SMM_UNIT) {
                char *const place = (char *)arena + offset;
                enum smm_fault fault;
                bool starts = false;
                for (unsigned k = 0; k < BLOCKS; k++)
                    starts |= blocks[k] == place;
                if ((smm_medium_usable(place, &fault) != 0) != starts)
                    fail_msg("round %u: %p", round, (void *)place);
            }
    }
}

/* Holds off: a program that writes past its blocks and has the allocator hand out memory twice. */
static void what_is_written_beside_a_block_harms_its_neighbours_alone(void **state)
{
    (void)state;
    char *const before = alloc(30000);
    char *const block = alloc(32 * SMM_KIB);
    char *const after = alloc(30000);

    memset(block - 64, 0x41, 64);
    memset(block + usable(block), 0x41, 64);
    assert_int_equal(smm_medium_verify(&heap), 0);
    release(block);
    memset(block, 0x41, 32 * SMM_KIB);
    release(before);
    release(after);
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_ptr_equal(alloc(30000), before);
}

static void overwritten_tags_are_found(void **state)
{
    (void)state;
    char *const block = alloc(30000);
    char *const next = alloc(30000);
    (void)alloc(20000);
    struct smm_chunk *const tag = &heap.arenas->chunks[(block - (char *)heap.arenas) / 1024];
    struct smm_chunk *const told = &heap.arenas->chunks[(next - (char *)heap.arenas) / 1024];
    const uint16_t saved = smm_load_relaxed(&tag->size_flags);

    smm_store_relaxed(&tag->size_flags, 0xfff0); /* beyond its arena */
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_OVERWRITTEN);
    smm_store_relaxed(&tag->size_flags, 0x00f0); /* shorter than any block */
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_OVERWRITTEN);
    smm_store_relaxed(&tag->size_flags, saved | 8);
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_OVERWRITTEN);
    smm_store_relaxed(&tag->size_flags, (uint16_t)(saved + 16)); /* fits, and the one behind knows better */
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_OVERWRITTEN);
    smm_store_relaxed(&tag->size_flags, saved);
    told->prev_size ^= 0x41;
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_OVERWRITTEN);
    told->prev_size ^= 0x41;
    release(block);
}

/* ---- Other threads ---- */

/* Holds off: threads that free their predecessors' blocks and each grow arenas of their own. */
static void a_heap_allocates_where_its_thread_freed_before_it_grows(void **state)
{
    size_t dirty;
    char *const mine = alloc(500000);

    (void)state;
    assert_int_equal(smm_medium_free(&other, mine), SMM_FAULT_NONE);
    char *const lent = smm_medium_alloc(&other, 400000, SMM_BLOCK_ALIGN, &dirty);
    assert_ptr_equal(lent, mine);
    assert_null(other.arenas);
    assert_int_equal(smm_medium_live_blocks(&heap), 1);
    assert_int_equal(smm_medium_live_blocks(&other), 0);
    /* Freed by the one that made it: of another heap all the same. */
    assert_int_equal(smm_medium_free(&other, lent), SMM_FAULT_NONE);
    /* The arena is full: an own one. */
    for (unsigned i = 0; i < 3; i++)
        (void)alloc(SMM_MEDIUM_MAX);
    char *const own = smm_medium_alloc(&other, SMM_MEDIUM_MAX, SMM_BLOCK_ALIGN, &dirty);
    assert_non_null(own);
    assert_non_null(other.arenas);
    assert_null(other.lender);
    assert_int_equal(arena_count(), 1);
}

static void what_another_thread_frees_comes_back_at_the_next_operation(void **state)
{
    (void)state;
    char *const block = alloc(30000);
    (void)alloc(20000);
    assert_int_equal(smm_medium_free(&other, block), SMM_FAULT_NONE);
    assert_non_null(smm_load_relaxed(&heap.foreign));
    assert_int_equal(smm_load_relaxed(&heap.foreign_frees), 1);
    assert_int_equal(smm_medium_live_blocks(&heap), 1);
    assert_int_equal(smm_medium_free(&other, block), SMM_FAULT_FREED);
    assert_int_equal(smm_medium_free(NULL, block), SMM_FAULT_FREED);
    assert_int_equal(smm_medium_free(&heap, block), SMM_FAULT_FREED);
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_ptr_equal(alloc(30000), block);
    assert_null(smm_load_relaxed(&heap.foreign));
}

static void draining_merges_and_does_not_wait_unless_told_to(void **state)
{
    (void)state;
    char *const block = alloc(30000);
    char *const second = alloc(30000);
    (void)alloc(20000);
    assert_int_equal(smm_medium_free(&other, block), SMM_FAULT_NONE);
    assert_int_equal(smm_medium_free(NULL, second), SMM_FAULT_NONE);
    smm_gated_acquire(&heap.lock);
    (void)smm_medium_age(&heap);
    assert_non_null(smm_load_relaxed(&heap.foreign));
    smm_gated_release(&heap.lock);
    (void)smm_medium_age(&heap);
    assert_null(smm_load_relaxed(&heap.foreign));
    assert_ptr_equal(alloc(2 * smm_medium_good_size(30000)), block);
    smm_medium_drain(&heap);
}

enum { SLOTS = 64, FREERS = 2 };
static _Atomic(char *) slots[SLOTS];
static _Atomic(bool) stop;

static bool stamp_holds(const char *block, size_t size)
{
    return block[0] == (char)(size >> 8) && block[size - 1] == (char)(size >> 8);
}

static void stamp(char *block, size_t size)
{
    block[0] = block[size - 1] = (char)(size >> 8);
}

static void *resize_and_free(void *argument)
{
    static struct smm_medium own_heaps[FREERS];
    struct smm_medium *const mine = &own_heaps[(uintptr_t)argument];
    uint64_t seed = 100 + (uintptr_t)argument;
    uintptr_t errors = 0;

    while (!smm_load_relaxed(&stop) && errors == 0) {
        enum smm_fault fault = SMM_FAULT_NONE;
        char *const block = smm_exchange_acquire(&slots[random_below(&seed, SLOTS)], NULL);
        if (block == NULL) {
            smm_os_yield();
            continue;
        }
        const size_t size = smm_medium_usable(block, &fault);
        EXPECT(errors, fault == SMM_FAULT_NONE && stamp_holds(block, size));
        if (random_below(&seed, 4) == 0 && smm_medium_resize(block, 16385 + random_below(&seed, 60000), &fault)) {
            const size_t now = smm_medium_usable(block, &fault);
            EXPECT(errors, block[0] == (char)(size >> 8));
            stamp(block, now);
        }
        EXPECT(errors, fault == SMM_FAULT_NONE);
        EXPECT(errors, smm_medium_free(mine, block) == SMM_FAULT_NONE);
    }
    return ERRORS(errors);
}

static void other_threads_resize_and_free_while_the_owner_works(void **state)
{
    pthread_t threads[FREERS];
    uint64_t seed = 7;
    uintptr_t errors = 0;

    (void)state;
    smm_store_relaxed(&stop, false);
    for (uintptr_t i = 0; i < FREERS; i++)
        threads[i] = thread_start(resize_and_free, (void *)i);
    for (const uint64_t end = clock_ms() + 1000; clock_ms() < end && errors == 0;) {
        enum smm_fault fault = SMM_FAULT_NONE;
        size_t dirty;
        char *block = smm_medium_alloc(&heap, 16385 + random_below(&seed, 60000), SMM_BLOCK_ALIGN, &dirty);
        EXPECT(errors, block != NULL);
        if (block == NULL)
            break;
        stamp(block, smm_medium_usable(block, &fault));
        block = smm_exchange_acq_rel(&slots[random_below(&seed, SLOTS)], block);
        if (block != NULL) {
            EXPECT(errors, stamp_holds(block, smm_medium_usable(block, &fault)));
            EXPECT(errors, smm_medium_free(&heap, block) == SMM_FAULT_NONE);
        }
        if (random_below(&seed, 512) == 0)
            (void)smm_medium_purge(&heap);
    }
    smm_store_relaxed(&stop, true);
    for (unsigned i = 0; i < FREERS; i++)
        errors += (uintptr_t)thread_end(threads[i]);
    for (unsigned i = 0; i < SLOTS; i++) {
        char *const block = smm_exchange_acquire(&slots[i], NULL);
        if (block != NULL)
            release(block);
    }
    smm_medium_drain(&heap);
    assert_int_equal(errors, 0);
    assert_int_equal(smm_medium_verify(&heap), 0);
    assert_int_equal(smm_medium_live_blocks(&heap), 0);
    assert_int_equal(smm_medium_live_bytes(&heap), 0);
    assert_int_equal(heap.index.levels, 0);
}

/* ---- Giving memory back ---- */

static size_t resident_pages(const void *from, size_t size)
{
    static unsigned char pages[SMM_SLOT_SIZE / SMM_OS_PAGE_MIN];
    const size_t page = smm_os_page_size();
    size_t count = 0;

    assert_int_equal(mincore((void *)((uintptr_t)from & ~(page - 1)), size, pages), 0);
    for (size_t i = 0; i < size / page; i++)
        count += pages[i] & 1;
    return count;
}

/* Fills arenas with blocks of 512 KiB until there are `count` of them, and frees all. */
static void empty_arenas(unsigned count)
{
    char *blocks[64];
    unsigned n = 0;

    while (arena_count() < count || heap.carving->live < 5) {
        blocks[n] = alloc(512 * SMM_KIB);
        memset(blocks[n], 0x77, usable(blocks[n]));
        n++;
    }
    while (n != 0)
        release(blocks[--n]);
}

static void purging_returns_empty_arenas(void **state)
{
    (void)state;
    empty_arenas(3);
    assert_int_equal(arena_count(), 3);
    /* Two of them full to the end, one five eighths full. */
    assert_true(smm_medium_purge(&heap) >= 2 * (SMM_SLOT_SIZE - 512 * SMM_KIB) + 2 * SMM_MIB);
    for (const struct smm_arena *arena = heap.arenas; arena != NULL; arena = arena->older)
        assert_true(resident_pages(arena, SMM_SLOT_SIZE) <= 64 * SMM_KIB / smm_os_page_size());
    assert_int_equal(smm_medium_purge(&heap), 0);
}

static void purging_returns_the_inside_of_free_chunks(void **state)
{
    (void)state;
    char *blocks[3];
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = alloc(SMM_MIB - 4096);
        memset(blocks[i], 0x55, usable(blocks[i]));
    }
    const size_t size = usable(blocks[1]);
    release(blocks[1]);
    assert_in_range(smm_medium_purge(&heap), size - 2 * smm_os_page_size(), size + SMM_PAGE_SIZE);
    assert_int_equal(smm_medium_purge(&heap), 0);
    assert_true(resident_pages(blocks[1], size) <= 2);
    assert_int_equal(smm_medium_verify(&heap), 0);
    /* The neighbours are as they were, and the chunk can be used again. */
    for (unsigned i = 0; i < 3; i += 2)
        for (size_t at = 0; at < usable(blocks[i]); at++)
            if (blocks[i][at] != 0x55)
                fail_msg("block %u was changed at %zu", i, at);
    assert_ptr_equal(alloc(size), blocks[1]);
    memset(blocks[1], 0x66, size);
}

static void purging_returns_what_lies_above_the_last_block(void **state)
{
    (void)state;
    char *const first = alloc(100000);
    char *const second = alloc(SMM_MEDIUM_MAX);
    memset(second, 1, usable(second));
    release(second);
    const size_t returned = smm_medium_purge(&heap);
    assert_in_range(returned, SMM_MEDIUM_MAX - 2 * SMM_PAGE_SIZE, SMM_MEDIUM_MAX + SMM_PAGE_SIZE);
    size_t dirty = SIZE_MAX;
    assert_ptr_equal(smm_medium_alloc(&heap, SMM_MEDIUM_MAX, SMM_BLOCK_ALIGN, &dirty), second);
    assert_true(dirty <= 64 * SMM_KIB);
    assert_int_equal(usable(first), smm_medium_good_size(100000));
}

/* Free memory beside live blocks has no time: it goes at the fourth visit that finds it. */
static void aging_returns_what_lies_above_the_last_block_and_between_blocks(void **state)
{
    enum { VISITS = 3 };

    (void)state;
    char *const first = alloc(100000);
    char *const between = alloc(500000);
    char *const last = alloc(100000);
    char *const above = alloc(600000);
    memset(between, 1, usable(between));
    memset(above, 1, usable(above));
    release(above);
    for (unsigned i = 0; i < VISITS; i++)
        assert_int_equal(smm_medium_age(&heap), 0);
    assert_in_range(smm_medium_age(&heap), 600000 - 2 * SMM_PAGE_SIZE, 600000 + SMM_PAGE_SIZE);
    release(between);
    for (unsigned i = 0; i < VISITS; i++)
        assert_int_equal(smm_medium_age(&heap), 0);
    assert_in_range(smm_medium_age(&heap), 500000 - 2 * SMM_PAGE_SIZE, 500000);
    assert_int_equal(smm_medium_age(&heap), 0);
    assert_int_equal(usable(first), smm_medium_good_size(100000));
    assert_int_equal(usable(last), smm_medium_good_size(100000));
}

static void trimming_returns_empty_arenas_that_have_aged(void **state)
{
    (void)state;
    empty_arenas(3);
    /* The carving one counts as the one that emptied last. */
    unsigned empties = 0;
    for (struct smm_arena *arena = heap.empties; arena != NULL; arena = arena->next_empty, empties++)
        arena->free_since = 1000 + 500 * empties;
    assert_int_equal(empties, 2);
    assert_int_equal(smm_medium_trim(&heap, 1, 1999, 1000), 0);
    const size_t one = smm_medium_trim(&heap, 1, 2000, 1000);
    assert_true(one >= SMM_SLOT_SIZE - 640 * SMM_KIB);
    assert_int_equal(smm_medium_trim(&heap, 3, 5000, 1000), 0);
    assert_true(smm_medium_trim(&heap, 1, 2500, 1000) >= SMM_SLOT_SIZE - 640 * SMM_KIB);
    assert_int_equal(smm_medium_trim(&heap, 1, 100000, 1000), 0);
}

static void free_bytes_are_what_is_not_live(void **state)
{
    (void)state;
    assert_int_equal(smm_medium_free_bytes(&heap), 0);
    char *const block = alloc(SMM_MEDIUM_MAX);
    assert_true(smm_medium_free_bytes(&heap) < SMM_PAGE_SIZE);
    release(block);
    assert_in_range(smm_medium_free_bytes(&heap), SMM_MEDIUM_MAX, SMM_MEDIUM_MAX + SMM_PAGE_SIZE);
}

/* ---- All together ---- */

static void random_operations_keep_every_invariant(void **state)
{
    enum { BLOCKS = 80 };
    struct {
        char *block;
        size_t size;
    } live[BLOCKS] = {{NULL, 0}};
    uint64_t seed = 8, live_blocks = 0, live_bytes = 0;

    (void)state;
    for (unsigned round = 0; round < 12000; round++) {
        const size_t i = random_below(&seed, BLOCKS);
        const size_t size = 16385 + random_below(&seed, random_below(&seed, 16) ? 50000 : 1032192);
        char *const block = live[i].block;
        const size_t dice = random_below(&seed, 8);
        if (block == NULL) {
            const size_t alignment = random_below(&seed, 8) ? 16 : (size_t)16 << random_below(&seed, 17);
            size_t dirty;
            live[i].block = smm_medium_alloc(&heap, size, alignment, &dirty);
            assert_non_null(live[i].block);
            assert_int_equal((uintptr_t)live[i].block & (alignment - 1), 0);
        } else if (dice < 3) {
            assert_true(stamp_holds(block, live[i].size));
            if (resize(block, size))
                assert_in_range(usable(block), size, size + SMM_UNIT - 1);
            else
                assert_true(size > live[i].size);
            assert_int_equal(block[0], (char)(live[i].size >> 8));
        } else {
            assert_true(stamp_holds(block, live[i].size));
            assert_int_equal(smm_medium_free(dice < 5 ? &other : &heap, block), SMM_FAULT_NONE);
            live[i].block = NULL;
        }
        live_blocks -= live[i].size != 0;
        live_bytes -= live[i].size;
        live[i].size = 0;
        if (live[i].block != NULL) {
            live[i].size = usable(live[i].block);
            stamp(live[i].block, live[i].size);
            live_blocks++;
            live_bytes += live[i].size;
        }
        assert_int_equal(smm_medium_live_blocks(&heap), live_blocks);
        assert_int_equal(smm_medium_live_bytes(&heap), live_bytes);
        if (round % 8 == 0)
            assert_int_equal(smm_medium_verify(&heap), 0);
        if (random_below(&seed, 1000) == 0)
            (void)smm_medium_purge(&heap);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (live[i].block != NULL)
            release(live[i].block);
    smm_medium_drain(&heap);
    assert_int_equal(heap.index.levels, 0);
    assert_int_equal(smm_medium_verify(&heap), 0);
}

#define medium_test(name) cmocka_unit_test_setup_teardown(name, fresh_heap, verified)

int main(void)
{
    const struct CMUnitTest tests[] = {
        medium_test(the_usable_size_is_the_good_size),
        medium_test(blocks_made_one_after_another_lie_one_after_another),
        medium_test(a_freed_block_is_the_next_one_of_its_size),
        medium_test(a_larger_free_chunk_is_split),
        medium_test(free_neighbours_merge_in_every_order),
        medium_test(an_arena_without_blocks_is_as_new),
        medium_test(blocks_lie_at_multiples_of_their_alignment),
        medium_test(a_block_grows_by_exactly_the_free_chunk_behind_it),
        medium_test(a_block_that_grows_takes_no_more_than_it_needs),
        medium_test(the_last_block_grows_up_to_the_end_of_its_arena),
        medium_test(a_block_shrinks_in_place_by_every_unit),
        medium_test(a_rest_too_small_for_a_block_is_merged_from_both_sides),
        medium_test(a_block_is_never_shorter_than_what_the_index_can_hold),
        medium_test(the_tail_of_a_shrunk_block_merges_with_what_follows),
        medium_test(no_size_beyond_an_arena_is_reached_in_place),
        medium_test(what_is_not_dirty_is_zero),
        medium_test(a_new_arena_is_zero_from_the_first_block_on),
        medium_test(a_second_free_is_found),
        medium_test(a_freed_block_has_no_size_and_is_not_resized),
        medium_test(the_inside_of_a_block_is_no_block),
        medium_test(no_place_but_the_start_of_a_block_looks_live),
        medium_test(what_is_written_beside_a_block_harms_its_neighbours_alone),
        medium_test(overwritten_tags_are_found),
        medium_test(a_heap_allocates_where_its_thread_freed_before_it_grows),
        medium_test(what_another_thread_frees_comes_back_at_the_next_operation),
        medium_test(draining_merges_and_does_not_wait_unless_told_to),
        medium_test(other_threads_resize_and_free_while_the_owner_works),
        medium_test(purging_returns_empty_arenas),
        medium_test(purging_returns_the_inside_of_free_chunks),
        medium_test(purging_returns_what_lies_above_the_last_block),
        medium_test(aging_returns_what_lies_above_the_last_block_and_between_blocks),
        medium_test(trimming_returns_empty_arenas_that_have_aged),
        medium_test(free_bytes_are_what_is_not_live),
        medium_test(random_operations_keep_every_invariant),
    };
    return cmocka_run_group_tests(tests, segment_map_setup, NULL);
}
