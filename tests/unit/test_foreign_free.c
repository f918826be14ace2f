/* SPDX-License-Identifier: MIT */
/* test_foreign_free.c - the one word through which other threads give a page's items back. */
#include "small/foreign_free.h"

#include "platform/platform.h"
#include "segment/segment.h"
#include "unit.h"

static struct smm_segment *segment;

static int setup(void **state)
{
    if (segment_map_setup(state) != 0)
        return -1;
    segment = smm_segment_take(false);
    return segment != NULL ? 0 : -1;
}

/* Carves the whole page and hands out everything. Returns the number of items. */
static unsigned hand_out_all(struct smm_page *page, unsigned size_class, struct smm_item **items)
{
    unsigned count = 0;

    smm_store_relaxed(&page->foreign, 0);
    smm_page_init(page, size_class, false);
    while (smm_page_carve(page, false))
        while (page->free != NULL)
            items[count++] = smm_page_pop(page);
    return count;
}

static struct smm_item *items[SMM_PAGE_SIZE / SMM_BLOCK_ALIGN];

static void head_tail_and_count_share_a_word(void **state)
{
    static const unsigned values[] = {0, 1, 2, 255, 256, 4095, 4096, 0xffff};

    (void)state;
    for (size_t h = 0; h < COUNT_OF(values); h++)
        for (size_t t = 0; t < COUNT_OF(values); t++)
            for (size_t c = 0; c < COUNT_OF(values); c++) {
                const uint64_t word = smm_foreign_word(values[h], values[t], values[c]);
                const uint64_t all = word | SMM_FOREIGN_QUEUED | SMM_FOREIGN_BUSY | SMM_FOREIGN_PURGED | SMM_FOREIGN_SEEN;
                assert_int_equal(smm_foreign_head(word), values[h]);
                assert_int_equal(smm_foreign_tail(word), values[t]);
                assert_int_equal(smm_foreign_count(word), values[c]);
                /* The bits above disturb none of them. */
                assert_int_equal(word & (all ^ word), 0);
                assert_int_equal(smm_foreign_head(all), values[h]);
                assert_int_equal(smm_foreign_tail(all), values[t]);
                assert_int_equal(smm_foreign_count(all), values[c]);
            }
}

static void offsets_lead_to_items_and_back(void **state)
{
    struct smm_page *const page = &segment->pages[7];

    (void)state;
    for (unsigned offset = 0; offset < SMM_PAGE_SIZE / SMM_BLOCK_ALIGN; offset++) {
        struct smm_item *const item = smm_foreign_item(page, offset);
        assert_ptr_equal(item, smm_page_memory(page) + offset * SMM_BLOCK_ALIGN);
        assert_int_equal(smm_foreign_offset(item), offset);
    }
}

static void only_the_first_push_is_told_to_queue_the_page(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 5, items);

    (void)state;
    assert_int_equal(smm_foreign_push(page, items[0], items[0], 1), 0);
    for (unsigned i = 1; i < count; i++) {
        const uint64_t seen = smm_foreign_push(page, items[i], items[i], 1);
        assert_true((seen & SMM_FOREIGN_QUEUED) != 0);
        assert_int_equal(smm_foreign_count(seen), i);
    }
    assert_int_equal(smm_foreign_count(smm_foreign_take(page)), count);
    assert_int_equal(smm_foreign_push(page, items[0], items[0], 1) & SMM_FOREIGN_QUEUED, 0);
}

static void the_list_leads_from_the_last_push_to_the_first(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 8, items);

    (void)state;
    for (unsigned i = 0; i < count; i++)
        (void)smm_foreign_push(page, items[i], items[i], 1);
    const uint64_t word = smm_foreign_take(page);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
    assert_int_equal(smm_foreign_count(word), count);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_tail(word)), items[0]);
    struct smm_item *item = smm_foreign_item(page, smm_foreign_head(word));
    for (unsigned i = count; i-- > 1; item = item->link)
        assert_ptr_equal(item, items[i]);
    assert_ptr_equal(item, items[0]);
}

static void a_run_of_linked_items_is_pushed_at_once(void **state)
{
    struct smm_page *const page = &segment->pages[1];

    (void)state;
    hand_out_all(page, 5, items);
    (void)smm_foreign_push(page, items[10], items[10], 1);
    items[1]->link = items[2];
    items[2]->link = items[3];
    const uint64_t seen = smm_foreign_push(page, items[1], items[3], 3);
    assert_int_equal(smm_foreign_count(seen), 1);
    const uint64_t word = smm_foreign_take(page);
    assert_int_equal(smm_foreign_count(word), 4);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_head(word)), items[1]);
    assert_ptr_equal(items[3]->link, items[10]);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_tail(word)), items[10]);
}

static void taking_an_empty_list_gives_nothing(void **state)
{
    struct smm_page *const page = &segment->pages[1];

    (void)state;
    hand_out_all(page, 5, items);
    assert_int_equal(smm_foreign_take(page), 0);
}

static void half_of_the_items_must_lie_there_to_be_borrowed(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 30, items);

    (void)state;
    assert_int_equal(smm_foreign_borrow(page, 30), 0);
    for (unsigned i = 0; i < count / 2; i++) {
        assert_int_equal(smm_foreign_borrow(page, 30), 0);
        (void)smm_foreign_push(page, items[i], items[i], 1);
    }
    const uint64_t word = smm_foreign_borrow(page, 30);
    assert_int_equal(smm_foreign_count(word), count / 2);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_head(word)), items[count / 2 - 1]);
    assert_ptr_equal(smm_foreign_item(page, smm_foreign_tail(word)), items[0]);
    /* Still queued, with nothing in it: a push needs no queueing, and the owner takes nothing. */
    assert_int_equal(smm_load_relaxed(&page->foreign), SMM_FOREIGN_QUEUED);
    assert_int_equal(smm_foreign_borrow(page, 30), 0);
    const uint64_t seen = smm_foreign_push(page, items[0], items[0], 1);
    assert_true((seen & SMM_FOREIGN_QUEUED) != 0);
    assert_int_equal(smm_foreign_count(seen), 0);
    assert_int_equal(smm_foreign_count(smm_foreign_take(page)), 1);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
}

static void nothing_is_borrowed_of_another_class(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 30, items);

    (void)state;
    for (unsigned i = 0; i < count; i++)
        (void)smm_foreign_push(page, items[i], items[i], 1);
    assert_int_equal(smm_foreign_borrow(page, 29), 0);
    assert_int_equal(smm_foreign_count(smm_foreign_borrow(page, 30)), count);
}

static void a_busy_page_is_left_alone_but_for_pushes(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 30, items);

    (void)state;
    for (unsigned i = 0; i < count - 1; i++)
        (void)smm_foreign_push(page, items[i], items[i], 1);
    const uint64_t busy = smm_load_relaxed(&page->foreign) | SMM_FOREIGN_BUSY;
    smm_store_relaxed(&page->foreign, busy);
    assert_int_equal(smm_foreign_take(page), SMM_FOREIGN_BUSY);
    assert_int_equal(smm_foreign_borrow(page, 30), 0);
    assert_int_equal(smm_load_relaxed(&page->foreign), busy);
    (void)smm_foreign_push(page, items[count - 1], items[count - 1], 1);
    const uint64_t word = smm_load_relaxed(&page->foreign);
    assert_true((word & SMM_FOREIGN_BUSY) != 0);
    assert_int_equal(smm_foreign_count(word), count);
    smm_store_relaxed(&page->foreign, word & ~SMM_FOREIGN_BUSY);
    assert_int_equal(smm_foreign_count(smm_foreign_take(page)), count);
}

static void a_purged_page_is_not_borrowed_and_goes_to_its_owner(void **state)
{
    struct smm_page *const page = &segment->pages[1];
    const unsigned count = hand_out_all(page, 30, items);
    const uint64_t purged = smm_foreign_word(0, 0, count) | SMM_FOREIGN_QUEUED | SMM_FOREIGN_PURGED;

    (void)state;
    smm_store_relaxed(&page->foreign, purged);
    assert_int_equal(smm_foreign_borrow(page, 30), 0);
    assert_int_equal(smm_foreign_take(page), purged);
    assert_int_equal(smm_load_relaxed(&page->foreign), 0);
}

/* ---- Four threads push, one drains ---- */

enum { PUSHERS = 4, ROUNDS = 400 };

static struct smm_page *shared_page;
static pthread_barrier_t barrier;
static _Atomic(unsigned) told;       /* pushes that were told to queue the page */
static _Atomic(unsigned) still_busy; /* pushers of this round */

static void *push_my_share(void *argument)
{
    const unsigned mine = (unsigned)(uintptr_t)argument;
    const unsigned share = COUNT_OF(items) / PUSHERS;
    unsigned order[COUNT_OF(items) / PUSHERS];
    uint64_t seed = mine;

    for (unsigned i = 0; i < share; i++)
        order[i] = mine * share + i;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = share; i > 1; i--) {
            const size_t other = random_below(&seed, i);
            const unsigned swapped = order[other];
            order[other] = order[i - 1];
            order[i - 1] = swapped;
        }
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < share;) {
            /* Now and then a run of several at once. */
            unsigned run = random_below(&seed, 8) == 0 ? 1 + (unsigned)random_below(&seed, 5) : 1;
            if (run > share - i)
                run = share - i;
            for (unsigned k = i; k + 1 < i + run; k++)
                items[order[k]]->link = items[order[k + 1]];
            const uint64_t seen = smm_foreign_push(shared_page, items[order[i]], items[order[i + run - 1]], run);
            if ((seen & SMM_FOREIGN_QUEUED) == 0)
                smm_add_relaxed(&told, 1);
            if (random_below(&seed, 64) == 0)
                smm_os_yield();
            i += run;
        }
        smm_sub_relaxed(&still_busy, 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Takes the list once and marks what was in it. Returns the number of items. */
static unsigned drain(unsigned char *seen, unsigned *errors)
{
    const uint64_t word = smm_foreign_take(shared_page);
    const unsigned count = smm_foreign_count(word);
    struct smm_item *item = smm_foreign_item(shared_page, smm_foreign_head(word));

    if (word == 0)
        return 0;
    EXPECT(*errors, count != 0 && (word & SMM_FOREIGN_QUEUED) != 0);
    for (unsigned i = 0; i < count; i++) {
        if (i != 0)
            item = item->link;
        EXPECT(*errors, smm_page_of(item) == shared_page);
        if (*errors != 0)
            return count;
        EXPECT(*errors, seen[smm_foreign_offset(item)]++ == 0);
    }
    EXPECT(*errors, item == smm_foreign_item(shared_page, smm_foreign_tail(word)));
    return count;
}

static void every_item_that_four_threads_push_comes_out_once(void **state)
{
    static unsigned char seen[COUNT_OF(items)];
    pthread_t threads[PUSHERS];
    unsigned errors = 0;

    (void)state;
    shared_page = &segment->pages[2];
    assert_int_equal(hand_out_all(shared_page, 0, items), COUNT_OF(items));
    assert_int_equal(pthread_barrier_init(&barrier, NULL, PUSHERS + 1), 0);
    for (uintptr_t i = 0; i < PUSHERS; i++)
        threads[i] = thread_start(push_my_share, (void *)i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned out = 0, takes = 0;
        memset(seen, 0, sizeof seen);
        smm_store_relaxed(&told, 0);
        smm_store_relaxed(&still_busy, PUSHERS);
        pthread_barrier_wait(&barrier);
        while (smm_load_relaxed(&still_busy) != 0) {
            const unsigned count = drain(seen, &errors);
            out += count;
            takes += count != 0;
            if (count == 0)
                smm_os_yield();
        }
        pthread_barrier_wait(&barrier);
        const unsigned rest = drain(seen, &errors);
        out += rest;
        takes += rest != 0;
        EXPECT(errors, out == COUNT_OF(items));
        /* F1: between two takes one push is told. */
        EXPECT(errors, smm_load_relaxed(&told) == takes);
    }
    for (unsigned i = 0; i < PUSHERS; i++)
        thread_end(threads[i]);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(errors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_tail_and_count_share_a_word),
        cmocka_unit_test(offsets_lead_to_items_and_back),
        cmocka_unit_test(only_the_first_push_is_told_to_queue_the_page),
        cmocka_unit_test(the_list_leads_from_the_last_push_to_the_first),
        cmocka_unit_test(a_run_of_linked_items_is_pushed_at_once),
        cmocka_unit_test(taking_an_empty_list_gives_nothing),
        cmocka_unit_test(half_of_the_items_must_lie_there_to_be_borrowed),
        cmocka_unit_test(nothing_is_borrowed_of_another_class),
        cmocka_unit_test(a_busy_page_is_left_alone_but_for_pushes),
        cmocka_unit_test(a_purged_page_is_not_borrowed_and_goes_to_its_owner),
        cmocka_unit_test(every_item_that_four_threads_push_comes_out_once),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
