/* SPDX-License-Identifier: MIT */
/* test_size_class.c - the sizes of small blocks, and the table that finds them against a direct search. */
#include "base/size_class.h"

#include "unit.h"

/* As documented, written out once more. */
static const uint16_t expected[] = {
    16,   32,   64,   80,   96,   112,  128,  160,  192,  224,  256,  320,  384,   448,   512,
    640,  768,  896,  1024, 1280, 1536, 1792, 2048, 2304, 2560, 2816, 3072, 3328,  3584,  3840,
    4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192, 10240, 12288, 14336, 16384,
};

static void there_are_the_43_documented_classes(void **state)
{
    (void)state;
    assert_int_equal(SMM_CLASS_COUNT, 43);
    assert_int_equal(COUNT_OF(expected), SMM_CLASS_COUNT);
    for (unsigned i = 0; i < SMM_CLASS_COUNT; i++)
        assert_int_equal(smm_class_size(i), expected[i]);
}

static unsigned search(size_t size, size_t alignment)
{
    for (unsigned i = 0; i < COUNT_OF(expected); i++)
        if (expected[i] >= size && expected[i] % alignment == 0)
            return i;
    return SMM_CLASS_COUNT;
}

static void the_table_finds_the_smallest_class_for_every_size(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMM_SMALL_MAX; size++)
        assert_int_equal(smm_class_of(size), search(size, 1));
}

static void aligned_requests_find_the_smallest_multiple_of_the_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= SMM_SMALL_MAX; alignment *= 2)
        for (size_t size = 0; size <= SMM_SMALL_MAX; size += size < 4200 ? 1 : 13)
            assert_int_equal(smm_class_of_aligned(size, alignment), search(size, alignment));
}

static void every_size_has_a_class_for_every_alignment_up_to_16_KiB(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= SMM_SMALL_MAX; alignment *= 2)
        assert_true(smm_class_of_aligned(SMM_SMALL_MAX, alignment) < SMM_CLASS_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_the_43_documented_classes),
        cmocka_unit_test(the_table_finds_the_smallest_class_for_every_size),
        cmocka_unit_test(aligned_requests_find_the_smallest_multiple_of_the_alignment),
        cmocka_unit_test(every_size_has_a_class_for_every_alignment_up_to_16_KiB),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
