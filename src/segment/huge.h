/* SPDX-License-Identifier: MIT */
/* huge.h - whether huge pages are worth asking for, found out by using them.
 *
 * A huge page saves some 500 faults when the kernel has one at hand. When it has to move other pages for it, or
 * a hypervisor has to find the memory first, the one fault takes longer than all those that it saves: on a
 * virtual machine whose free memory had gone back to the host, parsing a large document took 1.7 times as long
 * with huge pages as without. So the first touch of each half of an advised segment is timed, and after a
 * slow one segments and large blocks do without for a while.
 */
#ifndef SMM_SEGMENT_HUGE_H
#define SMM_SEGMENT_HUGE_H

#include "base/atomic.h"

struct smm_huge_settings {
    _Atomic(uint32_t) slow_us; /* a first touch that takes so long is slow; 0: none is */
};
extern struct smm_huge_settings smm_huge_settings;

/* Whether the next segment or block should be advised for huge pages. */
bool smm_huge_worthwhile(void);

/* Touches the first byte of memory that is advised and was never touched. It reads as zero afterwards as well.
 * Returns false when that was slow. */
bool smm_huge_first_touch(void *address);

#endif
