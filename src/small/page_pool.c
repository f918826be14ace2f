/* SPDX-License-Identifier: MIT */
#include "small/page_pool.h"

#include "base/bits.h"
#include "base/check.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/huge.h"
#include "segment/segment.h"
#include "segment/segment_map.h"
#include "small/small.h"

static const uint64_t ALL_PAGES = ~(uint64_t)1; /* page 0 holds the descriptors */
enum { HALF_PAGES = SMM_PAGE_COUNT / 2 };       /* that one huge page backs */

/* ---- The two lists of segments: the same code for either pair of links ---- */

#define DEFINE_LIST(name)                                                                                 \
    static void name##_push(struct smm_page_pool *pool, struct smm_segment *segment)                      \
    {                                                                                                     \
        segment->name##_next = pool->name.first;                                                          \
        segment->name##_prev = NULL;                                                                      \
        if (pool->name.first != NULL)                                                                     \
            pool->name.first->name##_prev = segment;                                                      \
        else                                                                                              \
            pool->name.last = segment;                                                                    \
        pool->name.first = segment;                                                                       \
    }                                                                                                     \
                                                                                                          \
    static void name##_remove(struct smm_page_pool *pool, struct smm_segment *segment)                    \
    {                                                                                                     \
        if (segment->name##_prev != NULL)                                                                 \
            segment->name##_prev->name##_next = segment->name##_next;                                     \
        else                                                                                              \
            pool->name.first = segment->name##_next;                                                      \
        if (segment->name##_next != NULL)                                                                 \
            segment->name##_next->name##_prev = segment->name##_prev;                                     \
        else                                                                                              \
            pool->name.last = segment->name##_prev;                                                       \
    }                                                                                                     \
                                                                                                          \
    static void name##_add(struct smm_page_pool *pool, struct smm_segment *segment, uint64_t pages)       \
    {                                                                                                     \
        if (segment->name == 0)                                                                           \
            name##_push(pool, segment);                                                                   \
        segment->name |= pages;                                                                           \
    }                                                                                                     \
                                                                                                          \
    static void name##_take(struct smm_page_pool *pool, struct smm_segment *segment, uint64_t pages)      \
    {                                                                                                     \
        segment->name &= ~pages;                                                                          \
        if (segment->name == 0)                                                                           \
            name##_remove(pool, segment);                                                                 \
    }

DEFINE_LIST(dirty)
DEFINE_LIST(clean)

static void dirty_count_add(struct smm_page_pool *pool, int32_t pages)
{
    smm_own_add(&pool->dirty_count, (uint32_t)pages);
}

/* ---- The owner's side ---- */

/* A heap whose earlier segments are all in use is dense enough for its next one to be backed by huge pages:
 * the 2 MiB of overhang are then a small part of what it has. */
static bool next_segment_huge(const struct smm_page_pool *pool)
{
    switch (smm_load_relaxed(&smm_small_settings.huge_pages)) {
    case SMM_HUGE_NEVER:
        return false;
    case SMM_HUGE_AUTO:
        return pool->segment_count >= smm_small_settings.huge_after && smm_huge_worthwhile();
    case SMM_HUGE_ALWAYS:
        return true;
    }
    return false;
}

static bool segment_add(struct smm_page_pool *pool, struct smm_small *owner)
{
    const bool huge = next_segment_huge(pool);
    struct smm_segment *const segment = smm_segment_take(huge);

    if (segment == NULL)
        return false;
    if (huge && !smm_huge_first_touch(segment))
        smm_os_advise_huge((char *)segment + SMM_SLOT_SIZE / 2, SMM_SLOT_SIZE / 2, false);
    /* The rest of the header and the descriptors are zero, as new memory is. */
    segment->owner = owner;
    segment->older = smm_load_relaxed(&pool->segments);
    segment->huge = huge;
    smm_account_commit(smm_align_up(sizeof *segment, SMM_OS_PAGE_MIN));
    smm_segment_map_set(segment, SMM_KIND_SMALL);
    smm_small_learn(owner, segment);
    /* release: pairs with the acquire of walkers, which read the header */
    smm_store_release(&pool->segments, segment);
    SMM_TEST_POINT(SEGMENT_SHOWN);
    pool->segment_count++;
    smm_gated_acquire(&pool->lock);
    clean_add(pool, segment, ALL_PAGES);
    smm_gated_release(&pool->lock);
    return true;
}

static struct smm_page *take_page(struct smm_page_pool *pool, bool *clean)
{
    struct smm_segment *segment;
    unsigned index;

    smm_gated_acquire(&pool->lock);
    segment = pool->dirty.first;
    *clean = segment == NULL;
    if (segment != NULL) {
        index = smm_bit_low(segment->dirty);
        dirty_take(pool, segment, (uint64_t)1 << index);
        dirty_count_add(pool, -1);
    } else {
        segment = pool->clean.first;
        if (segment == NULL) {
            smm_gated_release(&pool->lock);
            return NULL;
        }
        index = smm_bit_low(segment->clean);
        clean_take(pool, segment, (uint64_t)1 << index);
    }
    smm_gated_release(&pool->lock);
    return &segment->pages[index];
}

struct smm_page *smm_pool_take(struct smm_page_pool *pool, struct smm_small *owner, bool *clean)
{
    struct smm_page *page = take_page(pool, clean);

    if (page == NULL && segment_add(pool, owner))
        page = take_page(pool, clean);
    if (page != NULL && *clean) {
        smm_account_commit(SMM_PAGE_SIZE);
        if (smm_segment_of(page)->huge && smm_page_index(page) == HALF_PAGES)
            (void)smm_huge_first_touch(smm_page_memory(page));
    }
    return page;
}

void smm_pool_put(struct smm_page_pool *pool, struct smm_page *page, bool clean)
{
    struct smm_segment *const segment = smm_segment_of(page);
    const uint64_t bit = (uint64_t)1 << smm_page_index(page);
    const uint32_t now = (uint32_t)smm_os_now();

    smm_gated_acquire(&pool->lock);
    SMM_DEBUG(((segment->dirty | segment->clean) & bit) == 0);
    if (clean) {
        clean_add(pool, segment, bit);
    } else {
        page->free_since = now;
        dirty_add(pool, segment, bit);
        dirty_count_add(pool, 1);
    }
    smm_gated_release(&pool->lock);
}

/* ---- Giving memory back ---- */

/* The dirty pages of a segment that have been free long enough. */
static uint64_t aged_pages(const struct smm_segment *segment, uint32_t now, uint32_t age)
{
    uint64_t aged = 0;

    if (age == 0)
        return segment->dirty;
    for (uint64_t left = segment->dirty; left != 0; left &= left - 1) {
        const unsigned index = smm_bit_low(left);
        /* A page that was put after `now` was read counts as old, which does no harm. */
        if (now - segment->pages[index].free_since >= age)
            aged |= (uint64_t)1 << index;
    }
    return aged;
}

/* The part of a half that may stay in use when the half is split to return the rest. */
static bool mostly(uint64_t pages)
{
    return smm_bit_count(pages) >= HALF_PAGES * 3 / 4;
}

uint64_t smm_pool_splittable(struct smm_page_pool *pool, const struct smm_segment *segment, uint64_t dead)
{
    uint64_t result = 0;

    smm_gated_acquire(&pool->lock);
    const uint64_t idle = segment->dirty | segment->clean | dead;
    smm_gated_release(&pool->lock);
    for (unsigned first = 0; first < SMM_PAGE_COUNT; first += HALF_PAGES) {
        const uint64_t half = smm_bit_run(first, HALF_PAGES);
        if (mostly(idle & half))
            result |= half;
    }
    return result;
}

/* Of pages backed by huge pages only those whose whole half is free (but for the descriptors in the first one):
 * giving less back splits it. When most of the half is free and stays so, it is split after all. */
static uint64_t huge_pages_whole(const struct smm_segment *segment, uint32_t now, uint32_t age)
{
    const uint64_t free_pages = segment->dirty | segment->clean;
    uint64_t result = 0;

    for (unsigned first = 0; first < SMM_PAGE_COUNT; first += HALF_PAGES) {
        const uint64_t half = smm_bit_run(first, HALF_PAGES);
        const uint64_t all = half & ALL_PAGES;
        if ((free_pages & all) == all)
            result |= aged_pages(segment, now, age) & half;
        else if (mostly(free_pages & all))
            result |= aged_pages(segment, now, 4 * age) & half;
    }
    return result;
}

/* The highest run of set bits, at most `most` of them. */
static uint64_t highest_run(uint64_t pages, unsigned most)
{
    const unsigned top = smm_bit_high(pages);
    unsigned count = 1;

    while (count < most && count <= top && (pages >> (top - count) & 1) != 0)
        count++;
    return smm_bit_run(top + 1 - count, count);
}

/* Finds pages to return, from the end that is used last, and takes them out. Under the lock. */
static uint64_t claim(struct smm_page_pool *pool, struct smm_segment **from, unsigned most, uint32_t now, uint32_t age)
{
    for (struct smm_segment *segment = pool->dirty.last; segment != NULL; segment = segment->dirty_prev) {
        const uint64_t aged =
            segment->huge && age != 0 ? huge_pages_whole(segment, now, age) : aged_pages(segment, now, age);
        if (aged == 0)
            continue;
        const uint64_t run = highest_run(aged, most);
        dirty_take(pool, segment, run);
        dirty_count_add(pool, -(int32_t)smm_bit_count(run));
        *from = segment;
        return run;
    }
    return 0;
}

size_t smm_pool_trim(struct smm_page_pool *pool, unsigned keep, uint64_t now, uint32_t age)
{
    size_t returned = 0;

    /* A hint: a page that is put meanwhile is left to the next time. */
    while (smm_load_relaxed(&pool->dirty_count) > keep) {
        struct smm_segment *segment = NULL;
        uint64_t run = 0;

        smm_gated_acquire(&pool->lock);
        const uint32_t dirty = smm_load_relaxed(&pool->dirty_count);
        if (dirty > keep)
            run = claim(pool, &segment, dirty - keep, (uint32_t)now, age);
        smm_gated_release(&pool->lock);
        if (run == 0)
            break;

        SMM_TEST_POINT(POOL_CLAIMED);
        const size_t size = (size_t)smm_bit_count(run) << SMM_PAGE_SHIFT;
        const bool done = smm_os_decommit(smm_page_memory(&segment->pages[smm_bit_low(run)]), size);
        SMM_TEST_POINT(POOL_DECOMMITTED);

        smm_gated_acquire(&pool->lock);
        if (done) {
            clean_add(pool, segment, run);
        } else {
            dirty_add(pool, segment, run);
            dirty_count_add(pool, (int32_t)smm_bit_count(run));
        }
        smm_gated_release(&pool->lock);
        if (!done)
            break;
        smm_account_purge(size);
        returned += size;
    }
    return returned;
}
