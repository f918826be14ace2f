/* SPDX-License-Identifier: MIT */
/* lock.h - a lock for slow paths; zero-filled memory is a free one.
 *
 *     0 free    1 held    2 held, and somebody may sleep on it
 *
 * It knows its holder. A thread that would wait for itself came here from a signal handler that interrupted it, or from
 * a function that the system's was replaced by: it ends the process with a line, where it would hang for ever.
 *
 * The thread that forks holds all locks of the library from before fork() until after it. Handlers of other
 * libraries that run in between may allocate: so that thread, and it alone, passes through every lock.
 */
#ifndef SMM_PLATFORM_LOCK_H
#define SMM_PLATFORM_LOCK_H

#include "base/atomic.h"
#include "platform/platform.h"

struct smm_lock {
    _Atomic(uint32_t) state;
    /* smm_os_thread_id(), or 0. A thread writes its own number when it has the lock and 0 before it gives it back: so
     * a relaxed read by another thread, old or new, is never that one's number. */
    _Atomic(uintptr_t) holder;
};

/* smm_os_thread_id() of the thread that holds all locks for its fork(), else 0. Written by that thread only
 * while it holds them, so a relaxed read by another thread, old or new, is never its own number. */
extern _Atomic(uintptr_t) smm_fork_holder;

/* smm_os_thread_id() of the thread for which the gate is closed, else 0; written by that thread only. */
extern _Atomic(uintptr_t) smm_fork_gate;

SMM_COLD void smm_lock_acquire_slow(struct smm_lock *lock);
SMM_COLD void smm_lock_wake(struct smm_lock *lock);
SMM_COLD bool smm_lock_passed_through(void);

/* The calling thread has the lock. */
SMM_INLINE void smm_lock_name_holder(struct smm_lock *lock)
{
    smm_store_relaxed(&lock->holder, smm_os_thread_id());
}

SMM_INLINE void smm_lock_acquire(struct smm_lock *lock)
{
    uint32_t seen = 0;

    SMM_TEST_POINT(LOCK_ACQUIRE);
    /* acquire: pairs with the release of the thread that held it before */
    if (SMM_UNLIKELY(!smm_cas_strong_acquire(&lock->state, &seen, 1)))
        smm_lock_acquire_slow(lock);
    else
        smm_lock_name_holder(lock);
    SMM_TEST_POINT(LOCK_HELD);
}

SMM_INLINE bool smm_lock_try_unnamed(struct smm_lock *lock)
{
    uint32_t seen = 0;

    return smm_load_relaxed(&lock->state) == 0 &&
           (SMM_TEST_POINT(LOCK_TRY), smm_cas_strong_acquire(&lock->state, &seen, 1));
}

/* True when the lock was free and is now held. Never true for a lock that is passed through. */
SMM_INLINE bool smm_lock_try(struct smm_lock *lock)
{
    if (!smm_lock_try_unnamed(lock))
        return false;
    smm_lock_name_holder(lock);
    return true;
}

SMM_INLINE void smm_lock_let_go(struct smm_lock *lock)
{
    smm_store_relaxed(&lock->holder, 0);
    /* release: all that was done under the lock happens before the next acquire */
    if (SMM_UNLIKELY(smm_exchange_release(&lock->state, 0) == 2)) {
        SMM_TEST_POINT(LOCK_RELEASED);
        smm_lock_wake(lock);
    }
}

SMM_INLINE void smm_lock_release(struct smm_lock *lock)
{
    if (SMM_UNLIKELY(smm_load_relaxed(&smm_fork_holder) != 0) && smm_lock_passed_through())
        return;
    smm_lock_let_go(lock);
}

/* Makes a lock free in the child of fork(), where whoever slept on it does not exist. */
SMM_INLINE void smm_lock_reset(struct smm_lock *lock)
{
    smm_store_relaxed(&lock->holder, 0);
    smm_store_relaxed(&lock->state, 0);
}

/* A lock of which there are many, two a heap. The thread that forks takes none of them: a write to each would copy
 * the memory that it is in, for the parent and for the child. It closes a gate, then waits until each has been seen
 * free. Who takes one looks at the gate afterwards, and gives it back untouched when that is closed: of two threads
 * that write one word and then read the other's, at least one sees what the other wrote.
 *
 * In the child such a lock may be held by a thread that was about to give it back; nothing was done under it, and it
 * has no holder, who is named behind the gate. */
struct smm_gated_lock {
    struct smm_lock inner;
};

SMM_COLD void smm_gated_acquire_slow(struct smm_gated_lock *lock, bool held);
SMM_COLD bool smm_gate_is_mine(void);

SMM_INLINE void smm_gated_acquire(struct smm_gated_lock *lock)
{
    uint32_t seen = 0;

    SMM_TEST_POINT(LOCK_ACQUIRE);
    /* ordered: before the read of the gate; pairs with smm_gate_close() and smm_gate_await(). Also acquire: pairs with
     * the release of the thread that held it before. */
    if (SMM_UNLIKELY(!smm_cas_strong_ordered(&lock->inner.state, &seen, 1)) ||
        (SMM_TEST_POINT(LOCK_GATE), SMM_UNLIKELY(smm_load_ordered(&smm_fork_gate) != 0)))
        smm_gated_acquire_slow(lock, seen == 0);
    else
        smm_lock_name_holder(&lock->inner);
    SMM_TEST_POINT(LOCK_HELD);
}

SMM_INLINE void smm_gated_release(struct smm_gated_lock *lock)
{
    if (SMM_UNLIKELY(smm_load_relaxed(&smm_fork_gate) != 0) && smm_gate_is_mine())
        return;
    smm_lock_let_go(&lock->inner);
}

/* True when the lock was free, the gate open, and it is now held. */
bool smm_gated_try(struct smm_gated_lock *lock);

/* For the thread that forks. It closes the gate when it holds the locks that are taken before gated ones, and none of
 * those that are taken after them; then it waits for each gated lock. */
void smm_gate_close(void);
void smm_gate_await(struct smm_gated_lock *lock);
void smm_gate_open(void);
/* In the child of fork(). */
void smm_gate_reset(void);
SMM_INLINE void smm_gated_reset(struct smm_gated_lock *lock)
{
    /* A write only where one is needed. */
    if (smm_load_relaxed(&lock->inner.state) != 0)
        smm_lock_reset(&lock->inner);
}

#endif
