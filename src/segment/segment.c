/* SPDX-License-Identifier: MIT */
#include "segment/segment.h"

#include "base/atomic.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/segment_map.h"

static const size_t SPAN_FIRST = 2 * SMM_SLOT_SIZE;
static const size_t SPAN_LAST = 16 * SMM_SLOT_SIZE;

static struct smm_lock segment_lock;
/* All under the lock. Slots are cut from the low end of the span upwards. */
static char *span_next;
static char *span_end;
static size_t span_size;
static _Atomic(uint64_t) count;

/* Makes span_next name a reserved slot. Smaller spans than wished are taken where addresses are scarce. */
static bool span_reserve(void)
{
    if (span_next != span_end)
        return true;
    size_t size = span_size == 0 ? SPAN_FIRST : span_size < SPAN_LAST ? 2 * span_size : SPAN_LAST;
    char *span = smm_os_reserve(size, SMM_SLOT_SIZE);
    if (span == NULL) {
        size = SMM_SLOT_SIZE;
        span = smm_os_reserve(size, SMM_SLOT_SIZE);
    }
    if (span == NULL)
        return false;
    /* Not huge unless a segment asks for it: with the system set to "always" the first small block of
     * every heap would take 2 MiB. */
    smm_os_advise_huge(span, size, false);
    smm_account_reserve(size);
    span_next = span;
    span_end = span + size;
    span_size = size;
    return true;
}

void *smm_segment_take(bool huge)
{
    void *slot = NULL;

    smm_lock_acquire(&segment_lock);
    /* What fails leaves the slot at the head of the span, for the next call. */
    if (span_reserve() && smm_segment_map_prepare(span_next) && smm_os_commit(span_next, SMM_SLOT_SIZE)) {
        slot = span_next;
        span_next += SMM_SLOT_SIZE;
        smm_add_relaxed(&count, 1);
    }
    smm_lock_release(&segment_lock);
    if (slot != NULL && huge)
        smm_os_advise_huge(slot, SMM_SLOT_SIZE, true);
    return slot;
}

uint64_t smm_segment_count(void)
{
    return smm_load_relaxed(&count);
}

void smm_segment_lock(void)
{
    smm_lock_acquire(&segment_lock);
}

void smm_segment_unlock(void)
{
    smm_lock_release(&segment_lock);
}

void smm_segment_reset_lock(void)
{
    smm_lock_reset(&segment_lock);
}
