/* SPDX-License-Identifier: MIT */
/* segment.h - 4 MiB slots of committed memory for pages and arenas.
 *
 * Slots are cut from spans of reserved addresses that grow with the process, and stay with the heap that
 * took them for the life of the process: their memory goes back, their addresses never. So a segment's first
 * bytes can be read at any time once its kind stands in the segment map.
 */
#ifndef SMM_SEGMENT_SEGMENT_H
#define SMM_SEGMENT_SEGMENT_H

#include "base/geometry.h"

/* A slot, committed and untouched, with its advice on huge pages given and room for it in the segment map.
 * The caller fills in its header and then enters it in the map. NULL when there is no memory. */
void *smm_segment_take(bool huge);

uint64_t smm_segment_count(void);

/* For fork. */
void smm_segment_lock(void);
void smm_segment_unlock(void);
void smm_segment_reset_lock(void);

#endif
