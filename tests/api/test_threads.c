/* SPDX-License-Identifier: MIT */
/* test_threads.c - blocks cross threads and outlive them, heaps are handed from ended threads to new ones,
 * and late calls of ending threads work and leave nothing behind. */
#include <limits.h>

#include "../common/support.h"

enum { KINDS = 12 };

static const size_t kind_size[KINDS] = {
    8, 100, 1000, 4000, 16 * 1024, 16 * 1024 + 1, 50000, 65536, 400000, 1024 * 1024, 1024 * 1024 + 1, 3000000,
};

struct handover {
    void *blocks[KINDS];
    uint64_t seed;
};

static void *make_blocks(void *argument)
{
    struct handover *const handover = argument;
    unsigned errors = 0;

    for (size_t i = 0; i < KINDS; i++) {
        handover->blocks[i] = filled_block(kind_size[i], handover->seed + i);
        EXPECT(errors, handover->blocks[i] != NULL);
    }
    return ERRORS(errors);
}

static void *grow_blocks(void *argument)
{
    struct handover *const handover = argument;
    unsigned errors = 0;

    for (size_t i = 0; i < KINDS; i++) {
        void *const block = shardmm_realloc(handover->blocks[i], kind_size[i] * 2);
        EXPECT(errors, block != NULL && pattern_holds(block, kind_size[i], handover->seed + i));
        pattern_fill_from(block, kind_size[i], kind_size[i] * 2, handover->seed + i);
        handover->blocks[i] = block;
    }
    return ERRORS(errors);
}

static void *shrink_blocks(void *argument)
{
    struct handover *const handover = argument;
    unsigned errors = 0;

    for (size_t i = 0; i < KINDS; i++) {
        void *block = handover->blocks[i];
        EXPECT(errors, pattern_holds(block, kind_size[i] * 2, handover->seed + i));
        block = shardmm_realloc(block, kind_size[i] / 3 + 1);
        EXPECT(errors, block != NULL && pattern_holds(block, kind_size[i] / 3 + 1, handover->seed + i));
        handover->blocks[i] = block;
    }
    return ERRORS(errors);
}

static void *free_blocks(void *argument)
{
    struct handover *const handover = argument;

    for (size_t i = 0; i < KINDS; i++)
        shardmm_free(handover->blocks[i]);
    return NULL;
}

static void blocks_outlive_their_thread_and_are_resized_and_freed_by_others(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        struct handover handover = {.seed = round * 100};
        assert_no_errors(in_thread(make_blocks, &handover));
        assert_no_errors(in_thread(grow_blocks, &handover));
        assert_no_errors(shrink_blocks(&handover)); /* by the first thread */
        for (size_t i = 0; i < KINDS; i++)
            assert_true(pattern_holds(handover.blocks[i], kind_size[i] / 3 + 1, handover.seed + i));
        assert_no_errors(in_thread(free_blocks, &handover));
    }
}

/* ---- A ring of threads ------------------------------------------------------------------------- */

enum { RING = 4, RING_ROUNDS = 60, RING_BLOCKS = 100 };

static void *_Atomic ring[RING][RING_BLOCKS];
static pthread_barrier_t ring_barrier;

static size_t ring_size(size_t thread, size_t round, size_t index)
{
    const size_t mixed = (thread * 7919 + round * 104729 + index * 1299709) % 100003;
    return index % 25 == 0 ? 17000 + mixed : index == 7 && round % 8 == 0 ? 2 * MIB : 16 + mixed % 2000;
}

/* Fills the own slots, then empties those of the neighbour, who does the same. */
static void *run_ring(void *argument)
{
    const size_t self = (size_t)(uintptr_t)argument;
    const size_t next = (self + 1) % RING;
    unsigned errors = 0;

    for (size_t round = 0; round < RING_ROUNDS; round++) {
        for (size_t i = 0; i < RING_BLOCKS; i++)
            ring[self][i] = filled_block(ring_size(self, round, i), self * 1000 + i);
        pthread_barrier_wait(&ring_barrier);
        for (size_t i = 0; i < RING_BLOCKS; i++) {
            const size_t size = ring_size(next, round, i);
            void *block = ring[next][i];
            EXPECT(errors, block != NULL && pattern_holds(block, size, next * 1000 + i));
            if (i % 5 == 0) {
                block = shardmm_realloc(block, size + size / 2);
                EXPECT(errors, block != NULL && pattern_holds(block, size, next * 1000 + i));
            }
            shardmm_free(block);
        }
        pthread_barrier_wait(&ring_barrier);
    }
    return ERRORS(errors);
}

static void run_whole_ring(void)
{
    pthread_t threads[RING];

    assert_int_equal(pthread_barrier_init(&ring_barrier, NULL, RING), 0);
    for (size_t i = 0; i < RING; i++)
        threads[i] = thread_start(run_ring, (void *)(uintptr_t)i);
    for (size_t i = 0; i < RING; i++)
        assert_no_errors(thread_end(threads[i]));
    pthread_barrier_destroy(&ring_barrier);
}

static void threads_that_free_their_neighbours_blocks_find_them_whole(void **state)
{
    (void)state;
    run_whole_ring();
}

/* ---- Threads that end ---------------------------------------------------------------------------- */

/* Allocates, checks and frees each kind, as from the destructor of a key. Of large blocks only the beginning
 * is looked at: it runs very often. */
static unsigned use_every_kind(uint64_t seed)
{
    unsigned errors = 0;

    for (size_t i = 0; i < KINDS; i++) {
        const size_t looked_at = kind_size[i] < 5000 ? kind_size[i] : 5000;
        void *block = shardmm_malloc(kind_size[i]);
        EXPECT(errors, block != NULL);
        if (block == NULL)
            continue;
        pattern_fill(block, looked_at, seed);
        if (i % 2 == 0) {
            block = shardmm_realloc(block, kind_size[i] + 100);
            EXPECT(errors, block != NULL);
        }
        EXPECT(errors, pattern_holds(block, looked_at, seed));
        shardmm_free(block);
    }
    return errors;
}

/* A thread's value of both keys. Each round frees what the round before left and leaves a block. */
struct late {
    pthread_key_t key;
    unsigned rounds;
    void *left;
};

static pthread_key_t early_key; /* made before the first call of the library */
static pthread_key_t late_key;
static _Atomic unsigned late_errors;
static _Atomic unsigned late_rounds;

static void run_late(void *value)
{
    struct late *const late = value;
    unsigned errors = 0;

    late_rounds++;
    EXPECT(errors, late->left != NULL && pattern_holds(late->left, 200, late->rounds));
    shardmm_free(late->left);
    errors += use_every_kind(late->rounds);
    if (++late->rounds < DESTRUCTOR_ROUNDS) {
        late->left = filled_block(200, late->rounds);
        EXPECT(errors, late->left != NULL);
        EXPECT(errors, pthread_setspecific(late->key, late) == 0);
    } else {
        shardmm_free(late); /* the value itself, in the last round */
    }
    late_errors += errors;
}

static void *start_late(void *unused)
{
    pthread_key_t keys[2];
    unsigned errors = 0;

    keys[0] = early_key;
    keys[1] = late_key;
    for (size_t i = 0; i < 2; i++) {
        struct late *const late = shardmm_malloc(sizeof *late);
        late->key = keys[i];
        late->rounds = 0;
        late->left = filled_block(200, 0);
        EXPECT(errors, pthread_setspecific(late->key, late) == 0);
    }
    return unused == NULL ? ERRORS(errors) : unused;
}

static int make_keys(void **state)
{
    /* Implementations keep the values of the first 32 keys in the thread and allocate for the rest. */
    enum { BEFORE = 33 };
    pthread_key_t before[BEFORE];
    (void)state;

    if (pthread_key_create(&early_key, run_late) != 0)
        return -1;
    for (size_t i = 0; i < BEFORE; i++) {
        if (pthread_key_create(&before[i], NULL) != 0)
            return -1;
    }
    shardmm_free(shardmm_malloc(1));
    return pthread_key_create(&late_key, run_late);
}

static void destructors_of_all_rounds_may_allocate_and_free(void **state)
{
    enum { THREADS = 50 };
    (void)state;

    late_rounds = 0;
    for (int i = 0; i < THREADS; i++)
        assert_no_errors(in_thread(start_late, NULL));
    assert_int_equal(late_errors, 0);
    assert_int_equal(late_rounds, THREADS * 2 * DESTRUCTOR_ROUNDS);
}

static void *a_short_life(void *argument)
{
    struct handover *const handover = argument;
    void *blocks[20];
    unsigned errors = 0;

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = filled_block(24 + i * 90, i);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        EXPECT(errors, blocks[i] != NULL && pattern_holds(blocks[i], 24 + i * 90, i));
        shardmm_free(blocks[i]);
    }
    for (size_t i = 0; i < 6; i++) /* left to the next */
        handover->blocks[i] = filled_block(kind_size[i], i);
    return ERRORS(errors);
}

static void many_lives(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct handover handover = {.seed = 0};
        assert_no_errors(in_thread(a_short_life, &handover));
        for (size_t j = 0; j < 6; j++) {
            assert_true(pattern_holds(handover.blocks[j], kind_size[j], j));
            shardmm_free(handover.blocks[j]);
        }
        if (i % 10 == 0)
            assert_no_errors(in_thread(start_late, NULL));
    }
}

static void three_thousand_threads_one_after_another_leave_the_resident_set_flat(void **state)
{
    size_t before;
    (void)state;

    many_lives(200);
    before = resident_bytes();
    many_lives(3000);
    assert_int_equal(late_errors, 0);
    if (!TEST_SANITIZED)
        assert_true(resident_bytes() < before + 2 * MIB);
}

#ifndef SHARDMM_TEST_LIBC

static void threads_one_after_another_share_one_heap(void **state)
{
    struct shardmm_stats before;
    struct shardmm_stats after;
    (void)state;

    many_lives(20);
    before = stats_now();
    many_lives(200);
    after = stats_now();
    assert_int_equal(after.heaps_live + after.heaps_waiting, before.heaps_live + before.heaps_waiting);
    assert_int_equal(after.heaps_live, before.heaps_live);
    assert_int_equal(after.segments, before.segments);
}

static pthread_barrier_t all_live;

static void *live_together(void *unused)
{
    void *const block = shardmm_malloc(100);
    unsigned errors = 0;
    (void)unused;

    EXPECT(errors, block != NULL);
    pthread_barrier_wait(&all_live);
    shardmm_free(block);
    pthread_barrier_wait(&all_live);
    return ERRORS(errors);
}

static void there_are_as_many_heaps_as_threads_ran_at_once(void **state)
{
    enum { THREADS = 8 };
    struct shardmm_stats first = {0};
    (void)state;

    for (int round = 0; round < 5; round++) {
        pthread_t threads[THREADS];
        const struct shardmm_stats before = stats_now();
        struct shardmm_stats during;
        struct shardmm_stats after;

        assert_int_equal(pthread_barrier_init(&all_live, NULL, THREADS + 1), 0);
        for (size_t i = 0; i < THREADS; i++)
            threads[i] = thread_start(live_together, NULL);
        pthread_barrier_wait(&all_live);
        during = stats_now();
        pthread_barrier_wait(&all_live);
        for (size_t i = 0; i < THREADS; i++)
            assert_no_errors(thread_end(threads[i]));
        after = stats_now();
        pthread_barrier_destroy(&all_live);

        assert_int_equal(during.heaps_live, before.heaps_live + THREADS);
        assert_int_equal(after.heaps_live, before.heaps_live);
        assert_true(after.heaps_waiting >= THREADS);
        if (round == 0)
            first = after;
        assert_int_equal(after.heaps_waiting, first.heaps_waiting);
    }
}

/* ---- Threads that are cancelled ------------------------------------------------------------------ */

/* More than a heap has before it thinks of huge pages, and each kind; requests that fail say so on standard error. */
static void *allocate_while_cancelled(void *unused)
{
    enum { COUNT = 1500 };
    static void *blocks[COUNT];
    unsigned errors = 0;
    int type = 0;
    (void)unused;

    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_cancel(pthread_self());
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = filled_block(SMALL_MAX, i);
    for (size_t i = 0; i < COUNT; i++) {
        if (blocks[i] == NULL || !pattern_holds(blocks[i], SMALL_MAX, i))
            errors++;
        shardmm_free(blocks[i]);
    }
    errors += use_every_kind(1);
    if (shardmm_malloc(hidden_size(SIZE_MAX)) != NULL)
        errors++;
    (void)shardmm_purge();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &type);
    return ERRORS(errors);
}

/* Holds off: a call that opens or writes a file under way, where a thread that is to be cancelled ends, with
 * locks held and a heap half changed. Seen to fail with the C library's open(). */
static void no_call_is_a_point_of_cancellation(void **state)
{
    (void)state;
    assert_int_equal(shardmm_option_set("verbose", 2), 0);
    assert_no_errors(in_thread(allocate_while_cancelled, NULL));
    assert_int_equal(shardmm_option_set("verbose", 0), 0);
    assert_int_equal(shardmm_verify(), 0);
}

/* ---- Frees into a heap that waits --------------------------------------------------------------- */

enum { WAITING = 5000 };

static void *waiting_blocks[WAITING];

static size_t waiting_size(size_t index)
{
    return index % 50 == 0 ? 20000 + index * 10 : 16 + index % 3000;
}

static void *make_waiting(void *unused)
{
    unsigned errors = 0;

    for (size_t i = 0; i < WAITING; i++) {
        waiting_blocks[i] = filled_block(waiting_size(i), i);
        EXPECT(errors, waiting_blocks[i] != NULL);
    }
    return unused == NULL ? ERRORS(errors) : unused;
}

/* Each class once and a medium block: the slow paths at which an owner looks for what others freed. */
static void *take_waiting_heap(void *unused)
{
    unsigned errors = use_every_kind(1);

    shardmm_thread_flush();
    return unused == NULL ? ERRORS(errors) : unused;
}

static void frees_into_a_waiting_heap_are_drained_by_its_next_owner(void **state)
{
    (void)state;
    assert_no_errors(in_thread(take_waiting_heap, NULL));
    const struct shardmm_stats before = stats_now();

    assert_no_errors(in_thread(make_waiting, NULL));
    assert_true(stats_now().small_blocks >= before.small_blocks + WAITING / 50 * 49);
    assert_true(stats_now().medium_blocks >= before.medium_blocks + WAITING / 50);
    for (size_t i = 0; i < WAITING; i++) {
        assert_true(pattern_holds(waiting_blocks[i], waiting_size(i), i));
        shardmm_free(waiting_blocks[i]);
    }
    assert_true(stats_now().foreign_frees >= before.foreign_frees + WAITING);
    assert_no_errors(in_thread(take_waiting_heap, NULL));
    assert_same_in_use(before);
    assert_int_equal(stats_now().heaps_waiting, before.heaps_waiting);
}

static void memory_of_a_waiting_heap_serves_its_next_owner(void **state)
{
    uint64_t segments = 0;
    (void)state;

    for (int round = 0; round < 20; round++) {
        assert_no_errors(in_thread(make_waiting, NULL));
        for (size_t i = 0; i < WAITING; i++)
            shardmm_free(waiting_blocks[i]);
        if (round == 2)
            segments = stats_now().segments;
    }
    assert_int_equal(stats_now().segments, segments);
}

static void *take_waiting_heap_with_others(void *unused)
{
    unsigned errors;
    (void)unused;

    pthread_barrier_wait(&all_live);
    errors = use_every_kind(1);
    shardmm_thread_flush();
    pthread_barrier_wait(&all_live);
    return ERRORS(errors);
}

/* As many threads at once as there are heaps that wait. */
static void take_all_waiting_heaps(void)
{
    pthread_t threads[64];
    const size_t count = (size_t)stats_now().heaps_waiting;

    assert_in_range(count, 1, COUNT_OF(threads));
    assert_int_equal(pthread_barrier_init(&all_live, NULL, (unsigned)count), 0);
    for (size_t i = 0; i < count; i++)
        threads[i] = thread_start(take_waiting_heap_with_others, NULL);
    for (size_t i = 0; i < count; i++)
        assert_no_errors(thread_end(threads[i]));
    pthread_barrier_destroy(&all_live);
}

static void nothing_stays_in_use_after_threads_ended(void **state)
{
    struct shardmm_stats before;
    (void)state;

    run_whole_ring();
    take_all_waiting_heaps();
    before = stats_now();
    assert_no_errors(in_thread(start_late, NULL));
    many_lives(20);
    run_whole_ring();
    /* What the threads of the ring freed last lies with heaps that wait. */
    take_all_waiting_heaps();
    assert_same_in_use(before);
}

/* ---- One makes, another frees -------------------------------------------------------------------- */

enum { PIPE_ROUNDS = 300, PIPE_BLOCKS = 2000 };

static void *pipe_blocks[PIPE_BLOCKS];
static pthread_barrier_t pipe_barrier;

static void *free_the_pipe(void *unused)
{
    for (int round = 0; round < PIPE_ROUNDS; round++) {
        pthread_barrier_wait(&pipe_barrier);
        for (size_t i = 0; i < PIPE_BLOCKS; i++)
            shardmm_free(pipe_blocks[i]);
        pthread_barrier_wait(&pipe_barrier);
    }
    return unused;
}

static void a_producer_reuses_what_a_consumer_freed(void **state)
{
    pthread_t consumer;
    uint64_t committed = 0;
    (void)state;

    assert_int_equal(pthread_barrier_init(&pipe_barrier, NULL, 2), 0);
    consumer = thread_start(free_the_pipe, NULL);
    for (int round = 0; round < PIPE_ROUNDS; round++) {
        for (size_t i = 0; i < PIPE_BLOCKS; i++)
            pipe_blocks[i] = shardmm_malloc(i % 100 == 0 ? 30000 : 64 + i % 500);
        pthread_barrier_wait(&pipe_barrier);
        pthread_barrier_wait(&pipe_barrier);
        if (round == 10)
            committed = stats_now().committed;
    }
    (void)thread_end(consumer);
    pthread_barrier_destroy(&pipe_barrier);
    /* One round is 1.2 MB. */
    assert_true(stats_now().committed < committed + 4 * MIB);
}

/* ---- A thread that takes again what it freed, and gives it back ------------------------------------- */

enum { LENT_MAX = 8192 };

static struct {
    size_t size;
    size_t count;
    void *blocks[LENT_MAX];
    void *taken[PAGE_BYTES / 16];
    size_t freed_count;
    size_t taken_count;
    uintptr_t page; /* the one that all this is about, full at first */
} lending;

static pthread_barrier_t lent;

static bool in_lending_page(const void *block)
{
    return block != NULL && address_of(block) / PAGE_BYTES == lending.page;
}

/* Frees a part of the page, and takes as many blocks, which are then those. */
static void *free_and_take_again(void *unused)
{
    size_t borrowed = 0;
    unsigned errors = 0;
    (void)unused;

    shardmm_free(shardmm_malloc(1)); /* has a heap now */
    for (size_t i = 0, left = lending.freed_count; i < lending.count && left != 0; i++) {
        if (!in_lending_page(lending.blocks[i]))
            continue;
        shardmm_free(lending.blocks[i]);
        lending.blocks[i] = NULL;
        left--;
    }
    for (size_t i = 0; i < lending.freed_count; i++) {
        lending.taken[i] = filled_block(lending.size, i);
        borrowed += in_lending_page(lending.taken[i]);
    }
    lending.taken_count = lending.freed_count;
    EXPECT(errors, borrowed == lending.freed_count);
    pthread_barrier_wait(&lent);
    pthread_barrier_wait(&lent);
    return ERRORS(errors);
}

/* All of `part` in a hundred of a page. The owner frees what the other thread took and the rest of the page,
 * which is empty then, but still awaited in the list of those that others freed into. */
static void check_lending(size_t size, unsigned part)
{
    const size_t items = PAGE_BYTES / size;
    pthread_t borrower;
    void *result;

    lending.size = size;
    lending.count = items * 8;
    lending.freed_count = items * part / 100;
    for (size_t i = 0; i < lending.count; i++)
        assert_non_null(lending.blocks[i] = shardmm_malloc(size));
    lending.page = address_of(lending.blocks[lending.count / 2]) / PAGE_BYTES;
    assert_int_equal(pthread_barrier_init(&lent, NULL, 2), 0);
    borrower = thread_start(free_and_take_again, NULL);
    pthread_barrier_wait(&lent);
    for (size_t i = 0; i < lending.taken_count; i++) {
        assert_true(pattern_holds(lending.taken[i], size, i));
        shardmm_free(lending.taken[i]);
    }
    for (size_t i = 0; i < lending.count; i++) {
        if (in_lending_page(lending.blocks[i])) {
            shardmm_free(lending.blocks[i]);
            lending.blocks[i] = NULL;
        }
    }
    assert_int_equal(shardmm_verify(), 0);
    pthread_barrier_wait(&lent);
    result = thread_end(borrower);
    pthread_barrier_destroy(&lent);
    assert_no_errors(result);
    for (size_t i = 0; i < lending.count; i++)
        shardmm_free(lending.blocks[i]);
    shardmm_thread_flush();
    assert_int_equal(shardmm_verify(), 0);
}

static void an_owner_frees_what_was_lent_from_its_page(void **state)
{
    const struct shardmm_stats before = stats_now();
    (void)state;

    for (int round = 0; round < 3; round++) {
        check_lending(SMALL_MAX, 100);
        check_lending(SMALL_MAX, 50);
        check_lending(1024, 60);
        check_lending(1024, 100);
        check_lending(64, 100);
    }
    assert_same_in_use(before);
}

static void the_structures_hold_after_all_this(void **state)
{
    (void)state;
    assert_int_equal(shardmm_verify(), 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_outlive_their_thread_and_are_resized_and_freed_by_others),
        cmocka_unit_test(threads_that_free_their_neighbours_blocks_find_them_whole),
        cmocka_unit_test(destructors_of_all_rounds_may_allocate_and_free),
        cmocka_unit_test(three_thousand_threads_one_after_another_leave_the_resident_set_flat),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(no_call_is_a_point_of_cancellation),
        cmocka_unit_test(threads_one_after_another_share_one_heap),
        cmocka_unit_test(there_are_as_many_heaps_as_threads_ran_at_once),
        cmocka_unit_test(frees_into_a_waiting_heap_are_drained_by_its_next_owner),
        cmocka_unit_test(memory_of_a_waiting_heap_serves_its_next_owner),
        cmocka_unit_test(nothing_stays_in_use_after_threads_ended),
        cmocka_unit_test(a_producer_reuses_what_a_consumer_freed),
        cmocka_unit_test(an_owner_frees_what_was_lent_from_its_page),
        cmocka_unit_test(the_structures_hold_after_all_this),
#endif
    };
    return cmocka_run_group_tests_name("threads", tests, make_keys, NULL);
}
