/* SPDX-License-Identifier: MIT */
/* test_large.c - reservations and their cache: which cached block a request gets, resizing in place and by
 * moving pages, what is known to be zero, and the marks that tell a live block from anything else.
 *
 * Each test starts with an empty cache, and ends with as many live blocks as it found. */
#include "large/large.h"

#include "large/large_cache.h"
#include "platform/platform.h"
#include "unit.h"

#define HEADER sizeof(struct smm_large)

/* A test that fails leaves its blocks behind: the next ones count from there. */
static uint64_t blocks_before, bytes_before;

static uint64_t live_blocks(void)
{
    return smm_load_relaxed(&smm_large_usage.live_blocks) - blocks_before;
}

static uint64_t live_bytes(void)
{
    return smm_load_relaxed(&smm_large_usage.live_bytes) - bytes_before;
}

static int fresh_cache(void **state)
{
    (void)state;
    blocks_before = smm_load_relaxed(&smm_large_usage.live_blocks);
    bytes_before = smm_load_relaxed(&smm_large_usage.live_bytes);
    smm_store_relaxed(&smm_large_cache_settings.blocks, 32);
    smm_store_relaxed(&smm_large_cache_settings.bytes, 128 * SMM_MIB);
    (void)smm_large_cache_trim(UINT64_MAX, 0);
    return smm_large_verify() == 0 ? 0 : -1;
}

static int verified(void **state)
{
    (void)state;
    return smm_large_verify() == 0 && live_blocks() == 0 && live_bytes() == 0 ? 0 : -1;
}

static char *alloc(size_t size)
{
    size_t dirty;
    char *const block = smm_large_alloc(size, SMM_BLOCK_ALIGN, &dirty);
    assert_non_null(block);
    return block;
}

static struct smm_large *header(char *block)
{
    return (struct smm_large *)(void *)(block - HEADER);
}

static void release(void *block)
{
    assert_int_equal(smm_large_free(block), SMM_FAULT_NONE);
}

static size_t usable(const void *block)
{
    enum smm_fault fault = SMM_FAULT_UNKNOWN;
    const size_t size = smm_large_usable(block, &fault);
    assert_int_equal(fault, SMM_FAULT_NONE);
    return size;
}

static char *resize(char *block, size_t size, size_t headroom)
{
    enum smm_fault fault = SMM_FAULT_UNKNOWN;
    char *const result = smm_large_resize(block, size, headroom, &fault);
    assert_int_equal(fault, SMM_FAULT_NONE);
    return result;
}

static uint64_t cached_blocks(void)
{
    uint64_t blocks, bytes;
    smm_large_cache_usage(&blocks, &bytes);
    return blocks;
}

static uint64_t cached_bytes(void)
{
    uint64_t blocks, bytes;
    smm_large_cache_usage(&blocks, &bytes);
    return bytes;
}

static void fill(char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++)
        block[at] = (char)(at % 251 + 1);
}

static void assert_filled(const char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++)
        if (block[at] != (char)(at % 251 + 1))
            fail_msg("the contents changed at %zu", at);
}

static void assert_zero(const char *block, size_t from, size_t to)
{
    if (to > from)
        assert_int_equal(first_not_zero(block + from, to - from), to - from);
}

/* ---- Allocating ---- */

static void the_usable_size_is_the_good_size(void **state)
{
    static const size_t sizes[] = {SMM_MIB + 1, 2 * SMM_MIB, 3 * SMM_MIB - 64, 3 * SMM_MIB - 63, 33 * SMM_MIB + 7};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char *const block = alloc(sizes[i]);
        assert_int_equal(usable(block), smm_large_good_size(sizes[i]));
        assert_in_range(usable(block), sizes[i], sizes[i] + smm_os_page_size() - 1);
        assert_int_equal((uintptr_t)block % SMM_CACHE_LINE, 0);
        assert_int_equal(smm_kind_of(block), SMM_KIND_LARGE);
        release(block);
        (void)smm_large_cache_trim(UINT64_MAX, 0);
    }
    assert_int_equal(smm_large_good_size(3 * SMM_MIB - 64), 3 * SMM_MIB - 64);
    assert_int_equal(smm_large_good_size(3 * SMM_MIB - 63), 3 * SMM_MIB + smm_os_page_size() - 64);
}

static void a_reservation_has_room_to_grow(void **state)
{
    (void)state;
    char *const small = alloc(SMM_MIB + 1);
    char *const big = alloc(40 * SMM_MIB);
    assert_int_equal(header(small)->reserved, 16 * SMM_MIB);
    assert_in_range(header(big)->reserved, 80 * SMM_MIB, 80 * SMM_MIB + 2 * SMM_SLOT_SIZE);
    release(small);
    release(big);
}

static void a_new_block_is_zero_and_a_reused_one_tells_how_much_is_not(void **state)
{
    size_t dirty = SIZE_MAX;

    (void)state;
    char *const block = smm_large_alloc(3 * SMM_MIB, SMM_BLOCK_ALIGN, &dirty);
    assert_non_null(block);
    assert_zero(block, dirty, usable(block));
    assert_true(dirty < smm_os_page_size());
    fill(block, 0, usable(block));
    const size_t before = usable(block);
    release(block);
    assert_ptr_equal(smm_large_alloc(8 * SMM_MIB, SMM_BLOCK_ALIGN, &dirty), block);
    assert_in_range(dirty, before, before + smm_os_page_size());
    assert_zero(block, dirty, usable(block));
    release(block);
}

static void blocks_lie_at_multiples_of_their_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= 64 * SMM_MIB; alignment *= 2) {
        static const size_t sizes[] = {1, SMM_MIB + 1, 5 * SMM_MIB};
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            size_t dirty = SIZE_MAX;
            char *const block = smm_large_alloc(sizes[i], alignment, &dirty);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block & (alignment - 1), 0);
            assert_true(usable(block) >= sizes[i]);
            assert_zero(block, dirty, usable(block));
            memset(block, 0xee, usable(block));
            assert_int_equal(smm_large_verify(), 0);
            release(block);
            /* A block in the slot of its header waits in the cache; the others go back at once. */
            assert_int_equal(smm_kind_of(block), alignment < SMM_SLOT_SIZE ? SMM_KIND_LARGE : SMM_KIND_NONE);
        }
    }
}

/* ---- The cache ---- */

static void the_smallest_block_with_enough_memory_is_chosen(void **state)
{
    (void)state;
    char *const two = alloc(2 * SMM_MIB);
    char *const four = alloc(4 * SMM_MIB);
    char *const three = alloc(3 * SMM_MIB);
    char *const seven = alloc(7 * SMM_MIB);
    release(two);
    release(seven);
    release(three);
    release(four);
    assert_int_equal(cached_blocks(), 4);
    assert_ptr_equal(alloc(2 * SMM_MIB + 8192), three);
    assert_ptr_equal(alloc(3 * SMM_MIB), four);
    /* None has enough, all have the addresses: the one with the most memory. */
    assert_ptr_equal(alloc(10 * SMM_MIB), seven);
    assert_ptr_equal(alloc(2 * SMM_MIB), two);
    release(two);
    release(three);
    release(four);
    release(seven);
}

static void a_block_whose_reservation_is_too_small_is_not_chosen(void **state)
{
    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    release(block);
    assert_null(smm_large_cache_take(16 * SMM_MIB + smm_os_page_size()));
    struct smm_large *const large = smm_large_cache_take(16 * SMM_MIB);
    assert_ptr_equal(large, header(block));
    assert_null(smm_large_cache_take(SMM_MIB));
    smm_large_cache_put(large);
    char *const larger = alloc(20 * SMM_MIB);
    assert_ptr_not_equal(larger, block);
    /* It went, so that the process does not have both. */
    assert_int_equal(cached_blocks(), 0);
    release(larger);
}

static void the_oldest_goes_when_there_are_too_many(void **state)
{
    char *blocks[4];

    (void)state;
    smm_store_relaxed(&smm_large_cache_settings.blocks, 3);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = alloc((2 + i) * SMM_MIB);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        release(blocks[i]);
    assert_int_equal(cached_blocks(), 3);
    assert_int_equal(smm_kind_of(blocks[0]), SMM_KIND_NONE);
    for (unsigned i = 1; i < COUNT_OF(blocks); i++)
        assert_int_equal(smm_kind_of(blocks[i]), SMM_KIND_LARGE);
}

static void the_oldest_go_when_there_are_too_many_bytes(void **state)
{
    char *blocks[4];

    (void)state;
    smm_store_relaxed(&smm_large_cache_settings.bytes, 10 * SMM_MIB);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = alloc(3 * SMM_MIB - HEADER);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        release(blocks[i]);
    assert_int_equal(cached_blocks(), 3);
    assert_int_equal(cached_bytes(), 9 * SMM_MIB);
    assert_int_equal(smm_kind_of(blocks[0]), SMM_KIND_NONE);
    /* Alone above the limit: it goes at once, the others stay. */
    char *const big = alloc(12 * SMM_MIB);
    assert_int_equal(cached_blocks(), 2);
    fill(big, 0, 12 * SMM_MIB);
    release(big);
    assert_int_equal(smm_kind_of(big), SMM_KIND_NONE);
    assert_int_equal(cached_blocks(), 2);
}

static void without_slots_every_block_goes_back_at_once(void **state)
{
    (void)state;
    smm_store_relaxed(&smm_large_cache_settings.blocks, 0);
    char *const block = alloc(2 * SMM_MIB);
    release(block);
    assert_int_equal(cached_blocks(), 0);
    assert_int_equal(smm_kind_of(block), SMM_KIND_NONE);
}

static void trimming_returns_what_has_aged(void **state)
{
    (void)state;
    char *const first = alloc(2 * SMM_MIB - HEADER);
    char *const second = alloc(3 * SMM_MIB - HEADER);
    release(first);
    release(second);
    header(first)->free_since = 1000;
    header(second)->free_since = 1500;
    assert_int_equal(smm_large_cache_trim(1999, 1000), 0);
    assert_int_equal(smm_large_cache_trim(2000, 1000), 2 * SMM_MIB);
    assert_int_equal(cached_blocks(), 1);
    assert_int_equal(smm_large_cache_trim(2499, 1000), 0);
    assert_int_equal(smm_large_cache_trim(2500, 1000), 3 * SMM_MIB);
    assert_int_equal(cached_blocks(), 0);
    assert_int_equal(cached_bytes(), 0);
}

static void much_more_memory_than_asked_for_goes_back(void **state)
{
    size_t dirty = SIZE_MAX;

    (void)state;
    char *const block = alloc(40 * SMM_MIB);
    fill(block, 0, usable(block));
    release(block);
    /* Both four times and 16 MiB more than is asked for. */
    assert_ptr_equal(smm_large_alloc(12 * SMM_MIB, SMM_BLOCK_ALIGN, &dirty), block);
    assert_true(dirty > 39 * SMM_MIB);
    release(block);
    assert_ptr_equal(smm_large_alloc(5 * SMM_MIB, SMM_BLOCK_ALIGN, &dirty), block);
    assert_int_equal(header(block)->dirty, usable(block) + HEADER);
    assert_ptr_equal(resize(block, 40 * SMM_MIB, 0), block);
    assert_zero(block, 5 * SMM_MIB + smm_os_page_size(), usable(block));
    release(block);
}

/* ---- Resizing ---- */

static void a_block_grows_in_place_up_to_its_reservation(void **state)
{
    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    fill(block, 0, usable(block));
    const size_t first = usable(block);
    assert_ptr_equal(resize(block, 3 * SMM_MIB, 0), block);
    assert_int_equal(usable(block), smm_large_good_size(3 * SMM_MIB));
    assert_filled(block, 0, first);
    assert_zero(block, first, usable(block));
    const size_t room = header(block)->reserved - HEADER;
    assert_ptr_equal(resize(block, room, 0), block);
    assert_int_equal(usable(block), room);
    assert_filled(block, 0, first);
    assert_zero(block, first, usable(block));
    assert_int_equal(live_bytes(), room);
    char *const moved = resize(block, room + 1, 0);
    assert_non_null(moved);
    assert_ptr_not_equal(moved, block);
    release(moved);
}

static void a_block_that_shrinks_a_little_stays_as_it_is(void **state)
{
    (void)state;
    char *const block = alloc(8 * SMM_MIB);
    const size_t before = usable(block);
    assert_ptr_equal(resize(block, before - 1, 0), block);
    assert_ptr_equal(resize(block, before / 2 + smm_os_page_size(), 0), block);
    assert_int_equal(usable(block), before);
    release(block);
}

static void a_block_that_shrinks_below_half_returns_its_tail(void **state)
{
    (void)state;
    char *const block = alloc(8 * SMM_MIB);
    fill(block, 0, usable(block));
    assert_ptr_equal(resize(block, 2 * SMM_MIB, 0), block);
    assert_int_equal(usable(block), smm_large_good_size(2 * SMM_MIB));
    assert_int_equal(header(block)->dirty, usable(block) + HEADER);
    assert_int_equal(live_bytes(), usable(block));
    const size_t kept = usable(block);
    assert_ptr_equal(resize(block, 8 * SMM_MIB, 0), block);
    assert_filled(block, 0, kept);
    assert_zero(block, kept, usable(block));
    release(block);
}

static void a_move_keeps_the_contents_and_the_zero_tail(void **state)
{
    (void)state;
    char *block = alloc(2 * SMM_MIB);
    size_t filled = usable(block);
    fill(block, 0, filled);
    for (size_t size = 20 * SMM_MIB; size <= 180 * SMM_MIB; size *= 3) {
        char *const old = block;
        block = resize(block, size, size / 16);
        assert_non_null(block);
        assert_ptr_not_equal(block, old);
        assert_int_equal(smm_kind_of(old), SMM_KIND_NONE);
        assert_int_equal(usable(block), smm_large_good_size(size));
        /* A sixteenth more is writable, and addresses for twice as much are there. */
        assert_true(header(block)->writable >= size + size / 16);
        assert_true(header(block)->reserved >= 2 * header(block)->writable);
        assert_filled(block, 0, filled);
        assert_zero(block, filled, usable(block));
        assert_int_equal(smm_large_verify(), 0);
        assert_int_equal(live_blocks(), 1);
        assert_int_equal(live_bytes(), usable(block));
        /* A part only, so that the next round finds zeros behind it; huge pages make the rest expensive. */
        fill(block, filled, filled + SMM_MIB);
        filled += SMM_MIB;
    }
    release(block);
}

static void an_aligned_block_does_not_move_by_pages(void **state)
{
    size_t dirty;

    (void)state;
    char *const block = smm_large_alloc(2 * SMM_MIB, SMM_MIB, &dirty);
    assert_non_null(block);
    fill(block, 0, usable(block));
    const size_t room = 16 * SMM_MIB - SMM_MIB;
    assert_ptr_equal(resize(block, room, 0), block);
    assert_int_equal(usable(block), room);
    assert_null(resize(block, room + 1, 0));
    assert_int_equal(usable(block), room);
    assert_filled(block, 0, 2 * SMM_MIB);
    release(block);
}

/* ---- Marks ---- */

static void a_second_free_is_found_while_the_block_is_cached(void **state)
{
    enum smm_fault fault = SMM_FAULT_NONE;

    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    release(block);
    assert_int_equal(smm_large_free(block), SMM_FAULT_FREED);
    assert_null(smm_large_resize(block, 3 * SMM_MIB, 0, &fault));
    assert_int_equal(fault, SMM_FAULT_FREED);
    assert_int_equal(smm_large_usable(block, &fault), 0);
    assert_int_equal(fault, SMM_FAULT_FREED);
    assert_int_equal(cached_blocks(), 1);
}

static void the_inside_of_a_block_is_no_block(void **state)
{
    enum smm_fault fault = SMM_FAULT_NONE;
    size_t dirty;

    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    assert_int_equal(smm_large_free(block + 16), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_large_free(block - HEADER), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_large_usable(block + SMM_MIB, &fault), 0);
    assert_int_equal(fault, SMM_FAULT_INTERIOR);
    assert_null(smm_large_resize(block + 64, 3 * SMM_MIB, 0, &fault));
    assert_int_equal(fault, SMM_FAULT_INTERIOR);
    /* What lies beyond the first slot is known to nobody. */
    char *const big = alloc(10 * SMM_MIB);
    assert_int_equal(smm_kind_of(big + 5 * SMM_MIB), SMM_KIND_NONE);
    char *const aligned = smm_large_alloc(2 * SMM_MIB, SMM_SLOT_SIZE, &dirty);
    assert_non_null(aligned);
    assert_int_equal(smm_kind_of(aligned), SMM_KIND_LARGE_NEXT);
    assert_int_equal(smm_large_free(aligned + 16), SMM_FAULT_INTERIOR);
    assert_int_equal(smm_large_free(aligned - SMM_SLOT_SIZE), SMM_FAULT_INTERIOR);
    release(aligned);
    release(big);
    release(block);
}

static void an_overwritten_mark_is_found(void **state)
{
    enum smm_fault fault = SMM_FAULT_NONE;

    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    const uint64_t mark = smm_load_relaxed(&header(block)->mark);
    smm_store_relaxed(&header(block)->mark, mark ^ 1);
    assert_int_equal(smm_large_free(block), SMM_FAULT_OVERWRITTEN);
    assert_int_equal(smm_large_usable(block, &fault), 0);
    assert_int_equal(fault, SMM_FAULT_OVERWRITTEN);
    assert_int_not_equal(smm_large_verify(), 0);
    smm_store_relaxed(&header(block)->mark, mark);
    release(block);
}

static void a_header_copied_elsewhere_is_no_mark(void **state)
{
    (void)state;
    char *const block = alloc(2 * SMM_MIB);
    char *const other = alloc(2 * SMM_MIB);
    const uint64_t mark = smm_load_relaxed(&header(block)->mark);
    smm_store_relaxed(&header(block)->mark, smm_load_relaxed(&header(other)->mark));
    assert_int_equal(smm_large_free(block), SMM_FAULT_OVERWRITTEN);
    smm_store_relaxed(&header(block)->mark, mark);
    release(block);
    release(other);
}

static pthread_barrier_t barrier;

static void *free_at_once(void *block)
{
    pthread_barrier_wait(&barrier);
    return (void *)(uintptr_t)smm_large_free(block);
}

static void of_two_threads_that_free_a_block_one_is_told(void **state)
{
    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    for (unsigned round = 0; round < 300; round++) {
        char *const block = alloc(2 * SMM_MIB);
        const pthread_t thread = thread_start(free_at_once, block);
        const uintptr_t mine = (uintptr_t)free_at_once(block);
        const uintptr_t its = (uintptr_t)thread_end(thread);
        assert_true(mine == SMM_FAULT_NONE ? its == SMM_FAULT_FREED : mine == SMM_FAULT_FREED && its == SMM_FAULT_NONE);
        assert_int_equal(cached_blocks(), 1);
    }
    pthread_barrier_destroy(&barrier);
}

/* ---- Threads ---- */

static _Atomic(bool) stop;

static void *allocate_and_free(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    uintptr_t errors = 0;

    while (!smm_load_relaxed(&stop) && errors == 0) {
        enum smm_fault fault = SMM_FAULT_NONE;
        size_t dirty;
        size_t size = SMM_MIB + 1 + random_below(&seed, 3 * SMM_MIB);
        char *block = smm_large_alloc(size, random_below(&seed, 8) ? 16 : 4096, &dirty);
        EXPECT(errors, block != NULL);
        if (block == NULL)
            break;
        block[0] = block[size - 1] = (char)size;
        if (random_below(&seed, 4) == 0) {
            const size_t larger = size + random_below(&seed, 20 * SMM_MIB);
            char *const resized = smm_large_resize(block, larger, 0, &fault);
            EXPECT(errors, fault == SMM_FAULT_NONE);
            if (resized != NULL) {
                block = resized;
                EXPECT(errors, block[size - 1] == (char)size);
                block[larger - 1] = 1;
                EXPECT(errors, block[0] == (char)size || larger == 1);
            }
        }
        EXPECT(errors, smm_large_free(block) == SMM_FAULT_NONE);
        if (random_below(&seed, 64) == 0)
            (void)smm_large_cache_trim(UINT64_MAX, 0);
    }
    return ERRORS(errors);
}

static void three_threads_share_the_cache(void **state)
{
    pthread_t threads[3];

    (void)state;
    smm_store_relaxed(&stop, false);
    smm_store_relaxed(&smm_large_cache_settings.blocks, 4);
    for (uintptr_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = thread_start(allocate_and_free, (void *)(i + 1));
    sleep_ms(700);
    smm_store_relaxed(&stop, true);
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        assert_no_errors(thread_end(threads[i]));
    assert_int_equal(smm_large_verify(), 0);
    assert_true(cached_blocks() <= 4);
    (void)smm_large_cache_trim(UINT64_MAX, 0);
    assert_int_equal(cached_blocks(), 0);
    assert_int_equal(cached_bytes(), 0);
}

#define large_test(name) cmocka_unit_test_setup_teardown(name, fresh_cache, verified)

int main(void)
{
    const struct CMUnitTest tests[] = {
        large_test(the_usable_size_is_the_good_size),
        large_test(a_reservation_has_room_to_grow),
        large_test(a_new_block_is_zero_and_a_reused_one_tells_how_much_is_not),
        large_test(blocks_lie_at_multiples_of_their_alignment),
        large_test(the_smallest_block_with_enough_memory_is_chosen),
        large_test(a_block_whose_reservation_is_too_small_is_not_chosen),
        large_test(the_oldest_goes_when_there_are_too_many),
        large_test(the_oldest_go_when_there_are_too_many_bytes),
        large_test(without_slots_every_block_goes_back_at_once),
        large_test(trimming_returns_what_has_aged),
        large_test(much_more_memory_than_asked_for_goes_back),
        large_test(a_block_grows_in_place_up_to_its_reservation),
        large_test(a_block_that_shrinks_a_little_stays_as_it_is),
        large_test(a_block_that_shrinks_below_half_returns_its_tail),
        large_test(a_move_keeps_the_contents_and_the_zero_tail),
        large_test(an_aligned_block_does_not_move_by_pages),
        large_test(a_second_free_is_found_while_the_block_is_cached),
        large_test(the_inside_of_a_block_is_no_block),
        large_test(an_overwritten_mark_is_found),
        large_test(a_header_copied_elsewhere_is_no_mark),
        large_test(of_two_threads_that_free_a_block_one_is_told),
        large_test(three_threads_share_the_cache),
    };
    return cmocka_run_group_tests(tests, segment_map_setup, NULL);
}
