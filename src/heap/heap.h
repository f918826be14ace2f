/* SPDX-License-Identifier: MIT */
/* heap.h - a thread's heap: its small and its medium part, and its life.
 *
 *     birth   the first slow path of a thread takes a heap from the stack of waiting ones, or makes one
 *     death   a destructor of thread-specific data hands it, with all that lives in it, to the stack
 *
 * Heaps are never freed: there are as many as threads ever ran at once. A pointer to one, and the owner that
 * a segment names, stay good for ever.
 *
 * Each thread finds its heap by one load of thread-local storage. It names
 *   - the empty heap before birth: its pages have no items, so the fast paths need no test for a start;
 *     a thread that the system will not tell us the end of stays with it, and is served by the shared heap;
 *   - the ended heap after death, likewise empty: frees then take the foreign path, and allocations are
 *     served by the shared heap, under a lock. Taking a heap once more would need another call of the
 *     destructor, which nobody promises in the last round: such heaps would be lost one by one.
 */
#ifndef SMM_HEAP_HEAP_H
#define SMM_HEAP_HEAP_H

#include "medium/medium.h"
#include "small/small.h"

enum smm_heap_state {
    SMM_HEAP_WAITING, /* in the stack, or taken from it by a collector */
    SMM_HEAP_SHARED,  /* the one for threads without a heap */
    SMM_HEAP_ORPHAN,  /* in the child of fork(): its thread is not here, and may have left it anyhow */
    SMM_HEAP_LIVE     /* a thread has it */
};

struct smm_heap {
    struct smm_small small; /* first: the owner that segments name is the heap */
    struct smm_medium medium;
    _Atomic(struct smm_heap *) next_waiting; /* in the stack */
    struct smm_heap *next;                   /* in the list of all heaps; constant */
    _Atomic(uint32_t) life; /* SMM_HEAP_LIVE + the process's generation while a thread has it, else a lower state */
    uint32_t slow_paths;    /* the owner's count, to look at the clock now and then */
};

_Static_assert(offsetof(struct smm_heap, small) == 0, "a segment's owner is compared with the heap");

#ifndef SMM_TLS_MODEL
#define SMM_TLS_MODEL "initial-exec"
#endif
extern _Thread_local struct smm_heap *smm_heap_self __attribute__((tls_model(SMM_TLS_MODEL)));

extern struct smm_heap smm_empty_heap;
extern struct smm_heap smm_ended_heap;

SMM_INLINE bool smm_heap_is_real(const struct smm_heap *heap)
{
    return heap != &smm_empty_heap && heap != &smm_ended_heap;
}

/* How often the process was forked from one that had the library. Heaps that live in an earlier generation are
 * orphans, without a write to each in the child. */
extern _Atomic(uint32_t) smm_heap_generation;

SMM_INLINE enum smm_heap_state smm_heap_state(const struct smm_heap *heap)
{
    const uint32_t life = smm_load_relaxed(&heap->life);

    if (life < SMM_HEAP_LIVE)
        return (enum smm_heap_state)life;
    return life == SMM_HEAP_LIVE + smm_load_relaxed(&smm_heap_generation) ? SMM_HEAP_LIVE : SMM_HEAP_ORPHAN;
}

/* In the child of fork(): all heaps but the calling thread's that live become orphans. */
void smm_heap_orphan_others(void);

/* Names the function that the system calls at a thread's end. Once, at start. When the system refuses, every
 * thread is served by the shared heap. */
void smm_heap_start(void);

/* The calling thread's heap, born if need be; or the shared heap, locked; or NULL when there is no memory for
 * one. Goes with smm_heap_leave(). */
struct smm_heap *smm_heap_enter(void);
void smm_heap_leave(struct smm_heap *heap);

/* The heap of the calling thread, or NULL when it has none. */
SMM_INLINE struct smm_heap *smm_heap_mine(void)
{
    struct smm_heap *const heap = smm_heap_self;
    return smm_heap_is_real(heap) ? heap : NULL;
}

/* The same, born if need be; NULL when it cannot be had. */
struct smm_heap *smm_heap_own(void);

/* The first of all heaps; the others follow by `next`. */
struct smm_heap *smm_heap_first(void);

/* Held by collectors, and to make a new heap. */
extern struct smm_lock smm_collect_lock;
/* Held by whoever uses the shared heap as its owner. */
extern struct smm_lock smm_shared_heap_lock;

/* Takes all waiting heaps: the caller is their owner until it puts them back. The collect lock is held. */
struct smm_heap *smm_heap_take_waiting(void);
void smm_heap_put_waiting(struct smm_heap *heaps);

#endif
