/* SPDX-License-Identifier: MIT */
/* bench.h - what a scenario sees of the harness.
 *
 * A scenario is compiled twice: as it is, with plain calls of malloc and the like, which whatever library is preloaded
 * answers; and with BENCH_COUNT, where each call is counted by size first, for --histogram. B(name) keeps the two
 * apart, so that the first carries no trace of the second. */
#ifndef SHARDMM_BENCH_H
#define SHARDMM_BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef BENCH_COUNT
#define B(name) name##_counted
void *count_malloc(size_t size);
void *count_calloc(size_t count, size_t size);
void *count_realloc(void *block, size_t size);
void count_free(void *block);
#define malloc(size) count_malloc(size)
#define calloc(count, size) count_calloc(count, size)
#define realloc(block, size) count_realloc(block, size)
#define free(block) count_free(block)
#else
#define B(name) name
#endif

enum { MAX_THREADS = 256 };

/* One for each thread. A scenario touches its own only, and shares through `mates`. */
struct worker {
    _Alignas(128) unsigned index;
    unsigned threads;
    double scale;
    uint64_t random;
    uint64_t checksum;   /* depends on scenario, threads, scale and index only */
    uint64_t operations; /* what one is, the scenario says */
    void *held;          /* what work() leaves allocated, for drop() */
    struct worker *mates;
};

struct scenario {
    const char *name;
    const char *about;
    void (*work)(struct worker *self); /* timed; what it allocates and does not free goes to self->held */
    void (*drop)(struct worker *self); /* after time and memory were taken; may be NULL */
    unsigned threads_step;             /* the number of threads must be a multiple; 0 is 1 */
    bool sampled;                      /* memory over time is of interest */
    unsigned idle_milliseconds;        /* how long all threads rest after drop(), with their data gone */
    bool purge;                        /* ask the allocator to give memory back when they begin to */
};

#define DECLARE_SCENARIOS(family) extern const struct scenario family[], family##_counted[]
/* Each ends with an entry without a name. */
DECLARE_SCENARIOS(loop_scenarios);
DECLARE_SCENARIOS(text_scenarios);
DECLARE_SCENARIOS(array_scenarios);
DECLARE_SCENARIOS(object_scenarios);
DECLARE_SCENARIOS(document_scenarios);
DECLARE_SCENARIOS(map_scenarios);
DECLARE_SCENARIOS(packet_scenarios);
DECLARE_SCENARIOS(medium_scenarios);
DECLARE_SCENARIOS(server_scenarios);
DECLARE_SCENARIOS(thread_scenarios);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void *need(void *block)
{
    if (block == NULL)
        fail("out of memory");
    return block;
}

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static inline uint64_t mix_bytes(uint64_t hash, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    uint64_t word;
    for (; length >= sizeof word; bytes += sizeof word, length -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = mix(hash, word);
    }
    for (; length > 0; bytes++, length--)
        hash = mix(hash, *bytes);
    return hash;
}

/* xorshift64* */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

/* 0 to limit - 1 */
static inline size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)(((next_random(state) >> 32) * limit) >> 32);
}

static inline size_t random_between(uint64_t *state, size_t least, size_t most)
{
    return least + random_below(state, most - least + 1);
}

static inline size_t scaled(const struct worker *self, size_t amount)
{
    const size_t result = (size_t)((double)amount * self->scale);
    return result > 0 ? result : 1;
}

/* Puts the function of that name, which a preloaded library may have, or NULL into the pointer at `pointer`. */
void find_function(void *pointer, const char *name);

/* Runs `body` in a thread of its own, with the same processors as the caller. */
pthread_t start_thread(void *(*body)(void *), void *argument);
void join_thread(pthread_t thread);

#endif
