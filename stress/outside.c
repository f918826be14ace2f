/* SPDX-License-Identifier: MIT */
/* outside.c - what comes at the workers from outside while they run, each at a rate of its own:
 *
 *   forker     forks; the child allocates, resizes and frees every kind, also blocks that threads made which it does
 *              not have, and ends. The parent's blocks stay whole.
 *   purger     gives memory back for all threads, asks for statistics, changes options
 *   signaller  sends signals to workers, wherever they are. The handler uses no allocator, as no call of it is safe
 *              in one: it lets others run for a moment, in the middle of what it interrupted.
 *
 * Forker and purger pass the gate as workers do; the signaller never enters the allocator.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"
#include "target.h"

#define FORKER_SLOTS 64u
#define CHILD_STEPS 400u
#define CHILD_SECONDS 60u /* then it hangs: its alarm ends it */
#define SIGNAL SIGUSR1

/* Sleeps until the next turn at `rate` a second, at most for the moment that a stop may take. */
static void wait_for_turn(unsigned rate)
{
    const long nanoseconds = rate <= 10 ? 100000000 : 1000000000 / (long)rate;
    const struct timespec rest = {.tv_nsec = nanoseconds};

    (void)nanosleep(&rest, NULL);
}

/* A rate below 10 a second: only every so many of the waits above is a turn. */
static bool is_turn(unsigned rate, unsigned *waits)
{
    const unsigned every = rate >= 10 ? 1 : 10 / rate;

    return ++*waits % every == 0;
}

static void count_up(_Atomic uint64_t *count)
{
    (void)atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* ---- Forks ---- */

/* The forker's alone; the child has a copy. */
static struct block forker_slots[FORKER_SLOTS];

/* Blocks of other threads come in by the workers' mailboxes. */
static void forker_receive(struct actor *actor)
{
    for (unsigned i = 0; i < FORKER_SLOTS / 4; i++) {
        struct block *slot = &forker_slots[random_below(&actor->random, FORKER_SLOTS)];
        struct worker *from = &stress.workers[random_below(&actor->random, stress.worker_count)];

        if (slot->memory != NULL) {
            block_free(actor, slot, "by the forker");
        }
        if (!mailbox_take(&from->mail, slot)) {
            (void)block_make(actor, slot, size_any(&actor->random, &stress.mix));
        }
    }
}

static void child_step(struct actor *actor)
{
    struct random *random = &actor->random;
    struct block *slot = &forker_slots[random_below(random, FORKER_SLOTS)];

    if (slot->memory == NULL) {
        if (random_one_in(random, 50)) {
            (void)block_make(actor, slot, random_between(random, MEDIUM_MAX + 1, LARGE_MAX));
        } else if (random_one_in(random, 10)) {
            (void)block_make_aligned(actor, slot, random_scaled(random, 1, 256 * KIB));
        } else {
            (void)block_make(actor, slot, size_any(random, &stress.mix));
        }
        return;
    }
    switch (random_below(random, 4)) {
    case 0:
        block_resize(actor, slot, size_any(random, &stress.mix) + 1);
        break;
    case 1:
        (void)block_check(actor, slot, "in a child");
        break;
    default:
        block_free(actor, slot, "in a child");
        break;
    }
}

static void child_main(struct actor *actor)
{
    const unsigned before = reported();
    unsigned errors;

    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(CHILD_SECONDS);
    actor->random.state ^= (uint64_t)getpid();
    for (unsigned i = 0; i < CHILD_STEPS; i++) {
        child_step(actor);
        if (i == CHILD_STEPS / 2 && random_one_in(&actor->random, 4)) {
            target_purge();
        }
    }
    for (unsigned i = 0; i < FORKER_SLOTS; i++) {
        if (forker_slots[i].memory != NULL) {
            block_free(actor, &forker_slots[i], "at the end of a child");
        }
    }
    errors = reported() - before;
    _exit(errors == 0 ? 0 : 1);
}

static void fork_once(struct actor *actor)
{
    int status = 0;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        child_main(actor);
    }
    if (child < 0) {
        /* The machine's limits are not the allocator's fault. */
        if (errno != EAGAIN && errno != ENOMEM) {
            report(actor->name, "fork: expected a child, found errno %d", errno);
        }
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        report(actor->name, "child: expected status 0, found 0x%x%s", (unsigned)status,
               WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    }
    count_up(&stress.forks);
}

static void *forker_main(void *argument)
{
    struct actor *actor = argument;
    unsigned waits = 0;

    while (!stress_stopped()) {
        gate_pass(&stress.gate);
        wait_for_turn(stress.fork_rate);
        if (is_turn(stress.fork_rate, &waits)) {
            forker_receive(actor);
            fork_once(actor);
        }
    }
    for (unsigned i = 0; i < FORKER_SLOTS; i++) {
        if (forker_slots[i].memory != NULL) {
            block_free(actor, &forker_slots[i], "by the forker at its end");
        }
    }
    return NULL;
}

/* ---- Purges ---- */

static void *purger_main(void *argument)
{
    struct actor *actor = argument;
    unsigned waits = 0;

    while (!stress_stopped()) {
        gate_pass(&stress.gate);
        wait_for_turn(stress.purge_rate);
        if (is_turn(stress.purge_rate, &waits)) {
            target_tend(random_below(&actor->random, TARGET_TENDS));
            count_up(&stress.purges);
        }
    }
    target_tend_end();
    return NULL;
}

/* ---- Signals ---- */

static void handle(int number)
{
    const int saved = errno;
    static _Atomic unsigned calls;

    (void)number;
    count_up(&stress.signals);
    /* Mostly so that somebody else runs here; now and then for so long that others get far. */
    if (atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) % 64 == 0) {
        const struct timespec rest = {.tv_nsec = 200000};
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
    } else {
        (void)sched_yield();
    }
    errno = saved;
}

static void *signaller_main(void *argument)
{
    struct actor *actor = argument;
    unsigned waits = 0;

    while (!stress_stopped()) {
        wait_for_turn(stress.signal_rate);
        if (is_turn(stress.signal_rate, &waits)) {
            const size_t number = random_below(&actor->random, stress.worker_count);
            (void)pthread_kill(stress.workers[number].thread, SIGNAL);
        }
    }
    return NULL;
}

/* ---- All of them ---- */

enum { FORKER, PURGER, SIGNALLER, OUTSIDERS };

static struct outsider {
    const char *name;
    void *(*run)(void *);
    bool passes_gate;
    bool runs;
    struct actor actor;
    pthread_t thread;
} outsiders[OUTSIDERS] = {
    [FORKER] = {.name = "forker", .run = forker_main, .passes_gate = true},
    [PURGER] = {.name = "purger", .run = purger_main, .passes_gate = true},
    [SIGNALLER] = {.name = "signaller", .run = signaller_main},
};

static bool outsider_wanted(unsigned number)
{
    return (number == FORKER ? stress.fork_rate : number == PURGER ? stress.purge_rate : stress.signal_rate) != 0;
}

unsigned outside_members(void)
{
    unsigned members = 0;

    for (unsigned i = 0; i < OUTSIDERS; i++) {
        members += outsider_wanted(i) && outsiders[i].passes_gate;
    }
    return members;
}

bool outside_start(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGNAL, &action, NULL) != 0) {
        return false;
    }
    for (unsigned i = 0; i < OUTSIDERS; i++) {
        struct outsider *outsider = &outsiders[i];

        if (!outsider_wanted(i)) {
            continue;
        }
        actor_init(&outsider->actor, outsider->name, stress_seed(WORKERS_MAX + 2 + i));
        if (pthread_create(&outsider->thread, NULL, outsider->run, &outsider->actor) != 0) {
            return false;
        }
        outsider->runs = true;
    }
    return true;
}

void outside_join(void)
{
    for (unsigned i = 0; i < OUTSIDERS; i++) {
        if (outsiders[i].runs) {
            (void)pthread_join(outsiders[i].thread, NULL);
        }
    }
}

uint64_t outside_operations(void)
{
    uint64_t operations = 0;

    for (unsigned i = 0; i < OUTSIDERS; i++) {
        operations += atomic_load_explicit(&outsiders[i].actor.operations, memory_order_relaxed);
    }
    return operations;
}
