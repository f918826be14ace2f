/* SPDX-License-Identifier: MIT */
#include "platform/lock.h"

#include "platform/report.h"

enum { SPINS = 100 }; /* about a microsecond: most holders are done by then */

_Atomic(uintptr_t) smm_fork_holder;

bool smm_lock_passed_through(void)
{
    return smm_load_relaxed(&smm_fork_holder) == smm_os_thread_id();
}

/* Makes the state 1 or 2, and names no holder. */
static void wait_for(struct smm_lock *lock)
{
    if (smm_load_relaxed(&lock->holder) == smm_os_thread_id())
        smm_report_reentry();
    for (unsigned spin = 0; spin < SPINS; spin++) {
        if (smm_lock_try_unnamed(lock))
            return;
        smm_cpu_relax();
    }
    /* From here on the state is 2 while held: a release then wakes, sometimes for nobody. */
    while (smm_exchange_acquire(&lock->state, 2) != 0) {
        SMM_TEST_POINT(LOCK_WAIT);
        smm_os_wait(&lock->state, 2);
    }
}

void smm_lock_acquire_slow(struct smm_lock *lock)
{
    if (smm_load_relaxed(&smm_fork_holder) != 0 && smm_lock_passed_through())
        return;
    wait_for(lock);
    smm_lock_name_holder(lock);
}

void smm_lock_wake(struct smm_lock *lock)
{
    smm_os_wake(&lock->state);
}

/* ---- Gated locks ---- */

_Atomic(uintptr_t) smm_fork_gate;
/* Held while the gate is closed: what those wait for who find it so. */
static struct smm_lock gate_lock;

bool smm_gate_is_mine(void)
{
    return smm_load_relaxed(&smm_fork_gate) == smm_os_thread_id();
}

void smm_gated_acquire_slow(struct smm_gated_lock *lock, bool held)
{
    for (;;) {
        if (!held) {
            if (smm_load_relaxed(&smm_fork_gate) != 0 && smm_gate_is_mine())
                return; /* passes through */
            wait_for(&lock->inner);
            SMM_TEST_POINT(LOCK_GATE);
            /* ordered: as in smm_gated_acquire(); adds nothing, and is a write that this thread reads the gate after */
            (void)smm_add_ordered(&lock->inner.state, 0);
            if (smm_load_ordered(&smm_fork_gate) == 0)
                break;
        }
        smm_lock_let_go(&lock->inner);
        held = false;
        if (!smm_gate_is_mine()) {
            smm_lock_acquire(&gate_lock);
            smm_lock_release(&gate_lock);
        }
    }
    smm_lock_name_holder(&lock->inner);
}

bool smm_gated_try(struct smm_gated_lock *lock)
{
    uint32_t seen = 0;

    if (smm_load_relaxed(&lock->inner.state) != 0)
        return false;
    SMM_TEST_POINT(LOCK_TRY);
    if (!smm_cas_strong_ordered(&lock->inner.state, &seen, 1))
        return false;
    SMM_TEST_POINT(LOCK_GATE);
    if (smm_load_ordered(&smm_fork_gate) != 0) {
        smm_lock_let_go(&lock->inner);
        return false;
    }
    smm_lock_name_holder(&lock->inner);
    return true;
}

void smm_gate_close(void)
{
    smm_lock_acquire(&gate_lock);
    /* ordered: before the reads of smm_gate_await(); pairs with smm_gated_acquire() */
    smm_store_ordered(&smm_fork_gate, smm_os_thread_id());
    SMM_TEST_POINT(GATE_CLOSED);
}

void smm_gate_await(struct smm_gated_lock *lock)
{
    /* Also acquire: pairs with the release of the last holder. Those who come later do nothing under the lock. */
    while (smm_load_ordered(&lock->inner.state) != 0) {
        smm_lock_acquire(&lock->inner);
        smm_lock_let_go(&lock->inner);
    }
}

void smm_gate_open(void)
{
    smm_store_relaxed(&smm_fork_gate, 0);
    smm_lock_release(&gate_lock);
}

void smm_gate_reset(void)
{
    smm_store_relaxed(&smm_fork_gate, 0);
    smm_lock_reset(&gate_lock);
}
