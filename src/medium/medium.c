/* SPDX-License-Identifier: MIT */
#include "medium/medium.h"

#include "base/bits.h"
#include "base/check.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/segment.h"
#include "segment/segment_map.h"

struct smm_medium_settings smm_medium_settings = {.huge_pages = SMM_HUGE_AUTO};

/* First unit of chunks, at a multiple of the system's usual pages: so blocks of whole pages share none. */
enum { FIRST = 24, END = SMM_ARENA_UNITS };
static const size_t STEP = 64 * SMM_KIB; /* in which `touched` counts as committed */
static const uint32_t AGES = 3;          /* visits of the collector until a free chunk is old */

_Static_assert(sizeof(struct smm_arena) <= FIRST * SMM_UNIT, "the header fits before the first chunk");
_Static_assert(END - FIRST < 1 << (16 - SMM_CHUNK_SIZE_SHIFT), "the size of a chunk fits into its tag");

/* ---- Chunks ---- */

static struct smm_arena *arena_of(const void *address)
{
    return smm_slot_base(address);
}

static unsigned unit_of(const struct smm_arena *arena, const struct smm_chunk *chunk)
{
    return (unsigned)(chunk - arena->chunks);
}

static unsigned unit_of_address(const void *address)
{
    return (unsigned)(((uintptr_t)address & SMM_SLOT_MASK) >> SMM_UNIT_SHIFT);
}

static struct smm_chunk *chunk_of(const void *block)
{
    return &arena_of(block)->chunks[unit_of_address(block)];
}

static char *unit_address(struct smm_arena *arena, unsigned unit)
{
    return (char *)arena + ((size_t)unit << SMM_UNIT_SHIFT);
}

static unsigned chunk_flags(const struct smm_chunk *chunk)
{
    return smm_load_relaxed(&chunk->size_flags) & SMM_CHUNK_FLAGS;
}

static void chunk_set(struct smm_chunk *chunk, unsigned size, unsigned flags)
{
    smm_store_relaxed(&chunk->size_flags, (uint16_t)(size << SMM_CHUNK_SIZE_SHIFT | flags));
}

static unsigned chunk_need(size_t size)
{
    return (unsigned)(smm_medium_good_size(size) >> SMM_UNIT_SHIFT);
}

/* Of a chunk of at least SMM_CHUNK_LEAST units. */
static struct smm_free_chunk *chunk_node(struct smm_arena *arena, unsigned unit)
{
    struct smm_free_chunk *const node = &arena->free_chunks[(unit + SMM_CHUNK_LEAST - 1) / SMM_CHUNK_LEAST];

    node->unit = (uint16_t)unit;
    return node;
}

static struct smm_chunk *node_chunk(const struct smm_free_chunk *node)
{
    return &arena_of(node)->chunks[node->unit];
}

/* Tells what follows the chunk of `size` units at `unit` its size. */
static void chunk_set_next(struct smm_arena *arena, unsigned unit, unsigned size)
{
    arena->chunks[unit + size].prev_size = (uint16_t)size;
}

/* ---- What may be resident ---- */

static void touched_raise(struct smm_arena *arena, size_t offset)
{
    if (offset <= arena->touched)
        return;
    const size_t before = smm_align_up(arena->touched, STEP);
    const size_t after = smm_align_up(offset, STEP);
    arena->touched = offset;
    if (after != before)
        smm_account_commit(after - before);
}

/* Returns the memory from `offset` up to `touched`. */
static size_t touched_lower(struct smm_arena *arena, size_t offset)
{
    const size_t page = smm_os_page_size();
    const size_t from = smm_align_up(offset, page);
    const size_t to = smm_align_up(arena->touched, page);

    if (from >= to || !smm_os_decommit((char *)arena + from, to - from))
        return 0;
    const size_t counted = smm_align_up(arena->touched, STEP) - smm_align_up(from, STEP);
    arena->touched = from;
    smm_account_purge(counted);
    return counted;
}

/* The inner pages of a free chunk, without what was never touched. `touched` of its arena does not change in a way
 * that this range shows while the chunk is free, so it is the same at each call. */
static size_t chunk_inner(struct smm_chunk *chunk, char **start)
{
    struct smm_arena *const arena = arena_of(chunk);
    const size_t page = smm_os_page_size();
    const unsigned unit = unit_of(arena, chunk);
    char *const from = (char *)smm_align_up((uintptr_t)unit_address(arena, unit), page);
    char *const arena_end = (char *)arena + smm_align_up(arena->touched, STEP);
    char *to = (char *)smm_align_down((uintptr_t)unit_address(arena, unit + smm_chunk_size(chunk)), page);

    if (to > arena_end)
        to = arena_end;
    *start = from;
    return to > from ? (size_t)(to - from) : 0;
}

/* ---- Free chunks ---- */

/* Makes the `size` units at `unit` a free chunk that no free one is beside of. */
static void free_insert(struct smm_medium *medium, struct smm_arena *arena, unsigned unit, unsigned size)
{
    chunk_set(&arena->chunks[unit], size, SMM_CHUNK_FREE);
    chunk_set_next(arena, unit, size);
    if (size >= SMM_CHUNK_LEAST) {
        struct smm_free_chunk *const node = chunk_node(arena, unit);
        node->size = (uint16_t)size;
        node->age = 0;
        smm_tlsf_insert(&medium->index, node);
    }
}

/* What was returned of a free chunk counts again, now that it is to be used. */
static void free_unpurge(struct smm_medium *medium, struct smm_chunk *chunk)
{
    char *start;

    if ((chunk_flags(chunk) & SMM_CHUNK_PURGED) == 0)
        return;
    const size_t size = chunk_inner(chunk, &start);
    medium->purged_bytes -= size;
    smm_account_commit(size);
}

/* Takes a free chunk out of the index, to become part of a larger one. Its tag stays as it is: it tells a second free
 * of its block. Returns its size. */
static unsigned free_remove(struct smm_medium *medium, struct smm_arena *arena, struct smm_chunk *chunk)
{
    const unsigned size = smm_chunk_size(chunk);

    if (size >= SMM_CHUNK_LEAST)
        smm_tlsf_remove(&medium->index, chunk_node(arena, unit_of(arena, chunk)));
    free_unpurge(medium, chunk);
    return size;
}

/* ---- Arenas ---- */

static void arena_reset(struct smm_arena *arena)
{
    arena->top = FIRST;
    arena->chunks[FIRST].prev_size = 0;
}

static struct smm_arena *arena_new(struct smm_medium *medium)
{
    /* Not without asking, however full the heap: medium blocks are often buffers that are not filled, and
     * random replacements of such blocks took 3 times the time and 1.4 to 4 times the memory with huge pages,
     * while filled ones gained nothing. */
    const bool huge = smm_load_relaxed(&smm_medium_settings.huge_pages) == SMM_HUGE_ALWAYS;
    struct smm_arena *const arena = smm_segment_take(huge);

    if (arena == NULL)
        return NULL;
    arena->owner = medium;
    arena->older = medium->arenas;
    arena_reset(arena);
    touched_raise(arena, sizeof *arena);
    medium->arenas = arena;
    smm_segment_map_set(arena, SMM_KIND_MEDIUM);
    return arena;
}

/* The arena that was carved from gives its rest to the index, and another takes its place; a new one if need be and
 * `grow`. */
static bool arena_next(struct smm_medium *medium, bool grow)
{
    struct smm_arena *const old = medium->carving;
    struct smm_arena *arena = medium->empties;

    if (arena != NULL) {
        medium->empties = arena->next_empty;
        arena->empty = false;
    } else {
        arena = grow ? arena_new(medium) : NULL;
        if (arena == NULL)
            return false;
    }
    if (old != NULL && old->top != END) {
        const unsigned rest = old->top;
        old->top = END;
        free_insert(medium, old, rest, END - rest);
    }
    medium->carving = arena;
    return true;
}

/* ---- Allocating, under the lock ---- */

static struct smm_chunk *carve(struct smm_medium *medium, unsigned need, bool grow)
{
    struct smm_arena *arena = medium->carving;

    if (arena == NULL || END - arena->top < need) {
        if (!arena_next(medium, grow))
            return NULL;
        arena = medium->carving;
    }
    const unsigned unit = arena->top;
    chunk_set(&arena->chunks[unit], need, 0);
    chunk_set_next(arena, unit, need);
    arena->top = unit + need;
    return &arena->chunks[unit];
}

/* Makes a live chunk `size` units long; the rest becomes free, or goes back above top. */
static void chunk_split(struct smm_medium *medium, struct smm_arena *arena, struct smm_chunk *chunk, unsigned size)
{
    const unsigned unit = unit_of(arena, chunk) + size;
    unsigned rest = smm_chunk_size(chunk) - size;

    if (rest == 0)
        return;
    chunk_set(chunk, size, 0);
    arena->chunks[unit].prev_size = (uint16_t)size;
    if (unit + rest != arena->top) {
        struct smm_chunk *const next = &arena->chunks[unit + rest];
        if (chunk_flags(next) & SMM_CHUNK_FREE)
            rest += free_remove(medium, arena, next);
    } else if (arena == medium->carving) {
        arena->top = unit;
        return;
    }
    free_insert(medium, arena, unit, rest);
}

/* Cuts the first `gap` units from a live chunk. */
static struct smm_chunk *chunk_trim_front(struct smm_medium *medium, struct smm_arena *arena, struct smm_chunk *chunk,
                                          unsigned gap)
{
    const unsigned unit = unit_of(arena, chunk);
    const unsigned size = smm_chunk_size(chunk) - gap;
    struct smm_chunk *const aligned = chunk + gap;

    chunk_set(aligned, size, 0);
    chunk_set_next(arena, unit + gap, size);
    /* M1: the chunk before it is not free, since this one was, or lay above top. */
    free_insert(medium, arena, unit, gap);
    return aligned;
}

/* NULL when there is no room; without `grow`, when there is none in the arenas that the heap has. */
static struct smm_chunk *chunk_alloc(struct smm_medium *medium, unsigned need, size_t alignment, bool grow,
                                     size_t *dirty)
{
    /* What an alignment may need in front of the block. */
    const unsigned most_gap = alignment > SMM_UNIT ? (unsigned)(alignment >> SMM_UNIT_SHIFT) - 1 : 0;
    struct smm_free_chunk *const node = smm_tlsf_take(&medium->index, need + most_gap);
    struct smm_chunk *chunk;

    if (node != NULL) {
        chunk = node_chunk(node);
        free_unpurge(medium, chunk);
        chunk_set(chunk, node->size, 0);
    } else {
        chunk = carve(medium, need + most_gap, grow);
        if (chunk == NULL)
            return NULL;
    }
    struct smm_arena *const arena = arena_of(chunk);
    arena->live++;
    const unsigned gap = (0u - unit_of(arena, chunk)) & most_gap;
    if (gap != 0)
        chunk = chunk_trim_front(medium, arena, chunk, gap);
    chunk_split(medium, arena, chunk, need);
    const size_t start = (size_t)unit_of(arena, chunk) << SMM_UNIT_SHIFT;
    *dirty = arena->touched > start ? arena->touched - start : 0;
    touched_raise(arena, start + ((size_t)need << SMM_UNIT_SHIFT));
    return chunk;
}

/* ---- Freeing, under the lock ---- */

static void arena_emptied(struct smm_medium *medium, struct smm_arena *arena)
{
    arena->free_since = (uint32_t)smm_os_now();
    if (arena == medium->carving)
        return;
    /* M1: all is one free chunk. */
    (void)free_remove(medium, arena, &arena->chunks[FIRST]);
    arena_reset(arena);
    arena->empty = true;
    arena->next_empty = medium->empties;
    medium->empties = arena;
}

static void chunk_free(struct smm_medium *medium, struct smm_arena *arena, struct smm_chunk *chunk)
{
    unsigned size = smm_chunk_size(chunk);
    unsigned unit = unit_of(arena, chunk);
    const unsigned end = unit + size;

    if (end != arena->top) {
        struct smm_chunk *const next = &arena->chunks[end];
        if (chunk_flags(next) & SMM_CHUNK_FREE)
            size += free_remove(medium, arena, next);
    }
    if (chunk->prev_size != 0) {
        struct smm_chunk *const before = chunk - chunk->prev_size;
        if (chunk_flags(before) & SMM_CHUNK_FREE) {
            chunk_set(chunk, size, SMM_CHUNK_FREE); /* M5 */
            unit -= chunk->prev_size;
            size += free_remove(medium, arena, before);
        }
    }
    if (end == arena->top && arena == medium->carving) {
        chunk_set(&arena->chunks[unit], size, SMM_CHUNK_FREE); /* M5 */
        arena->top = unit;
    } else {
        free_insert(medium, arena, unit, size);
    }
    if (--arena->live == 0)
        arena_emptied(medium, arena);
}

static void drain(struct smm_medium *medium)
{
    struct smm_free_chunk *node;

    if (smm_load_relaxed(&medium->foreign) == NULL)
        return;
    /* acquire: pairs with the release of foreign_push() */
    node = smm_exchange_acquire(&medium->foreign, NULL);
    SMM_TEST_POINT(MEDIUM_DRAINED);
    while (node != NULL) {
        struct smm_free_chunk *const next = node->next;
        struct smm_chunk *const chunk = node_chunk(node);
        chunk_set(chunk, smm_chunk_size(chunk), 0);
        chunk_free(medium, arena_of(node), chunk);
        node = next;
    }
}

/* ---- Blocks ---- */

/* What an address in an arena is, by the tag of its unit; without the lock, and reading nothing outside the header. */
static enum smm_fault chunk_check(const void *block)
{
    const unsigned unit = unit_of_address(block);
    const struct smm_chunk *const chunk = &arena_of(block)->chunks[unit];
    unsigned size, flags;

    if (unit < FIRST || (uintptr_t)block % SMM_UNIT != 0)
        return SMM_FAULT_INTERIOR;
    size = smm_chunk_size(chunk);
    flags = chunk_flags(chunk);
    if (flags & (SMM_CHUNK_FREE | SMM_CHUNK_PENDING))
        return SMM_FAULT_FREED;
    if (size == 0 && flags == 0)
        return SMM_FAULT_INTERIOR;
    return flags == 0 && size >= SMM_CHUNK_LEAST && size <= END - unit ? SMM_FAULT_NONE : SMM_FAULT_OVERWRITTEN;
}

static void *alloc_from(struct smm_medium *medium, size_t size, size_t alignment, bool grow, size_t *dirty)
{
    const unsigned need = chunk_need(size);
    struct smm_chunk *chunk;

    smm_gated_acquire(&medium->lock);
    drain(medium);
    chunk = chunk_alloc(medium, need, alignment, grow, dirty);
    if (chunk != NULL) {
        smm_own_add(&medium->blocks, 1);
        smm_own_add(&medium->bytes, (size_t)need << SMM_UNIT_SHIFT);
    }
    SMM_PARANOID(smm_tlsf_verify(&medium->index) == 0);
    smm_gated_release(&medium->lock);
    return chunk == NULL ? NULL : unit_address(arena_of(chunk), unit_of(arena_of(chunk), chunk));
}

/* Threads that hand their blocks on and sleep would each grow arenas of their own, beside the ones that the next
 * thread has emptied: so the lender's come before a new one. The block is then of the lender's heap. */
void *smm_medium_alloc(struct smm_medium *medium, size_t size, size_t alignment, size_t *dirty)
{
    struct smm_medium *const lender = medium->lender;
    void *block = NULL;

    SMM_DEBUG(size <= SMM_MEDIUM_MAX && alignment <= SMM_MEDIUM_ALIGN_MAX);
    if (lender == NULL)
        return alloc_from(medium, size, alignment, true, dirty);
    block = alloc_from(medium, size, alignment, false, dirty);
    if (block != NULL)
        return block;
    block = alloc_from(lender, size, alignment, false, dirty);
    if (block != NULL)
        return block;
    medium->lender = NULL;
    return alloc_from(medium, size, alignment, true, dirty);
}

/* CAS release: publishes the node, and what the program did with the block, to the acquire of drain(). */
static void foreign_push(struct smm_medium *owner, struct smm_free_chunk *node)
{
    struct smm_free_chunk *first = smm_load_relaxed(&owner->foreign);

    do {
        node->next = first;
        SMM_TEST_POINT(MEDIUM_PUSH);
    } while (!smm_cas_weak_release(&owner->foreign, &first, node));
}

static enum smm_fault free_foreign(struct smm_medium *owner, struct smm_arena *arena, struct smm_chunk *chunk)
{
    const unsigned size = smm_chunk_size(chunk);

    /* Two threads that free the same block: one of them finds it pending. acq_rel so that it is one order. */
    if (smm_or_acq_rel(&chunk->size_flags, SMM_CHUNK_PENDING) & (SMM_CHUNK_PENDING | SMM_CHUNK_FREE))
        return SMM_FAULT_FREED;
    smm_add_relaxed(&owner->foreign_frees, 1);
    smm_add_relaxed(&owner->foreign_bytes, (uint64_t)size << SMM_UNIT_SHIFT);
    SMM_TEST_POINT(MEDIUM_PENDING);
    foreign_push(owner, chunk_node(arena, unit_of(arena, chunk)));
    return SMM_FAULT_NONE;
}

enum smm_fault smm_medium_free(struct smm_medium *self, void *block)
{
    struct smm_arena *const arena = arena_of(block);
    struct smm_chunk *const chunk = chunk_of(block);
    struct smm_medium *const owner = arena->owner;
    enum smm_fault fault = chunk_check(block);

    if (fault != SMM_FAULT_NONE)
        return fault;
    SMM_TEST_POINT(MEDIUM_CHECKED);
    if (owner != self) {
        if (self != NULL)
            self->lender = owner;
        return free_foreign(owner, arena, chunk);
    }
    smm_gated_acquire(&owner->lock);
    drain(owner);
    /* Again, now that nobody else changes it. */
    fault = chunk_check(block);
    if (fault == SMM_FAULT_NONE) {
        const unsigned size = smm_chunk_size(chunk);
        if (unit_of(arena, chunk) + size > arena->top || chunk[size].prev_size != size)
            fault = SMM_FAULT_OVERWRITTEN;
    }
    if (fault == SMM_FAULT_NONE) {
        smm_own_add(&owner->blocks, -(uint64_t)1);
        smm_own_add(&owner->bytes, -((uint64_t)smm_chunk_size(chunk) << SMM_UNIT_SHIFT));
        chunk_free(owner, arena, chunk);
    }
    SMM_PARANOID(smm_tlsf_verify(&owner->index) == 0);
    smm_gated_release(&owner->lock);
    return fault;
}

/* Makes a live chunk `need` units long by taking from the free chunk that follows, or from above top. */
static bool chunk_grow(struct smm_medium *medium, struct smm_arena *arena, struct smm_chunk *chunk, unsigned need)
{
    const unsigned unit = unit_of(arena, chunk);
    const unsigned size = smm_chunk_size(chunk);
    const unsigned end = unit + size;

    if (end == arena->top) {
        if (arena != medium->carving || END - unit < need)
            return false;
        arena->top = unit + need;
        chunk_set(chunk, need, 0);
        chunk_set_next(arena, unit, need);
    } else {
        struct smm_chunk *const next = &arena->chunks[end];
        if ((chunk_flags(next) & SMM_CHUNK_FREE) == 0 || size + smm_chunk_size(next) < need)
            return false;
        const unsigned all = size + free_remove(medium, arena, next);
        chunk_set(chunk, all, 0);
        chunk_set_next(arena, unit, all);
        chunk_split(medium, arena, chunk, need);
    }
    touched_raise(arena, (size_t)(unit + need) << SMM_UNIT_SHIFT);
    return true;
}

bool smm_medium_resize(void *block, size_t size, enum smm_fault *fault)
{
    struct smm_arena *const arena = arena_of(block);
    struct smm_chunk *const chunk = chunk_of(block);
    struct smm_medium *const owner = arena->owner;
    bool done = true;

    *fault = chunk_check(block);
    if (*fault != SMM_FAULT_NONE || size > (END - FIRST) * SMM_UNIT)
        return false;
    const unsigned need = chunk_need(size);
    SMM_TEST_POINT(MEDIUM_CHECKED);
    smm_gated_acquire(&owner->lock);
    drain(owner);
    /* Again, now that nobody else changes it. */
    *fault = chunk_check(block);
    const unsigned before = smm_chunk_size(chunk);
    if (*fault != SMM_FAULT_NONE)
        done = false;
    else if (need < before)
        chunk_split(owner, arena, chunk, need);
    else if (need > before)
        done = chunk_grow(owner, arena, chunk, need);
    if (done)
        smm_own_add(&owner->bytes, ((uint64_t)need << SMM_UNIT_SHIFT) - ((uint64_t)before << SMM_UNIT_SHIFT));
    smm_gated_release(&owner->lock);
    return done;
}

size_t smm_medium_usable(const void *block, enum smm_fault *fault)
{
    *fault = chunk_check(block);
    return *fault == SMM_FAULT_NONE ? (size_t)smm_chunk_size(chunk_of(block)) << SMM_UNIT_SHIFT : 0;
}

/* Without the lock, as its owner may be at work meanwhile: then the size may be that of a moment ago. */
size_t smm_medium_known_size(const void *address)
{
    const struct smm_arena *const arena = arena_of(address);
    const unsigned at = unit_of_address(address);

    for (unsigned unit = at; unit >= FIRST; unit--) {
        const unsigned size = smm_chunk_size(&arena->chunks[unit]);
        /* M5: the nearest tag that looks live is the only one that can be of this block. */
        if (size != 0 && chunk_flags(&arena->chunks[unit]) == 0)
            return at - unit < size ? (size_t)size << SMM_UNIT_SHIFT : 0;
    }
    return 0;
}

/* ---- Giving memory back ---- */

void smm_medium_drain(struct smm_medium *medium)
{
    if (smm_load_relaxed(&medium->foreign) == NULL)
        return;
    smm_gated_acquire(&medium->lock);
    drain(medium);
    smm_gated_release(&medium->lock);
}

/* Tags and nodes go with the memory, but for the first page, which the arena is known by. */
static size_t arena_trim(struct smm_arena *arena, uint64_t now, uint32_t age)
{
    if (age != 0 && (uint32_t)now - arena->free_since < age)
        return 0;
    return touched_lower(arena, offsetof(struct smm_arena, chunks));
}

/* Under the lock, also during the system calls: the owner that wants an arena waits for them. */
size_t smm_medium_trim(struct smm_medium *medium, unsigned keep, uint64_t now, uint32_t age)
{
    size_t returned = 0;

    smm_gated_acquire(&medium->lock);
    /* An empty carving arena is the one that emptied last. */
    if (medium->carving != NULL && medium->carving->live == 0) {
        if (keep != 0)
            keep--;
        else
            returned += arena_trim(medium->carving, now, age);
    }
    for (struct smm_arena *arena = medium->empties; arena != NULL; arena = arena->next_empty) {
        if (keep != 0)
            keep--;
        else
            returned += arena_trim(arena, now, age);
    }
    smm_gated_release(&medium->lock);
    return returned;
}

static size_t chunk_purge(struct smm_medium *medium, struct smm_chunk *chunk)
{
    char *start;
    const size_t size = chunk_inner(chunk, &start);

    if (size == 0 || (chunk_flags(chunk) & SMM_CHUNK_PURGED) != 0)
        return 0;
    SMM_TEST_POINT(MEDIUM_PURGE);
    if (!smm_os_decommit(start, size))
        return 0;
    chunk_set(chunk, smm_chunk_size(chunk), SMM_CHUNK_FREE | SMM_CHUNK_PURGED);
    medium->purged_bytes += size;
    smm_account_purge(size);
    return size;
}

static size_t arena_purge(struct smm_medium *medium, struct smm_arena *arena)
{
    size_t returned = 0;

    for (unsigned unit = FIRST; unit < arena->top; unit += smm_chunk_size(&arena->chunks[unit]))
        if (chunk_flags(&arena->chunks[unit]) & SMM_CHUNK_FREE)
            returned += chunk_purge(medium, &arena->chunks[unit]);
    return returned;
}

/* The same for what lies above top of the carving arena. */
static size_t top_age(struct smm_medium *medium)
{
    struct smm_arena *const arena = medium->carving;

    const size_t top = arena == NULL ? 0 : (size_t)arena->top << SMM_UNIT_SHIFT;

    if (arena == NULL || arena->live == 0 || arena->touched < top + STEP)
        return 0;
    if (medium->aged_top != arena->top) {
        medium->aged_top = arena->top;
        medium->top_ages = 0;
    }
    if (medium->top_ages < AGES) {
        medium->top_ages++;
        return 0;
    }
    return touched_lower(arena, top);
}

/* Free chunks of STEP and more get older at each call until they are old enough; smaller ones are not worth one. */
static size_t chunks_age(struct smm_medium *medium)
{
    size_t returned = 0;

    for (unsigned level = smm_bit_high(STEP >> SMM_UNIT_SHIFT) - SMM_TLSF_FIRST; level < SMM_TLSF_LEVELS; level++)
        for (unsigned number = 0; number < SMM_TLSF_BINS; number++)
            for (struct smm_free_chunk *node = medium->index.first[level][number]; node != NULL; node = node->next) {
                if (node->age < AGES)
                    node->age++;
                else
                    returned += chunk_purge(medium, node_chunk(node));
            }
    return returned;
}

size_t smm_medium_age(struct smm_medium *medium)
{
    size_t returned = 0;

    if (!smm_gated_try(&medium->lock))
        return 0;
    drain(medium);
    returned += top_age(medium);
    returned += chunks_age(medium);
    smm_gated_release(&medium->lock);
    return returned;
}

size_t smm_medium_purge(struct smm_medium *medium)
{
    size_t returned = 0;

    smm_medium_drain(medium);
    returned += smm_medium_trim(medium, 0, 0, 0);
    smm_gated_acquire(&medium->lock);
    if (medium->carving != NULL && medium->carving->live != 0)
        returned += touched_lower(medium->carving, (size_t)medium->carving->top << SMM_UNIT_SHIFT);
    for (struct smm_arena *arena = medium->arenas; arena != NULL; arena = arena->older)
        returned += arena_purge(medium, arena);
    smm_gated_release(&medium->lock);
    return returned;
}

uint64_t smm_medium_live_blocks(const struct smm_medium *medium)
{
    return smm_load_relaxed(&medium->blocks) - smm_load_relaxed(&medium->foreign_frees);
}

uint64_t smm_medium_live_bytes(const struct smm_medium *medium)
{
    return smm_load_relaxed(&medium->bytes) - smm_load_relaxed(&medium->foreign_bytes);
}

uint64_t smm_medium_free_bytes(struct smm_medium *medium)
{
    uint64_t committed = 0;

    smm_gated_acquire(&medium->lock);
    for (const struct smm_arena *arena = medium->arenas; arena != NULL; arena = arena->older)
        committed += arena->touched;
    committed -= medium->purged_bytes;
    smm_gated_release(&medium->lock);
    const uint64_t live = smm_medium_live_bytes(medium);
    return committed > live ? committed - live : 0;
}

/* ---- Verifying ---- */

/* M4: a chunk and its node agree; `nodes` counts those that the index must have. */
static int node_verify(struct smm_arena *arena, unsigned unit, unsigned *nodes)
{
    const struct smm_free_chunk *const node = &arena->free_chunks[(unit + SMM_CHUNK_LEAST - 1) / SMM_CHUNK_LEAST];
    const unsigned size = smm_chunk_size(&arena->chunks[unit]);

    if (size < SMM_CHUNK_LEAST)
        return 0;
    ++*nodes;
    return node->unit == unit && node->size == size ? 0 : __LINE__;
}

static int arena_verify(const struct smm_medium *medium, struct smm_arena *arena, unsigned *nodes)
{
    unsigned before = 0, unit = FIRST;
    uint32_t live = 0;
    bool after_free = false;

    if (arena->owner != medium || smm_kind_of(arena) != SMM_KIND_MEDIUM)
        return __LINE__;
    if (arena->top < FIRST || arena->top > END || arena->touched > SMM_SLOT_SIZE)
        return __LINE__;
    while (unit < arena->top) {
        const struct smm_chunk *const chunk = &arena->chunks[unit];
        const unsigned size = smm_chunk_size(chunk);
        const bool is_free = (chunk_flags(chunk) & SMM_CHUNK_FREE) != 0;
        if (size == 0 || size > arena->top - unit || chunk->prev_size != before)
            return __LINE__;
        if (is_free ? after_free || node_verify(arena, unit, nodes) != 0 : size < SMM_CHUNK_LEAST)
            return __LINE__;
        for (unsigned inner = 1; inner < size; inner++)
            if (smm_load_relaxed(&chunk[inner].size_flags) != 0 && (chunk_flags(&chunk[inner]) & SMM_CHUNK_FREE) == 0)
                return __LINE__; /* M5 */
        live += !is_free;
        after_free = is_free;
        before = size;
        unit += size;
    }
    if (unit != arena->top || before != arena->chunks[unit].prev_size || live != arena->live)
        return __LINE__;
    if (arena != medium->carving && arena->empty != (arena->live == 0))
        return __LINE__;
    if (arena == medium->carving ? after_free : arena->top != (arena->empty ? (unsigned)FIRST : (unsigned)END))
        return __LINE__;
    /* M3, by samples. */
    for (size_t at = smm_align_up(arena->touched, 64); at < SMM_SLOT_SIZE; at += 64 * 61)
        if (((const char *)arena)[at] != 0)
            return __LINE__;
    return 0;
}

int smm_medium_verify(struct smm_medium *medium)
{
    unsigned nodes = 0;
    int line;

    smm_gated_acquire(&medium->lock);
    line = smm_tlsf_verify(&medium->index);
    for (struct smm_arena *arena = medium->arenas; arena != NULL && line == 0; arena = arena->older)
        line = arena_verify(medium, arena, &nodes);
    for (unsigned level = 0; level < SMM_TLSF_LEVELS && line == 0; level++)
        for (unsigned number = 0; number < SMM_TLSF_BINS; number++)
            for (const struct smm_free_chunk *node = medium->index.first[level][number]; node != NULL;
                 node = node->next)
                nodes--;
    smm_gated_release(&medium->lock);
    return line != 0 ? line : nodes == 0 ? 0 : __LINE__;
}
