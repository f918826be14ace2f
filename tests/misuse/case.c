/* SPDX-License-Identifier: MIT */
/* case.c - the misuses of cases.h, each in a process of its own.
 *
 *     misuse CASE             misuses, and never comes back
 *     misuse CASE about       what must be reported, and by which tier
 *
 * Handlers of SIGABRT allocate blocks of every kind: who reports holds nothing that would make them wait. */
#include <inttypes.h>
#include <shardmm/shardmm.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static char data[64] __attribute__((aligned(16), used));
static void *volatile p;

int main(int count, char **arguments);

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
    alarm(20);
    chosen->run();
    return 0;
}
