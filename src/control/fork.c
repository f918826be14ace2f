/* SPDX-License-Identifier: MIT */
/* fork.c - the thread that forks takes all locks before and gives them back after; those of heaps it only sees free,
 * behind a gate (lock.h), and it writes nothing else to them, so that a fork copies no memory for each heap. In between
 * it passes through all of them, because handlers of other libraries allocate.
 *
 * The order, here and wherever two are held at once:
 *   fork > collect > shared heap > gate > one of a heap (pool, medium) > large cache > segment > segment map > metadata
 * (A tick may find the collect lock free while it holds the shared heap's; it never waits for it there.)
 *
 * Lock-free words are whole at any time. What a thread that is not in the child was about to do is not done
 * there: a page may stay queued in no queue, and an item between two lists is lost to the child. Heaps of such
 * threads are not taken by others, since their owner may have been anywhere in a fast path; blocks in them are
 * freed as foreign ones.
 */
#include "control/fork.h"

#include "heap/collect.h"
#include "large/large_cache.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/metadata.h"
#include "segment/segment.h"
#include "segment/segment_map.h"

/* Makes the handlers of two threads that fork at the same time one after the other. */
static struct smm_lock fork_lock;

static void fork_prepare(void)
{
    smm_lock_acquire(&fork_lock);
    smm_lock_acquire(&smm_collect_lock);
    smm_lock_acquire(&smm_shared_heap_lock);
    smm_gate_close();
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
        smm_gate_await(&heap->small.pool.lock);
        smm_gate_await(&heap->medium.lock);
    }
    smm_large_cache_lock();
    smm_segment_lock();
    smm_segment_map_lock();
    smm_metadata_lock();
    SMM_TEST_POINT(FORK_LOCKED);
    smm_store_relaxed(&smm_fork_holder, smm_os_thread_id());
}

static void fork_parent(void)
{
    smm_store_relaxed(&smm_fork_holder, 0);
    smm_metadata_unlock();
    smm_segment_map_unlock();
    smm_segment_unlock();
    smm_large_cache_unlock();
    smm_gate_open();
    smm_lock_release(&smm_shared_heap_lock);
    smm_lock_release(&smm_collect_lock);
    smm_lock_release(&fork_lock);
}

static void fork_child(void)
{
    /* Nobody can wait for a lock here, and a lock may say that somebody does. */
    smm_store_relaxed(&smm_fork_holder, 0);
    smm_metadata_reset_lock();
    smm_segment_map_reset_lock();
    smm_segment_reset_lock();
    smm_large_cache_reset_lock();
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
        smm_gated_reset(&heap->medium.lock);
        smm_gated_reset(&heap->small.pool.lock);
    }
    smm_gate_reset();
    smm_heap_orphan_others();
    smm_lock_reset(&smm_shared_heap_lock);
    smm_lock_reset(&smm_collect_lock);
    smm_lock_reset(&fork_lock);
}

void smm_fork_start(void)
{
    /* A refusal is one of memory so early that the process will not come far; fork then works as long as no
     * other thread is inside the allocator. */
    (void)smm_os_fork_register(fork_prepare, fork_parent, fork_child);
}
