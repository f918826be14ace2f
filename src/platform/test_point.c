/* SPDX-License-Identifier: MIT */
/* test_point.c - what happens at the places of test_point.h (builds with -Dtest_points=true).
 *
 * Each thread has random numbers of its own, which begin with SMM_TEST_SEED (environment) and the thread's number. For
 * some thousand visits it favours one place at random: there it stops often, and now and then for so long that others
 * get through whole operations, also with more processors than threads. At all others it yields now and then.
 */
#include "platform/platform.h"

#if SMM_TEST_POINTS

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    EPOCH = 2048,       /* visits, of which a part is of the favourite */
    YIELD_OF_1024 = 24, /* of visits to any place, */
    FAVOUR_OF_1024 = 192, /* and to the favourite */
    PAUSE_OF_1024 = 24    /* of visits to the favourite, too */
};
static const long PAUSE_NS = 20000; /* and what the system adds to it */

static _Atomic(smm_test_hook *) hook;

void smm_test_hook_set(smm_test_hook *set)
{
    smm_store_release(&hook, set);
}

/* splitmix64's last step: neighbours become numbers that have nothing to do with each other. */
static uint64_t mixed(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static uint64_t thread_seed(void)
{
    static _Atomic(uint64_t) threads;
    const char *const given = getenv("SMM_TEST_SEED");
    const uint64_t number = smm_add_relaxed(&threads, 1) + 1;

    return (given != NULL ? strtoull(given, NULL, 0) : 0) + number * 0x9e3779b97f4a7c15u;
}

void smm_test_point(enum smm_test_point point)
{
    /* From the thread's seed upwards. Not the default model, which may allocate at the first use. */
    static _Thread_local uint64_t visits __attribute__((tls_model("initial-exec")));
    smm_test_hook *const set = smm_load_acquire(&hook);
    const int saved = errno;

    if (set != NULL) {
        set(point);
        errno = saved;
        return;
    }
    if (visits == 0)
        visits = thread_seed();
    visits++;
    const bool favourite = point == mixed(visits / EPOCH) % SMM_AT_COUNT;
    const unsigned dice = (unsigned)(mixed(~visits) % 1024);
    if (dice < (favourite ? FAVOUR_OF_1024 : YIELD_OF_1024))
        smm_os_yield();
    if (favourite && dice >= 1024 - PAUSE_OF_1024)
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    errno = saved;
}

#endif
