/* SPDX-License-Identifier: MIT */
#include "platform/lock.h"

#include "platform/platform.h"

enum { SPINS = 100 }; /* about a microsecond: most holders are done by then */

_Atomic(uintptr_t) smm_fork_holder;

bool smm_lock_passed_through(void)
{
    return smm_load_relaxed(&smm_fork_holder) == smm_os_thread_id();
}

void smm_lock_acquire_slow(struct smm_lock *lock)
{
    if (smm_load_relaxed(&smm_fork_holder) != 0 && smm_lock_passed_through())
        return;
    for (unsigned spin = 0; spin < SPINS; spin++) {
        if (smm_lock_try(lock))
            return;
        smm_cpu_relax();
    }
    /* From here on the state is 2 while held: a release then wakes, sometimes for nobody. */
    while (smm_exchange_acquire(&lock->state, 2) != 0) {
        SMM_TEST_POINT(LOCK_WAIT);
        smm_os_wait(&lock->state, 2);
    }
}

void smm_lock_wake(struct smm_lock *lock)
{
    smm_os_wake(&lock->state);
}
