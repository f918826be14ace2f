/* SPDX-License-Identifier: MIT */
/* heap_stack.h - the lock-free stack of heaps that wait for a thread.
 *
 *     | first: heap or 0 | changes |      one 16-byte word
 *
 * K1  Every successful change adds 1 to `changes`: a pop whose view is old fails, also when the same heap is
 *     on top again with another one below it (ABA).
 * K2  Heaps are never freed, so next_waiting of a heap that another thread has just popped can be read; the
 *     compare finds out that it was in vain.
 */
#ifndef SMM_HEAP_HEAP_STACK_H
#define SMM_HEAP_HEAP_STACK_H

#include "base/atomic.h"

struct smm_heap;

struct smm_heap_stack {
    struct smm_pair top;
};

/* Puts the heaps from `first` to `last`, linked by next_waiting. */
void smm_heap_stack_push(struct smm_heap_stack *stack, struct smm_heap *first, struct smm_heap *last);
struct smm_heap *smm_heap_stack_pop(struct smm_heap_stack *stack);
struct smm_heap *smm_heap_stack_take_all(struct smm_heap_stack *stack);

#endif
