/* SPDX-License-Identifier: MIT */
#include "heap/heap.h"

#include "heap/collect.h"
#include "heap/heap_stack.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/metadata.h"

/* Ranges in designators are an extension that gcc and clang share. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#define NO_PAGES                                                                                          \
    {                                                                                                     \
        .small = {.direct = {[0 ... SMM_DIRECT_COUNT - 1] = SMM_EMPTY_PAGE},                              \
                  .classes = {[0 ... SMM_CLASS_COUNT - 1] = {SMM_EMPTY_PAGE, SMM_EMPTY_PAGE}},            \
                  .own = {SMM_OWN_NONE}}                                                                  \
    }
struct smm_heap smm_empty_heap = NO_PAGES;
struct smm_heap smm_ended_heap = NO_PAGES;
#pragma GCC diagnostic pop

#if !SMM_ASM /* else it is in fast.asm */
_Thread_local struct smm_heap *smm_heap_self = &smm_empty_heap;
#endif

struct smm_lock smm_collect_lock;
struct smm_lock smm_shared_heap_lock;

static struct smm_heap_stack waiting;
/* All heaps, newest first. Written under the collect lock. */
static _Atomic(struct smm_heap *) heaps;
static _Atomic(struct smm_heap *) shared_heap;
static bool exits_seen; /* the system calls us at the end of threads; constant after start */

_Atomic(uint32_t) smm_heap_generation;

static struct smm_heap *heap_make(enum smm_heap_state state)
{
    struct smm_heap *const heap = smm_metadata_alloc(sizeof(struct smm_heap), SMM_CACHE_LINE);

    if (heap == NULL)
        return NULL;
    smm_small_init(&heap->small);
    smm_store_relaxed(&heap->life, (uint32_t)state);
    heap->next = smm_load_relaxed(&heaps);
    SMM_TEST_POINT(HEAP_MADE);
    /* release: pairs with the acquire of smm_heap_first() */
    smm_store_release(&heaps, heap);
    return heap;
}

struct smm_heap *smm_heap_first(void)
{
    return smm_load_acquire(&heaps);
}

/* ---- The stack of waiting heaps ---- */

struct smm_heap *smm_heap_take_waiting(void)
{
    return smm_heap_stack_take_all(&waiting);
}

void smm_heap_put_waiting(struct smm_heap *first)
{
    struct smm_heap *last = first, *next;

    if (first == NULL)
        return;
    while ((next = smm_load_relaxed(&last->next_waiting)) != NULL)
        last = next;
    smm_heap_stack_push(&waiting, first, last);
}

/* A waiting heap or a new one. A collector may have taken all waiting ones for a moment: rather than make a
 * heap that stays for ever, wait for it. */
static struct smm_heap *heap_take(void)
{
    struct smm_heap *heap = smm_heap_stack_pop(&waiting);

    if (heap != NULL)
        return heap;
    SMM_TEST_POINT(HEAP_NONE);
    smm_lock_acquire(&smm_collect_lock);
    heap = smm_heap_stack_pop(&waiting);
    if (heap == NULL)
        heap = heap_make(SMM_HEAP_WAITING);
    smm_lock_release(&smm_collect_lock);
    return heap;
}

/* ---- Birth and death ---- */

static void heap_end(void *value)
{
    struct smm_heap *const heap = value;

    smm_heap_self = &smm_ended_heap;
    SMM_TEST_POINT(HEAP_ENDED);
    smm_heap_settle(heap);
    SMM_TEST_POINT(HEAP_SETTLED);
    smm_store_relaxed(&heap->life, (uint32_t)SMM_HEAP_WAITING);
    smm_heap_stack_push(&waiting, heap, heap);
    smm_tick();
}

void smm_heap_start(void)
{
    exits_seen = smm_os_thread_exit_register(heap_end);
}

static void live_here(struct smm_heap *heap)
{
    smm_store_relaxed(&heap->life, SMM_HEAP_LIVE + smm_load_relaxed(&smm_heap_generation));
}

void smm_heap_orphan_others(void)
{
    struct smm_heap *const mine = smm_heap_mine();

    smm_store_relaxed(&smm_heap_generation, smm_load_relaxed(&smm_heap_generation) + 1);
    if (mine != NULL)
        live_here(mine);
}

static struct smm_heap *heap_birth(void)
{
    struct smm_heap *heap;

    if (!exits_seen || smm_heap_self == &smm_ended_heap)
        return NULL;
    /* The first thread's, when the dynamic linker has set all thread-local variables back (early_start.c). */
    heap = smm_os_thread_exit_armed();
    if (heap != NULL) {
        smm_heap_self = heap;
        return heap;
    }
    heap = heap_take();
    if (heap == NULL)
        return NULL;
    SMM_TEST_POINT(HEAP_POPPED);
    live_here(heap);
    /* Before arming, which may call malloc(). */
    smm_heap_self = heap;
    SMM_TEST_POINT(HEAP_BORN);
    if (smm_os_thread_exit_arm(heap))
        return heap;
    smm_heap_self = &smm_empty_heap;
    smm_store_relaxed(&heap->life, (uint32_t)SMM_HEAP_WAITING);
    smm_heap_stack_push(&waiting, heap, heap);
    return NULL;
}

struct smm_heap *smm_heap_own(void)
{
    struct smm_heap *const heap = smm_heap_mine();

    return heap != NULL ? heap : heap_birth();
}

static struct smm_heap *shared_heap_get(void)
{
    /* acquire: pairs with the release below */
    struct smm_heap *heap = smm_load_acquire(&shared_heap);

    if (heap != NULL)
        return heap;
    smm_lock_acquire(&smm_collect_lock);
    heap = smm_load_relaxed(&shared_heap);
    if (heap == NULL) {
        heap = heap_make(SMM_HEAP_SHARED);
        if (heap != NULL)
            smm_store_release(&shared_heap, heap);
    }
    smm_lock_release(&smm_collect_lock);
    SMM_TEST_POINT(SHARED_SHOWN);
    return heap;
}

struct smm_heap *smm_heap_enter(void)
{
    struct smm_heap *heap = smm_heap_self;

    if (SMM_LIKELY(smm_heap_is_real(heap)))
        return heap;
    heap = heap_birth();
    if (heap != NULL)
        return heap;
    heap = shared_heap_get();
    if (heap != NULL)
        smm_lock_acquire(&smm_shared_heap_lock);
    return heap;
}

void smm_heap_leave(struct smm_heap *heap)
{
    if (SMM_UNLIKELY(smm_heap_state(heap) == SMM_HEAP_SHARED))
        smm_lock_release(&smm_shared_heap_lock);
}
