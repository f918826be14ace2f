/* SPDX-License-Identifier: MIT */
#include "segment/huge.h"

#include "platform/platform.h"

enum {
    SKIP_FIRST = 16, /* requests to do without after a slow touch, */
    SKIP_FACTOR = 4, /* and so many times more after each further one */
    SKIP_LAST = 1 << 20
};

/* Some 500 faults of a fast machine; clearing 2 MiB takes a tenth of it. */
struct smm_huge_settings smm_huge_settings = {.slow_us = 1000};

/* Relaxed: counts that may be off by what other threads do at the same time. */
static _Atomic(uint32_t) skips_left;
static _Atomic(uint32_t) skips_next = SKIP_FIRST;

bool smm_huge_worthwhile(void)
{
    const uint32_t left = smm_load_relaxed(&skips_left);

    if (left != 0) {
        smm_store_relaxed(&skips_left, left - 1);
        return false;
    }
    return smm_os_huge_available();
}

bool smm_huge_first_touch(void *address)
{
    const uint32_t slow = smm_load_relaxed(&smm_huge_settings.slow_us);
    const uint64_t before = smm_os_clock_us();

    *(volatile char *)address = 0;
    if (slow == 0 || smm_os_clock_us() - before < slow)
        return true;
    const uint32_t next = smm_load_relaxed(&skips_next);
    smm_store_relaxed(&skips_left, next);
    if (next < SKIP_LAST)
        smm_store_relaxed(&skips_next, next * SKIP_FACTOR);
    return false;
}
