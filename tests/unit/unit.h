/* SPDX-License-Identifier: MIT */
/* unit.h - what the unit tests share: cmocka with its headers, random numbers that are the same on every run,
 * threads, and the segment map that memory of the modules needs.
 *
 * cmocka's checks leave a test by a jump and work in the thread of the test alone: other threads count errors
 * with EXPECT() and return them.
 */
#ifndef SMM_TESTS_UNIT_H
#define SMM_TESTS_UNIT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/geometry.h"
#include "segment/segment_map.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define EXPECT(errors, condition)                                                                         \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                       \
            (errors)++;                                                                                   \
        }                                                                                                 \
    } while (0)

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)(random_next(state) % limit);
}

static inline pthread_t thread_start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    return thread;
}

static inline void *thread_end(pthread_t thread)
{
    void *result = NULL;
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

/* What a thread returns that counted its errors. */
#define ERRORS(count) ((void *)(uintptr_t)(count))
#define assert_no_errors(result) assert_int_equal((uintptr_t)(result), 0)

static inline void sleep_ms(long ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

static inline uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The offset of the first byte that is not 0, or `size`. Without a compare function of the C library, which a
 * sanitizer would follow byte by byte. */
static inline size_t first_not_zero(const void *memory, size_t size)
{
    const unsigned char *const bytes = memory;
    size_t at = 0;

    for (; at < size && ((uintptr_t)(bytes + at) & 7) != 0; at++)
        if (bytes[at] != 0)
            return at;
    for (; at + 8 <= size && *(const uint64_t *)(const void *)(bytes + at) == 0; at += 8)
        ;
    while (at < size && bytes[at] == 0)
        at++;
    return at;
}

/* A group setup for modules that take memory by segments. */
static inline int segment_map_setup(void **state)
{
    (void)state;
    return smm_segment_map_init() ? 0 : -1;
}

#endif
