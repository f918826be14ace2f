/* SPDX-License-Identifier: MIT */
#include "segment/account.h"

struct smm_account smm_account;

void smm_account_reserve(size_t bytes)
{
    smm_add_relaxed(&smm_account.reserved, bytes);
}

void smm_account_unreserve(size_t bytes)
{
    smm_sub_relaxed(&smm_account.reserved, bytes);
}

void smm_account_commit(size_t bytes)
{
    const uint64_t now = smm_add_relaxed(&smm_account.committed, bytes) + bytes;
    uint64_t peak = smm_load_relaxed(&smm_account.committed_peak);

    while (now > peak && !smm_cas_weak_relaxed(&smm_account.committed_peak, &peak, now))
        SMM_TEST_POINT(ACCOUNT_PEAK);
    smm_add_relaxed(&smm_account.commits, 1);
}

void smm_account_uncommit(size_t bytes)
{
    smm_sub_relaxed(&smm_account.committed, bytes);
}

void smm_account_purge(size_t bytes)
{
    smm_sub_relaxed(&smm_account.committed, bytes);
    smm_add_relaxed(&smm_account.purges, 1);
    smm_add_relaxed(&smm_account.purged_bytes, bytes);
}

void smm_account_failure(void)
{
    smm_add_relaxed(&smm_account.failures, 1);
}
