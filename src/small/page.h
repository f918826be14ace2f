/* SPDX-License-Identifier: MIT */
/* page.h - a page of 64 KiB that serves items of one size, and the segment that holds 63 of them.
 *
 * A segment is a slot at a multiple of 4 MiB:
 *
 *     0          8 KiB      64 KiB       128 KiB                          4 MiB
 *     | descriptors  |  --  |   page 1   |   page 2   | ...  |  page 63   |
 *       ^ descriptor 0 is the segment's own header
 *
 * P1  A segment belongs to one heap for ever; a page serves one class until it is empty.
 * P2  `used` counts the items that are not in `free` or `local_free`: those in the hands of the program,
 *     those in the foreign list and those lent to another heap.
 * P3  An item is in one place: handed out, `free`, `local_free`, the foreign list, or beyond `carved`.
 * P4  A full page (nothing in `free` and `local_free`, all carved) that its owner has found full is in no
 *     list, and its `used` has FULL added, which makes it negative: a free then leaves the fast path by the
 *     same test that sees `used` reach 0.
 * P5  The only page of a class stays there when it is empty, and then is `kept`: its `used` is 1 too high, or it
 *     would leave the fast path at every free of a single block. So it still does at a free too many. The mark
 *     goes when the page gets company or leaves the list.
 * P6  free_is_zero: every item of `free` is zero but for its link.
 */
#ifndef SMM_SMALL_PAGE_H
#define SMM_SMALL_PAGE_H

#include "base/atomic.h"
#include "base/geometry.h"
#include "base/size_class.h"

struct smm_small;

struct smm_item {
    struct smm_item *link;
};

/* What `used` holds besides the count. */
#define SMM_PAGE_COUNT_MASK 0xffff
#define SMM_PAGE_FULL INT32_MIN

struct SMM_ALIGNED(SMM_CACHE_LINE) smm_page {
    /* Line 1: written by the owner alone. `used` is read by statistics, hence atomic. */
    struct smm_item *free;       /* the owner allocates from here */
    struct smm_item *local_free; /* the owner frees to here */
    _Atomic(int32_t) used;
    uint16_t item_size;
    uint8_t size_class;
    bool free_is_zero;
    struct smm_page *next; /* in the list of its class */
    struct smm_page *prev;
    uint16_t carved;   /* items cut from the page so far, from its start upwards */
    uint16_t capacity; /* items that fit */
    uint8_t touched;   /* first units of 4 KiB that may be resident */
    bool fresh;        /* all beyond `carved` is zero */
    bool listed;       /* in the list of its class */
    bool borrowed;     /* a stand-in for a page of another heap: see small.h */
    _Atomic(bool) kept; /* P5; read by statistics */

    /* Line 2: written by others. See foreign_free.h. */
    SMM_ALIGNED(SMM_CACHE_LINE) _Atomic(uint64_t) foreign;
    /* In the owner's queue of pages with foreign frees. No atomic: whoever sets `queued` in the word has it until
     * the queue is taken, the owner from then on until it takes the word, and those two steps order them. */
    struct smm_page *notified_next;
    /* Copies for other threads, which have no other way to know that they are of now; written by the owner
     * before the page hands out its first item. */
    _Atomic(uint16_t) shared_capacity;
    _Atomic(uint16_t) shared_carved;
    _Atomic(uint8_t) shared_class;
    /* In more_lenders of a heap, whose thread alone then uses the link. Taken by exchange, acquire; given up with
     * release: one heap's thread has read the link before another's writes it. */
    _Atomic(bool) lending;
    struct smm_page *next_lender;
    uint32_t free_since; /* while in the pool, under its lock: smm_os_now() cut to 32 bits */
};

_Static_assert(sizeof(struct smm_page) == 2 * SMM_CACHE_LINE, "two cache lines a descriptor");

struct smm_segment {
    union {
        struct {
            /* Line 1: constant once the segment is in the segment map. */
            struct smm_small *owner;
            struct smm_segment *older; /* the heap's segment before this one */
            uint32_t no_items;         /* 0, where a page counts its used items: a free of an address in
                                          page 0 is seen as one too many */
            uint16_t no_size;          /* 0, where a page has the size of its items */
            bool huge;                 /* advised for huge pages */
            /* Line 2: under the lock of the owner's pool; see page_pool.h. Bit i stands for page i. */
            SMM_ALIGNED(SMM_CACHE_LINE) uint64_t dirty; /* free, with memory */
            uint64_t clean;                             /* free, without memory: reads as zero */
            struct smm_segment *dirty_next, *dirty_prev;
            struct smm_segment *clean_next, *clean_prev;
        };
        struct smm_page pages[SMM_PAGE_COUNT];
    };
};

_Static_assert(sizeof(struct smm_segment) <= SMM_PAGE_SIZE, "descriptors fit into page 0");
_Static_assert(offsetof(struct smm_segment, no_items) == offsetof(struct smm_page, used), "see no_items");
_Static_assert(offsetof(struct smm_segment, no_size) == offsetof(struct smm_page, item_size), "see no_size");
_Static_assert(offsetof(struct smm_segment, clean_prev) < sizeof(struct smm_page), "the header is descriptor 0");

SMM_INLINE struct smm_segment *smm_segment_of(const void *address)
{
    return smm_slot_base(address);
}

SMM_INLINE struct smm_page *smm_page_of(const void *item)
{
    return &smm_segment_of(item)->pages[((uintptr_t)item >> SMM_PAGE_SHIFT) & (SMM_PAGE_COUNT - 1)];
}

SMM_INLINE unsigned smm_page_index(const struct smm_page *page)
{
    return (unsigned)(page - smm_segment_of(page)->pages);
}

/* Not of a stand-in, which has no memory of its own. */
SMM_INLINE char *smm_page_memory(const struct smm_page *page)
{
    return (char *)smm_segment_of(page) + ((size_t)smm_page_index(page) << SMM_PAGE_SHIFT);
}

/* P2, with the marks of P4 and P5 taken off. Another thread than the owner may read the two words from
 * different moments. */
SMM_INLINE uint32_t smm_page_used(const struct smm_page *page)
{
    const uint32_t used = (uint32_t)smm_load_relaxed(&page->used) & SMM_PAGE_COUNT_MASK;
    const uint32_t kept = smm_load_relaxed(&page->kept);

    return used > kept ? used - kept : 0;
}

/* Takes the first item of `free`, which is not empty. The owner alone. */
SMM_INLINE void *smm_page_pop(struct smm_page *page)
{
    struct smm_item *const item = page->free;

    page->free = item->link;
    smm_own_add(&page->used, 1);
    return item;
}

/* Puts an item onto `local_free`. Returns what `used` becomes: at 0 and below the page needs
 * smm_small_free_rare(). The owner alone. */
SMM_INLINE int32_t smm_page_push(struct smm_page *page, void *block)
{
    struct smm_item *const item = block;
    const int32_t used = smm_load_relaxed(&page->used) - 1;

    item->link = page->local_free;
    page->local_free = item;
    smm_store_relaxed(&page->used, used);
    return used;
}

/* Whether a block of the page that is resized to `size` stays: not when it would waste more than three quarters.
 * The lower bound is above 0, so a size of 0 never stays. Where the size of items is 0, so that nothing is a block,
 * it wraps, and no size does. */
SMM_INLINE bool smm_page_fits(const struct smm_page *page, size_t size)
{
    const size_t item_size = page->item_size;
    return size <= item_size && size > item_size / 4 - 1;
}

/* Makes a free page serve a class. `fresh`: its memory reads as zero. */
void smm_page_init(struct smm_page *page, unsigned size_class, bool fresh);

/* Makes `free`, which is empty, hold what was freed since. False when that is nothing. The owner alone. */
SMM_INLINE bool smm_page_refill(struct smm_page *page)
{
    if (page->local_free == NULL)
        return false;
    page->free = page->local_free;
    page->local_free = NULL;
    page->free_is_zero = false;
    return true;
}

/* Makes `free`, which is empty as `local_free` is, hold new items. False when all are cut. The owner alone. */
bool smm_page_carve(struct smm_page *page, bool prefault);

#endif
