/* SPDX-License-Identifier: MIT */
/* worker.c - one worker: random operations on a table of blocks.
 *
 *   worker_main
 *     worker_receive       frees what the supplier sent, keeps or frees what others sent
 *     worker_supply        supplier only: a small block for the neighbour
 *     worker_step          one random slot: empty, a block is made; full, freed, resized, handed on, checked
 */
#include <sys/resource.h>

#include "stress.h"
#include "target.h"

#define WORKER_NICE 10

/* Everything that goes out of slots and in goes through these two, which keep `held`. */

static void slot_fill(struct worker *worker, struct block *slot, const struct block *block)
{
    *slot = *block;
    worker->held += block->size;
}

static struct block slot_empty(struct worker *worker, struct block *slot)
{
    const struct block block = *slot;

    worker->held -= block.size;
    slot->memory = NULL;
    return block;
}

static void slot_free(struct worker *worker, struct block *slot)
{
    struct block block = slot_empty(worker, slot);

    block_free(&worker->actor, &block, "before free");
}

/* Makes room for `size` more bytes at the cost of other big blocks, so that the shares of big blocks stay
 * what was asked for. False when small blocks alone fill the budget. */
static bool worker_reserve(struct worker *worker, size_t size)
{
    size_t at = random_below(&worker->actor.random, WORKER_SLOTS);

    for (size_t i = 0; i < WORKER_SLOTS && worker->held + size > stress.worker_bytes; i++) {
        struct block *slot = &worker->slots[at];

        if (slot->memory != NULL && slot->size > SMALL_MAX) {
            slot_free(worker, slot);
        }
        at = at + 1 == WORKER_SLOTS ? 0 : at + 1;
    }
    return worker->held + size <= stress.worker_bytes;
}

static void worker_make(struct worker *worker, struct block *slot)
{
    struct actor *actor = &worker->actor;
    struct random *random = &actor->random;
    const size_t lot = random_below(random, 1000);
    struct block block;
    bool made;

    if (lot == 0) {
        /* Rare: other allocators may take twice the alignment for each. */
        made = block_make_far_aligned(actor, &block, random_scaled(random, 1, 256 * KIB));
    } else if (lot < 40) {
        made = block_make_aligned(actor, &block, random_scaled(random, 1, 64 * KIB));
    } else {
        const size_t size = size_any(random, &stress.mix);
        made = block_make(actor, &block, worker_reserve(worker, size) ? size : random_between(random, 1, 256));
    }
    if (made) {
        slot_fill(worker, slot, &block);
    }
}

static size_t resize_target(struct random *random, size_t size)
{
    switch (random_below(random, 5)) {
    case 0: /* appending */
        return size + random_between(random, 1, 64);
    case 1:
        return size + size / 2 + 1;
    case 2:
        return size / 2 + 1;
    case 3: /* a little off the end */
        return size - random_below(random, size / 8 + 1) + 1;
    default: /* anything, small ones becoming big ones too */
        return random_one_in(random, 8) ? size_any(random, &stress.mix) + 1 : size_small(random) + 1;
    }
}

static void worker_resize(struct worker *worker, struct block *slot)
{
    struct block block = slot_empty(worker, slot);
    const size_t size = resize_target(&worker->actor.random, block.size);

    if (size <= 2 * LARGE_MAX && worker_reserve(worker, size)) {
        block_resize(&worker->actor, &block, size);
    }
    if (block.memory != NULL) {
        slot_fill(worker, slot, &block);
    }
}

static void worker_post(struct worker *worker, struct block *slot)
{
    struct block block = slot_empty(worker, slot);

    if (!stress_post(&worker->actor, &block)) {
        slot_fill(worker, slot, &block);
    }
}

static void worker_step(struct worker *worker)
{
    struct actor *actor = &worker->actor;
    struct block *slot = &worker->slots[random_below(&actor->random, WORKER_SLOTS)];
    size_t lot;

    if (slot->memory == NULL) {
        worker_make(worker, slot);
        return;
    }
    lot = random_below(&actor->random, 100);
    if (lot < 35) {
        slot_free(worker, slot);
    } else if (lot < 60) {
        worker_resize(worker, slot);
    } else if (lot < 75) {
        worker_post(worker, slot);
    } else if (lot < 80) {
        const size_t size = slot->size;
        if (!block_check(actor, slot, "at rest")) {
            worker->held -= size;
        }
    }
}

static void worker_receive(struct worker *worker)
{
    struct actor *actor = &worker->actor;
    struct block block;

    /* Bounded by the ring, or a fast supplier would hold us here for good. */
    for (size_t i = 0; i < MAIL_SIZE && mailbox_take(&worker->express, &block); i++) {
        block_free(actor, &block, "after express hand-over");
    }
    for (unsigned i = 0; i < 2 && mailbox_take(&worker->mail, &block); i++) {
        struct block *slot = &worker->slots[random_below(&actor->random, WORKER_SLOTS)];

        if (slot->memory == NULL && worker->held + block.size <= stress.worker_bytes) {
            if (block_check(actor, &block, "after hand-over")) {
                slot_fill(worker, slot, &block);
            }
        } else {
            block_free(actor, &block, "after hand-over");
        }
    }
}

/* False when the neighbour is behind: then there is time for other work. */
static bool worker_supply(struct worker *worker)
{
    struct actor *actor = &worker->actor;
    struct worker *neighbour = &stress.workers[(worker->number + 1) % stress.worker_count];
    struct block block;

    for (unsigned i = 0; i < 4; i++) {
        if (!block_make(actor, &block, random_scaled(&actor->random, 1, 1 * KIB))) {
            return false;
        }
        if (!mailbox_put(&neighbour->express, &block)) {
            block_free(actor, &block, "before free");
            return false;
        }
        actor_count(&actor->handovers);
    }
    return true;
}

/* Calls that programs make rarely. */
static void worker_tidy(struct worker *worker)
{
    if (atomic_load_explicit(&stress.purge_turn, memory_order_relaxed) == worker->number + 1) {
        atomic_store_explicit(&stress.purge_turn, 0, memory_order_relaxed);
        target_purge();
    }
    if (random_one_in(&worker->actor.random, 1000)) {
        target_flush();
    }
}

void *worker_main(void *argument)
{
    struct worker *worker = argument;

    /* More workers than processors would leave no turn to what comes from outside. The thread's own number. */
    (void)setpriority(PRIO_PROCESS, 0, WORKER_NICE);
    for (unsigned turn = 0; !stress_stopped(); turn++) {
        gate_pass(&stress.gate);
        worker_receive(worker);
        if (!worker->supplier || !worker_supply(worker) || turn % 8 == 0) {
            worker_step(worker);
        }
        if (turn % 64 == 0) {
            worker_tidy(worker);
        }
    }
    /* Half of the blocks go now, the other half outlives this thread. */
    for (size_t i = 0; i < WORKER_SLOTS; i += 2) {
        if (worker->slots[i].memory != NULL) {
            slot_free(worker, &worker->slots[i]);
        }
    }
    return NULL;
}

void worker_clear(struct actor *actor, struct worker *worker)
{
    struct block block;

    for (size_t i = 0; i < WORKER_SLOTS; i++) {
        if (worker->slots[i].memory != NULL) {
            block_free(actor, &worker->slots[i], "after the end of its thread");
        }
    }
    while (mailbox_take(&worker->express, &block) || mailbox_take(&worker->mail, &block)) {
        block_free(actor, &block, "after the end of all threads");
    }
}
