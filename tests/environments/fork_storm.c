/* SPDX-License-Identifier: MIT */
/* fork_storm.c [FORKS] - two threads fork at the same time, again and again, while others allocate, resize and hand
 * over blocks of every kind, large ones from the shared cache among them. Fork handlers of others, made before and
 * after the library's own, allocate as well. Each child uses every kind, frees blocks of threads that it does not
 * have, and forks in turn now and then. Who hangs is ended by an alarm.
 *
 * Holds off: a lock that the child finds held, handlers of two forks that get into each other's way, and an order of
 * locks that two paths take differently.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/which_malloc.h"

enum { FORKERS = 2, CHURNERS = 3, SLOTS = 96 };

static const size_t sizes[] = {8, 70, 900, 4000, 16384, 17000, 90000, 1048576, 1100000, 2500000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void *_Atomic slots[SLOTS];
static _Atomic int stop;
static _Atomic unsigned handled;
static unsigned forks_each;

static void handler(void)
{
    void *const small = malloc(200), *const medium = malloc(40000), *const large = malloc(1200000);
    if (small == NULL || medium == NULL || large == NULL)
        _exit(5);
    free(large);
    free(small);
    free(realloc(medium, 100));
    handled++;
}

/* Before the library's own constructor: its handlers run around ours; and after it. */
static void register_early(void)
{
    if (pthread_atfork(handler, handler, handler) != 0)
        _exit(4);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = register_early;

static void *churn(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument * 977 + 1;

    while (!stop) {
        state = state * 1664525 + 1013904223;
        const size_t size = sizes[(state >> 20) % SIZES];
        char *block = malloc(size);
        if (block == NULL)
            _exit(5);
        block[0] = block[size - 1] = 1;
        if ((state >> 12) % 4 == 0)
            block = realloc(block, size * 2);
        free(atomic_exchange(&slots[(state >> 6) % SLOTS], block));
        if ((state >> 24) == 0)
            malloc_trim(0);
    }
    return NULL;
}

static int child(unsigned number)
{
    void *blocks[SIZES];
    int status = 0;

    alarm(30);
    for (unsigned i = 0; i < SIZES; i++) {
        blocks[i] = i % 2 != 0 ? calloc(1, sizes[i]) : aligned_alloc(64, sizes[i]);
        if (blocks[i] == NULL)
            return 5;
        memset(blocks[i], 1, sizes[i] < 5000 ? sizes[i] : 5000);
    }
    for (unsigned i = 0; i < 6; i++)
        free(atomic_exchange(&slots[(number + i) % SLOTS], NULL));
    for (unsigned i = 0; i < SIZES; i++)
        free(realloc(blocks[i], sizes[(i + 3) % SIZES]));
    if (number % 50 == 0) {
        const pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(child(1));
        if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild || status != 0)
            return 6;
    }
    if (number % 10 == 0)
        malloc_trim(0);
    return 0;
}

static void *fork_often(void *argument)
{
    uintptr_t wrong = 0;
    int status = 0;
    (void)argument;

    for (unsigned i = 0; i < forks_each; i++) {
        const pid_t id = fork();
        if (id == 0)
            _exit(child(i));
        if (id < 0 || waitpid(id, &status, 0) != id || status != 0) {
            fprintf(stderr, "child %u: status 0x%x\n", i, (unsigned)status);
            wrong++;
        }
    }
    return (void *)wrong;
}

int main(int count, char **arguments)
{
    pthread_t churners[CHURNERS], forkers[FORKERS];
    uintptr_t wrong = 0;
    void *result = NULL;

    require_our_malloc();
    forks_each = (count == 2 ? (unsigned)strtoul(arguments[1], NULL, 10) : 600) / FORKERS;
    alarm(600);
    register_early();
    for (uintptr_t i = 0; i < CHURNERS; i++)
        if (pthread_create(&churners[i], NULL, churn, (void *)i) != 0)
            return 2;
    for (uintptr_t i = 0; i < FORKERS; i++)
        if (pthread_create(&forkers[i], NULL, fork_often, NULL) != 0)
            return 2;
    for (unsigned i = 0; i < FORKERS; i++) {
        pthread_join(forkers[i], &result);
        wrong += (uintptr_t)result;
    }
    stop = 1;
    for (unsigned i = 0; i < CHURNERS; i++)
        pthread_join(churners[i], NULL);
    /* Two sets, before and after each fork, here in the parent. */
    if (handled < 4 * forks_each * FORKERS)
        wrong++;
    return wrong != 0;
}
