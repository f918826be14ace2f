/* SPDX-License-Identifier: MIT */
/* test_options.c - what SHARDMM_NAME=value in the environment sets, and what it says of values that it does not
 * understand.
 *
 * The environment is read once, at start: the program runs itself with one of the test's choice. */
#include "control/options.h"

#include <errno.h>
#include <inttypes.h>

#include "control/start.h"
#include "heap/collect.h"
#include "large/large_cache.h"
#include "segment/huge.h"
#include "unit.h"

static const struct {
    const char *name;     /* as the calls name it */
    const char *variable; /* as the environment does */
    int64_t preset;
    int64_t most;
} options[] = {
    {"purge_delay", "SHARDMM_PURGE_DELAY", 1000, 1000000},
    {"keep_pages", "SHARDMM_KEEP_PAGES", 8, 65536},
    {"keep_arenas", "SHARDMM_KEEP_ARENAS", 1, 4096},
    {"reserve_pages", "SHARDMM_RESERVE_PAGES", 64, 65536},
    {"reserve_arenas", "SHARDMM_RESERVE_ARENAS", 4, 4096},
    {"large_cache_blocks", "SHARDMM_LARGE_CACHE_BLOCKS", 32, 64},
    {"large_cache_bytes", "SHARDMM_LARGE_CACHE_BYTES", 128 << 20, (int64_t)1 << 46},
    {"prefault", "SHARDMM_PREFAULT", 1, 1},
    {"huge_pages", "SHARDMM_HUGE_PAGES", 1, 2},
    {"stats", "SHARDMM_STATS", 0, 3},
    {"huge_slow_us", "SHARDMM_HUGE_SLOW_US", 1000, 1000000},
    {"stats_pid", "SHARDMM_STATS_PID", 0, INT32_MAX},
    {"verbose", "SHARDMM_VERBOSE", 0, 2},
};
enum { OPTIONS = COUNT_OF(options) };

/* ---- The program that runs with the environment ---- */

/* Prints the options, then what they are in the settings that the modules read. */
static int print_options(void)
{
    if (!smm_start())
        return 1;
    for (size_t i = 0; i < OPTIONS; i++) {
        int64_t value;
        if (smm_option_get(options[i].name, &value) != 0)
            return 1;
        printf("%s=%" PRId64 "\n", options[i].name, value);
    }
    printf("stats_file=%s\n", smm_option_stats_file() != NULL ? smm_option_stats_file() : "(none)");
    printf("settings=%" PRIu64 " %u %u %u %u %u %" PRIu64 " %d %d %d %d %u %d %u %d\n",
           (uint64_t)smm_load_relaxed(&smm_collect_settings.delay),
           (unsigned)smm_load_relaxed(&smm_collect_settings.keep_pages),
           (unsigned)smm_load_relaxed(&smm_collect_settings.keep_arenas),
           (unsigned)smm_load_relaxed(&smm_collect_settings.reserve_pages),
           (unsigned)smm_load_relaxed(&smm_collect_settings.reserve_arenas),
           (unsigned)smm_load_relaxed(&smm_large_cache_settings.blocks),
           (uint64_t)smm_load_relaxed(&smm_large_cache_settings.bytes),
           (int)smm_load_relaxed(&smm_small_settings.prefault),
           (int)smm_load_relaxed(&smm_small_settings.huge_pages),
           (int)smm_load_relaxed(&smm_medium_settings.huge_pages),
           (int)smm_load_relaxed(&smm_large_settings.huge_pages),
           (unsigned)smm_load_relaxed(&smm_huge_settings.slow_us), (int)smm_option_stats(),
           (unsigned)smm_option_stats_pid(), smm_option_verbose());
    fflush(stdout);
    /* Without the statistics at exit, which are not the subject here. */
    _exit(0);
}

/* ---- Running it ---- */

struct run {
    char out[4096];
    char err[4096];
    bool greeted;
};

static void read_all(int file, char *text, size_t room)
{
    size_t length = 0;
    ssize_t got;

    while ((got = read(file, text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    assert_true(length < room - 1);
    close(file);
}

/* Runs this program with just these entries in its environment. */
/* What VERBOSE says at start comes after what the environment is blamed for; it has a test of its own. */
static bool cut_greeting(char *text)
{
    char *const greeting = strstr(text, "shardmm: version ");

    if (greeting == NULL)
        return false;
    *greeting = 0;
    return true;
}

static void run_with(struct run *run, char *const *environment)
{
    static char mode[] = "--print";
    static char name[] = "unit_options";
    char *const arguments[] = {name, mode, NULL};
    int out[2], err[2], status = 0;

    fflush(NULL);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(err), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]);
        close(err[0]);
        execve("/proc/self/exe", arguments, environment);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    /* Both fit into a pipe. */
    read_all(out[0], run->out, sizeof run->out);
    read_all(err[0], run->err, sizeof run->err);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    run->greeted = cut_greeting(run->err);
}

static int64_t value_of(const struct run *run, const char *name)
{
    const size_t length = strlen(name);

    for (const char *line = run->out; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            return strtoll(line + length + 1, NULL, 10);
    fail_msg("no option %s in what the program printed: %s", name, run->out);
    return 0;
}

static void assert_text_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_lines(const char *text, unsigned expected)
{
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    if (lines != expected || (*text != 0 && text[strlen(text) - 1] != '\n'))
        fail_msg("%u lines, not %u: \"%s\"", lines, expected, text);
}

/* All options but `except` have their defaults. */
static void assert_defaults(const struct run *run, const char *except)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (except == NULL || strcmp(options[i].name, except) != 0)
            assert_int_equal(value_of(run, options[i].name), options[i].preset);
}

static void run_one(struct run *run, const char *variable, const char *value)
{
    char entry[512];
    char *const environment[] = {entry, NULL};
    snprintf(entry, sizeof entry, "%s%s%s", variable, value != NULL ? "=" : "", value != NULL ? value : "");
    run_with(run, environment);
}

static void assert_sets(const char *variable, const char *name, const char *value, int64_t expected)
{
    struct run run;
    run_one(&run, variable, value);
    assert_string_equal(run.err, "");
    if (value_of(&run, name) != expected)
        fail_msg("%s=%s set %" PRId64 ", not %" PRId64, variable, value, value_of(&run, name), expected);
    assert_defaults(&run, name);
}

/* One line that names the entry, and the default stays. */
static void assert_refused(const char *variable, const char *value)
{
    struct run run;
    char named[512];

    run_one(&run, variable, value);
    snprintf(named, sizeof named, "shardmm: %s=%s: not a value of this option", variable, value);
    assert_text_in(run.err, named);
    assert_lines(run.err, 1);
    assert_defaults(&run, NULL);
}

/* ---- Tests ---- */

static void without_variables_all_have_their_defaults(void **state)
{
    struct run run;
    char *const environment[] = {NULL};

    (void)state;
    run_with(&run, environment);
    assert_string_equal(run.err, "");
    assert_defaults(&run, NULL);
    assert_text_in(run.out, "stats_file=(none)\n");
    assert_text_in(run.out, "settings=1000 8 1 64 4 32 134217728 1 1 1 1 1000 0 0 0\n");
}

static void each_variable_sets_its_option_within_its_range(void **state)
{
    char text[32];

    (void)state;
    for (size_t i = 0; i < OPTIONS; i++) {
        assert_sets(options[i].variable, options[i].name, "0", 0);
        snprintf(text, sizeof text, "%" PRId64, options[i].most);
        assert_sets(options[i].variable, options[i].name, text, options[i].most);
        snprintf(text, sizeof text, "%" PRId64, options[i].most + 1);
        assert_refused(options[i].variable, text);
    }
}

static void options_reach_the_modules_that_use_them(void **state)
{
    struct run run;
    char entries[OPTIONS][64];
    char *environment[OPTIONS + 1] = {NULL};

    (void)state;
    for (size_t i = 0; i < OPTIONS; i++) {
        snprintf(entries[i], sizeof entries[i], "%s=%" PRId64, options[i].variable,
                 options[i].most > 10 ? 10 + (int64_t)i : 0);
        environment[i] = entries[i];
    }
    run_with(&run, environment);
    assert_string_equal(run.err, "");
    assert_text_in(run.out, "settings=10 11 12 13 14 15 16 0 0 0 0 20 0 21 0\n");
}

static void verbose_says_at_start_that_the_library_is_there(void **state)
{
    static char verbose[] = "SHARDMM_VERBOSE=1";
    char *const loud[] = {verbose, NULL};
    char *const silent[] = {NULL};
    struct run run;

    (void)state;
    run_with(&run, loud);
    assert_true(run.greeted);
    run_with(&run, silent);
    assert_false(run.greeted);
}

static void suffixes_are_powers_of_1024(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"3K", 3 << 10}, {"3k", 3 << 10}, {"5M", 5 << 20}, {"5m", 5 << 20},
        {"7G", (int64_t)7 << 30}, {"7g", (int64_t)7 << 30}, {"0G", 0}, {"007K", 7 << 10},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_sets("SHARDMM_LARGE_CACHE_BYTES", "large_cache_bytes", cases[i].text, cases[i].value);
    assert_sets("SHARDMM_KEEP_PAGES", "keep_pages", "1K", 1024);
    assert_refused("SHARDMM_KEEP_PAGES", "1M");
}

static void words_name_their_values(void **state)
{
    (void)state;
    assert_sets("SHARDMM_PREFAULT", "prefault", "off", 0);
    assert_sets("SHARDMM_PREFAULT", "prefault", "on", 1);
    assert_sets("SHARDMM_HUGE_PAGES", "huge_pages", "never", 0);
    assert_sets("SHARDMM_HUGE_PAGES", "huge_pages", "auto", 1);
    assert_sets("SHARDMM_HUGE_PAGES", "huge_pages", "always", 2);
    assert_sets("SHARDMM_STATS", "stats", "none", 0);
    assert_sets("SHARDMM_STATS", "stats", "text", 1);
    assert_sets("SHARDMM_STATS", "stats", "json", 2);
    assert_sets("SHARDMM_STATS", "stats", "summary", 3);
}

static void words_of_other_options_are_refused(void **state)
{
    (void)state;
    assert_refused("SHARDMM_PREFAULT", "always");
    assert_refused("SHARDMM_HUGE_PAGES", "on");
    assert_refused("SHARDMM_STATS", "tex");
    assert_refused("SHARDMM_STATS", "texts");
    assert_refused("SHARDMM_STATS", "text json");
    assert_refused("SHARDMM_PURGE_DELAY", "on");
}

static void a_malformed_value_is_one_line_and_the_default(void **state)
{
    static const char *const values[] = {
        "",     "-1",  "+1",  " 1",    "1 ",   "1KB", "1KK", "K",  "0x10", "1.5", "1,5",
        "1T",   "one", "1\t", "1\x0b", "1\r", "1_",  "1-",  "~",  "1\xeb", "99999999999999999999",
        "9223372036854775807K", "9223372036854775808", "18446744073709551616", "17179869184G",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_refused("SHARDMM_LARGE_CACHE_BYTES", values[i]);
        assert_refused("SHARDMM_PURGE_DELAY", values[i]);
    }
    assert_refused("SHARDMM_PURGE_DELAY", "0 ");
    assert_refused("SHARDMM_STATS", "");
    assert_refused("SHARDMM_STATS", "text ");
}

static void an_unknown_name_is_one_line(void **state)
{
    static const char *const names[] = {
        "SHARDMM_", "SHARDMM_X", "SHARDMM_PURGE_DELAYS", "SHARDMM_PURGE_DELA", "SHARDMM_PURGE DELAY",
        "SHARDMM_STATS_FIL", "SHARDMM_A_NAME_THAT_IS_LONGER_THAN_ANY_OPTION_COULD_EVER_BE",
    };
    struct run run;
    char named[512];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        run_one(&run, names[i], "1");
        snprintf(named, sizeof named, "shardmm: %s=1: no such option\n", names[i]);
        assert_string_equal(run.err, named);
        assert_defaults(&run, NULL);
        run_one(&run, names[i], NULL);
        snprintf(named, sizeof named, "shardmm: %s: no such option\n", names[i]);
        assert_string_equal(run.err, named);
    }
    run_one(&run, "SHARDMM_PURGE_DELAY", NULL);
    assert_string_equal(run.err, "shardmm: SHARDMM_PURGE_DELAY: no such option\n");
}

static void names_of_others_are_not_looked_at(void **state)
{
    struct run run;
    static char one[] = "SHARDM_PURGE_DELAY=x";
    static char two[] = "SHARDMMPURGE_DELAY=x";
    static char three[] = "XSHARDMM_PURGE_DELAY=x";
    static char four[] = "shardmm_purge_delay=x";
    char *const environment[] = {one, two, three, four, NULL};

    (void)state;
    run_with(&run, environment);
    assert_string_equal(run.err, "");
    assert_defaults(&run, NULL);
}

static void each_entry_has_a_line_of_its_own(void **state)
{
    struct run run;
    static char wrong[] = "SHARDMM_PURGE_DELAY=soon";
    static char unknown[] = "SHARDMM_COLOUR=blue";
    static char right[] = "SHARDMM_VERBOSE=2";
    static char also_wrong[] = "SHARDMM_STATS=4";
    char *const environment[] = {wrong, unknown, right, also_wrong, NULL};

    (void)state;
    run_with(&run, environment);
    assert_lines(run.err, 3);
    assert_text_in(run.err, "shardmm: SHARDMM_PURGE_DELAY=soon: ");
    assert_text_in(run.err, "shardmm: SHARDMM_COLOUR=blue: no such option\n");
    assert_text_in(run.err, "shardmm: SHARDMM_STATS=4: ");
    assert_defaults(&run, "verbose");
    assert_int_equal(value_of(&run, "verbose"), 2);
}

static void a_long_entry_is_cut_and_still_one_line(void **state)
{
    struct run run;
    static char entry[3000] = "SHARDMM_PURGE_DELAY=";
    char *const environment[] = {entry, NULL};

    (void)state;
    memset(entry + strlen(entry), '7', sizeof entry - 1 - strlen(entry));
    run_with(&run, environment);
    assert_lines(run.err, 1);
    assert_text_in(run.err, ": not a value of this option, the default is used\n");
    assert_true(strlen(run.err) < 300);
    assert_defaults(&run, NULL);
}

static void a_file_for_statistics_is_any_text(void **state)
{
    struct run run;

    (void)state;
    run_one(&run, "SHARDMM_STATS_FILE", "a file=b");
    assert_string_equal(run.err, "");
    assert_text_in(run.out, "stats_file=a file=b\n");
    run_one(&run, "SHARDMM_STATS_FILE", "");
    assert_string_equal(run.err, "");
    assert_text_in(run.out, "stats_file=(none)\n");
}

static void calls_refuse_what_they_do_not_know(void **state)
{
    int64_t value = 0;

    (void)state;
    assert_int_equal(smm_option_get(NULL, &value), ENOENT);
    assert_int_equal(smm_option_get("purge_dela", &value), ENOENT);
    assert_int_equal(smm_option_get("purge_delay", NULL), EINVAL);
    assert_int_equal(smm_option_set(NULL, 1), ENOENT);
    assert_int_equal(smm_option_set("", 1), ENOENT);
    assert_int_equal(smm_option_set("stats", 1), EPERM);
    assert_int_equal(smm_option_set("purge_delay", -1), EINVAL);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strncmp(options[i].name, "stats", 5) == 0)
            continue;
        assert_int_equal(smm_option_set(options[i].name, options[i].most + 1), EINVAL);
        assert_int_equal(smm_option_set(options[i].name, options[i].most), 0);
        assert_int_equal(smm_option_get(options[i].name, &value), 0);
        assert_int_equal(value, options[i].most);
        assert_int_equal(smm_option_set(options[i].name, options[i].preset), 0);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_variables_all_have_their_defaults),
        cmocka_unit_test(each_variable_sets_its_option_within_its_range),
        cmocka_unit_test(options_reach_the_modules_that_use_them),
        cmocka_unit_test(verbose_says_at_start_that_the_library_is_there),
        cmocka_unit_test(suffixes_are_powers_of_1024),
        cmocka_unit_test(words_name_their_values),
        cmocka_unit_test(words_of_other_options_are_refused),
        cmocka_unit_test(a_malformed_value_is_one_line_and_the_default),
        cmocka_unit_test(an_unknown_name_is_one_line),
        cmocka_unit_test(names_of_others_are_not_looked_at),
        cmocka_unit_test(each_entry_has_a_line_of_its_own),
        cmocka_unit_test(a_long_entry_is_cut_and_still_one_line),
        cmocka_unit_test(a_file_for_statistics_is_any_text),
        cmocka_unit_test(calls_refuse_what_they_do_not_know),
    };
    if (count == 2 && strcmp(arguments[1], "--print") == 0)
        return print_options();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
