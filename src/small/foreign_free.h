/* SPDX-License-Identifier: MIT */
/* foreign_free.h - the one word through which threads that do not own a page give its items back.
 *
 *     63   53   52     51      50       49     48   47    32 31    16 15     0
 *     |  0  | seen | purged | busy | queued |  0  |  count  |  tail  |  head  |     page->foreign
 *
 * head and tail are offsets in the page in units of 16 bytes; links run through the items.
 *
 * F1  queued: the page is in its owner's queue, or the thread that set the bit is about to put it there.
 *     A word with count > 0 or any of the bits above is queued.
 * F2  From head, count - 1 links lead to tail; tail's own link is garbage until the list is taken.
 * F3  A listed item still counts in page->used (P2), and a page leaves its class only when `used` and the word
 *     are both 0: who has seen count > 0 and then changes the word by CAS knows the descriptor is of now, and
 *     nobody queues a page that went to another use.
 * F4  busy: one thread, which holds the collect lock, works on the page; the owner leaves the word alone.
 *     Pushes may still come unless all items are listed.
 * F5  purged: all items of a fully carved page are listed and its memory has gone back: no link is left.
 * F6  seen: a collector found all items listed; if they still are at its next visit, it purges.
 *
 *     any thread pushes     foreign_push        (0 -> queued, and then into the queue)
 *     any thread borrows    foreign_borrow      takes the list, stays queued
 *     a collector           foreign_busy        -> purged or back
 *     the owner drains      foreign_take        a page from its queue -> 0
 */
#ifndef SMM_SMALL_FOREIGN_FREE_H
#define SMM_SMALL_FOREIGN_FREE_H

#include "small/page.h"

#define SMM_FOREIGN_QUEUED ((uint64_t)1 << 49)
#define SMM_FOREIGN_BUSY ((uint64_t)1 << 50)
#define SMM_FOREIGN_PURGED ((uint64_t)1 << 51)
#define SMM_FOREIGN_SEEN ((uint64_t)1 << 52)

_Static_assert(SMM_PAGE_SIZE / SMM_BLOCK_ALIGN <= UINT16_MAX, "an offset and a count fit in 16 bits");

SMM_INLINE unsigned smm_foreign_head(uint64_t word)
{
    return (unsigned)word & 0xffff;
}

SMM_INLINE unsigned smm_foreign_tail(uint64_t word)
{
    return (unsigned)(word >> 16) & 0xffff;
}

SMM_INLINE unsigned smm_foreign_count(uint64_t word)
{
    return (unsigned)(word >> 32) & 0xffff;
}

SMM_INLINE uint64_t smm_foreign_word(unsigned head, unsigned tail, unsigned count)
{
    return (uint64_t)count << 32 | (uint64_t)tail << 16 | head;
}

SMM_INLINE unsigned smm_foreign_offset(const void *item)
{
    return (unsigned)(((uintptr_t)item & (SMM_PAGE_SIZE - 1)) >> SMM_BLOCK_SHIFT);
}

/* The item of `page` at an offset. */
SMM_INLINE struct smm_item *smm_foreign_item(const struct smm_page *page, unsigned offset)
{
    return (struct smm_item *)(void *)(smm_page_memory(page) + ((size_t)offset << SMM_BLOCK_SHIFT));
}

/* Gives back the `count` items from `head` to `tail`, linked. Returns the word as it was: the caller must
 * queue the page when that was not queued, and exactly one caller between two takes is told so (F1).
 *
 * load  relaxed   a guess, which the CAS checks
 * CAS   acq_rel   release: publishes the items' links to the acquire in take, borrow and busy; later pushes are
 *                 read-modify-writes and extend this release sequence. acquire: pairs with the release of the
 *                 take that left 0, after which notified_next is the pusher's
 * ABA   harmless  the new word depends on the old word alone, and single items are never popped
 */
SMM_INLINE uint64_t smm_foreign_push(struct smm_page *page, struct smm_item *head, struct smm_item *tail,
                                     unsigned count)
{
    const uint64_t bits = SMM_FOREIGN_BUSY | SMM_FOREIGN_SEEN; /* what a push leaves as it is */
    uint64_t seen = smm_load_relaxed(&page->foreign);
    uint64_t want;

    do {
        const unsigned listed = smm_foreign_count(seen);
        if (listed != 0)
            tail->link = smm_foreign_item(page, smm_foreign_head(seen));
        want = smm_foreign_word(smm_foreign_offset(head),
                                listed != 0 ? smm_foreign_tail(seen) : smm_foreign_offset(tail),
                                listed + count) |
               SMM_FOREIGN_QUEUED | (seen & bits);
        SMM_TEST_POINT(FOREIGN_PUSH);
    } while (!smm_cas_weak_acq_rel(&page->foreign, &seen, want));
    return seen;
}

/* The owner takes what is listed of a page that it has taken from its queue. Returns the word, or BUSY
 * alone when a collector works on the page: then it stays queued and must go back to the queue.
 *
 * CAS  acq_rel   acquire: pairs with the release of every push in the list, and of the collector that purged.
 *                release: the owner has read notified_next before the next push may lead to a write of it
 */
SMM_INLINE uint64_t smm_foreign_take(struct smm_page *page)
{
    uint64_t seen = smm_load_relaxed(&page->foreign);

    do {
        if (seen & SMM_FOREIGN_BUSY)
            return SMM_FOREIGN_BUSY;
        SMM_TEST_POINT(FOREIGN_TAKE);
    } while (!smm_cas_weak_acq_rel(&page->foreign, &seen, 0));
    return seen;
}

/* Whether the owner of a page lets so many items lie that others may take them: half of those that the page has cut so
 * far, and at least four or half of those that fit. Owners that are at work drain their lists before that; to share
 * cache lines with them costs more than a new page does. The page's figures may change meanwhile: it is a guess. */
SMM_INLINE bool smm_foreign_lies(const struct smm_page *page, unsigned count)
{
    return count * 2 >= smm_load_relaxed(&page->shared_carved) &&
           (count >= 4 || count * 2 >= smm_load_relaxed(&page->shared_capacity));
}

/* Takes the list of a page of another heap and leaves the page queued, when enough items of `size_class` lie there.
 * Returns the word, 0 when there is nothing to take. The class is looked at before
 * and by the caller after the CAS, which pins the page (F3): it may have changed its use in between.
 *
 * CAS  acquire   pairs with the release of every push in the list
 */
SMM_INLINE uint64_t smm_foreign_borrow(struct smm_page *page, unsigned size_class)
{
    uint64_t seen = smm_load_relaxed(&page->foreign);

    if ((seen & (SMM_FOREIGN_BUSY | SMM_FOREIGN_PURGED)) != 0)
        return 0;
    if (smm_load_relaxed(&page->shared_class) != size_class ||
        !smm_foreign_lies(page, smm_foreign_count(seen)))
        return 0;
    SMM_TEST_POINT(FOREIGN_BORROW);
    if (!smm_cas_strong_acquire(&page->foreign, &seen, SMM_FOREIGN_QUEUED))
        return 0;
    return seen;
}

#endif
