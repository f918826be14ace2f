/* SPDX-License-Identifier: MIT */
/* test_return.c - memory goes back to the system: after the delay when something runs, at once by a purge
 * while the owners sleep, and when threads end. What may stay are the descriptors of each segment, and 16 pages
 * and an arena of each heap where no purge was asked for. */
#include <sys/mman.h>

#include "../common/support.h"
#include "../common/system_calls.h"

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

/* Beside other work, which needs nothing of what is to go back but keeps a block in the cache: whether that
 * happens within 3 s. */
static bool comes_down_beside_other_work(uint64_t floor)
{
    for (int i = 0; i < 300; i++) {
        struct shardmm_stats stats;
        shardmm_free(shardmm_malloc(3 * MIB));
        if (shardmm_stats_get(&stats, sizeof stats) == 0 && stats.committed - stats.large_cache_bytes <= floor)
            return true;
        sleep_ms(10);
    }
    return false;
}

/* Free memory beside live blocks has no time of its own, and its arena never empties. */
static void free_memory_between_live_medium_blocks_goes_back_after_the_delay(void **state)
{
    enum { COUNT = 400, LIVE_EACH = 40, SIZE = 100000 };
    void *blocks[COUNT];
    uint64_t before;
    (void)state;

    before = stats_now().committed;
    for (size_t i = 0; i < COUNT; i++)
        assert_non_null(blocks[i] = filled_block(SIZE, i));
    assert_true(stats_now().committed >= before + COUNT * (uint64_t)SIZE / 10 * 9);
    for (size_t i = 0; i < COUNT; i++) {
        if (i % LIVE_EACH != 0)
            shardmm_free(blocks[i]);
    }
    assert_true(comes_down_beside_other_work(before + COUNT * (uint64_t)SIZE / 10));
    for (size_t i = 0; i < COUNT; i += LIVE_EACH) {
        assert_true(pattern_holds(blocks[i], SIZE, i));
        shardmm_free(blocks[i]);
    }
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

/* Behind the last block of an arena there is a rest, of which a part was never touched. */
static void a_purge_returns_free_chunks_at_the_ends_of_arenas(void **state)
{
    enum { COUNT = 80 };
    static const size_t sizes[] = {500 * KIB, 900 * KIB};
    void *blocks[COUNT];
    (void)state;

    delay_set(10000);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (size_t live_each = COUNT; live_each >= 4; live_each /= 20) { /* the first one alone, then each fourth */
            const uint64_t before = stats_now().committed;
            for (size_t i = 0; i < COUNT; i++)
                assert_non_null(blocks[i] = filled_block(sizes[s], i));
            for (size_t i = 0; i < COUNT; i++) {
                if (i % live_each != 0)
                    shardmm_free(blocks[i]);
            }
            (void)shardmm_purge();
            /* For each block and arena the ends of what is free beside it. */
            assert_in_range(stats_now().committed, 0, before + COUNT / live_each * (sizes[s] + 80 * KIB) + slack);
            for (size_t i = 0; i < COUNT; i += live_each) {
                assert_true(pattern_holds(blocks[i], sizes[s], i));
                shardmm_free(blocks[i]);
            }
            (void)shardmm_purge();
        }
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

enum { CROWD = 20 };

static void *fill_and_empty_with_others(void *unused)
{
    struct load medium = load_make(3 * MIB, 120000);
    struct load small = load_make(16 * PAGE_BYTES, 4000);
    (void)unused;

    load_free(&medium);
    load_free(&small);
    pthread_barrier_wait(&filled);
    return NULL;
}

/* As many heaps as threads ran at once wait then, for threads that never come. */
static void a_crowd_of_threads_leaves_nothing_behind(void **state)
{
    pthread_t threads[CROWD];
    uint64_t before;
    (void)state;

    delay_set(10000);
    before = stats_now().committed;
    assert_int_equal(pthread_barrier_init(&filled, NULL, CROWD), 0);
    for (size_t i = 0; i < CROWD; i++)
        threads[i] = thread_start(fill_and_empty_with_others, NULL);
    for (size_t i = 0; i < CROWD; i++)
        (void)thread_end(threads[i]);
    pthread_barrier_destroy(&filled);
    assert_true(stats_now().committed >= before + CROWD * 2 * MIB);
    delay_set(SHORT_DELAY);
    /* Of each heap the descriptors of a segment, and the beginning of an arena. */
    assert_true(comes_down_beside_other_work(before + CROWD * 80 * KIB + slack));
}

/* ---- Segments backed by huge pages ----------------------------------------------------------------- */

/* They are not split for a single page that is free; memory must come back from them all the same. In a process
 * of its own, in which all segments are such. */
static const char purge_huge[] = "purge-huge";
static const char age_huge[] = "age-huge";

static void start_with_huge_pages(void *word)
{
    CHILD_CHECK(setenv("SHARDMM_HUGE_PAGES", "always", 1) == 0);
    start_again(word);
}

static int run_purge_huge(void)
{
    enum { COUNT = 32 * 1024, SIZE = 1024, PAGES_EACH = 3 };
    static void *blocks[COUNT];
    uint64_t full;
    size_t live = 0;
    size_t returned;

    CHILD_CHECK(shardmm_option_set("purge_delay", 10000) == 0);
    for (size_t i = 0; i < COUNT; i++)
        CHILD_CHECK((blocks[i] = filled_block(SIZE, i)) != NULL);
    full = stats_now().committed;
    for (size_t i = 0; i < COUNT; i++) {
        if (address_of(blocks[i]) / PAGE_BYTES % PAGES_EACH == 0) {
            live++;
            continue;
        }
        shardmm_free(blocks[i]);
        blocks[i] = NULL;
    }
    returned = shardmm_purge();
    CHILD_CHECK(returned >= (COUNT - live) * SIZE / 10 * 9);
    CHILD_CHECK(stats_now().committed <= full - (COUNT - live) * SIZE / 10 * 9);
    CHILD_CHECK(stats_now().free_pages_bytes == 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHILD_CHECK(blocks[i] == NULL || pattern_holds(blocks[i], SIZE, i));
        shardmm_free(blocks[i]);
    }
    return 0;
}

static void a_purge_returns_free_pages_beside_live_ones_from_huge_pages_too(void **state)
{
    char word[sizeof purge_huge];
    (void)state;

    memcpy(word, purge_huge, sizeof word);
    in_child(start_with_huge_pages, word, 30);
}

static int run_age_huge(void)
{
    struct owner owner = {.size = 1000, .frees_itself = false};
    pthread_t thread;
    void *result = NULL;
    uint64_t before;
    bool down;

    CHILD_CHECK(shardmm_option_set("purge_delay", SHORT_DELAY) == 0);
    shardmm_free(shardmm_malloc(1));
    before = stats_now().committed;
    pthread_barrier_init(&filled, NULL, 2);
    pthread_barrier_init(&emptied, NULL, 2);
    pthread_barrier_init(&purged, NULL, 2);
    CHILD_CHECK(pthread_create(&thread, NULL, own, &owner) == 0);
    pthread_barrier_wait(&filled);
    CHILD_CHECK(stats_now().committed >= before + 24 * MIB);
    load_free(&owner.load);
    pthread_barrier_wait(&emptied);
    down = comes_down_beside_other_work(before + 24 * MIB / 10 + slack);
    pthread_barrier_wait(&purged);
    CHILD_CHECK(pthread_join(thread, &result) == 0 && result == NULL);
    CHILD_CHECK(down);
    return 0;
}

static void pages_that_others_emptied_go_back_from_huge_pages_while_the_owner_sleeps(void **state)
{
    char word[sizeof age_huge];
    (void)state;

    memcpy(word, age_huge, sizeof word);
    in_child(start_with_huge_pages, word, 30);
}

/* ---- Pages that are locked ------------------------------------------------------------------------- */

/* The kernel drops the pages before the locked one and fails then: half of the links between the items are
 * gone. Kernels since 5.18 can be told to drop locked pages as well; others are played by a filter. */
enum { LOCK_COUNT = 64 * 40, LOCK_SIZE = 1024 };

static void *locked_blocks[LOCK_COUNT];

static void *fill_and_fill_again(void *unused)
{
    unsigned errors = 0;
    (void)unused;

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < LOCK_COUNT; i++) {
            locked_blocks[i] = filled_block(LOCK_SIZE, i);
            EXPECT(errors, locked_blocks[i] != NULL);
        }
        for (size_t i = 0; i < LOCK_COUNT; i++)
            EXPECT(errors, pattern_holds(locked_blocks[i], LOCK_SIZE, i));
        pthread_barrier_wait(&filled);
        pthread_barrier_wait(&emptied);
    }
    return ERRORS(errors);
}

static void *block_amid_a_page(void)
{
    size_t i = LOCK_COUNT / 2;

    while (address_of(locked_blocks[i]) % PAGE_BYTES < PAGE_BYTES / 2)
        i++;
    return locked_blocks[i];
}

static void purge_what_is_locked(void *refuses_locked)
{
    enum { DROP_LOCKED = 24 }; /* MADV_DONTNEED_LOCKED */
    pthread_t thread;
    void *result = NULL;

    if (*(const bool *)refuses_locked)
        system_call_with_answers(SYS_madvise, 2, DROP_LOCKED, EINVAL);
    pthread_barrier_init(&filled, NULL, 2);
    pthread_barrier_init(&emptied, NULL, 2);
    CHILD_CHECK(pthread_create(&thread, NULL, fill_and_fill_again, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        pthread_barrier_wait(&filled);
        if (round == 0 && mlock(block_amid_a_page(), LOCK_SIZE) != 0)
            CHILD_SKIP("no memory may be locked");
        CHILD_CHECK(shardmm_verify() == 0);
        for (size_t i = 0; i < LOCK_COUNT; i++)
            shardmm_free(locked_blocks[i]);
        (void)shardmm_purge();
        pthread_barrier_wait(&emptied);
    }
    CHILD_CHECK(pthread_join(thread, &result) == 0 && result == NULL);
    CHILD_CHECK(shardmm_verify() == 0);
}

static void a_locked_block_in_a_page_that_others_emptied_does_no_harm(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (int refuses_locked = 0; refuses_locked < 2; refuses_locked++) {
        bool argument = refuses_locked != 0;
        in_child(purge_what_is_locked, &argument, 30);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(small_pages_go_back_after_a_second_by_default, start_clean),
        cmocka_unit_test_setup(small_pages_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(arenas_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(large_blocks_go_back_after_the_delay, start_clean),
        cmocka_unit_test_setup(free_memory_between_live_medium_blocks_goes_back_after_the_delay, start_clean),
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
        cmocka_unit_test_setup(a_purge_returns_free_chunks_at_the_ends_of_arenas, start_clean),
        cmocka_unit_test_setup(a_purge_leaves_live_blocks_alone, start_clean),
        cmocka_unit_test_setup(a_second_purge_finds_nothing, start_clean),
        cmocka_unit_test_setup(a_thread_flush_returns_what_the_thread_keeps, start_clean),
        cmocka_unit_test_setup(a_thread_flush_takes_back_what_others_freed, start_clean),
        cmocka_unit_test_setup(an_ending_thread_keeps_64_free_pages_at_most_and_not_for_long, start_clean),
        cmocka_unit_test_setup(an_ending_thread_keeps_4_empty_arenas_at_most_and_not_for_long, start_clean),
        cmocka_unit_test_setup(a_crowd_of_threads_leaves_nothing_behind, start_clean),
        cmocka_unit_test_setup(a_purge_returns_free_pages_beside_live_ones_from_huge_pages_too, start_clean),
        cmocka_unit_test_setup(pages_that_others_emptied_go_back_from_huge_pages_while_the_owner_sleeps, start_clean),
        cmocka_unit_test_setup(a_locked_block_in_a_page_that_others_emptied_does_no_harm, start_clean),
    };

    if (count == 2 && strcmp(arguments[1], purge_huge) == 0)
        return run_purge_huge();
    if (count == 2 && strcmp(arguments[1], age_huge) == 0)
        return run_age_huge();
    return cmocka_run_group_tests_name("return", tests, NULL, NULL);
}
