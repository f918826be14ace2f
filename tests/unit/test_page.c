/* SPDX-License-Identifier: MIT */
/* test_page.c - a page of one size class: carving, its two lists, and what is known to be zero. */
#include "small/page.h"

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

/* A page whose memory reads as zero. */
static struct smm_page *page_fresh(unsigned size_class)
{
    struct smm_page *const page = &segment->pages[1 + size_class];
    memset(smm_page_memory(page), 0, SMM_PAGE_SIZE);
    smm_page_init(page, size_class, true);
    return page;
}

static void addresses_lead_to_their_page_and_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SMM_PAGE_COUNT; i++) {
        char *const memory = (char *)segment + i * SMM_PAGE_SIZE;
        assert_ptr_equal(smm_page_memory(&segment->pages[i]), memory);
        assert_int_equal(smm_page_index(&segment->pages[i]), i);
        assert_ptr_equal(smm_page_of(memory), &segment->pages[i]);
        assert_ptr_equal(smm_page_of(memory + SMM_PAGE_SIZE - 1), &segment->pages[i]);
        assert_ptr_equal(smm_segment_of(memory + 77), segment);
    }
}

static void a_new_page_has_no_items_yet(void **state)
{
    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++) {
        struct smm_page *const page = page_fresh(size_class);
        assert_null(page->free);
        assert_null(page->local_free);
        assert_int_equal(smm_page_used(page), 0);
        assert_int_equal(page->carved, 0);
        assert_int_equal(page->item_size, smm_class_size(size_class));
        assert_int_equal(page->capacity, SMM_PAGE_SIZE / smm_class_size(size_class));
        assert_int_equal(smm_load_relaxed(&page->shared_capacity), page->capacity);
        assert_int_equal(smm_load_relaxed(&page->shared_class), size_class);
        assert_false(smm_page_refill(page));
    }
}

static void items_come_in_ascending_order_until_the_page_is_full(void **state)
{
    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++) {
        struct smm_page *const page = page_fresh(size_class);
        char *expected = smm_page_memory(page);
        while (smm_page_carve(page, size_class % 2 != 0)) {
            while (page->free != NULL) {
                assert_ptr_equal(smm_page_pop(page), expected);
                expected += smm_class_size(size_class);
            }
        }
        assert_int_equal(page->carved, page->capacity);
        assert_int_equal(smm_page_used(page), page->capacity);
        assert_true(expected <= smm_page_memory(page) + SMM_PAGE_SIZE);
        assert_true(expected + smm_class_size(size_class) > smm_page_memory(page) + SMM_PAGE_SIZE);
        assert_false(smm_page_carve(page, false));
        assert_null(page->free);
    }
}

static void a_batch_grows_with_the_page_within_its_limits(void **state)
{
    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++) {
        const size_t size = smm_class_size(size_class);
        struct smm_page *const page = page_fresh(size_class);
        unsigned before = 0;
        for (;;) {
            const unsigned start = page->carved;
            unsigned count = 0;
            if (!smm_page_carve(page, false))
                break;
            for (const struct smm_item *item = page->free; item != NULL; item = item->link)
                count++;
            page->free = NULL;
            assert_int_equal(page->carved, start + count);
            assert_in_range(count, 1, SMM_CARVE_MAX);
            /* A system page at first, later no more than what the page has given out so far, and 16 KiB. */
            assert_true(count == 1 || count * size <= 16 * SMM_KIB);
            assert_true(count == 1 || count * size <= SMM_OS_PAGE_MIN || count <= start);
            assert_true(count >= before || page->carved == page->capacity);
            before = count;
        }
    }
}

static void carved_memory_counts_as_touched(void **state)
{
    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++)
        for (unsigned prefault = 0; prefault < 2; prefault++) {
            struct smm_page *const page = page_fresh(size_class);
            unsigned before = 0;
            assert_int_equal(page->touched, 0);
            while (smm_page_carve(page, prefault != 0)) {
                page->free = NULL;
                assert_true(page->touched * SMM_OS_PAGE_MIN >= (size_t)page->carved * page->item_size);
                assert_in_range(page->touched, before, SMM_PAGE_SIZE / SMM_OS_PAGE_MIN);
                before = page->touched;
            }
        }
}

static void items_of_fresh_memory_are_known_to_be_zero(void **state)
{
    (void)state;
    for (unsigned size_class = 0; size_class < SMM_CLASS_COUNT; size_class++) {
        struct smm_page *const page = page_fresh(size_class);
        while (smm_page_carve(page, false)) {
            assert_true(page->free_is_zero);
            while (page->free != NULL) {
                char *const item = smm_page_pop(page);
                assert_int_equal(first_not_zero(item + sizeof(void *), page->item_size - sizeof(void *)),
                                 page->item_size - sizeof(void *));
                memset(item, 0xee, page->item_size);
            }
        }
    }
}

static void items_of_used_memory_are_not(void **state)
{
    struct smm_page *const page = &segment->pages[1];

    (void)state;
    smm_page_init(page, 4, false);
    assert_int_equal(page->touched * SMM_OS_PAGE_MIN, SMM_PAGE_SIZE);
    while (smm_page_carve(page, true)) {
        assert_false(page->free_is_zero);
        page->free = NULL;
    }
}

static void a_freed_item_waits_until_the_refill(void **state)
{
    struct smm_page *const page = page_fresh(3);
    void *items[20];

    (void)state;
    assert_true(smm_page_carve(page, false));
    for (unsigned i = 0; i < COUNT_OF(items); i++) {
        items[i] = smm_page_pop(page);
        assert_int_equal(smm_page_used(page), i + 1);
    }
    struct smm_item *const rest = page->free;
    for (unsigned i = 0; i < COUNT_OF(items); i++)
        assert_int_equal(smm_page_push(page, items[i]), COUNT_OF(items) - 1 - i);
    assert_ptr_equal(page->free, rest);

    while (page->free != NULL)
        (void)smm_page_pop(page);
    assert_true(page->free_is_zero);
    assert_true(smm_page_refill(page));
    /* They are used memory now, the last one freed first. */
    assert_false(page->free_is_zero);
    assert_null(page->local_free);
    for (unsigned i = COUNT_OF(items); i-- > 0;)
        assert_ptr_equal(smm_page_pop(page), items[i]);
    assert_null(page->free);
    assert_false(smm_page_refill(page));
}

static void used_is_told_with_and_without_the_mark_of_a_full_page(void **state)
{
    struct smm_page *const page = page_fresh(42);
    void *items[4];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(items); i++) {
        assert_true(smm_page_carve(page, false));
        items[i] = smm_page_pop(page);
    }
    assert_false(smm_page_carve(page, false));
    smm_store_relaxed(&page->used, smm_load_relaxed(&page->used) + SMM_PAGE_FULL);
    assert_int_equal(smm_page_used(page), COUNT_OF(items));
    /* The test of the fast path sees it. */
    assert_true(smm_page_push(page, items[0]) <= 0);
    assert_int_equal(smm_page_used(page), COUNT_OF(items) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lead_to_their_page_and_back),
        cmocka_unit_test(a_new_page_has_no_items_yet),
        cmocka_unit_test(items_come_in_ascending_order_until_the_page_is_full),
        cmocka_unit_test(a_batch_grows_with_the_page_within_its_limits),
        cmocka_unit_test(carved_memory_counts_as_touched),
        cmocka_unit_test(items_of_fresh_memory_are_known_to_be_zero),
        cmocka_unit_test(items_of_used_memory_are_not),
        cmocka_unit_test(a_freed_item_waits_until_the_refill),
        cmocka_unit_test(used_is_told_with_and_without_the_mark_of_a_full_page),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
