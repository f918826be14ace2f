/* SPDX-License-Identifier: MIT */
/* test_small.c - the small blocks of a heap: which pages its classes hold, what other threads free into them,
 * borrowing, and the memory of pages whose owner sleeps.
 *
 * Each test starts with three heaps of its own, whose segments stay behind. */
#include "small/small.h"

#include "platform/platform.h"
#include "small/foreign_free.h"
#include "unit.h"

enum { HEAPS = 3, CLASS_MAX = SMM_CLASS_COUNT - 1 /* four items of 16 KiB */, PAGE_ITEMS = 4 };

static struct smm_small heaps[HEAPS];
static struct smm_small *const mine = &heaps[0];
static struct smm_small *const other = &heaps[1];

static int fresh_heaps(void **state)
{
    (void)state;
    memset(heaps, 0, sizeof heaps);
    for (unsigned i = 0; i < HEAPS; i++)
        smm_small_init(&heaps[i]);
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_NEVER);
    return 0;
}

static char *take(struct smm_small *heap, unsigned size_class)
{
    struct smm_page *const page = smm_small_find_page(heap, size_class);
    return page != NULL ? smm_page_pop(page) : NULL;
}

static char *alloc(struct smm_small *heap, unsigned size_class)
{
    char *const item = take(heap, size_class);
    assert_non_null(item);
    return item;
}

static enum smm_fault give(struct smm_small *heap, void *item)
{
    struct smm_page *const page = smm_page_of(item);

    if (smm_segment_of(item)->owner != heap)
        return smm_small_free_foreign(heap, page, item);
    return smm_page_push(page, item) > 0 ? SMM_FAULT_NONE : smm_small_free_rare(heap, page);
}

static void release(struct smm_small *heap, void *item)
{
    assert_int_equal(give(heap, item), SMM_FAULT_NONE);
}

static struct smm_page *first_page(const struct smm_small *heap, unsigned size_class)
{
    return heap->classes[size_class].first;
}

/* Negative by what the heap has borrowed and not handed out. */
static int64_t blocks_of(const struct smm_small *heap)
{
    int64_t blocks, bytes;
    smm_small_usage(heap, &blocks, &bytes);
    return blocks;
}

static bool in_pool(const struct smm_page *page)
{
    const struct smm_segment *const segment = smm_segment_of(page);
    return ((segment->dirty | segment->clean) >> smm_page_index(page) & 1) != 0;
}

/* ---- The owner ---- */

static void a_heap_without_pages_has_the_empty_page_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < SMM_DIRECT_COUNT; i++)
        assert_ptr_equal(mine->direct[i], SMM_EMPTY_PAGE);
    for (unsigned i = 0; i < SMM_CLASS_COUNT; i++)
        assert_ptr_equal(first_page(mine, i), SMM_EMPTY_PAGE);
    assert_null(SMM_EMPTY_PAGE->free);
}

static void every_size_up_to_2_KiB_finds_the_page_of_its_class(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SMM_CLASS_COUNT; i++)
        (void)alloc(mine, i);
    for (size_t size = 1; size <= SMM_DIRECT_MAX; size++) {
        const struct smm_page *const page = mine->direct[(size + 15) / 16];
        assert_ptr_equal(page, first_page(mine, smm_class_of(size)));
        assert_int_equal(page->size_class, smm_class_of(size));
    }
    assert_int_equal(blocks_of(mine), SMM_CLASS_COUNT);
}

static void a_full_page_leaves_its_class_and_comes_back_at_the_end(void **state)
{
    char *items[3 * PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const full = smm_page_of(items[0]);
    struct smm_page *const last = smm_page_of(items[2 * PAGE_ITEMS]);
    assert_false(full->listed);
    assert_true(smm_load_relaxed(&full->used) < 0);
    assert_int_equal(smm_page_used(full), PAGE_ITEMS);
    assert_ptr_equal(first_page(mine, CLASS_MAX), last);
    release(mine, items[1]);
    assert_true(full->listed);
    assert_int_equal(smm_page_used(full), PAGE_ITEMS - 1);
    assert_ptr_equal(mine->classes[CLASS_MAX].last, full);
    assert_ptr_equal(alloc(mine, CLASS_MAX), items[1]);
}

static void an_empty_page_goes_to_the_pool_unless_it_is_alone(void **state)
{
    char *items[2 * PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const first = smm_page_of(items[0]);
    struct smm_page *const second = smm_page_of(items[PAGE_ITEMS]);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(mine, items[i]);
    assert_true(in_pool(first));
    for (unsigned i = PAGE_ITEMS; i < COUNT_OF(items); i++)
        release(mine, items[i]);
    assert_false(in_pool(second));
    assert_ptr_equal(first_page(mine, CLASS_MAX), second);
    assert_int_equal(smm_page_used(second), 0);
    assert_int_equal(blocks_of(mine), 0);
    /* It serves again, and goes when asked for. */
    release(mine, alloc(mine, CLASS_MAX));
    assert_false(in_pool(second));
    smm_small_collect(mine);
    assert_true(in_pool(second));
    assert_ptr_equal(first_page(mine, CLASS_MAX), SMM_EMPTY_PAGE);
}

static void the_only_page_of_a_class_goes_when_it_is_empty_and_gets_company(void **state)
{
    char *items[2 * PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const alone = smm_page_of(items[PAGE_ITEMS]);
    for (unsigned i = PAGE_ITEMS; i < COUNT_OF(items); i++)
        release(mine, items[i]);
    assert_false(in_pool(alone));
    assert_int_equal(smm_page_used(alone), 0);
    /* The full page has an item again. */
    release(mine, items[0]);
    smm_small_collect(mine);
    assert_true(in_pool(alone));
    assert_ptr_equal(first_page(mine, CLASS_MAX), smm_page_of(items[1]));
    for (unsigned i = 1; i < PAGE_ITEMS; i++)
        release(mine, items[i]);
    assert_int_equal(blocks_of(mine), 0);
}

/* ---- Foreign frees ---- */

static void foreign_frees_come_back_when_the_page_runs_out(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const page = smm_page_of(items[0]);
    release(other, items[2]);
    assert_int_equal(smm_load_relaxed(&other->foreign_frees), 1);
    assert_ptr_equal(smm_load_relaxed(&mine->notified), page);
    assert_int_equal(smm_page_used(page), PAGE_ITEMS);
    assert_int_equal(blocks_of(mine), PAGE_ITEMS - 1);
    assert_ptr_equal(alloc(mine, CLASS_MAX), items[2]);
    assert_null(smm_load_relaxed(&mine->notified));
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    assert_false(smm_small_drain(mine));
}

static void draining_finds_full_pages_and_empty_ones(void **state)
{
    char *items[3 * PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        items[i] = alloc(mine, CLASS_MAX);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    release(NULL, items[PAGE_ITEMS]);
    assert_true(smm_small_drain(mine));
    assert_true(in_pool(smm_page_of(items[0])));
    assert_true(smm_page_of(items[PAGE_ITEMS])->listed);
    assert_int_equal(smm_page_used(smm_page_of(items[PAGE_ITEMS])), PAGE_ITEMS - 1);
    assert_int_equal(blocks_of(mine), 2 * PAGE_ITEMS - 1);
}

static void more_foreign_frees_than_items_are_a_fault(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    assert_int_equal(give(other, items[0]), SMM_FAULT_FREED);
}

static void a_free_into_a_page_that_is_wholly_free_is_a_fault(void **state)
{
    (void)state;
    /* The only page of its class, and the first of two. */
    char *const item = alloc(mine, CLASS_MAX);
    release(mine, item);
    assert_int_equal(give(mine, item), SMM_FAULT_FREED);
}

/* ---- Borrowing ---- */

static void a_thread_borrows_what_it_freed_into_another_heap(void **state)
{
    enum { CLASS = 30, ITEMS = 16 };
    char *items[ITEMS];

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        items[i] = alloc(mine, CLASS);
    struct smm_page *const page = smm_page_of(items[0]);
    assert_int_equal(page->capacity, ITEMS);
    for (unsigned i = 0; i < ITEMS - 2; i++)
        release(other, items[i]);
    /* From the top of the list: what was freed last comes first. */
    for (unsigned i = ITEMS - 2; i-- > 4;)
        assert_ptr_equal(alloc(other, CLASS), items[i]);
    assert_true(first_page(other, CLASS)->borrowed);
    assert_int_equal(other->pool.segment_count, 0);
    assert_int_equal(smm_page_used(page), ITEMS);
    /* Ten of the 14 that it took are handed out. */
    assert_int_equal(blocks_of(other), -4);
    assert_int_equal(blocks_of(mine), ITEMS);
    /* A borrowed item goes home. */
    release(other, items[7]);
    assert_int_equal(smm_foreign_count(smm_load_relaxed(&page->foreign)), 1);
    /* And the rest, when the borrower collects. */
    smm_small_collect(other);
    assert_ptr_equal(first_page(other, CLASS), SMM_EMPTY_PAGE);
    assert_int_equal(blocks_of(other), 0);
    assert_int_equal(smm_foreign_count(smm_load_relaxed(&page->foreign)), 5);
    for (unsigned i = 4; i < ITEMS; i++)
        if (i != 7)
            release(other, items[i]);
    smm_small_collect(mine);
    assert_true(in_pool(page));
}

/* Holds off: a pool of threads that each grow a heap, since only a few pages of the one before are remembered. */
static void all_pages_of_a_sleeping_heap_are_borrowed_from(void **state)
{
    enum { PAGES = 6 };
    char *items[PAGES * PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        items[i] = alloc(mine, CLASS_MAX);
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        release(other, items[i]);
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        assert_ptr_equal(smm_segment_of(alloc(other, CLASS_MAX))->owner, mine);
    assert_int_equal(other->pool.segment_count, 0);
}

/* A page of which little was cut lends what of that lies there. */
static void a_page_that_has_cut_few_items_lends_them(void **state)
{
    enum { CLASS = 20, ITEMS = 6 };
    char *items[ITEMS];

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        items[i] = alloc(mine, CLASS);
    assert_true(smm_page_of(items[0])->capacity > 4 * ITEMS);
    for (unsigned i = 0; i < ITEMS; i++)
        release(other, items[i]);
    for (unsigned i = 0; i < 4; i++)
        assert_ptr_equal(smm_segment_of(alloc(other, CLASS))->owner, mine);
}

/* Its link is in the list of the one; in two lists it would lead from the one into the other. */
static void a_page_lends_to_one_heap_at_a_time(void **state)
{
    enum { PAGES = 4 };
    char *items[PAGES][PAGE_ITEMS];
    struct smm_small *const third = &heaps[2];

    (void)state;
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned i = 0; i < PAGE_ITEMS; i++)
            items[page][i] = alloc(mine, CLASS_MAX);
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned i = 0; i < 2; i++)
            release(other, items[page][i]);
    struct smm_page *const first = smm_page_of(items[0][0]), *const second = smm_page_of(items[1][0]);
    assert_ptr_equal(other->lenders[CLASS_MAX][0], smm_page_of(items[3][0]));
    assert_ptr_equal(other->lenders[CLASS_MAX][1], smm_page_of(items[2][0]));
    assert_ptr_equal(other->more_lenders[CLASS_MAX], second);
    assert_ptr_equal(second->next_lender, first);
    /* Another thread frees the rest: it may borrow there as well, and has no list of its own to put the first two in. */
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned i = 2; i < PAGE_ITEMS; i++)
            release(third, items[page][i]);
    assert_ptr_equal(third->lenders[CLASS_MAX][0], smm_page_of(items[3][0]));
    assert_null(third->more_lenders[CLASS_MAX]);
    assert_ptr_equal(second->next_lender, first);
    assert_null(first->next_lender);
    smm_small_collect(other);
    assert_false(smm_load_relaxed(&first->lending) || smm_load_relaxed(&second->lending));
    assert_null(other->more_lenders[CLASS_MAX]);
}

/* Holds off: a sleeping thread that keeps a page for each class that it ever used. */
static void no_more_than_24_pages_are_kept(void **state)
{
    unsigned kept = 0;

    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++)
        release(mine, alloc(mine, size_class));
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++)
        kept += first_page(mine, size_class) != SMM_EMPTY_PAGE;
    assert_int_equal(kept, 24);
    assert_true(smm_load_relaxed(&first_page(mine, SMM_CLASS_COUNT - 1)->kept));
    assert_int_equal(blocks_of(mine), 0);
}

static void borrowed_items_run_out_and_own_pages_follow(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++) {
        items[i] = alloc(mine, CLASS_MAX);
        memset(items[i], 0xff, 64); /* no link of the last one is left by chance */
    }
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    for (unsigned i = PAGE_ITEMS; i-- > 0;)
        assert_ptr_equal(alloc(other, CLASS_MAX), items[i]);
    char *const own = alloc(other, CLASS_MAX);
    assert_ptr_equal(smm_segment_of(own)->owner, other);
    assert_int_equal(blocks_of(other), 1);
    assert_int_equal(blocks_of(mine), PAGE_ITEMS);
}

/* The page has no used item then, but is still queued: the thread that lent left the mark behind. */
static void a_page_empties_although_its_lent_items_come_back_by_its_owner(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const page = smm_page_of(items[0]);
    char *const company = alloc(mine, CLASS_MAX);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    for (unsigned i = PAGE_ITEMS; i-- > 0;)
        assert_ptr_equal(alloc(other, CLASS_MAX), items[i]);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(mine, items[i]);
    assert_int_equal(smm_page_used(page), 0);
    assert_int_equal(blocks_of(mine), 1);
    smm_small_collect(mine);
    assert_true(in_pool(page));
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    assert_null(smm_load_relaxed(&mine->notified));
    release(mine, company);
    smm_small_collect(mine);
    assert_int_equal(smm_load_relaxed(&mine->pool.dirty_count), 2);
}

/* P4: the page that was alone is kept until it gets company; but not given up while it is queued, or the drain
 * would find it in another use. */
static void a_kept_page_whose_lent_items_came_back_waits_for_the_drain(void **state)
{
    char *full[PAGE_ITEMS];
    char *items[2];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        full[i] = alloc(mine, CLASS_MAX);
    char *const only = alloc(mine, CLASS_MAX);
    struct smm_page *const page = smm_page_of(only);
    release(mine, only);
    assert_ptr_equal(first_page(mine, CLASS_MAX), page);
    assert_true(smm_load_relaxed(&page->kept));
    for (unsigned i = 0; i < COUNT_OF(items); i++) {
        items[i] = alloc(mine, CLASS_MAX);
        assert_ptr_equal(smm_page_of(items[i]), page);
    }
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        release(other, items[i]);
    for (unsigned i = COUNT_OF(items); i-- > 0;)
        assert_ptr_equal(alloc(other, CLASS_MAX), items[i]);
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        release(mine, items[i]);
    assert_int_equal(smm_page_used(page), 0);
    assert_int_not_equal(smm_load_relaxed(&page->foreign), 0);
    release(mine, full[0]); /* company */
    assert_false(in_pool(page));
    (void)smm_small_drain(mine);
    assert_true(in_pool(page));
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    assert_null(smm_load_relaxed(&mine->notified));
    for (unsigned i = 1; i < PAGE_ITEMS; i++)
        release(mine, full[i]);
}

static void nothing_is_borrowed_from_a_page_that_serves_another_class(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    struct smm_page *const page = smm_page_of(items[0]);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    smm_small_collect(mine);
    assert_true(in_pool(page));
    assert_ptr_equal(smm_page_of(alloc(mine, 3)), page);
    char *const own = alloc(other, CLASS_MAX);
    assert_ptr_equal(smm_segment_of(own)->owner, other);
}

/* ---- Pages whose owner sleeps ---- */

static struct smm_page *dead_page(void)
{
    char *items[PAGE_ITEMS];

    for (unsigned i = 0; i < PAGE_ITEMS; i++) {
        items[i] = alloc(mine, CLASS_MAX);
        memset(items[i], 0x3c, 16 * SMM_KIB);
    }
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(NULL, items[i]);
    return smm_page_of(items[0]);
}

static void memory_of_a_dead_page_goes_back_without_its_owner(void **state)
{
    struct smm_page *const page = dead_page();

    (void)state;
    assert_int_equal(smm_small_purge_dead(mine, true), SMM_PAGE_SIZE);
    assert_int_equal(first_not_zero(smm_page_memory(page), SMM_PAGE_SIZE), SMM_PAGE_SIZE);
    assert_int_equal(smm_load_relaxed(&page->foreign),
                     smm_foreign_word(0, 0, PAGE_ITEMS) | SMM_FOREIGN_QUEUED | SMM_FOREIGN_PURGED);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
    assert_int_equal(smm_small_purge_dead(mine, false), 0);
    assert_int_equal(blocks_of(mine), 0);
    /* The owner finds it as new. */
    assert_true(smm_small_drain(mine));
    assert_true(in_pool(page));
    assert_true((smm_segment_of(page)->clean >> smm_page_index(page) & 1) != 0);
    assert_int_equal(smm_load_relaxed(&page->used), 0);
    char *const item = alloc(mine, 8);
    assert_ptr_equal(smm_page_of(item), page);
    assert_true(page->free_is_zero);
}

static void without_force_a_page_must_be_dead_at_two_visits(void **state)
{
    (void)state;
    (void)dead_page();
    assert_int_equal(smm_small_purge_dead(mine, false), 0);
    assert_int_equal(smm_small_purge_dead(mine, false), SMM_PAGE_SIZE);
}

static void a_page_with_a_live_item_is_not_purged(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    for (unsigned i = 1; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
    release(other, items[0]);
    assert_int_equal(smm_small_purge_dead(mine, true), SMM_PAGE_SIZE);
}

static void a_purged_page_is_not_borrowed(void **state)
{
    char *items[PAGE_ITEMS];

    (void)state;
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        items[i] = alloc(mine, CLASS_MAX);
    for (unsigned i = 0; i < PAGE_ITEMS; i++)
        release(other, items[i]);
    assert_int_equal(smm_small_purge_dead(mine, true), SMM_PAGE_SIZE);
    char *const own = alloc(other, CLASS_MAX);
    assert_ptr_equal(smm_segment_of(own)->owner, other);
}

/* ---- All together ---- */

enum { SLOTS = 256 };
static _Atomic(char *) slots[SLOTS];
static _Atomic(bool) stop;

/* Takes items of its heap, leaves them in slots, and frees whatever lay there before. */
static void *exchange(void *argument)
{
    static const unsigned classes[] = {0, 8, 22, 30, 38, CLASS_MAX};
    struct smm_small *const self = argument;
    uint64_t seed = (uint64_t)(self - heaps);
    uintptr_t errors = 0;

    while (!smm_load_relaxed(&stop) && errors == 0) {
        const unsigned size_class = classes[random_below(&seed, COUNT_OF(classes))];
        char *item = NULL;
        if (random_below(&seed, 8) != 0) {
            item = take(self, size_class);
            EXPECT(errors, item != NULL);
            if (item == NULL)
                break;
            memset(item, (int)size_class + 1, smm_class_size(size_class));
        }
        item = smm_exchange_acq_rel(&slots[random_below(&seed, SLOTS)], item);
        if (item != NULL) {
            const size_t size = smm_page_of(item)->item_size;
            EXPECT(errors, item[0] == (char)(smm_class_of(size) + 1) && memcmp(item, item + 1, size - 1) == 0);
            EXPECT(errors, give(self, item) == SMM_FAULT_NONE);
        }
        if (random_below(&seed, 4000) == 0)
            smm_small_collect(self);
    }
    return ERRORS(errors);
}

static void *give_memory_back(void *argument)
{
    uint64_t *const returned = argument;

    while (!smm_load_relaxed(&stop)) {
        for (unsigned i = 0; i < HEAPS; i++) {
            *returned += smm_small_purge_dead(&heaps[i], true);
            *returned += smm_pool_trim(&heaps[i].pool, 1, smm_os_now() + 100000, 0);
        }
        smm_os_yield();
    }
    return NULL;
}

static void heaps_exchange_items_while_their_memory_goes_back(void **state)
{
    pthread_t threads[HEAPS];
    uint64_t returned = 0;
    uintptr_t errors = 0;

    (void)state;
    smm_store_relaxed(&stop, false);
    for (unsigned i = 0; i < HEAPS; i++)
        threads[i] = thread_start(exchange, &heaps[i]);
    const pthread_t collector = thread_start(give_memory_back, &returned);
    sleep_ms(1200);
    smm_store_relaxed(&stop, true);
    for (unsigned i = 0; i < HEAPS; i++)
        errors += (uintptr_t)thread_end(threads[i]);
    thread_end(collector);
    assert_int_equal(errors, 0);
    assert_true(returned != 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        char *const item = smm_exchange_acquire(&slots[i], NULL);
        if (item != NULL)
            release(mine, item);
    }
    /* Twice: what one lent, another gives back. */
    for (unsigned i = 0; i < 2 * HEAPS; i++)
        smm_small_collect(&heaps[i % HEAPS]);
    for (unsigned i = 0; i < HEAPS; i++) {
        assert_int_equal(blocks_of(&heaps[i]), 0);
        for (struct smm_segment *segment = smm_load_acquire(&heaps[i].pool.segments); segment != NULL;
             segment = segment->older)
            assert_int_equal(segment->dirty | segment->clean, ~(uint64_t)1);
    }
}

#define small_test(name) cmocka_unit_test_setup(name, fresh_heaps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        small_test(a_heap_without_pages_has_the_empty_page_everywhere),
        small_test(every_size_up_to_2_KiB_finds_the_page_of_its_class),
        small_test(a_full_page_leaves_its_class_and_comes_back_at_the_end),
        small_test(an_empty_page_goes_to_the_pool_unless_it_is_alone),
        small_test(the_only_page_of_a_class_goes_when_it_is_empty_and_gets_company),
        small_test(foreign_frees_come_back_when_the_page_runs_out),
        small_test(draining_finds_full_pages_and_empty_ones),
        small_test(more_foreign_frees_than_items_are_a_fault),
        small_test(a_free_into_a_page_that_is_wholly_free_is_a_fault),
        small_test(a_thread_borrows_what_it_freed_into_another_heap),
        small_test(all_pages_of_a_sleeping_heap_are_borrowed_from),
        small_test(a_page_that_has_cut_few_items_lends_them),
        small_test(a_page_lends_to_one_heap_at_a_time),
        small_test(no_more_than_24_pages_are_kept),
        small_test(borrowed_items_run_out_and_own_pages_follow),
        small_test(a_page_empties_although_its_lent_items_come_back_by_its_owner),
        small_test(a_kept_page_whose_lent_items_came_back_waits_for_the_drain),
        small_test(nothing_is_borrowed_from_a_page_that_serves_another_class),
        small_test(memory_of_a_dead_page_goes_back_without_its_owner),
        small_test(without_force_a_page_must_be_dead_at_two_visits),
        small_test(a_page_with_a_live_item_is_not_purged),
        small_test(a_purged_page_is_not_borrowed),
        small_test(heaps_exchange_items_while_their_memory_goes_back),
    };
    return cmocka_run_group_tests(tests, segment_map_setup, NULL);
}
