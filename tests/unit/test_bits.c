/* SPDX-License-Identifier: MIT */
/* test_bits.c - arithmetic on sizes, alignments and bit maps, against loops. */
#include "base/bits.h"

#include "unit.h"

static void powers_of_two_have_one_bit(void **state)
{
    (void)state;
    assert_false(smm_is_power_of_two(0));
    for (size_t n = 1; n < 5000; n++) {
        unsigned bits = 0;
        for (size_t left = n; left != 0; left >>= 1)
            bits += (unsigned)(left & 1);
        assert_int_equal(smm_is_power_of_two(n), bits == 1);
    }
    for (unsigned i = 0; i < 64; i++)
        assert_true(smm_is_power_of_two((size_t)1 << i));
    assert_false(smm_is_power_of_two(SIZE_MAX));
    assert_false(smm_is_power_of_two(SIZE_MAX - 1));
}

static void aligning_finds_the_nearest_multiple(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 256; alignment *= 2)
        for (size_t n = 0; n < 1000; n++) {
            assert_int_equal(smm_align_down(n, alignment), n / alignment * alignment);
            assert_int_equal(smm_align_up(n, alignment), (n + alignment - 1) / alignment * alignment);
        }
    assert_int_equal(smm_align_up(SIZE_MAX - 4095, 4096), SIZE_MAX - 4095);
    assert_int_equal(smm_align_down(SIZE_MAX, 4096), SIZE_MAX - 4095);
}

static void lowest_and_highest_bit_are_found(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(smm_bit_low((uint64_t)1 << i), i);
        assert_int_equal(smm_bit_high((uint64_t)1 << i), i);
    }
    for (unsigned round = 0; round < 5000; round++) {
        const uint64_t n = random_next(&seed) >> random_below(&seed, 60) << random_below(&seed, 4);
        unsigned low = 0, high = 63;
        if (n == 0)
            continue;
        while ((n >> low & 1) == 0)
            low++;
        while ((n >> high & 1) == 0)
            high--;
        assert_int_equal(smm_bit_low(n), low);
        assert_int_equal(smm_bit_high(n), high);
    }
}

static void set_bits_are_counted(void **state)
{
    uint64_t seed = 2;

    (void)state;
    assert_int_equal(smm_bit_count(0), 0);
    assert_int_equal(smm_bit_count(UINT64_MAX), 64);
    for (unsigned round = 0; round < 5000; round++) {
        const uint64_t n = random_next(&seed) & random_next(&seed);
        unsigned count = 0;
        for (unsigned i = 0; i < 64; i++)
            count += (unsigned)(n >> i & 1);
        assert_int_equal(smm_bit_count(n), count);
    }
}

static void a_run_has_its_bits_and_no_others(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 64; first++)
        for (unsigned count = 1; count <= 64 - first; count++) {
            uint64_t expected = 0;
            for (unsigned i = 0; i < count; i++)
                expected |= (uint64_t)1 << (first + i);
            assert_int_equal(smm_bit_run(first, count), expected);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_two_have_one_bit),
        cmocka_unit_test(aligning_finds_the_nearest_multiple),
        cmocka_unit_test(lowest_and_highest_bit_are_found),
        cmocka_unit_test(set_bits_are_counted),
        cmocka_unit_test(a_run_has_its_bits_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
