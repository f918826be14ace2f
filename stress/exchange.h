/* SPDX-License-Identifier: MIT */
/* exchange.h - how threads meet: mailboxes for blocks, and a gate that stops them all.
 *
 * A mailbox is a bounded ring that any thread may put into and take from. Each cell has a turn:
 *
 *     turn == ticket              free for the put that drew `ticket`
 *     turn == ticket + 1          holds the block of that put
 *     turn == ticket + MAIL_SIZE  free again, for the next round
 *
 * It takes no lock and makes no system call: a lock would line the threads up just where a foreign free
 * should meet its owner.
 */
#ifndef SHARDMM_STRESS_EXCHANGE_H
#define SHARDMM_STRESS_EXCHANGE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "block.h"

#define MAIL_SIZE ((size_t)64) /* a power of two, so that tickets may wrap */

struct mailbox {
    _Alignas(64) _Atomic size_t puts;
    _Alignas(64) _Atomic size_t takes;
    struct mail_cell {
        _Atomic size_t turn;
        struct block block; /* belongs to whoever the turn names */
    } cells[MAIL_SIZE];
};

/* Before any thread sees it. */
static inline void mailbox_init(struct mailbox *mailbox)
{
    atomic_init(&mailbox->puts, 0);
    atomic_init(&mailbox->takes, 0);
    for (size_t i = 0; i < MAIL_SIZE; i++) {
        atomic_init(&mailbox->cells[i].turn, i);
    }
}

/* Draws the next ticket of `counter` whose cell has reached ticket + `ready`. NULL when it has not: full or
 * empty.
 *
 * turn     acquire  pairs with the release of the one who left the cell: its contents are ours now
 * counter  relaxed  only hands out numbers */
static inline struct mail_cell *mailbox_draw(struct mailbox *mailbox, _Atomic size_t *counter, size_t ready,
                                             size_t *ticket)
{
    size_t seen = atomic_load_explicit(counter, memory_order_relaxed);

    for (;;) {
        struct mail_cell *cell = &mailbox->cells[seen % MAIL_SIZE];
        const size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);

        if (turn == seen + ready) {
            if (atomic_compare_exchange_weak_explicit(counter, &seen, seen + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                *ticket = seen;
                return cell;
            }
        } else if ((ptrdiff_t)(turn - (seen + ready)) < 0) {
            return NULL;
        } else {
            seen = atomic_load_explicit(counter, memory_order_relaxed);
        }
    }
}

/* Moves the block into the mailbox; false, and nothing moved, when it is full. */
static inline bool mailbox_put(struct mailbox *mailbox, struct block *block)
{
    size_t ticket;
    struct mail_cell *cell = mailbox_draw(mailbox, &mailbox->puts, 0, &ticket);

    if (cell == NULL) {
        return false;
    }
    cell->block = *block;
    block->memory = NULL;
    atomic_store_explicit(&cell->turn, ticket + 1, memory_order_release); /* publishes block and pattern */
    return true;
}

static inline bool mailbox_take(struct mailbox *mailbox, struct block *block)
{
    size_t ticket;
    struct mail_cell *cell = mailbox_draw(mailbox, &mailbox->takes, 1, &ticket);

    if (cell == NULL) {
        return false;
    }
    *block = cell->block;
    atomic_store_explicit(&cell->turn, ticket + MAIL_SIZE, memory_order_release); /* our read is done */
    return true;
}

/* ---- The gate ----
 *
 * Members call gate_pass() between two operations. One thread, no member, closes the gate, waits until all
 * are parked, and opens it. A member that has not woken up when the gate closes again just stays parked:
 * nothing counts rounds, so none can be missed. */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned members; /* set before the first thread starts */
    unsigned parked;  /* under lock */
    _Atomic bool closed; /* written under lock; read without as a hint */
};

static inline bool gate_init(struct gate *gate, unsigned members)
{
    pthread_condattr_t attributes;

    gate->members = members;
    gate->parked = 0;
    atomic_init(&gate->closed, false);
    return pthread_mutex_init(&gate->lock, NULL) == 0 && pthread_condattr_init(&attributes) == 0 &&
           pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(&gate->changed, &attributes) == 0 && pthread_condattr_destroy(&attributes) == 0;
}

static inline void gate_pass(struct gate *gate)
{
    /* relaxed: whoever sees it late is only parked late; the lock orders everything else */
    if (!atomic_load_explicit(&gate->closed, memory_order_relaxed)) {
        return;
    }
    (void)pthread_mutex_lock(&gate->lock);
    gate->parked++;
    (void)pthread_cond_broadcast(&gate->changed);
    while (atomic_load_explicit(&gate->closed, memory_order_relaxed)) {
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    }
    gate->parked--;
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Returns true when all members are parked, false when some are not after `seconds`: they hang. */
static inline bool gate_close(struct gate *gate, unsigned seconds)
{
    struct timespec until;
    bool all;
    int status = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    (void)pthread_mutex_lock(&gate->lock);
    atomic_store_explicit(&gate->closed, true, memory_order_relaxed);
    while (gate->parked < gate->members && status != ETIMEDOUT) {
        status = pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
    }
    all = gate->parked == gate->members;
    (void)pthread_mutex_unlock(&gate->lock);
    return all;
}

static inline void gate_open(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    atomic_store_explicit(&gate->closed, false, memory_order_relaxed);
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}

#endif
