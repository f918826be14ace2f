/* SPDX-License-Identifier: MIT */
/* test_lock.c - the lock: one holder, whom it knows, waiting without burning time, and passing through it in
 * the thread that forks. */
#include "platform/lock.h"

#include "platform/platform.h"
#include "unit.h"

enum { THREADS = 4, ROUNDS = 30000 };

static struct smm_lock lock;
static uint64_t counter;  /* under the lock, as is the next one */
static uint64_t shadow;
static _Atomic(unsigned) inside;

static void *count_up(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    uintptr_t errors = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        smm_lock_acquire(&lock);
        EXPECT(errors, smm_add_relaxed(&inside, 1) == 0);
        EXPECT(errors, smm_load_relaxed(&lock.holder) == smm_os_thread_id());
        EXPECT(errors, counter == shadow);
        counter++;
        /* Long enough now and then for the others to fall asleep. */
        if (random_below(&seed, 256) == 0)
            smm_os_yield();
        shadow++;
        smm_sub_relaxed(&inside, 1);
        smm_lock_release(&lock);
    }
    return ERRORS(errors);
}

static void one_thread_at_a_time_is_inside(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    counter = shadow = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = thread_start(count_up, (void *)(i + 1));
    for (unsigned i = 0; i < THREADS; i++)
        assert_no_errors(thread_end(threads[i]));
    assert_int_equal(counter, (uint64_t)THREADS * ROUNDS);
    assert_int_equal(smm_load_relaxed(&lock.state), 0);
}

static void zero_filled_memory_is_a_free_lock(void **state)
{
    struct smm_lock fresh;

    (void)state;
    memset(&fresh, 0, sizeof fresh);
    assert_true(smm_lock_try(&fresh));
    smm_lock_release(&fresh);
}

static void trying_takes_a_free_lock_and_does_not_wait_for_a_held_one(void **state)
{
    struct smm_lock mine = {0};

    (void)state;
    smm_lock_acquire(&mine);
    assert_false(smm_lock_try(&mine));
    smm_lock_release(&mine);
    assert_int_equal(smm_load_relaxed(&mine.holder), 0);
    assert_true(smm_lock_try(&mine));
    assert_int_equal(smm_load_relaxed(&mine.holder), smm_os_thread_id());
    assert_false(smm_lock_try(&mine));
    smm_lock_release(&mine);
    assert_int_equal(smm_load_relaxed(&mine.state), 0);
    assert_int_equal(smm_load_relaxed(&mine.holder), 0);
}

static void *take_and_give(void *argument)
{
    struct smm_lock *const mine = argument;

    smm_lock_acquire(mine);
    smm_lock_release(mine);
    return NULL;
}

static void a_release_wakes_who_sleeps(void **state)
{
    static struct smm_lock mine;

    (void)state;
    smm_lock_acquire(&mine);
    const pthread_t waiter = thread_start(take_and_give, &mine);
    for (unsigned ms = 0; smm_load_relaxed(&mine.state) != 2; ms++) {
        assert_true(ms < 5000);
        sleep_ms(1);
    }
    sleep_ms(20);
    smm_lock_release(&mine);
    thread_end(waiter);
    assert_int_equal(smm_load_relaxed(&mine.state), 0);
}

static void a_reset_frees_a_lock_that_others_waited_for(void **state)
{
    struct smm_lock mine = {0};

    (void)state;
    smm_store_relaxed(&mine.state, 2);
    smm_store_relaxed(&mine.holder, 1);
    smm_lock_reset(&mine);
    assert_int_equal(smm_load_relaxed(&mine.holder), 0);
    assert_true(smm_lock_try(&mine));
    smm_lock_release(&mine);
}

static _Atomic(bool) passed;

static void *take_and_tell(void *argument)
{
    struct smm_lock *const mine = argument;

    smm_lock_acquire(mine);
    smm_store_relaxed(&passed, true);
    smm_lock_release(mine);
    return NULL;
}

static void the_thread_that_forks_passes_through_and_no_other(void **state)
{
    struct smm_lock mine = {0};

    (void)state;
    smm_store_relaxed(&passed, false);
    smm_lock_acquire(&mine);
    smm_store_relaxed(&smm_fork_holder, smm_os_thread_id());
    for (unsigned i = 0; i < 3; i++) {
        smm_lock_acquire(&mine);
        assert_false(smm_lock_try(&mine));
        smm_lock_release(&mine);
        assert_int_not_equal(smm_load_relaxed(&mine.state), 0);
    }
    const pthread_t other = thread_start(take_and_tell, &mine);
    sleep_ms(30);
    assert_false(smm_load_relaxed(&passed));
    smm_lock_acquire(&mine);
    smm_lock_release(&mine);
    assert_false(smm_load_relaxed(&passed));
    smm_store_relaxed(&smm_fork_holder, 0);
    smm_lock_release(&mine);
    thread_end(other);
    assert_true(smm_load_relaxed(&passed));
    assert_int_equal(smm_load_relaxed(&mine.state), 0);
}

static void *lock_while_another_forks(void *argument)
{
    struct smm_lock mine = {0};
    uintptr_t errors = 0;

    (void)argument;
    smm_lock_acquire(&mine);
    EXPECT(errors, smm_load_relaxed(&mine.state) == 1);
    smm_lock_release(&mine);
    EXPECT(errors, smm_load_relaxed(&mine.state) == 0);
    return ERRORS(errors);
}

static void other_threads_lock_as_usual_while_one_forks(void **state)
{
    (void)state;
    smm_store_relaxed(&smm_fork_holder, smm_os_thread_id());
    void *const errors = thread_end(thread_start(lock_while_another_forks, NULL));
    smm_store_relaxed(&smm_fork_holder, 0);
    assert_no_errors(errors);
}

/* ---- Gated locks ---- */

static struct smm_gated_lock gated;
static _Atomic(bool) holds_it, may_leave;

static void *take_gated_and_tell(void *unused)
{
    uintptr_t errors = 0;
    (void)unused;
    smm_gated_acquire(&gated);
    EXPECT(errors, smm_load_relaxed(&gated.inner.holder) == smm_os_thread_id());
    smm_store_relaxed(&passed, true);
    smm_gated_release(&gated);
    return ERRORS(errors);
}

static void *try_gated(void *unused)
{
    uintptr_t errors = 0;
    (void)unused;
    EXPECT(errors, !smm_gated_try(&gated));
    EXPECT(errors, smm_load_relaxed(&gated.inner.state) == 0);
    return ERRORS(errors);
}

static void *hold_gated_until_told(void *unused)
{
    smm_gated_acquire(&gated);
    smm_store_release(&holds_it, true);
    while (!smm_load_acquire(&may_leave))
        sleep_ms(1);
    smm_gated_release(&gated);
    return unused;
}

static void behind_a_closed_gate_nobody_has_a_lock(void **state)
{
    (void)state;
    smm_store_relaxed(&passed, false);
    smm_gate_close();
    smm_gate_await(&gated);
    const pthread_t other = thread_start(take_gated_and_tell, NULL);
    sleep_ms(30);
    assert_false(smm_load_relaxed(&passed));
    assert_int_equal(smm_load_relaxed(&gated.inner.state), 0);
    assert_no_errors(thread_end(thread_start(try_gated, NULL)));
    smm_gate_open();
    assert_no_errors(thread_end(other));
    assert_true(smm_load_relaxed(&passed));
    assert_true(smm_gated_try(&gated));
    assert_int_equal(smm_load_relaxed(&gated.inner.holder), smm_os_thread_id());
    smm_gated_release(&gated);
    assert_int_equal(smm_load_relaxed(&gated.inner.holder), 0);
    assert_int_equal(smm_load_relaxed(&gated.inner.state), 0);
}

static void who_closed_the_gate_passes_through_and_holds_nothing(void **state)
{
    (void)state;
    smm_gate_close();
    for (unsigned i = 0; i < 3; i++) {
        smm_gated_acquire(&gated);
        assert_int_equal(smm_load_relaxed(&gated.inner.state), 0);
        assert_false(smm_gated_try(&gated));
        smm_gated_release(&gated);
    }
    /* Held by somebody who has yet to see the gate, or who is not in this process any more. */
    smm_store_relaxed(&gated.inner.state, 1);
    smm_gated_acquire(&gated);
    smm_gated_release(&gated);
    assert_int_equal(smm_load_relaxed(&gated.inner.state), 1);
    smm_gated_reset(&gated);
    smm_gate_open();
    assert_true(smm_gated_try(&gated));
    smm_gated_release(&gated);
}

/* Also who waited for the lock before the gate was closed. */
static void a_closing_gate_waits_for_the_holder_alone(void **state)
{
    (void)state;
    smm_store_relaxed(&passed, false);
    smm_store_relaxed(&holds_it, false);
    smm_store_relaxed(&may_leave, false);
    const pthread_t holder = thread_start(hold_gated_until_told, NULL);
    while (!smm_load_acquire(&holds_it))
        sleep_ms(1);
    const pthread_t other = thread_start(take_gated_and_tell, NULL);
    for (unsigned ms = 0; smm_load_relaxed(&gated.inner.state) != 2; ms++) {
        assert_true(ms < 5000);
        sleep_ms(1);
    }
    smm_gate_close();
    smm_store_release(&may_leave, true);
    smm_gate_await(&gated);
    sleep_ms(30);
    assert_false(smm_load_relaxed(&passed));
    assert_int_equal(smm_load_relaxed(&gated.inner.state), 0);
    smm_gate_open();
    thread_end(holder);
    thread_end(other);
    assert_true(smm_load_relaxed(&passed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_wakes_who_sleeps),
        cmocka_unit_test(one_thread_at_a_time_is_inside),
        cmocka_unit_test(zero_filled_memory_is_a_free_lock),
        cmocka_unit_test(trying_takes_a_free_lock_and_does_not_wait_for_a_held_one),
        cmocka_unit_test(a_reset_frees_a_lock_that_others_waited_for),
        cmocka_unit_test(the_thread_that_forks_passes_through_and_no_other),
        cmocka_unit_test(other_threads_lock_as_usual_while_one_forks),
        cmocka_unit_test(behind_a_closed_gate_nobody_has_a_lock),
        cmocka_unit_test(who_closed_the_gate_passes_through_and_holds_nothing),
        cmocka_unit_test(a_closing_gate_waits_for_the_holder_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
