/* SPDX-License-Identifier: MIT */
/* test_options.c - options by name: their defaults, what can be set, and what the environment and constructors set. */
#include <errno.h>
#include <inttypes.h>

#include "../common/support.h"

static const struct {
    const char *name;
    int64_t preset;
    int64_t other; /* a value in range */
    bool at_start; /* only then can it be set */
} options[] = {
    {"purge_delay", 1000, 50, false}, /* ms */
    {"reserve_pages", 64, 8, false},
    {"reserve_arenas", 4, 1, false},
    {"large_cache_blocks", 32, 4, false},
    {"large_cache_bytes", 128 * 1024 * 1024, 16 * 1024 * 1024, false},
    {"prefault", 1, 0, false},
    {"huge_pages", 1, 0, false}, /* never, auto, always */
    {"verbose", 0, 1, false},
    {"stats", 0, 1, true},
};

static void every_option_has_its_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        int64_t value = -77;
        assert_int_equal(shardmm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].preset);
    }
}

static void what_is_set_is_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        int64_t value = -77;
        if (options[i].at_start)
            continue;
        assert_int_equal(shardmm_option_set(options[i].name, options[i].other), 0);
        assert_int_equal(shardmm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].other);
        assert_int_equal(shardmm_option_set(options[i].name, options[i].preset), 0);
        assert_int_equal(shardmm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].preset);
    }
}

static void what_can_be_set_at_start_only_is_EPERM(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        int64_t value = -77;
        if (!options[i].at_start)
            continue;
        assert_int_equal(shardmm_option_set(options[i].name, options[i].other), EPERM);
        assert_int_equal(shardmm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].preset);
    }
}

static void unknown_names_are_ENOENT(void **state)
{
    static const char *const names[] = {
        "", " ", "purge", "purge_delay ", " purge_delay", "purge_delay2", "purge_dela", "PURGE_DELAY",
        "SHARDMM_PURGE_DELAY", "shardmm_purge_delay", "purge_delay=1", "no_such_option",
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int64_t value = -77;
        assert_int_equal(shardmm_option_get(names[i], &value), ENOENT);
        assert_int_equal(value, -77);
        assert_int_equal(shardmm_option_set(names[i], 1), ENOENT);
    }
}

static void values_out_of_range_are_EINVAL_and_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        int64_t value = -77;
        if (options[i].at_start)
            continue;
        assert_int_equal(shardmm_option_set(options[i].name, INT64_MIN), EINVAL);
        assert_int_equal(shardmm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].preset);
    }
    assert_int_equal(shardmm_option_set("huge_pages", 3), EINVAL);
    assert_int_equal(shardmm_option_set("huge_pages", -1), EINVAL);
    assert_int_equal(shardmm_option_set("large_cache_blocks", -1), EINVAL);
    assert_int_equal(shardmm_option_set("large_cache_bytes", -1), EINVAL);
    assert_int_equal(shardmm_option_set("reserve_pages", -1), EINVAL);
}

static void reading_into_nothing_is_EINVAL(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++)
        assert_int_equal(shardmm_option_get(options[i].name, NULL), EINVAL);
}

/* ---- What options do ------------------------------------------------------------------------------ */

static void the_cache_of_large_blocks_keeps_to_its_options(void **state)
{
    void *blocks[12];
    (void)state;

    (void)shardmm_purge();
    assert_int_equal(shardmm_option_set("large_cache_blocks", 4), 0);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = filled_block(2 * MIB, i));
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        shardmm_free(blocks[i]);
    assert_in_range(stats_now().large_cache_blocks, 1, 4);
    assert_int_equal(shardmm_option_set("large_cache_blocks", 32), 0);

    assert_int_equal(shardmm_option_set("large_cache_bytes", (int64_t)(16 * MIB)), 0);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = filled_block(5 * MIB, i));
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        shardmm_free(blocks[i]);
    assert_in_range(stats_now().large_cache_bytes, 1, 16 * MIB);
    assert_int_equal(shardmm_option_set("large_cache_bytes", (int64_t)(128 * MIB)), 0);
    (void)shardmm_purge();
}

static void every_kind_works_without_prefaulting_and_with_every_use_of_huge_pages(void **state)
{
    static void *blocks[4000];
    (void)state;

    for (int64_t mode = 0; mode < 6; mode++) {
        assert_int_equal(shardmm_option_set("prefault", mode % 2), 0);
        assert_int_equal(shardmm_option_set("huge_pages", mode / 2), 0);
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            const size_t size = i % 1000 == 0 ? 5 * MIB : i % 50 == 0 ? 200000 : 1 + i;
            assert_non_null(blocks[i] = filled_block(size, i));
        }
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            const size_t size = i % 1000 == 0 ? 5 * MIB : i % 50 == 0 ? 200000 : 1 + i;
            assert_true(pattern_holds(blocks[i], size, i));
            shardmm_free(blocks[i]);
        }
        (void)shardmm_purge();
    }
    assert_int_equal(shardmm_option_set("prefault", 1), 0);
    assert_int_equal(shardmm_option_set("huge_pages", 1), 0);
}

/* ---- The environment ------------------------------------------------------------------------------ */

static const char print_options[] = "print-options";

static int run_with_environment(void)
{
    static const struct {
        const char *name;
        int64_t value;
    } expected[] = {
        {"purge_delay", 77}, {"reserve_pages", 5}, {"large_cache_blocks", 3}, {"huge_pages", 2}, {"prefault", 0},
        {"reserve_arenas", 4}, /* not a number in the environment */
    };

    shardmm_free(shardmm_malloc(100));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        int64_t value = -1;
        CHILD_CHECK(shardmm_option_get(expected[i].name, &value) == 0);
        if (value != expected[i].value) {
            fprintf(stderr, "%s is %" PRId64 "\n", expected[i].name, value);
            return 1;
        }
    }
    return 0;
}

static void start_with_environment(void *unused)
{
    (void)unused;
    CHILD_CHECK(setenv("SHARDMM_PURGE_DELAY", "77", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_RESERVE_PAGES", "5", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_LARGE_CACHE_BLOCKS", "3", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_HUGE_PAGES", "2", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_PREFAULT", "0", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_RESERVE_ARENAS", "many", 1) == 0);
    start_again(print_options);
}

static void the_environment_sets_options_at_start(void **state)
{
    (void)state;
    in_child(start_with_environment, NULL, 30);
}

/* ---- Before the library is set up ------------------------------------------------------------------ */

static const char check_early_options[] = "check-early-options";
static const char early_variable[] = "TEST_SETS_OPTIONS_EARLY";
static int early_errors;

/* Runs before the library's own constructor. The first call of the library is the one that the variable names. */
__attribute__((constructor)) static void set_options_early(void)
{
    const char *const first = getenv(early_variable);
    int64_t value = -1;

    if (first == NULL)
        return;
    if (strcmp(first, "get") == 0)
        early_errors += shardmm_option_get("large_cache_blocks", &value) != 0 || value != 3;
    early_errors += shardmm_option_set("purge_delay", 7) != 0;
    early_errors += shardmm_option_set("reserve_arenas", 2) != 0;
    early_errors += shardmm_option_get("reserve_pages", &value) != 0 || value != 64;
}

static int run_with_early_options(void)
{
    static const struct {
        const char *name;
        int64_t value;
    } expected[] = {
        {"purge_delay", 7}, {"reserve_arenas", 2}, {"large_cache_blocks", 3}, {"reserve_pages", 64},
    };

    CHILD_CHECK(early_errors == 0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF(expected); i++) {
            int64_t value = -1;
            CHILD_CHECK(shardmm_option_get(expected[i].name, &value) == 0);
            CHILD_CHECK(value == expected[i].value);
        }
        shardmm_free(shardmm_malloc(100));
    }
    return 0;
}

static void start_with_early_options(void *first)
{
    CHILD_CHECK(setenv(early_variable, first, 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_LARGE_CACHE_BLOCKS", "3", 1) == 0);
    CHILD_CHECK(setenv("SHARDMM_RESERVE_ARENAS", "5", 1) == 0);
    start_again(check_early_options);
}

static void what_a_constructor_sets_stays_and_the_environment_is_read_before(void **state)
{
    char get[] = "get";
    char set[] = "set";
    (void)state;

    in_child(start_with_early_options, get, 30);
    in_child(start_with_early_options, set, 30);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_its_default),
        cmocka_unit_test(what_is_set_is_read_back),
        cmocka_unit_test(what_can_be_set_at_start_only_is_EPERM),
        cmocka_unit_test(unknown_names_are_ENOENT),
        cmocka_unit_test(values_out_of_range_are_EINVAL_and_change_nothing),
        cmocka_unit_test(reading_into_nothing_is_EINVAL),
        cmocka_unit_test(the_cache_of_large_blocks_keeps_to_its_options),
        cmocka_unit_test(every_kind_works_without_prefaulting_and_with_every_use_of_huge_pages),
        cmocka_unit_test(the_environment_sets_options_at_start),
        cmocka_unit_test(what_a_constructor_sets_stays_and_the_environment_is_read_before),
    };

    if (count == 2 && strcmp(arguments[1], print_options) == 0)
        return run_with_environment();
    if (count == 2 && strcmp(arguments[1], check_early_options) == 0)
        return run_with_early_options();
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
