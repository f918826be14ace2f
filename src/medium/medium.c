/* SPDX-License-Identifier: MIT */
#include "medium/medium.h"

#include "base/bits.h"
#include "base/check.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/segment.h"
#include "segment/segment_map.h"

struct smm_medium_settings smm_medium_settings = {.huge_pages = SMM_HUGE_AUTO};

/* Chunk headers stand right before a multiple of the unit, so that blocks stand on one (M4). */
#define HEADER SMM_CHUNK_HEADER
static const size_t FIRST = SMM_CHUNK_UNIT - HEADER;
static const size_t END = SMM_SLOT_SIZE - HEADER;
static const size_t STEP = 64 * SMM_KIB; /* in which `touched` counts as committed */

_Static_assert(offsetof(struct smm_chunk, next_free) == HEADER, "the links of a free chunk lie in its block");
_Static_assert(sizeof(struct smm_arena) <= SMM_CHUNK_UNIT - HEADER, "the header fits before the first chunk");

/* ---- Chunks ---- */

static struct smm_chunk *chunk_at(struct smm_arena *arena, size_t offset)
{
    return (struct smm_chunk *)(void *)((char *)arena + offset);
}

static struct smm_arena *arena_of(const void *address)
{
    return smm_slot_base(address);
}

static size_t chunk_offset(const struct smm_chunk *chunk)
{
    return (uintptr_t)chunk & SMM_SLOT_MASK;
}

static struct smm_chunk *chunk_of(const void *block)
{
    return (struct smm_chunk *)((uintptr_t)block - HEADER);
}

static void *chunk_block(struct smm_chunk *chunk)
{
    return (char *)chunk + HEADER;
}

static unsigned chunk_flags(const struct smm_chunk *chunk)
{
    return (unsigned)(smm_load_relaxed(&chunk->size_flags) & SMM_CHUNK_FLAGS);
}

static void chunk_set(struct smm_chunk *chunk, size_t size, unsigned flags)
{
    smm_store_relaxed(&chunk->size_flags, size | flags);
}

static size_t chunk_need(size_t size)
{
    return smm_align_up(size + HEADER, SMM_CHUNK_UNIT);
}

/* Tells the chunk after `chunk` its size. */
static void chunk_set_next(struct smm_arena *arena, struct smm_chunk *chunk)
{
    const size_t size = smm_chunk_size(chunk);
    const size_t next = chunk_offset(chunk) + size;

    if (next == arena->top)
        arena->last_size = size;
    else
        chunk_at(arena, next)->prev_size = size;
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

/* The inner pages of a free chunk: without its header and links, and without what was never touched. `touched`
 * of its arena does not change while the chunk is in the index, so it is the same range at each call. */
static size_t chunk_inner(struct smm_chunk *chunk, char **start)
{
    const size_t page = smm_os_page_size();
    char *const from = (char *)smm_align_up((uintptr_t)chunk + sizeof *chunk, page);
    char *const arena_end = (char *)arena_of(chunk) + smm_align_up(arena_of(chunk)->touched, STEP);
    char *to = (char *)smm_align_down((uintptr_t)chunk + smm_chunk_size(chunk), page);

    if (to > arena_end)
        to = arena_end;
    *start = from;
    return to > from ? (size_t)(to - from) : 0;
}

/* ---- The index ---- */

static void index_insert(struct smm_medium *medium, struct smm_chunk *chunk, size_t size)
{
    struct smm_arena *const arena = arena_of(chunk);

    chunk_set(chunk, size, SMM_CHUNK_FREE);
    touched_raise(arena, chunk_offset(chunk) + sizeof *chunk);
    chunk_set_next(arena, chunk);
    smm_tlsf_insert(&medium->index, chunk);
}

/* After the chunk was taken out of the index: what was returned of it counts again. */
static void chunk_unpurge(struct smm_medium *medium, struct smm_chunk *chunk)
{
    char *start;

    if ((chunk_flags(chunk) & SMM_CHUNK_PURGED) == 0)
        return;
    const size_t size = chunk_inner(chunk, &start);
    medium->purged_bytes -= size;
    smm_account_commit(size);
}

static void index_remove(struct smm_medium *medium, struct smm_chunk *chunk)
{
    smm_tlsf_remove(&medium->index, chunk);
    chunk_unpurge(medium, chunk);
}

/* ---- Arenas ---- */

static void arena_reset(struct smm_arena *arena)
{
    arena->top = FIRST;
    arena->last_size = 0;
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
        struct smm_chunk *const rest = chunk_at(old, old->top);
        const size_t size = END - old->top;
        rest->prev_size = old->last_size;
        old->top = END;
        index_insert(medium, rest, size);
    }
    medium->carving = arena;
    return true;
}

/* ---- Allocating, under the lock ---- */

static struct smm_chunk *carve(struct smm_medium *medium, size_t need, bool grow)
{
    struct smm_arena *arena = medium->carving;

    if (arena == NULL || END - arena->top < need) {
        if (!arena_next(medium, grow))
            return NULL;
        arena = medium->carving;
    }
    struct smm_chunk *const chunk = chunk_at(arena, arena->top);
    chunk->prev_size = arena->last_size;
    chunk_set(chunk, need, 0);
    arena->top += need;
    arena->last_size = need;
    return chunk;
}

/* Makes a chunk that is not in the index `size` long; the rest goes into the index, or back above top. */
static void chunk_split(struct smm_medium *medium, struct smm_chunk *chunk, size_t size)
{
    struct smm_arena *const arena = arena_of(chunk);
    size_t rest = smm_chunk_size(chunk) - size;

    if (rest == 0)
        return;
    const size_t offset = chunk_offset(chunk) + size;
    const size_t end = offset + rest;
    chunk_set(chunk, size, 0);
    if (end == arena->top && arena == medium->carving) {
        arena->top = offset;
        arena->last_size = size;
        return;
    }
    if (end != arena->top) {
        struct smm_chunk *const next = chunk_at(arena, end);
        if (chunk_flags(next) & SMM_CHUNK_FREE) {
            index_remove(medium, next);
            rest += smm_chunk_size(next);
        }
    }
    struct smm_chunk *const tail = chunk_at(arena, offset);
    tail->prev_size = size;
    index_insert(medium, tail, rest);
}

static void chunk_free(struct smm_medium *medium, struct smm_chunk *chunk);

/* Cuts what lies before the block from a chunk that is not in the index. */
static struct smm_chunk *chunk_trim_front(struct smm_medium *medium, struct smm_chunk *chunk, size_t gap)
{
    const size_t size = smm_chunk_size(chunk);
    struct smm_arena *const arena = arena_of(chunk);
    struct smm_chunk *const aligned = chunk_at(arena, chunk_offset(chunk) + gap);

    chunk_set(chunk, gap, 0);
    aligned->prev_size = gap;
    chunk_set(aligned, size - gap, 0);
    touched_raise(arena, chunk_offset(aligned) + HEADER);
    chunk_set_next(arena, aligned);
    arena->live += 1; /* the front counts until it is free */
    chunk_free(medium, chunk);
    return aligned;
}

/* NULL when there is no room; without `grow`, when there is none in the arenas that the heap has. */
static struct smm_chunk *chunk_alloc(struct smm_medium *medium, size_t need, size_t alignment, bool grow, size_t *dirty)
{
    const size_t room = alignment > SMM_CHUNK_UNIT ? need + alignment : need;
    struct smm_chunk *chunk = smm_tlsf_take(&medium->index, room);
    struct smm_arena *arena;
    size_t touched, gap;

    if (chunk != NULL) {
        chunk_unpurge(medium, chunk);
        chunk_set(chunk, smm_chunk_size(chunk), 0);
    } else {
        chunk = carve(medium, room, grow);
        if (chunk == NULL)
            return NULL;
    }
    arena = arena_of(chunk);
    touched = arena->touched;
    arena->live++;
    gap = smm_align_up((uintptr_t)chunk + HEADER, alignment) - ((uintptr_t)chunk + HEADER);
    if (gap != 0)
        chunk = chunk_trim_front(medium, chunk, gap);
    chunk_split(medium, chunk, need);
    const size_t start = chunk_offset(chunk) + HEADER;
    touched_raise(arena, chunk_offset(chunk) + need);
    *dirty = touched > start ? touched - start : 0;
    return chunk;
}

/* ---- Freeing, under the lock ---- */

static void arena_emptied(struct smm_medium *medium, struct smm_arena *arena)
{
    arena->free_since = (uint32_t)smm_os_now();
    if (arena == medium->carving)
        return;
    /* M1: all is one free chunk. */
    index_remove(medium, chunk_at(arena, FIRST));
    arena_reset(arena);
    arena->empty = true;
    arena->next_empty = medium->empties;
    medium->empties = arena;
}

static void chunk_free(struct smm_medium *medium, struct smm_chunk *chunk)
{
    struct smm_arena *const arena = arena_of(chunk);
    size_t size = smm_chunk_size(chunk);
    const size_t end = chunk_offset(chunk) + size;

    if (end != arena->top) {
        struct smm_chunk *const next = chunk_at(arena, end);
        if (chunk_flags(next) & SMM_CHUNK_FREE) {
            index_remove(medium, next);
            size += smm_chunk_size(next);
        }
    }
    if (chunk->prev_size != 0) {
        struct smm_chunk *const before = chunk_at(arena, chunk_offset(chunk) - chunk->prev_size);
        if (chunk_flags(before) & SMM_CHUNK_FREE) {
            /* The header that is swallowed says what it is to a second free of its block. */
            chunk_set(chunk, smm_chunk_size(chunk), SMM_CHUNK_FREE);
            index_remove(medium, before);
            size += smm_chunk_size(before);
            chunk = before;
        }
    }
    if (end == arena->top && arena == medium->carving) {
        chunk_set(chunk, size, SMM_CHUNK_FREE);
        arena->top = chunk_offset(chunk);
        arena->last_size = chunk->prev_size;
    } else {
        index_insert(medium, chunk, size);
    }
    if (--arena->live == 0)
        arena_emptied(medium, arena);
}

static void drain(struct smm_medium *medium)
{
    struct smm_chunk *chunk;

    if (smm_load_relaxed(&medium->foreign) == NULL)
        return;
    /* acquire: pairs with the release of foreign_push() */
    chunk = smm_exchange_acquire(&medium->foreign, NULL);
    SMM_TEST_POINT(MEDIUM_DRAINED);
    while (chunk != NULL) {
        struct smm_chunk *const next = chunk->next_free;
        chunk_set(chunk, smm_chunk_size(chunk), 0);
        chunk_free(medium, chunk);
        chunk = next;
    }
}

/* ---- Blocks ---- */

/* What an address in an arena is. Sees the start of a live block for certain; tells anything else as well as
 * it can by the words around it, without the lock, reading nothing outside the arena. */
static enum smm_fault chunk_check(const void *block)
{
    const size_t offset = (uintptr_t)block & SMM_SLOT_MASK;
    const struct smm_chunk *const chunk = chunk_of(block);
    size_t size, end;
    unsigned flags;

    if (offset < FIRST + HEADER || offset % SMM_CHUNK_UNIT != 0)
        return SMM_FAULT_INTERIOR;
    size = smm_chunk_size(chunk);
    flags = chunk_flags(chunk);
    end = offset - HEADER + size;
    if (size == 0 && flags == 0)
        return SMM_FAULT_INTERIOR;
    if (size < SMM_CHUNK_UNIT || size > SMM_SLOT_SIZE || end > END)
        return SMM_FAULT_OVERWRITTEN;
    if (flags & (SMM_CHUNK_FREE | SMM_CHUNK_PENDING))
        return SMM_FAULT_FREED;
    return flags == 0 ? SMM_FAULT_NONE : SMM_FAULT_OVERWRITTEN;
}

static void live_add(struct smm_medium *medium, const struct smm_chunk *chunk)
{
    smm_add_relaxed(&medium->live_blocks, 1);
    smm_add_relaxed(&medium->live_bytes, smm_chunk_size(chunk) - HEADER);
}

static void live_sub(struct smm_medium *medium, size_t size)
{
    smm_sub_relaxed(&medium->live_blocks, 1);
    smm_sub_relaxed(&medium->live_bytes, size - HEADER);
}

static void *alloc_from(struct smm_medium *medium, size_t size, size_t alignment, bool grow, size_t *dirty)
{
    struct smm_chunk *chunk;

    smm_gated_acquire(&medium->lock);
    drain(medium);
    chunk = chunk_alloc(medium, chunk_need(size), alignment, grow, dirty);
    SMM_PARANOID(smm_tlsf_verify(&medium->index) == 0);
    smm_gated_release(&medium->lock);
    if (chunk == NULL)
        return NULL;
    live_add(medium, chunk);
    return chunk_block(chunk);
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

/* CAS release: publishes the link, and what the program did with the block, to the acquire of drain(). */
static void foreign_push(struct smm_medium *owner, struct smm_chunk *chunk)
{
    struct smm_chunk *first = smm_load_relaxed(&owner->foreign);

    do {
        chunk->next_free = first;
        SMM_TEST_POINT(MEDIUM_PUSH);
    } while (!smm_cas_weak_release(&owner->foreign, &first, chunk));
}

static enum smm_fault free_foreign(struct smm_medium *owner, struct smm_chunk *chunk)
{
    const size_t size = smm_chunk_size(chunk);

    /* Two threads that free the same block: one of them finds it pending. acq_rel so that it is one order. */
    if (smm_or_acq_rel(&chunk->size_flags, SMM_CHUNK_PENDING) & (SMM_CHUNK_PENDING | SMM_CHUNK_FREE))
        return SMM_FAULT_FREED;
    live_sub(owner, size);
    smm_add_relaxed(&owner->foreign_frees, 1);
    SMM_TEST_POINT(MEDIUM_PENDING);
    foreign_push(owner, chunk);
    return SMM_FAULT_NONE;
}

enum smm_fault smm_medium_free(struct smm_medium *self, void *block)
{
    struct smm_chunk *const chunk = chunk_of(block);
    struct smm_medium *const owner = arena_of(block)->owner;
    enum smm_fault fault = chunk_check(block);
    size_t size;

    if (fault != SMM_FAULT_NONE)
        return fault;
    SMM_TEST_POINT(MEDIUM_CHECKED);
    if (owner != self) {
        if (self != NULL)
            self->lender = owner;
        return free_foreign(owner, chunk);
    }
    smm_gated_acquire(&owner->lock);
    drain(owner);
    /* Again, now that nobody else changes it. */
    fault = chunk_check(block);
    if (fault == SMM_FAULT_NONE) {
        struct smm_arena *const arena = arena_of(chunk);
        const size_t end = chunk_offset(chunk) + smm_chunk_size(chunk);
        const size_t told = end == arena->top ? arena->last_size : chunk_at(arena, end)->prev_size;
        if (end > arena->top || told != smm_chunk_size(chunk))
            fault = SMM_FAULT_OVERWRITTEN;
    }
    size = smm_chunk_size(chunk);
    if (fault == SMM_FAULT_NONE)
        chunk_free(owner, chunk);
    SMM_PARANOID(smm_tlsf_verify(&owner->index) == 0);
    smm_gated_release(&owner->lock);
    if (fault == SMM_FAULT_NONE)
        live_sub(owner, size);
    return fault;
}

/* Makes a live chunk `need` long by taking from the free chunk that follows, or from above top. */
static bool chunk_grow(struct smm_medium *medium, struct smm_chunk *chunk, size_t need)
{
    struct smm_arena *const arena = arena_of(chunk);
    const size_t size = smm_chunk_size(chunk);
    const size_t end = chunk_offset(chunk) + size;

    if (end == arena->top) {
        if (arena != medium->carving || END - end < need - size)
            return false;
        arena->top += need - size;
        chunk_set(chunk, need, 0);
        arena->last_size = need;
    } else {
        struct smm_chunk *const next = chunk_at(arena, end);
        if ((chunk_flags(next) & SMM_CHUNK_FREE) == 0 || size + smm_chunk_size(next) < need)
            return false;
        index_remove(medium, next);
        chunk_set(chunk, size + smm_chunk_size(next), 0);
        chunk_set_next(arena, chunk);
        chunk_split(medium, chunk, need);
    }
    touched_raise(arena, chunk_offset(chunk) + need);
    return true;
}

bool smm_medium_resize(void *block, size_t size, enum smm_fault *fault)
{
    struct smm_chunk *const chunk = chunk_of(block);
    struct smm_medium *const owner = arena_of(block)->owner;
    const size_t need = chunk_need(size);
    bool done = true;

    *fault = chunk_check(block);
    if (*fault != SMM_FAULT_NONE || need > END - FIRST)
        return false;
    SMM_TEST_POINT(MEDIUM_CHECKED);
    smm_gated_acquire(&owner->lock);
    drain(owner);
    /* Again, now that nobody else changes it. */
    *fault = chunk_check(block);
    const size_t before = smm_chunk_size(chunk);
    if (*fault != SMM_FAULT_NONE)
        done = false;
    else if (need < before)
        chunk_split(owner, chunk, need);
    else if (need > before)
        done = chunk_grow(owner, chunk, need);
    smm_gated_release(&owner->lock);
    if (done)
        smm_add_relaxed(&owner->live_bytes, need - before);
    return done;
}

size_t smm_medium_usable(const void *block, enum smm_fault *fault)
{
    *fault = chunk_check(block);
    return *fault == SMM_FAULT_NONE ? smm_chunk_size(chunk_of(block)) - HEADER : 0;
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

static size_t arena_trim(struct smm_arena *arena, uint64_t now, uint32_t age)
{
    if (age != 0 && (uint32_t)now - arena->free_since < age)
        return 0;
    return touched_lower(arena, FIRST + sizeof(struct smm_chunk));
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

/* A free chunk gets older at each call until it is old enough. Under the lock. */
static size_t chunk_age(struct smm_medium *medium, struct smm_chunk *chunk)
{
    const unsigned flags = chunk_flags(chunk);

    if (flags & SMM_CHUNK_PURGED)
        return 0;
    if ((flags & SMM_CHUNK_AGES) == SMM_CHUNK_AGES)
        return chunk_purge(medium, chunk);
    chunk_set(chunk, smm_chunk_size(chunk), flags + SMM_CHUNK_AGE);
    return 0;
}

/* The same for what lies above top of the carving arena. */
static size_t top_age(struct smm_medium *medium)
{
    struct smm_arena *const arena = medium->carving;

    if (arena == NULL || arena->live == 0 || arena->touched < arena->top + STEP)
        return 0;
    if (medium->aged_top != arena->top) {
        medium->aged_top = arena->top;
        medium->top_ages = 0;
    }
    if (medium->top_ages < SMM_CHUNK_AGES / SMM_CHUNK_AGE) {
        medium->top_ages++;
        return 0;
    }
    return touched_lower(arena, arena->top + sizeof(struct smm_chunk));
}

typedef size_t chunk_visit(struct smm_medium *medium, struct smm_chunk *chunk);

/* Visits the free chunks of the bins from `level` upwards. Returns the sum of what the visits return. */
static size_t index_visit(struct smm_medium *medium, unsigned level, chunk_visit *visit)
{
    size_t returned = 0;

    for (; level < SMM_TLSF_LEVELS; level++)
        for (unsigned number = 0; number < SMM_TLSF_BINS; number++)
            for (struct smm_chunk *chunk = medium->index.first[level][number]; chunk != NULL; chunk = chunk->next_free)
                returned += visit(medium, chunk);
    return returned;
}

size_t smm_medium_age(struct smm_medium *medium)
{
    size_t returned = 0;

    if (!smm_gated_try(&medium->lock))
        return 0;
    drain(medium);
    returned += top_age(medium);
    /* Smaller chunks are not worth the call. */
    returned += index_visit(medium, smm_bit_high(STEP) - SMM_TLSF_FIRST, chunk_age);
    smm_gated_release(&medium->lock);
    return returned;
}

size_t smm_medium_purge(struct smm_medium *medium)
{
    size_t returned = 0;

    smm_medium_drain(medium);
    returned += smm_medium_trim(medium, 0, 0, 0);
    smm_gated_acquire(&medium->lock);
    if (medium->carving != NULL)
        returned += touched_lower(medium->carving, medium->carving->top + sizeof(struct smm_chunk));
    returned += index_visit(medium, 0, chunk_purge);
    smm_gated_release(&medium->lock);
    return returned;
}

uint64_t smm_medium_free_bytes(struct smm_medium *medium)
{
    uint64_t committed = 0;

    smm_gated_acquire(&medium->lock);
    for (const struct smm_arena *arena = medium->arenas; arena != NULL; arena = arena->older)
        committed += arena->touched;
    committed -= medium->purged_bytes;
    smm_gated_release(&medium->lock);
    const uint64_t live = smm_load_relaxed(&medium->live_bytes);
    return committed > live ? committed - live : 0;
}

/* ---- Verifying ---- */

static int arena_verify(const struct smm_medium *medium, struct smm_arena *arena)
{
    size_t before = 0, offset = FIRST;
    uint32_t live = 0;
    bool after_free = false;

    if (arena->owner != medium || smm_kind_of(arena) != SMM_KIND_MEDIUM)
        return __LINE__;
    if (arena->top < FIRST || arena->top > END || arena->touched > SMM_SLOT_SIZE)
        return __LINE__;
    while (offset < arena->top) {
        const struct smm_chunk *const chunk = chunk_at(arena, offset);
        const size_t size = smm_chunk_size(chunk);
        const bool is_free = (chunk_flags(chunk) & SMM_CHUNK_FREE) != 0;
        if (size == 0 || size > arena->top - offset || chunk->prev_size != before)
            return __LINE__;
        if (is_free && after_free)
            return __LINE__;
        live += !is_free;
        after_free = is_free;
        before = size;
        offset += size;
    }
    if (offset != arena->top || before != arena->last_size || live != arena->live)
        return __LINE__;
    if (arena != medium->carving && arena->empty != (arena->live == 0))
        return __LINE__;
    if (arena == medium->carving ? after_free : arena->top != (arena->empty ? FIRST : END))
        return __LINE__;
    /* M3, by samples. */
    for (size_t at = smm_align_up(arena->touched, 64); at < SMM_SLOT_SIZE; at += 64 * 61)
        if (((const char *)arena)[at] != 0)
            return __LINE__;
    return 0;
}

int smm_medium_verify(struct smm_medium *medium)
{
    int line;

    smm_gated_acquire(&medium->lock);
    line = smm_tlsf_verify(&medium->index);
    for (struct smm_arena *arena = medium->arenas; arena != NULL && line == 0; arena = arena->older)
        line = arena_verify(medium, arena);
    smm_gated_release(&medium->lock);
    return line;
}
