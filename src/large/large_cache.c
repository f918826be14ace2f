/* SPDX-License-Identifier: MIT */
#include "large/large_cache.h"

#include "platform/lock.h"
#include "platform/platform.h"

struct smm_large_cache_settings smm_large_cache_settings = {.blocks = 32, .bytes = 128 * SMM_MIB};

static struct smm_lock cache_lock;
/* Under the lock: the blocks in the order in which they were freed, the oldest first. */
static struct smm_large *cached[SMM_LARGE_CACHE_SLOTS];
static unsigned cached_count;
static uint64_t cached_bytes; /* by `dirty`: what may be resident */

static struct smm_large *remove_at(unsigned index)
{
    struct smm_large *const large = cached[index];

    cached_count--;
    for (unsigned i = index; i < cached_count; i++)
        cached[i] = cached[i + 1];
    cached_bytes -= large->dirty;
    return large;
}

static void append(struct smm_large *large)
{
    cached[cached_count++] = large;
    cached_bytes += large->dirty;
}

struct smm_large *smm_large_cache_take(size_t need)
{
    unsigned best = SMM_LARGE_CACHE_SLOTS;
    struct smm_large *result = NULL;

    smm_lock_acquire(&cache_lock);
    for (unsigned i = 0; i < cached_count; i++) {
        if (cached[i]->reserved < need)
            continue;
        if (best == SMM_LARGE_CACHE_SLOTS) {
            best = i;
            continue;
        }
        const size_t dirty = cached[i]->dirty;
        const size_t best_dirty = cached[best]->dirty;
        if (best_dirty >= need ? dirty >= need && dirty < best_dirty : dirty > best_dirty)
            best = i;
    }
    if (best != SMM_LARGE_CACHE_SLOTS)
        result = remove_at(best);
    smm_lock_release(&cache_lock);
    return result;
}

/* As the newest, so that it waits longest for its next try. */
static void keep_unreleased(struct smm_large *large)
{
    large->free_since = smm_os_now();
    smm_lock_acquire(&cache_lock);
    if (cached_count < SMM_LARGE_CACHE_SLOTS)
        append(large);
    smm_lock_release(&cache_lock);
}

/* What the system does not take back is kept, without memory if that could go: its addresses are not lost
 * while the cache has a slot. */
static bool release(struct smm_large *large)
{
    SMM_TEST_POINT(CACHE_EVICTED);
    if (smm_large_release(large))
        return true;
    keep_unreleased(large);
    return false;
}

/* Takes out the oldest block if there is one too many. */
static struct smm_large *evict_surplus(void)
{
    struct smm_large *old = NULL;

    smm_lock_acquire(&cache_lock);
    if (cached_count > smm_load_relaxed(&smm_large_cache_settings.blocks) ||
        cached_bytes > smm_load_relaxed(&smm_large_cache_settings.bytes))
        old = remove_at(0);
    smm_lock_release(&cache_lock);
    return old;
}

void smm_large_cache_put(struct smm_large *large)
{
    bool kept = false;

    if (large->dirty <= smm_load_relaxed(&smm_large_cache_settings.bytes) &&
        smm_load_relaxed(&smm_large_cache_settings.blocks) != 0) {
        large->free_since = smm_os_now();
        smm_lock_acquire(&cache_lock);
        if (cached_count < SMM_LARGE_CACHE_SLOTS) {
            append(large);
            kept = true;
        }
        smm_lock_release(&cache_lock);
    }
    if (!kept)
        (void)release(large);
    SMM_TEST_POINT(CACHE_KEPT);
    /* A block that the system refuses comes back as the newest: each is tried once at the most. */
    for (unsigned tries = SMM_LARGE_CACHE_SLOTS; tries != 0; tries--) {
        struct smm_large *const old = evict_surplus();
        if (old == NULL || !release(old))
            break;
    }
}

/* Gives back the oldest block if it is as old as that. False when there is none, or the system refused it. */
static bool release_oldest(uint64_t now, uint64_t age, size_t *returned)
{
    struct smm_large *old = NULL;

    smm_lock_acquire(&cache_lock);
    if (cached_count != 0 && (age == 0 || (int64_t)(now - cached[0]->free_since) >= (int64_t)age))
        old = remove_at(0);
    smm_lock_release(&cache_lock);
    if (old == NULL)
        return false;
    const size_t dirty = old->dirty;
    if (!release(old))
        return false;
    *returned += dirty;
    return true;
}

void smm_large_cache_make_room(size_t need)
{
    size_t returned = 0;

    while (returned < need && release_oldest(0, 0, &returned))
        ;
}

size_t smm_large_cache_trim(uint64_t now, uint64_t age)
{
    size_t returned = 0;

    while (release_oldest(now, age, &returned))
        ;
    return returned;
}

void smm_large_cache_usage(uint64_t *blocks, uint64_t *bytes)
{
    smm_lock_acquire(&cache_lock);
    *blocks = cached_count;
    *bytes = cached_bytes;
    smm_lock_release(&cache_lock);
}

void smm_large_cache_lock(void)
{
    smm_lock_acquire(&cache_lock);
}

void smm_large_cache_unlock(void)
{
    smm_lock_release(&cache_lock);
}

void smm_large_cache_reset_lock(void)
{
    smm_lock_reset(&cache_lock);
}
