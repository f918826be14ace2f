/* SPDX-License-Identifier: MIT */
/* support.h - what most tests need: cmocka with its headers, threads and child processes around a function,
 * the clock and the resident set.
 *
 * cmocka's checks leave a test by a jump and work in the thread of the test alone. A thread returns what it
 * found; a child process ends with CHILD_CHECK(), or with CHILD_SKIP() where the machine does not let it begin.
 */
#ifndef SMM_TESTS_SUPPORT_H
#define SMM_TESTS_SUPPORT_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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

#include "geometry.h"
#include "pattern.h"
#include "target.h"

/* Sanitizers reserve terabytes and keep freed memory: limits and resident sizes say nothing under them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/* The rounds of destructors of thread-specific data in which a test may do something. The thread sanitizer takes
 * its own state of the thread away in the last one, and dies of what is done after that. */
#if defined(__SANITIZE_THREAD__)
#define DESTRUCTOR_ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DESTRUCTOR_ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#endif
#endif
#ifndef DESTRUCTOR_ROUNDS
#define DESTRUCTOR_ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A thread counts what goes wrong in it. */
#define EXPECT(errors, condition)                                                                       \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                     \
            (errors)++;                                                                                 \
        }                                                                                               \
    } while (0)

#define CHILD_CHECK(condition)                                                                          \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                     \
            _exit(1);                                                                                   \
        }                                                                                               \
    } while (0)

/* in_child() then skips the test. */
enum { CHILD_SKIPS = 77 };

#define CHILD_SKIP(reason)                                                                              \
    do {                                                                                                \
        fprintf(stderr, "%s:%d: skipped: %s\n", __FILE__, __LINE__, reason);                            \
        _exit(CHILD_SKIPS);                                                                             \
    } while (0)

/* The address as a number that the compiler knows nothing about: it may take two results of a malloc-like
 * function for different without a look, although the second reuses the memory of the first. */
static inline uintptr_t address_of(const void *block)
{
    uintptr_t address = (uintptr_t)block;
    __asm__ volatile("" : "+r"(address));
    return address;
}

/* The same for a size: no warning of the compiler's about a size that is too large on purpose. */
static inline size_t hidden_size(size_t size)
{
    __asm__ volatile("" : "+r"(size));
    return size;
}

static inline bool is_aligned(const void *block, size_t alignment)
{
    return (address_of(block) & (alignment - 1)) == 0;
}

static inline void *filled_block(size_t size, uint64_t seed)
{
    void *const block = shardmm_malloc(size);
    if (block != NULL)
        pattern_fill(block, size, seed);
    return block;
}

static inline void sleep_ms(long ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

static inline size_t resident_bytes(void)
{
    unsigned long total = 0;
    unsigned long resident = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    const int fields = file != NULL ? fscanf(file, "%lu %lu", &total, &resident) : 0;

    if (file != NULL)
        fclose(file);
    return fields == 2 ? resident * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static inline size_t mapped_bytes(void)
{
    unsigned long total = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    const int fields = file != NULL ? fscanf(file, "%lu", &total) : 0;

    if (file != NULL)
        fclose(file);
    return fields == 1 ? total * (size_t)sysconf(_SC_PAGESIZE) : 0;
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

/* Runs a function in a thread of its own to its end. */
static inline void *in_thread(void *(*run)(void *), void *argument)
{
    return thread_end(thread_start(run, argument));
}

/* A thread that returns a count of errors. */
#define ERRORS(count) ((void *)(uintptr_t)(count))
#define assert_no_errors(result) assert_int_equal((uintptr_t)(result), 0)

/* In a child process: cmocka's handlers would go on with the tests of the parent. */
static inline void signals_by_default(void)
{
    static const int caught[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};

    for (size_t i = 0; i < COUNT_OF(caught); i++)
        signal(caught[i], SIG_DFL);
}

/* Runs a function in a child process and demands that it ends well within `seconds`. */
static inline void in_child(void (*run)(void *), void *argument, unsigned seconds)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signals_by_default();
        alarm(seconds);
        run(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        skip();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with status 0x%x", (unsigned)status);
}

/* In a child process: starts this program anew, for what a library does once in a process. main() looks for the
 * word. */
static inline void start_again(const char *word)
{
    char program[] = "test";
    char argument[64];
    char *const arguments[] = {program, argument, NULL};

    snprintf(argument, sizeof argument, "%s", word);
    execv("/proc/self/exe", arguments);
    perror("execv");
    _exit(1);
}

#ifndef SHARDMM_TEST_LIBC

static inline struct shardmm_stats stats_now(void)
{
    struct shardmm_stats stats;
    assert_int_equal(shardmm_stats_get(&stats, sizeof stats), 0);
    return stats;
}

/* Demands that as many blocks of each kind are in use as were in `before`. */
#define assert_same_in_use(before)                                                                      \
    do {                                                                                                \
        const struct shardmm_stats now_ = stats_now();                                                  \
        assert_int_equal(now_.small_blocks, (before).small_blocks);                                     \
        assert_int_equal(now_.small_bytes, (before).small_bytes);                                       \
        assert_int_equal(now_.medium_blocks, (before).medium_blocks);                                   \
        assert_int_equal(now_.medium_bytes, (before).medium_bytes);                                     \
        assert_int_equal(now_.large_blocks, (before).large_blocks);                                     \
        assert_int_equal(now_.large_bytes, (before).large_bytes);                                       \
    } while (0)

#endif
#endif
