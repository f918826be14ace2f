/* SPDX-License-Identifier: MIT */
/* test_return.c - memory goes back to the system: after the delay when something runs, at once by a purge
 * while the owners sleep, and when threads end. What may stay are the descriptors of each segment, and 16 pages
 * and an arena of each heap where no purge was asked for. */
#include "../common/support.h"

enum { SHORT_DELAY = 100 }; /* ms; the default of a second is tested once */

static const size_t slack = 1536 * 1024;

/* ---- A load of blocks ---------------------------------------------------------------------------- */

struct load {
    size_t size;
    size_t count;
    void **blocks;
};

/* The table of the blocks is memory of the C library, not of what is measured. */
static struct load load_make(size_t bytes, size_t size)
{
    struct load load = {.size = size, .count = bytes / size};

    load.blocks = malloc(load.count * sizeof(void *));
    for (size_t i = 0; i < load.count; i++) {
        load.blocks[i] = filled_block(size, i);
        if (load.blocks[i] == NULL)
            abort();
    }
    return load;
}

static bool load_holds(const struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        if (!pattern_holds(load->blocks[i], load->size, i))
            return false;
    }
    return true;
}

static void load_free(struct load *load)
{
    for (size_t i = 0; i < load->count; i++)
        shardmm_free(load->blocks[i]);
    free(load->blocks);
    load->blocks = NULL;
    load->count = 0;
}

static void delay_set(int64_t ms)
{
    assert_int_equal(shardmm_option_set("purge_delay", ms), 0);
}

/* Enough to pass through slow paths of every kind: pages are taken and emptied, an arena and the cache asked. */
static void a_few_operations(void)
{
    for (int i = 0; i < CLASS_COUNT; i++)
        shardmm_free(shardmm_malloc(class_size[i]));
    for (int i = 0; i < 4; i++) {
        struct load load = load_make(4 * PAGE_BYTES, 1024);
        load_free(&load);
    }
    shardmm_free(shardmm_malloc(20000));
    shardmm_free(shardmm_malloc(MEDIUM_MAX));
    shardmm_free(shardmm_malloc(2 * MIB));
}

/* The delay is over: an operation may return a part, but with some more memory is down to `floor`. */
static void check_comes_down_to(uint64_t floor)
{
    for (int i = 0; i < 100 && stats_now().committed >= floor; i++) {
        a_few_operations();
        sleep_ms(10);
    }
    assert_in_range(stats_now().committed, 0, floor);
}

static int start_clean(void **state)
{
    (void)state;
    if (shardmm_option_set("purge_delay", SHORT_DELAY) != 0)
        return -1;
    (void)shardmm_purge();
    return 0;
}

/* ---- After the delay ----------------------------------------------------------------------------- */

static void check_delayed_return(size_t size, int64_t delay)
{
    const size_t bytes = 64 * MIB;
    struct load load;
    uint64_t before;
    uint64_t full;

    delay_set(delay);
    (void)shardmm_purge();
    before = stats_now().committed;
    load = load_make(bytes, size);
    full = stats_now().committed;
    assert_true(full >= before + bytes / 8 * 7);
    load_free(&load);
    sleep_ms((long)delay + 200);
    a_few_operations();
    assert_true(stats_now().committed < full); /* the first ones return something */
    check_comes_down_to(before + 16 * PAGE_BYTES + SEGMENT_BYTES + bytes / 32 + 4 * MIB);
}

static void small_pages_go_back_after_a_second_by_default(void **state)
{
    (void)state;
    check_delayed_return(1000, 1000);
}

static void small_pages_go_back_after_the_delay(void **state)
{
    (void)state;
    check_delayed_return(16, SHORT_DELAY);
    check_delayed_return(SMALL_MAX, SHORT_DELAY);
}

static void arenas_go_back_after_the_delay(void **state)
{
    (void)state;
    check_delayed_return(SMALL_MAX + 1, SHORT_DELAY);
    check_delayed_return(700000, SHORT_DELAY);
}

static void large_blocks_go_back_after_the_delay(void **state)
{
    (void)state;
    check_delayed_return(4 * MIB, SHORT_DELAY);
}

/* ---- The cache of large blocks ------------------------------------------------------------------- */

static void a_freed_large_block_is_cached_and_serves_the_next_request(void **state)
{
    struct shardmm_stats before;
    struct shardmm_stats cached;
    void *block;
    uintptr_t address;
    (void)state;

    delay_set(10000);
    before = stats_now();
    assert_int_equal(before.large_cache_blocks, 0);
    block = filled_block(8 * MIB, 1);
    assert_non_null(block);
    address = address_of(block);
    shardmm_free(block);
    cached = stats_now();
    assert_int_equal(cached.large_blocks, before.large_blocks);
    assert_int_equal(cached.large_cache_blocks, 1);
    assert_true(cached.large_cache_bytes >= 8 * MIB);

    block = filled_block(8 * MIB, 2);
    assert_non_null(block);
    assert_true(address_of(block) == address);
    assert_int_equal(stats_now().large_cache_blocks, 0);
    assert_int_equal(stats_now().commits, cached.commits);
    shardmm_free(block);
}

/* Memory beyond the request stays for growth until it is four times the request and 16 MiB more. */
static void a_smaller_request_takes_a_larger_cached_block_as_it_is(void **state)
{
    void *block;
    uintptr_t address;
    uint64_t committed;
    (void)state;

    delay_set(10000);
    block = filled_block(12 * MIB, 1);
    assert_non_null(block);
    address = address_of(block);
    shardmm_free(block);
    committed = stats_now().committed;
    block = shardmm_malloc(5 * MIB);
    assert_non_null(block);
    assert_true(address_of(block) == address);
    assert_true(stats_now().committed + slack > committed);
    shardmm_free(block);
}

static void a_small_request_does_not_keep_much_more_than_it_needs(void **state)
{
    void *block;
    uint64_t committed;
    (void)state;

    delay_set(10000);
    shardmm_free(filled_block(100 * MIB, 1));
    committed = stats_now().committed;
    block = filled_block(2 * MIB, 1);
    assert_non_null(block);
    /* Either the block was not chosen, or what exceeds the request went back. */
    assert_true(stats_now().large_cache_bytes > 0 || stats_now().committed + 70 * MIB < committed);
    shardmm_free(block);
}

static void the_cache_holds_at_most_32_blocks(void **state)
{
    struct load load;
    (void)state;

    delay_set(10000);
    load = load_make(80 * MIB, 2 * MIB);
    load_free(&load);
    assert_in_range(stats_now().large_cache_blocks, 16, 32);
}

static void the_cache_holds_at_most_128_MiB(void **state)
{
    struct load load;
    (void)state;

    delay_set(10000);
    load = load_make(300 * MIB, 20 * MIB);
    load_free(&load);
    assert_in_range(stats_now().large_cache_bytes, 80 * MIB, 128 * MIB);
}

static void a_block_above_128_MiB_goes_back_at_once(void **state)
{
    const uint64_t before = stats_now().committed;
    const uint64_t reserved = stats_now().reserved;
    (void)state;

    delay_set(10000);
    for (int i = 0; i < 3; i++) {
        void *const block = shardmm_malloc(200 * MIB);
        assert_non_null(block);
        assert_true(stats_now().committed >= before + 200 * MIB);
        shardmm_free(block);
        assert_in_range(stats_now().committed, 0, before + slack);
        assert_int_equal(stats_now().large_cache_blocks, 0);
        assert_true(stats_now().reserved <= reserved + 4 * MIB);
    }
}

static void the_cache_empties_after_the_delay_with_a_later_operation(void **state)
{
    struct load load;
    (void)state;

    load = load_make(60 * MIB, 6 * MIB);
    load_free(&load);
    assert_true(stats_now().large_cache_blocks >= 9);
    sleep_ms(SHORT_DELAY + 100);
    shardmm_free(shardmm_malloc(6 * MIB)); /* one access of the cache */
    assert_in_range(stats_now().large_cache_blocks, 0, 1);
}

static void the_cache_empties_after_the_delay_when_a_small_page_is_freed(void **state)
{
    struct load load;
    (void)state;

    load = load_make(60 * MIB, 6 * MIB);
    load_free(&load);
    assert_true(stats_now().large_cache_blocks >= 9);
    sleep_ms(SHORT_DELAY + 100);
    load = load_make(4 * PAGE_BYTES, 1024);
    load_free(&load);
    assert_int_equal(stats_now().large_cache_blocks, 0);
}

static void a_cache_of_0_blocks_keeps_nothing(void **state)
{
    int64_t blocks = 0;
    const uint64_t before = stats_now().committed;
    (void)state;

    assert_int_equal(shardmm_option_get("large_cache_blocks", &blocks), 0);
    assert_int_equal(shardmm_option_set("large_cache_blocks", 0), 0);
    shardmm_free(filled_block(8 * MIB, 1));
    assert_int_equal(stats_now().large_cache_blocks, 0);
    assert_in_range(stats_now().committed, 0, before + slack);
    assert_int_equal(shardmm_option_set("large_cache_blocks", blocks), 0);
}

/* ---- From outside, while the owners sleep -------------------------------------------------------- */

enum { OWNERS = 3 };

static pthread_barrier_t filled;
static pthread_barrier_t emptied;
static pthread_barrier_t purged;

struct owner {
    size_t size;
    bool frees_itself;
    struct load load;
};

/* Fills, empties (or lets others empty), sleeps while others look, and then works on. */
static void *own(void *argument)
{
    struct owner *const owner = argument;
    unsigned errors = 0;

    owner->load = load_make(24 * MIB, owner->size);
    EXPECT(errors, load_holds(&owner->load));
    pthread_barrier_wait(&filled);
    if (owner->frees_itself)
        load_free(&owner->load);
    pthread_barrier_wait(&emptied);
    pthread_barrier_wait(&purged);
    for (int round = 0; round < 2; round++) {
        struct load again = load_make(24 * MIB, owner->size);
        void *const zero = shardmm_calloc(1, owner->size);
        EXPECT(errors, zero != NULL && bytes_are_zero(zero, owner->size));
        EXPECT(errors, load_holds(&again));
        shardmm_free(zero);
        load_free(&again);
    }
    return ERRORS(errors);
}

/* `floor`: what may stay, in parts of a hundred of the load. */
static void check_purge_while_owners_sleep(size_t size, bool frees_itself, unsigned floor)
{
    const size_t bytes = OWNERS * 24 * MIB;
    const size_t rest = bytes / 100 * floor + 2 * slack;
    struct owner owners[OWNERS];
    pthread_t threads[OWNERS];
    void *results[OWNERS];
    struct shardmm_stats before;
    struct shardmm_stats full;
    struct shardmm_stats after;
    size_t resident_before;
    size_t resident_full;
    size_t resident_after;
    size_t returned;

    delay_set(10000); /* nothing by itself */
    (void)shardmm_purge();
    before = stats_now();
    resident_before = resident_bytes();
    assert_int_equal(pthread_barrier_init(&filled, NULL, OWNERS + 1), 0);
    assert_int_equal(pthread_barrier_init(&emptied, NULL, OWNERS + 1), 0);
    assert_int_equal(pthread_barrier_init(&purged, NULL, OWNERS + 1), 0);
    for (size_t i = 0; i < OWNERS; i++) {
        owners[i] = (struct owner){.size = size, .frees_itself = frees_itself};
        threads[i] = thread_start(own, &owners[i]);
    }
    pthread_barrier_wait(&filled);
    full = stats_now();
    resident_full = resident_bytes();
    if (!frees_itself) {
        for (size_t i = 0; i < OWNERS; i++)
            load_free(&owners[i].load);
    }
    pthread_barrier_wait(&emptied);
    returned = shardmm_purge();
    after = stats_now();
    resident_after = resident_bytes();
    pthread_barrier_wait(&purged);
    for (size_t i = 0; i < OWNERS; i++)
        results[i] = thread_end(threads[i]);
    pthread_barrier_destroy(&filled);
    pthread_barrier_destroy(&emptied);
    pthread_barrier_destroy(&purged);

    /* Checked now: a check that fails leaves the function, and the threads would be left alone. */
    for (size_t i = 0; i < OWNERS; i++)
        assert_no_errors(results[i]);
    assert_in_range(full.committed, before.committed + bytes / 10 * 9, SIZE_MAX);
    assert_in_range(after.committed, 0, before.committed + rest);
    /* Some may have gone back already when the blocks were freed. */
    assert_true(returned <= after.purged_bytes - before.purged_bytes);
    assert_true(after.purged_bytes - before.purged_bytes >= bytes / 100 * (95 - floor));
    if (!TEST_SANITIZED) {
        assert_in_range(resident_full, resident_before + bytes / 10 * 9, SIZE_MAX);
        assert_in_range(resident_after, 0, resident_before + rest);
    }
}

static void a_purge_returns_small_pages_of_sleeping_threads(void **state)
{
    (void)state;
    check_purge_while_owners_sleep(64, true, 5);
    check_purge_while_owners_sleep(3000, true, 5);
}

static void a_purge_returns_arenas_of_sleeping_threads(void **state)
{
    (void)state;
    check_purge_while_owners_sleep(20000, true, 5);
    check_purge_while_owners_sleep(600000, true, 5);
}

static void a_purge_returns_the_large_blocks_that_are_cached(void **state)
{
    (void)state;
    check_purge_while_owners_sleep(3 * MIB, true, 5);
}

static void a_purge_returns_small_pages_that_others_emptied(void **state)
{
    (void)state;
    check_purge_while_owners_sleep(64, false, 10);
    check_purge_while_owners_sleep(3000, false, 10);
}

/* Of a chunk the header and the pages at its ends stay. */
static void a_purge_returns_medium_blocks_that_others_freed(void **state)
{
    (void)state;
    check_purge_while_owners_sleep(256 * KIB, false, 10);
    check_purge_while_owners_sleep(40 * KIB, false, 30);
}

static void a_purge_returns_the_insides_of_free_medium_chunks_between_live_ones(void **state)
{
    enum { COUNT = 100 };
    void *blocks[COUNT];
    uint64_t committed;
    (void)state;

    delay_set(10000);
    for (size_t i = 0; i < COUNT; i++)
        assert_non_null(blocks[i] = filled_block(i % 2 == 0 ? 400000 : 20000, i));
    committed = stats_now().committed;
    for (size_t i = 0; i < COUNT; i += 2)
        shardmm_free(blocks[i]);
    (void)shardmm_purge();
    assert_in_range(stats_now().committed, 0, committed - (uint64_t)COUNT / 2 * 400000 / 4 * 3);
    for (size_t i = 1; i < COUNT; i += 2)
        assert_true(pattern_holds(blocks[i], 20000, i));
    for (size_t i = 0; i < COUNT; i += 2) {
        assert_non_null(blocks[i] = shardmm_calloc(1, 400000));
        assert_true(bytes_are_zero(blocks[i], 400000));
        pattern_fill(blocks[i], 400000, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(pattern_holds(blocks[i], i % 2 == 0 ? 400000 : 20000, i));
        shardmm_free(blocks[i]);
    }
}

static void a_purge_leaves_live_blocks_alone(void **state)
{
    static void *blocks[3000];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        assert_non_null(blocks[i] = filled_block(i % 100 == 99 ? 50000 + i * 11 : i + 1, i));
    for (size_t i = 0; i < COUNT_OF(blocks); i += 3)
        shardmm_free(blocks[i]);
    (void)shardmm_purge();
    (void)shardmm_purge();
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        if (i % 3 != 0) {
            assert_true(pattern_holds(blocks[i], i % 100 == 99 ? 50000 + i * 11 : i + 1, i));
            shardmm_free(blocks[i]);
        }
    }
}

static void a_second_purge_finds_nothing(void **state)
{
    struct load load;
    (void)state;

    delay_set(10000);
    load = load_make(20 * MIB, 5000);
    load_free(&load);
    assert_true(shardmm_purge() >= 18 * MIB);
    assert_int_equal(shardmm_purge(), 0);
}

/* ---- The calling thread's own -------------------------------------------------------------------- */

static void check_thread_flush(size_t size)
{
    const size_t bytes = 32 * MIB;
    struct load load;
    uint64_t committed;

    delay_set(10000);
    load = load_make(bytes, size);
    committed = stats_now().committed;
    load_free(&load);
    shardmm_thread_flush();
    assert_in_range(stats_now().committed, 0, committed - bytes / 10 * 9 + slack);
}

static void a_thread_flush_returns_what_the_thread_keeps(void **state)
{
    (void)state;
    check_thread_flush(100);
    check_thread_flush(10000);
    check_thread_flush(100000);
}

static void *free_load(void *load)
{
    load_free(load);
    return NULL;
}

static void a_thread_flush_takes_back_what_others_freed(void **state)
{
    struct load load;
    uint64_t committed;
    (void)state;

    delay_set(10000);
    for (size_t size = 100; size < MEDIUM_MAX; size *= 100) {
        load = load_make(32 * MIB, size);
        committed = stats_now().committed;
        (void)in_thread(free_load, &load);
        shardmm_thread_flush();
        assert_in_range(stats_now().committed, 0, committed - 28 * MIB);
    }
}

/* ---- Threads that end ---------------------------------------------------------------------------- */

static void *fill_and_empty(void *argument)
{
    const size_t size = *(const size_t *)argument;
    struct load load = load_make(64 * MIB, size);

    load_free(&load);
    return NULL;
}

/* An ending thread leaves 64 pages and 4 arenas to the next, for the delay. */
static void check_reserve(size_t size, size_t reserve)
{
    uint64_t before;

    delay_set(10000);
    shardmm_thread_flush();
    (void)shardmm_purge();
    before = stats_now().committed;
    (void)in_thread(fill_and_empty, &size);
    assert_in_range(stats_now().committed, 0, before + reserve + 64 * MIB / 32 + slack);
    assert_true(stats_now().committed > before);

    delay_set(SHORT_DELAY);
    (void)in_thread(fill_and_empty, &size);
    sleep_ms(SHORT_DELAY + 100);
    check_comes_down_to(before + 16 * PAGE_BYTES + SEGMENT_BYTES + 64 * MIB / 32 + 5 * MIB);
}

static void an_ending_thread_keeps_64_free_pages_at_most_and_not_for_long(void **state)
{
    (void)state;
    check_reserve(1000, 64 * PAGE_BYTES);
}

static void an_ending_thread_keeps_4_empty_arenas_at_most_and_not_for_long(void **state)
{
    (void)state;
    check_reserve(100000, 4 * SEGMENT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(small_pages_go_back_after_a_second_by_default, start_clean),
        cmocka_unit_test_setup(small_pages_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(arenas_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(large_blocks_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(a_freed_large_block_is_cached_and_serves_the_next_request, start_clean),
        cmocka_unit_test_setup(a_smaller_request_takes_a_larger_cached_block_as_it_is, start_clean),
        cmocka_unit_test_setup(a_small_request_does_not_keep_much_more_than_it_needs, start_clean),
        cmocka_unit_test_setup(the_cache_holds_at_most_32_blocks, start_clean),
        cmocka_unit_test_setup(the_cache_holds_at_most_128_MiB, start_clean),
        cmocka_unit_test_setup(a_block_above_128_MiB_goes_back_at_once, start_clean),
        cmocka_unit_test_setup(the_cache_empties_after_the_delay_with_a_later_operation, start_clean),
        cmocka_unit_test_setup(the_cache_empties_after_the_delay_when_a_small_page_is_freed, start_clean),
        cmocka_unit_test_setup(a_cache_of_0_blocks_keeps_nothing, start_clean),
        cmocka_unit_test_setup(a_purge_returns_small_pages_of_sleeping_threads, start_clean),
        cmocka_unit_test_setup(a_purge_returns_arenas_of_sleeping_threads, start_clean),
        cmocka_unit_test_setup(a_purge_returns_the_large_blocks_that_are_cached, start_clean),
        cmocka_unit_test_setup(a_purge_returns_small_pages_that_others_emptied, start_clean),
        cmocka_unit_test_setup(a_purge_returns_medium_blocks_that_others_freed, start_clean),
        cmocka_unit_test_setup(a_purge_returns_the_insides_of_free_medium_chunks_between_live_ones, start_clean),
        cmocka_unit_test_setup(a_purge_leaves_live_blocks_alone, start_clean),
        cmocka_unit_test_setup(a_second_purge_finds_nothing, start_clean),
        cmocka_unit_test_setup(a_thread_flush_returns_what_the_thread_keeps, start_clean),
        cmocka_unit_test_setup(a_thread_flush_takes_back_what_others_freed, start_clean),
        cmocka_unit_test_setup(an_ending_thread_keeps_64_free_pages_at_most_and_not_for_long, start_clean),
        cmocka_unit_test_setup(an_ending_thread_keeps_4_empty_arenas_at_most_and_not_for_long, start_clean),
    };
    return cmocka_run_group_tests_name("return", tests, NULL, NULL);
}
