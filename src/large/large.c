/* SPDX-License-Identifier: MIT */
#include "large/large.h"

#include "base/bits.h"
#include "base/check.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/huge.h"
#include "segment/segment_map.h"

struct smm_large_settings smm_large_settings = {.huge_pages = true};
struct smm_large_usage smm_large_usage;

#define HEADER sizeof(struct smm_large)
static const size_t RESERVED_MIN = 16 * SMM_MIB;
static const size_t HEADROOM_MAX = SMM_GIB;
static const size_t EXCESS_MIN = 16 * SMM_MIB; /* memory beyond a request that is worth returning */
static const uint64_t ROOMY_BLOCKS = 4096;     /* that get addresses to grow into */
static const size_t HUGE_MIN = 8 * SMM_MIB;    /* of a block that grows */

static const uint64_t LIVE = 0x4c49564553484152u;
static const uint64_t FREED = 0x4652454553484152u;

/* ---- Headers ---- */

static uint64_t mark(const struct smm_large *large, uint64_t state)
{
    return state ^ (uintptr_t)large;
}

/* The header that belongs to an address in a slot of this kind. */
static struct smm_large *header_of(const void *address, enum smm_kind kind)
{
    char *const slot = smm_slot_base(address);
    return (struct smm_large *)(void *)(kind == SMM_KIND_LARGE_NEXT ? slot - SMM_SLOT_SIZE : slot);
}

static enum smm_fault check(const struct smm_large *large, const void *block)
{
    const uint64_t seen = smm_load_relaxed(&large->mark);

    if (seen == mark(large, FREED))
        return block == large->block ? SMM_FAULT_FREED : SMM_FAULT_INTERIOR;
    if (seen != mark(large, LIVE))
        return SMM_FAULT_OVERWRITTEN;
    return block == large->block ? SMM_FAULT_NONE : SMM_FAULT_INTERIOR;
}

size_t smm_large_known_size(const void *address)
{
    const struct smm_large *const large = header_of(address, smm_kind_of(address));
    const uint64_t seen = smm_load_relaxed(&large->mark);

    return seen == mark(large, LIVE) || seen == mark(large, FREED) ? large->usable : 0;
}

static size_t page_up(size_t size)
{
    return smm_align_up(size, smm_os_page_size());
}

static size_t block_offset(const struct smm_large *large)
{
    return (size_t)(large->block - (const char *)large);
}

size_t smm_large_good_size(size_t size)
{
    return page_up(size + HEADER) - HEADER;
}

/* ---- Memory of a reservation ---- */

static bool writable_raise(struct smm_large *large, size_t size)
{
    if (size <= large->writable)
        return true;
    if (!smm_os_commit((char *)large + large->writable, size - large->writable))
        return false;
    large->writable = size;
    return true;
}

static void dirty_raise(struct smm_large *large, size_t size)
{
    if (size > large->dirty) {
        smm_account_commit(size - large->dirty);
        large->dirty = size;
    }
}

static void dirty_lower(struct smm_large *large, size_t size)
{
    if (size < large->dirty && smm_os_decommit((char *)large + size, large->dirty - size)) {
        smm_account_purge(large->dirty - size);
        large->dirty = size;
    }
}

/* Strikes the slots out of the map before the addresses may become somebody else's. */
static void unmap(const struct smm_large *large)
{
    smm_segment_map_set(large, SMM_KIND_NONE);
    if (block_offset(large) == SMM_SLOT_SIZE)
        smm_segment_map_set(large->block, SMM_KIND_NONE);
}

bool smm_large_release(struct smm_large *large)
{
    const size_t reserved = large->reserved, dirty = large->dirty;
    char *const block = large->block;
    const bool next = block_offset(large) == SMM_SLOT_SIZE;

    unmap(large);
    SMM_TEST_POINT(LARGE_STRUCK_OUT);
    if (smm_os_release(large, reserved)) {
        SMM_TEST_POINT(LARGE_RELEASED);
        smm_account_purge(dirty);
        smm_account_unreserve(reserved);
        return true;
    }
    smm_segment_map_set(large, SMM_KIND_LARGE);
    if (next)
        smm_segment_map_set(block, SMM_KIND_LARGE_NEXT);
    dirty_lower(large, smm_os_page_size());
    return false;
}

/* ---- Allocating ---- */

/* A block lies in the slot of its header, or at the start of the next one; and a freed one's memory may come to
 * serve either. */
static bool map_prepare(struct smm_large *large)
{
    return smm_segment_map_prepare(large) && smm_segment_map_prepare((char *)large + SMM_SLOT_SIZE);
}

/* Reserves, and commits the first `writable` bytes; `reserved` is a multiple of the slot. */
static struct smm_large *reserve_exactly(size_t reserved, size_t writable)
{
    struct smm_large *const large = smm_os_reserve(reserved, SMM_SLOT_SIZE);

    if (large == NULL)
        return NULL;
    if (!map_prepare(large) || !smm_os_commit(large, writable)) {
        smm_os_discard(large, reserved);
        return NULL;
    }
    return large;
}

/* A new reservation of at least `need` bytes, with as much again to grow into where addresses suffice.
 * A block that leaves addresses behind it unused takes two mappings of the kernel, of which a process has
 * some ten thousand. With many blocks, or where that is refused, a reservation is all committed: neighbours then
 * share a mapping. */
static struct smm_large *reserve(size_t need)
{
    const size_t headroom = need < HEADROOM_MAX ? need : HEADROOM_MAX;
    size_t reserved = need + headroom < RESERVED_MIN ? RESERVED_MIN : smm_align_up(need + headroom, SMM_SLOT_SIZE);
    size_t writable = need;
    struct smm_large *large = NULL;

    if (smm_load_relaxed(&smm_large_usage.live_blocks) < ROOMY_BLOCKS)
        large = reserve_exactly(reserved, writable);
    if (large == NULL) {
        reserved = smm_align_up(need, SMM_SLOT_SIZE);
        writable = reserved;
        large = reserve_exactly(reserved, writable);
    }
    if (large == NULL)
        return NULL;
    smm_account_reserve(reserved);
    large->reserved = reserved;
    large->writable = writable;
    large->dirty = 0;
    dirty_raise(large, smm_os_page_size());
    return large;
}

static void enter(struct smm_large *large, char *block, size_t usable)
{
    large->block = block;
    large->usable = usable;
    SMM_TEST_POINT(LARGE_TAKEN);
    smm_store_relaxed(&large->mark, mark(large, LIVE));
    smm_segment_map_set(large, SMM_KIND_LARGE);
    if (block_offset(large) == SMM_SLOT_SIZE)
        smm_segment_map_set(block, SMM_KIND_LARGE_NEXT);
    smm_add_relaxed(&smm_large_usage.live_blocks, 1);
    smm_add_relaxed(&smm_large_usage.live_bytes, usable);
}

/* A cached block for `need` bytes from its base, made as large as that. */
static struct smm_large *take_cached(size_t need)
{
    struct smm_large *const large = smm_large_cache_take(need);

    if (large == NULL)
        return NULL;
    if (!writable_raise(large, need)) {
        smm_large_cache_put(large);
        return NULL;
    }
    if (large->dirty > need && large->dirty - need > EXCESS_MIN && large->dirty / 4 > need)
        dirty_lower(large, need);
    return large;
}

/* A block at `offset` from its base: the header is before it in the same slot, or in the slot before. */
static void *alloc_at(size_t offset, size_t size, size_t *dirty)
{
    const size_t need = page_up(offset + size);
    struct smm_large *large = take_cached(need);

    if (large == NULL) {
        /* What the cache keeps did not fit: the process shall not have both. */
        smm_large_cache_make_room(need);
        large = reserve(need);
    }
    if (large == NULL)
        return NULL;
    *dirty = large->dirty > offset ? large->dirty - offset : 0;
    dirty_raise(large, need);
    enter(large, (char *)large + offset, need - offset);
    return large->block;
}

/* Alignments above a slot: reserves more, and gives back what lies before the slot in front of the first
 * multiple of the alignment. The kernel gets back what is behind the block when it is freed. */
static void *alloc_beyond_slot(size_t size, size_t alignment, size_t *dirty)
{
    const size_t reserved = smm_align_up(page_up(size), SMM_SLOT_SIZE) + alignment;
    char *const all = smm_os_reserve(reserved, SMM_SLOT_SIZE);

    if (all == NULL)
        return NULL;
    char *const block = (char *)smm_align_up((uintptr_t)all + SMM_SLOT_SIZE, alignment);
    char *const base = block - SMM_SLOT_SIZE;
    const size_t left = reserved - (size_t)(base - all);
    const size_t need = SMM_SLOT_SIZE + page_up(size);
    if (base != all)
        smm_os_discard(all, (size_t)(base - all));
    struct smm_large *const large = (struct smm_large *)(void *)base;
    if (!map_prepare(large) || !smm_os_commit(base, need)) {
        smm_os_discard(base, left);
        return NULL;
    }
    smm_account_reserve(left);
    large->reserved = left;
    large->writable = need;
    large->dirty = 0;
    *dirty = 0;
    dirty_raise(large, need);
    enter(large, block, need - SMM_SLOT_SIZE);
    return block;
}

void *smm_large_alloc(size_t size, size_t alignment, size_t *dirty)
{
    /* Else the block of no bytes may lie at the end of its reservation, where another one begins. */
    if (size == 0)
        size = 1;
    if (alignment > SMM_SLOT_SIZE)
        return alloc_beyond_slot(size, alignment, dirty);
    return alloc_at(alignment < HEADER ? HEADER : alignment, size, dirty);
}

/* ---- Freeing and resizing ---- */

enum smm_fault smm_large_free(void *block)
{
    struct smm_large *const large = header_of(block, smm_kind_of(block));
    const enum smm_fault fault = check(large, block);
    uint64_t seen = mark(large, LIVE);

    if (fault != SMM_FAULT_NONE)
        return fault;
    SMM_TEST_POINT(LARGE_CHECKED);
    /* acq_rel: what the program did with the block comes before its next life (L2) */
    if (!smm_cas_strong_acq_rel(&large->mark, &seen, mark(large, FREED)))
        return SMM_FAULT_FREED;
    SMM_TEST_POINT(LARGE_FREED);
    smm_sub_relaxed(&smm_large_usage.live_blocks, 1);
    smm_sub_relaxed(&smm_large_usage.live_bytes, large->usable);
    /* The cache takes reservations whose block lies in the header's slot. Others are released at once; where
     * that is refused, they become such a one. */
    if (block_offset(large) == SMM_SLOT_SIZE) {
        if (smm_large_release(large))
            return SMM_FAULT_NONE;
        smm_segment_map_set(large->block, SMM_KIND_NONE);
        large->block = (char *)large + HEADER;
        large->usable = 0;
    }
    smm_large_cache_put(large);
    return SMM_FAULT_NONE;
}

static void resized(struct smm_large *large, size_t usable)
{
    smm_add_relaxed(&smm_large_usage.live_bytes, usable - large->usable);
    large->usable = usable;
}

/* A reservation to move a block to: with all that is wished for, or with just what is needed. */
static struct smm_large *reserve_for_move(size_t writable, size_t need, size_t *reserved)
{
    struct smm_large *const to = smm_os_reserve(*reserved, SMM_SLOT_SIZE);

    if (to == NULL)
        return NULL;
    /* What is to be writable beyond the pages that move is made so first: after the move nothing fails. */
    if (map_prepare(to) && smm_os_commit((char *)to + writable, need - writable))
        return to;
    smm_os_discard(to, *reserved);
    return NULL;
}

/* Moves the pages of a block into a larger reservation. */
static struct smm_large *move(struct smm_large *large, size_t size, size_t headroom)
{
    const struct smm_large old = {
        .reserved = large->reserved, .writable = large->writable, .dirty = large->dirty, .usable = large->usable};
    size_t need = page_up(size + headroom + HEADER);
    size_t reserved = smm_align_up(need + (need < HEADROOM_MAX ? need : HEADROOM_MAX), SMM_SLOT_SIZE);
    struct smm_large *to;

    if (block_offset(large) != HEADER)
        return NULL;
    to = reserve_for_move(old.writable, need, &reserved);
    if (to == NULL) {
        need = page_up(size + HEADER);
        reserved = smm_align_up(need, SMM_SLOT_SIZE);
        to = reserve_for_move(old.writable, need, &reserved);
    }
    if (to == NULL)
        return NULL;
    unmap(large);
    switch (smm_os_move(large, old.writable, to)) {
    case SMM_OS_MOVED:
        break;
    case SMM_OS_MOVE_REFUSED:
        smm_segment_map_set(large, SMM_KIND_LARGE);
        smm_os_discard(to, reserved);
        return NULL;
    case SMM_OS_MOVE_LOST:
        smm_segment_map_set(large, SMM_KIND_LARGE);
        smm_os_discard((char *)to + old.writable, reserved - old.writable);
        return NULL;
    }
    SMM_TEST_POINT(LARGE_MOVED);
    /* The addresses of the pages went with them. */
    if (old.reserved != old.writable)
        smm_os_discard((char *)large + old.writable, old.reserved - old.writable);
    smm_account_unreserve(old.reserved);
    smm_account_reserve(reserved);
    to->reserved = reserved;
    to->writable = need;
    to->dirty = old.dirty;
    smm_sub_relaxed(&smm_large_usage.live_blocks, 1);
    smm_sub_relaxed(&smm_large_usage.live_bytes, old.usable);
    /* A block that grows past this is filled densely: few faults for the rest of it. */
    if (need >= HUGE_MIN && smm_load_relaxed(&smm_large_settings.huge_pages) && smm_huge_worthwhile())
        smm_os_advise_huge(to, reserved, true);
    enter(to, (char *)to + HEADER, page_up(size + HEADER) - HEADER);
    return to;
}

/* Makes room for growth that goes on in small steps without a system call for each. */
static bool grow_writable(struct smm_large *large, size_t need)
{
    size_t more = page_up(large->writable + large->writable / 16);

    if (need <= large->writable)
        return true;
    if (more > large->reserved)
        more = large->reserved;
    return (more > need && writable_raise(large, more)) || writable_raise(large, need);
}

void *smm_large_resize(void *block, size_t size, size_t headroom, enum smm_fault *fault)
{
    struct smm_large *large = header_of(block, smm_kind_of(block));

    *fault = check(large, block);
    if (*fault != SMM_FAULT_NONE)
        return NULL;
    const size_t offset = block_offset(large);
    const size_t need = page_up(offset + size);
    if (need > large->reserved) {
        large = move(large, size, headroom);
        if (large == NULL)
            return NULL;
        dirty_raise(large, page_up(size + HEADER));
        return large->block;
    }
    if (!grow_writable(large, need))
        return NULL;
    if (need - offset < large->usable / 2)
        dirty_lower(large, need);
    else if (need - offset < large->usable)
        return block; /* shrunk by less than half: nothing is worth a system call */
    resized(large, need - offset);
    dirty_raise(large, need);
    return block;
}

size_t smm_large_usable(const void *block, enum smm_fault *fault)
{
    const struct smm_large *const large = header_of(block, smm_kind_of(block));

    *fault = check(large, block);
    return *fault == SMM_FAULT_NONE ? large->usable : 0;
}

/* ---- Verifying ---- */

int smm_large_verify(void)
{
    uint64_t blocks = 0, bytes = 0;

    for (size_t slot = smm_segment_map_next(0); slot < SMM_SLOT_COUNT; slot = smm_segment_map_next(slot + 1)) {
        const void *const base = (const void *)(slot << SMM_SLOT_SHIFT);
        const enum smm_kind kind = smm_kind_of(base);
        if (kind == SMM_KIND_LARGE_NEXT && smm_kind_of((const char *)base - 1) != SMM_KIND_LARGE)
            return __LINE__;
        if (kind != SMM_KIND_LARGE)
            continue;
        const struct smm_large *const large = base;
        const uint64_t seen = smm_load_relaxed(&large->mark);
        if (seen != mark(large, LIVE) && seen != mark(large, FREED))
            return __LINE__;
        if (large->writable > large->reserved || large->dirty > large->writable ||
            block_offset(large) + large->usable > large->writable)
            return __LINE__;
        for (size_t at = smm_align_up(large->dirty, SMM_OS_PAGE_MIN); at < large->writable; at += 251 * SMM_OS_PAGE_MIN)
            if (((const char *)large)[at] != 0)
                return __LINE__;
        if (seen == mark(large, LIVE)) {
            blocks++;
            bytes += large->usable;
        }
    }
    if (blocks != smm_load_relaxed(&smm_large_usage.live_blocks) || bytes != smm_load_relaxed(&smm_large_usage.live_bytes))
        return __LINE__;
    return 0;
}
