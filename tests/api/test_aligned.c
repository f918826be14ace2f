/* SPDX-License-Identifier: MIT */
/* test_aligned.c - blocks at any power of two: where they lie, what freeing and resizing them does, and the
 * errors of each call. */
#include <errno.h>
#include <sys/mman.h>

#include "../common/support.h"

enum { ALIGNMENT_BITS_MIN = 4, ALIGNMENT_BITS_MAX = 22 };

static const size_t sizes[] = {
    0, 1, 7, 16, 33, 100, 1000, 4095, 4097, 10001, SMALL_MAX, SMALL_MAX + 1, PAGE_BYTES + 3,
    333333, MEDIUM_MAX, MEDIUM_MAX + 1, 3 * MIB + 1,
};

static void every_alignment_from_16_to_4_MiB_with_every_kind_of_size(void **state)
{
    void *blocks[COUNT_OF(sizes)];
    (void)state;

    for (unsigned bits = ALIGNMENT_BITS_MIN; bits <= ALIGNMENT_BITS_MAX; bits++) {
        const size_t alignment = (size_t)1 << bits;
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            switch (i % 3) {
            case 0:
                blocks[i] = shardmm_aligned_alloc(alignment, sizes[i]);
                break;
            case 1:
                blocks[i] = shardmm_memalign(alignment, sizes[i]);
                break;
            default:
                blocks[i] = NULL;
                assert_int_equal(shardmm_posix_memalign(&blocks[i], alignment, sizes[i]), 0);
            }
            assert_non_null(blocks[i]);
            assert_true(is_aligned(blocks[i], alignment));
            assert_true(shardmm_usable_size(blocks[i]) >= sizes[i]);
            pattern_fill(blocks[i], shardmm_usable_size(blocks[i]), bits * 100 + i);
        }
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            assert_true(is_aligned(blocks[i], alignment));
            assert_true(pattern_holds(blocks[i], shardmm_usable_size(blocks[i]), bits * 100 + i));
            shardmm_free(blocks[i]);
        }
    }
}

static void many_aligned_blocks_of_a_kind_do_not_overlap(void **state)
{
    enum { COUNT = 60 };
    static const size_t alignments[] = {32, 64, 256, 4096, SMALL_MAX, 2 * SMALL_MAX, PAGE_BYTES, 512 * KIB};
    static void *blocks[COUNT_OF(alignments)][COUNT];
    (void)state;

    for (size_t size = 24; size < 100000; size = size * 7 + 5) {
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t a = 0; a < COUNT_OF(alignments); a++) {
                blocks[a][i] = shardmm_aligned_alloc(alignments[a], size);
                assert_non_null(blocks[a][i]);
                assert_true(is_aligned(blocks[a][i], alignments[a]));
                pattern_fill(blocks[a][i], size, i * 10 + a);
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t a = 0; a < COUNT_OF(alignments); a++) {
                assert_true(pattern_holds(blocks[a][i], size, i * 10 + a));
                shardmm_free(blocks[a][i]);
            }
        }
    }
}

static void alignments_far_above_the_block_cost_addresses_alone(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (size_t alignment = 8 * MIB; alignment <= GIB; alignment *= 2) {
        void *const block = shardmm_aligned_alloc(alignment, 100);
        assert_non_null(block);
        assert_true(is_aligned(block, alignment));
        pattern_fill(block, 100, 1);
        assert_true(pattern_holds(block, 100, 1));
        shardmm_free(block);
    }
}

/* Holds off a block of no bytes that lies where its reservation ends: at the address of another one. */
static void a_block_of_no_bytes_has_a_byte_of_its_own_at_any_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= 64 * MIB; alignment *= 2) {
        enum { COUNT = 6 };
        char *blocks[COUNT], *others[COUNT];
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = shardmm_aligned_alloc(alignment, 0);
            others[i] = shardmm_malloc(3 * MIB);
            assert_true(blocks[i] != NULL && others[i] != NULL);
            assert_true(shardmm_usable_size(blocks[i]) > 0);
            blocks[i][0] = (char)i;
        }
        for (unsigned i = 0; i < COUNT; i++)
            shardmm_free(others[i]);
        (void)shardmm_purge();
        for (unsigned i = 0; i < COUNT; i++) {
            assert_true(shardmm_usable_size(blocks[i]) > 0);
            assert_int_equal(blocks[i][0], i);
            shardmm_free(blocks[i]);
        }
    }
}

static void resizing_an_aligned_block_keeps_its_contents(void **state)
{
    (void)state;
    for (unsigned bits = ALIGNMENT_BITS_MIN; bits <= ALIGNMENT_BITS_MAX; bits += 2) {
        for (size_t from = 1; from < COUNT_OF(sizes); from++) {
            for (size_t to = 1; to < COUNT_OF(sizes); to += 2) {
                const size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
                void *block = shardmm_aligned_alloc((size_t)1 << bits, sizes[from]);
                assert_non_null(block);
                pattern_fill(block, sizes[from], to);
                block = shardmm_realloc(block, sizes[to]);
                assert_non_null(block);
                assert_true(is_aligned(block, 16));
                assert_true(shardmm_usable_size(block) >= sizes[to]);
                assert_true(pattern_holds(block, kept, to));
                pattern_fill(block, shardmm_usable_size(block), to);
                shardmm_free(block);
            }
        }
    }
}

static void sized_frees_find_the_block_by_size_and_alignment(void **state)
{
    (void)state;
    for (unsigned bits = ALIGNMENT_BITS_MIN; bits <= ALIGNMENT_BITS_MAX; bits++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            void *const block = shardmm_aligned_alloc((size_t)1 << bits, sizes[i]);
            assert_non_null(block);
            shardmm_free_aligned_sized(block, (size_t)1 << bits, sizes[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = shardmm_malloc(sizes[i]);
        assert_non_null(block);
        shardmm_free_sized(block, sizes[i]);
    }
    shardmm_free_sized(NULL, 100);
    shardmm_free_aligned_sized(NULL, 64, 100);
}

/* The class of 8 bytes is not where this block lies. */
static void eight_bytes_at_16_KiB_are_freed_by_size(void **state)
{
    void *blocks[32];
    (void)state;

    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            blocks[i] = shardmm_aligned_alloc(SMALL_MAX, 8);
            assert_non_null(blocks[i]);
            assert_true(is_aligned(blocks[i], SMALL_MAX));
            pattern_fill(blocks[i], 8, i);
        }
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            assert_true(pattern_holds(blocks[i], 8, i));
            shardmm_free_aligned_sized(blocks[i], SMALL_MAX, 8);
        }
    }
}

static void *free_block(void *block)
{
    shardmm_free(block);
    return NULL;
}

static void aligned_blocks_are_freed_by_another_thread(void **state)
{
    (void)state;
    for (unsigned bits = ALIGNMENT_BITS_MIN; bits <= ALIGNMENT_BITS_MAX; bits += 3) {
        for (size_t i = 0; i < COUNT_OF(sizes); i += 2) {
            void *const block = shardmm_aligned_alloc((size_t)1 << bits, sizes[i]);
            assert_non_null(block);
            (void)in_thread(free_block, block);
        }
    }
}

static void posix_memalign_refuses_bad_alignments_and_leaves_the_result(void **state)
{
    static const size_t bad[] = {0, 1, 2, 4, 3, 7, 9, 12, 24, 48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX / 2};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int mark = 0;
        void *result = &mark;
        errno = 77;
        assert_int_equal(shardmm_posix_memalign(&result, hidden_size(bad[i]), 100), EINVAL);
        assert_ptr_equal(result, &mark);
        assert_int_equal(errno, 77);
    }
}

static void posix_memalign_without_memory_leaves_the_result(void **state)
{
    static const size_t too_much[] = {SIZE_MAX, SIZE_MAX - 64, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(too_much); i++) {
        for (size_t alignment = sizeof(void *); alignment <= 4 * MIB; alignment *= 8) {
            int mark = 0;
            void *result = &mark;
            assert_int_equal(shardmm_posix_memalign(&result, alignment, hidden_size(too_much[i])), ENOMEM);
            assert_ptr_equal(result, &mark);
        }
    }
}

static void posix_memalign_takes_the_alignment_of_a_pointer(void **state)
{
    void *result = NULL;
    (void)state;

    errno = 77;
    assert_int_equal(shardmm_posix_memalign(&result, sizeof(void *), 5), 0);
    assert_int_equal(errno, 77);
    assert_true(is_aligned(result, 16));
    shardmm_free(result);
}

static void memalign_rounds_the_alignment_up_to_a_power_of_two(void **state)
{
    static const size_t odd[][2] = {
        {0, 16}, {1, 16}, {3, 16}, {17, 32}, {24, 32}, {48, 64}, {1000, 1024}, {4097, 8192}, {70000, 131072},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        for (int round = 0; round < 8; round++) {
            void *const block = shardmm_memalign(hidden_size(odd[i][0]), 40);
            assert_non_null(block);
            assert_true(is_aligned(block, odd[i][1]));
            if (round % 2 == 0)
                shardmm_free(block);
            else
                shardmm_free(shardmm_realloc(block, 80));
        }
    }
}

static void memalign_refuses_what_cannot_be_rounded(void **state)
{
    (void)state;
    errno = 0;
    assert_null(shardmm_memalign(hidden_size(SIZE_MAX), 1));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(shardmm_memalign(hidden_size(SIZE_MAX / 2 + 2), 1));
    assert_int_equal(errno, EINVAL);
}

static void an_alignment_beyond_the_address_space_is_ENOMEM(void **state)
{
    (void)state;
    for (unsigned bits = 47; bits < 64; bits++) {
        errno = 0;
        assert_null(shardmm_memalign(hidden_size((size_t)1 << bits), 1));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(shardmm_aligned_alloc(hidden_size((size_t)1 << bits), 3 * MIB));
        assert_int_equal(errno, ENOMEM);
    }
}

#ifndef SHARDMM_TEST_LIBC

static void aligned_alloc_refuses_what_is_no_power_of_two(void **state)
{
    static const size_t bad[] = {0, 3, 5, 24, 48, 100, 4097, SIZE_MAX, SIZE_MAX - 1};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        errno = 0;
        assert_null(shardmm_aligned_alloc(hidden_size(bad[i]), 100));
        assert_int_equal(errno, EINVAL);
    }
}

static void aligned_alloc_takes_small_alignments_and_any_size(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 64; alignment *= 2) {
        for (size_t size = 0; size < 200; size++) {
            void *const block = shardmm_aligned_alloc(alignment, size);
            assert_non_null(block);
            assert_true(is_aligned(block, alignment < 16 ? 16 : alignment));
            shardmm_free(block);
        }
    }
}

static void up_to_16_KiB_the_smallest_class_that_is_a_multiple_of_the_alignment_serves(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= SMALL_MAX; alignment *= 2) {
        for (size_t size = 0; size <= SMALL_MAX; size += 1 + size / 9) {
            void *const block = shardmm_aligned_alloc(alignment, size);
            assert_non_null(block);
            assert_int_equal(shardmm_usable_size(block), class_size_aligned(size, alignment));
            shardmm_free(block);
        }
    }
}

static char *map_nothing_at(uintptr_t address, size_t size)
{
    void *const wish = (void *)address;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *const got = mmap(wish, size, PROT_NONE, flags, -1, 0);

    if (got != MAP_FAILED && got != wish)
        munmap(got, size);
    return got == wish ? got : NULL;
}

/* Takes all gaps above `floor` that are worth it, so that the system has to go on below. Linux prefers a gap in
 * which it can align what has 2 MiB or more to an exact fit higher up: smaller ones fill these. */
static void take_addresses_above(uintptr_t floor)
{
    for (size_t size = 64 * GIB; size >= MIB; size /= 2) {
        void *taken;
        do
            taken = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        while (taken != MAP_FAILED && (uintptr_t)taken > floor);
        if (taken != MAP_FAILED)
            munmap(taken, size);
    }
}

/* The library's map of the address space becomes writable by pieces, of a system page with a byte for each
 * 4 MiB. A block at 4 MiB lies in the slot behind its header's: here the first slot of a piece that nothing was
 * in before. The process has taken all addresses from 12 MiB above that slot on. */
static void align_at_the_start_of_a_piece(void *unused)
{
    const uintptr_t piece = (uintptr_t)sysconf(_SC_PAGESIZE) * SEGMENT_BYTES;
    uintptr_t start;
    void *room = NULL;
    void *block = NULL;
    (void)unused;

    /* Not one from the cache: the library's next try is below its last reservation. */
    (void)shardmm_purge();
    start = address_of(shardmm_malloc(2 * MIB)) & ~(piece - 1);
    while (room == NULL && start > 20 * piece) {
        start -= 5 * piece;
        room = map_nothing_at(start - SEGMENT_BYTES, RESERVATION_MIN + SEGMENT_BYTES);
    }
    if (room == NULL || munmap(room, RESERVATION_MIN) != 0)
        CHILD_SKIP("no such addresses are free");
    take_addresses_above(start + RESERVATION_MIN - SEGMENT_BYTES);
    CHILD_CHECK(shardmm_posix_memalign(&block, SEGMENT_BYTES, 2 * MIB) == 0);
    if (address_of(block) != start)
        CHILD_SKIP("the system gives addresses in another order");
    pattern_fill(block, 2 * MIB, 1);
    CHILD_CHECK(pattern_holds(block, 2 * MIB, 1));
    CHILD_CHECK(shardmm_usable_size(block) >= 2 * MIB);
    shardmm_free(block);
}

static void a_block_at_4_MiB_may_lie_where_nothing_was_before(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(align_at_the_start_of_a_piece, NULL, 30);
}

static void nothing_stays_in_use_after_aligned_blocks_are_freed(void **state)
{
    const struct shardmm_stats before = stats_now();
    (void)state;

    every_alignment_from_16_to_4_MiB_with_every_kind_of_size(state);
    assert_same_in_use(before);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_from_16_to_4_MiB_with_every_kind_of_size),
        cmocka_unit_test(many_aligned_blocks_of_a_kind_do_not_overlap),
        cmocka_unit_test(a_block_of_no_bytes_has_a_byte_of_its_own_at_any_alignment),
        cmocka_unit_test(alignments_far_above_the_block_cost_addresses_alone),
        cmocka_unit_test(resizing_an_aligned_block_keeps_its_contents),
        cmocka_unit_test(sized_frees_find_the_block_by_size_and_alignment),
        cmocka_unit_test(eight_bytes_at_16_KiB_are_freed_by_size),
        cmocka_unit_test(aligned_blocks_are_freed_by_another_thread),
        cmocka_unit_test(posix_memalign_refuses_bad_alignments_and_leaves_the_result),
        cmocka_unit_test(posix_memalign_without_memory_leaves_the_result),
        cmocka_unit_test(posix_memalign_takes_the_alignment_of_a_pointer),
        cmocka_unit_test(memalign_rounds_the_alignment_up_to_a_power_of_two),
        cmocka_unit_test(memalign_refuses_what_cannot_be_rounded),
        cmocka_unit_test(an_alignment_beyond_the_address_space_is_ENOMEM),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(aligned_alloc_refuses_what_is_no_power_of_two),
        cmocka_unit_test(aligned_alloc_takes_small_alignments_and_any_size),
        cmocka_unit_test(up_to_16_KiB_the_smallest_class_that_is_a_multiple_of_the_alignment_serves),
        cmocka_unit_test(a_block_at_4_MiB_may_lie_where_nothing_was_before),
        cmocka_unit_test(nothing_stays_in_use_after_aligned_blocks_are_freed),
#endif
    };
    return cmocka_run_group_tests_name("aligned", tests, NULL, NULL);
}
