/* SPDX-License-Identifier: MIT */
/* slow.h - what the fast paths do not do, and the calls that have no fast path. Same contracts as the public
 * calls of shardmm.h; `call` is the name that a report of misuse gives. */
#ifndef SMM_ENTRY_SLOW_H
#define SMM_ENTRY_SLOW_H

#include "base/compiler.h"
#include "small/page.h"

SMM_NOINLINE void *smm_malloc_slow(size_t size);
SMM_NOINLINE void *smm_calloc_slow(size_t count, size_t size);
SMM_NOINLINE void *smm_realloc_slow(void *block, size_t size);

SMM_NOINLINE void smm_free_slow(void *block, const char *call);
/* `block` was pushed to `page` of the calling thread's heap: see smm_small_free_rare(). */
SMM_NOINLINE void smm_free_rare(struct smm_page *page, void *block, const char *call);
/* Builds with debug assertions: a small block of this thread's heap lies on an item that is handed out. */
void smm_free_check(void *block, const char *call);
/* Builds with debug assertions report a size or an alignment that the block was not made with. */
void smm_free_sized_check(void *block, size_t alignment, size_t size, const char *call);

/* `alignment` is a power of two. NULL with errno ENOMEM. */
void *smm_aligned(size_t alignment, size_t size);

size_t smm_usable_size(const void *block, const char *call);
size_t smm_good_size(size_t size);

#endif
