/* SPDX-License-Identifier: MIT */
/* small_stacks.c - allocating where there is little stack: in threads with the least that the system grants, and
 * in a handler of signals on a stack of its own. Every path is taken there for the first time: the birth of the
 * heap, slow paths, collecting, and the report of a fault. */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/which_malloc.h"

enum { THREADS = 8, BLOCKS = 30 };

static _Atomic unsigned done;

static void use(void)
{
    static const size_t sizes[] = {16, 700, 9000, 16384, 60000, 500000, 1200000};
    void *blocks[BLOCKS];

    for (unsigned i = 0; i < BLOCKS; i++) {
        const size_t size = sizes[i % 7];
        blocks[i] = i % 3 == 0 ? calloc(1, size) : i % 3 == 1 ? malloc(size) : aligned_alloc(4096, size);
        if (blocks[i] == NULL)
            _exit(5);
        memset(blocks[i], 1, size);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = realloc(blocks[i], sizes[(i + 3) % 7]);
        if (blocks[i] == NULL)
            _exit(5);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    malloc_trim(0);
    done++;
}

static void *thread(void *unused)
{
    use();
    return unused;
}

static void on_signal(int number)
{
    (void)number;
    use();
}

static void misuse(int number)
{
    static char wild[64];
    char *volatile block = wild + 16;
    (void)number;
    free(block);
}

/* A signal whose handler runs on `size` bytes with nothing below them. */
static void raise_on_a_small_stack(void (*handler)(int), size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (size + page - 1) / page * page;
    char *const guard = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED || mprotect(guard, page, PROT_NONE) != 0)
        _exit(4);
    const stack_t stack = {.ss_sp = guard + page, .ss_size = whole};
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 || raise(SIGUSR1) != 0)
        _exit(4);
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t ids[THREADS];
    int status = 0;
    char line[200] = "";
    int ends[2];

    require_our_malloc();

    /* The first call of the process, in a child that has no heap yet but its parent's. */
    const size_t signal_stack = (size_t)sysconf(_SC_SIGSTKSZ);
    raise_on_a_small_stack(on_signal, signal_stack);

    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) != 0)
        return 2;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            if (pthread_create(&ids[i], &attributes, thread, NULL) != 0)
                return 2;
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(ids[i], NULL);
    }
    if (done != 1 + 3 * THREADS)
        return 1;

    /* A fault is reported, and ends the process by SIGABRT and not by the end of the stack. */
    if (pipe(ends) != 0)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        raise_on_a_small_stack(misuse, signal_stack);
        _exit(0);
    }
    close(ends[1]);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
        read(ends[0], line, sizeof line - 1) <= 0 || strncmp(line, "shardmm: free(0x", 16) != 0) {
        fprintf(stderr, "the report from a small stack: status 0x%x, '%s'\n", (unsigned)status, line);
        return 1;
    }
    return 0;
}
