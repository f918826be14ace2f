/* SPDX-License-Identifier: MIT */
/* pattern.h - random numbers from a seed, and the bytes by which a block is known.
 *
 * The byte at offset o of a block depends on the block's seed and on o alone, so that a prefix can be
 * checked after a resize, and a block that was moved by a few bytes is seen. Two ways to fill:
 *
 *   dense    every byte
 *   sparse   the first and last 64 bytes, and the first word of each line of 64 bytes between them:
 *            finds lost pages and overlapping blocks at an eighth of the work
 *
 * Nothing here is shared between threads.
 */
#ifndef SHARDMM_STRESS_PATTERN_H
#define SHARDMM_STRESS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- Random numbers (splitmix64) ---- */

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* 0 .. bound - 1. The bias of the remainder does not matter here. */
static inline size_t random_below(struct random *random, size_t bound)
{
    return (size_t)(random_next(random) >> 16) % bound;
}

static inline size_t random_between(struct random *random, size_t low, size_t high)
{
    return low + random_below(random, high - low + 1);
}

static inline bool random_one_in(struct random *random, size_t n)
{
    return random_below(random, n) == 0;
}

/* low .. high, every power of two between them as likely as the next. `low` is at least 1. */
static inline size_t random_scaled(struct random *random, size_t low, size_t high)
{
    unsigned powers = 1;
    size_t from;

    for (size_t x = low; x <= high / 2; x *= 2) {
        powers++;
    }
    from = low << random_below(random, powers);
    return random_between(random, from, high - from < from ? high : 2 * from - 1);
}

/* ---- The pattern ---- */

#define PATTERN_LINE 64u
/* Below this size a block is always dense: head, tail and lines must not overlap. */
#define PATTERN_SPARSE_MIN (16u * 1024u)
#define PATTERN_GOOD SIZE_MAX

static inline uint64_t pattern_word(uint64_t seed, size_t index)
{
    const uint64_t x = seed + (uint64_t)index * UINT64_C(0xd6e8feb86659fd93);

    return x ^ (x >> 32);
}

static inline unsigned char pattern_byte(uint64_t seed, size_t offset)
{
    unsigned char bytes[8];
    const uint64_t word = pattern_word(seed, offset / 8);

    memcpy(bytes, &word, sizeof word);
    return bytes[offset % 8];
}

/* Fills from..to - 1; `from` is a multiple of 8. */
static inline void pattern_fill_range(unsigned char *memory, size_t from, size_t to, uint64_t seed)
{
    size_t at = from;

    for (; to - at >= 8; at += 8) {
        const uint64_t word = pattern_word(seed, at / 8);
        memcpy(memory + at, &word, sizeof word);
    }
    for (; at < to; at++) {
        memory[at] = pattern_byte(seed, at);
    }
}

/* The offset of the first wrong byte of from..to - 1, or PATTERN_GOOD. `from` is a multiple of 8. */
static inline size_t pattern_check_range(const unsigned char *memory, size_t from, size_t to, uint64_t seed)
{
    size_t at = from;

    for (; to - at >= 8; at += 8) {
        uint64_t found;
        memcpy(&found, memory + at, sizeof found);
        if (found != pattern_word(seed, at / 8)) {
            break;
        }
    }
    for (; at < to; at++) {
        if (memory[at] != pattern_byte(seed, at)) {
            return at;
        }
    }
    return PATTERN_GOOD;
}

static inline size_t pattern_tail(size_t filled)
{
    return (filled - PATTERN_LINE) & ~(size_t)7;
}

/* Fills `filled` bytes; a sparse block has at least PATTERN_SPARSE_MIN. */
static inline void pattern_fill(unsigned char *memory, size_t filled, uint64_t seed, bool dense)
{
    if (dense) {
        pattern_fill_range(memory, 0, filled, seed);
        return;
    }
    pattern_fill_range(memory, 0, PATTERN_LINE, seed);
    for (size_t at = PATTERN_LINE; at + 8 <= filled; at += PATTERN_LINE) {
        pattern_fill_range(memory, at, at + 8, seed);
    }
    pattern_fill_range(memory, pattern_tail(filled), filled, seed);
}

/* Checks the first `length` bytes of a block of which pattern_fill() filled `filled`. Returns the offset of
 * a wrong byte, or PATTERN_GOOD. */
static inline size_t pattern_check(const unsigned char *memory, size_t length, size_t filled, uint64_t seed,
                                   bool dense)
{
    size_t wrong;

    if (dense) {
        return pattern_check_range(memory, 0, length, seed);
    }
    wrong = pattern_check_range(memory, 0, length < PATTERN_LINE ? length : PATTERN_LINE, seed);
    for (size_t at = PATTERN_LINE; wrong == PATTERN_GOOD && at + 8 <= length; at += PATTERN_LINE) {
        wrong = pattern_check_range(memory, at, at + 8, seed);
    }
    if (wrong == PATTERN_GOOD && length > pattern_tail(filled)) {
        wrong = pattern_check_range(memory, pattern_tail(filled), length, seed);
    }
    return wrong;
}

/* The offset of the first byte that is not 0, or PATTERN_GOOD. */
static inline size_t pattern_check_zero(const unsigned char *memory, size_t size)
{
    size_t at = 0;

    for (; size - at >= 8; at += 8) {
        uint64_t found;
        memcpy(&found, memory + at, sizeof found);
        if (found != 0) {
            break;
        }
    }
    for (; at < size; at++) {
        if (memory[at] != 0) {
            return at;
        }
    }
    return PATTERN_GOOD;
}

#endif
