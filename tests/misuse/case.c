/* SPDX-License-Identifier: MIT */
/* case.c - one misuse, SMM_CASE of cases.h. With an argument it prints what must be reported and by which tier.
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
#define PASTE(a, b) a##b
#define NAMED(a, b) PASTE(a, b)

int main(int count, char **arguments)
{
    const struct rlimit none = {0, 0};
    (void)arguments;

    if (count > 1) {
        puts(NAMED(about_, SMM_CASE)());
        return 0;
    }
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, allocate);
    alarm(20);
    NAMED(run_, SMM_CASE)();
    return 0;
}
