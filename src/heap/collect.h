/* SPDX-License-Identifier: MIT */
/* collect.h - memory on its way back to the system: what has been free for the purge delay, and at once what
 * is asked for. Runs in slow paths of any thread, for the heaps of all threads.
 *
 * What a heap keeps: of free pages and empty arenas any number for the delay, and a few for good; when its
 * thread ends at most the reserve, which then ages as all the rest.
 */
#ifndef SMM_HEAP_COLLECT_H
#define SMM_HEAP_COLLECT_H

#include "heap/heap.h"

struct smm_collect_settings {
    _Atomic(uint64_t) delay; /* milliseconds */
    _Atomic(uint32_t) keep_pages;     /* free pages that a heap keeps for good */
    _Atomic(uint32_t) keep_arenas;
    _Atomic(uint32_t) reserve_pages;  /* free pages that an ending thread leaves to the next one */
    _Atomic(uint32_t) reserve_arenas;
};
extern struct smm_collect_settings smm_collect_settings;

/* Looks at the clock and, a few times in each delay, gives back what has aged. */
void smm_tick(void);

/* The same for a slow path that is taken often: looks at the clock at every 32nd call. */
SMM_INLINE void smm_tick_sometimes(struct smm_heap *heap)
{
    if ((heap->slow_paths++ & 31) == 31)
        smm_tick();
}

/* Brings the heap of an ending thread into the state in which it waits. Its owner calls. */
void smm_heap_settle(struct smm_heap *heap);

/* shardmm_thread_flush() and shardmm_purge(). Return the bytes given back. */
size_t smm_heap_flush(struct smm_heap *heap);
size_t smm_purge(void);

#endif
