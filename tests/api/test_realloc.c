/* SPDX-License-Identifier: MIT */
/* test_realloc.c - contents survive every change of size, and the rules for keeping the address hold at
 * their exact boundaries. */
#define _GNU_SOURCE /* mremap() */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../common/support.h"

static const size_t sizes[] = {
    1, 15, 16, 17, 48, 100, 128, 129, 500, 1024, 1025, 2048, 2049, 4000, 4096, 8192, 8193,
    12288, SMALL_MAX - 1, SMALL_MAX, SMALL_MAX + 1, 20000, 40000, PAGE_BYTES - 16, PAGE_BYTES, PAGE_BYTES + 1,
    100000, 250000, 524288, 1000000, MEDIUM_MAX - 1, MEDIUM_MAX, MEDIUM_MAX + 1, 1500000, 2 * MIB,
    3 * MIB + 7, SEGMENT_BYTES, 5 * MIB, RESERVATION_MIN - 64, RESERVATION_MIN + 1, 20 * MIB,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void contents_survive_between_every_pair_of_sizes(void **state)
{
    (void)state;
    for (size_t from = 0; from < COUNT_OF(sizes); from++) {
        for (size_t to = 0; to < COUNT_OF(sizes); to++) {
            const uint64_t seed = from * 100 + to;
            void *block = filled_block(sizes[from], seed);
            assert_non_null(block);
            block = shardmm_realloc(block, sizes[to]);
            assert_non_null(block);
            assert_true(is_aligned(block, 16));
            assert_true(shardmm_usable_size(block) >= sizes[to]);
            assert_true(pattern_holds(block, smaller(sizes[from], sizes[to]), seed));
            /* The new last byte is there. */
            ((volatile unsigned char *)block)[sizes[to] - 1] = 1;
            shardmm_free(block);
        }
    }
}

static void contents_survive_a_walk_through_all_sizes_and_back(void **state)
{
    void *block = filled_block(sizes[0], 9);
    (void)state;

    assert_non_null(block);
    for (size_t i = 1; i < COUNT_OF(sizes); i++) {
        block = shardmm_realloc(block, sizes[i]);
        assert_non_null(block);
        assert_true(pattern_holds(block, sizes[i - 1], 9));
        pattern_fill_from(block, sizes[i - 1], sizes[i], 9);
    }
    for (size_t i = COUNT_OF(sizes) - 1; i-- > 0;) {
        block = shardmm_realloc(block, sizes[i]);
        assert_non_null(block);
        assert_true(pattern_holds(block, sizes[i], 9));
    }
    shardmm_free(block);
}

static void growing_byte_by_byte_to_70000_keeps_contents_and_moves_seldom(void **state)
{
    const size_t end = 70000;
    unsigned char *block = NULL;
    unsigned moves = 0;
    (void)state;

    for (size_t size = 1; size <= end; size++) {
        const uintptr_t before = address_of(block);
        block = shardmm_realloc(block, size);
        assert_non_null(block);
        if (address_of(block) != before) {
            moves++;
            for (size_t i = 0; i < size - 1; i++)
                assert_true(block[i] == (unsigned char)(i * 31 + (i >> 8)));
        }
        block[size - 1] = (unsigned char)((size - 1) * 31 + ((size - 1) >> 8));
    }
    for (size_t i = 0; i < end; i++)
        assert_true(block[i] == (unsigned char)(i * 31 + (i >> 8)));
#ifndef SHARDMM_TEST_LIBC
    /* By half up to 16 KiB (17 times from 16 bytes), by a quarter from there on (7 times). */
    assert_in_range(moves, 1, 40);
#endif
    shardmm_free(block);
}

/* Two buffers that grow by turns stand in each other's way. */
static void two_buffers_that_grow_by_turns_do_not_touch_each_other(void **state)
{
    unsigned char *buffers[2] = {NULL, NULL};
    size_t size = 0;
    (void)state;

    for (size_t next = 100; next < 3 * MIB; size = next, next += next / 7) {
        for (size_t i = 0; i < 2; i++) {
            buffers[i] = shardmm_realloc(buffers[i], next);
            assert_non_null(buffers[i]);
            assert_true(pattern_holds(buffers[i], size, i));
            pattern_fill_from(buffers[i], size, next, i);
        }
    }
    assert_true(pattern_holds(buffers[0], size, 0));
    shardmm_free(buffers[0]);
    shardmm_free(buffers[1]);
}

static void halving_from_20_MiB_to_1_byte_keeps_contents(void **state)
{
    void *block = filled_block(20 * MIB, 5);
    (void)state;

    assert_non_null(block);
    for (size_t size = 10 * MIB; size > 0; size /= 2) {
        block = shardmm_realloc(block, size);
        assert_non_null(block);
        assert_true(pattern_holds(block, size, 5));
    }
    shardmm_free(block);
}

/* Grown by quarters: beyond each reservation the pages move to another. */
static void growing_by_quarters_to_192_MiB_keeps_contents_and_neighbours(void **state)
{
    const size_t end = 192 * MIB;
    void *const below = filled_block(2 * MIB, 1);
    void *block = filled_block(MIB + 1, 2);
    void *const above = filled_block(2 * MIB, 3);
    size_t size = MIB + 1;
    (void)state;

    assert_non_null(block);
    while (size < end) {
        const size_t next = smaller(size + size / 4, end);
        block = shardmm_realloc(block, next);
        assert_non_null(block);
        /* The end of the old contents and the beginning; all of it once, below. */
        assert_true(pattern_holds(block, PAGE_BYTES, 2));
        pattern_fill_from(block, size, next, 2);
        size = next;
    }
    assert_true(pattern_holds(block, end, 2));
    assert_true(pattern_holds(below, 2 * MIB, 1));
    assert_true(pattern_holds(above, 2 * MIB, 3));
    shardmm_free(below);
    shardmm_free(block);
    shardmm_free(above);

    /* What the pages moved away from must not be handed out as memory that is there. */
    void *fresh[8];
    for (size_t i = 0; i < COUNT_OF(fresh); i++) {
        fresh[i] = shardmm_calloc(1, (i + 2) * 2 * MIB);
        assert_non_null(fresh[i]);
        assert_true(bytes_are_zero(fresh[i], (i + 2) * 2 * MIB));
        pattern_fill(fresh[i], (i + 2) * 2 * MIB, i);
    }
    for (size_t i = 0; i < COUNT_OF(fresh); i++) {
        assert_true(pattern_holds(fresh[i], (i + 2) * 2 * MIB, i));
        shardmm_free(fresh[i]);
    }
}

static void realloc_of_null_allocates(void **state)
{
    void *const none = shardmm_realloc(NULL, 0);
    (void)state;

    assert_non_null(none);
    shardmm_free(none);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = shardmm_realloc(NULL, sizes[i]);
        assert_non_null(block);
        assert_true(is_aligned(block, 16));
        assert_true(shardmm_usable_size(block) >= sizes[i]);
        shardmm_free(block);
    }
}

static void realloc_to_0_frees_and_returns_null(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = filled_block(sizes[i], i);
        assert_non_null(block);
        errno = 77;
        assert_null(shardmm_realloc(block, 0));
        assert_int_equal(errno, 77);
    }
}

static void failure_leaves_the_block_as_it_was(void **state)
{
    static const size_t too_much[] = {
        (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - 15, (size_t)1 << 47,
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = filled_block(sizes[i], i);
        assert_non_null(block);
        const size_t usable = shardmm_usable_size(block);
        for (size_t j = 0; j < COUNT_OF(too_much); j++) {
            errno = 0;
            assert_null(shardmm_realloc(block, hidden_size(too_much[j])));
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(shardmm_usable_size(block), usable);
        }
        assert_true(pattern_holds(block, sizes[i], i));
        shardmm_free(block);
    }
}

static void reallocarray_resizes_to_the_product(void **state)
{
    void *block = shardmm_reallocarray(NULL, 10, 100);
    (void)state;

    assert_non_null(block);
    pattern_fill(block, 1000, 1);
    block = shardmm_reallocarray(block, 1000, 1000);
    assert_non_null(block);
    assert_true(shardmm_usable_size(block) >= 1000000);
    assert_true(pattern_holds(block, 1000, 1));
    assert_null(shardmm_reallocarray(block, 0, 100));
}

static void reallocarray_that_overflows_leaves_the_block_as_it_was(void **state)
{
    const size_t half = (size_t)1 << 32;
    const size_t cases[][2] = {{SIZE_MAX, 2}, {2, SIZE_MAX}, {half, half}, {SIZE_MAX / 8 + 1, 8}, {half + 1, half}};
    void *const block = filled_block(1000, 1);
    (void)state;

    assert_non_null(block);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        errno = 0;
        assert_null(shardmm_reallocarray(block, hidden_size(cases[i][0]), hidden_size(cases[i][1])));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(shardmm_reallocarray(NULL, hidden_size(cases[i][0]), hidden_size(cases[i][1])));
        assert_int_equal(errno, ENOMEM);
    }
    assert_true(pattern_holds(block, 1000, 1));
    shardmm_free(block);
}

#ifndef SHARDMM_TEST_LIBC

static void small_blocks_stay_in_place_down_to_a_quarter_of_their_class(void **state)
{
    (void)state;
    for (int i = 0; i < CLASS_COUNT; i++) {
        const size_t size = class_size[i];
        const size_t quarter = size / 4;
        void *block = filled_block(size, size);
        const uintptr_t address = address_of(block);

        assert_non_null(block);
        for (size_t to = size; to >= quarter; to -= size > 512 && to > quarter + 8 ? 7 : 1) {
            block = shardmm_realloc(block, to);
            assert_true(address_of(block) == address);
            assert_int_equal(shardmm_usable_size(block), size);
        }
        block = shardmm_realloc(block, size); /* within the class there is nothing to ask */
        assert_true(address_of(block) == address);
        assert_true(pattern_holds(block, size, size));
        shardmm_free(block);
    }
}

static void small_blocks_move_to_a_smaller_class_below_a_quarter(void **state)
{
    (void)state;
    for (int i = 1; i < CLASS_COUNT; i++) { /* below 16 bytes there is no class */
        const size_t to = class_size[i] / 4 - 1;
        void *block = filled_block(class_size[i], 3);

        assert_non_null(block);
        block = shardmm_realloc(block, to);
        assert_non_null(block);
        assert_true(pattern_holds(block, to, 3));
        assert_true(shardmm_usable_size(block) < class_size[i]);
        shardmm_free(block);
    }
}

static void small_blocks_that_outgrow_their_class_get_half_as_much_again(void **state)
{
    (void)state;
    for (int i = 0; i < CLASS_COUNT && class_size[i] + 1 + class_size[i] / 2 + 32 <= SMALL_MAX; i++) {
        const size_t to = class_size[i] + 1;
        void *block = filled_block(class_size[i], 3);

        assert_non_null(block);
        block = shardmm_realloc(block, to);
        assert_non_null(block);
        assert_true(pattern_holds(block, class_size[i], 3));
        assert_true(shardmm_usable_size(block) >= to + to / 2);
        shardmm_free(block);
    }
}

static uintptr_t handed_address;

static void *resize_within_class(void *block)
{
    unsigned errors = 0;
    void *here = shardmm_realloc(block, 1024);
    EXPECT(errors, address_of(here) == handed_address);
    here = shardmm_realloc(here, 256);
    EXPECT(errors, address_of(here) == handed_address);
    here = shardmm_realloc(here, 1000);
    EXPECT(errors, address_of(here) == handed_address);
    EXPECT(errors, pattern_holds(here, 256, 4));
    return ERRORS(errors);
}

static void small_blocks_stay_in_place_whoever_owns_them(void **state)
{
    void *const block = filled_block(1000, 4);
    (void)state;

    handed_address = address_of(block);
    assert_no_errors(in_thread(resize_within_class, block));
    assert_true(pattern_holds(block, 256, 4));
    shardmm_free(block);
}

static void medium_blocks_shrink_in_place_and_give_the_tail_back(void **state)
{
    const struct shardmm_stats before = stats_now();
    void *block = filled_block(900 * KIB, 6);
    const uintptr_t address = address_of(block);
    (void)state;

    assert_non_null(block);
    for (size_t size = 800 * KIB; size > SMALL_MAX; size -= 50 * KIB) {
        block = shardmm_realloc(block, size);
        assert_true(address_of(block) == address);
        assert_true(pattern_holds(block, size, 6));
        const uint64_t in_use = stats_now().medium_bytes - before.medium_bytes;
        assert_in_range(in_use, size, size + 512);
        assert_int_equal(in_use, shardmm_usable_size(block));
    }
    shardmm_free(block);
    assert_same_in_use(before);
}

static void medium_blocks_grow_in_place_into_the_free_memory_that_follows(void **state)
{
    void *block = filled_block(900 * KIB, 6);
    const uintptr_t address = address_of(block);
    (void)state;

    assert_non_null(block);
    block = shardmm_realloc(block, 100 * KIB); /* what it gives back follows it */
    assert_true(address_of(block) == address);
    for (size_t size = 150 * KIB; size <= 890 * KIB; size += 37 * KIB) {
        block = shardmm_realloc(block, size);
        assert_true(address_of(block) == address);
        assert_true(shardmm_usable_size(block) >= size);
        assert_true(pattern_holds(block, 100 * KIB, 6));
    }
    shardmm_free(block);
}

static void large_blocks_grow_in_place_within_their_reservation(void **state)
{
    (void)state;
    (void)shardmm_purge(); /* a cached reservation may have less headroom */
    void *block = filled_block(2 * MIB, 7);
    uintptr_t address = address_of(block);

    assert_non_null(block);
    for (size_t size = 2 * MIB + 1; size <= RESERVATION_MIN - PAGE_BYTES; size += 700001) {
        block = shardmm_realloc(block, size);
        assert_true(address_of(block) == address);
        assert_true(shardmm_usable_size(block) >= size);
        ((volatile unsigned char *)block)[size - 1] = 1;
    }
    assert_true(pattern_holds(block, 2 * MIB, 7));
    shardmm_free(block);

    (void)shardmm_purge();
    block = filled_block(2 * MIB, 7);
    address = address_of(block);
    assert_non_null(block);
    block = shardmm_realloc(block, 4 * MIB);
    assert_true(address_of(block) == address);
    assert_true(pattern_holds(block, 2 * MIB, 7));
    shardmm_free(block);

    /* Headroom equal to the size. */
    (void)shardmm_purge();
    block = filled_block(20 * MIB, 7);
    address = address_of(block);
    assert_non_null(block);
    block = shardmm_realloc(block, 39 * MIB);
    assert_true(address_of(block) == address);
    assert_true(pattern_holds(block, 20 * MIB, 7));
    shardmm_free(block);
}

static void large_blocks_shrunk_below_half_return_the_tail_in_place(void **state)
{
    (void)state;
    (void)shardmm_purge();
    void *block = filled_block(48 * MIB, 8);
    const uintptr_t address = address_of(block);
    const uint64_t committed = stats_now().committed;

    assert_non_null(block);
    block = shardmm_realloc(block, 23 * MIB);
    assert_true(address_of(block) == address);
    assert_true(pattern_holds(block, 23 * MIB, 8));
    assert_true(committed - stats_now().committed >= 24 * MIB);
    block = shardmm_realloc(block, 2 * MIB);
    assert_true(address_of(block) == address);
    assert_true(pattern_holds(block, 2 * MIB, 8));
    assert_true(committed - stats_now().committed >= 45 * MIB);

    /* And the tail comes again. */
    block = shardmm_realloc(block, 40 * MIB);
    assert_true(address_of(block) == address);
    assert_true(pattern_holds(block, 2 * MIB, 8));
    pattern_fill_from(block, 2 * MIB, 40 * MIB, 8);
    assert_true(pattern_holds(block, 40 * MIB, 8));
    shardmm_free(block);
}

static void large_blocks_shrunk_to_half_or_more_stay_in_place(void **state)
{
    void *block = filled_block(8 * MIB, 8);
    const uintptr_t address = address_of(block);
    (void)state;

    assert_non_null(block);
    for (size_t size = 8 * MIB - 1; size >= 4 * MIB; size -= 333333) {
        block = shardmm_realloc(block, size);
        assert_true(address_of(block) == address);
        assert_true(pattern_holds(block, size, 8));
    }
    shardmm_free(block);
}

/* ---- Pages that the system does not move ---------------------------------------------------------- */

/* What a kernel has done to the destination when it refuses: nothing; unmapped it (those before 6.17 do that
 * before they look at the source); unmapped it, and another thread got the addresses. */
enum refusal { MOVES, LEAVES, UNMAPS, UNMAPS_AND_GIVES_AWAY };

enum { GIVEN_AWAY = 65536 };

static enum refusal refusal = MOVES;
static unsigned refused;
static char *given_away;

/* In the place of the C library's, which the library calls: a filter of system calls could refuse, but not unmap. */
void *mremap(void *address, size_t old_size, size_t new_size, int flags, ...)
{
    va_list rest;
    void *destination;

    va_start(rest, flags);
    destination = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void *) : NULL;
    va_end(rest);
    if (refusal == MOVES || destination == NULL)
        return (void *)syscall(SYS_mremap, address, old_size, new_size, flags, destination);
    refused++;
    if (refusal >= UNMAPS)
        munmap(destination, new_size);
    if (refusal == UNMAPS_AND_GIVES_AWAY) {
        given_away = mmap(destination, GIVEN_AWAY, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (given_away != MAP_FAILED)
            memset(given_away, 42, GIVEN_AWAY);
    }
    errno = EFAULT;
    return MAP_FAILED;
}

static void check_move_refused(enum refusal how)
{
    const struct shardmm_stats before = stats_now();

    for (int round = 0; round < 3; round++) {
        void *block;
        void *grown;

        (void)shardmm_purge(); /* no block that has room for 80 MiB */
        block = filled_block(12 * MIB, 3);
        assert_non_null(block);
        refused = 0;
        given_away = NULL;
        refusal = how;
        errno = 77;
        grown = shardmm_realloc(block, 80 * MIB);
        refusal = MOVES;
        assert_int_equal(errno, 77);
        assert_int_equal(refused, 1);
        assert_non_null(grown);
        assert_true(pattern_holds(grown, 12 * MIB, 3));
        pattern_fill_from(grown, 12 * MIB, 80 * MIB, 3);
        assert_true(pattern_holds(grown, 80 * MIB, 3));
        if (given_away != NULL) {
            assert_true(given_away != MAP_FAILED);
            for (size_t i = 0; i < GIVEN_AWAY; i++)
                assert_int_equal(given_away[i], 42);
            munmap(given_away, GIVEN_AWAY);
        }
        shardmm_free(grown);
    }
    assert_same_in_use(before);
    assert_int_equal(shardmm_verify(), 0);
}

static void blocks_whose_pages_cannot_move_are_copied(void **state)
{
    (void)state;
    check_move_refused(LEAVES);
    check_move_refused(UNMAPS);
}

static void a_move_that_fails_takes_no_memory_of_others(void **state)
{
    (void)state;
    check_move_refused(UNMAPS_AND_GIVES_AWAY);
}

static void nothing_stays_in_use_after_resizing_and_freeing(void **state)
{
    const struct shardmm_stats before = stats_now();
    (void)state;

    for (size_t from = 0; from < COUNT_OF(sizes); from += 3) {
        for (size_t to = 0; to < COUNT_OF(sizes); to += 2) {
            void *block = shardmm_realloc(shardmm_malloc(sizes[from]), sizes[to]);
            assert_non_null(block);
            assert_null(shardmm_realloc(block, 0));
        }
    }
    assert_same_in_use(before);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_survive_between_every_pair_of_sizes),
        cmocka_unit_test(contents_survive_a_walk_through_all_sizes_and_back),
        cmocka_unit_test(growing_byte_by_byte_to_70000_keeps_contents_and_moves_seldom),
        cmocka_unit_test(two_buffers_that_grow_by_turns_do_not_touch_each_other),
        cmocka_unit_test(halving_from_20_MiB_to_1_byte_keeps_contents),
        cmocka_unit_test(growing_by_quarters_to_192_MiB_keeps_contents_and_neighbours),
        cmocka_unit_test(realloc_of_null_allocates),
        cmocka_unit_test(realloc_to_0_frees_and_returns_null),
        cmocka_unit_test(failure_leaves_the_block_as_it_was),
        cmocka_unit_test(reallocarray_resizes_to_the_product),
        cmocka_unit_test(reallocarray_that_overflows_leaves_the_block_as_it_was),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(small_blocks_stay_in_place_down_to_a_quarter_of_their_class),
        cmocka_unit_test(small_blocks_move_to_a_smaller_class_below_a_quarter),
        cmocka_unit_test(small_blocks_that_outgrow_their_class_get_half_as_much_again),
        cmocka_unit_test(small_blocks_stay_in_place_whoever_owns_them),
        cmocka_unit_test(medium_blocks_shrink_in_place_and_give_the_tail_back),
        cmocka_unit_test(medium_blocks_grow_in_place_into_the_free_memory_that_follows),
        cmocka_unit_test(large_blocks_grow_in_place_within_their_reservation),
        cmocka_unit_test(large_blocks_shrunk_below_half_return_the_tail_in_place),
        cmocka_unit_test(large_blocks_shrunk_to_half_or_more_stay_in_place),
        cmocka_unit_test(blocks_whose_pages_cannot_move_are_copied),
        cmocka_unit_test(a_move_that_fails_takes_no_memory_of_others),
        cmocka_unit_test(nothing_stays_in_use_after_resizing_and_freeing),
#endif
    };
    return cmocka_run_group_tests_name("realloc", tests, NULL, NULL);
}
