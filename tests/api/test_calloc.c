/* SPDX-License-Identifier: MIT */
/* test_calloc.c - memory of calloc is zero, wherever it comes from: what a test dirtied may have stayed
 * with the heap, gone to the system and come back, or been merged with the links and headers of others. */
#include <errno.h>
#include <sys/mman.h>

#include "../common/support.h"
#include "../common/system_calls.h"

static void dirty(void *block, size_t size)
{
    assert_non_null(block);
    memset(block, 0xA5, size);
}

/* `count` dirty blocks of `size` bytes, then as many by calloc. Several at once, so that the second round
 * gets blocks that lay in the middle of lists. */
static void check_reuse(size_t size, size_t count, void (*between)(void))
{
    static void *blocks[256];
    assert_true(count <= COUNT_OF(blocks));

    for (size_t i = 0; i < count; i++)
        dirty(blocks[i] = shardmm_malloc(size), size);
    for (size_t i = 0; i < count; i++)
        shardmm_free(blocks[i]);
    if (between != NULL)
        between();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 2 == 0 ? shardmm_calloc(1, size) : shardmm_calloc(size, 1);
        assert_non_null(blocks[i]);
        assert_true(bytes_are_zero(blocks[i], size));
        dirty(blocks[i], size);
    }
    for (size_t i = 0; i < count; i++)
        shardmm_free(blocks[i]);
}

static void dirty_blocks_of_every_class_come_back_zero(void **state)
{
    (void)state;
    for (int i = 0; i < CLASS_COUNT; i++) {
        const size_t smallest = i == 0 ? 1 : class_size[i - 1] + 1;
        check_reuse(class_size[i], 200, NULL);
        check_reuse(smallest, 200, NULL);
    }
}

static void one_dirty_block_of_every_size_up_to_2_KiB_comes_back_zero(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 2048; size++)
        check_reuse(size, 2, NULL);
}

static void dirty_medium_blocks_come_back_zero(void **state)
{
    (void)state;
    check_reuse(SMALL_MAX + 1, 100, NULL);
    check_reuse(40000, 100, NULL);
    check_reuse(PAGE_BYTES, 50, NULL);
    check_reuse(300001, 20, NULL);
    check_reuse(MEDIUM_MAX, 10, NULL);
}

static void dirty_large_blocks_come_back_zero(void **state)
{
    (void)state;
    check_reuse(MEDIUM_MAX + 1, 10, NULL);
    check_reuse(2 * MIB, 10, NULL);
    check_reuse(SEGMENT_BYTES + 1, 5, NULL);
    check_reuse(20 * MIB, 2, NULL);
}

static void purge(void)
{
    (void)shardmm_purge();
}

static void dirty_blocks_of_each_kind_come_back_zero_after_a_purge(void **state)
{
    static const size_t sizes[] = {64, 1024, 4096, SMALL_MAX, 20000, 100000, 700001, MEDIUM_MAX, 3 * MIB};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        check_reuse(sizes[i], sizes[i] > MEDIUM_MAX ? 5 : 200, purge);
}

/* The chunks between two live ones are merged, and what was written at their ends ends up inside of the block. */
static void ends_of_merged_medium_blocks_are_cleared(void **state)
{
    enum { PARTS = 10 };
    void *parts[PARTS + 2];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        dirty(parts[i] = shardmm_malloc(20 * KIB), 20 * KIB);
    for (size_t i = 1; i <= PARTS; i += 2)
        shardmm_free(parts[i]);
    for (size_t i = 2; i <= PARTS; i += 2)
        shardmm_free(parts[i]);
    for (size_t size = 30 * KIB; size <= 20 * KIB * PARTS; size += 7777) {
        void *const block = shardmm_calloc(1, size);
        assert_non_null(block);
        assert_true(bytes_are_zero(block, size));
        dirty(block, size);
        shardmm_free(block);
    }
    shardmm_free(parts[0]);
    shardmm_free(parts[PARTS + 1]);
}

/* The tails of shrunk blocks are free memory like any other. */
static void tails_of_shrunk_blocks_are_cleared(void **state)
{
    static const struct {
        size_t from, to, then;
    } cases[] = {
        {MEDIUM_MAX, 100000, 800000},
        {300000, 20000, 200000},
        {12 * MIB, 2 * MIB, 9 * MIB},
        {40 * MIB, 5 * MIB, 30 * MIB},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        void *block = shardmm_malloc(cases[i].from);
        dirty(block, cases[i].from);
        block = shardmm_realloc(block, cases[i].to);
        assert_non_null(block);

        void *const second = shardmm_calloc(1, cases[i].then);
        assert_non_null(second);
        assert_true(bytes_are_zero(second, cases[i].then));
        dirty(second, cases[i].then);
        shardmm_free(second);

        shardmm_free(block);
        block = shardmm_calloc(1, cases[i].from);
        assert_non_null(block);
        assert_true(bytes_are_zero(block, cases[i].from));
        shardmm_free(block);
    }
}

/* A block that grew in place and was dirtied to its new end. */
static void large_blocks_that_grew_before_they_were_freed_are_cleared(void **state)
{
    (void)state;
    for (size_t size = 2 * MIB; size <= 12 * MIB; size += 2 * MIB) {
        void *block = shardmm_realloc(shardmm_malloc(2 * MIB), size);
        dirty(block, size);
        shardmm_free(block);
        block = shardmm_calloc(1, size + MIB);
        assert_non_null(block);
        assert_true(bytes_are_zero(block, size + MIB));
        dirty(block, size + MIB);
        shardmm_free(block);
    }
}

static void fresh_blocks_of_each_kind_are_zero(void **state)
{
    static void *blocks[2000];
    size_t count = 0;
    (void)state;

    for (size_t size = 1; count < 1000; size += 29, count++) {
        blocks[count] = shardmm_calloc(size, 1);
        assert_non_null(blocks[count]);
        assert_true(bytes_are_zero(blocks[count], size));
    }
    for (size_t size = SMALL_MAX + 1; size < 9 * MIB; size += size / 3, count++) {
        blocks[count] = shardmm_calloc(1, size);
        assert_non_null(blocks[count]);
        assert_true(bytes_are_zero(blocks[count], size));
    }
    while (count > 0)
        shardmm_free(blocks[--count]);
}

enum { HANDED = 400 };
static void *handed[HANDED];

static size_t handed_size(size_t index)
{
    return index % 20 == 19 ? 30000 + index * 100 : index % 100 == 50 ? 2 * MIB : 16 + index * 16;
}

static void *free_handed(void *unused)
{
    for (size_t i = 0; i < HANDED; i++)
        shardmm_free(handed[i]);
    return unused;
}

static void blocks_freed_by_another_thread_come_back_zero(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < HANDED; i++)
            dirty(handed[i] = shardmm_malloc(handed_size(i)), handed_size(i));
        (void)in_thread(free_handed, NULL);
        for (size_t i = 0; i < HANDED; i++) {
            handed[i] = shardmm_calloc(1, handed_size(i));
            assert_non_null(handed[i]);
            assert_true(bytes_are_zero(handed[i], handed_size(i)));
            dirty(handed[i], handed_size(i));
        }
        for (size_t i = 0; i < HANDED; i++)
            shardmm_free(handed[i]);
    }
}

static void a_product_that_overflows_gives_null_and_ENOMEM(void **state)
{
    const size_t half = (size_t)1 << 32;
    const size_t cases[][2] = {
        {SIZE_MAX, SIZE_MAX}, {SIZE_MAX, 2}, {2, SIZE_MAX}, {half, half}, {SIZE_MAX / 2 + 1, 2},
        {3, SIZE_MAX / 2}, {SIZE_MAX / 16 + 1, 16}, {half + 1, half}, {SIZE_MAX / 3 + 2, 3},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        errno = 0;
        assert_null(shardmm_calloc(hidden_size(cases[i][0]), hidden_size(cases[i][1])));
        assert_int_equal(errno, ENOMEM);
    }
}

static void a_product_of_0_gives_a_block_that_may_be_freed(void **state)
{
    void *const a = shardmm_calloc(0, 16);
    void *const b = shardmm_calloc(16, 0);
    void *const c = shardmm_calloc(0, hidden_size(SIZE_MAX));
    (void)state;

    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    shardmm_free(a);
    shardmm_free(b);
    shardmm_free(c);
}

#ifndef SHARDMM_TEST_LIBC

static void wait_for_the_delay(void)
{
    sleep_ms(60);
    /* Slow paths of all kinds look at the clock. */
    for (int i = 0; i < CLASS_COUNT; i++)
        shardmm_free(shardmm_malloc(class_size[i]));
    shardmm_free(shardmm_malloc(50000));
    shardmm_free(shardmm_malloc(5 * MIB));
}

static void dirty_blocks_of_each_kind_come_back_zero_after_the_purge_delay(void **state)
{
    static const size_t sizes[] = {64, 4096, SMALL_MAX, 20000, 300001, MEDIUM_MAX, 3 * MIB};
    int64_t delay = 0;
    (void)state;

    assert_int_equal(shardmm_option_get("purge_delay", &delay), 0);
    assert_int_equal(shardmm_option_set("purge_delay", 20), 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        check_reuse(sizes[i], sizes[i] > MEDIUM_MAX ? 5 : 200, wait_for_the_delay);
    assert_int_equal(shardmm_option_set("purge_delay", delay), 0);
}

/* The kernel refuses to drop pages that are locked into memory: then the old contents stay, and whoever
 * takes memory that was "given back" for fresh hands out dirt. */
static void lock_and_reuse(void *unused)
{
    enum { COUNT = 100 };
    static const size_t sizes[] = {128, 4096, SMALL_MAX, 20000, 200000, MEDIUM_MAX};
    static void *blocks[COUNT_OF(sizes)][COUNT];
    static void *large[4];
    (void)unused;

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[s][i] = shardmm_malloc(sizes[s]);
            CHILD_CHECK(blocks[s][i] != NULL);
            memset(blocks[s][i], 0x5A, sizes[s]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        large[i] = shardmm_malloc(5 * MIB);
        CHILD_CHECK(large[i] != NULL);
        memset(large[i], 0x5A, 5 * MIB);
    }
    if (mlockall(MCL_CURRENT) != 0)
        _exit(0); /* only with the right to lock this much */

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (size_t i = 0; i < COUNT; i++)
            shardmm_free(blocks[s][i]);
    }
    for (size_t i = 0; i < COUNT_OF(large); i++)
        shardmm_free(large[i]);
    (void)shardmm_purge();

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[s][i] = shardmm_calloc(1, sizes[s]);
            CHILD_CHECK(blocks[s][i] != NULL && bytes_are_zero(blocks[s][i], sizes[s]));
        }
    }
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        large[i] = shardmm_calloc(1, 5 * MIB);
        CHILD_CHECK(large[i] != NULL && bytes_are_zero(large[i], 5 * MIB));
    }
}

static void dirt_does_not_come_back_when_the_kernel_refuses_to_drop_pages(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(lock_and_reuse, NULL, 30);
}

/* Some systems that run Linux programs take MADV_DONTNEED for a hint: it succeeds, and the contents stay. The
 * library finds out once in a process, hence a new one. */
static const char reuse_what_stayed[] = "reuse-what-stayed";

static int run_on_a_system_that_keeps_contents(void)
{
    enum { COUNT = 400 };
    static const size_t sizes[] = {64, 1024, SMALL_MAX, 20000, 500 * KIB, MEDIUM_MAX, 3 * MIB, 20 * MIB};
    static void *blocks[COUNT];

    for (int round = 0; round < 2; round++) {
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            const size_t count = sizes[s] > SMALL_MAX ? 4 * MIB / sizes[s] + 2 : COUNT;
            for (size_t i = 0; i < count; i++) {
                blocks[i] = shardmm_calloc(1, sizes[s]);
                CHILD_CHECK(blocks[i] != NULL && bytes_are_zero(blocks[i], sizes[s]));
                memset(blocks[i], 0x5A, sizes[s]);
            }
            /* Large ones shrink first, which returns their tails. */
            for (size_t i = 0; i < count; i++)
                shardmm_free(sizes[s] > MEDIUM_MAX ? shardmm_realloc(blocks[i], sizes[s] / 3) : blocks[i]);
            if (round == 0)
                (void)shardmm_purge();
            else
                shardmm_thread_flush();
        }
    }
    return 0;
}

static void start_on_a_system_that_keeps_contents(void *unused)
{
    (void)unused;
    system_call_with_answers(SYS_madvise, 2, MADV_DONTNEED, 0);
    start_again(reuse_what_stayed);
}

static void dirt_does_not_come_back_when_the_system_keeps_what_it_should_drop(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(start_on_a_system_that_keeps_contents, NULL, 30);
}

#endif

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_blocks_of_each_kind_are_zero),
        cmocka_unit_test(dirty_blocks_of_every_class_come_back_zero),
        cmocka_unit_test(one_dirty_block_of_every_size_up_to_2_KiB_comes_back_zero),
        cmocka_unit_test(dirty_medium_blocks_come_back_zero),
        cmocka_unit_test(dirty_large_blocks_come_back_zero),
        cmocka_unit_test(dirty_blocks_of_each_kind_come_back_zero_after_a_purge),
        cmocka_unit_test(ends_of_merged_medium_blocks_are_cleared),
        cmocka_unit_test(tails_of_shrunk_blocks_are_cleared),
        cmocka_unit_test(large_blocks_that_grew_before_they_were_freed_are_cleared),
        cmocka_unit_test(blocks_freed_by_another_thread_come_back_zero),
        cmocka_unit_test(a_product_that_overflows_gives_null_and_ENOMEM),
        cmocka_unit_test(a_product_of_0_gives_a_block_that_may_be_freed),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(dirty_blocks_of_each_kind_come_back_zero_after_the_purge_delay),
        cmocka_unit_test(dirt_does_not_come_back_when_the_kernel_refuses_to_drop_pages),
        cmocka_unit_test(dirt_does_not_come_back_when_the_system_keeps_what_it_should_drop),
#endif
    };

#ifndef SHARDMM_TEST_LIBC
    if (count == 2 && strcmp(arguments[1], reuse_what_stayed) == 0)
        return run_on_a_system_that_keeps_contents();
#else
    (void)count, (void)arguments;
#endif
    return cmocka_run_group_tests_name("calloc", tests, NULL, NULL);
}
