/* SPDX-License-Identifier: MIT */
/* endings.c - all ways in which threads and processes end, while other threads allocate: main() that leaves by
 * pthread_exit(), exit() in a thread, quick_exit(), children of fork() that end in each way, threads that are
 * cancelled between their calls, and coroutines that change threads. Each in a process of its own, with an alarm. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../preload/which_malloc.h"

static const size_t sizes[] = {10, 100, 3000, 16000, 40000, 300000, 1200000};
enum { SIZES = sizeof sizes / sizeof sizes[0], CHURNERS = 3 };

static void *_Atomic exchange[64];

/* Without an end, blocks of the others among them. */
static void *churn(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument * 7919 + 1;

    for (;;) {
        state = state * 1664525 + 1013904223;
        const size_t size = sizes[(state >> 20) % SIZES];
        char *const block = malloc(size);
        if (block == NULL)
            _exit(5);
        memset(block, 1, size < 5000 ? size : 5000);
        free(atomic_exchange(&exchange[(state >> 8) % 64], block));
        if ((state >> 28) == 0)
            pthread_testcancel();
    }
    return NULL;
}

static void churners_start(void)
{
    pthread_t id;

    for (uintptr_t i = 0; i < CHURNERS; i++)
        if (pthread_create(&id, NULL, churn, (void *)i) != 0)
            _exit(4);
}

static void use(void)
{
    void *blocks[SIZES];

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            blocks[i] = calloc(1, sizes[i]);
            if (blocks[i] == NULL)
                _exit(5);
            memset(blocks[i], 2, sizes[i]);
        }
        for (unsigned i = 0; i < SIZES; i++)
            free(blocks[i]);
    }
}

static void use_at_exit(void)
{
    use();
    free(strdup("at exit"));
}

static void *leave_by_exit(void *unused)
{
    use();
    exit(unused == NULL ? 0 : 1);
}

static void *wait_and_exit(void *argument)
{
    const pthread_t main_thread = *(pthread_t *)argument;
    pthread_join(main_thread, NULL);
    free(argument); /* made by a thread that has ended, the first of the process */
    return leave_by_exit(NULL);
}

/* Holds off: a heap of the first thread that is not given up, or given up twice. */
static void main_leaves_by_pthread_exit(void)
{
    pthread_t id, *const self = malloc(sizeof *self);

    *self = pthread_self();
    atexit(use_at_exit);
    churners_start();
    if (pthread_create(&id, NULL, wait_and_exit, self) != 0)
        _exit(4);
    pthread_exit(NULL);
}

/* Holds off: destructors of the process that take the allocator away from threads that still run. */
static void a_thread_calls_exit_while_others_allocate(void)
{
    pthread_t id;

    atexit(use_at_exit);
    churners_start();
    if (pthread_create(&id, NULL, leave_by_exit, NULL) != 0)
        _exit(4);
    pthread_join(id, NULL);
}

static void main_returns_while_others_allocate(void)
{
    atexit(use_at_exit);
    churners_start();
    use();
}

static void quick_exit_while_others_allocate(void)
{
    at_quick_exit(use_at_exit);
    churners_start();
    use();
    quick_exit(0);
}

static void *fork_and_end(void *argument)
{
    const int way = (int)(uintptr_t)argument;
    int status = 0;

    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            use();
            if (way == 0)
                exit(0);
            if (way == 1) /* the only thread of the child, and not the first of the parent */
                pthread_exit(NULL);
            if (way == 2)
                return NULL;
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "a child that ends in way %d had the status 0x%x\n", way, (unsigned)status);
            _exit(6);
        }
    }
    return NULL;
}

/* Holds off: a child whose only thread is not the one that the heap's destructor expects. */
static void children_end_in_every_way(void)
{
    pthread_t id;

    churners_start();
    for (uintptr_t way = 0; way < 4; way++) {
        if (pthread_create(&id, NULL, fork_and_end, (void *)way) != 0)
            _exit(4);
        pthread_join(id, NULL);
    }
}

static void threads_are_cancelled(void)
{
    pthread_t ids[CHURNERS];

    for (int round = 0; round < 40; round++) {
        for (uintptr_t i = 0; i < CHURNERS; i++)
            if (pthread_create(&ids[i], NULL, churn, (void *)i) != 0)
                _exit(4);
        for (unsigned i = 0; i < CHURNERS; i++)
            pthread_cancel(ids[i]);
        for (unsigned i = 0; i < CHURNERS; i++)
            pthread_join(ids[i], NULL);
    }
    use();
}

/* ---- Coroutines ---- */

static ucontext_t scheduler, coroutine;
static void *coroutine_blocks[SIZES];

static void run_coroutine(void)
{
    for (int turn = 0; turn < 50; turn++) {
        for (unsigned i = 0; i < SIZES; i++) {
            free(coroutine_blocks[i]);
            coroutine_blocks[i] = malloc(sizes[i]);
            if (coroutine_blocks[i] == NULL)
                _exit(5);
            memset(coroutine_blocks[i], turn, sizes[i]);
        }
        swapcontext(&coroutine, &scheduler);
    }
}

static void *resume(void *unused)
{
    swapcontext(&scheduler, &coroutine);
    return unused;
}

/* Holds off: a heap that belongs to a stack and not to the thread that runs on it. */
static void a_coroutine_goes_from_thread_to_thread(void)
{
    pthread_t id;

    getcontext(&coroutine);
    coroutine.uc_stack.ss_size = 100000;
    coroutine.uc_stack.ss_sp = malloc(coroutine.uc_stack.ss_size);
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, run_coroutine, 0);
    for (int turn = 0; turn < 50; turn++) {
        if (turn % 3 == 0)
            resume(NULL);
        else if (pthread_create(&id, NULL, resume, NULL) != 0 || pthread_join(id, NULL) != 0)
            _exit(4);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} endings[] = {
    {"main leaves by pthread_exit()", main_leaves_by_pthread_exit},
    {"a thread calls exit() while others allocate", a_thread_calls_exit_while_others_allocate},
    {"main() returns while others allocate", main_returns_while_others_allocate},
    {"quick_exit() while others allocate", quick_exit_while_others_allocate},
    {"children of fork() end in every way", children_end_in_every_way},
    {"threads are cancelled", threads_are_cancelled},
    {"a coroutine goes from thread to thread", a_coroutine_goes_from_thread_to_thread},
};

int main(void)
{
    int wrong = 0;

    require_our_malloc();
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        for (int repeat = 0; repeat < 4; repeat++) {
            int status = 0;
            const pid_t child = fork();
            if (child == 0) {
                alarm(30);
                endings[i].run();
                exit(0);
            }
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
                fprintf(stderr, "%s: status 0x%x\n", endings[i].name, (unsigned)status);
                wrong++;
            }
        }
    }
    return wrong != 0;
}
