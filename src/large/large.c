/* SPDX-License-Identifier: MIT */
#include "large/large.h"

#include "base/bits.h"
#include "base/check.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/segment_map.h"

struct smm_large_settings smm_large_settings = {.huge_pages = true};
struct smm_large_usage smm_large_usage;

#define HEADER sizeof(struct smm_large)
static const size_t RESERVED_MIN = 16 * SMM_MIB;
static const size_t HEADROOM_MAX = SMM_GIB;
static const size_t EXCESS_MIN = 16 * SMM_MIB; /* memory beyond a request that is worth returning */
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
    if (smm_os_release(large, reserved)) {
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

/* A new reservation of at least `need` bytes, with `wish` more to grow into where addresses suffice. */
static struct smm_large *reserve(size_t need, size_t wish, size_t alignment)
{
    size_t reserved = need + wish;
    struct smm_large *large;

    if (reserved < RESERVED_MIN)
        reserved = RESERVED_MIN;
    reserved = smm_align_up(reserved, SMM_SLOT_SIZE);
    large = smm_os_reserve(reserved, alignment);
    if (large == NULL && wish != 0) {
        reserved = smm_align_up(need, SMM_SLOT_SIZE);
        large = smm_os_reserve(reserved, alignment);
    }
    if (large == NULL)
        return NULL;
    if (!smm_segment_map_prepare(large) || !smm_segment_map_prepare((char *)large + SMM_SLOT_SIZE - 1) ||
        !smm_os_commit(large, need)) {
        /* If that is refused too, addresses are lost, but nothing else. */
        (void)smm_os_release(large, reserved);
        return NULL;
    }
    smm_account_reserve(reserved);
    large->reserved = reserved;
    large->writable = need;
    large->dirty = 0;
    dirty_raise(large, smm_os_page_size());
    return large;
}

static void enter(struct smm_large *large, char *block, size_t usable)
{
    large->block = block;
    large->usable = usable;
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

static void *alloc_plain(size_t size, size_t headroom, size_t *dirty)
{
    const size_t need = page_up(size + HEADER);
    struct smm_large *large = take_cached(need);
    char *block;

    if (large == NULL)
        large = reserve(need, headroom, SMM_SLOT_SIZE);
    if (large == NULL)
        return NULL;
    block = (char *)large + HEADER;
    *dirty = large->dirty > HEADER ? large->dirty - HEADER : 0;
    dirty_raise(large, need);
    enter(large, block, need - HEADER);
    return block;
}

/* L1: up to 2 MiB the block lies in the header's slot, beyond at the start of the next one. */
static void *alloc_aligned(size_t size, size_t alignment, size_t *dirty)
{
    size_t offset = alignment < HEADER ? HEADER : alignment;
    size_t need;
    struct smm_large *large;
    char *base;

    if (offset >= SMM_SLOT_SIZE)
        offset = SMM_SLOT_SIZE;
    if (alignment <= SMM_SLOT_SIZE) {
        need = page_up(offset + size);
        large = reserve(need, 0, SMM_SLOT_SIZE);
    } else {
        /* Reserve so that a multiple of the alignment lies one slot behind the base: take more, and give
         * the part before back. */
        const size_t reserved = smm_align_up(page_up(size), SMM_SLOT_SIZE) + alignment;
        char *all;
        if (reserved < size || (all = smm_os_reserve(reserved, SMM_SLOT_SIZE)) == NULL)
            return NULL;
        char *const block = (char *)smm_align_up((uintptr_t)all + SMM_SLOT_SIZE, alignment);
        base = block - SMM_SLOT_SIZE;
        if (base != all && !smm_os_release(all, (size_t)(base - all))) {
            (void)smm_os_release(all, reserved);
            return NULL;
        }
        need = SMM_SLOT_SIZE + page_up(size);
        large = (struct smm_large *)(void *)base;
        const size_t left = reserved - (size_t)(base - all);
        /* Only the header's page and the block: the rest of its slot stays addresses. */
        if (!smm_segment_map_prepare(base) || !smm_segment_map_prepare(block) || !smm_os_commit(base, need)) {
            (void)smm_os_release(base, left);
            return NULL;
        }
        smm_account_reserve(left);
        large->reserved = left;
        large->writable = need;
        large->dirty = 0;
        dirty_raise(large, smm_os_page_size());
    }
    if (large == NULL)
        return NULL;
    *dirty = large->dirty > offset ? large->dirty - offset : 0;
    dirty_raise(large, need);
    enter(large, (char *)large + offset, need - offset);
    return large->block;
}

void *smm_large_alloc(size_t size, size_t alignment, size_t *dirty)
{
    const size_t headroom = size < HEADROOM_MAX ? size : HEADROOM_MAX;

    if (alignment <= HEADER)
        return alloc_plain(size, headroom, dirty);
    return alloc_aligned(size, alignment, dirty);
}

/* ---- Freeing and resizing ---- */

enum smm_fault smm_large_free(void *block)
{
    struct smm_large *const large = header_of(block, smm_kind_of(block));
    const enum smm_fault fault = check(large, block);
    uint64_t seen = mark(large, LIVE);

    if (fault != SMM_FAULT_NONE)
        return fault;
    /* acq_rel: what the program did with the block comes before its next life (L2) */
    if (!smm_cas_strong_acq_rel(&large->mark, &seen, mark(large, FREED)))
        return SMM_FAULT_FREED;
    smm_sub_relaxed(&smm_large_usage.live_blocks, 1);
    smm_sub_relaxed(&smm_large_usage.live_bytes, large->usable);
    if (block_offset(large) == HEADER) {
        smm_large_cache_put(large);
        return SMM_FAULT_NONE;
    }
    if (!smm_large_release(large)) {
        /* It waits for a later try among the cached ones, which lie right behind their headers. */
        if (block_offset(large) == SMM_SLOT_SIZE)
            smm_segment_map_set(large->block, SMM_KIND_NONE);
        large->block = (char *)large + HEADER;
        smm_large_cache_put(large);
    }
    return SMM_FAULT_NONE;
}

static void resized(struct smm_large *large, size_t usable)
{
    smm_add_relaxed(&smm_large_usage.live_bytes, usable - large->usable);
    large->usable = usable;
}

/* Moves the pages of a block into a larger reservation. */
static struct smm_large *move(struct smm_large *large, size_t size, size_t headroom)
{
    const size_t need = page_up(size + headroom + HEADER);
    const size_t old_reserved = large->reserved, old_writable = large->writable, old_dirty = large->dirty;
    const size_t old_usable = large->usable;
    const size_t wish = need < HEADROOM_MAX ? need : HEADROOM_MAX;
    size_t reserved = smm_align_up(need + wish, SMM_SLOT_SIZE);
    struct smm_large *to;

    if (block_offset(large) != HEADER)
        return NULL;
    to = smm_os_reserve(reserved, SMM_SLOT_SIZE);
    if (to == NULL)
        return NULL;
    /* What is to be writable beyond the pages that move is made so first: after the move nothing fails. */
    if (!smm_segment_map_prepare(to) || !smm_os_commit((char *)to + old_writable, need - old_writable)) {
        (void)smm_os_release(to, reserved);
        return NULL;
    }
    unmap(large);
    if (!smm_os_move(large, old_writable, to)) {
        smm_segment_map_set(large, SMM_KIND_LARGE);
        (void)smm_os_release(to, reserved);
        return NULL;
    }
    /* The addresses of the pages went with them; what else was reserved is released, or lost. */
    if (old_reserved != old_writable)
        (void)smm_os_release((char *)large + old_writable, old_reserved - old_writable);
    smm_account_unreserve(old_reserved);
    smm_account_reserve(reserved);
    to->reserved = reserved;
    to->writable = need;
    to->dirty = old_dirty;
    smm_sub_relaxed(&smm_large_usage.live_blocks, 1);
    smm_sub_relaxed(&smm_large_usage.live_bytes, old_usable);
    /* A block that grows past this is filled densely: few faults for the rest of it. */
    to->huge = smm_load_relaxed(&smm_large_settings.huge_pages) && need >= HUGE_MIN;
    if (to->huge)
        smm_os_advise_huge(to, reserved, true);
    enter(to, (char *)to + HEADER, page_up(size + HEADER) - HEADER);
    return to;
}

void *smm_large_resize(void *block, size_t size, size_t headroom, enum smm_fault *fault)
{
    struct smm_large *large = header_of(block, smm_kind_of(block));
    const size_t offset = block_offset(large);
    const size_t need = page_up(offset + size);

    *fault = check(large, block);
    if (*fault != SMM_FAULT_NONE)
        return NULL;
    if (need > large->reserved) {
        large = move(large, size, headroom);
        if (large == NULL)
            return NULL;
        dirty_raise(large, page_up(size + HEADER));
        return large->block;
    }
    if (!writable_raise(large, need))
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
