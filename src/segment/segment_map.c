/* SPDX-License-Identifier: MIT */
#include "segment/segment_map.h"

#include "base/bits.h"
#include "base/check.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/account.h"

struct smm_segment_map smm_segment_map;

static struct smm_lock map_lock;
/* Bit set: the piece (of one system page) is writable. Under map_lock, but for smm_segment_map_next(). */
static uint64_t writable[SMM_SLOT_COUNT / SMM_OS_PAGE_MIN / 64];

bool smm_segment_map_init(void)
{
    if (smm_load_relaxed(&smm_segment_map.limit) != 0)
        return true;
    void *const kinds = smm_os_map_zeros(SMM_SLOT_COUNT);
    if (kinds == NULL)
        return false;
    smm_store_relaxed(&smm_segment_map.kinds, (_Atomic(uint8_t) *)kinds);
    /* release: pairs with the acquire of smm_kind_of() */
    smm_store_release(&smm_segment_map.limit, SMM_SLOT_COUNT);
    smm_account_reserve(SMM_SLOT_COUNT);
    return true;
}

static bool make_writable(size_t slot)
{
    const size_t page = smm_os_page_size();
    const size_t piece = slot / page;
    uint64_t *const word = &writable[piece / 64];
    const uint64_t bit = (uint64_t)1 << (piece % 64);

    if (*word & bit)
        return true;
    char *const kinds = (char *)(uintptr_t)smm_load_relaxed(&smm_segment_map.kinds);
    if (!smm_os_commit(kinds + piece * page, page))
        return false;
    *word |= bit;
    smm_account_commit(page);
    return true;
}

bool smm_segment_map_prepare(const void *base)
{
    const size_t slot = smm_slot_of(base);
    bool done;

    SMM_ALWAYS(slot < smm_load_relaxed(&smm_segment_map.limit));
    smm_lock_acquire(&map_lock);
    done = make_writable(slot);
    smm_lock_release(&map_lock);
    return done;
}

void smm_segment_map_set(const void *base, enum smm_kind kind)
{
    smm_store_release(&smm_load_relaxed(&smm_segment_map.kinds)[smm_slot_of(base)], (uint8_t)kind);
}

size_t smm_segment_map_next(size_t slot)
{
    const size_t page = smm_os_page_size();

    while (slot < smm_load_relaxed(&smm_segment_map.limit)) {
        const size_t piece = slot / page;
        if ((writable[piece / 64] >> (piece % 64) & 1) == 0)
            slot = (piece + 1) * page;
        else if (smm_load_relaxed(&smm_load_relaxed(&smm_segment_map.kinds)[slot]) == SMM_KIND_NONE)
            slot++;
        else
            return slot;
    }
    return SMM_SLOT_COUNT;
}

void smm_segment_map_lock(void)
{
    smm_lock_acquire(&map_lock);
}

void smm_segment_map_unlock(void)
{
    smm_lock_release(&map_lock);
}

void smm_segment_map_reset_lock(void)
{
    smm_lock_reset(&map_lock);
}
