/* SPDX-License-Identifier: MIT */
/* test_interleavings.c - orders of events between threads, each made to happen: at a place inside of one operation
 * (test_point.h) a test does what another thread might do there. In builds with -Dtest_points=true.
 *
 * Holds off operations that are right one after another and wrong together: a compare that does not see what
 * changed, a list that is lost between two owners, memory that goes back under somebody's hands, a lock that is not
 * taken. Which fault in the source each of these tests is there for: tests/mutants. */
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/heap_stack.h"

#include <shardmm/shardmm.h>

#include "large/large.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "segment/metadata.h"
#include "segment/segment.h"
#include "small/foreign_free.h"
#include "unit.h"

/* For what may run in other threads than the test's. */
#define MUST(condition)                                                                                   \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                       \
            abort();                                                                                      \
        }                                                                                                 \
    } while (0)

/* ---- What another thread might do, and where ---- */

static _Thread_local enum smm_test_point armed_at = SMM_AT_COUNT;
static _Thread_local unsigned armed_skips;
static _Thread_local void (*armed)(void);
static _Atomic(unsigned) fired;

static void hook(enum smm_test_point point)
{
    if (point != armed_at)
        return;
    if (armed_skips != 0) {
        armed_skips--;
        return;
    }
    armed_at = SMM_AT_COUNT;
    armed();
    smm_add_relaxed(&fired, 1);
}

/* The next time that the calling thread comes to the place, or after `skips` times more. Once. */
static void at(enum smm_test_point point, unsigned skips, void (*action)(void))
{
    armed_skips = skips;
    armed = action;
    armed_at = point;
}

static int teardown(void **state)
{
    (void)state;
    smm_test_hook_set(NULL);
    armed_at = SMM_AT_COUNT;
    return 0;
}

#define assert_fired(count) assert_int_equal(smm_load_relaxed(&fired), (count))

/* ---- Two heaps of the test's own ---- */

enum { CLASS = SMM_CLASS_COUNT - 1, ITEMS = 4, SIZE = 16 * 1024 }; /* four items a page */

static struct smm_small heaps[2];
static struct smm_small *const mine = &heaps[0];
static struct smm_small *const other = &heaps[1];
static char *items[2 * ITEMS];
static struct smm_page *page;

static char *alloc_of(struct smm_small *heap, unsigned size_class)
{
    struct smm_page *const found = smm_small_find_page(heap, size_class);
    return found != NULL ? smm_page_pop(found) : NULL;
}

static char *alloc(struct smm_small *heap)
{
    return alloc_of(heap, CLASS);
}

static void give_foreign(const char *item)
{
    assert_int_equal(smm_small_free_foreign(NULL, smm_page_of(item), (void *)(uintptr_t)item), SMM_FAULT_NONE);
}

static void give_own(char *item)
{
    if (smm_page_push(smm_page_of(item), item) <= 0)
        assert_int_equal(smm_small_free_rare(mine, smm_page_of(item)), SMM_FAULT_NONE);
}

static unsigned listed(const struct smm_page *of)
{
    return smm_foreign_count(smm_load_relaxed(&of->foreign));
}

static unsigned queue_length(const struct smm_small *heap)
{
    unsigned length = 0;
    for (const struct smm_page *queued = smm_load_relaxed(&heap->notified); queued != NULL;
         queued = queued->notified_next)
        assert_true(++length < 100);
    return length;
}

static bool in_pool(const struct smm_page *of)
{
    const struct smm_segment *const segment = smm_segment_of(of);
    return ((segment->dirty | segment->clean) >> smm_page_index(of) & 1) != 0;
}

/* Two full pages of mine; `page` is the first. */
static int setup(void **state)
{
    (void)state;
    memset(heaps, 0, sizeof heaps);
    for (unsigned i = 0; i < 2; i++)
        smm_small_init(&heaps[i]);
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_NEVER);
    for (unsigned i = 0; i < 2 * ITEMS; i++)
        items[i] = alloc(mine);
    page = smm_page_of(items[0]);
    smm_store_relaxed(&fired, 0);
    smm_test_hook_set(hook);
    return smm_page_of(items[ITEMS - 1]) == page && smm_page_of(items[ITEMS]) != page ? 0 : -1;
}

/* ---- The word of a page and the queue of a heap ---- */

static void push_1(void)
{
    give_foreign(items[1]);
}

static void push_5(void)
{
    give_foreign(items[ITEMS + 1]);
}

static void a_push_that_was_overtaken_links_to_the_new_head(void **state)
{
    (void)state;
    at(SMM_AT_FOREIGN_PUSH, 0, push_1);
    give_foreign(items[0]);
    assert_fired(1);
    assert_int_equal(queue_length(mine), 1);
    const uint64_t word = smm_foreign_take(page);
    assert_int_equal(smm_foreign_count(word), 2);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_head(word)), items[0]);
    assert_ptr_equal(((struct smm_item *)(void *)items[0])->link, items[1]);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_tail(word)), items[1]);
}

static void a_take_that_was_overtaken_takes_all(void **state)
{
    (void)state;
    give_foreign(items[0]);
    at(SMM_AT_FOREIGN_TAKE, 0, push_1);
    assert_true(smm_small_drain(mine));
    assert_fired(1);
    assert_int_equal(smm_page_used(page), ITEMS - 2);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    assert_ptr_equal(alloc(mine), items[1]);
    assert_ptr_equal(alloc(mine), items[0]);
}

static void queueing_that_was_overtaken_queues_both(void **state)
{
    (void)state;
    at(SMM_AT_NOTIFY, 0, push_5);
    give_foreign(items[0]);
    assert_fired(1);
    assert_int_equal(queue_length(mine), 2);
}

/* From the take of a page's word on another thread may queue the page again. */
static void a_page_queued_again_while_it_is_drained_does_not_end_the_queue(void **state)
{
    (void)state;
    give_foreign(items[ITEMS]);
    give_foreign(items[0]);
    assert_ptr_equal(smm_load_relaxed(&mine->notified), page);
    at(SMM_AT_WORD_TAKEN, 0, push_1);
    assert_true(smm_small_drain(mine));
    assert_fired(1);
    assert_int_equal(listed(smm_page_of(items[ITEMS])), 0);
    assert_int_equal(listed(page), 1);
    assert_ptr_equal(smm_load_relaxed(&mine->notified), page);
    assert_int_equal(queue_length(mine), 1);
}

/* Or taken from it while it is queued: the exchange leaves no gap. */
static void a_page_queued_while_the_queue_is_taken_is_not_lost(void **state)
{
    (void)state;
    give_foreign(items[0]);
    at(SMM_AT_QUEUE_TAKEN, 0, push_5);
    assert_true(smm_small_drain(mine));
    assert_fired(1);
    assert_int_equal(queue_length(mine), 1);
    assert_true(smm_small_drain(mine));
    assert_int_equal(listed(smm_page_of(items[ITEMS + 1])), 0);
}

static void drain_mine(void)
{
    (void)smm_small_drain(mine);
}

/* The page is neither idle nor in the queue then, and is queued once. */
static void a_drain_between_push_and_queueing_leaves_the_page_alone(void **state)
{
    (void)state;
    for (unsigned i = 1; i < ITEMS; i++)
        give_own(items[i]);
    at(SMM_AT_FOREIGN_PUSHED, 0, drain_mine);
    give_foreign(items[0]);
    assert_fired(1);
    assert_false(in_pool(page));
    assert_int_equal(listed(page), 1);
    assert_int_equal(queue_length(mine), 1);
    smm_small_collect(mine);
    assert_true(in_pool(page));
}

/* What is queued, and of which all was borrowed, is not queued once more by the next push. */
static void a_push_to_a_page_whose_list_was_borrowed_queues_it_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(smm_small_free_foreign(other, page, items[i]), SMM_FAULT_NONE);
    assert_ptr_equal(alloc(other), items[ITEMS - 1]);
    assert_int_equal(smm_load_relaxed(&page->foreign), SMM_FOREIGN_QUEUED);
    give_foreign(items[ITEMS - 1]);
    assert_ptr_not_equal(page->notified_next, page);
    assert_int_equal(queue_length(mine), 1);
}

/* ---- Borrowing ---- */

static void a_borrower_that_was_overtaken_takes_nothing(void **state)
{
    (void)state;
    for (unsigned i = 1; i < ITEMS - 1; i++)
        assert_int_equal(smm_small_free_foreign(other, page, items[i]), SMM_FAULT_NONE);
    give_foreign(items[0]);
    at(SMM_AT_FOREIGN_BORROW, 0, drain_mine);
    char *const own = alloc(other);
    assert_fired(1);
    assert_ptr_equal(smm_segment_of(own)->owner, other);
    assert_int_equal(smm_page_used(page), 1);
}

static char *others[8]; /* items of the page in its next use */

/* The owner drains the page, which empties and comes to serve items of half the size; of these as many are given
 * back, so that the word is the same again. */
static void put_page_to_another_use(void)
{
    const uint64_t before = smm_load_relaxed(&page->foreign);
    const unsigned half = smm_class_of(SIZE / 2);

    smm_small_collect(mine);
    assert_true(in_pool(page));
    for (unsigned i = 0; i < 8; i++) {
        others[i] = alloc_of(mine, half);
        assert_ptr_equal(smm_page_of(others[i]), page);
        memset(others[i], 0x5a, SIZE / 2);
    }
    for (unsigned i = 0; i < 8; i += 2)
        give_foreign(others[i]);
    assert_int_equal(smm_load_relaxed(&page->foreign), before);
}

static void assert_other_use_holds(void)
{
    for (unsigned i = 1; i < 8; i += 2)
        for (unsigned k = 0; k < SIZE / 2; k++)
            assert_int_equal(others[i][k], 0x5a);
    assert_int_equal(smm_page_used(page), 8);
    assert_int_equal(listed(page), 4);
    assert_int_equal(queue_length(mine), 1);
    /* And the list is whole: with the rest given back the page goes. */
    for (unsigned i = 1; i < 8; i += 2)
        give_foreign(others[i]);
    smm_small_collect(mine);
    assert_true(in_pool(page));
}

static void the_list_of_a_page_that_changed_its_use_is_given_back_to_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(smm_small_free_foreign(other, page, items[i]), SMM_FAULT_NONE);
    at(SMM_AT_FOREIGN_BORROW, 0, put_page_to_another_use);
    char *const own = alloc(other);
    assert_fired(1);
    assert_ptr_equal(smm_segment_of(own)->owner, other);
    assert_other_use_holds();
}

static void push_last_item(void)
{
    give_foreign(items[0]);
}

/* Between the borrower's take and its return, the page's word is queued with nothing in it. */
static void a_list_is_returned_to_what_was_pushed_meanwhile(void **state)
{
    (void)state;
    for (unsigned i = 1; i < ITEMS; i++)
        assert_int_equal(smm_small_free_foreign(other, page, items[i]), SMM_FAULT_NONE);
    assert_ptr_equal(alloc(other), items[ITEMS - 1]);
    at(SMM_AT_RETURN_BORROWED, 0, push_last_item);
    smm_small_collect(other);
    assert_fired(1);
    assert_int_equal(listed(page), ITEMS - 1);
    assert_int_equal(queue_length(mine), 1);
    give_foreign(items[ITEMS - 1]);
    smm_small_collect(mine);
    assert_true(in_pool(page));
}

/* ---- The memory of dead pages ---- */

static void free_all_of_page(void)
{
    for (unsigned i = 0; i < ITEMS; i++)
        give_foreign(items[i]);
}

static void use_page_anew(void)
{
    assert_true(smm_small_drain(mine));
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i] = alloc(mine);
        assert_ptr_equal(smm_page_of(items[i]), page);
        memset(items[i], 0x66, SIZE);
    }
}

static void a_page_that_its_owner_took_meanwhile_is_not_purged(void **state)
{
    (void)state;
    free_all_of_page();
    at(SMM_AT_DEAD_FOUND, 0, use_page_anew);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
    assert_fired(1);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    for (unsigned i = 0; i < ITEMS; i++)
        for (unsigned k = 0; k < SIZE; k++)
            assert_int_equal(items[i][k], 0x66);
}

/* The same word, of a use in which it is not the whole page. */
static void a_page_that_is_dead_no_more_is_not_purged(void **state)
{
    (void)state;
    free_all_of_page();
    at(SMM_AT_DEAD_FOUND, 0, put_page_to_another_use);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
    assert_fired(1);
    assert_int_equal(smm_load_relaxed(&page->foreign) & (SMM_FOREIGN_BUSY | SMM_FOREIGN_SEEN), 0);
    assert_other_use_holds();
}

static void use_while_busy(void)
{
    (void)smm_small_drain(mine);
    assert_int_equal(queue_length(mine), 1);
    assert_int_equal(smm_page_used(page), ITEMS);
    assert_ptr_not_equal(smm_page_of(alloc(mine)), page);
    assert_ptr_not_equal(smm_page_of(alloc(other)), page);
    assert_int_equal(smm_small_purge_dead(mine, true), 0);
}

static void a_page_that_a_collector_works_on_is_left_alone_and_stays_queued(void **state)
{
    static const enum smm_test_point places[] = {SMM_AT_DEAD_BUSY, SMM_AT_DEAD_DECOMMITTED};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(places); i++) {
        setup(NULL);
        for (unsigned k = 0; k < ITEMS; k++)
            assert_int_equal(smm_small_free_foreign(other, page, items[k]), SMM_FAULT_NONE);
        at(places[i], 0, use_while_busy);
        assert_int_equal(smm_small_purge_dead(mine, true), SMM_PAGE_SIZE);
        assert_fired(1);
        assert_true(smm_small_drain(mine));
        assert_true((smm_segment_of(page)->clean >> smm_page_index(page) & 1) != 0);
    }
}

static void a_page_used_between_two_visits_is_not_seen_dead(void **state)
{
    (void)state;
    free_all_of_page();
    assert_int_equal(smm_small_purge_dead(mine, false), 0);
    use_page_anew();
    free_all_of_page();
    assert_int_equal(smm_small_purge_dead(mine, false), 0);
    /* Nor when it is overtaken by a push between the look and the note. */
    assert_int_equal(smm_small_purge_dead(mine, false), SMM_PAGE_SIZE);
}

static void a_page_taken_while_it_is_noted_is_not_noted(void **state)
{
    (void)state;
    free_all_of_page();
    at(SMM_AT_DEAD_SEEN, 0, use_page_anew);
    assert_int_equal(smm_small_purge_dead(mine, false), 0);
    assert_fired(1);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
}

/* The order of memory that a collector needs for its step to busy: the word came back the same by the doing of
 * others. Under the thread sanitizer; nothing but the protocol orders the three threads. */
static _Atomic(unsigned) step;

static void await(unsigned number)
{
    while (smm_load_relaxed(&step) < number)
        smm_os_yield();
}

static void let_others_push(void)
{
    smm_store_relaxed(&step, 1);
    await(3);
}

static void *purge_in_between(void *unused)
{
    uintptr_t errors = 0;
    (void)unused;

    at(SMM_AT_DEAD_FOUND, 0, let_others_push);
    EXPECT(errors, smm_small_purge_dead(mine, true) == SMM_PAGE_SIZE);
    smm_store_relaxed(&step, 4);
    await(5);
    return ERRORS(errors);
}

static _Atomic(bool) handed_over;

static void *push_again(void *unused)
{
    (void)unused;
    /* As a program hands blocks over; to this thread, from the owner. */
    while (!smm_load_acquire(&handed_over))
        smm_os_yield();
    for (unsigned i = 0; i < ITEMS; i++) {
        memset(items[i], 0x33, 64);
        (void)smm_small_free_foreign(NULL, page, items[i]);
    }
    smm_store_relaxed(&step, 3);
    await(5);
    return NULL;
}

static void *own(void *unused)
{
    uintptr_t errors = 0;
    char *again[ITEMS];
    (void)unused;

    await(1);
    EXPECT(errors, smm_small_drain(mine));
    for (unsigned i = 0; i < ITEMS; i++)
        again[i] = alloc(mine);
    for (unsigned i = 0; i < ITEMS; i++)
        EXPECT(errors, again[i] == items[i]); /* the page went through the pool */
    smm_store_release(&handed_over, true);
    await(4);
    EXPECT(errors, smm_small_drain(mine));
    for (unsigned i = 0; i < ITEMS; i++) {
        char *const item = alloc(mine);
        EXPECT(errors, item != NULL);
        memset(item, 0x77, 64);
    }
    smm_store_relaxed(&step, 5);
    return ERRORS(errors);
}

static void a_collector_sees_what_was_pushed_when_the_word_came_back(void **state)
{
    void *(*const parts[])(void *) = {purge_in_between, push_again, own};
    pthread_t threads[COUNT_OF(parts)];

    (void)state;
    free_all_of_page();
    smm_store_relaxed(&step, 0);
    smm_store_relaxed(&handed_over, false);
    for (unsigned i = 0; i < COUNT_OF(parts); i++)
        threads[i] = thread_start(parts[i], NULL);
    for (unsigned i = 0; i < COUNT_OF(parts); i++)
        assert_no_errors(thread_end(threads[i]));
    assert_fired(1);
}

/* ---- Free pages ---- */

static struct smm_page *taken[70];
static unsigned taken_count;

static void take_all_free_pages(void)
{
    while (taken_count < 40) {
        bool clean;
        struct smm_page *const got = smm_pool_take(&mine->pool, mine, &clean);
        memset(smm_page_memory(got), 0x44, SMM_PAGE_SIZE);
        taken[taken_count++] = got;
    }
}

static void pages_under_decommit_are_nobodys(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * ITEMS; i++)
        give_own(items[i]);
    smm_small_collect(mine);
    assert_int_equal(smm_load_relaxed(&mine->pool.dirty_count), 2);
    taken_count = 0;
    at(SMM_AT_POOL_CLAIMED, 0, take_all_free_pages);
    assert_int_equal(smm_pool_trim(&mine->pool, 0, 0, 0), 2 * SMM_PAGE_SIZE);
    assert_fired(1);
    for (unsigned i = 0; i < taken_count; i++)
        for (unsigned k = 0; k < SMM_PAGE_SIZE; k++)
            assert_int_equal(smm_page_memory(taken[i])[k], 0x44);
    assert_int_equal(smm_load_relaxed(&mine->pool.dirty_count), 0);
}

/* ---- Locks: whoever comes meanwhile waits ---- */

struct visitor {
    void (*act)(void);
    _Atomic(int) thread; /* its number, when it has begun */
    _Atomic(bool) done;
};

static void *visit(void *argument)
{
    struct visitor *const visitor = argument;

    smm_store_release(&visitor->thread, gettid());
    visitor->act();
    smm_store_release(&visitor->done, true);
    return NULL;
}

static bool sleeps(int thread)
{
    char path[64], text[256];
    FILE *file;
    size_t length = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    file = fopen(path, "r");
    if (file != NULL) {
        length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[length] = 0;
    const char *const state = strrchr(text, ')');
    return state != NULL && strncmp(state, ") S", 3) == 0;
}

/* Until the visitor is through or sleeps, on a lock: nothing that it does takes so long otherwise. */
static void let_come(struct visitor *visitor)
{
    int thread;

    while ((thread = smm_load_acquire(&visitor->thread)) == 0)
        smm_os_yield();
    for (unsigned ms = 0, slept = 0; ms < 2000 && slept < 3 && !smm_load_acquire(&visitor->done); ms++) {
        slept = sleeps(thread) ? slept + 1 : 0;
        sleep_ms(1);
    }
}

/* Runs `act` in another thread while the caller holds what it needs; it must end after `let_go`. */
static bool waits_for(void (*act)(void), void (*let_go)(void))
{
    struct visitor visitor = {.act = act};
    const pthread_t thread = thread_start(visit, &visitor);
    bool waited;

    let_come(&visitor);
    waited = !smm_load_acquire(&visitor.done);
    let_go();
    thread_end(thread);
    return waited;
}

static void let_pool_go(void)
{
    smm_gated_release(&mine->pool.lock);
}

static void take_page(void)
{
    bool clean;
    (void)smm_pool_take(&mine->pool, mine, &clean);
}

static void put_page(void)
{
    smm_pool_put(&mine->pool, page, false);
}

static void trim_pool(void)
{
    (void)smm_pool_trim(&mine->pool, 0, 0, 0);
}

static void ask_splittable(void)
{
    (void)smm_pool_splittable(&mine->pool, smm_segment_of(page), 0);
}

static void the_free_pages_of_a_heap_are_under_its_lock(void **state)
{
    void (*const acts[])(void) = {take_page, put_page, trim_pool, ask_splittable};

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        give_own(items[i]);
    smm_small_collect(mine);
    take_page(); /* that put_page() puts back */
    give_own(items[ITEMS]);
    for (unsigned i = ITEMS + 1; i < 2 * ITEMS; i++)
        give_own(items[i]);
    smm_small_collect(mine);
    for (unsigned i = 0; i < COUNT_OF(acts); i++) {
        smm_gated_acquire(&mine->pool.lock);
        if (!waits_for(acts[i], let_pool_go))
            fail_msg("act %u did not wait for the lock", i);
    }
}

static _Atomic(bool) visitor_may_go;
static _Atomic(bool) visitor_is_there;

static void wait_at_the_place(void)
{
    smm_store_release(&visitor_is_there, true);
    while (!smm_load_acquire(&visitor_may_go))
        smm_os_yield();
}

static void trim_and_stop_after_decommit(void)
{
    at(SMM_AT_POOL_DECOMMITTED, 0, wait_at_the_place);
    trim_pool();
}

/* As waits_for(), for an act that takes a lock, lets it go, and takes it again after the place where it stops. */
static bool waits_from_there_on(void (*act)(void), void (*hold)(void), void (*let_go)(void))
{
    struct visitor visitor = {.act = act};
    pthread_t thread;
    bool waited;

    smm_store_relaxed(&visitor_is_there, false);
    smm_store_relaxed(&visitor_may_go, false);
    thread = thread_start(visit, &visitor);
    while (!smm_load_acquire(&visitor_is_there))
        smm_os_yield();
    hold();
    smm_store_release(&visitor_may_go, true);
    let_come(&visitor);
    waited = !smm_load_acquire(&visitor.done);
    let_go();
    thread_end(thread);
    return waited;
}

static void hold_pool(void)
{
    smm_gated_acquire(&mine->pool.lock);
}

static void pages_come_back_from_the_system_under_the_lock(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        give_own(items[i]);
    smm_small_collect(mine);
    assert_true(waits_from_there_on(trim_and_stop_after_decommit, hold_pool, let_pool_go));
    assert_int_equal(smm_load_relaxed(&mine->pool.dirty_count), 0);
}

/* ---- Medium blocks ---- */

static struct smm_medium medium, other_medium;
static char *blocks[4];
enum { MEDIUM = 30000 };

static char *medium_alloc(void)
{
    size_t dirty;
    char *const block = smm_medium_alloc(&medium, MEDIUM, SMM_BLOCK_ALIGN, &dirty);
    MUST(block != NULL);
    return block;
}

static int medium_setup(void **state)
{
    (void)state;
    memset(&medium, 0, sizeof medium);
    memset(&other_medium, 0, sizeof other_medium);
    for (unsigned i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = medium_alloc();
    smm_store_relaxed(&fired, 0);
    smm_test_hook_set(hook);
    return 0;
}

static void free_foreign_1(void)
{
    assert_int_equal(smm_medium_free(&other_medium, blocks[1]), SMM_FAULT_NONE);
}

static void free_foreign_2(void)
{
    assert_int_equal(smm_medium_free(&other_medium, blocks[2]), SMM_FAULT_NONE);
}

static void free_own_1(void)
{
    MUST(smm_medium_free(&medium, blocks[1]) == SMM_FAULT_NONE);
}

static void of_two_that_free_a_medium_block_the_second_is_told(void **state)
{
    (void)state;
    /* The owner and another; two others; another and the owner. */
    at(SMM_AT_MEDIUM_CHECKED, 0, free_foreign_1);
    assert_int_equal(smm_medium_free(&medium, blocks[1]), SMM_FAULT_FREED);
    assert_fired(1);
    assert_int_equal(smm_medium_verify(&medium), 0);
    medium_setup(NULL);
    at(SMM_AT_MEDIUM_CHECKED, 0, free_foreign_1);
    assert_int_equal(smm_medium_free(&other_medium, blocks[1]), SMM_FAULT_FREED);
    assert_fired(1);
    smm_medium_drain(&medium);
    assert_int_equal(smm_medium_verify(&medium), 0);
    medium_setup(NULL);
    at(SMM_AT_MEDIUM_CHECKED, 0, free_own_1);
    assert_int_equal(smm_medium_free(&other_medium, blocks[1]), SMM_FAULT_FREED);
    assert_fired(1);
    assert_int_equal(smm_medium_verify(&medium), 0);
}

/* Or a free chunk would be split or grown. */
static void a_medium_block_freed_while_it_is_resized_is_told(void **state)
{
    static const size_t sizes[] = {MEDIUM - 10000, MEDIUM + 10000};
    void (*const frees[])(void) = {free_own_1, free_foreign_1};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(sizes); i++)
        for (unsigned k = 0; k < COUNT_OF(frees); k++) {
            enum smm_fault fault = SMM_FAULT_NONE;
            medium_setup(NULL);
            at(SMM_AT_MEDIUM_CHECKED, 0, frees[k]);
            assert_false(smm_medium_resize(blocks[1], sizes[i], &fault));
            assert_fired(1);
            assert_int_equal(fault, SMM_FAULT_FREED);
            assert_int_equal(smm_medium_verify(&medium), 0);
            assert_int_equal(medium.carving->live, 3);
        }
}

static void free_neighbours(void)
{
    assert_int_equal(smm_medium_free(&medium, blocks[0]), SMM_FAULT_NONE);
    assert_int_equal(smm_medium_free(&medium, blocks[2]), SMM_FAULT_NONE);
    (void)smm_medium_purge(&medium);
    (void)smm_medium_age(&medium);
    assert_int_equal(smm_medium_verify(&medium), 0);
    assert_int_equal(medium.carving->live, 2);
    for (unsigned i = 0; i < MEDIUM; i++)
        assert_int_equal(blocks[1][i], 0x5b);
}

static void a_block_that_is_flagged_and_not_listed_is_no_neighbour_to_merge_with(void **state)
{
    (void)state;
    memset(blocks[1], 0x5b, MEDIUM);
    at(SMM_AT_MEDIUM_PENDING, 0, free_neighbours);
    free_foreign_1();
    assert_fired(1);
    smm_medium_drain(&medium);
    assert_int_equal(medium.carving->live, 1);
    assert_int_equal(smm_medium_verify(&medium), 0);
    assert_ptr_equal(medium_alloc(), blocks[0]);
}

static void a_medium_push_that_was_overtaken_lists_both(void **state)
{
    (void)state;
    at(SMM_AT_MEDIUM_PUSH, 0, free_foreign_2);
    free_foreign_1();
    assert_fired(1);
    smm_medium_drain(&medium);
    assert_int_equal(medium.carving->live, 2);
    assert_int_equal(smm_medium_verify(&medium), 0);
}

static void what_is_freed_while_others_are_merged_waits_for_the_next_time(void **state)
{
    (void)state;
    free_foreign_1();
    at(SMM_AT_MEDIUM_DRAINED, 0, free_foreign_2);
    smm_medium_drain(&medium);
    assert_fired(1);
    assert_int_equal(medium.carving->live, 3);
    assert_non_null(smm_load_relaxed(&medium.foreign));
    smm_medium_drain(&medium);
    assert_int_equal(medium.carving->live, 2);
    assert_int_equal(smm_medium_verify(&medium), 0);
}

static void let_medium_go(void)
{
    smm_gated_release(&medium.lock);
}

static void act_medium_alloc(void)
{
    (void)medium_alloc();
}

static void act_medium_resize(void)
{
    enum smm_fault fault;
    (void)smm_medium_resize(blocks[2], MEDIUM - 10000, &fault);
}

static void act_medium_drain(void)
{
    smm_medium_drain(&medium);
}

static void act_medium_trim(void)
{
    (void)smm_medium_trim(&medium, 0, 0, 0);
}

static void act_medium_free_bytes(void)
{
    (void)smm_medium_free_bytes(&medium);
}

static void act_medium_verify(void)
{
    (void)smm_medium_verify(&medium);
}

static void medium_blocks_are_under_the_lock_of_their_heap(void **state)
{
    void (*const acts[])(void) = {act_medium_alloc, free_own_1, act_medium_resize, act_medium_trim,
                                  act_medium_free_bytes, act_medium_verify, act_medium_drain};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(acts); i++) {
        if (acts[i] == act_medium_drain)
            assert_int_equal(smm_medium_free(&other_medium, blocks[3]), SMM_FAULT_NONE);
        smm_gated_acquire(&medium.lock);
        if (!waits_for(acts[i], let_medium_go))
            fail_msg("act %u did not wait for the lock", i);
    }
    /* And the purge from outside, of chunks: its part after the arenas. */
    assert_int_equal(smm_medium_verify(&medium), 0);
}

static void purge_and_stop(void)
{
    at(SMM_AT_LOCK_ACQUIRE, 1, wait_at_the_place); /* the first is the trim's */
    (void)smm_medium_purge(&medium);
}

static void hold_medium(void)
{
    smm_gated_acquire(&medium.lock);
}

static void chunks_are_purged_under_the_lock(void **state)
{
    (void)state;
    assert_true(waits_from_there_on(purge_and_stop, hold_medium, let_medium_go));
}

/* ---- Large blocks ---- */

enum { LARGE = 3 * 1024 * 1024 };
static char *large;

static int large_setup(void **state)
{
    size_t dirty;

    (void)state;
    (void)smm_large_cache_trim(0, 0);
    large = smm_large_alloc(LARGE, SMM_BLOCK_ALIGN, &dirty);
    smm_store_relaxed(&fired, 0);
    smm_test_hook_set(hook);
    return large != NULL ? 0 : -1;
}

static void free_large(void)
{
    MUST(smm_large_free(large) == SMM_FAULT_NONE);
}

static void of_two_that_free_a_large_block_the_second_is_told(void **state)
{
    uint64_t cached, bytes;

    (void)state;
    at(SMM_AT_LARGE_CHECKED, 0, free_large);
    assert_int_equal(smm_large_free(large), SMM_FAULT_FREED);
    assert_fired(1);
    smm_large_cache_usage(&cached, &bytes);
    assert_int_equal(cached, 1);
}

static void free_large_that_is_freed(void)
{
    assert_int_equal(smm_large_free(large), SMM_FAULT_FREED);
}

static void a_block_between_its_life_and_the_cache_is_freed(void **state)
{
    (void)state;
    at(SMM_AT_LARGE_FREED, 0, free_large_that_is_freed);
    free_large();
    assert_fired(1);
}

static void assert_struck_out(void)
{
    assert_int_equal(smm_kind_of(large), SMM_KIND_NONE);
}

/* Or the entry of somebody else, who got the addresses meanwhile, would be struck out. */
static void addresses_are_struck_out_before_they_may_be_somebody_elses(void **state)
{
    enum smm_fault fault;

    (void)state;
    free_large();
    at(SMM_AT_LARGE_RELEASED, 0, assert_struck_out);
    assert_true(smm_large_cache_trim(0, 0) != 0);
    assert_fired(1);
    large_setup(NULL);
    at(SMM_AT_LARGE_MOVED, 0, assert_struck_out);
    char *const moved = smm_large_resize(large, 100 * SMM_MIB, 0, &fault);
    assert_non_null(moved);
    assert_fired(1);
    assert_int_equal(smm_kind_of(moved), SMM_KIND_LARGE);
    assert_int_equal(smm_large_free(moved), SMM_FAULT_NONE);
}

static void act_cache_put(void)
{
    free_large();
}

static void act_cache_take(void)
{
    size_t dirty;
    large = smm_large_alloc(LARGE, SMM_BLOCK_ALIGN, &dirty);
}

static void act_cache_trim(void)
{
    (void)smm_large_cache_trim(0, 0);
}

static void act_cache_usage(void)
{
    uint64_t cached, bytes;
    smm_large_cache_usage(&cached, &bytes);
}

static void the_cache_of_large_blocks_is_under_its_lock(void **state)
{
    void (*const acts[])(void) = {act_cache_put, act_cache_take, act_cache_put, act_cache_trim, act_cache_usage};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(acts); i++) {
        smm_large_cache_lock();
        if (!waits_for(acts[i], smm_large_cache_unlock))
            fail_msg("act %u did not wait for the lock", i);
    }
}

static void put_and_stop_when_kept(void)
{
    at(SMM_AT_CACHE_KEPT, 0, wait_at_the_place);
    free_large();
}

static void a_surplus_block_is_taken_out_under_the_lock(void **state)
{
    (void)state;
    assert_true(waits_from_there_on(put_and_stop_when_kept, smm_large_cache_lock, smm_large_cache_unlock));
}

/* ---- What all heaps share ---- */

static int hooked(void **state)
{
    (void)state;
    smm_store_relaxed(&fired, 0);
    smm_test_hook_set(hook);
    return 0;
}

static void act_segment(void)
{
    MUST(smm_segment_take(false) != NULL);
}

static void act_map(void)
{
    MUST(smm_segment_map_prepare((void *)((uintptr_t)3 << 40)));
}

static void act_metadata(void)
{
    MUST(smm_metadata_alloc(64, 64) != NULL);
}

static void segments_their_map_and_metadata_are_under_locks(void **state)
{
    static const struct {
        void (*hold)(void);
        void (*act)(void);
        void (*let_go)(void);
    } cases[] = {
        {smm_segment_lock, act_segment, smm_segment_unlock},
        {smm_segment_map_lock, act_map, smm_segment_map_unlock},
        {smm_metadata_lock, act_metadata, smm_metadata_unlock},
    };

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        cases[i].hold();
        if (!waits_for(cases[i].act, cases[i].let_go))
            fail_msg("act %u did not wait for the lock", i);
    }
}

static struct smm_lock lone_lock;

static void take_lone_lock(void)
{
    smm_lock_acquire(&lone_lock);
}

static void of_two_that_try_a_lock_one_has_it(void **state)
{
    (void)state;
    at(SMM_AT_LOCK_TRY, 0, take_lone_lock);
    assert_false(smm_lock_try(&lone_lock));
    assert_fired(1);
    smm_lock_release(&lone_lock);
    assert_int_equal(smm_load_relaxed(&lone_lock.state), 0);
}

static void release_lone_lock(void)
{
    smm_lock_release(&lone_lock);
}

static void *take_and_release(void *unused)
{
    alarm(5);
    at(SMM_AT_LOCK_WAIT, 0, release_lone_lock);
    take_lone_lock();
    release_lone_lock();
    alarm(0);
    return unused;
}

static void a_lock_released_before_the_sleep_is_not_slept_on(void **state)
{
    (void)state;
    take_lone_lock();
    thread_end(thread_start(take_and_release, NULL));
    assert_fired(1);
}

/* ---- The stack of waiting heaps ---- */

static struct smm_heap_stack stack;
static struct smm_heap waiting[4];

static int stack_setup(void **state)
{
    memset(&stack, 0, sizeof stack);
    memset(waiting, 0, sizeof waiting);
    for (unsigned i = 3; i-- > 0;)
        smm_heap_stack_push(&stack, &waiting[i], &waiting[i]); /* 0 on 1 on 2 */
    return hooked(state);
}

static void pop_two_and_push_the_first(void)
{
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[0]);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[1]);
    smm_heap_stack_push(&stack, &waiting[0], &waiting[0]);
}

/* ABA: the same heap is on top, with another one below it. */
static void a_pop_sees_that_the_same_heap_is_on_top_again(void **state)
{
    (void)state;
    at(SMM_AT_STACK_POP, 0, pop_two_and_push_the_first);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[0]);
    assert_fired(1);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[2]);
    assert_null(smm_heap_stack_pop(&stack));
}

static void pop_one(void)
{
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[0]);
}

static void a_push_that_was_overtaken_lies_on_the_new_top(void **state)
{
    (void)state;
    at(SMM_AT_STACK_PUSH, 0, pop_one);
    smm_heap_stack_push(&stack, &waiting[3], &waiting[3]);
    assert_fired(1);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[3]);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[1]);
    assert_ptr_equal(smm_heap_stack_pop(&stack), &waiting[2]);
    assert_null(smm_heap_stack_pop(&stack));
}

static void push_another(void)
{
    smm_heap_stack_push(&stack, &waiting[3], &waiting[3]);
}

static void a_take_of_all_that_was_overtaken_loses_none(void **state)
{
    (void)state;
    at(SMM_AT_STACK_TAKE, 0, push_another);
    assert_ptr_equal(smm_heap_stack_take_all(&stack), &waiting[3]);
    assert_fired(1);
    assert_null(smm_heap_stack_pop(&stack));
}

/* ---- Birth and death ---- */

static unsigned heap_count(void)
{
    unsigned count = 0;
    for (const struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next)
        count++;
    return count;
}

static void *live(void *unused)
{
    uintptr_t errors = 0;
    void *const block = shardmm_malloc(100);

    (void)unused;
    EXPECT(errors, block != NULL);
    shardmm_free(block);
    return ERRORS(errors);
}

/* At least one heap waits. */
static int heaps_setup(void **state)
{
    thread_end(thread_start(live, NULL));
    return hooked(state);
}

static uintptr_t life_errors;

static void act_live(void)
{
    life_errors = (uintptr_t)live(NULL);
}

static struct visitor life;
static pthread_t born;

static void start_a_life(void)
{
    life = (struct visitor){.act = act_live};
    born = thread_start(visit, &life);
    let_come(&life);
}

/* A collector has all waiting heaps for a moment: no reason to make another. */
static void a_birth_waits_for_the_heaps_that_a_collector_has(void **state)
{
    const unsigned before = heap_count();

    (void)state;
    at(SMM_AT_WAITING_TAKEN, 0, start_a_life);
    (void)smm_purge();
    assert_fired(1);
    thread_end(born);
    assert_int_equal(life_errors, 0);
    assert_int_equal(heap_count(), before);
    struct smm_heap *const all = smm_heap_take_waiting();
    assert_non_null(all);
    smm_heap_put_waiting(all);
}

static struct smm_heap *aside;

static void put_heaps_back(void)
{
    smm_heap_put_waiting(aside);
}

static void *live_without_a_waiting_heap(void *unused)
{
    at(SMM_AT_HEAP_NONE, 0, put_heaps_back);
    return live(unused);
}

static void a_birth_looks_again_before_it_makes_a_heap(void **state)
{
    const unsigned before = heap_count();

    (void)state;
    aside = smm_heap_take_waiting();
    assert_no_errors(thread_end(thread_start(live_without_a_waiting_heap, NULL)));
    assert_fired(1);
    assert_int_equal(heap_count(), before);
}

static struct smm_heap *my_heap;

static void allocate_while_it_is_born(void)
{
    my_heap = smm_heap_self;
    MUST(smm_heap_is_real(my_heap));
    MUST(shardmm_malloc(5000) != NULL);
    MUST(smm_heap_self == my_heap);
}

static void *be_born_and_live(void *unused)
{
    at(SMM_AT_HEAP_BORN, 0, allocate_while_it_is_born);
    return live(unused);
}

/* The system allocates while it notes that the thread's end is to be told. */
static void a_thread_has_its_heap_before_it_asks_for_its_end(void **state)
{
    (void)state;
    assert_no_errors(thread_end(thread_start(be_born_and_live, NULL)));
    assert_fired(1);
}

static bool is_waiting(const struct smm_heap *heap)
{
    struct smm_heap *const all = smm_heap_take_waiting();
    const struct smm_heap *at = all;

    while (at != NULL && at != heap)
        at = smm_load_relaxed(&at->next_waiting);
    smm_heap_put_waiting(all);
    return at != NULL;
}

static void use_after_the_end(void)
{
    MUST(smm_heap_self == &smm_ended_heap);
    MUST(!is_waiting(my_heap)); /* it is not yet anybody's */
    void *const block = shardmm_malloc(100);
    MUST(block != NULL);
    MUST(smm_heap_self == &smm_ended_heap);
    shardmm_free(block);
}

static void *end_and_use_after(void *argument)
{
    void *const result = live(NULL);
    my_heap = smm_heap_self;
    at(*(const enum smm_test_point *)argument, 0, use_after_the_end);
    return result;
}

/* A thread gives its heap up before it prepares it for the next one. */
static void an_ended_thread_has_no_heap(void **state)
{
    static const enum smm_test_point places[] = {SMM_AT_HEAP_ENDED, SMM_AT_HEAP_SETTLED};

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(places); i++) {
        enum smm_test_point place = places[i];
        assert_no_errors(thread_end(thread_start(end_and_use_after, &place)));
    }
    assert_fired(2);
}

static void *live_with_much(void *heap)
{
    enum { MUCH = 100 };
    uintptr_t errors = 0;
    void *all[MUCH];

    for (unsigned i = 0; i < MUCH; i++)
        all[i] = shardmm_malloc(SIZE);
    *(struct smm_heap **)heap = smm_heap_self;
    for (unsigned i = 0; i < MUCH; i++)
        shardmm_free(all[i]);
    EXPECT(errors, smm_load_relaxed(&smm_heap_self->small.pool.dirty_count) > 10);
    return ERRORS(errors);
}

static void an_ended_heap_keeps_no_more_than_the_reserve(void **state)
{
    const uint32_t reserve = smm_load_relaxed(&smm_collect_settings.reserve_pages);
    struct smm_heap *heap = NULL;

    (void)state;
    smm_store_relaxed(&smm_collect_settings.reserve_pages, 3);
    assert_no_errors(thread_end(thread_start(live_with_much, &heap)));
    smm_store_relaxed(&smm_collect_settings.reserve_pages, reserve);
    assert_int_equal(smm_load_relaxed(&heap->small.pool.dirty_count), 3);
    assert_ptr_equal(heap->small.classes[CLASS].first, SMM_EMPTY_PAGE);
}

static pthread_barrier_t both;

static void *live_with_another(void *result)
{
    void *const block = shardmm_malloc(100);
    *(struct smm_heap **)result = smm_heap_self;
    pthread_barrier_wait(&both);
    shardmm_free(block);
    return NULL;
}

/* A heap that ended lies in the stack once. */
static void two_threads_have_two_heaps(void **state)
{
    struct smm_heap *had[2] = {NULL, NULL};
    pthread_t threads[2];

    (void)state;
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    for (unsigned i = 0; i < 2; i++)
        threads[i] = thread_start(live_with_another, &had[i]);
    for (unsigned i = 0; i < 2; i++)
        thread_end(threads[i]);
    assert_true(smm_heap_is_real(had[0]) && smm_heap_is_real(had[1]));
    assert_ptr_not_equal(had[0], had[1]);
    pthread_barrier_destroy(&both);
}

static unsigned waiting_count(void)
{
    struct smm_heap *const all = smm_heap_take_waiting();
    unsigned count = 0;

    for (const struct smm_heap *heap = all; heap != NULL; heap = smm_load_relaxed(&heap->next_waiting))
        count++;
    smm_heap_put_waiting(all);
    return count;
}

static void no_heap_is_lost_by_a_collector(void **state)
{
    unsigned before;

    two_threads_have_two_heaps(state); /* that wait now */
    before = waiting_count();
    assert_true(before >= 2);
    (void)smm_purge();
    assert_int_equal(waiting_count(), before);
}

/* ---- Collectors, and the heap for threads without one ---- */

static void let_collect_go(void)
{
    smm_lock_release(&smm_collect_lock);
}

static void let_shared_go(void)
{
    smm_lock_release(&smm_shared_heap_lock);
}

static void act_purge(void)
{
    (void)smm_purge();
}

static void act_birth(void)
{
    struct smm_heap *const all = smm_heap_take_waiting();
    struct smm_heap *const made = smm_heap_enter();

    MUST(made != NULL);
    smm_heap_leave(made);
    smm_heap_put_waiting(all);
}

static void act_without_a_heap(void)
{
    struct smm_heap *const had = smm_heap_self;

    smm_heap_self = &smm_ended_heap;
    shardmm_free(shardmm_malloc(100));
    smm_heap_self = had;
}

static void collecting_and_making_heaps_are_under_one_lock(void **state)
{
    (void)state;
    smm_lock_acquire(&smm_collect_lock);
    assert_true(waits_for(act_purge, let_collect_go));
    smm_lock_acquire(&smm_collect_lock);
    assert_true(waits_for(act_birth, let_collect_go));
}

static void the_shared_heap_is_under_a_lock(void **state)
{
    (void)state;
    act_without_a_heap(); /* it exists */
    smm_lock_acquire(&smm_shared_heap_lock);
    assert_true(waits_for(act_without_a_heap, let_shared_go));
    smm_lock_acquire(&smm_shared_heap_lock);
    assert_true(waits_for(act_purge, let_shared_go));
}

static void nothing(void)
{
}

static void tick(void)
{
    at(SMM_AT_WAITING_TAKEN, 0, nothing);
    smm_tick();
    armed_at = SMM_AT_COUNT;
}

static void *tick_in_thread(void *unused)
{
    tick();
    return unused;
}

static void a_tick_does_not_collect_beside_another_collector(void **state)
{
    const uint64_t delay = smm_load_relaxed(&smm_collect_settings.delay);

    (void)state;
    smm_store_relaxed(&smm_collect_settings.delay, 0);
    sleep_ms(20);
    smm_lock_acquire(&smm_collect_lock);
    thread_end(thread_start(tick_in_thread, NULL)); /* nor does it wait */
    smm_lock_release(&smm_collect_lock);
    assert_fired(0);
    sleep_ms(20);
    tick();
    assert_fired(1);
    smm_store_relaxed(&smm_collect_settings.delay, delay);
}

/* The order of memory that shows the shared heap; see a_collector_sees_... above. First of all that use it. */
static void stop_before_the_first_use(void)
{
    smm_store_relaxed(&step, 1);
    await(2);
}

static void *make_the_shared_heap(void *unused)
{
    uintptr_t errors = 0;
    (void)unused;

    smm_heap_self = &smm_ended_heap;
    at(SMM_AT_SHARED_SHOWN, 0, stop_before_the_first_use);
    void *const block = shardmm_malloc(100);
    EXPECT(errors, block != NULL);
    if (smm_load_relaxed(&fired) == 0)
        smm_store_relaxed(&step, 1);
    smm_heap_self = &smm_empty_heap;
    return ERRORS(errors);
}

static void *use_the_shared_heap(void *unused)
{
    uintptr_t errors = 0;
    (void)unused;

    smm_heap_self = &smm_ended_heap;
    await(1);
    void *const block = shardmm_malloc(100);
    EXPECT(errors, block != NULL);
    smm_store_relaxed(&step, 2);
    smm_heap_self = &smm_empty_heap;
    return ERRORS(errors);
}

static void the_shared_heap_is_seen_whole(void **state)
{
    (void)state;
    smm_store_relaxed(&step, 0);
    const pthread_t maker = thread_start(make_the_shared_heap, NULL);
    const pthread_t user = thread_start(use_the_shared_heap, NULL);
    assert_no_errors(thread_end(maker));
    assert_no_errors(thread_end(user));
    assert_fired(1);
}

/* ---- fork ---- */

/* Not under the thread sanitizer: it reports threads of the parent as leaked by the child, and wants none started in
 * one. */
#if defined(__SANITIZE_THREAD__)
#define WITH_FORKS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_FORKS 0
#endif
#endif
#ifndef WITH_FORKS
#define WITH_FORKS 1
#endif

#if WITH_FORKS

static void take_and_let_go(struct smm_lock *lock)
{
    smm_lock_acquire(lock);
    smm_lock_release(lock);
}

static void act_collect_lock(void)
{
    take_and_let_go(&smm_collect_lock);
}

static void act_shared_lock(void)
{
    take_and_let_go(&smm_shared_heap_lock);
}

static void act_pool_lock(void)
{
    smm_gated_acquire(&smm_heap_first()->small.pool.lock);
    smm_gated_release(&smm_heap_first()->small.pool.lock);
}

static void act_medium_lock(void)
{
    smm_gated_acquire(&smm_heap_first()->medium.lock);
    smm_gated_release(&smm_heap_first()->medium.lock);
}

static void act_cache_lock(void)
{
    smm_large_cache_lock();
    smm_large_cache_unlock();
}

static void act_segment_lock(void)
{
    smm_segment_lock();
    smm_segment_unlock();
}

static void act_map_lock(void)
{
    smm_segment_map_lock();
    smm_segment_map_unlock();
}

static void act_metadata_lock(void)
{
    smm_metadata_lock();
    smm_metadata_unlock();
}

static void (*const lock_acts[])(void) = {act_collect_lock, act_shared_lock, act_pool_lock, act_medium_lock,
                                          act_cache_lock, act_segment_lock, act_map_lock, act_metadata_lock};
static struct visitor lock_visitors[COUNT_OF(lock_acts)];
static pthread_t lock_threads[COUNT_OF(lock_acts)];
static unsigned passed;

static void try_all_locks(void)
{
    for (unsigned i = 0; i < COUNT_OF(lock_acts); i++) {
        lock_visitors[i].act = lock_acts[i];
        smm_store_relaxed(&lock_visitors[i].done, false);
        smm_store_relaxed(&lock_visitors[i].thread, 0);
        lock_threads[i] = thread_start(visit, &lock_visitors[i]);
    }
    passed = 0;
    for (unsigned i = 0; i < COUNT_OF(lock_acts); i++)
        let_come(&lock_visitors[i]);
    for (unsigned i = 0; i < COUNT_OF(lock_acts); i++)
        passed |= (unsigned)smm_load_acquire(&lock_visitors[i].done) << i;
}

/* Nobody is in the middle of anything when the process is copied, and nothing is locked afterwards, in the parent and
 * in the child, also where others slept on a lock. */
static void all_locks_are_held_over_a_fork_and_free_after_it(void **state)
{
    int status = -1;
    struct smm_heap *heap;

    (void)state;
    passed = ~0u;
    fflush(NULL);
    at(SMM_AT_FORK_LOCKED, 0, try_all_locks);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(4);
        for (unsigned i = 0; i < COUNT_OF(lock_acts); i++)
            lock_acts[i]();
        for (heap = smm_heap_first(); heap != NULL; heap = heap->next)
            if (smm_load_relaxed(&heap->small.pool.lock.inner.state) != 0 ||
                smm_load_relaxed(&heap->medium.lock.inner.state) != 0)
                _exit(2);
        if (smm_load_relaxed(&smm_fork_holder) != 0 || smm_load_relaxed(&smm_fork_gate) != 0)
            _exit(3);
        if (fork() == 0) /* which takes the lock of forks again */
            _exit(0);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_fired(1);
    assert_int_equal(passed, 0);
    alarm(5);
    for (unsigned i = 0; i < COUNT_OF(lock_acts); i++)
        thread_end(lock_threads[i]);
    for (unsigned i = 0; i < COUNT_OF(lock_acts); i++)
        lock_acts[i]();
    alarm(0);
    for (heap = smm_heap_first(); heap != NULL; heap = heap->next)
        assert_true(smm_load_relaxed(&heap->small.pool.lock.inner.state) == 0 &&
                    smm_load_relaxed(&heap->medium.lock.inner.state) == 0);
}

static void act_fork(void)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0)
        _exit(0);
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void let_first_pool_go(void)
{
    smm_gated_release(&smm_heap_first()->small.pool.lock);
}

static void let_first_medium_go(void)
{
    smm_gated_release(&smm_heap_first()->medium.lock);
}

static void a_fork_waits_for_who_holds_a_lock_of_a_heap(void **state)
{
    (void)state;
    smm_gated_acquire(&smm_heap_first()->small.pool.lock);
    assert_true(waits_for(act_fork, let_first_pool_go));
    smm_gated_acquire(&smm_heap_first()->medium.lock);
    assert_true(waits_for(act_fork, let_first_medium_go));
}

static void (*lock_late)(void);
static pthread_t late_thread;

static void *lock_and_stop_before_the_gate(void *unused)
{
    at(SMM_AT_LOCK_GATE, 0, wait_at_the_place);
    lock_late();
    return unused;
}

static void start_who_locks_late(void)
{
    late_thread = thread_start(lock_and_stop_before_the_gate, NULL);
    while (!smm_load_acquire(&visitor_is_there))
        smm_os_yield();
}

/* Nobody is there in the child who would give it back. */
static void a_lock_taken_behind_the_gate_is_free_in_the_child(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int status = -1;
        lock_late = i == 0 ? act_pool_lock : act_medium_lock;
        smm_store_relaxed(&visitor_is_there, false);
        smm_store_relaxed(&visitor_may_go, false);
        fflush(NULL);
        at(SMM_AT_FORK_LOCKED, 0, start_who_locks_late);
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(2);
            lock_late();
            _exit(0);
        }
        smm_store_release(&visitor_may_go, true);
        thread_end(late_thread);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_fired(4);
}

static struct visitor lock_user;
static pthread_t lock_user_thread;

static void start_lock_user(void)
{
    lock_user_thread = thread_start(visit, &lock_user);
    let_come(&lock_user);
}

static void use_new_arenas(void)
{
    for (unsigned i = 0; i < 9; i++)
        MUST(shardmm_malloc(SMM_MIB - 4096) != NULL);
}

static void use_all(void)
{
    act_purge();
    act_without_a_heap();
}

enum { LOCKS_OF_A_FORK = 8 };

/* Whoever holds two locks has taken them in one order, the thread that forks too: it meets others after each of its
 * locks, and before its gate. A dead-lock is ended by the alarm of the child that this happens in. */
static void a_fork_and_others_do_not_wait_for_each_other(void **state)
{
    void (*const users[])(void) = {use_all, use_new_arenas, act_segment};
    int status = -1;

    (void)state;
    act_without_a_heap(); /* the shared heap is there */
    for (unsigned i = 0; i < COUNT_OF(users); i++)
        for (unsigned lock = 0; lock < LOCKS_OF_A_FORK + 1; lock++) {
            const pid_t child = fork();
            if (child == 0) {
                signal(SIGALRM, SIG_DFL);
                alarm(3);
                lock_user.act = users[i];
                if (lock < LOCKS_OF_A_FORK)
                    at(SMM_AT_LOCK_HELD, lock, start_lock_user);
                else
                    at(SMM_AT_GATE_CLOSED, 0, start_lock_user);
                if (fork() == 0)
                    _exit(0);
                if (armed_at == SMM_AT_COUNT)
                    thread_end(lock_user_thread);
                _exit(0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            if (status != 0)
                fail_msg("user %u after lock %u: status 0x%x", i, lock, (unsigned)status);
        }
}

/* Registered before the library's own, so that it runs when all is locked. */
static bool handler_allocates;

static void allocate_in_handler(void)
{
    static const size_t sizes[] = {100, SIZE, MEDIUM, LARGE};

    if (!handler_allocates)
        return;
    for (unsigned i = 0; i < COUNT_OF(sizes); i++)
        shardmm_free(shardmm_malloc(sizes[i]));
    (void)smm_purge();
}

__attribute__((constructor(101))) static void register_handler(void)
{
    if (pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler) != 0)
        abort();
}

static void fork_handlers_of_others_pass_through_all_locks(void **state)
{
    int status = -1;
    const pid_t child = fork();

    (void)state;
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(4);
        handler_allocates = true;
        const pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(0);
        if (waitpid(grandchild, &status, 0) != grandchild || status != 0)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static _Atomic(bool) may_end;

static void *live_until_told(void *unused)
{
    void *const result = live(unused);
    smm_store_release(&visitor_is_there, true);
    while (!smm_load_acquire(&may_end))
        smm_os_yield();
    return result;
}

/* Heaps of threads that the child does not have get no new owner, and keep nothing for one. */
static void heaps_of_other_threads_are_orphans_in_the_child(void **state)
{
    int status = -1;

    (void)state;
    smm_store_relaxed(&visitor_is_there, false);
    smm_store_relaxed(&may_end, false);
    const pthread_t thread = thread_start(live_until_told, NULL);
    while (!smm_load_acquire(&visitor_is_there))
        smm_os_yield();
    shardmm_free(shardmm_malloc(100));
    const pid_t child = fork();
    if (child == 0) {
        unsigned live_heaps = 0, orphans = 0;
        for (const struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
            live_heaps += smm_heap_state(heap) == SMM_HEAP_LIVE;
            orphans += smm_heap_state(heap) == SMM_HEAP_ORPHAN;
        }
        _exit(live_heaps == 1 && orphans == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    smm_store_release(&may_end, true);
    assert_no_errors(thread_end(thread));
}

#endif

#define small_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define medium_test(name) cmocka_unit_test_setup_teardown(name, medium_setup, teardown)
#define large_test(name) cmocka_unit_test_setup_teardown(name, large_setup, teardown)
#define stack_test(name) cmocka_unit_test_setup_teardown(name, stack_setup, teardown)
#define heap_test(name) cmocka_unit_test_setup_teardown(name, heaps_setup, teardown)
#define plain_test(name) cmocka_unit_test_setup_teardown(name, hooked, teardown)

static int start(void **state)
{
    shardmm_free(shardmm_malloc(1)); /* the library's start */
    return segment_map_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        plain_test(the_shared_heap_is_seen_whole), /* before it exists */
        small_test(a_push_that_was_overtaken_links_to_the_new_head),
        small_test(a_take_that_was_overtaken_takes_all),
        small_test(queueing_that_was_overtaken_queues_both),
        small_test(a_page_queued_again_while_it_is_drained_does_not_end_the_queue),
        small_test(a_page_queued_while_the_queue_is_taken_is_not_lost),
        small_test(a_drain_between_push_and_queueing_leaves_the_page_alone),
        small_test(a_push_to_a_page_whose_list_was_borrowed_queues_it_once),
        small_test(a_borrower_that_was_overtaken_takes_nothing),
        small_test(the_list_of_a_page_that_changed_its_use_is_given_back_to_it),
        small_test(a_list_is_returned_to_what_was_pushed_meanwhile),
        small_test(a_page_that_its_owner_took_meanwhile_is_not_purged),
        small_test(a_page_that_is_dead_no_more_is_not_purged),
        small_test(a_page_that_a_collector_works_on_is_left_alone_and_stays_queued),
        small_test(a_page_used_between_two_visits_is_not_seen_dead),
        small_test(a_page_taken_while_it_is_noted_is_not_noted),
        small_test(a_collector_sees_what_was_pushed_when_the_word_came_back),
        small_test(pages_under_decommit_are_nobodys),
        small_test(the_free_pages_of_a_heap_are_under_its_lock),
        small_test(pages_come_back_from_the_system_under_the_lock),
        medium_test(of_two_that_free_a_medium_block_the_second_is_told),
        medium_test(a_medium_block_freed_while_it_is_resized_is_told),
        medium_test(a_block_that_is_flagged_and_not_listed_is_no_neighbour_to_merge_with),
        medium_test(a_medium_push_that_was_overtaken_lists_both),
        medium_test(what_is_freed_while_others_are_merged_waits_for_the_next_time),
        medium_test(medium_blocks_are_under_the_lock_of_their_heap),
        medium_test(chunks_are_purged_under_the_lock),
        large_test(of_two_that_free_a_large_block_the_second_is_told),
        large_test(a_block_between_its_life_and_the_cache_is_freed),
        large_test(addresses_are_struck_out_before_they_may_be_somebody_elses),
        large_test(the_cache_of_large_blocks_is_under_its_lock),
        large_test(a_surplus_block_is_taken_out_under_the_lock),
        plain_test(segments_their_map_and_metadata_are_under_locks),
        plain_test(of_two_that_try_a_lock_one_has_it),
        plain_test(a_lock_released_before_the_sleep_is_not_slept_on),
        stack_test(a_pop_sees_that_the_same_heap_is_on_top_again),
        stack_test(a_push_that_was_overtaken_lies_on_the_new_top),
        stack_test(a_take_of_all_that_was_overtaken_loses_none),
        heap_test(two_threads_have_two_heaps),
        heap_test(a_birth_waits_for_the_heaps_that_a_collector_has),
        heap_test(a_birth_looks_again_before_it_makes_a_heap),
        heap_test(a_thread_has_its_heap_before_it_asks_for_its_end),
        heap_test(an_ended_thread_has_no_heap),
        heap_test(an_ended_heap_keeps_no_more_than_the_reserve),
        heap_test(no_heap_is_lost_by_a_collector),
        heap_test(collecting_and_making_heaps_are_under_one_lock),
        heap_test(the_shared_heap_is_under_a_lock),
        heap_test(a_tick_does_not_collect_beside_another_collector),
#if WITH_FORKS
        heap_test(all_locks_are_held_over_a_fork_and_free_after_it),
        heap_test(a_fork_waits_for_who_holds_a_lock_of_a_heap),
        heap_test(a_lock_taken_behind_the_gate_is_free_in_the_child),
        heap_test(a_fork_and_others_do_not_wait_for_each_other),
        heap_test(fork_handlers_of_others_pass_through_all_locks),
        heap_test(heaps_of_other_threads_are_orphans_in_the_child),
#endif
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
