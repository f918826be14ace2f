/* SPDX-License-Identifier: MIT */
#include "base/text.h"

static void text_char(struct smm_text *text, char c)
{
    if (text->length < sizeof text->bytes)
        text->bytes[text->length++] = c;
}

void smm_text_string(struct smm_text *text, const char *string)
{
    while (*string)
        text_char(text, *string++);
}

static void text_number(struct smm_text *text, uint64_t value, unsigned base)
{
    char digits[20];
    unsigned count = 0;

    do
        digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    while (count)
        text_char(text, digits[--count]);
}

void smm_text_unsigned(struct smm_text *text, uint64_t value)
{
    text_number(text, value, 10);
}

void smm_text_address(struct smm_text *text, const void *address)
{
    smm_text_string(text, "0x");
    text_number(text, (uintptr_t)address, 16);
}

void smm_text_bytes(struct smm_text *text, uint64_t bytes)
{
    static const char *const units[] = {" bytes", " KiB", " MiB", " GiB", " TiB"};
    unsigned unit = 0;
    uint64_t tenths;

    while (unit < 4 && bytes >> (10 * (unit + 1)))
        unit++;
    if (unit == 0) {
        smm_text_unsigned(text, bytes);
    } else {
        /* Split before the multiplication by ten, which would overflow for the largest numbers. */
        const uint64_t whole = bytes >> (10 * unit);
        const uint64_t rest = bytes & (((uint64_t)1 << (10 * unit)) - 1);
        tenths = (rest * 10) >> (10 * unit);
        smm_text_unsigned(text, whole);
        text_char(text, '.');
        smm_text_unsigned(text, tenths);
    }
    smm_text_string(text, units[unit]);
}
