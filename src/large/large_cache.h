/* SPDX-License-Identifier: MIT */
/* large_cache.h - freed large blocks that wait for the next request, shared by the process: large buffers
 * are often allocated by one thread and freed by another.
 *
 * The lock covers choosing and reordering; system calls come after it.
 */
#ifndef SMM_LARGE_LARGE_CACHE_H
#define SMM_LARGE_LARGE_CACHE_H

#include "large/large.h"

#define SMM_LARGE_CACHE_SLOTS 64u

struct smm_large_cache_settings {
    _Atomic(uint32_t) blocks; /* at most SMM_LARGE_CACHE_SLOTS */
    _Atomic(uint64_t) bytes;
};
extern struct smm_large_cache_settings smm_large_cache_settings;

/* A freed block whose reservation holds `need` bytes from its base: of those that have so much memory the one
 * with the least, else the one with the most. NULL when there is none. */
struct smm_large *smm_large_cache_take(size_t need);

/* Keeps a freed block, or gives it and older ones back where there is no room for both. */
void smm_large_cache_put(struct smm_large *large);

/* Before memory for `need` bytes is taken because no cached block fits: gives back as much, the oldest blocks
 * first. A buffer that grows by doubling would else have all its earlier copies beside it. */
void smm_large_cache_make_room(size_t need);

/* Gives back the blocks that have been free for `age` milliseconds. Returns the bytes. */
size_t smm_large_cache_trim(uint64_t now, uint64_t age);

void smm_large_cache_usage(uint64_t *blocks, uint64_t *bytes);

/* For fork. */
void smm_large_cache_lock(void);
void smm_large_cache_unlock(void);
void smm_large_cache_reset_lock(void);

#endif
