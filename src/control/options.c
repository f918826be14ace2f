/* SPDX-License-Identifier: MIT */
#include "control/options.h"

#include <errno.h>
#include <string.h>

#include "base/geometry.h"
#include "base/text.h"
#include "heap/collect.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "segment/huge.h"

enum option {
    PURGE_DELAY,
    KEEP_PAGES,
    KEEP_ARENAS,
    RESERVE_PAGES,
    RESERVE_ARENAS,
    LARGE_CACHE_BLOCKS,
    LARGE_CACHE_BYTES,
    PREFAULT,
    HUGE_PAGES,
    HUGE_SLOW_US,
    STATS,
    STATS_PID,
    VERBOSE,
    OPTION_COUNT
};

struct option_rule {
    const char *name;
    int64_t least, most;
    int64_t initial;
    bool at_start_only;
    const char *words; /* for the values 0, 1, ... in this order, each followed by a blank; NULL for none */
};

static const struct option_rule rules[OPTION_COUNT] = {
    [PURGE_DELAY] = {"purge_delay", 0, 1000000, 1000, false, NULL},
    [KEEP_PAGES] = {"keep_pages", 0, 65536, 8, false, NULL},
    [KEEP_ARENAS] = {"keep_arenas", 0, 4096, 1, false, NULL},
    [RESERVE_PAGES] = {"reserve_pages", 0, 65536, 64, false, NULL},
    [RESERVE_ARENAS] = {"reserve_arenas", 0, 4096, 4, false, NULL},
    [LARGE_CACHE_BLOCKS] = {"large_cache_blocks", 0, SMM_LARGE_CACHE_SLOTS, 32, false, NULL},
    [LARGE_CACHE_BYTES] = {"large_cache_bytes", 0, (int64_t)1 << 46, 128 << 20, false, NULL},
    [PREFAULT] = {"prefault", 0, 1, 1, false, "off on "},
    [HUGE_PAGES] = {"huge_pages", 0, 2, 1, false, "never auto always "},
    [HUGE_SLOW_US] = {"huge_slow_us", 0, 1000000, 1000, false, NULL},
    [STATS] = {"stats", 0, 3, 0, true, "none text json summary "},
    [STATS_PID] = {"stats_pid", 0, INT32_MAX, 0, true, NULL},
    [VERBOSE] = {"verbose", 0, 2, 0, false, NULL},
};

/* Relaxed: an option is a value of its own, and any order of changes is as good as another. */
static _Atomic(int64_t) values[OPTION_COUNT];
static char stats_file[1024]; /* copied: programs overwrite their environment to change their name */
static bool environment_read;

static void apply(enum option option, int64_t value)
{
    smm_store_relaxed(&values[option], value);
    switch (option) {
    case PURGE_DELAY:
        smm_store_relaxed(&smm_collect_settings.delay, (uint64_t)value);
        break;
    case KEEP_PAGES:
        smm_store_relaxed(&smm_collect_settings.keep_pages, (uint32_t)value);
        break;
    case KEEP_ARENAS:
        smm_store_relaxed(&smm_collect_settings.keep_arenas, (uint32_t)value);
        break;
    case RESERVE_PAGES:
        smm_store_relaxed(&smm_collect_settings.reserve_pages, (uint32_t)value);
        break;
    case RESERVE_ARENAS:
        smm_store_relaxed(&smm_collect_settings.reserve_arenas, (uint32_t)value);
        break;
    case LARGE_CACHE_BLOCKS:
        smm_store_relaxed(&smm_large_cache_settings.blocks, (uint32_t)value);
        break;
    case LARGE_CACHE_BYTES:
        smm_store_relaxed(&smm_large_cache_settings.bytes, (uint64_t)value);
        break;
    case PREFAULT:
        smm_store_relaxed(&smm_small_settings.prefault, value != 0);
        break;
    case HUGE_PAGES:
        smm_store_relaxed(&smm_small_settings.huge_pages, (enum smm_huge_policy)value);
        smm_store_relaxed(&smm_medium_settings.huge_pages, (enum smm_huge_policy)value);
        smm_store_relaxed(&smm_large_settings.huge_pages, value != SMM_HUGE_NEVER);
        break;
    case HUGE_SLOW_US:
        smm_store_relaxed(&smm_huge_settings.slow_us, (uint32_t)value);
        break;
    case STATS:
    case STATS_PID:
    case VERBOSE:
    case OPTION_COUNT:
        break;
    }
}

static enum option find(const char *name, size_t length)
{
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (strlen(rules[i].name) == length && memcmp(rules[i].name, name, length) == 0)
            return (enum option)i;
    return OPTION_COUNT;
}

int smm_option_get(const char *name, int64_t *value)
{
    const enum option option = name == NULL ? OPTION_COUNT : find(name, strlen(name));

    if (option == OPTION_COUNT)
        return ENOENT;
    if (value == NULL)
        return EINVAL;
    *value = smm_load_relaxed(&values[option]);
    return 0;
}

int smm_option_set(const char *name, int64_t value)
{
    const enum option option = name == NULL ? OPTION_COUNT : find(name, strlen(name));

    if (option == OPTION_COUNT)
        return ENOENT;
    if (rules[option].at_start_only)
        return EPERM;
    if (value < rules[option].least || value > rules[option].most)
        return EINVAL;
    apply(option, value);
    return 0;
}

/* ---- The environment ---- */

static bool parse_word(const char *words, const char *text, int64_t *value)
{
    const size_t length = strlen(text);
    int64_t number = 0;

    if (words == NULL || length == 0 || strchr(text, ' ') != NULL)
        return false;
    for (const char *word = words; *word != 0; number++) {
        const char *const end = strchr(word, ' ');
        if ((size_t)(end - word) == length && memcmp(word, text, length) == 0) {
            *value = number;
            return true;
        }
        word = end + 1;
    }
    return false;
}

/* Decimal digits, and then nothing or one of K, M, G for powers of 1024. */
static bool parse_number(const char *text, int64_t *value)
{
    int64_t number = 0;

    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number))
            return false;
    if (*text != 0) {
        static const char units[] = "KMGkmg";
        const char *const unit = strchr(units, *text);
        if (unit == NULL || text[1] != 0)
            return false;
        if (__builtin_mul_overflow(number, (int64_t)1024 << (10 * ((unit - units) % 3)), &number))
            return false;
    }
    *value = number;
    return true;
}

static void complain(const char *entry, const char *what)
{
    struct smm_text line;

    smm_text_clear(&line);
    smm_text_string(&line, "shardmm: ");
    smm_text_string(&line, entry);
    if (line.length > 200)
        line.length = 200;
    smm_text_string(&line, what);
    smm_text_string(&line, "\n");
    smm_os_write(SMM_OS_STDERR, line.bytes, line.length);
}

void smm_options_read(const char *entry)
{
    static const char prefix[] = "SHARDMM_";
    char name[32];
    size_t length = 0;
    int64_t value = 0;

    if (strncmp(entry, prefix, sizeof prefix - 1) != 0)
        return;
    const char *const start = entry + sizeof prefix - 1;
    for (; start[length] != 0 && start[length] != '=' && length < sizeof name; length++)
        name[length] = (char)(start[length] >= 'A' && start[length] <= 'Z' ? start[length] | 0x20 : start[length]);
    if (start[length] != '=') {
        complain(entry, ": no such option");
        return;
    }
    const char *const text = start + length + 1;
    if (length == 10 && memcmp(name, "stats_file", 10) == 0) {
        if (strlen(text) >= sizeof stats_file)
            complain(entry, ": too long for the name of a file");
        else
            memcpy(stats_file, text, strlen(text) + 1);
        return;
    }
    const enum option option = find(name, length);
    if (option == OPTION_COUNT)
        complain(entry, ": no such option");
    else if ((!parse_word(rules[option].words, text, &value) && !parse_number(text, &value)) ||
             value < rules[option].least || value > rules[option].most)
        complain(entry, ": not a value of this option, the default is used");
    else
        apply(option, value);
}

void smm_options_start(void)
{
    static bool initialised;
    const char *entry;

    if (!initialised) {
        initialised = true;
        for (unsigned i = 0; i < OPTION_COUNT; i++)
            apply((enum option)i, rules[i].initial);
    }
    if (environment_read || !smm_os_environment_ready())
        return;
    environment_read = true;
    for (size_t i = 0; (entry = smm_os_environment(i)) != NULL; i++)
        smm_options_read(entry);
}

enum smm_stats_at_exit smm_option_stats(void)
{
    return (enum smm_stats_at_exit)smm_load_relaxed(&values[STATS]);
}

const char *smm_option_stats_file(void)
{
    return stats_file[0] != 0 ? stats_file : NULL;
}

uint32_t smm_option_stats_pid(void)
{
    return (uint32_t)smm_load_relaxed(&values[STATS_PID]);
}

int smm_option_verbose(void)
{
    return (int)smm_load_relaxed(&values[VERBOSE]);
}
