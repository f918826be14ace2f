/* SPDX-License-Identifier: MIT */
/* test_page_pool.c - the free pages of a heap: which one is taken, what goes back to the system and when, and
 * that a page which reads as zero does so.
 *
 * Each test starts with a heap of its own, whose segments stay behind. */
#include "small/page_pool.h"

#include "platform/platform.h"
#include "segment/huge.h"
#include "small/small.h"
#include "unit.h"

static struct smm_small heap;
static struct smm_page_pool *const pool = &heap.pool;

static int fresh_heap(void **state)
{
    (void)state;
    memset(&heap, 0, sizeof heap);
    smm_small_init(&heap);
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_NEVER);
    smm_store_relaxed(&smm_huge_settings.slow_us, 0); /* the policy alone decides, not this machine */
    return 0;
}

static struct smm_page *take(bool *clean)
{
    struct smm_page *const page = smm_pool_take(pool, &heap, clean);
    assert_non_null(page);
    return page;
}

static bool is_zero(const struct smm_page *page)
{
    return first_not_zero(smm_page_memory(page), SMM_PAGE_SIZE) == SMM_PAGE_SIZE;
}

static void fill(const struct smm_page *page, unsigned byte)
{
    memset(smm_page_memory(page), (int)byte, SMM_PAGE_SIZE);
}

/* A segment whose pages are all taken, by index. */
static struct smm_segment *take_all(void)
{
    bool clean;
    struct smm_segment *const segment = smm_segment_of(take(&clean));

    for (unsigned i = 2; i < SMM_PAGE_COUNT; i++)
        assert_ptr_equal(take(&clean), &segment->pages[i]);
    return segment;
}

/* Puts pages first..last as dirty ones, free since `since`. */
static void put_dirty(struct smm_segment *segment, unsigned first, unsigned last, uint32_t since)
{
    for (unsigned i = first; i <= last; i++) {
        smm_pool_put(pool, &segment->pages[i], false);
        segment->pages[i].free_since = since;
    }
}

static void pages_of_a_new_segment_come_clean_from_the_lowest_upwards(void **state)
{
    (void)state;
    struct smm_segment *segment = NULL;
    for (unsigned i = 1; i < SMM_PAGE_COUNT; i++) {
        bool clean = false;
        struct smm_page *const page = take(&clean);
        if (segment == NULL)
            segment = smm_segment_of(page);
        assert_true(clean);
        assert_ptr_equal(page, &segment->pages[i]);
        assert_true(is_zero(page));
    }
    assert_int_equal(pool->segment_count, 1);
    assert_ptr_equal(segment->owner, &heap);
    assert_int_equal(smm_kind_of(smm_page_memory(&segment->pages[63])), SMM_KIND_SMALL);
    bool clean = false;
    assert_ptr_not_equal(smm_segment_of(take(&clean)), segment);
    assert_int_equal(pool->segment_count, 2);
    assert_ptr_equal(smm_load_relaxed(&pool->segments)->older, segment);
}

static void the_lowest_page_with_memory_comes_first(void **state)
{
    struct smm_segment *const segment = take_all();
    bool clean;

    (void)state;
    smm_pool_put(pool, &segment->pages[3], true);
    smm_pool_put(pool, &segment->pages[40], false);
    smm_pool_put(pool, &segment->pages[9], false);
    smm_pool_put(pool, &segment->pages[2], true);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 2);
    assert_ptr_equal(take(&clean), &segment->pages[9]);
    assert_false(clean);
    assert_ptr_equal(take(&clean), &segment->pages[40]);
    assert_false(clean);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 0);
    assert_ptr_equal(take(&clean), &segment->pages[2]);
    assert_true(clean);
    assert_ptr_equal(take(&clean), &segment->pages[3]);
    assert_true(clean);
}

static void trimming_keeps_the_lowest_pages(void **state)
{
    struct smm_segment *const segment = take_all();
    bool clean;

    (void)state;
    for (unsigned i = 10; i < 20; i++)
        fill(&segment->pages[i], 0xaa);
    put_dirty(segment, 10, 19, 0);
    assert_int_equal(smm_pool_trim(pool, 3, 0, 0), 7 * SMM_PAGE_SIZE);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 3);
    assert_int_equal(smm_pool_trim(pool, 3, 0, 0), 0);
    for (unsigned i = 10; i < 13; i++) {
        assert_ptr_equal(take(&clean), &segment->pages[i]);
        assert_false(clean);
    }
    for (unsigned i = 13; i < 20; i++) {
        assert_ptr_equal(take(&clean), &segment->pages[i]);
        assert_true(clean);
        assert_true(is_zero(&segment->pages[i]));
    }
}

static void trimming_returns_what_has_been_free_long_enough(void **state)
{
    struct smm_segment *const segment = take_all();

    (void)state;
    put_dirty(segment, 10, 14, 1000);
    put_dirty(segment, 20, 21, 1400);
    assert_int_equal(smm_pool_trim(pool, 0, 1999, 1000), 0);
    assert_int_equal(smm_pool_trim(pool, 0, 2000, 1000), 5 * SMM_PAGE_SIZE);
    assert_int_equal(smm_pool_trim(pool, 0, 2399, 1000), 0);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 2);
    assert_int_equal(smm_pool_trim(pool, 0, 2400, 1000), 2 * SMM_PAGE_SIZE);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 0);
}

static void age_is_right_when_the_clock_of_32_bits_goes_round(void **state)
{
    struct smm_segment *const segment = take_all();
    const uint64_t since = UINT32_MAX - 100u;

    (void)state;
    put_dirty(segment, 5, 5, (uint32_t)since);
    assert_int_equal(smm_pool_trim(pool, 0, since + 999, 1000), 0);
    assert_int_equal(smm_pool_trim(pool, 0, since + 1000, 1000), SMM_PAGE_SIZE);
}

static void a_page_that_was_put_now_has_the_age_of_now(void **state)
{
    struct smm_segment *const segment = take_all();
    const uint64_t now = smm_os_now();

    (void)state;
    smm_pool_put(pool, &segment->pages[30], false);
    assert_int_equal(smm_pool_trim(pool, 0, now, 600000), 0);
    assert_int_equal(smm_pool_trim(pool, 0, now + 700000, 600000), SMM_PAGE_SIZE);
}

static void clean_pages_cost_no_call_to_trim(void **state)
{
    struct smm_segment *const segment = take_all();

    (void)state;
    for (unsigned i = 1; i < SMM_PAGE_COUNT; i++)
        smm_pool_put(pool, &segment->pages[i], true);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 0);
    assert_int_equal(smm_pool_trim(pool, 0, smm_os_now() + 1000000, 0), 0);
}

static void several_segments_empty_from_the_one_used_last(void **state)
{
    struct smm_segment *segments[3];
    bool clean;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        segments[i] = take_all();
    for (unsigned i = 0; i < 3; i++)
        put_dirty(segments[i], 1, 63, 0);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 3 * 63);
    assert_int_equal(smm_pool_trim(pool, 63, 0, 0), 2 * 63 * SMM_PAGE_SIZE);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 63);
    /* What was kept is in one segment, the one that pages are taken from. */
    const struct smm_segment *const kept = smm_segment_of(take(&clean));
    for (unsigned i = 2; i < SMM_PAGE_COUNT; i++) {
        assert_ptr_equal(smm_segment_of(take(&clean)), kept);
        assert_false(clean);
    }
    for (unsigned i = 0; i < 2 * 63; i++) {
        assert_ptr_not_equal(smm_segment_of(take(&clean)), kept);
        assert_true(clean);
    }
    assert_int_equal(pool->segment_count, 3);
}

static void huge_pages_go_back_by_halves_or_when_mostly_free_for_long(void **state)
{
    (void)state;
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_ALWAYS);
    struct smm_segment *const segment = take_all();
    assert_true(segment->huge);

    put_dirty(segment, 40, 62, 0); /* 23 of the upper 32 */
    assert_int_equal(smm_pool_trim(pool, 0, 1000000, 1000), 0);
    put_dirty(segment, 63, 63, 0);
    assert_int_equal(smm_pool_trim(pool, 0, 3999, 1000), 0);
    assert_int_equal(smm_pool_trim(pool, 0, 4000, 1000), 24 * SMM_PAGE_SIZE);

    put_dirty(segment, 32, 39, 5000);
    assert_int_equal(smm_pool_trim(pool, 0, 5999, 1000), 0);
    assert_int_equal(smm_pool_trim(pool, 0, 6000, 1000), 8 * SMM_PAGE_SIZE);
}

static void a_segment_is_huge_when_the_policy_says_so(void **state)
{
    (void)state;
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_AUTO);
    for (unsigned i = 0; i < smm_small_settings.huge_after; i++)
        assert_false(take_all()->huge);
    assert_true(take_all()->huge);
    smm_store_relaxed(&smm_small_settings.huge_pages, SMM_HUGE_NEVER);
    assert_false(take_all()->huge);
}

/* ---- One thread takes and puts, another trims ---- */

static _Atomic(bool) stop;

static void *trim_all_the_time(void *argument)
{
    size_t *const returned = argument;

    while (!smm_load_relaxed(&stop)) {
        *returned += smm_pool_trim(pool, 2, smm_os_now() + 100000, 0);
        smm_os_yield();
    }
    return NULL;
}

static void another_thread_trims_while_the_owner_takes_and_puts(void **state)
{
    enum { HELD = 40 };
    struct {
        struct smm_page *page;
        unsigned byte;
    } held[HELD] = {{NULL, 0}};
    uint64_t seed = 5;
    size_t returned = 0;
    unsigned errors = 0, cleaned = 0, round = 0;

    (void)state;
    smm_store_relaxed(&stop, false);
    const pthread_t trimmer = thread_start(trim_all_the_time, &returned);
    for (const uint64_t end = clock_ms() + 1000; clock_ms() < end; round++) {
        const size_t i = random_below(&seed, HELD);
        struct smm_page *const page = held[i].page;
        if (page != NULL) {
            const unsigned char *const memory = (const unsigned char *)smm_page_memory(page);
            for (size_t at = 0; at < SMM_PAGE_SIZE; at += 1021)
                EXPECT(errors, memory[at] == held[i].byte);
            smm_pool_put(pool, page, false);
            held[i].page = NULL;
        } else {
            bool clean = false;
            held[i].page = smm_pool_take(pool, &heap, &clean);
            EXPECT(errors, held[i].page != NULL);
            if (held[i].page == NULL)
                break;
            for (size_t k = 0; k < HELD; k++)
                EXPECT(errors, k == i || held[k].page != held[i].page);
            if (clean) {
                EXPECT(errors, is_zero(held[i].page));
                cleaned++;
            }
            held[i].byte = 1 + round % 255;
            fill(held[i].page, held[i].byte);
        }
        if (errors != 0)
            break;
    }
    smm_store_relaxed(&stop, true);
    thread_end(trimmer);
    assert_int_equal(errors, 0);
    assert_true(returned != 0 && cleaned > HELD);
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].page != NULL)
            smm_pool_put(pool, held[i].page, false);
    (void)smm_pool_trim(pool, 0, smm_os_now() + 100000, 0);
    assert_int_equal(smm_load_relaxed(&pool->dirty_count), 0);
    /* Nothing was lost: as many pages as the segments have. */
    for (unsigned i = 0, all = pool->segment_count * (SMM_PAGE_COUNT - 1); i < all; i++) {
        bool clean = false;
        (void)take(&clean);
        assert_true(clean);
    }
    assert_null(pool->clean.first);
    assert_null(pool->dirty.first);
}

#define pool_test(name) cmocka_unit_test_setup(name, fresh_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pool_test(pages_of_a_new_segment_come_clean_from_the_lowest_upwards),
        pool_test(the_lowest_page_with_memory_comes_first),
        pool_test(trimming_keeps_the_lowest_pages),
        pool_test(trimming_returns_what_has_been_free_long_enough),
        pool_test(age_is_right_when_the_clock_of_32_bits_goes_round),
        pool_test(a_page_that_was_put_now_has_the_age_of_now),
        pool_test(clean_pages_cost_no_call_to_trim),
        pool_test(several_segments_empty_from_the_one_used_last),
        pool_test(huge_pages_go_back_by_halves_or_when_mostly_free_for_long),
        pool_test(a_segment_is_huge_when_the_policy_says_so),
        pool_test(another_thread_trims_while_the_owner_takes_and_puts),
    };
    return cmocka_run_group_tests(tests, segment_map_setup, NULL);
}
