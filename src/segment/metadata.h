/* SPDX-License-Identifier: MIT */
/* metadata.h - memory for the library's own long-lived structures: heaps and stand-in descriptors. It is
 * handed out in order and never comes back, as its users keep what they took for a next use. */
#ifndef SMM_SEGMENT_METADATA_H
#define SMM_SEGMENT_METADATA_H

#include "base/compiler.h"

/* Zero-filled memory at a multiple of `alignment` (up to the system's page size), or NULL. */
void *smm_metadata_alloc(size_t size, size_t alignment);

/* For fork. */
void smm_metadata_lock(void);
void smm_metadata_unlock(void);
void smm_metadata_reset_lock(void);

#endif
