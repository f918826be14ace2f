/* SPDX-License-Identifier: MIT */
/* case.c - the misuses of cases.h, each in a process of its own.
 *
 *     misuse CASE             misuses, and never comes back
 *     misuse CASE about       what must be reported, and by which tier
 *
 * Handlers of SIGABRT allocate blocks of every kind: who reports holds nothing that would make them wait. Handlers that
 * come while their thread holds a lock cannot have what they ask for, and must not hang. */
#include <inttypes.h>
#include <shardmm/shardmm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static char data[64] __attribute__((aligned(16), used));
static void *volatile p;

int main(int count, char **arguments);

/* Called in the midst of a call that gives memory back, under the lock of this thread's medium blocks. */
static void (*in_purge)(void);

int madvise(void *address, size_t size, int advice)
{
    void (*const call)(void) = in_purge;

    in_purge = NULL;
    if (call != NULL)
        call();
    return (int)syscall(SYS_madvise, address, size, advice);
}

static void purge(void (*meanwhile)(void))
{
    shardmm_free(shardmm_malloc(100000));
    in_purge = meanwhile;
    (void)shardmm_purge();
}

static void allocate(int signal_number)
{
    static const size_t sizes[] = {16, 5000, 100000, (size_t)3 << 20};
    (void)signal_number;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *const block = shardmm_malloc(sizes[i]);
        if (block == NULL)
            _exit(1);
        memset(block, 1, sizes[i]);
        shardmm_free(block);
    }
    printf("%p\n", p);
    fflush(stdout);
}

/* A fault is of the program, unless the library says another line. */
static void allocate_and_abort(int signal_number)
{
    signal(SIGABRT, SIG_DFL);
    allocate(signal_number);
    fputs("shardmm: no line\n", stderr);
    abort();
}

static void call_again(void) { p = shardmm_malloc(100000); }
static void raise_sigabrt(void) { abort(); }
static void raise_sigusr1(void) { raise(SIGUSR1); }
static void touch_nothing(void) { *(volatile char *)p = 1; }

#define ALWAYS "always"
#define DEBUG "debug"
#define CASE(name, code, tier, line)                                                                     \
    static const char *about_##name(void) { return tier " shardmm: " line; }                             \
    static void run_##name(void) { code; }
#include "cases.h"
#undef CASE

static const struct misuse {
    const char *name;
    const char *(*about)(void);
    void (*run)(void);
} cases[] = {
#define CASE(name, code, tier, line) {#name, about_##name, run_##name},
#include "cases.h"
};

int main(int count, char **arguments)
{
    const struct rlimit none = {0, 0};
    const struct misuse *chosen = NULL;

    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, arguments[1]) == 0)
            chosen = &cases[i];
    if (chosen == NULL)
        return 2;
    if (count > 2) {
        puts(chosen->about());
        return 0;
    }
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, allocate);
    signal(SIGUSR1, allocate);
    signal(SIGSEGV, allocate_and_abort);
    alarm(20);
    chosen->run();
    return 0;
}
