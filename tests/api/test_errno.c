/* SPDX-License-Identifier: MIT */
/* test_errno.c - calls that free never change errno, whatever system calls they make inside, and calls that
 * return memory leave it alone when they succeed. */
#include <errno.h>

#include "../common/support.h"

enum { MARK = 12345 };

static const size_t sizes[] = {
    0, 1, 16, 128, 129, 2048, 2049, SMALL_MAX, SMALL_MAX + 1, PAGE_BYTES, MEDIUM_MAX, MEDIUM_MAX + 1,
    SEGMENT_BYTES, RESERVATION_MIN, RESERVATION_MIN + 1, 64 * MIB, 128 * MIB + 1, 200 * MIB,
};

static void allocating_each_kind_leaves_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *result = NULL;
        void *block;

        errno = MARK;
        block = shardmm_malloc(sizes[i]);
        assert_non_null(block);
        assert_int_equal(errno, MARK);
        shardmm_free(block);

        errno = MARK;
        block = shardmm_calloc(1, sizes[i]);
        assert_non_null(block);
        assert_int_equal(errno, MARK);
        shardmm_free(block);

        errno = MARK;
        block = shardmm_aligned_alloc(PAGE_BYTES, sizes[i]);
        assert_non_null(block);
        assert_int_equal(errno, MARK);
        shardmm_free(block);

        errno = MARK;
        assert_int_equal(shardmm_posix_memalign(&result, 4096, sizes[i]), 0);
        assert_int_equal(errno, MARK);
        shardmm_free(result);
    }
}

static void freeing_each_kind_leaves_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *block = shardmm_malloc(sizes[i]);
        assert_non_null(block);
        errno = MARK;
        shardmm_free(block);
        assert_int_equal(errno, MARK);

        block = shardmm_malloc(sizes[i]);
        assert_non_null(block);
        errno = MARK;
        shardmm_free_sized(block, sizes[i]);
        assert_int_equal(errno, MARK);

        block = shardmm_aligned_alloc(PAGE_BYTES, sizes[i]);
        assert_non_null(block);
        errno = MARK;
        shardmm_free_aligned_sized(block, PAGE_BYTES, sizes[i]);
        assert_int_equal(errno, MARK);

        block = shardmm_malloc(sizes[i]);
        assert_non_null(block);
        errno = MARK;
        assert_null(shardmm_realloc(block, 0));
        assert_int_equal(errno, MARK);
    }
    errno = MARK;
    shardmm_free(NULL);
    assert_int_equal(errno, MARK);
}

static void resizing_between_kinds_leaves_errno(void **state)
{
    (void)state;
    for (size_t from = 1; from < COUNT_OF(sizes); from++) {
        for (size_t to = 1; to < COUNT_OF(sizes); to++) {
            void *block = shardmm_malloc(sizes[from]);
            assert_non_null(block);
            errno = MARK;
            block = shardmm_realloc(block, sizes[to]);
            assert_non_null(block);
            assert_int_equal(errno, MARK);
            shardmm_free(block);
            assert_int_equal(errno, MARK);
        }
    }
}

/* Many blocks, so that whole pages, arenas and reservations go back to the system inside of free. */
static void freeing_much_memory_leaves_errno(void **state)
{
    enum { BYTES = 24 * 1024 * 1024 };
    static void *blocks[BYTES / 1000];
    static const size_t each[] = {1000, SMALL_MAX, 20000, 300000, 2 * MIB};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(each); i++) {
        const size_t count = BYTES / each[i];
        for (size_t j = 0; j < count; j++)
            assert_non_null(blocks[j] = filled_block(each[i], j));
        errno = MARK;
        for (size_t j = 0; j < count; j++)
            shardmm_free(blocks[j]);
        assert_int_equal(errno, MARK);
    }
}

/* More large blocks than the cache holds, and more bytes. */
static void freeing_more_large_blocks_than_are_cached_leaves_errno(void **state)
{
    void *blocks[50];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = shardmm_malloc(6 * MIB));
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        errno = MARK;
        shardmm_free(blocks[i]);
        assert_int_equal(errno, MARK);
    }
}

static void purging_and_flushing_leave_errno(void **state)
{
    void *blocks[64];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = filled_block((i + 1) * 50000, i));
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        shardmm_free(blocks[i]);
    errno = MARK;
    shardmm_thread_flush();
    assert_int_equal(errno, MARK);
    (void)shardmm_purge();
    assert_int_equal(errno, MARK);
}

static void *first_calls(void *block)
{
    unsigned errors = 0;
    void *first;

    errno = MARK;
    shardmm_free(block); /* a foreign free by a thread without a heap */
    EXPECT(errors, errno == MARK);
    first = shardmm_malloc(100);
    EXPECT(errors, first != NULL && errno == MARK);
    shardmm_free(first);
    EXPECT(errors, errno == MARK);
    return ERRORS(errors);
}

static void the_first_calls_of_a_thread_leave_errno(void **state)
{
    (void)state;
    for (size_t i = 1; i < COUNT_OF(sizes); i++)
        assert_no_errors(in_thread(first_calls, shardmm_malloc(sizes[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocating_each_kind_leaves_errno),
        cmocka_unit_test(freeing_each_kind_leaves_errno),
        cmocka_unit_test(resizing_between_kinds_leaves_errno),
        cmocka_unit_test(freeing_much_memory_leaves_errno),
        cmocka_unit_test(freeing_more_large_blocks_than_are_cached_leaves_errno),
        cmocka_unit_test(purging_and_flushing_leave_errno),
        cmocka_unit_test(the_first_calls_of_a_thread_leave_errno),
    };
    return cmocka_run_group_tests_name("errno", tests, NULL, NULL);
}
