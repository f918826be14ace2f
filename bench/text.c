/* SPDX-License-Identifier: MIT */
/* text.c - strings with their length before the text, made, copied, compared, joined and dropped. */

#include "bench.h"
#include "model.h"

struct text *B(text_new)(size_t length)
{
    struct text *text = need(malloc(sizeof *text + length + 1));
    text->length = length;
    text->bytes[length] = 0;
    return text;
}

struct text *B(text_random)(uint64_t *random, size_t least, size_t most)
{
    struct text *text = B(text_new)(random_between(random, least, most));
    uint64_t bits = 0;
    for (size_t i = 0; i < text->length; i++) {
        if (i % 8 == 0)
            bits = next_random(random);
        text->bytes[i] = (char)('a' + (bits & 15));
        bits >>= 8;
    }
    return text;
}

struct text *B(text_copy)(const struct text *from)
{
    struct text *text = B(text_new)(from->length);
    memcpy(text->bytes, from->bytes, from->length);
    return text;
}

struct text *B(text_append)(struct text *text, const void *bytes, size_t length)
{
    const size_t old = text != NULL ? text->length : 0;
    text = need(realloc(text, sizeof *text + old + length + 1));
    memcpy(text->bytes + old, bytes, length);
    text->length = old + length;
    text->bytes[text->length] = 0;
    return text;
}

static void drop_texts(struct text **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

/* ---- strings ---- */

enum { STRINGS = 20000 };

static void strings_work(struct worker *self)
{
    uint64_t sum = self->checksum;
    struct text **live = need(calloc(STRINGS, sizeof *live));
    const size_t steps = scaled(self, 3000000);
    for (size_t step = 0; step < steps; step++) {
        const size_t at = random_below(&self->random, STRINGS), other = random_below(&self->random, STRINGS);
        free(live[at]);
        live[at] = NULL;
        if (live[other] != NULL && step % 3 == 0)
            live[at] = B(text_copy)(live[other]);
        else
            live[at] = B(text_random)(&self->random, 4, step % 16 == 0 ? 120 : 40);
        const struct text *a = live[at], *b = live[other] != NULL ? live[other] : a;
        sum = mix(sum, (uint64_t)(strcmp(a->bytes, b->bytes) < 0) + a->length);
    }
    for (size_t i = 0; i < STRINGS; i++)
        if (live[i] != NULL)
            sum = mix_bytes(sum, live[i]->bytes, live[i]->length);
    self->held = live;
    self->checksum = sum;
    self->operations = steps;
}

static void strings_drop(struct worker *self)
{
    drop_texts(self->held, STRINGS);
}

/* ---- concat ---- */

enum { LINES = 400 };

static void concat_work(struct worker *self)
{
    static const char piece[] = "{\"name\": \"value\", \"number\": 12345678, ";
    uint64_t sum = self->checksum;
    struct text **lines = need(calloc(LINES, sizeof *lines));
    const size_t count = scaled(self, 40000);
    for (size_t i = 0; i < count; i++) {
        const size_t at = i % LINES, length = random_between(&self->random, 200, 6000);
        struct text *line = NULL;
        while (line == NULL || line->length < length) {
            const size_t from = random_below(&self->random, 20);
            line = B(text_append)(line, piece + from, random_between(&self->random, 1, sizeof piece - 1 - from));
        }
        self->operations += line->length;
        if (lines[at] != NULL && i % 8 == 0)
            line = B(text_append)(line, lines[at]->bytes, lines[at]->length % 500);
        free(lines[at]);
        lines[at] = line;
        sum = mix(sum, line->length + (unsigned char)line->bytes[line->length / 2]);
    }
    for (size_t i = 0; i < LINES; i++)
        if (lines[i] != NULL)
            sum = mix_bytes(sum, lines[i]->bytes, lines[i]->length);
    self->held = lines;
    self->checksum = sum;
}

static void concat_drop(struct worker *self)
{
    drop_texts(self->held, LINES);
}

const struct scenario B(text_scenarios)[] = {
    {.name = "strings", .about = "short strings made, copied, compared and dropped", .work = strings_work,
     .drop = strings_drop},
    {.name = "concat", .about = "strings of up to 6 KB appended piece by piece", .work = concat_work,
     .drop = concat_drop},
    {.name = NULL},
};
