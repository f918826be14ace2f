/* SPDX-License-Identifier: MIT */
/* test_point.c - yields at random where atomic.h's SMM_TEST_POINT stands (builds with -Dtest_points=true). */
#include "platform/platform.h"

#if SMM_TEST_POINTS
void smm_test_point(void)
{
    /* One shared generator: threads disturb each other's sequence, which is as good as a seed of their own. */
    static _Atomic(uint32_t) state = 1;
    const uint32_t next = smm_load_relaxed(&state) * 1664525u + 1013904223u;

    smm_store_relaxed(&state, next);
    if ((next >> 24) < 12)
        smm_os_yield();
}
#endif
