/* SPDX-License-Identifier: MIT */
#include "small/small.h"

#include "base/bits.h"
#include "base/check.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/metadata.h"
#include "small/foreign_free.h"

struct smm_small_settings smm_small_settings = {.huge_pages = SMM_HUGE_AUTO, .huge_after = 4, .prefault = true};

const struct smm_page smm_empty_page = {.item_size = 0};
_Atomic(uint64_t) smm_small_homeless_frees;

void smm_small_init(struct smm_small *small)
{
    for (size_t i = 0; i < SMM_DIRECT_COUNT; i++)
        small->direct[i] = SMM_EMPTY_PAGE;
    for (unsigned i = 0; i < SMM_CLASS_COUNT; i++)
        small->classes[i].first = small->classes[i].last = SMM_EMPTY_PAGE;
    small->own[0] = SMM_OWN_NONE;
}

/* ---- The lists of classes ---- */

/* The one place where the first page of a class changes. */
static void class_set_first(struct smm_small *small, unsigned size_class, struct smm_page *page)
{
    const size_t size = smm_class_size(size_class);

    small->classes[size_class].first = page;
    if (size > SMM_DIRECT_MAX)
        return;
    const size_t before = size_class == 0 ? 0 : smm_class_size(size_class - 1) / SMM_BLOCK_ALIGN + 1;
    for (size_t i = before; i <= size / SMM_BLOCK_ALIGN; i++)
        small->direct[i] = page;
}

static void page_set_used(struct smm_page *page, int32_t used)
{
    smm_store_relaxed(&page->used, used);
}

/* P5 no longer holds for a page. */
static void page_unkeep(struct smm_page *page)
{
    if (smm_load_relaxed(&page->kept)) {
        smm_store_relaxed(&page->kept, false);
        page_set_used(page, smm_load_relaxed(&page->used) - 1);
    }
}

static void class_remove(struct smm_small *small, struct smm_page *page)
{
    struct smm_class_list *const list = &small->classes[page->size_class];

    if (page->next != NULL)
        page->next->prev = page->prev;
    else
        list->last = page->prev != NULL ? page->prev : SMM_EMPTY_PAGE;
    if (page->prev != NULL)
        page->prev->next = page->next;
    else
        class_set_first(small, page->size_class, page->next != NULL ? page->next : SMM_EMPTY_PAGE);
    page->listed = false;
    page_unkeep(page);
}

static void page_retire(struct smm_small *small, struct smm_page *page, bool clean);

/* No item is used, and no other thread has to do with the page: it may go to another use. A page whose foreign
 * list was borrowed, and whose items all came back to its owner, is still queued: the drain will see to it. */
static bool page_is_idle(const struct smm_page *page)
{
    return smm_page_used(page) == 0 && smm_load_relaxed(&page->foreign) == 0;
}

/* A page that was alone in its class got company: it stays as long as it has used items. */
static void class_release_kept(struct smm_small *small, struct smm_page *page)
{
    if (!smm_load_relaxed(&page->kept))
        return;
    page_unkeep(page);
    if (page_is_idle(page)) {
        class_remove(small, page);
        page_retire(small, page, false);
    }
}

/* At the end, so that more items gather before the page is allocated from again. */
static void class_append(struct smm_small *small, struct smm_page *page)
{
    struct smm_class_list *const list = &small->classes[page->size_class];
    struct smm_page *const last = list->last;

    page->next = NULL;
    page->listed = true;
    list->last = page;
    if (last == SMM_EMPTY_PAGE) {
        page->prev = NULL;
        class_set_first(small, page->size_class, page);
    } else {
        page->prev = last;
        last->next = page;
        class_release_kept(small, last);
    }
}

/* Into an empty list, or before pages that have nothing to give. */
static void class_prepend(struct smm_small *small, struct smm_page *page)
{
    struct smm_class_list *const list = &small->classes[page->size_class];
    struct smm_page *const first = list->first;

    if (first == SMM_EMPTY_PAGE) {
        class_append(small, page);
        return;
    }
    page->prev = NULL;
    page->next = first;
    page->listed = true;
    first->prev = page;
    class_set_first(small, page->size_class, page);
    class_release_kept(small, first);
}

/* ---- Pages that fill and empty ---- */

static void page_available_to_full(struct smm_small *small, struct smm_page *page)
{
    class_remove(small, page);
    page_set_used(page, smm_load_relaxed(&page->used) + SMM_PAGE_FULL);
}

static void page_full_to_available(struct smm_small *small, struct smm_page *page)
{
    page_set_used(page, smm_load_relaxed(&page->used) - SMM_PAGE_FULL);
    class_append(small, page);
}

static void page_retire(struct smm_small *small, struct smm_page *page, bool clean)
{
    SMM_ALWAYS(smm_load_relaxed(&page->used) == 0 && smm_load_relaxed(&page->foreign) == 0);
    SMM_DEBUG(!page->listed && !page->borrowed);
    SMM_TEST_POINT(RETIRE);
    smm_pool_put(&small->pool, page, clean);
}

/* The page of this class became kept. So that a thread that once used many classes and sleeps does not keep a page of
 * each, the one that was kept longest goes when there are too many. */
static void class_note_kept(struct smm_small *small, unsigned size_class)
{
    uint8_t *const entry = &small->kept[small->kept_next];
    const unsigned oldest = *entry;

    *entry = (uint8_t)(size_class + 1);
    small->kept_next = (uint8_t)((small->kept_next + 1) % SMM_KEPT_MAX);
    if (oldest == 0 || oldest == size_class + 1)
        return;
    struct smm_page *const page = small->classes[oldest - 1].first;
    if (page != SMM_EMPTY_PAGE)
        class_release_kept(small, page);
}

/* A page that has no used item leaves its class, unless the class would be left without a page (P5). */
static void page_emptied(struct smm_small *small, struct smm_page *page)
{
    const struct smm_class_list *const list = &small->classes[page->size_class];

    if (!page_is_idle(page))
        return;
    if (list->first == page && list->last == page) {
        page_set_used(page, 1);
        smm_store_relaxed(&page->kept, true);
        class_note_kept(small, page->size_class);
        return;
    }
    class_remove(small, page);
    page_retire(small, page, false);
}

enum smm_fault smm_small_free_rare(struct smm_small *small, struct smm_page *page)
{
    const int32_t used = smm_load_relaxed(&page->used);

    if (used == 0 && smm_load_relaxed(&page->kept))
        return SMM_FAULT_FREED;
    if (used < 0) {
        if (used - SMM_PAGE_FULL > (int32_t)page->capacity)
            return SMM_FAULT_FREED;
        page_full_to_available(small, page);
    }
    if (smm_page_used(page) == 0)
        page_emptied(small, page);
    return SMM_FAULT_NONE;
}

/* ---- Foreign frees ---- */

static void notify(struct smm_small *owner, struct smm_page *page)
{
    struct smm_page *first = smm_load_relaxed(&owner->notified);

    /* CAS release: publishes notified_next to the acquire of smm_small_drain(). ABA is harmless: pages are
     * never popped singly. */
    do {
        page->notified_next = first;
        SMM_TEST_POINT(NOTIFY);
    } while (!smm_cas_weak_release(&owner->notified, &first, page));
}

static uint64_t push_and_notify(struct smm_page *page, struct smm_item *head, struct smm_item *tail, unsigned count)
{
    const uint64_t seen = smm_foreign_push(page, head, tail, count);

    if ((seen & SMM_FOREIGN_QUEUED) == 0) {
        SMM_TEST_POINT(FOREIGN_PUSHED);
        notify(smm_segment_of(page)->owner, page);
    }
    return seen;
}

/* A page of another heap where items lie is freed into. */
static void lender_add(struct smm_small *small, struct smm_page *page, unsigned size_class)
{
    struct smm_page **const lenders = small->lenders[size_class];
    struct smm_page *const before = lenders[1];

    if (lenders[0] == page)
        return;
    lenders[1] = lenders[0];
    lenders[0] = page;
    if (before == NULL || before == page || smm_load_relaxed(&before->lending) || smm_exchange_acquire(&before->lending, true))
        return;
    before->next_lender = small->more_lenders[size_class];
    small->more_lenders[size_class] = before;
}

static struct smm_page *lender_take(struct smm_small *small, unsigned size_class)
{
    struct smm_page *page;

    for (unsigned i = 0; i < SMM_LENDERS; i++) {
        page = small->lenders[size_class][i];
        small->lenders[size_class][i] = NULL;
        if (page != NULL)
            return page;
    }
    page = small->more_lenders[size_class];
    if (page != NULL) {
        small->more_lenders[size_class] = page->next_lender;
        smm_store_release(&page->lending, false);
    }
    return page;
}

enum smm_fault smm_small_free_foreign(struct smm_small *self, struct smm_page *page, void *block)
{
    const unsigned size_class = smm_load_relaxed(&page->shared_class);
    const unsigned capacity = smm_load_relaxed(&page->shared_capacity);
    const uint64_t seen = push_and_notify(page, block, block, 1);

    if (smm_foreign_count(seen) >= capacity)
        return SMM_FAULT_FREED;
    if (self == NULL) {
        smm_add_relaxed(&smm_small_homeless_frees, 1);
        return SMM_FAULT_NONE;
    }
    smm_own_add(&self->foreign_frees, 1);
    if (smm_foreign_lies(page, smm_foreign_count(seen) + 1))
        lender_add(self, page, size_class);
    return SMM_FAULT_NONE;
}

/* Takes the foreign list of one page that was in the queue. Returns whether the page has more to give. */
static bool drain_page(struct smm_small *small, struct smm_page *page)
{
    const uint64_t word = smm_foreign_take(page);
    const unsigned count = smm_foreign_count(word);
    bool full;

    SMM_TEST_POINT(WORD_TAKEN);
    if (word & SMM_FOREIGN_BUSY) {
        notify(small, page);
        return false;
    }
    if (count == 0) {
        /* All was borrowed; and may have come back by another way. */
        if (smm_page_used(page) != 0)
            return false;
        page_emptied(small, page);
        return true;
    }

    SMM_ALWAYS(smm_page_used(page) >= count);
    page_set_used(page, smm_load_relaxed(&page->used) - (int32_t)count);
    full = smm_load_relaxed(&page->used) < 0;

    if (word & SMM_FOREIGN_PURGED) {
        /* F5: no item is used or anywhere else, and the memory is as new. */
        SMM_ALWAYS(smm_page_used(page) == 0 && page->free == NULL && page->local_free == NULL);
        if (full)
            page_set_used(page, 0);
        else
            class_remove(small, page);
        page_retire(small, page, true);
        return true;
    }

    smm_foreign_item(page, smm_foreign_tail(word))->link = page->local_free;
    page->local_free = smm_foreign_item(page, smm_foreign_head(word));
    if (full)
        page_full_to_available(small, page);
    if (smm_page_used(page) == 0)
        page_emptied(small, page);
    return true;
}

bool smm_small_drain(struct smm_small *small)
{
    bool gained = false;

    if (smm_load_relaxed(&small->notified) == NULL)
        return false;
    /* acquire: pairs with the release of notify(), for notified_next and all before it */
    struct smm_page *page = smm_exchange_acquire(&small->notified, NULL);
    SMM_TEST_POINT(QUEUE_TAKEN);
    while (page != NULL) {
        /* Before the word is taken: from then on another thread may queue the page again, and write it. */
        struct smm_page *const next = page->notified_next;
        SMM_TEST_POINT(LINK_READ);
        gained |= drain_page(small, page);
        page = next;
    }
    return gained;
}

/* ---- Borrowing ---- */

static struct smm_page *stand_in_take(struct smm_small *small)
{
    struct smm_page *page = small->unused_stand_ins;

    if (page != NULL) {
        small->unused_stand_ins = page->next;
        return page;
    }
    page = smm_metadata_alloc(sizeof(struct smm_page), SMM_CACHE_LINE);
    if (page == NULL)
        return NULL;
    page->notified_next = smm_load_relaxed(&small->stand_ins);
    SMM_TEST_POINT(STAND_IN);
    /* release: pairs with the acquire of smm_small_usage() */
    smm_store_release(&small->stand_ins, page);
    return page;
}

static void stand_in_put(struct smm_small *small, struct smm_page *page)
{
    page->next = small->unused_stand_ins;
    small->unused_stand_ins = page;
}

/* A stand-in that has given out all its items. */
static void stand_in_release(struct smm_small *small, struct smm_page *page)
{
    class_remove(small, page);
    stand_in_put(small, page);
}

/* Gives the items that are left in a stand-in back to their page. */
static void stand_in_return(struct smm_small *small, struct smm_page *page)
{
    struct smm_item *const head = page->free;

    if (head != NULL) {
        struct smm_item *tail = head;
        unsigned count = 1;
        for (; tail->link != NULL; tail = tail->link)
            count++;
        page->free = NULL;
        page_set_used(page, page->capacity);
        SMM_TEST_POINT(RETURN_BORROWED);
        (void)push_and_notify(smm_page_of(head), head, tail, count);
    }
    stand_in_release(small, page);
}

static bool borrow_from(struct smm_small *small, unsigned size_class, struct smm_page *lender)
{
    struct smm_page *const stand_in = stand_in_take(small);
    uint64_t word;

    if (stand_in == NULL)
        return false;
    word = smm_foreign_borrow(lender, size_class);
    if (smm_foreign_count(word) == 0) {
        stand_in_put(small, stand_in);
        return false;
    }
    struct smm_item *const head = smm_foreign_item(lender, smm_foreign_head(word));
    struct smm_item *const tail = smm_foreign_item(lender, smm_foreign_tail(word));
    const unsigned count = smm_foreign_count(word);
    SMM_TEST_POINT(BORROWED);
    if (smm_load_relaxed(&lender->shared_class) != size_class) {
        /* It was emptied and serves another class now. */
        (void)push_and_notify(lender, head, tail, count);
        stand_in_put(small, stand_in);
        return false;
    }
    tail->link = NULL;
    smm_page_init(stand_in, size_class, false);
    stand_in->free = head;
    stand_in->carved = stand_in->capacity = (uint16_t)count;
    stand_in->borrowed = true;
    smm_store_relaxed(&stand_in->shared_capacity, stand_in->capacity);
    class_prepend(small, stand_in);
    return true;
}

static bool borrow(struct smm_small *small, unsigned size_class)
{
    struct smm_page *lender;

    while ((lender = lender_take(small, size_class)) != NULL)
        if (borrow_from(small, size_class, lender))
            return true;
    return false;
}

/* ---- Finding a page ---- */

static bool page_carve(struct smm_page *page)
{
    return smm_page_carve(page, smm_load_relaxed(&smm_small_settings.prefault) && !smm_segment_of(page)->huge);
}

struct smm_page *smm_small_find_page(struct smm_small *small, unsigned size_class)
{
    for (;;) {
        struct smm_page *page = small->classes[size_class].first;

        if (page->free != NULL)
            return page;
        if (page == SMM_EMPTY_PAGE) {
            bool clean;
            if (smm_small_drain(small) || borrow(small, size_class))
                continue;
            page = smm_pool_take(&small->pool, small, &clean);
            if (page == NULL)
                return NULL;
            SMM_TEST_POINT(PAGE_TAKEN);
            smm_page_init(page, size_class, clean);
            class_append(small, page);
            (void)page_carve(page);
            return page;
        }
        if (page->borrowed) {
            stand_in_release(small, page);
            continue;
        }
        if (smm_page_refill(page))
            return page;
        /* The queue is looked at when a page runs out, not before: while a page stays queued, further
         * foreign frees into it are one CAS. */
        if (smm_small_drain(small))
            continue;
        if (page_carve(page))
            return page;
        page_available_to_full(small, page);
    }
}

/* ---- Collecting ---- */

void smm_small_collect(struct smm_small *small)
{
    (void)smm_small_drain(small);
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++) {
        struct smm_page *page = small->classes[size_class].first;
        while (lender_take(small, size_class) != NULL) {
        }
        while (page != NULL && page != SMM_EMPTY_PAGE) {
            struct smm_page *const next = page->next;
            if (page->borrowed) {
                stand_in_return(small, page);
            } else if (page_is_idle(page)) {
                class_remove(small, page);
                page_retire(small, page, page->touched == 0);
            }
            page = next;
        }
    }
}

/* The memory of a dead page that did not go back may have lost its links in part: all items are free, so they
 * are linked anew. Ends what made the page busy. */
static void relink_dead_page(struct smm_page *page, unsigned count)
{
    const size_t size = smm_class_size(smm_load_relaxed(&page->shared_class));
    struct smm_item *const first = smm_foreign_item(page, 0);
    struct smm_item *last = first;

    for (unsigned i = 1; i < count; i++) {
        last->link = (struct smm_item *)(void *)((char *)last + size);
        last = last->link;
    }
    SMM_TEST_POINT(RELINKED);
    smm_store_release(&page->foreign, smm_foreign_word(smm_foreign_offset(first), smm_foreign_offset(last), count) |
                                          SMM_FOREIGN_QUEUED);
}

static size_t purge_dead_page(struct smm_page *page, bool force)
{
    /* acquire: the capacity is then of the page's present use or a later one */
    uint64_t word = smm_load_acquire(&page->foreign);
    const unsigned count = smm_foreign_count(word);

    if (count == 0 || count != smm_load_relaxed(&page->shared_capacity) ||
        (word & (SMM_FOREIGN_BUSY | SMM_FOREIGN_PURGED)) != 0)
        return 0;
    if (!force && (word & SMM_FOREIGN_SEEN) == 0) {
        SMM_TEST_POINT(DEAD_SEEN);
        /* relaxed: a note to the next visit; nothing is read through it */
        (void)smm_cas_strong_relaxed(&page->foreign, &word, word | SMM_FOREIGN_SEEN);
        return 0;
    }
    SMM_TEST_POINT(DEAD_FOUND);
    /* acq_rel: pairs with the pushes of all items. From here on the owner leaves the page alone (F4), and it
     * cannot change its use (F3): only now the capacity is sure to be of the use that the count is of. */
    if (!smm_cas_strong_acq_rel(&page->foreign, &word, word | SMM_FOREIGN_BUSY))
        return 0;
    if (count != smm_load_relaxed(&page->shared_capacity)) {
        SMM_TEST_POINT(DEAD_ALIVE);
        (void)smm_and_release(&page->foreign, ~(SMM_FOREIGN_BUSY | SMM_FOREIGN_SEEN));
        return 0;
    }
    SMM_TEST_POINT(DEAD_BUSY);
    if (!smm_os_decommit(smm_page_memory(page), SMM_PAGE_SIZE)) {
        relink_dead_page(page, count);
        return 0;
    }
    SMM_TEST_POINT(DEAD_DECOMMITTED);
    /* release: the owner's take finds the memory as new. No push can have come: every item is listed. */
    smm_store_release(&page->foreign, smm_foreign_word(0, 0, count) | SMM_FOREIGN_QUEUED | SMM_FOREIGN_PURGED);
    smm_account_purge(SMM_PAGE_SIZE);
    return SMM_PAGE_SIZE;
}

/* Pages whose items are all in their foreign lists; of about now. */
static uint64_t dead_pages(const struct smm_segment *segment)
{
    uint64_t dead = 0;

    for (unsigned i = 1; i < SMM_PAGE_COUNT; i++) {
        const struct smm_page *const page = &segment->pages[i];
        const unsigned count = smm_foreign_count(smm_load_relaxed(&page->foreign));
        if (count != 0 && count == smm_load_relaxed(&page->shared_capacity))
            dead |= (uint64_t)1 << i;
    }
    return dead;
}

size_t smm_small_purge_dead(struct smm_small *small, bool force)
{
    size_t returned = 0;

    /* Dead pages are queued (F1); acquire: pairs with segment_add() */
    if (smm_load_relaxed(&small->notified) == NULL)
        return 0;
    for (struct smm_segment *segment = smm_load_acquire(&small->pool.segments); segment != NULL;
         segment = segment->older) {
        uint64_t pages = dead_pages(segment);
        if (segment->huge && !force)
            pages &= smm_pool_splittable(&small->pool, segment, pages);
        for (; pages != 0; pages &= pages - 1)
            returned += purge_dead_page(&segment->pages[smm_bit_low(pages)], force);
    }
    return returned;
}

void smm_small_usage(const struct smm_small *small, int64_t *blocks, int64_t *bytes)
{
    uint64_t all = 0, all_bytes = 0, lent = 0, lent_bytes = 0;

    for (const struct smm_segment *segment = smm_load_acquire(&small->pool.segments); segment != NULL;
         segment = segment->older) {
        for (unsigned i = 1; i < SMM_PAGE_COUNT; i++) {
            const struct smm_page *const page = &segment->pages[i];
            const uint32_t used = smm_page_used(page);
            const uint32_t listed = smm_foreign_count(smm_load_relaxed(&page->foreign));
            if (used <= listed)
                continue;
            all += used - listed;
            all_bytes += (uint64_t)(used - listed) * smm_class_size(smm_load_relaxed(&page->shared_class));
        }
    }
    /* What stand-ins have left counts as used in the pages that it was borrowed from. */
    for (const struct smm_page *page = smm_load_acquire(&small->stand_ins); page != NULL;
         page = page->notified_next) {
        const uint32_t used = smm_page_used(page);
        const uint32_t capacity = smm_load_relaxed(&page->shared_capacity);
        if (used >= capacity)
            continue;
        lent += capacity - used;
        lent_bytes += (uint64_t)(capacity - used) * smm_class_size(smm_load_relaxed(&page->shared_class));
    }
    *blocks = (int64_t)(all - lent);
    *bytes = (int64_t)(all_bytes - lent_bytes);
}
