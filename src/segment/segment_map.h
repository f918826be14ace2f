/* SPDX-License-Identifier: MIT */
/* segment_map.h - what lives in each 4 MiB slot of the address space: one byte a slot.
 *
 * The array covers all user addresses and is mapped read-only; the piece of it that a slot's byte lies in
 * becomes writable when a slot is first entered. So it costs addresses, but no promise of memory.
 * Before it exists the limit is 0: a zero-filled library looks up nothing.
 *
 * Any thread reads without a lock. A thread that legally holds a block of a slot got the block after the
 * slot was entered, by whatever means the program passes pointers between threads; so a relaxed read of the
 * byte is enough, and for other addresses any answer is as good as another. That there is an array to read is
 * known by acquire, since a thread may free NULL while another starts the library.
 */
#ifndef SMM_SEGMENT_SEGMENT_MAP_H
#define SMM_SEGMENT_SEGMENT_MAP_H

#include "base/atomic.h"
#include "base/geometry.h"

enum smm_kind {
    SMM_KIND_NONE = 0,
    SMM_KIND_SMALL = 1,
    SMM_KIND_MEDIUM = 2,
    SMM_KIND_LARGE = 3,      /* the slot starts with the header of a large block */
    SMM_KIND_LARGE_NEXT = 4, /* the slot starts with a large block whose header starts the slot before */
    SMM_KIND_COUNT
};

struct smm_segment_map {
    _Atomic(size_t) limit; /* slots that may be looked up; written once, after `kinds` */
    _Atomic(_Atomic(uint8_t) *) kinds;
};
extern struct smm_segment_map smm_segment_map;

SMM_INLINE enum smm_kind smm_kind_of(const void *address)
{
    const size_t slot = smm_slot_of(address);

    if (SMM_UNLIKELY(slot >= smm_load_acquire(&smm_segment_map.limit)))
        return SMM_KIND_NONE;
    return (enum smm_kind)smm_load_relaxed(&smm_load_relaxed(&smm_segment_map.kinds)[slot]);
}

/* Makes the array. Called with the start-up lock held; false when there is no room for it. */
bool smm_segment_map_init(void);

/* Makes room for the slot at `base`; only then it may be entered. False when there is no memory for it. */
bool smm_segment_map_prepare(const void *base);

/* Enters a prepared slot, or with SMM_KIND_NONE strikes it out. release: pairs with nothing, and need not:
 * see above; it keeps the header's words before the entry for readers of arbitrary addresses. */
void smm_segment_map_set(const void *base, enum smm_kind kind);

/* The next slot at or after `slot` that holds something, or SMM_SLOT_COUNT. For walks over everything while
 * no other thread is in the library. */
size_t smm_segment_map_next(size_t slot);

/* For fork. */
void smm_segment_map_lock(void);
void smm_segment_map_unlock(void);
void smm_segment_map_reset_lock(void);

#endif
