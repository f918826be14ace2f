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

/* Takes out the oldest block if it has to go. Under the lock. */
static struct smm_large *evict(size_t room, unsigned slots)
{
    if (cached_count == 0)
        return NULL;
    if (cached_count + slots <= smm_load_relaxed(&smm_large_cache_settings.blocks) &&
        cached_bytes + room <= smm_load_relaxed(&smm_large_cache_settings.bytes))
        return NULL;
    return remove_at(0);
}

/* What could not be released is kept, without memory if that could go, for a later try: addresses are never
 * lost while the cache has a slot. */
static void keep_unreleased(struct smm_large *large)
{
    smm_lock_acquire(&cache_lock);
    if (cached_count < SMM_LARGE_CACHE_SLOTS)
        append(large);
    smm_lock_release(&cache_lock);
}

static void release(struct smm_large *large)
{
    if (!smm_large_release(large))
        keep_unreleased(large);
}

void smm_large_cache_put(struct smm_large *large)
{
    const size_t dirty = large->dirty;
    bool kept = false;

    if (dirty > smm_load_relaxed(&smm_large_cache_settings.bytes) || smm_load_relaxed(&smm_large_cache_settings.blocks) == 0) {
        release(large);
        return;
    }
    large->free_since = smm_os_now();
    while (!kept) {
        smm_lock_acquire(&cache_lock);
        struct smm_large *const old = evict(dirty, 1);
        if (old == NULL) {
            append(large);
            kept = true;
        }
        smm_lock_release(&cache_lock);
        if (old != NULL)
            release(old);
    }
}

size_t smm_large_cache_trim(uint64_t now, uint64_t age)
{
    size_t returned = 0;

    /* Each block once, also when the system refuses it and it comes back. */
    for (unsigned tries = SMM_LARGE_CACHE_SLOTS; tries != 0; tries--) {
        struct smm_large *old = NULL;

        smm_lock_acquire(&cache_lock);
        if (cached_count != 0 && now - cached[0]->free_since >= age && now >= cached[0]->free_since)
            old = remove_at(0);
        smm_lock_release(&cache_lock);
        if (old == NULL)
            break;
        returned += old->dirty;
        release(old);
    }
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
