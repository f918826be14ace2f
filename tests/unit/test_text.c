/* SPDX-License-Identifier: MIT */
/* test_text.c - text that is put together without allocating. */
#include "base/text.h"

#include <inttypes.h>

#include "unit.h"

static void assert_text(const struct smm_text *text, const char *expected)
{
    assert_int_equal(text->length, strlen(expected));
    assert_memory_equal(text->bytes, expected, text->length);
}

static void numbers_are_decimal(void **state)
{
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 4294967296u, 10000000000000000000u, UINT64_MAX};
    struct smm_text text;
    char expected[32];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        snprintf(expected, sizeof expected, "%" PRIu64, numbers[i]);
        smm_text_clear(&text);
        smm_text_unsigned(&text, numbers[i]);
        assert_text(&text, expected);
    }
}

static void addresses_are_hexadecimal(void **state)
{
    static const uintptr_t addresses[] = {0, 15, 16, 0x7fff12345678u, UINTPTR_MAX};
    struct smm_text text;
    char expected[32];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        snprintf(expected, sizeof expected, "0x%" PRIxPTR, addresses[i]);
        smm_text_clear(&text);
        smm_text_address(&text, (const void *)addresses[i]);
        assert_text(&text, expected);
    }
}

static void bytes_have_the_unit_that_people_read(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 bytes"},
        {1023, "1023 bytes"},
        {1024, "1.0 KiB"},
        {1024 + 102, "1.0 KiB"},
        {1024 + 103, "1.1 KiB"},
        {1536, "1.5 KiB"},
        {((uint64_t)1 << 20) - 1, "1023.9 KiB"},
        {(uint64_t)1 << 20, "1.0 MiB"},
        {((uint64_t)1 << 20) + ((uint64_t)1 << 18), "1.2 MiB"},
        {(uint64_t)1 << 30, "1.0 GiB"},
        {(uint64_t)1 << 40, "1.0 TiB"},
        {(uint64_t)5 << 50, "5120.0 TiB"},
        {UINT64_MAX, "16777215.9 TiB"},
    };
    struct smm_text text;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        smm_text_clear(&text);
        smm_text_bytes(&text, cases[i].bytes);
        assert_text(&text, cases[i].text);
    }
}

static void pieces_follow_on_one_another(void **state)
{
    struct smm_text text;

    (void)state;
    smm_text_clear(&text);
    smm_text_string(&text, "free(");
    smm_text_address(&text, (const void *)(uintptr_t)0xabc0);
    smm_text_string(&text, "): ");
    smm_text_unsigned(&text, 48);
    smm_text_string(&text, "");
    assert_text(&text, "free(0xabc0): 48");
    smm_text_clear(&text);
    assert_text(&text, "");
}

static void what_does_not_fit_is_cut(void **state)
{
    struct {
        struct smm_text text;
        char after[64];
    } room;
    char filler[sizeof room.text.bytes];

    (void)state;
    memset(filler, 'x', sizeof filler);
    for (size_t left = 0; left < 30; left++) {
        memset(&room, '~', sizeof room);
        smm_text_clear(&room.text);
        filler[sizeof filler - 1 - left] = 0;
        smm_text_string(&room.text, filler);
        assert_int_equal(room.text.length, sizeof filler - 1 - left);
        smm_text_unsigned(&room.text, UINT64_MAX);
        smm_text_address(&room.text, (const void *)UINTPTR_MAX);
        smm_text_bytes(&room.text, UINT64_MAX);
        smm_text_string(&room.text, "and more");
        assert_int_equal(room.text.length, sizeof room.text.bytes);
        assert_memory_equal(room.text.bytes + sizeof filler - 1 - left, "18446744073709551615",
                            left + 1 < 20 ? left + 1 : 20);
        for (size_t i = 0; i < sizeof room.after; i++)
            assert_int_equal(room.after[i], '~');
        filler[sizeof filler - 1 - left] = 'x';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_decimal),
        cmocka_unit_test(addresses_are_hexadecimal),
        cmocka_unit_test(bytes_have_the_unit_that_people_read),
        cmocka_unit_test(pieces_follow_on_one_another),
        cmocka_unit_test(what_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
