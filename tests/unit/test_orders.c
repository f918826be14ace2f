/* SPDX-License-Identifier: MIT */
/* test_orders.c - each release and the acquire that it pairs with: two threads, of which the second begins when the
 * first is done, and nothing orders them but the words of the library.
 *
 * Holds off memory orders that are too weak. This processor does the same with weaker ones; the thread sanitizer
 * does not: in its builds each case here ends in a report when an order that it names is weakened. In other builds
 * these are tests that what one thread has left the next one finds. */
#include "heap/heap.h"
#include "heap/heap_stack.h"

#include <errno.h>
#include <sys/syscall.h>

#include <shardmm/shardmm.h>

#include "platform/platform.h"
#include "small/foreign_free.h"
#include "unit.h"

enum { CLASS = SMM_CLASS_COUNT - 1, ITEMS = 4 }; /* of 16 KiB */

/* ---- One thread after the other, without an order that the sanitizer knows ---- */

static _Atomic(unsigned) step;

static void tell(unsigned number)
{
    smm_store_relaxed(&step, number);
}

static void await(unsigned number)
{
    while (smm_load_relaxed(&step) < number)
        smm_os_yield();
}

typedef uintptr_t part(void);
struct turn {
    part *run;
    unsigned after; /* the step */
};

static void *take_turn(void *argument)
{
    const struct turn *const turn = argument;
    uintptr_t errors;

    await(turn->after);
    errors = turn->run();
    tell(turn->after + 1);
    /* Neither ends before both are done: the end of a thread orders, too. */
    await(2);
    return ERRORS(errors);
}

static void one_after_the_other(part *first, part *second)
{
    struct turn turns[2] = {{first, 0}, {second, 1}};

    smm_store_relaxed(&step, 0);
    const pthread_t a = thread_start(take_turn, &turns[0]);
    const pthread_t b = thread_start(take_turn, &turns[1]);
    const uintptr_t errors = (uintptr_t)thread_end(a) + (uintptr_t)thread_end(b);
    assert_int_equal(errors, 0);
}

/* ---- The start of the library, before its constructor ---- */

static uintptr_t start_errors;

static uintptr_t use_first(void)
{
    uintptr_t errors = 0;
    void *const block = shardmm_malloc(100);
    EXPECT(errors, block != NULL);
    return errors; /* the block stays: a free would be one more thing that may order */
}

static uintptr_t use_next(void)
{
    uintptr_t errors = 0;
    /* The lookup that every free begins with, before anything that starts this thread. */
    EXPECT(errors, smm_kind_of(NULL) == SMM_KIND_NONE);
    void *const block = shardmm_malloc(100);
    EXPECT(errors, block != NULL);
    return errors;
}

static void *use_after_the_first(void *unused)
{
    uintptr_t errors;
    (void)unused;

    await(1);
    errors = use_next();
    tell(2);
    return ERRORS(errors);
}

static void *be_the_first(void *unused)
{
    const uintptr_t errors = use_first();
    (void)unused;

    tell(1);
    await(2);
    return ERRORS(errors);
}

__attribute__((constructor(101))) static void start_by_two_threads(void)
{
    pthread_t threads[2];
    void *results[2] = {NULL, NULL};

    if (pthread_create(&threads[0], NULL, be_the_first, NULL) != 0 ||
        pthread_create(&threads[1], NULL, use_after_the_first, NULL) != 0)
        abort();
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], &results[i]);
        start_errors += (uintptr_t)results[i];
    }
}

static void the_start_by_one_thread_is_seen_by_the_next(void **state)
{
    (void)state;
    assert_int_equal(start_errors, 0);
}

/* ---- Heaps of the test's own ---- */

static struct smm_small heaps[2];
static struct smm_small *const mine = &heaps[0];
static struct smm_small *const other = &heaps[1];
static char *items[ITEMS];
static struct smm_page *page;

static char *alloc(struct smm_small *heap)
{
    struct smm_page *const found = smm_small_find_page(heap, CLASS);
    return found != NULL ? smm_page_pop(found) : NULL;
}

/* A full page of mine. */
static int full_page(void **state)
{
    (void)state;
    memset(heaps, 0, sizeof heaps);
    for (unsigned i = 0; i < 2; i++)
        smm_small_init(&heaps[i]);
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_NEVER);
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i] = alloc(mine);
        memset(items[i], 0, 32);
    }
    page = smm_page_of(items[0]);
    return 0;
}

static uintptr_t push_all(void)
{
    uintptr_t errors = 0;

    for (unsigned i = 0; i < ITEMS; i++) {
        memset(items[i], 0x21, 32); /* what the program did with it */
        EXPECT(errors, smm_small_free_foreign(NULL, page, items[i]) == SMM_FAULT_NONE);
    }
    return errors;
}

static uintptr_t walk(uint64_t word)
{
    uintptr_t errors = 0;
    struct smm_item *item = smm_foreign_item(page, smm_foreign_head(word));

    EXPECT(errors, smm_foreign_count(word) == ITEMS);
    for (unsigned i = ITEMS; i-- > 0; item = item->link) {
        EXPECT(errors, item == (void *)items[i]);
        if (errors != 0)
            return errors;
        ((char *)item)[31] = 1;
        if (i == 0)
            break;
    }
    return errors;
}

static uintptr_t take_word(void)
{
    return walk(smm_foreign_take(page));
}

/* push: release. take: acquire. */
static void what_is_pushed_is_seen_by_the_owner_that_takes_it(void **state)
{
    (void)state;
    one_after_the_other(push_all, take_word);
}

static uintptr_t borrow_word(void)
{
    return walk(smm_foreign_borrow(page, CLASS));
}

/* push: release. borrow: acquire. */
static void what_is_pushed_is_seen_by_the_borrower(void **state)
{
    (void)state;
    one_after_the_other(push_all, borrow_word);
}

static uintptr_t drain(void)
{
    uintptr_t errors = 0;
    EXPECT(errors, smm_small_drain(mine));
    return errors;
}

/* notify: release. The take of the queue: acquire. */
static void the_link_of_a_queued_page_is_seen_by_the_owner(void **state)
{
    (void)state;
    one_after_the_other(push_all, drain);
    assert_null(smm_load_relaxed(&mine->notified));
}

static uintptr_t push_last(void)
{
    uintptr_t errors = 0;
    EXPECT(errors, smm_small_free_foreign(NULL, page, items[ITEMS - 1]) == SMM_FAULT_NONE);
    EXPECT(errors, smm_load_relaxed(&mine->notified) == page);
    return errors;
}

/* take: release. push: acquire. The owner reads a page's link, then takes its word; whoever pushes after that may
 * write the link. */
static void the_link_is_read_before_the_next_push_writes_it(void **state)
{
    (void)state;
    assert_int_equal(smm_small_free_foreign(NULL, page, items[0]), SMM_FAULT_NONE);
    one_after_the_other(drain, push_last);
}

/* ---- Lists that only grow ---- */

static uintptr_t take_two_segments(void)
{
    uintptr_t errors = 0;

    for (unsigned i = 0; i < 2 * SMM_PAGE_COUNT; i++) {
        bool clean;
        struct smm_page *const taken = smm_pool_take(&mine->pool, mine, &clean);
        EXPECT(errors, taken != NULL);
    }
    return errors;
}

static uintptr_t ask_for_usage(void)
{
    uintptr_t errors = 0;
    int64_t blocks, bytes;

    smm_small_usage(mine, &blocks, &bytes);
    EXPECT(errors, blocks == ITEMS);
    return errors;
}

static void new_segments_are_seen_by_statistics(void **state)
{
    (void)state;
    one_after_the_other(take_two_segments, ask_for_usage);
}

static uintptr_t purge_nothing(void)
{
    uintptr_t errors = 0;
    EXPECT(errors, smm_small_purge_dead(mine, true) == 0);
    return errors;
}

static void new_segments_are_seen_by_collectors(void **state)
{
    (void)state;
    /* Something is queued, or nothing would be looked at. */
    assert_int_equal(smm_small_free_foreign(NULL, page, items[0]), SMM_FAULT_NONE);
    one_after_the_other(take_two_segments, purge_nothing);
}

static uintptr_t borrow_one(void)
{
    uintptr_t errors = 0;
    EXPECT(errors, alloc(other) == items[ITEMS - 1]);
    return errors;
}

static uintptr_t ask_the_borrower(void)
{
    uintptr_t errors = 0;
    int64_t blocks, bytes;

    smm_small_usage(other, &blocks, &bytes);
    EXPECT(errors, blocks == -(ITEMS - 1));
    return errors;
}

static void a_new_stand_in_is_seen_by_statistics(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(smm_small_free_foreign(other, page, items[i]), SMM_FAULT_NONE);
    one_after_the_other(borrow_one, ask_the_borrower);
}

static unsigned heap_count(void)
{
    unsigned count = 0;
    for (const struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next)
        count++;
    return count;
}

static unsigned heaps_before;
static struct smm_heap *hidden; /* the waiting heaps, so that a thread has to make one */

static uintptr_t be_born(void)
{
    uintptr_t errors = 0;
    void *const block = shardmm_malloc(100);

    EXPECT(errors, block != NULL);
    return errors;
}

static uintptr_t count_heaps(void)
{
    uintptr_t errors = 0;
    EXPECT(errors, heap_count() == heaps_before + 1);
    return errors;
}

static void a_new_heap_is_seen_by_who_walks_over_all(void **state)
{
    (void)state;
    heaps_before = heap_count();
    hidden = smm_heap_take_waiting();
    one_after_the_other(be_born, count_heaps);
    smm_heap_put_waiting(hidden);
}

/* ---- The stack of waiting heaps ---- */

static struct smm_heap_stack stack;
static struct smm_heap waiting;

static uintptr_t push_heap(void)
{
    waiting.slow_paths = 7;
    smm_heap_stack_push(&stack, &waiting, &waiting);
    return 0;
}

static uintptr_t pop_heap(void)
{
    uintptr_t errors = 0;
    const struct smm_heap *const heap = smm_heap_stack_pop(&stack);

    EXPECT(errors, heap == &waiting && heap->slow_paths == 7);
    return errors;
}

static uintptr_t take_heaps(void)
{
    uintptr_t errors = 0;
    const struct smm_heap *const heap = smm_heap_stack_take_all(&stack);

    EXPECT(errors, heap == &waiting && heap->slow_paths == 7);
    return errors;
}

static void a_heap_is_handed_on_with_all_that_was_done_to_it(void **state)
{
    (void)state;
    one_after_the_other(push_heap, pop_heap);
    one_after_the_other(push_heap, take_heaps);
}

/* ---- Medium blocks ---- */

static struct smm_medium medium, foreign_medium;
static char *blocks[3];

static uintptr_t free_medium_blocks(void)
{
    uintptr_t errors = 0;

    for (unsigned i = 0; i < 3; i++) {
        memset(blocks[i], 0x21, 100);
        EXPECT(errors, smm_medium_free(&foreign_medium, blocks[i]) == SMM_FAULT_NONE);
    }
    return errors;
}

static uintptr_t merge_medium_blocks(void)
{
    uintptr_t errors = 0;

    smm_medium_drain(&medium);
    EXPECT(errors, medium.index.levels == 0 && medium.carving->live == 0);
    return errors;
}

/* The push onto the list: release. The take of it: acquire. */
static void what_is_freed_is_seen_by_who_merges_it(void **state)
{
    size_t dirty;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = smm_medium_alloc(&medium, 30000, SMM_BLOCK_ALIGN, &dirty);
        assert_non_null(blocks[i]);
        memset(blocks[i], 0, 100);
    }
    one_after_the_other(free_medium_blocks, merge_medium_blocks);
}

/* ---- Locks ---- */

static struct smm_lock lock;
static unsigned under_lock;

static uintptr_t write_under_lock(void)
{
    smm_lock_acquire(&lock);
    under_lock = 1;
    smm_lock_release(&lock);
    return 0;
}

static uintptr_t read_under_lock(void)
{
    uintptr_t errors = 0;

    smm_lock_acquire(&lock);
    EXPECT(errors, under_lock == 1);
    smm_lock_release(&lock);
    return errors;
}

static uintptr_t read_under_tried_lock(void)
{
    uintptr_t errors = 0;
    const bool held = smm_lock_try(&lock);

    EXPECT(errors, held && under_lock == 1);
    smm_lock_release(&lock);
    return errors;
}

static void what_is_done_under_a_lock_is_seen_by_the_next_holder(void **state)
{
    (void)state;
    under_lock = 0;
    one_after_the_other(write_under_lock, read_under_lock);
    under_lock = 0;
    one_after_the_other(write_under_lock, read_under_tried_lock);
}

static struct smm_gated_lock gated;

static uintptr_t write_under_gated_lock(void)
{
    smm_gated_acquire(&gated);
    under_lock = 1;
    smm_gated_release(&gated);
    return 0;
}

static uintptr_t read_under_gated_lock(void)
{
    uintptr_t errors = 0;

    smm_gated_acquire(&gated);
    EXPECT(errors, under_lock == 1);
    smm_gated_release(&gated);
    return errors;
}

static uintptr_t read_under_tried_gated_lock(void)
{
    uintptr_t errors = 0;
    const bool held = smm_gated_try(&gated);

    EXPECT(errors, held && under_lock == 1);
    smm_gated_release(&gated);
    return errors;
}

static uintptr_t read_behind_the_gate(void)
{
    uintptr_t errors = 0;

    smm_gate_close();
    smm_gate_await(&gated);
    EXPECT(errors, under_lock == 1);
    smm_gate_open();
    return errors;
}

static void what_is_done_under_a_gated_lock_is_seen_by_the_next_holder(void **state)
{
    (void)state;
    under_lock = 0;
    one_after_the_other(write_under_gated_lock, read_under_gated_lock);
    under_lock = 0;
    one_after_the_other(write_under_gated_lock, read_under_tried_gated_lock);
}

static void what_is_done_under_a_gated_lock_is_seen_by_who_awaits_it(void **state)
{
    (void)state;
    under_lock = 0;
    one_after_the_other(write_under_gated_lock, read_behind_the_gate);
}

static void *write_when_another_sleeps(void *unused)
{
    (void)unused;
    smm_lock_acquire(&lock);
    tell(1);
    while (smm_load_relaxed(&lock.state) != 2)
        smm_os_yield();
    sleep_ms(5);
    under_lock = 1;
    smm_lock_release(&lock);
    await(2);
    return NULL;
}

static void *read_after_sleep(void *unused)
{
    (void)unused;
    await(1);
    const uintptr_t errors = read_under_lock();
    tell(2);
    return ERRORS(errors);
}

/* The exchange to 2: acquire. */
static void who_slept_on_a_lock_sees_what_was_done_under_it(void **state)
{
    (void)state;
    under_lock = 0;
    smm_store_relaxed(&step, 0);
    const pthread_t writer = thread_start(write_when_another_sleeps, NULL);
    const pthread_t reader = thread_start(read_after_sleep, NULL);
    assert_no_errors(thread_end(writer));
    assert_no_errors(thread_end(reader));
}

/* ---- Memory of dead pages ---- */

static _Atomic(bool) refuse_advice;

/* In the place of the C library's: a system that keeps memory. */
int madvise(void *address, size_t size, int advice);
int madvise(void *address, size_t size, int advice)
{
    if (smm_load_relaxed(&refuse_advice)) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, size, advice);
}

static uintptr_t purge_dead(void)
{
    uintptr_t errors = 0;
    const size_t expected = smm_load_relaxed(&refuse_advice) ? 0 : SMM_PAGE_SIZE;

    EXPECT(errors, smm_small_purge_dead(mine, true) == expected);
    return errors;
}

static uintptr_t use_anew(void)
{
    uintptr_t errors = drain();

    for (unsigned i = 0; i < ITEMS; i++) {
        char *const item = alloc(mine);
        EXPECT(errors, item != NULL && smm_page_of(item) == page);
        if (errors != 0)
            return errors;
        memset(item, 0x42, 100);
    }
    return errors;
}

/* The store of purged: release. The first time, a word of the page is written to find out what the system does. */
static void the_owner_finds_the_memory_of_a_purged_page_as_it_was_left(void **state)
{
    (void)state;
    (void)push_all();
    one_after_the_other(purge_dead, use_anew);
}

/* The store of the list that was linked anew: release. */
static void the_owner_finds_the_list_that_was_linked_anew(void **state)
{
    (void)state;
    (void)push_all();
    smm_store_relaxed(&refuse_advice, true);
    one_after_the_other(purge_dead, use_anew);
    smm_store_relaxed(&refuse_advice, false);
}

#define small_test(name) cmocka_unit_test_setup(name, full_page)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_by_one_thread_is_seen_by_the_next),
        small_test(the_owner_finds_the_memory_of_a_purged_page_as_it_was_left), /* before any other purge */
        small_test(the_owner_finds_the_list_that_was_linked_anew),
        small_test(what_is_pushed_is_seen_by_the_owner_that_takes_it),
        small_test(what_is_pushed_is_seen_by_the_borrower),
        small_test(the_link_of_a_queued_page_is_seen_by_the_owner),
        small_test(the_link_is_read_before_the_next_push_writes_it),
        small_test(new_segments_are_seen_by_statistics),
        small_test(new_segments_are_seen_by_collectors),
        small_test(a_new_stand_in_is_seen_by_statistics),
        cmocka_unit_test(a_new_heap_is_seen_by_who_walks_over_all),
        cmocka_unit_test(a_heap_is_handed_on_with_all_that_was_done_to_it),
        cmocka_unit_test(what_is_freed_is_seen_by_who_merges_it),
        cmocka_unit_test(what_is_done_under_a_lock_is_seen_by_the_next_holder),
        cmocka_unit_test(what_is_done_under_a_gated_lock_is_seen_by_the_next_holder),
        cmocka_unit_test(what_is_done_under_a_gated_lock_is_seen_by_who_awaits_it),
        cmocka_unit_test(who_slept_on_a_lock_sees_what_was_done_under_it),
    };
    return cmocka_run_group_tests(tests, segment_map_setup, NULL);
}
