/* SPDX-License-Identifier: MIT */
/* account.h - how much memory the library took from the system, and how often. Counted where memory changes
 * hands with the system, never on a fast path; relaxed atomics, for reading at any time. */
#ifndef SMM_SEGMENT_ACCOUNT_H
#define SMM_SEGMENT_ACCOUNT_H

#include "base/atomic.h"

struct smm_account {
    _Atomic(uint64_t) reserved;
    _Atomic(uint64_t) committed; /* may be resident */
    _Atomic(uint64_t) committed_peak;
    _Atomic(uint64_t) commits;
    _Atomic(uint64_t) purges;
    _Atomic(uint64_t) purged_bytes;
    _Atomic(uint64_t) failures;
};
extern struct smm_account smm_account;

void smm_account_reserve(size_t bytes);
void smm_account_unreserve(size_t bytes);
void smm_account_commit(size_t bytes);
/* Memory that went back to the system. */
void smm_account_purge(size_t bytes);
/* Memory that moved or was given up together with its addresses. */
void smm_account_uncommit(size_t bytes);
void smm_account_failure(void);

#endif
