/* SPDX-License-Identifier: MIT */
/* stress.h - what the threads of the stress share. stress.c sets it up before the first thread starts. */
#ifndef SHARDMM_STRESS_STRESS_H
#define SHARDMM_STRESS_STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "exchange.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#define WORKERS_MAX 256u
#define WORKER_SLOTS ((size_t)3000) /* some 2000 of them full on average */
#define WORKER_BYTES_MAX (24 * MIB) /* what one worker may hold, */
/* and all of them. TSan adds several bytes for each. */
#ifdef UNDER_TSAN
#define ALL_BYTES_MAX (256 * MIB)
#else
#define ALL_BYTES_MAX (1024 * MIB)
#endif

/* Only its thread touches it, apart from the mailboxes and actor's counts. */
struct worker {
    struct actor actor;
    pthread_t thread;
    unsigned number;
    bool supplier;               /* makes small blocks for its neighbour's express box */
    size_t held;                 /* bytes of the blocks in slots */
    struct mailbox mail;         /* blocks from anyone, to keep or to free */
    struct mailbox express;      /* blocks from the supplier, to free at once */
    struct block slots[WORKER_SLOTS];
    char name[24];
};

struct stress {
    /* constant while threads run */
    unsigned worker_count;
    size_t worker_bytes;         /* what each may hold */
    struct size_mix mix;
    uint64_t seed;
    unsigned fork_rate, purge_rate, signal_rate; /* a second, from outside; 0: none */
    struct worker *workers;

    struct gate gate;
    _Atomic bool stop;           /* relaxed: joining orders the rest */
    _Atomic unsigned purge_turn; /* number + 1 of the worker who shall purge, 0: nobody. relaxed: a hint */
    _Atomic uint64_t churned;    /* threads that came and went; relaxed: a count */
    _Atomic uint64_t churn_operations;
    _Atomic uint64_t forks, purges, signals; /* what came from outside; relaxed: counts */
};

extern struct stress stress;

/* A seed of its own for the thread that has this number. */
static inline uint64_t stress_seed(uint64_t number)
{
    struct random random = {stress.seed ^ (number * UINT64_C(0xa0761d6478bd642f))};

    return random_next(&random);
}

/* Hands the block to a random worker. False, and the block stays, when its mailbox is full. */
static inline bool stress_post(struct actor *actor, struct block *block)
{
    struct worker *to = &stress.workers[random_below(&actor->random, stress.worker_count)];

    if (!mailbox_put(&to->mail, block)) {
        return false;
    }
    actor_count(&actor->handovers);
    return true;
}

static inline bool stress_stopped(void)
{
    return atomic_load_explicit(&stress.stop, memory_order_relaxed);
}

/* worker.c */
void *worker_main(void *worker);
/* Frees what the worker and its mailboxes still hold, in the name of `actor`, after the worker ended. */
void worker_clear(struct actor *actor, struct worker *worker);

/* churn.c */
bool churn_init(void);
void *churn_main(void *actor);

/* outside.c: threads of its own for what the rates ask for. */
unsigned outside_members(void); /* how many of them pass the gate */
bool outside_start(void);       /* after all workers */
void outside_join(void);        /* before any worker, to whom signals go */
uint64_t outside_operations(void);

#endif
