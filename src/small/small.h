/* SPDX-License-Identifier: MIT */
/* small.h - the small blocks of one heap: 16 bytes to 16 KiB.
 *
 *     direct[(n + 15) / 16]  for n up to 2 KiB -+
 *                                               +--> first page of a class --> next --> ...
 *     classes[class].first   above -------------+
 *
 * A class without pages has the shared empty page there, which has no items: neither malloc's fast path nor
 * the slow one tests for a missing page.
 *
 * The owner does everything, without atomics; other threads
 *   - push items onto the foreign lists of its pages and queue the pages in `notified`,
 *   - borrow from those lists,
 *   - return memory: of free pages through the pool, of pages that are wholly in their foreign list.
 *
 * Borrowing: when a thread frees into a page whose owner lets items lie, and needs items of that class
 * itself, it takes the page's foreign list and hangs it into its own class list under a stand-in descriptor.
 * The items still count as used in their real page, and each goes the foreign way there when it is freed.
 */
#ifndef SMM_SMALL_SMALL_H
#define SMM_SMALL_SMALL_H

#include "platform/report.h"
#include "small/page.h"
#include "small/page_pool.h"

/* Set at any time by options; read relaxed, since any value works. */
struct smm_small_settings {
    _Atomic(enum smm_huge_policy) huge_pages;
    _Atomic(bool) prefault;
    uint32_t huge_after; /* segments that a heap fills before it asks for huge pages */
};
extern struct smm_small_settings smm_small_settings;

struct smm_class_list {
    struct smm_page *first; /* the empty page when there is none */
    struct smm_page *last;
};

enum { SMM_LENDERS = 2, SMM_OWN_COUNT = 256, SMM_KEPT_MAX = 24 };

struct smm_small {
    struct smm_page *direct[SMM_DIRECT_COUNT];
    struct smm_class_list classes[SMM_CLASS_COUNT];
    /* Slots of segments of this heap, each at its low 8 bits; of two with the same, the one used last. A segment
     * never changes its owner, so an entry is never wrong. An entry without one holds what is no slot there. */
    size_t own[SMM_OWN_COUNT];
    /* Pages of other heaps where items lie that this heap's thread freed last, by class: where it may borrow. And those
     * that were among them before, linked by next_lender, the last one first. */
    struct smm_page *lenders[SMM_CLASS_COUNT][SMM_LENDERS];
    struct smm_page *more_lenders[SMM_CLASS_COUNT];
    /* Classes whose page became kept (P5), the last ones, each plus 1; in a ring. */
    uint8_t kept[SMM_KEPT_MAX];
    uint8_t kept_next;
    struct smm_page *unused_stand_ins;      /* linked by `next` */
    _Atomic(struct smm_page *) stand_ins;   /* all of this heap, linked by notified_next, which they do not need */
    _Atomic(uint64_t) foreign_frees;        /* by this heap's thread into other heaps */

    /* Pages with foreign frees, linked by notified_next. Any thread pushes; the owner takes all at once. */
    SMM_ALIGNED(SMM_CACHE_LINE) _Atomic(struct smm_page *) notified;

    struct smm_page_pool pool;
};

/* In place of a slot, in the one entry where 0 would be one: that of address 0. */
#define SMM_OWN_NONE SIZE_MAX

/* Whether the segment that an address lies in is known to be this heap's. False is no proof of the contrary. The
 * address may be any: nothing is read there. */
SMM_INLINE bool smm_small_knows(const struct smm_small *small, const void *address)
{
    const size_t slot = smm_slot_of(address);
    return small->own[slot % SMM_OWN_COUNT] == slot;
}

SMM_INLINE void smm_small_learn(struct smm_small *small, const void *address)
{
    const size_t slot = smm_slot_of(address);
    small->own[slot % SMM_OWN_COUNT] = slot;
}

/* Foreign frees by threads that have no heap. */
extern _Atomic(uint64_t) smm_small_homeless_frees;

/* Never written. */
extern const struct smm_page smm_empty_page;
#define SMM_EMPTY_PAGE ((struct smm_page *)(uintptr_t)&smm_empty_page)

void smm_small_init(struct smm_small *small);

/* ---- The owner ---- */

/* A page of the class that has an item in `free`, or NULL when there is no memory. */
struct smm_page *smm_small_find_page(struct smm_small *small, unsigned size_class);

/* What smm_page_push() left to do: `used` of the page is 0, or the page was marked full. A page that had no
 * used item is a fault: a block of it was freed twice. */
enum smm_fault smm_small_free_rare(struct smm_small *small, struct smm_page *page);

/* Takes back what other threads freed. Returns whether a page got items or became free. */
bool smm_small_drain(struct smm_small *small);

/* Drains, gives borrowed items back to their pages, and moves every page without blocks to the pool. */
void smm_small_collect(struct smm_small *small);

/* ---- Any thread ---- */

/* Frees an item of another heap. `self` is the calling thread's, or NULL when it has none. More items than
 * the page has are a fault. */
enum smm_fault smm_small_free_foreign(struct smm_small *self, struct smm_page *page, void *block);

/* Returns the memory of pages whose items are all in their foreign lists: at once, or (`force` false) of
 * those that were so at the call before as well. The caller holds the collect lock. Returns the bytes. */
size_t smm_small_purge_dead(struct smm_small *small, bool force);

/* Blocks in the hands of the program, and their bytes; of about now. A heap that has borrowed may have fewer than
 * none: the sum over all heaps is right. */
void smm_small_usage(const struct smm_small *small, int64_t *blocks, int64_t *bytes);

#endif
