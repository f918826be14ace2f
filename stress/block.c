/* SPDX-License-Identifier: MIT */
/* block.c - the calls of the malloc family, each with the checks of its contract. */
#include "block.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "target.h"

/* What any block is aligned to; the C library promises the same on 64-bit machines. */
#define ALIGNMENT_MIN ((size_t)16)
/* No real error: a call that must leave errno alone leaves this. */
#define ERRNO_MARK 9999

/* ---- Reports and counts ---- */

/* Only counted, nothing is published through it: relaxed. */
static _Atomic unsigned report_count;

void report(const char *where, const char *format, ...)
{
    const unsigned before = atomic_fetch_add_explicit(&report_count, 1, memory_order_relaxed);
    char text[400];
    va_list arguments;

    if (before >= REPORTS_MAX) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* One call, so that lines of several threads do not mix. stderr is not buffered: no allocation. */
    (void)fprintf(stderr, "stress: error: %s: %s\n", where, text);
}

unsigned reported(void)
{
    return atomic_load_explicit(&report_count, memory_order_relaxed);
}

void actor_init(struct actor *actor, const char *name, uint64_t seed)
{
    actor->name = name;
    actor->random.state = seed;
    atomic_store_explicit(&actor->operations, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->handovers, 0, memory_order_relaxed);
}

void actor_count(_Atomic uint64_t *count)
{
    /* One writer: a load and a store, no locked instruction. */
    const uint64_t now = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, now + 1, memory_order_relaxed);
}

/* ---- Sizes ---- */

size_t size_small(struct random *random)
{
    const size_t lot = random_below(random, 100);

    if (lot < 70) {
        return random_below(random, 257); /* 0 as well */
    }
    return lot < 90 ? random_between(random, 1, 2 * KIB) : random_between(random, 1, SMALL_MAX);
}

size_t size_any(struct random *random, const struct size_mix *mix)
{
    /* Few medium blocks come without being asked for: --medium adds to them. */
    const unsigned medium_always = 5;
    const size_t lot = random_below(random, 1000);

    if (lot < mix->large) {
        return random_between(random, MEDIUM_MAX + 1, LARGE_MAX);
    }
    if (lot < mix->large + mix->medium + medium_always) {
        return random_scaled(random, SMALL_MAX + 1, MEDIUM_MAX);
    }
    return size_small(random);
}

/* ---- Checks ---- */

static void errno_mark(void)
{
    errno = ERRNO_MARK;
}

static void errno_check(const struct actor *actor, const char *call)
{
#if SHARDMM_STRESS_OWN
    if (errno != ERRNO_MARK) {
        report(actor->name, "%s changed errno: expected %d, found %d", call, ERRNO_MARK, errno);
    }
#else
    (void)actor;
    (void)call;
#endif
}

/* Is the first `length` bytes' pattern whole? */
static bool pattern_holds(const struct actor *actor, const struct block *block, size_t length, const char *when)
{
    const size_t wrong = pattern_check(block->memory, length, block->filled, block->seed, block->dense);

    if (wrong == PATTERN_GOOD) {
        return true;
    }
    report(actor->name, "pattern %s: block %p of %zu bytes, made by %s, offset %zu: expected %02x, found %02x", when,
           (void *)block->memory, block->size, block->maker, wrong, pattern_byte(block->seed, wrong),
           block->memory[wrong]);
    return false;
}

bool block_check(struct actor *actor, struct block *block, const char *when)
{
    bool good = pattern_holds(actor, block, block->filled, when);

    if (good) {
        const size_t usable = target_usable_size(block->memory);
        if (usable != block->usable) {
            report(actor->name, "usable size %s: block %p of %zu bytes, made by %s: expected %zu, found %zu", when,
                   (void *)block->memory, block->size, block->maker, block->usable, usable);
            good = false;
        }
    }
    if (!good) {
        block->memory = NULL;
    }
    return good;
}

/* Takes over what `call` gave for `size` bytes at a multiple of `alignment` (0: none was asked for). */
static bool block_accept(struct actor *actor, struct block *block, void *memory, size_t alignment, size_t size,
                         const char *call)
{
    const size_t multiple = alignment > ALIGNMENT_MIN ? alignment : ALIGNMENT_MIN;
    const int cause = errno;

    actor_count(&actor->operations);
    block->memory = memory;
    if (memory == NULL) {
        report(actor->name, "%s of %zu bytes, alignment %zu: expected a block, found NULL, errno %d", call, size,
               multiple, cause);
        return false;
    }
    errno_check(actor, call);
    block->size = size;
    block->alignment = alignment;
    block->maker = actor->name;
    block->seed = random_next(&actor->random);
    block->usable = target_usable_size(memory);
    if ((uintptr_t)memory % multiple != 0) {
        report(actor->name, "alignment after %s of %zu bytes: expected a multiple of %zu, found %p", call, size,
               multiple, memory);
    }
    if (block->usable < size) {
        report(actor->name, "usable size after %s: block %p: expected %zu at least, found %zu", call, memory, size,
               block->usable);
        block->usable = size;
    }
    /* A block of 0 bytes stays untouched: TSan tells a usable byte for it and reports whoever uses it. */
    block->filled = size != 0 && random_one_in(&actor->random, 16) ? block->usable : size;
    block->dense = block->filled < PATTERN_SPARSE_MIN || random_one_in(&actor->random, 4);
    return true;
}

static void block_fill(struct block *block)
{
    pattern_fill(block->memory, block->filled, block->seed, block->dense);
}

/* ---- Life of a block ---- */

static bool block_calloc(struct actor *actor, struct block *block, size_t size)
{
    /* A factor other than 1 where it divides the size, so that the product is used. */
    const size_t count = size % 8 == 0 && size != 0 ? 8 : 1;
    size_t wrong;

    errno_mark();
    if (!block_accept(actor, block, target_calloc(count, size / count), 0, size, "calloc")) {
        return false;
    }
    wrong = pattern_check_zero(block->memory, size);
    if (wrong != PATTERN_GOOD) {
        report(actor->name, "calloc: block %p of %zu bytes, offset %zu: expected 00, found %02x",
               (void *)block->memory, size, wrong, block->memory[wrong]);
    }
    return true;
}

bool block_make(struct actor *actor, struct block *block, size_t size)
{
    const size_t lot = random_below(&actor->random, 8);
    bool good;

    if (lot == 0) {
        good = block_calloc(actor, block, size);
    } else if (lot == 1 && size != 0) {
        errno_mark();
        good = block_accept(actor, block, target_realloc(NULL, size), 0, size, "realloc(NULL)");
    } else {
        errno_mark();
        good = block_accept(actor, block, target_malloc(size), 0, size, "malloc");
    }
    if (good) {
        block_fill(block);
    }
    return good;
}

static bool block_make_at(struct actor *actor, struct block *block, size_t alignment, size_t size)
{
    bool good;

    if (random_one_in(&actor->random, 2)) {
        errno_mark();
        good = block_accept(actor, block, target_posix_memalign(alignment, size), alignment, size, "posix_memalign");
    } else {
#if !SHARDMM_STRESS_OWN
        size = (size + alignment - 1) & ~(alignment - 1);
#endif
        errno_mark();
        good = block_accept(actor, block, target_aligned_alloc(alignment, size), alignment, size, "aligned_alloc");
    }
    if (good) {
        block_fill(block);
    }
    return good;
}

bool block_make_aligned(struct actor *actor, struct block *block, size_t size)
{
    return block_make_at(actor, block, (size_t)16 << random_below(&actor->random, 13), size);
}

bool block_make_far_aligned(struct actor *actor, struct block *block, size_t size)
{
    return block_make_at(actor, block, 2 * MIB << random_below(&actor->random, 3), size);
}

void block_resize(struct actor *actor, struct block *block, size_t size)
{
    const struct block old = *block;
    const size_t kept = size < old.size ? size : old.size;
    void *memory;

    errno_mark();
    memory = target_realloc(block->memory, size);
    if (memory == NULL) {
        report(actor->name, "realloc of %zu to %zu bytes: expected a block, found NULL, errno %d", old.size, size,
               errno);
        (void)block_check(actor, block, "after realloc that failed");
        return;
    }
    if (!block_accept(actor, block, memory, 0, size, "realloc")) {
        return;
    }
    {
        struct block before = old;
        before.memory = block->memory;
        if (!pattern_holds(actor, &before, kept, "after realloc")) {
            block->memory = NULL;
            return;
        }
    }
    block_fill(block);
}

void block_free(struct actor *actor, struct block *block, const char *when)
{
    const char *call = "free";

    if (!block_check(actor, block, when)) {
        return;
    }
    errno_mark();
    switch (random_below(&actor->random, 8)) {
    case 0:
    case 1:
        call = "sized free";
        target_free_exact(block->memory, block->alignment, block->size);
        break;
#if SHARDMM_STRESS_OWN
    case 2: /* other allocators need not free here */
        call = "realloc(0)";
        if (target_realloc(block->memory, 0) != NULL) {
            report(actor->name, "realloc of %zu to 0 bytes: expected NULL, found a block", block->size);
        }
        break;
#endif
    default:
        target_free(block->memory);
        break;
    }
    errno_check(actor, call);
    block->memory = NULL;
    actor_count(&actor->operations);
}
