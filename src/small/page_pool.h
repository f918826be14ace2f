/* SPDX-License-Identifier: MIT */
/* page_pool.h - the free pages of a heap, behind a lock of their own.
 *
 * Only slow paths come here: the owner to take and to put pages, any thread to give their memory back. That is
 * what lets a process return memory of threads that sleep.
 *
 * A free page is dirty (it has memory) or clean (it has none and reads as zero); a page of neither set is in
 * use, or is being cleaned by a thread that took it out for the time of the system call.
 */
#ifndef SMM_SMALL_PAGE_POOL_H
#define SMM_SMALL_PAGE_POOL_H

#include "platform/lock.h"
#include "small/page.h"

struct smm_segment_list {
    struct smm_segment *first, *last;
};

struct SMM_ALIGNED(SMM_CACHE_LINE) smm_page_pool {
    struct smm_gated_lock lock;
    /* Under the lock; the count is read without it as a hint. */
    _Atomic(uint32_t) dirty_count;
    struct smm_segment_list dirty; /* segments with dirty pages */
    struct smm_segment_list clean; /* segments with clean pages */
    /* All segments, newest first: the owner adds, any thread walks (`older` is constant). */
    _Atomic(struct smm_segment *) segments;
    uint32_t segment_count; /* the owner's */
};

/* A free page, the lowest one with memory if there is any, or one of a new segment. *clean tells whether
 * it reads as zero. NULL when there is no memory. The owner alone. */
struct smm_page *smm_pool_take(struct smm_page_pool *pool, struct smm_small *owner, bool *clean);

/* The owner gives an empty page back. */
void smm_pool_put(struct smm_page_pool *pool, struct smm_page *page, bool clean);

/* Of `dead` pages of a segment backed by huge pages: those in halves that are mostly free or dead, where
 * returning them is worth splitting the huge page. Any thread. */
uint64_t smm_pool_splittable(struct smm_page_pool *pool, const struct smm_segment *segment, uint64_t dead);

/* Returns the memory of dirty pages that have been free for `age` milliseconds, until `keep` of them are
 * left. Any thread. Returns the bytes. */
size_t smm_pool_trim(struct smm_page_pool *pool, unsigned keep, uint64_t now, uint32_t age);

#endif
