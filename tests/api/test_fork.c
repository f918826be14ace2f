/* SPDX-License-Identifier: MIT */
/* test_fork.c - a child of fork() can allocate and free every kind at once, whatever other threads of the
 * parent were doing, and other libraries' fork handlers may allocate. A child that hangs is ended by its
 * alarm, the parent by its own. */
#include <stdatomic.h>

#include "../common/support.h"

enum { CHILD_SECONDS = 20, PARENT_SECONDS = 100 };

static const size_t sizes[] = {1, 64, 700, 5000, 16 * 1024, 20000, 90000, 1024 * 1024, 1200000, 3 * 1024 * 1024};

/* ---- Handlers of "other libraries" --------------------------------------------------------------- */

/* The first set is registered before the library's own handlers, as far as that can be, the second after.
 * A thread that forks has slots of its own. */
static __thread void *at_fork_block[2];
static _Atomic unsigned handler_calls;

static void prepare(int set)
{
    void *const large = shardmm_malloc(2 * MIB);
    void *const medium = shardmm_malloc(30000);

    at_fork_block[set] = filled_block(300, (uint64_t)set);
    if (large == NULL || medium == NULL || at_fork_block[set] == NULL)
        abort();
    shardmm_free(medium);
    shardmm_free(large);
    handler_calls++;
}

static void after(int set)
{
    void *const large = shardmm_calloc(1, 2 * MIB);
    void *const medium = shardmm_realloc(shardmm_malloc(30000), 60000);

    if (large == NULL || medium == NULL || !pattern_holds(at_fork_block[set], 300, (uint64_t)set))
        abort();
    shardmm_free(at_fork_block[set]);
    shardmm_free(medium);
    shardmm_free(large);
    handler_calls++;
}

static void first_prepare(void)
{
    prepare(0);
}

static void first_after(void)
{
    after(0);
}

static void second_prepare(void)
{
    prepare(1);
}

static void second_after(void)
{
    after(1);
}

__attribute__((constructor(101))) static void register_first(void)
{
    if (pthread_atfork(first_prepare, first_after, first_after) != 0)
        abort();
}

static int register_second(void **state)
{
    (void)state;
    alarm(PARENT_SECONDS);
    shardmm_free(shardmm_malloc(1));
    return pthread_atfork(second_prepare, second_after, second_after);
}

/* ---- The children --------------------------------------------------------------------------------- */

static void *inherited[COUNT_OF(sizes)];

static int use_every_kind(void)
{
    for (uint64_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            const size_t touched = sizes[i] < 5000 ? sizes[i] : 5000;
            void *block = shardmm_malloc(sizes[i]);
            if (block == NULL)
                return 2;
            pattern_fill(block, touched, round);
            block = shardmm_realloc(block, sizes[i] + sizes[i] / 3);
            if (block == NULL || !pattern_holds(block, touched, round))
                return 3;
            shardmm_free(block);
            block = shardmm_calloc(1, touched);
            if (block == NULL || !bytes_are_zero(block, touched))
                return 4;
            shardmm_free(block);
        }
    }
    return 0;
}

/* Blocks that a thread of the parent made, which the child does not have. */
static int use_inherited(void)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (inherited[i] == NULL)
            continue;
        if (!pattern_holds(inherited[i], sizes[i], i))
            return 5;
        if (i % 2 == 0) {
            inherited[i] = shardmm_realloc(inherited[i], sizes[i] * 2);
            if (inherited[i] == NULL || !pattern_holds(inherited[i], sizes[i], i))
                return 6;
        }
        shardmm_free(inherited[i]);
    }
    return 0;
}

static void *use_in_thread(void *unused)
{
    (void)unused;
    return ERRORS(use_every_kind());
}

static int run_threads(void)
{
    pthread_t threads[3];
    void *result;
    int status = 0;

    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        if (pthread_create(&threads[i], NULL, use_in_thread, NULL) != 0)
            return 7;
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        if (pthread_join(threads[i], &result) != 0 || result != NULL)
            status = 8;
    }
    return status;
}

/* Forks once and returns the child's status as waitpid() says it. */
static int fork_once(int (*run)(void))
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        signals_by_default();
        alarm(CHILD_SECONDS);
        _exit(run());
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

/* ---- The parent's threads -------------------------------------------------------------------------- */

enum { CHURNERS = 3, CHURN_BLOCKS = 64 };

static _Atomic bool stop;
static void *_Atomic exchange[CHURN_BLOCKS];

/* Allocates, resizes and frees every kind, half of it blocks of the others, without a pause. */
static void *churn(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    unsigned errors = 0;

    while (!stop) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const size_t size = sizes[(random >> 33) % COUNT_OF(sizes)] + (random >> 50) % 16;
        void *block = shardmm_malloc(size);
        EXPECT(errors, block != NULL);
        if ((random >> 40) % 4 == 0)
            block = shardmm_realloc(block, size + size / 2);
        EXPECT(errors, block != NULL);
        block = atomic_exchange(&exchange[(random >> 45) % CHURN_BLOCKS], block);
        shardmm_free(block);
    }
    return ERRORS(errors);
}

static void churners_start(pthread_t *threads)
{
    stop = false;
    for (size_t i = 0; i < CHURNERS; i++)
        threads[i] = thread_start(churn, (void *)(uintptr_t)i);
}

static void churners_end(const pthread_t *threads)
{
    stop = true;
    for (size_t i = 0; i < CHURNERS; i++)
        assert_no_errors(thread_end(threads[i]));
    for (size_t i = 0; i < CHURN_BLOCKS; i++) {
        shardmm_free(exchange[i]);
        exchange[i] = NULL;
    }
}

static void *make_inherited(void *unused)
{
    unsigned errors = 0;
    (void)unused;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        inherited[i] = filled_block(sizes[i], i);
        EXPECT(errors, inherited[i] != NULL);
    }
    return ERRORS(errors);
}

static void a_child_can_use_every_kind(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(fork_once(use_every_kind), 0);
    assert_int_equal(use_every_kind(), 0);
}

static void a_child_can_resize_and_free_blocks_of_the_parents_threads(void **state)
{
    (void)state;
    assert_no_errors(in_thread(make_inherited, NULL));
    for (int i = 0; i < 5; i++)
        assert_int_equal(fork_once(use_inherited), 0);
    assert_int_equal(use_inherited(), 0);
    memset(inherited, 0, sizeof inherited);
}

static void a_child_can_start_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(fork_once(run_threads), 0);
}

static int fork_again(void)
{
    if (use_every_kind() != 0 || fork_once(use_every_kind) != 0)
        return 9;
    return use_every_kind();
}

static void a_child_can_fork(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(fork_once(fork_again), 0);
}

static void a_child_can_use_every_kind_while_threads_of_the_parent_churn(void **state)
{
    pthread_t threads[CHURNERS];
    (void)state;

    churners_start(threads);
    for (int i = 0; i < 150; i++)
        assert_int_equal(fork_once(use_every_kind), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fork_once(run_threads), 0);
    churners_end(threads);
}

static void *fork_often(void *unused)
{
    unsigned errors = 0;
    (void)unused;

    for (int i = 0; i < 60; i++)
        EXPECT(errors, fork_once(use_every_kind) == 0);
    return ERRORS(errors);
}

static void two_threads_can_fork_at_once(void **state)
{
    pthread_t threads[CHURNERS];
    pthread_t forkers[2];
    (void)state;

    churners_start(threads);
    for (size_t i = 0; i < COUNT_OF(forkers); i++)
        forkers[i] = thread_start(fork_often, NULL);
    for (size_t i = 0; i < COUNT_OF(forkers); i++)
        assert_no_errors(thread_end(forkers[i]));
    churners_end(threads);
}

/* The handlers ran around every fork above; here that they did. */
static void fork_handlers_of_others_may_allocate(void **state)
{
    const unsigned before = handler_calls;
    (void)state;

    assert_int_equal(fork_once(use_every_kind), 0);
    assert_int_equal(handler_calls - before, 4); /* two sets, before and after */
}

#ifndef SHARDMM_TEST_LIBC

static int purge_and_ask(void)
{
    struct shardmm_stats stats;

    (void)shardmm_purge();
    shardmm_thread_flush();
    if (shardmm_stats_get(&stats, sizeof stats) != 0)
        return 10;
    return use_every_kind();
}

static void a_child_can_purge_and_ask_for_statistics(void **state)
{
    pthread_t threads[CHURNERS];
    (void)state;

    churners_start(threads);
    for (int i = 0; i < 25; i++)
        assert_int_equal(fork_once(purge_and_ask), 0);
    churners_end(threads);
}

static int verify(void)
{
    return shardmm_verify() == 0 ? 0 : 11;
}

static void the_structures_hold_in_parent_and_child(void **state)
{
    (void)state;
    assert_int_equal(fork_once(verify), 0);
    assert_int_equal(shardmm_verify(), 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_can_use_every_kind),
        cmocka_unit_test(a_child_can_resize_and_free_blocks_of_the_parents_threads),
        cmocka_unit_test(a_child_can_start_threads),
        cmocka_unit_test(a_child_can_fork),
        cmocka_unit_test(a_child_can_use_every_kind_while_threads_of_the_parent_churn),
        cmocka_unit_test(two_threads_can_fork_at_once),
        cmocka_unit_test(fork_handlers_of_others_may_allocate),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(a_child_can_purge_and_ask_for_statistics),
        cmocka_unit_test(the_structures_hold_in_parent_and_child),
#endif
    };
    return cmocka_run_group_tests_name("fork", tests, register_second, NULL);
}
