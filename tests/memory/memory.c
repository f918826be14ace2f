/* SPDX-License-Identifier: MIT */
/* memory.c - what a process takes from the system, and what it gives back, by the kernel's figures.
 *
 *     memory SCENARIO
 *
 * Plain calls of malloc, so that any allocator can be preloaded; the figure is printed with its bound. Exit status 1
 * when it is above the bound, 77 when the machine does not let it be measured. Each scenario is a process of its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static int status_of_run;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- The kernel's figures ---- */

/* A line "Name:  N kB" of a file in /proc/self, in bytes. */
static size_t figure(const char *path, const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *const file = fopen(path, "r");

    if (file == NULL)
        die(path);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), ": %zu kB", &kib) == 1)
            break;
    fclose(file);
    return kib * KIB;
}

static size_t resident(void)
{
    return figure("/proc/self/smaps_rollup", "Rss");
}

static double mib(size_t bytes)
{
    return (double)bytes / (double)MIB;
}

static void check(const char *what, size_t bytes, size_t bound)
{
    printf("%-58s %8.1f MiB, at most %.0f\n", what, mib(bytes), mib(bound));
    if (bytes > bound)
        status_of_run = 1;
}

static size_t more_than(size_t now, size_t before)
{
    return now > before ? now - before : 0;
}

/* Of the library when it is there; else what the C library has. */
static void purge(void)
{
    size_t (*call)(void) = NULL;
    void *const found = dlsym(RTLD_DEFAULT, "shardmm_purge");

    memcpy(&call, &found, sizeof call);
    if (call != NULL)
        (void)call();
    else
        (void)malloc_trim(0);
}

static void trim(void)
{
    (void)malloc_trim(0);
}

static void sleep_ms(long ms)
{
    const struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&rest, NULL);
}

/* ---- Blocks ---- */

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sizes of a server: mostly small, some buffers, now and then something large. */
static size_t mixed_size(uint64_t *state)
{
    const uint64_t kind = random_next(state) % 1000;
    const uint64_t r = random_next(state);

    if (kind < 800)
        return 16 + r % 500;
    if (kind < 970)
        return 1024 + r % 7000;
    if (kind < 996)
        return 17000 + r % 50000;
    if (kind < 999)
        return 300000 + r % 300000;
    return 3 * MIB / 2;
}

struct block {
    struct block *next;
    size_t size;
};

/* Blocks of `bytes` in all, each page of them touched. */
static struct block *take_mixed(size_t bytes, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    struct block *list = NULL;

    for (size_t total = 0; total < bytes;) {
        const size_t size = mixed_size(&state);
        struct block *const block = malloc(size);
        if (block == NULL)
            die("malloc");
        for (size_t at = 0; at < size; at += 4096)
            ((volatile char *)block)[at] = 1;
        *block = (struct block){.next = list, .size = size};
        list = block;
        total += size;
    }
    return list;
}

static void give(struct block *list)
{
    while (list != NULL) {
        struct block *const next = list->next;
        free(list);
        list = next;
    }
}

/* ---- Threads one after another ---- */

enum { THREADS_MANY = 100000, THREADS_FIRST = 1000, HELD = 20 };

static void *held[HELD];
static pthread_key_t late_key;

/* Frees what the one before left, and leaves as much to the next. */
static void *hand_on(void *number)
{
    const size_t n = (uintptr_t)number;

    for (size_t i = 0; i < HELD; i++) {
        free(held[i]);
        held[i] = malloc(16 + (n * 37 + i * 101) % (i == 0 ? 40000 : 3000));
    }
    return NULL;
}

static void rearm(void *round)
{
    free(malloc(100 + (uintptr_t)round * 1000));
    held[0] = realloc(held[0], 50 + (uintptr_t)round);
    if ((uintptr_t)round < 4)
        pthread_setspecific(late_key, (char *)round + 1);
}

static void *arm(void *number)
{
    (void)number;
    pthread_setspecific(late_key, (void *)(uintptr_t)1);
    free(malloc(64));
    return NULL;
}

static void run_threads(const char *what, void *(*work)(void *))
{
    size_t first = 0;

    for (size_t n = 0; n < THREADS_MANY; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)n) != 0 || pthread_join(thread, NULL) != 0)
            die("pthread_create");
        if (n == THREADS_FIRST)
            first = resident();
    }
    check(what, more_than(resident(), first), 8 * MIB);
}

/* Holds off: memory that stays with each thread that ever was. */
static void threads_that_hand_on(void)
{
    run_threads("growth over 99,000 threads that hand blocks on", hand_on);
}

/* Holds off: heaps lost by destructors that allocate after the thread's heap went. */
static void threads_that_allocate_late(void)
{
    if (pthread_key_create(&late_key, rearm) != 0)
        die("pthread_key_create");
    run_threads("growth over 99,000 threads with late destructors", arm);
}

/* ---- A job that goes round ---- */

enum { POOL = 64 };
static const size_t JOB = 10 * MIB;

static struct block *job;
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static size_t turn; /* whose it is; POOL: all had it */
static bool over;

static void *work_once(void *number)
{
    const size_t n = (uintptr_t)number;

    pthread_mutex_lock(&turn_lock);
    while (turn != n)
        pthread_cond_wait(&turn_changed, &turn_lock);
    give(job);
    job = take_mixed(JOB, n + 1);
    turn++;
    pthread_cond_broadcast(&turn_changed);
    while (!over)
        pthread_cond_wait(&turn_changed, &turn_lock);
    pthread_mutex_unlock(&turn_lock);
    return NULL;
}

/* Holds off: a pool whose every thread keeps the memory of each job that it ever had. */
static void job_round_a_pool(void)
{
    pthread_t threads[POOL];

    for (size_t n = 0; n < POOL; n++)
        if (pthread_create(&threads[n], NULL, work_once, (void *)(uintptr_t)n) != 0)
            die("pthread_create");
    pthread_mutex_lock(&turn_lock);
    while (turn != POOL)
        pthread_cond_wait(&turn_changed, &turn_lock);
    pthread_mutex_unlock(&turn_lock);
    check("a job of 10 MB that 64 threads had, which sleep", resident(), 150 * MIB);
    purge();
    check("the same after a purge", resident(), 60 * MIB);
    pthread_mutex_lock(&turn_lock);
    over = true;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
    for (size_t n = 0; n < POOL; n++)
        pthread_join(threads[n], NULL);
    check("and when they have ended", resident(), 60 * MIB);
    give(job);
    purge();
    check("and without the job", resident(), 30 * MIB);
}

/* ---- Much memory, freed by its owners or by another thread ---- */

enum { OWNERS = 8 };
static const size_t MUCH = 1024 * MIB;

static struct block *owned[OWNERS];
static pthread_barrier_t barrier;
static bool owners_free;

static void *own(void *number)
{
    const size_t n = (uintptr_t)number;

    owned[n] = take_mixed(MUCH / OWNERS, n + 1);
    pthread_barrier_wait(&barrier);
    if (owners_free)
        give(owned[n]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* asleep */
    return NULL;
}

static void check_given_back(const char *what, void (*give_back)(void))
{
    pthread_t threads[OWNERS];
    const size_t start = resident();

    pthread_barrier_init(&barrier, NULL, OWNERS + 1);
    for (size_t n = 0; n < OWNERS; n++)
        if (pthread_create(&threads[n], NULL, own, (void *)(uintptr_t)n) != 0)
            die("pthread_create");
    pthread_barrier_wait(&barrier);
    if (!owners_free)
        for (size_t n = 0; n < OWNERS; n++)
            give(owned[n]);
    pthread_barrier_wait(&barrier);
    give_back();
    check(what, more_than(resident(), start), 24 * MIB);
    pthread_barrier_wait(&barrier);
    for (size_t n = 0; n < OWNERS; n++)
        pthread_join(threads[n], NULL);
}

/* Holds off: memory that only its owner could give back, and the owner sleeps. */
static void freed_by_owners_then_purge(void)
{
    owners_free = true;
    check_given_back("1 GB freed by its 8 owners, which sleep; after a purge", purge);
}

static void freed_by_owners_then_trim(void)
{
    owners_free = true;
    check_given_back("the same, after malloc_trim(0)", trim);
}

static void freed_by_another_then_purge(void)
{
    check_given_back("1 GB freed by a ninth thread; after a purge", purge);
}

static void freed_by_another_then_trim(void)
{
    check_given_back("the same, after malloc_trim(0)", trim);
}

/* Holds off: freed memory that waits for a call that nobody makes. What stays: 8 pages and an arena a heap, and of a
 * page or an arena what is in the lists of its owner. */
static void freed_by_owners_then_time(void)
{
    pthread_t threads[OWNERS];
    const size_t start = resident();

    owners_free = true;
    pthread_barrier_init(&barrier, NULL, OWNERS + 1);
    for (size_t n = 0; n < OWNERS; n++)
        if (pthread_create(&threads[n], NULL, own, (void *)(uintptr_t)n) != 0)
            die("pthread_create");
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 40; i++) { /* three seconds in which the ninth thread does something */
        sleep_ms(75);
        give(take_mixed(MIB, 1));
    }
    check("the same, after 3 s in which one thread works", more_than(resident(), start), 64 * MIB);
    pthread_barrier_wait(&barrier);
    for (size_t n = 0; n < OWNERS; n++)
        pthread_join(threads[n], NULL);
}

/* ---- Producers that only allocate, a consumer that only frees ---- */

enum { PRODUCERS = 4, QUEUE = 64, PORTIONS = 250 };
static const size_t PORTION = 256 * KIB;

static struct block *queue[QUEUE];
static size_t queue_in, queue_out;

static void *produce(void *number)
{
    for (size_t i = 0; i < PORTIONS; i++) {
        struct block *const portion = take_mixed(PORTION, i * PRODUCERS + (uintptr_t)number);
        pthread_mutex_lock(&turn_lock);
        while (queue_in - queue_out == QUEUE)
            pthread_cond_wait(&turn_changed, &turn_lock);
        queue[queue_in++ % QUEUE] = portion;
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&turn_lock);
    }
    return NULL;
}

/* Holds off: foreign frees that pile up, of all kinds. At once there are 64 portions, and one in each hand. */
static void producers_and_a_consumer(void)
{
    pthread_t threads[PRODUCERS];
    const size_t start = resident();

    for (size_t n = 0; n < PRODUCERS; n++)
        if (pthread_create(&threads[n], NULL, produce, (void *)(uintptr_t)n) != 0)
            die("pthread_create");
    for (size_t i = 0; i < PRODUCERS * PORTIONS; i++) {
        pthread_mutex_lock(&turn_lock);
        while (queue_in == queue_out)
            pthread_cond_wait(&turn_changed, &turn_lock);
        struct block *const portion = queue[queue_out++ % QUEUE];
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&turn_lock);
        give(portion);
    }
    check("250 MiB through a queue of 17, at most at any time",
          more_than(figure("/proc/self/status", "VmHWM"), start), 128 * MIB);
    purge();
    check("the same, the producers asleep, after a purge", more_than(resident(), start), 24 * MIB);
    for (size_t n = 0; n < PRODUCERS; n++)
        pthread_join(threads[n], NULL);
}

/* ---- Small processes ---- */

/* What a core file of the process would hold: private memory that was ever written, whole mappings of it, but for
 * those that are marked otherwise. */
static size_t dumpable(void)
{
    char line[512];
    size_t size = 0, anonymous = 0, total = 0, kib;
    FILE *const file = fopen("/proc/self/smaps", "r");

    if (file == NULL)
        die("smaps");
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Size: %zu kB", &kib) == 1)
            size = kib;
        else if (sscanf(line, "Anonymous: %zu kB", &kib) == 1)
            anonymous = kib;
        else if (strncmp(line, "VmFlags:", 8) == 0 && anonymous != 0 && strstr(line, " dd") == NULL)
            total += size;
    }
    fclose(file);
    return total * KIB;
}

/* Holds off: core files of gigabytes, of reserved addresses. */
static void core_of_a_small_process(void)
{
    struct block *const list = take_mixed(MIB, 1);

    check("a core file with 1 MB of live blocks", dumpable(), 64 * MIB);
    give(list);
}

/* Holds off: reservations that a process which locks its memory pays for. */
static void locked_memory(void)
{
    const size_t start = resident();

    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        printf("skipped: mlockall: %s\n", strerror(errno));
        status_of_run = 77;
        return;
    }
    struct block *const list = take_mixed(MIB, 1);
    struct block *const more = take_mixed(4 * MIB, 2);
    check("1 MB and 4 MB of blocks under mlockall(MCL_FUTURE)", more_than(resident(), start), 64 * MIB);
    give(list);
    give(more);
}

/* ---- Figures that compare.py sets side by side ---- */

static void hello(void)
{
    puts("hello");
    printf("KiB %zu\n", figure("/proc/self/status", "VmHWM") / KIB);
}

enum { FORKING = 200, FORKS = 40 };

/* Small blocks of many sizes. */
static void *own_a_little(void *number)
{
    struct block *list = NULL;

    for (size_t i = 0; i < 100; i++) {
        const size_t size = 16 + (i * 37 + (uintptr_t)number) % 2000;
        struct block *const block = malloc(size);
        if (block == NULL)
            die("malloc");
        *block = (struct block){.next = list, .size = size};
        list = block;
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    give(list);
    return NULL;
}

static void fork_with_many_threads(void)
{
    pthread_t threads[FORKING];
    double lowest = 1e9;

    pthread_barrier_init(&barrier, NULL, FORKING + 1);
    for (size_t n = 0; n < FORKING; n++)
        if (pthread_create(&threads[n], NULL, own_a_little, (void *)(uintptr_t)n) != 0)
            die("pthread_create");
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < FORKS; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        const pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
        clock_gettime(CLOCK_MONOTONIC, &to);
        const double us = (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
        lowest = us < lowest ? us : lowest;
    }
    pthread_barrier_wait(&barrier);
    for (size_t n = 0; n < FORKING; n++)
        pthread_join(threads[n], NULL);
    printf("us %.1f\n", lowest);
}

static const struct scenario {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"threads_that_hand_on", threads_that_hand_on},
    {"threads_that_allocate_late", threads_that_allocate_late},
    {"job_round_a_pool", job_round_a_pool},
    {"freed_by_owners_then_purge", freed_by_owners_then_purge},
    {"freed_by_owners_then_trim", freed_by_owners_then_trim},
    {"freed_by_owners_then_time", freed_by_owners_then_time},
    {"freed_by_another_then_purge", freed_by_another_then_purge},
    {"freed_by_another_then_trim", freed_by_another_then_trim},
    {"producers_and_a_consumer", producers_and_a_consumer},
    {"core_of_a_small_process", core_of_a_small_process},
    {"locked_memory", locked_memory},
    {"hello", hello},
    {"fork_with_many_threads", fork_with_many_threads},
};

int main(int count, char **arguments)
{
    for (size_t i = 0; count == 2 && i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(arguments[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return status_of_run;
        }
    fprintf(stderr, "usage: memory SCENARIO\n");
    return 2;
}
