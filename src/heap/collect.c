/* SPDX-License-Identifier: MIT */
#include "heap/collect.h"

#include "large/large_cache.h"
#include "platform/lock.h"
#include "platform/platform.h"

struct smm_collect_settings smm_collect_settings = {
    .delay = 1000, .keep_pages = 8, .keep_arenas = 1, .reserve_pages = 64, .reserve_arenas = 4};

enum {
    TICKS_PER_DELAY = 4,
    TICK_MIN = 10 /* milliseconds */
};

/* The time of the last look; relaxed: the CAS lets one thread through, which needs nothing of the others. */
static _Atomic(uint64_t) last_tick;

/* As the owner of the waiting heaps, takes back what other threads freed into them, so that whole pages and
 * arenas come free. The collect lock is held. */
static void collect_waiting(bool all)
{
    struct smm_heap *const first = smm_heap_take_waiting();

    for (struct smm_heap *heap = first; heap != NULL; heap = smm_load_relaxed(&heap->next_waiting))
        if (all || smm_load_relaxed(&heap->small.notified) != NULL)
            smm_small_collect(&heap->small);
    SMM_TEST_POINT(WAITING_TAKEN);
    smm_heap_put_waiting(first);
}

static void collect_aged(uint64_t now, uint32_t delay)
{
    collect_waiting(false);
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
        SMM_TEST_POINT(COLLECT_HEAP);
        /* Whoever has no thread keeps nothing for good: the next thread may never come. */
        const bool live = smm_heap_state(heap) == SMM_HEAP_LIVE;
        const uint32_t pages = live ? smm_load_relaxed(&smm_collect_settings.keep_pages) : 0;
        const uint32_t arenas = live ? smm_load_relaxed(&smm_collect_settings.keep_arenas) : 0;
        (void)smm_small_purge_dead(&heap->small, false);
        (void)smm_pool_trim(&heap->small.pool, pages, now, delay);
        (void)smm_medium_age(&heap->medium);
        (void)smm_medium_trim(&heap->medium, arenas, now, delay);
    }
    (void)smm_large_cache_trim(now, delay);
}

void smm_tick(void)
{
    const uint64_t now = smm_os_now();
    const uint64_t delay = smm_load_relaxed(&smm_collect_settings.delay);
    const uint64_t step = delay / TICKS_PER_DELAY;
    uint64_t last = smm_load_relaxed(&last_tick);

    SMM_TEST_POINT(TICK);
    /* Signed: another thread may have looked after `now` was read. */
    if ((int64_t)(now - last) < (int64_t)(step > TICK_MIN ? step : TICK_MIN) || !smm_cas_strong_relaxed(&last_tick, &last, now))
        return;
    if (!smm_lock_try(&smm_collect_lock))
        return;
    collect_aged(now, (uint32_t)delay);
    smm_lock_release(&smm_collect_lock);
}

void smm_heap_settle(struct smm_heap *heap)
{
    const uint64_t now = smm_os_now();

    smm_small_collect(&heap->small);
    heap->medium.lender = NULL;
    (void)smm_pool_trim(&heap->small.pool, smm_load_relaxed(&smm_collect_settings.reserve_pages), now, 0);
    smm_medium_drain(&heap->medium);
    (void)smm_medium_trim(&heap->medium, smm_load_relaxed(&smm_collect_settings.reserve_arenas), now, 0);
}

size_t smm_heap_flush(struct smm_heap *heap)
{
    const uint64_t now = smm_os_now();

    smm_small_collect(&heap->small);
    heap->medium.lender = NULL;
    return smm_pool_trim(&heap->small.pool, 0, now, 0) + smm_medium_purge(&heap->medium);
}

size_t smm_purge(void)
{
    struct smm_heap *const mine = smm_heap_mine();
    const uint64_t now = smm_os_now();
    size_t returned = 0;

    if (mine != NULL)
        smm_small_collect(&mine->small);
    smm_lock_acquire(&smm_collect_lock);
    collect_waiting(true);
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
        SMM_TEST_POINT(COLLECT_HEAP);
        if (smm_heap_state(heap) == SMM_HEAP_SHARED) {
            smm_lock_acquire(&smm_shared_heap_lock);
            smm_small_collect(&heap->small);
            smm_lock_release(&smm_shared_heap_lock);
        }
        returned += smm_small_purge_dead(&heap->small, true);
        returned += smm_pool_trim(&heap->small.pool, 0, now, 0);
        returned += smm_medium_purge(&heap->medium);
    }
    returned += smm_large_cache_trim(now, 0);
    smm_lock_release(&smm_collect_lock);
    return returned;
}
