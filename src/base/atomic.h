/* SPDX-License-Identifier: MIT */
/* atomic.h - every atomic operation of the library goes through these names, so that the memory order
 * stands in the name (`ordered`: one order for all that is so named) and the operations can be routed elsewhere (a model checker, test points).
 *
 * Words are C11 _Atomic objects. The pair is two words that change together in one 16-byte
 * compare-and-swap; it is read as two loads, which may tear: the compare finds out.
 */
#ifndef SMM_BASE_ATOMIC_H
#define SMM_BASE_ATOMIC_H

#include <stdatomic.h>

#include "base/compiler.h"
#include "base/test_point.h"

#define smm_load_relaxed(word) atomic_load_explicit((word), memory_order_relaxed)
#define smm_load_acquire(word) atomic_load_explicit((word), memory_order_acquire)
#define smm_load_ordered(word) atomic_load_explicit((word), memory_order_seq_cst)
#define smm_store_relaxed(word, value) atomic_store_explicit((word), (value), memory_order_relaxed)
#define smm_store_release(word, value) atomic_store_explicit((word), (value), memory_order_release)
#define smm_store_ordered(word, value) atomic_store_explicit((word), (value), memory_order_seq_cst)
#define smm_exchange_acquire(word, value) atomic_exchange_explicit((word), (value), memory_order_acquire)
#define smm_exchange_release(word, value) atomic_exchange_explicit((word), (value), memory_order_release)
#define smm_exchange_acq_rel(word, value) atomic_exchange_explicit((word), (value), memory_order_acq_rel)
#define smm_add_ordered(word, value) atomic_fetch_add_explicit((word), (value), memory_order_seq_cst)
#define smm_add_relaxed(word, value) atomic_fetch_add_explicit((word), (value), memory_order_relaxed)
#define smm_sub_relaxed(word, value) atomic_fetch_sub_explicit((word), (value), memory_order_relaxed)
#define smm_or_acq_rel(word, bits) atomic_fetch_or_explicit((word), (bits), memory_order_acq_rel)
#define smm_and_release(word, bits) atomic_fetch_and_explicit((word), (bits), memory_order_release)

/* Compare-and-swap: *seen is what was expected, and on failure becomes what is there. The weak forms may
 * fail without reason and stand in loops. */
#define smm_cas_weak_relaxed(word, seen, want)                                                            \
    atomic_compare_exchange_weak_explicit((word), (seen), (want), memory_order_relaxed, memory_order_relaxed)
#define smm_cas_weak_release(word, seen, want)                                                            \
    atomic_compare_exchange_weak_explicit((word), (seen), (want), memory_order_release, memory_order_relaxed)
#define smm_cas_weak_acq_rel(word, seen, want)                                                            \
    atomic_compare_exchange_weak_explicit((word), (seen), (want), memory_order_acq_rel, memory_order_relaxed)
#define smm_cas_strong_acquire(word, seen, want)                                                          \
    atomic_compare_exchange_strong_explicit((word), (seen), (want), memory_order_acquire, memory_order_relaxed)
#define smm_cas_strong_acq_rel(word, seen, want)                                                          \
    atomic_compare_exchange_strong_explicit((word), (seen), (want), memory_order_acq_rel, memory_order_relaxed)
#define smm_cas_strong_relaxed(word, seen, want)                                                          \
    atomic_compare_exchange_strong_explicit((word), (seen), (want), memory_order_relaxed, memory_order_relaxed)
#define smm_cas_strong_ordered(word, seen, want)                                                          \
    atomic_compare_exchange_strong_explicit((word), (seen), (want), memory_order_seq_cst, memory_order_relaxed)

/* A counter that one thread writes and any may read: no locked instruction. */
#define smm_own_add(word, value) smm_store_relaxed((word), smm_load_relaxed(word) + (value))

struct smm_pair {
    SMM_ALIGNED(16) _Atomic(uint64_t) first;
    _Atomic(uint64_t) second;
};

_Static_assert(sizeof(struct smm_pair) == 16, "one 16-byte operand");

struct smm_pair_value {
    uint64_t first;
    uint64_t second;
};

SMM_INLINE struct smm_pair_value smm_pair_load(struct smm_pair *pair)
{
    /* second (the change counter) is read before first: a first that is newer than second then fails
     * the compare. acquire keeps the two loads in this order, and a reader of first's target sees what
     * the full barrier of the compare-and-swap that put it there published. */
    struct smm_pair_value value;
    value.second = smm_load_acquire(&pair->second);
    value.first = smm_load_acquire(&pair->first);
    return value;
}

/* A full barrier. Returns false and leaves the pair alone when it is not `seen`. */
SMM_INLINE bool smm_pair_cas(struct smm_pair *pair, struct smm_pair_value seen, struct smm_pair_value want)
{
    __extension__ typedef unsigned __int128 both;
    /* The builtin, because gcc calls libatomic for a 16-byte _Atomic. */
    return __sync_bool_compare_and_swap((both *)(void *)pair, (both)seen.second << 64 | seen.first,
                                        (both)want.second << 64 | want.first);
}

SMM_INLINE void smm_cpu_relax(void)
{
    __builtin_ia32_pause();
}

#endif
