/* SPDX-License-Identifier: MIT */
/* stress.c - shardmm-stress: many threads on one allocator, every block checked.
 *
 *   shardmm-stress [--threads N] [--seconds S] [--large L] [--medium M] [--seed X] [--no-churn] [--verbose]
 *                  [--forks F] [--purges P] [--signals G]
 *
 *     L  blocks of 1-4 MiB, in thousandths (2)      M  further blocks of 16 KiB-1 MiB, in thousandths (0)
 *     F  forks, P  purges and the like by a thread that does nothing else, G  signals to workers: a second (0)
 *     X  start of all random numbers; without it, one from the clock, told in the last line
 *
 * Exit status: the number of errors, at most 125. Another status above it, or a signal: the process died.
 *
 *   main
 *     stress_start        workers (worker.c), churn thread (churn.c), threads from outside (outside.c)
 *     stress_watch        until the time is up: quiet points, purges, progress
 *     stress_finish       joins, frees the rest, checks that nothing is left in use
 *
 * A quiet point: every thread is parked at the gate and none is inside the allocator, so that it can check
 * its structures from one end to the other. One seed gives every thread the same random numbers again, not
 * the same order of events between threads.
 */
#include "stress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target.h"

#define STATUS_MAX 125u
#define TICK_MS 50u
#define QUIET_MS 2500u
#define PROGRESS_MS 5000u
#define PURGE_MS 500u
/* So long without a quiet point, and some thread hangs. */
#define HANG_SECONDS 120u

struct stress stress;
static struct worker workers[WORKERS_MAX];

static struct {
    unsigned seconds;
    bool churn;
    bool verbose;
} options = {.seconds = 10, .churn = true};

static struct actor conductor; /* the main thread */
static struct actor churn;
static pthread_t churn_thread;

/* ---- Figures ---- */

static uint64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t count_of(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void print_figures(const char *title, uint64_t ms)
{
    uint64_t operations = count_of(&conductor.operations) + count_of(&churn.operations) +
                          count_of(&stress.churn_operations) + outside_operations();
    uint64_t handovers = count_of(&churn.handovers);
    struct rusage usage;

    for (unsigned i = 0; i < stress.worker_count; i++) {
        operations += count_of(&workers[i].actor.operations);
        handovers += count_of(&workers[i].actor.handovers);
    }
    memset(&usage, 0, sizeof usage);
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("stress: %s: %u threads, seed %" PRIu64 ", %.1f s, %" PRIu64 " operations, %" PRIu64
                 " hand-overs, %" PRIu64 " threads churned, %" PRIu64 " forks, %" PRIu64 " purges, %" PRIu64
                 " signals, peak RSS %ld MiB, %u errors\n",
                 title, stress.worker_count, stress.seed, (double)ms / 1000.0, operations, handovers,
                 count_of(&stress.churned), count_of(&stress.forks), count_of(&stress.purges),
                 count_of(&stress.signals), usage.ru_maxrss / 1024, reported());
    (void)fflush(stdout);
}

#if SHARDMM_STRESS_OWN

static struct shardmm_stats stats_before;

static void stats_take(struct shardmm_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (shardmm_stats_get(stats, sizeof *stats) != 0) {
        report(conductor.name, "shardmm_stats_get: expected 0");
    }
}

static void stats_compare(const char *what, uint64_t before, uint64_t after, uint64_t tolerance)
{
    const uint64_t apart = after > before ? after - before : before - after;

    if (apart > tolerance) {
        report(conductor.name, "%s in use after all was freed: expected %" PRIu64 " (+-%" PRIu64 "), found %" PRIu64,
               what, before, tolerance, after);
    }
}

/* All threads are gone and everything was freed: as many blocks must be in use as before. */
static void stats_check(void)
{
    /* The C library keeps a few: stacks of ended threads in its cache hold their thread vectors. */
    const uint64_t small = 64 + 2 * (uint64_t)stress.worker_count;
    struct shardmm_stats now;

    stats_take(&now);
    stats_compare("small blocks", stats_before.small_blocks, now.small_blocks, small);
    stats_compare("medium blocks", stats_before.medium_blocks, now.medium_blocks, 4);
    stats_compare("large blocks", stats_before.large_blocks, now.large_blocks, 0);
}

#endif

static void verify(const char *when)
{
    const int fault = target_verify();

    if (fault != 0) {
        report(conductor.name, "verify %s: expected 0, found %d", when, fault);
    }
}

/* ---- The run ---- */

static void *warm_up_thread(void *argument)
{
    struct actor *actor = argument;
    struct block block;

    if (block_make(actor, &block, 100)) {
        block_free(actor, &block, "at warm-up");
    }
    return NULL;
}

/* What is made once and stays (stdio's buffer, the first thread's stack) is made before the first count. */
static void warm_up(void)
{
    pthread_t thread;

    (void)printf("stress: %u threads, %u s, seed %" PRIu64 ", large %u/1000, medium %u/1000%s\n",
                 stress.worker_count, options.seconds, stress.seed, stress.mix.large, stress.mix.medium,
                 options.churn ? "" : ", no churn");
    (void)fflush(stdout);
    if (pthread_create(&thread, NULL, warm_up_thread, &conductor) == 0) {
        (void)pthread_join(thread, NULL);
    }
    (void)warm_up_thread(&conductor);
#if SHARDMM_STRESS_OWN
    stats_take(&stats_before);
#endif
}

static void die(const char *what)
{
    report(conductor.name, "%s", what);
    _exit((int)STATUS_MAX);
}

static void stress_start(void)
{
    stress.workers = workers;
    if (!gate_init(&stress.gate, stress.worker_count + (options.churn ? 1 : 0) + outside_members()) ||
        !churn_init()) {
        die("cannot set up the threads");
    }
    /* All mailboxes before the first thread, which may write to any. */
    for (unsigned i = 0; i < stress.worker_count; i++) {
        struct worker *worker = &workers[i];

        (void)snprintf(worker->name, sizeof worker->name, "worker %u", i);
        actor_init(&worker->actor, worker->name, stress_seed(i + 1));
        worker->number = i;
        worker->supplier = i % 4 == 3;
        mailbox_init(&worker->mail);
        mailbox_init(&worker->express);
    }
    actor_init(&churn, "churn", stress_seed(WORKERS_MAX + 1));
    for (unsigned i = 0; i < stress.worker_count; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            die("cannot start a worker");
        }
    }
    if (options.churn && pthread_create(&churn_thread, NULL, churn_main, &churn) != 0) {
        die("cannot start the churn thread");
    }
    if (!outside_start()) {
        die("cannot start the threads from outside");
    }
}

static void quiet_point(void)
{
    if (!gate_close(&stress.gate, HANG_SECONDS)) {
        die("no quiet point: some thread hangs");
    }
    verify("at a quiet point");
    gate_open(&stress.gate);
}

static void stress_watch(uint64_t start)
{
    const uint64_t end = start + (uint64_t)options.seconds * 1000;
    uint64_t quiet = start + QUIET_MS;
    uint64_t purge = start + PURGE_MS;
    uint64_t progress = start + PROGRESS_MS;

    for (uint64_t now = clock_ms(); now < end; now = clock_ms()) {
        const uint64_t left = end - now;
        const struct timespec tick = {.tv_nsec = (long)(left < TICK_MS ? left : TICK_MS) * 1000000};

        (void)nanosleep(&tick, NULL);
        if (now >= purge) {
            const size_t number = random_below(&conductor.random, stress.worker_count);
            atomic_store_explicit(&stress.purge_turn, (unsigned)number + 1, memory_order_relaxed);
            purge = now + PURGE_MS;
        }
        if (now >= quiet) {
            quiet_point();
            quiet = now + QUIET_MS;
        }
        if (now >= progress && options.verbose) {
            print_figures("so far", now - start);
            progress = now + PROGRESS_MS;
        }
    }
    quiet_point(); /* one at least, with everything still in use */
}

static void stress_finish(void)
{
    atomic_store_explicit(&stress.stop, true, memory_order_relaxed);
    outside_join();
    if (options.churn) {
        (void)pthread_join(churn_thread, NULL);
    }
    for (unsigned i = 0; i < stress.worker_count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    verify("after all threads ended");
    for (unsigned i = 0; i < stress.worker_count; i++) {
        worker_clear(&conductor, &workers[i]);
    }
    verify("after all was freed");
#if SHARDMM_STRESS_OWN
    if (reported() == 0) { /* else damaged blocks were given up, and the count says nothing */
        stats_check();
    }
    target_purge();
    verify("after a purge of what was freed");
#endif
}

/* ---- The command line ---- */

static void usage(void)
{
    (void)fprintf(stderr, "usage: shardmm-stress [--threads 1..%u] [--seconds S] [--large 0..1000] [--medium 0..1000]\n"
                          "                      [--forks 0..1000] [--purges 0..10000] [--signals 0..100000]\n"
                          "                      [--seed X] [--no-churn] [--verbose]\n",
                  WORKERS_MAX);
    exit(126);
}

static uint64_t number_of(const char *text, uint64_t low, uint64_t high)
{
    char *end = NULL;
    unsigned long long value;

    if (text == NULL || text[0] < '0' || text[0] > '9') {
        usage();
        return 0;
    }
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || value < low || value > high) {
        usage();
    }
    return (uint64_t)value;
}

static void read_options(int count, char **arguments)
{
    stress.worker_count = 8;
    stress.mix.large = 2;
    stress.seed = clock_ms() * 1000003 + (uint64_t)getpid();
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        const char *value = arguments[i + 1]; /* the last one is NULL */

        if (strcmp(name, "--no-churn") == 0) {
            options.churn = false;
            continue;
        }
        if (strcmp(name, "--verbose") == 0) {
            options.verbose = true;
            continue;
        }
        if (strcmp(name, "--threads") == 0) {
            stress.worker_count = (unsigned)number_of(value, 1, WORKERS_MAX);
        } else if (strcmp(name, "--seconds") == 0) {
            options.seconds = (unsigned)number_of(value, 0, 1000000);
        } else if (strcmp(name, "--large") == 0) {
            stress.mix.large = (unsigned)number_of(value, 0, 1000);
        } else if (strcmp(name, "--medium") == 0) {
            stress.mix.medium = (unsigned)number_of(value, 0, 1000);
        } else if (strcmp(name, "--forks") == 0) {
            stress.fork_rate = (unsigned)number_of(value, 0, 1000);
        } else if (strcmp(name, "--purges") == 0) {
            stress.purge_rate = (unsigned)number_of(value, 0, 10000);
        } else if (strcmp(name, "--signals") == 0) {
            stress.signal_rate = (unsigned)number_of(value, 0, 100000);
        } else if (strcmp(name, "--seed") == 0) {
            stress.seed = number_of(value, 0, UINT64_MAX);
        } else {
            usage();
        }
        i++;
    }
    stress.worker_bytes = ALL_BYTES_MAX / stress.worker_count;
    if (stress.worker_bytes > WORKER_BYTES_MAX) {
        stress.worker_bytes = WORKER_BYTES_MAX;
    }
}

int main(int count, char **arguments)
{
    uint64_t start;
    unsigned errors;

    read_options(count, arguments);
    actor_init(&conductor, "main", stress_seed(0));
    warm_up();
    start = clock_ms();
    stress_start();
    stress_watch(start);
    stress_finish();
    errors = reported();
    print_figures(errors == 0 ? "good" : "FAILED", clock_ms() - start);
    return (int)(errors < STATUS_MAX ? errors : STATUS_MAX);
}
