/* SPDX-License-Identifier: MIT */
/* lock.h - a lock of four bytes for slow paths; zero-filled memory is a free one.
 *
 *     0 free    1 held    2 held, and somebody may sleep on it
 *
 * The thread that forks holds all locks of the library from before fork() until after it. Handlers of other
 * libraries that run in between may allocate: so that thread, and it alone, passes through every lock.
 */
#ifndef SMM_PLATFORM_LOCK_H
#define SMM_PLATFORM_LOCK_H

#include "base/atomic.h"

struct smm_lock {
    _Atomic(uint32_t) state;
};

/* smm_os_thread_id() of the thread that holds all locks for its fork(), else 0. Written by that thread only
 * while it holds them, so a relaxed read by another thread, old or new, is never its own number. */
extern _Atomic(uintptr_t) smm_fork_holder;

SMM_COLD void smm_lock_acquire_slow(struct smm_lock *lock);
SMM_COLD void smm_lock_wake(struct smm_lock *lock);
SMM_COLD bool smm_lock_passed_through(void);

SMM_INLINE void smm_lock_acquire(struct smm_lock *lock)
{
    uint32_t seen = 0;

    SMM_TEST_POINT(LOCK_ACQUIRE);
    /* acquire: pairs with the release of the thread that held it before */
    if (SMM_UNLIKELY(!smm_cas_strong_acquire(&lock->state, &seen, 1)))
        smm_lock_acquire_slow(lock);
    SMM_TEST_POINT(LOCK_HELD);
}

/* True when the lock was free and is now held. Never true for a lock that is passed through. */
SMM_INLINE bool smm_lock_try(struct smm_lock *lock)
{
    uint32_t seen = 0;

    return smm_load_relaxed(&lock->state) == 0 &&
           (SMM_TEST_POINT(LOCK_TRY), smm_cas_strong_acquire(&lock->state, &seen, 1));
}

SMM_INLINE void smm_lock_release(struct smm_lock *lock)
{
    if (SMM_UNLIKELY(smm_load_relaxed(&smm_fork_holder) != 0) && smm_lock_passed_through())
        return;
    /* release: all that was done under the lock happens before the next acquire */
    if (SMM_UNLIKELY(smm_exchange_release(&lock->state, 0) == 2)) {
        SMM_TEST_POINT(LOCK_RELEASED);
        smm_lock_wake(lock);
    }
}

/* Makes a lock free in the child of fork(), where whoever slept on it does not exist. */
SMM_INLINE void smm_lock_reset(struct smm_lock *lock)
{
    smm_store_relaxed(&lock->state, 0);
}

#endif
