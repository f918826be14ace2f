/* SPDX-License-Identifier: MIT */
/* pattern.h - fills a block with bytes that depend on a seed, and checks them later.
 *
 * The pattern of a seed does not depend on the size: a block that was resized is checked over the smaller
 * of both sizes. Blocks of different seeds agree nowhere for long, also when one is shifted against the
 * other, so that a block that overlaps another or was copied from the wrong place is seen.
 */
#ifndef SMM_TESTS_PATTERN_H
#define SMM_TESTS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_start(uint64_t seed)
{
    seed = (seed + 1) * UINT64_C(0xBF58476D1CE4E5B9);
    return seed ^ (seed >> 31);
}

static inline uint64_t pattern_word(uint64_t start, size_t index)
{
    const uint64_t word = (start ^ (uint64_t)index) * UINT64_C(0x9E3779B97F4A7C15);
    return word ^ (word >> 32);
}

/* Writes the bytes `from` .. `size - 1` of the pattern, as after growing a block. `from` is rounded down to
 * a multiple of 8. */
static inline void pattern_fill_from(void *block, size_t from, size_t size, uint64_t seed)
{
    unsigned char *const bytes = block;
    const uint64_t start = pattern_start(seed);
    size_t at = from & ~(size_t)7;
    uint64_t word;

    for (; size - at >= sizeof word; at += sizeof word) {
        word = pattern_word(start, at / sizeof word);
        memcpy(bytes + at, &word, sizeof word);
    }
    word = pattern_word(start, at / sizeof word);
    memcpy(bytes + at, &word, size - at);
}

static inline void pattern_fill(void *block, size_t size, uint64_t seed)
{
    pattern_fill_from(block, 0, size, seed);
}

static inline bool pattern_holds(const void *block, size_t size, uint64_t seed)
{
    const unsigned char *const bytes = block;
    const uint64_t start = pattern_start(seed);
    size_t at = 0;
    uint64_t word;
    uint64_t seen = 0;
    uint64_t wrong = 0;

    for (; size - at >= sizeof word; at += sizeof word) {
        word = pattern_word(start, at / sizeof word);
        memcpy(&seen, bytes + at, sizeof seen);
        wrong |= seen ^ word;
    }
    for (word = pattern_word(start, at / sizeof word); at < size; at++)
        wrong |= bytes[at] ^ ((const unsigned char *)&word)[at % sizeof word];
    return wrong == 0;
}

static inline bool bytes_are_zero(const void *block, size_t size)
{
    const unsigned char *const bytes = block;
    uint64_t seen = 0;
    uint64_t wrong = 0;
    size_t at = 0;

    for (; size - at >= sizeof seen; at += sizeof seen) {
        memcpy(&seen, bytes + at, sizeof seen);
        wrong |= seen;
    }
    for (; at < size; at++)
        wrong |= bytes[at];
    return wrong == 0;
}

#endif
