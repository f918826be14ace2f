/* SPDX-License-Identifier: MIT */
/* start.h - the first call into the library, which may come before any constructor has run. */
#ifndef SMM_CONTROL_START_H
#define SMM_CONTROL_START_H

#include "base/atomic.h"

extern _Atomic(bool) smm_started;

/* False when there is no memory for the segment map: the request fails, and the next one tries again. */
SMM_COLD bool smm_start_slow(void);

SMM_INLINE bool smm_start(void)
{
    /* acquire: pairs with the release at the end of smm_start_slow() */
    return SMM_LIKELY(smm_load_acquire(&smm_started)) || smm_start_slow();
}

#endif
