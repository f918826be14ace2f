/* SPDX-License-Identifier: MIT */
/* test_heap_stack.c - the lock-free stack of waiting heaps: no heap is lost, and none has two owners. */
#include "heap/heap_stack.h"

#include "heap/heap.h"
#include "platform/platform.h"
#include "unit.h"

enum { HEAPS = 8, THREADS = 4 };

static struct smm_heap heaps[HEAPS];
static struct smm_heap_stack stack;

static int empty_stack(void **state)
{
    (void)state;
    memset(&stack, 0, sizeof stack);
    return 0;
}

static void the_last_one_in_is_the_first_one_out(void **state)
{
    (void)state;
    assert_null(smm_heap_stack_pop(&stack));
    for (unsigned i = 0; i < HEAPS; i++)
        smm_heap_stack_push(&stack, &heaps[i], &heaps[i]);
    for (unsigned i = HEAPS; i-- > 0;)
        assert_ptr_equal(smm_heap_stack_pop(&stack), &heaps[i]);
    assert_null(smm_heap_stack_pop(&stack));
}

static void a_chain_is_pushed_at_once(void **state)
{
    (void)state;
    smm_heap_stack_push(&stack, &heaps[0], &heaps[0]);
    smm_store_relaxed(&heaps[1].next_waiting, &heaps[2]);
    smm_store_relaxed(&heaps[2].next_waiting, &heaps[3]);
    smm_heap_stack_push(&stack, &heaps[1], &heaps[3]);
    for (unsigned i = 1; i < 4; i++)
        assert_ptr_equal(smm_heap_stack_pop(&stack), &heaps[i]);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &heaps[0]);
    assert_null(smm_heap_stack_pop(&stack));
}

static void all_are_taken_at_once(void **state)
{
    struct smm_heap *heap;

    (void)state;
    assert_null(smm_heap_stack_take_all(&stack));
    for (unsigned i = 0; i < HEAPS; i++)
        smm_heap_stack_push(&stack, &heaps[i], &heaps[i]);
    heap = smm_heap_stack_take_all(&stack);
    for (unsigned i = HEAPS; i-- > 0; heap = smm_load_relaxed(&heap->next_waiting))
        assert_ptr_equal(heap, &heaps[i]);
    assert_null(heap);
    assert_null(smm_heap_stack_pop(&stack));
}

/* K1: what a view of the past says is refused although the same heap is on top again. */
static void every_change_counts(void **state)
{
    (void)state;
    smm_heap_stack_push(&stack, &heaps[0], &heaps[0]);
    const struct smm_pair_value old = smm_pair_load(&stack.top);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &heaps[0]);
    smm_heap_stack_push(&stack, &heaps[0], &heaps[0]);
    const struct smm_pair_value now = smm_pair_load(&stack.top);
    assert_int_equal(now.first, old.first);
    assert_int_equal(now.second, old.second + 2);
    assert_false(smm_pair_cas(&stack.top, old, (struct smm_pair_value){0, 0}));
    assert_ptr_equal(smm_heap_stack_take_all(&stack), &heaps[0]);
    assert_int_equal(smm_pair_load(&stack.top).second, old.second + 3);
}

static _Atomic(bool) stop;
static _Atomic(unsigned) owners[HEAPS];

static uintptr_t own(const struct smm_heap *heap)
{
    uintptr_t errors = 0;
    EXPECT(errors, smm_add_relaxed(&owners[heap - heaps], 1) == 0);
    return errors;
}

static uintptr_t disown(const struct smm_heap *heap)
{
    uintptr_t errors = 0;
    EXPECT(errors, smm_sub_relaxed(&owners[heap - heaps], 1) == 1);
    return errors;
}

static void *pop_and_push(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    uintptr_t errors = 0;

    while (!smm_load_relaxed(&stop) && errors == 0) {
        struct smm_heap *first, *last;
        if (random_below(&seed, 16) == 0) {
            /* As a collector does: all of them, and back. */
            first = last = smm_heap_stack_take_all(&stack);
            if (first == NULL)
                continue;
            for (struct smm_heap *next = first; next != NULL; next = smm_load_relaxed(&next->next_waiting)) {
                errors += own(next);
                last = next;
            }
        } else {
            first = last = smm_heap_stack_pop(&stack);
            if (first == NULL) {
                smm_os_yield();
                continue;
            }
            errors += own(first);
            /* Sometimes two, so that their order changes. */
            struct smm_heap *const second = random_below(&seed, 2) ? smm_heap_stack_pop(&stack) : NULL;
            if (second != NULL) {
                errors += own(second);
                smm_store_relaxed(&second->next_waiting, first);
                first = second;
            }
            smm_store_relaxed(&last->next_waiting, NULL);
        }
        if (random_below(&seed, 8) == 0)
            smm_os_yield();
        for (struct smm_heap *heap = first; heap != NULL; heap = smm_load_relaxed(&heap->next_waiting))
            errors += disown(heap);
        smm_heap_stack_push(&stack, first, last);
    }
    return ERRORS(errors);
}

static void four_threads_lose_and_double_none(void **state)
{
    pthread_t threads[THREADS];
    uintptr_t errors = 0;
    bool seen[HEAPS] = {false};
    unsigned count = 0;

    (void)state;
    smm_store_relaxed(&stop, false);
    for (unsigned i = 0; i < HEAPS; i++)
        smm_heap_stack_push(&stack, &heaps[i], &heaps[i]);
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = thread_start(pop_and_push, (void *)(i + 1));
    sleep_ms(2000);
    smm_store_relaxed(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        errors += (uintptr_t)thread_end(threads[i]);
    assert_int_equal(errors, 0);
    for (;;) {
        const struct smm_heap *const heap = smm_heap_stack_pop(&stack);
        if (heap == NULL)
            break;
        assert_false(seen[heap - heaps]);
        seen[heap - heaps] = true;
        count++;
    }
    assert_int_equal(count, HEAPS);
    assert_true(smm_pair_load(&stack.top).second > 1000);
}

#define stack_test(name) cmocka_unit_test_setup(name, empty_stack)

int main(void)
{
    const struct CMUnitTest tests[] = {
        stack_test(the_last_one_in_is_the_first_one_out),
        stack_test(a_chain_is_pushed_at_once),
        stack_test(all_are_taken_at_once),
        stack_test(every_change_counts),
        stack_test(four_threads_lose_and_double_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
