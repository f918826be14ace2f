/* SPDX-License-Identifier: MIT */
/* test_point.h - places where another thread should get its chance to interfere: between the load and the compare of
 * a lock-free operation, between two operations that are one step to their caller, around a lock.
 *
 * Builds with -Dtest_points=true stop there at random, or call what a test has set, which then does in the middle of
 * one thread's operation what another thread might do there. Other builds have nothing.
 */
#ifndef SMM_BASE_TEST_POINT_H
#define SMM_BASE_TEST_POINT_H

#if SMM_TEST_POINTS

enum smm_test_point {
    /* small/: the word of a page, the queue of a heap */
    SMM_AT_FOREIGN_PUSH,     /* the word was read, the links are written; before the compare */
    SMM_AT_FOREIGN_TAKE,     /* the same, of the owner */
    SMM_AT_FOREIGN_BORROW,   /* the word was read and the page looked at; before the compare */
    SMM_AT_FOREIGN_PUSHED,   /* between the push and the queueing */
    SMM_AT_NOTIFY,           /* before the compare */
    SMM_AT_QUEUE_TAKEN,      /* the queue was taken, no word yet */
    SMM_AT_LINK_READ,        /* the link to the next page was read; before the word is taken */
    SMM_AT_WORD_TAKEN,       /* the word was taken, nothing subtracted */
    SMM_AT_BORROWED,         /* the list was taken, the page not looked at again */
    SMM_AT_RETURN_BORROWED,  /* a stand-in's items are linked; before the push */
    SMM_AT_DEAD_SEEN,        /* all items were found listed; before the compare that notes it */
    SMM_AT_DEAD_FOUND,       /* the same; before the compare to busy */
    SMM_AT_DEAD_ALIVE,       /* busy, and not dead after all */
    SMM_AT_DEAD_BUSY,        /* busy, the memory is still there */
    SMM_AT_DEAD_DECOMMITTED, /* busy, the memory has gone */
    SMM_AT_RELINKED,         /* busy, the memory stayed and is linked anew */
    SMM_AT_RETIRE,           /* an empty page, in no list of its class and not in the pool */
    SMM_AT_PAGE_TAKEN,       /* a page from the pool that serves no class yet */
    SMM_AT_SEGMENT_SHOWN,    /* a segment that walkers see and that has no page in the pool */
    SMM_AT_STAND_IN,         /* a stand-in that is linked and not shown */
    SMM_AT_POOL_CLAIMED,     /* pages are out of the pool, their memory is still there */
    SMM_AT_POOL_DECOMMITTED, /* it has gone, and they are not back */
    /* medium/ */
    SMM_AT_MEDIUM_CHECKED,   /* a block looked like a live one; before the lock or the flag */
    SMM_AT_MEDIUM_PENDING,   /* flagged, in no list */
    SMM_AT_MEDIUM_PUSH,      /* before the compare */
    SMM_AT_MEDIUM_DRAINED,   /* the list was taken, nothing merged */
    SMM_AT_MEDIUM_PURGE,     /* a free chunk, before its memory goes */
    /* large/ */
    SMM_AT_LARGE_CHECKED,    /* a block looked like a live one; before the compare of its mark */
    SMM_AT_LARGE_FREED,      /* marked, not in the cache */
    SMM_AT_LARGE_STRUCK_OUT, /* not in the map, its addresses still ours */
    SMM_AT_LARGE_RELEASED,   /* its addresses may be somebody else's */
    SMM_AT_LARGE_TAKEN,      /* out of the cache or new, not marked live */
    SMM_AT_LARGE_MOVED,      /* the pages have moved, the block is not entered */
    SMM_AT_CACHE_KEPT,       /* in the cache, what is too much not yet out of it */
    SMM_AT_CACHE_EVICTED,    /* out of the cache, still there */
    /* heap/ */
    SMM_AT_STACK_PUSH,       /* before the compare */
    SMM_AT_STACK_POP,
    SMM_AT_STACK_TAKE,
    SMM_AT_HEAP_NONE,        /* no heap waits; before the look under the lock */
    SMM_AT_HEAP_MADE,        /* before it is in the list of all */
    SMM_AT_HEAP_POPPED,      /* the heap is the thread's, and nobody knows it */
    SMM_AT_HEAP_BORN,        /* the thread has it, and its end is not watched */
    SMM_AT_HEAP_ENDED,       /* the thread has given it up, and it is not settled */
    SMM_AT_HEAP_SETTLED,     /* before it is in the stack */
    SMM_AT_SHARED_SHOWN,     /* the shared heap can be seen, and has not been entered */
    SMM_AT_WAITING_TAKEN,    /* a collector has all waiting heaps */
    SMM_AT_TICK,             /* before the compare of the last tick */
    SMM_AT_COLLECT_HEAP,     /* a collector goes on to the next heap */
    /* control/, segment/ and platform/ */
    SMM_AT_ACCOUNT_PEAK,     /* before the next compare */
    SMM_AT_FORK_LOCKED,      /* the thread that forks has all locks, and has not named itself */
    SMM_AT_LOCK_ACQUIRE,     /* before the compare */
    SMM_AT_LOCK_TRY,         /* it was free; before the compare */
    SMM_AT_LOCK_WAIT,        /* it says that somebody sleeps; before the sleep */
    SMM_AT_LOCK_HELD,
    SMM_AT_LOCK_RELEASED,    /* before the wake-up */
    SMM_AT_LOCK_GATE,        /* a gated lock was taken; before the look at the gate */
    SMM_AT_GATE_CLOSED,      /* and no gated lock was looked at yet */
    SMM_AT_COUNT
};

/* errno stays as it is. */
void smm_test_point(enum smm_test_point point);

/* What a test has called instead, in whatever thread comes by; NULL: nothing. Release and acquire, so that the
 * function sees what was set up for it. */
typedef void smm_test_hook(enum smm_test_point point);
void smm_test_hook_set(smm_test_hook *hook);

#define SMM_TEST_POINT(name) smm_test_point(SMM_AT_##name)
#else
#define SMM_TEST_POINT(name) ((void)0)
#endif

#endif
