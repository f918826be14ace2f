/* SPDX-License-Identifier: MIT */
/* test_stats.c - the figures of the process: how they are asked for, that they follow what the process does,
 * and that their text and JSON are well formed. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "../common/support.h"

/* ---- Asking ---------------------------------------------------------------------------------------- */

static void the_version_and_size_of_the_library_are_filled_in(void **state)
{
    const struct shardmm_stats stats = stats_now();
    (void)state;

    assert_int_equal(stats.version, SHARDMM_STATS_VERSION);
    assert_int_equal(stats.struct_size, sizeof stats);
}

static void no_stats_or_too_few_bytes_are_EINVAL(void **state)
{
    struct shardmm_stats stats;
    (void)state;

    memset(&stats, 0x5A, sizeof stats);
    assert_int_equal(shardmm_stats_get(NULL, sizeof stats), EINVAL);
    for (size_t size = 0; size < 2 * sizeof(uint32_t); size++)
        assert_int_equal(shardmm_stats_get(&stats, size), EINVAL);
    for (size_t i = 0; i < sizeof stats; i++)
        assert_int_equal(((unsigned char *)&stats)[i], 0x5A);
}

static void a_program_with_an_older_header_gets_the_fields_that_it_knows(void **state)
{
    (void)state;
    for (size_t size = 2 * sizeof(uint32_t); size <= sizeof(struct shardmm_stats); size++) {
        struct shardmm_stats stats;
        memset(&stats, 0x5A, sizeof stats);
        assert_int_equal(shardmm_stats_get(&stats, size), 0);
        assert_int_equal(stats.version, SHARDMM_STATS_VERSION);
        assert_int_equal(stats.struct_size, sizeof stats);
        for (size_t i = size; i < sizeof stats; i++)
            assert_int_equal(((unsigned char *)&stats)[i], 0x5A);
    }
}

static void a_program_with_a_newer_header_gets_what_the_library_knows(void **state)
{
    struct {
        struct shardmm_stats known;
        uint64_t unknown[4];
    } stats;
    (void)state;

    memset(&stats, 0x5A, sizeof stats);
    assert_int_equal(shardmm_stats_get(&stats.known, sizeof stats), 0);
    assert_int_equal(stats.known.struct_size, sizeof stats.known);
    assert_true(stats.known.committed_peak >= stats.known.committed);
}

/* ---- The figures ------------------------------------------------------------------------------------- */

static void blocks_in_use_are_counted_by_kind_and_usable_size(void **state)
{
    static const size_t sizes[] = {1, 100, SMALL_MAX, SMALL_MAX + 1, 500000, MEDIUM_MAX, MEDIUM_MAX + 1, 9 * MIB};
    const struct shardmm_stats before = stats_now();
    struct shardmm_stats after;
    void *blocks[COUNT_OF(sizes)];
    size_t bytes[3] = {0, 0, 0};
    size_t counts[3] = {0, 0, 0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const size_t kind = sizes[i] <= SMALL_MAX ? 0 : sizes[i] <= MEDIUM_MAX ? 1 : 2;
        assert_non_null(blocks[i] = shardmm_malloc(sizes[i]));
        bytes[kind] += shardmm_usable_size(blocks[i]);
        counts[kind]++;
    }
    after = stats_now();
    assert_int_equal(after.small_blocks - before.small_blocks, counts[0]);
    assert_int_equal(after.small_bytes - before.small_bytes, bytes[0]);
    assert_int_equal(after.medium_blocks - before.medium_blocks, counts[1]);
    assert_int_equal(after.medium_bytes - before.medium_bytes, bytes[1]);
    assert_int_equal(after.large_blocks - before.large_blocks, counts[2]);
    assert_int_equal(after.large_bytes - before.large_bytes, bytes[2]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        shardmm_free(blocks[i]);
    assert_same_in_use(before);
}

static void resizing_moves_the_bytes_in_use(void **state)
{
    const struct shardmm_stats before = stats_now();
    void *block = NULL;
    (void)state;

    for (size_t size = 10; size < 40 * MIB; size = size * 3 + 1) {
        block = shardmm_realloc(block, size);
        assert_non_null(block);
        const struct shardmm_stats now = stats_now();
        assert_int_equal(now.small_blocks + now.medium_blocks + now.large_blocks,
                         before.small_blocks + before.medium_blocks + before.large_blocks + 1);
        assert_int_equal(now.small_bytes + now.medium_bytes + now.large_bytes,
                         before.small_bytes + before.medium_bytes + before.large_bytes +
                             shardmm_usable_size(block));
    }
    shardmm_free(block);
    assert_same_in_use(before);
}

static void *free_all(void *blocks)
{
    for (size_t i = 0; i < 100; i++)
        shardmm_free(((void **)blocks)[i]);
    return NULL;
}

static void blocks_freed_by_another_thread_are_counted(void **state)
{
    void *blocks[100];
    uint64_t before;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = shardmm_malloc(i % 10 == 9 ? 20000 : 64));
    before = stats_now().foreign_frees;
    (void)in_thread(free_all, blocks);
    assert_int_equal(stats_now().foreign_frees - before, COUNT_OF(blocks));
}

enum { LENT = 1024 };

struct lent {
    void *blocks[LENT];
    struct shardmm_stats full;     /* while all are in use */
    struct shardmm_stats in_hand;  /* 8 of as many were taken again */
    struct shardmm_stats given_up; /* and freed */
};

/* What a thread freed into the heap of another serves it again. */
static void *free_and_borrow(void *argument)
{
    struct lent *const lent = argument;
    void *again[8];
    unsigned errors = 0;

    shardmm_free(shardmm_malloc(64));
    EXPECT(errors, shardmm_stats_get(&lent->full, sizeof lent->full) == 0);
    for (size_t i = 0; i < LENT; i++)
        shardmm_free(lent->blocks[i]);
    for (size_t i = 0; i < COUNT_OF(again); i++)
        again[i] = shardmm_malloc(1024);
    EXPECT(errors, shardmm_stats_get(&lent->in_hand, sizeof lent->in_hand) == 0);
    for (size_t i = 0; i < COUNT_OF(again); i++)
        shardmm_free(again[i]);
    EXPECT(errors, shardmm_stats_get(&lent->given_up, sizeof lent->given_up) == 0);
    return ERRORS(errors);
}

static void blocks_that_a_thread_borrows_are_counted_once(void **state)
{
    static struct lent lent;
    (void)state;

    for (int round = 0; round < 3; round++) {
        const struct shardmm_stats before = stats_now();
        for (size_t i = 0; i < LENT; i++)
            assert_non_null(lent.blocks[i] = shardmm_malloc(1024));
        assert_no_errors(in_thread(free_and_borrow, &lent));
        assert_int_equal(lent.full.small_blocks, before.small_blocks + LENT);
        assert_int_equal(lent.in_hand.small_blocks, before.small_blocks + 8);
        assert_int_equal(lent.in_hand.small_bytes, before.small_bytes + 8 * 1024);
        assert_int_equal(lent.given_up.small_blocks, before.small_blocks);
        assert_int_equal(lent.given_up.small_bytes, before.small_bytes);
        assert_same_in_use(before);
    }
}

static void memory_taken_and_given_back_is_counted(void **state)
{
    struct shardmm_stats before;
    struct shardmm_stats full;
    struct shardmm_stats after;
    void *blocks[64];
    size_t returned;
    (void)state;

    (void)shardmm_purge();
    before = stats_now();
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = filled_block(500000 + i * 20000, i));
    full = stats_now();
    assert_true(full.commits > before.commits);
    assert_true(full.committed >= before.committed + COUNT_OF(blocks) * 500000);
    assert_true(full.committed_peak >= full.committed);
    assert_true(full.reserved >= full.committed);
    assert_true(full.segments > before.segments);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        shardmm_free(blocks[i]);
    returned = shardmm_purge();
    after = stats_now();
    assert_true(returned >= 10 * MIB);
    assert_true(after.purges > before.purges);
    assert_true(after.purged_bytes >= before.purged_bytes + returned);
    assert_true(after.committed + returned <= full.committed);
    assert_true(after.committed_peak >= full.committed);
}

static void free_memory_that_is_kept_is_counted(void **state)
{
    struct shardmm_stats before;
    void *const live = shardmm_malloc(SMALL_MAX + 1);
    void *block;
    (void)state;

    (void)shardmm_purge();
    before = stats_now();
    shardmm_free(filled_block(3 * MIB, 1));
    assert_int_equal(stats_now().large_cache_blocks, before.large_cache_blocks + 1);
    assert_true(stats_now().large_cache_bytes >= before.large_cache_bytes + 3 * MIB);

    block = filled_block(400000, 1);
    before = stats_now();
    shardmm_free(block);
    assert_true(stats_now().free_medium_bytes >= before.free_medium_bytes + 400000);

    block = filled_block(SMALL_MAX, 1);
    before = stats_now();
    shardmm_free(block); /* the only one of its page, unless a test before left others */
    assert_true(stats_now().free_pages_bytes >= before.free_pages_bytes);
    shardmm_free(live);
    (void)shardmm_purge();
    assert_int_equal(stats_now().large_cache_blocks, 0);
    assert_int_equal(stats_now().large_cache_bytes, 0);
    assert_int_equal(stats_now().free_pages_bytes, 0);
}

static void failures_are_counted(void **state)
{
    const uint64_t before = stats_now().failures;
    (void)state;

    assert_null(shardmm_malloc(hidden_size(SIZE_MAX)));
    assert_null(shardmm_calloc(hidden_size(SIZE_MAX), 2));
    assert_null(shardmm_aligned_alloc(64, hidden_size(PTRDIFF_MAX)));
    assert_int_equal(stats_now().failures - before, 3);
}

static void *live_for_a_moment(void *unused)
{
    shardmm_free(shardmm_malloc(1));
    return unused;
}

static void heaps_are_counted(void **state)
{
    (void)state;
    (void)in_thread(live_for_a_moment, NULL);
    assert_int_equal(stats_now().heaps_live, 1);
    assert_true(stats_now().heaps_waiting >= 1);
}

static void asking_allocates_nothing(void **state)
{
    const struct shardmm_stats first = stats_now();
    const struct shardmm_stats second = stats_now();
    (void)state;

    assert_memory_equal(&first, &second, sizeof first);
}

/* ---- Printing ------------------------------------------------------------------------------------------ */

struct text {
    size_t length;
    char bytes[64 * 1024];
};

static void collect(void *context, const char *piece, size_t length)
{
    struct text *const text = context;

    if (length < sizeof text->bytes - text->length) {
        memcpy(text->bytes + text->length, piece, length);
        text->length += length;
        text->bytes[text->length] = 0;
    } else {
        text->length = sizeof text->bytes;
    }
}

static struct text printed;

static void print(enum shardmm_stats_format format)
{
    memset(&printed, 0, sizeof printed);
    assert_int_equal(shardmm_stats_print(format, collect, &printed), 0);
    assert_in_range(printed.length, 2, sizeof printed.bytes - 1);
}

static void text_is_lines_of_printable_characters(void **state)
{
    (void)state;
    print(SHARDMM_STATS_TEXT);
    assert_int_equal(printed.bytes[printed.length - 1], '\n');
    for (size_t i = 0; i < printed.length; i++)
        assert_true(isprint((unsigned char)printed.bytes[i]) || printed.bytes[i] == '\n');
    assert_non_null(strchr(printed.bytes, '\n'));
    assert_true(strchr(printed.bytes, '\n') != printed.bytes + printed.length - 1);
}

/* A checker of JSON that takes what the grammar takes, without the escapes of strings, which there is no
 * need of here. Each function returns the place behind what it took, or NULL. */
static const char *json_value(const char *at);

static const char *json_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        if ((unsigned char)*at < 0x20 || *at == '\\')
            return NULL;
        at++;
    }
    return at + 1;
}

static const char *json_number(const char *at)
{
    const char *digits;

    if (*at == '-')
        at++;
    digits = at;
    at += strspn(at, "0123456789");
    if (at == digits || (*digits == '0' && at != digits + 1))
        return NULL;
    if (*at == '.') {
        digits = ++at;
        at += strspn(at, "0123456789");
        if (at == digits)
            return NULL;
    }
    return at;
}

/* Members in {} or elements in []. */
static const char *json_list(const char *at, char open)
{
    const char close = open == '{' ? '}' : ']';

    at = json_space(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (open == '{') {
            at = json_string(at);
            if (at == NULL || *(at = json_space(at)) != ':')
                return NULL;
            at = json_space(at + 1);
        }
        at = json_value(at);
        if (at == NULL)
            return NULL;
        at = json_space(at);
        if (*at == close)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = json_space(at + 1);
    }
}

static const char *json_value(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};

    if (*at == '{' || *at == '[')
        return json_list(at, *at);
    if (*at == '"')
        return json_string(at);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    }
    return json_number(at);
}

static void the_checker_of_json_knows_good_from_bad(void **state)
{
    static const char *const good[] = {"{}", "{\"a\": 1}", "{ \"a\":[1,2, {\"b\":-0.5}],\"c\":null }"};
    static const char *const bad[] = {
        "", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":01}", "{\"a\":1 \"b\":2}",
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *const end = json_value(good[i]);
        assert_non_null(end);
        assert_int_equal(*end, 0);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *const end = json_value(bad[i]);
        assert_true(end == NULL || *end != 0);
    }
}

static bool printed_number(const char *key, uint64_t *number)
{
    char quoted[64];
    const char *at;

    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    at = strstr(printed.bytes, quoted);
    if (at == NULL || strstr(at + 1, quoted) != NULL) /* exactly once */
        return false;
    at = json_space(at + strlen(quoted));
    if (*at != ':')
        return false;
    at = json_space(at + 1);
    return sscanf(at, "%" SCNu64, number) == 1;
}

static void json_is_one_object_and_a_newline(void **state)
{
    const char *end;
    (void)state;

    print(SHARDMM_STATS_JSON);
    assert_int_equal(printed.bytes[0], '{');
    end = json_value(printed.bytes);
    assert_non_null(end);
    assert_string_equal(end, "\n");
}

static void json_has_every_field_under_its_name(void **state)
{
#define FIELD(name) {#name, offsetof(struct shardmm_stats, name), sizeof(((struct shardmm_stats *)0)->name)}
    static const struct {
        const char *name;
        size_t offset;
        size_t size;
    } fields[] = {
        FIELD(version), FIELD(struct_size), FIELD(committed), FIELD(committed_peak), FIELD(reserved),
        FIELD(small_bytes), FIELD(small_blocks), FIELD(medium_bytes), FIELD(medium_blocks), FIELD(large_bytes),
        FIELD(large_blocks), FIELD(free_pages_bytes), FIELD(free_medium_bytes), FIELD(large_cache_bytes),
        FIELD(large_cache_blocks), FIELD(heaps_live), FIELD(heaps_waiting), FIELD(segments), FIELD(foreign_frees),
        FIELD(purges), FIELD(purged_bytes), FIELD(commits), FIELD(failures),
    };
    const struct shardmm_stats stats = stats_now();
    (void)state;

    print(SHARDMM_STATS_JSON);
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const unsigned char *const at = (const unsigned char *)&stats + fields[i].offset;
        uint64_t number = 0;
        uint32_t narrow = 0;
        uint64_t wide = 0;

        if (!printed_number(fields[i].name, &number))
            fail_msg("no \"%s\"", fields[i].name);
        if (fields[i].size == sizeof narrow) {
            memcpy(&narrow, at, sizeof narrow);
            wide = narrow;
        } else {
            memcpy(&wide, at, sizeof wide);
        }
        assert_int_equal(number, wide); /* nothing happened in between */
    }
}

static void printing_without_a_writer_or_in_an_unknown_format_is_EINVAL(void **state)
{
    (void)state;
    memset(&printed, 0, sizeof printed);
    assert_int_equal(shardmm_stats_print(SHARDMM_STATS_TEXT, NULL, &printed), EINVAL);
    assert_int_equal(shardmm_stats_print((enum shardmm_stats_format)2, collect, &printed), EINVAL);
    assert_int_equal(shardmm_stats_print((enum shardmm_stats_format)99, collect, &printed), EINVAL);
    assert_int_equal(printed.length, 0);
}

/* ---- The rest --------------------------------------------------------------------------------------------- */

static void the_version_is_that_of_the_header(void **state)
{
    (void)state;
    assert_string_equal(shardmm_version(), SHARDMM_VERSION_STRING);
}

static void verify_finds_no_fault(void **state)
{
    void *blocks[200];
    (void)state;

    assert_int_equal(shardmm_verify(), 0);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = shardmm_malloc(i * i * 50));
    assert_int_equal(shardmm_verify(), 0);
    for (size_t i = 0; i < COUNT_OF(blocks); i += 2)
        shardmm_free(blocks[i]);
    assert_int_equal(shardmm_verify(), 0);
    (void)shardmm_purge();
    assert_int_equal(shardmm_verify(), 0);
    for (size_t i = 1; i < COUNT_OF(blocks); i += 2)
        shardmm_free(blocks[i]);
    assert_int_equal(shardmm_verify(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_and_size_of_the_library_are_filled_in),
        cmocka_unit_test(no_stats_or_too_few_bytes_are_EINVAL),
        cmocka_unit_test(a_program_with_an_older_header_gets_the_fields_that_it_knows),
        cmocka_unit_test(a_program_with_a_newer_header_gets_what_the_library_knows),
        cmocka_unit_test(blocks_in_use_are_counted_by_kind_and_usable_size),
        cmocka_unit_test(resizing_moves_the_bytes_in_use),
        cmocka_unit_test(blocks_freed_by_another_thread_are_counted),
        cmocka_unit_test(blocks_that_a_thread_borrows_are_counted_once),
        cmocka_unit_test(memory_taken_and_given_back_is_counted),
        cmocka_unit_test(free_memory_that_is_kept_is_counted),
        cmocka_unit_test(failures_are_counted),
        cmocka_unit_test(heaps_are_counted),
        cmocka_unit_test(asking_allocates_nothing),
        cmocka_unit_test(text_is_lines_of_printable_characters),
        cmocka_unit_test(the_checker_of_json_knows_good_from_bad),
        cmocka_unit_test(json_is_one_object_and_a_newline),
        cmocka_unit_test(json_has_every_field_under_its_name),
        cmocka_unit_test(printing_without_a_writer_or_in_an_unknown_format_is_EINVAL),
        cmocka_unit_test(the_version_is_that_of_the_header),
        cmocka_unit_test(verify_finds_no_fault),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
