/* SPDX-License-Identifier: MIT */
/* block.h - a block under test: made, resized, checked and freed, with every rule checked on the way.
 *
 * A `struct block` lives outside the memory that it describes, in static memory, so that a faulty allocator
 * cannot damage what it is judged by. One thread at a time owns it; exchange.h passes it on.
 */
#ifndef SHARDMM_STRESS_BLOCK_H
#define SHARDMM_STRESS_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pattern.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

#define SMALL_MAX (16 * KIB)
#define MEDIUM_MAX (1 * MIB)
#define LARGE_MAX (4 * MIB)

/* Who acts: one for each thread, written by that thread alone. */
struct actor {
    const char *name;
    struct random random;
    _Atomic uint64_t operations; /* read by the progress line meanwhile: relaxed, a count and nothing more */
    _Atomic uint64_t handovers;
};

struct block {
    unsigned char *memory; /* NULL: none */
    size_t size;           /* asked for */
    size_t filled;         /* covered by the pattern: `size`, or now and then all that is usable */
    size_t usable;
    size_t alignment;      /* 0: made by malloc, calloc or realloc */
    uint64_t seed;
    const char *maker;
    bool dense;
};

/* Prints one line (the first REPORTS_MAX times) and counts an error. From any thread. */
#define REPORTS_MAX 20u
void report(const char *where, const char *format, ...) __attribute__((format(printf, 2, 3)));
unsigned reported(void);

void actor_init(struct actor *actor, const char *name, uint64_t seed);
/* Adds one to a count of the caller's own actor. */
void actor_count(_Atomic uint64_t *count);

/* Sizes as programs ask for them, plus the shares in thousandths of the command line. */
struct size_mix {
    unsigned large;
    unsigned medium;
};
size_t size_small(struct random *random);
size_t size_any(struct random *random, const struct size_mix *mix);

/* Each makes a block, checks it and fills it. False when that failed, which has been reported: then
 * block->memory is NULL. */
bool block_make(struct actor *actor, struct block *block, size_t size);         /* malloc, calloc or realloc */
bool block_make_aligned(struct actor *actor, struct block *block, size_t size); /* alignment at random */
bool block_make_far_aligned(struct actor *actor, struct block *block, size_t size); /* to 2 MiB and above */

/* Checks all of the block. A block that is damaged is reported and given up (memory NULL, never freed):
 * what lies around it may be damaged as well, and an abort in free() would hide the other reports. */
bool block_check(struct actor *actor, struct block *block, const char *when);

/* Resizes, checks what had to stay, fills anew. */
void block_resize(struct actor *actor, struct block *block, size_t size);

/* Checks, then frees in one of the ways that suit the block. */
void block_free(struct actor *actor, struct block *block, const char *when);

#endif
