/* SPDX-License-Identifier: MIT */
#include "heap/heap_stack.h"

#include "heap/heap.h"

static struct smm_heap *heap_of(uint64_t word)
{
    return (struct smm_heap *)(uintptr_t)word;
}

/* All orders come from the pair: its compare-and-swap is a full barrier, which publishes next_waiting and the
 * whole heap to the thread that pops it. */

void smm_heap_stack_push(struct smm_heap_stack *stack, struct smm_heap *first, struct smm_heap *last)
{
    struct smm_pair_value seen, want;

    do {
        seen = smm_pair_load(&stack->top);
        smm_store_relaxed(&last->next_waiting, heap_of(seen.first));
        want = (struct smm_pair_value){(uintptr_t)first, seen.second + 1};
        SMM_TEST_POINT(STACK_PUSH);
    } while (!smm_pair_cas(&stack->top, seen, want));
}

struct smm_heap *smm_heap_stack_pop(struct smm_heap_stack *stack)
{
    struct smm_pair_value seen, want;

    do {
        seen = smm_pair_load(&stack->top);
        if (seen.first == 0)
            return NULL;
        /* relaxed: an old value fails the compare (K1, K2) */
        want.first = (uintptr_t)smm_load_relaxed(&heap_of(seen.first)->next_waiting);
        want.second = seen.second + 1;
        SMM_TEST_POINT(STACK_POP);
    } while (!smm_pair_cas(&stack->top, seen, want));
    return heap_of(seen.first);
}

struct smm_heap *smm_heap_stack_take_all(struct smm_heap_stack *stack)
{
    struct smm_pair_value seen, want;

    do {
        seen = smm_pair_load(&stack->top);
        if (seen.first == 0)
            return NULL;
        want = (struct smm_pair_value){0, seen.second + 1};
        SMM_TEST_POINT(STACK_TAKE);
    } while (!smm_pair_cas(&stack->top, seen, want));
    return heap_of(seen.first);
}
