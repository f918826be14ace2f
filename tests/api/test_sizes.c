/* SPDX-License-Identifier: MIT */
/* test_sizes.c - blocks of every size: alignment, overlap, the class or kind that serves them, and what
 * usable_size and good_size say of them. */
#include "../common/support.h"

static void fill_and_keep(void **blocks, size_t index, size_t size)
{
    blocks[index] = filled_block(size, index);
    assert_non_null(blocks[index]);
    assert_true(is_aligned(blocks[index], 16));
    assert_true(shardmm_usable_size(blocks[index]) >= size);
}

static void one_block_of_every_size_up_to_16_KiB_lives_at_once(void **state)
{
    static void *blocks[SMALL_MAX + 1];
    (void)state;

    for (size_t size = 1; size <= SMALL_MAX; size++)
        fill_and_keep(blocks, size, size);
    for (size_t size = 1; size <= SMALL_MAX; size++)
        assert_true(pattern_holds(blocks[size], size, size));
    /* Every other one first: the lists of free items get holes. */
    for (size_t size = 1; size <= SMALL_MAX; size += 2)
        shardmm_free(blocks[size]);
    for (size_t size = 2; size <= SMALL_MAX; size += 2) {
        assert_true(pattern_holds(blocks[size], size, size));
        shardmm_free(blocks[size]);
    }
}

static void medium_sizes_from_16_KiB_to_1_MiB_live_at_once(void **state)
{
    static void *blocks[512];
    size_t count = 0;
    (void)state;

    for (size_t size = SMALL_MAX - 1; size <= MEDIUM_MAX + 2; size += 4099)
        fill_and_keep(blocks, count++, size);
    for (size_t i = 0; i < count; i += 2) {
        assert_true(pattern_holds(blocks[i], SMALL_MAX - 1 + i * 4099, i));
        shardmm_free(blocks[i]);
    }
    for (size_t i = 1; i < count; i += 2) {
        assert_true(pattern_holds(blocks[i], SMALL_MAX - 1 + i * 4099, i));
        shardmm_free(blocks[i]);
    }
}

static const size_t around_the_thresholds[] = {
    1, 2, 15, 16, 17, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 8191, 8192, 8193,
    SMALL_MAX - 1, SMALL_MAX, SMALL_MAX + 1, SMALL_MAX + 16, SMALL_MAX + 17,
    PAGE_BYTES - 17, PAGE_BYTES - 16, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1,
    MEDIUM_MAX - 17, MEDIUM_MAX - 16, MEDIUM_MAX - 1, MEDIUM_MAX, MEDIUM_MAX + 1, MEDIUM_MAX + 16,
    2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB + 5,
    SEGMENT_BYTES - 4096, SEGMENT_BYTES - 64, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1,
    8 * MIB - 1, 8 * MIB, 8 * MIB + 1, RESERVATION_MIN - 4096, RESERVATION_MIN - 1, RESERVATION_MIN,
    RESERVATION_MIN + 1, 33 * MIB + 3,
};

static void sizes_around_every_threshold_live_at_once(void **state)
{
    void *blocks[COUNT_OF(around_the_thresholds)];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        fill_and_keep(blocks, i, around_the_thresholds[i]);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        assert_true(pattern_holds(blocks[i], around_the_thresholds[i], i));
        shardmm_free(blocks[i]);
    }
}

static void every_usable_byte_may_be_written(void **state)
{
    void *blocks[COUNT_OF(around_the_thresholds)];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        blocks[i] = shardmm_malloc(around_the_thresholds[i]);
        assert_non_null(blocks[i]);
        pattern_fill(blocks[i], shardmm_usable_size(blocks[i]), i);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        assert_true(pattern_holds(blocks[i], shardmm_usable_size(blocks[i]), i));
        shardmm_free(blocks[i]);
    }
}

static void a_block_of_0_bytes_is_a_block_of_its_own(void **state)
{
    void *const a = shardmm_malloc(0);
    void *const b = shardmm_malloc(0);
    (void)state;

    assert_non_null(a);
    assert_non_null(b);
    assert_true(address_of(a) != address_of(b));
    assert_true(is_aligned(a, 16) && is_aligned(b, 16));
    shardmm_free(a);
    shardmm_free(b);
}

static void null_may_be_freed_and_has_no_usable_size(void **state)
{
    (void)state;
    shardmm_free(NULL);
    assert_int_equal(shardmm_usable_size(NULL), 0);
}

#ifndef SHARDMM_TEST_LIBC

static void small_usable_size_is_the_smallest_class_that_holds_the_request(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMALL_MAX; size++) {
        void *const block = shardmm_malloc(size);
        assert_non_null(block);
        assert_int_equal(shardmm_usable_size(block), class_size_for(size));
        shardmm_free(block);
    }
}

static void check_good_size(const void *block, size_t size)
{
    assert_non_null(block);
    assert_int_equal(shardmm_usable_size(block), shardmm_good_size(size));
}

static void good_size_is_the_usable_size_of_malloc(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMALL_MAX + 300; size++) {
        void *const block = shardmm_malloc(size);
        check_good_size(block, size);
        shardmm_free(block);
    }
    for (size_t i = 0; i < COUNT_OF(around_the_thresholds); i++) {
        void *const block = shardmm_malloc(around_the_thresholds[i]);
        check_good_size(block, around_the_thresholds[i]);
        shardmm_free(block);
    }
}

static void good_size_is_the_usable_size_of_malloc_also_when_memory_is_reused(void **state)
{
    void *blocks[64];
    size_t sizes[64];
    void *block;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        blocks[i] = shardmm_malloc(sizes[i] = SMALL_MAX + 400 + i * 3001);
        assert_non_null(blocks[i]);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i += 2)
        shardmm_free(blocks[i]);
    for (size_t i = 0; i < COUNT_OF(blocks); i += 2)
        blocks[i] = shardmm_malloc(sizes[i] -= 128 + i);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        check_good_size(blocks[i], sizes[i]);
        shardmm_free(blocks[i]);
    }

    block = shardmm_malloc(14 * MIB);
    check_good_size(block, 14 * MIB);
    shardmm_free(block);
    block = shardmm_malloc(12 * MIB + 1);
    check_good_size(block, 12 * MIB + 1);
    shardmm_free(block);
}

static void asking_for_the_good_size_gives_exactly_that(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(around_the_thresholds); i++) {
        const size_t good = shardmm_good_size(around_the_thresholds[i]);
        assert_true(good >= around_the_thresholds[i]);
        assert_int_equal(shardmm_good_size(good), good);
    }
}

static void good_size_is_0_above_PTRDIFF_MAX(void **state)
{
    (void)state;
    assert_int_equal(shardmm_good_size((size_t)PTRDIFF_MAX + 1), 0);
    assert_int_equal(shardmm_good_size(SIZE_MAX - 15), 0);
    /* Where the size is not, but what it is rounded up to. Seen to fail when only the size was looked at. */
    assert_int_equal(shardmm_good_size((size_t)PTRDIFF_MAX), 0);
    assert_int_equal(shardmm_good_size(SIZE_MAX), 0);
}

static void check_kind(size_t size, uint64_t small, uint64_t medium, uint64_t large)
{
    const struct shardmm_stats before = stats_now();
    void *const block = shardmm_malloc(size);
    const struct shardmm_stats after = stats_now();

    assert_non_null(block);
    assert_int_equal(after.small_blocks - before.small_blocks, small);
    assert_int_equal(after.medium_blocks - before.medium_blocks, medium);
    assert_int_equal(after.large_blocks - before.large_blocks, large);
    assert_int_equal(after.small_bytes - before.small_bytes, small * shardmm_usable_size(block));
    assert_int_equal(after.medium_bytes - before.medium_bytes, medium * shardmm_usable_size(block));
    assert_int_equal(after.large_bytes - before.large_bytes, large * shardmm_usable_size(block));
    shardmm_free(block);
    assert_same_in_use(before);
}

static void the_kinds_meet_at_16_KiB_and_1_MiB(void **state)
{
    (void)state;
    check_kind(1, 1, 0, 0);
    check_kind(SMALL_MAX, 1, 0, 0);
    check_kind(SMALL_MAX + 1, 0, 1, 0);
    check_kind(MEDIUM_MAX, 0, 1, 0);
    check_kind(MEDIUM_MAX + 1, 0, 0, 1);
    check_kind(100 * MIB, 0, 0, 1);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_block_of_every_size_up_to_16_KiB_lives_at_once),
        cmocka_unit_test(medium_sizes_from_16_KiB_to_1_MiB_live_at_once),
        cmocka_unit_test(sizes_around_every_threshold_live_at_once),
        cmocka_unit_test(every_usable_byte_may_be_written),
        cmocka_unit_test(a_block_of_0_bytes_is_a_block_of_its_own),
        cmocka_unit_test(null_may_be_freed_and_has_no_usable_size),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(small_usable_size_is_the_smallest_class_that_holds_the_request),
        cmocka_unit_test(good_size_is_the_usable_size_of_malloc),
        cmocka_unit_test(good_size_is_the_usable_size_of_malloc_also_when_memory_is_reused),
        cmocka_unit_test(asking_for_the_good_size_gives_exactly_that),
        cmocka_unit_test(good_size_is_0_above_PTRDIFF_MAX),
        cmocka_unit_test(the_kinds_meet_at_16_KiB_and_1_MiB),
#endif
    };
    return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
