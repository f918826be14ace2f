/* SPDX-License-Identifier: MIT */
/* churn.c - threads that come and go, and whose blocks outlive them.
 *
 * The churn thread starts a handful of visitors, waits until they have ended, and hands on the blocks that
 * they left. A visitor allocates, frees and resizes for a moment; some of them go on in the destructor of
 * thread-specific data, over as many rounds as there are, when the allocator may have taken their heap away
 * already. Visitors are always joined: at the gate, the churn thread alone stands for all of them.
 */
#include <limits.h>
#include <stdio.h>

#include "stress.h"
#include "target.h"

#define VISITORS_MAX 6u
#define VISITOR_SLOTS 48u

/* TSan takes its own thread state away in the last round of destructors and dies when instrumented code runs
 * after that: there, the visitors stop one round early. */
#ifdef UNDER_TSAN
#define LATE_ROUNDS_MAX (PTHREAD_DESTRUCTOR_ITERATIONS - 2)
#else
#define LATE_ROUNDS_MAX PTHREAD_DESTRUCTOR_ITERATIONS /* more than there are: the last wish is not granted */
#endif

/* The visitor's alone until it is joined, then the churn thread's. */
struct visitor {
    struct actor actor;
    pthread_t thread;
    char name[24];
    unsigned late_rounds; /* destructor calls still wanted after the next */
    struct block slots[VISITOR_SLOTS];
};

static struct visitor visitors[VISITORS_MAX];
static pthread_key_t late_key;

static void visitor_step(struct visitor *visitor)
{
    struct actor *actor = &visitor->actor;
    struct random *random = &actor->random;
    struct block *slot = &visitor->slots[random_below(random, VISITOR_SLOTS)];

    if (slot->memory == NULL) {
        if (random_one_in(random, 20)) {
            (void)block_make_aligned(actor, slot, random_scaled(random, 1, 64 * KIB));
        } else {
            (void)block_make(actor, slot, size_any(random, &stress.mix));
        }
        return;
    }
    switch (random_below(random, 4)) {
    case 0:
        block_resize(actor, slot, size_small(random) + 1);
        break;
    case 1: /* whether it is freed before or after this thread ends is left to chance */
        (void)stress_post(actor, slot);
        break;
    default:
        block_free(actor, slot, "before free");
        break;
    }
}

static void visitor_late(void *argument)
{
    struct visitor *visitor = argument;

    for (unsigned i = 0; i < 8; i++) {
        visitor_step(visitor);
    }
    if (visitor->late_rounds > 0) {
        visitor->late_rounds--;
        (void)pthread_setspecific(late_key, visitor);
    }
}

static void *visitor_main(void *argument)
{
    struct visitor *visitor = argument;
    struct random *random = &visitor->actor.random;
    /* Some do next to nothing: a heap that was only just taken must be given back as well. */
    const size_t steps = random_one_in(random, 4) ? random_below(random, 3) : random_between(random, 10, 300);

    if (random_one_in(random, 3)) {
        visitor->late_rounds = (unsigned)random_below(random, LATE_ROUNDS_MAX + 1);
        (void)pthread_setspecific(late_key, visitor);
    }
    for (size_t i = 0; i < steps; i++) {
        visitor_step(visitor);
    }
    if (random_one_in(random, 8)) {
        target_flush();
    }
    return NULL;
}

/* Everything that an ended visitor left goes to the workers, or is freed here. */
static void visitor_clear(struct actor *actor, struct visitor *visitor)
{
    for (unsigned i = 0; i < VISITOR_SLOTS; i++) {
        struct block *slot = &visitor->slots[i];

        if (slot->memory == NULL) {
            continue;
        }
        if (random_one_in(&actor->random, 4) || !stress_post(actor, slot)) {
            block_free(actor, slot, "after the end of its thread");
        }
    }
}

static void churn_round(struct actor *actor, const pthread_attr_t *attributes)
{
    const unsigned wanted = 1 + (unsigned)random_below(&actor->random, VISITORS_MAX);
    unsigned started = 0;

    for (; started < wanted; started++) {
        struct visitor *visitor = &visitors[started];

        actor_init(&visitor->actor, visitor->name, random_next(&actor->random));
        visitor->late_rounds = 0;
        if (pthread_create(&visitor->thread, attributes, visitor_main, visitor) != 0) {
            report(actor->name, "pthread_create: no thread");
            break;
        }
    }
    /* All of them end before the first is cleared: what one left is then freed while others are gone too. */
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(visitors[i].thread, NULL);
    }
    for (unsigned i = 0; i < started; i++) {
        struct actor *visitor = &visitors[i].actor;

        visitor_clear(actor, &visitors[i]);
        (void)atomic_fetch_add_explicit(&stress.churn_operations,
                                        atomic_load_explicit(&visitor->operations, memory_order_relaxed),
                                        memory_order_relaxed);
        atomic_store_explicit(&actor->handovers,
                              atomic_load_explicit(&actor->handovers, memory_order_relaxed) +
                                  atomic_load_explicit(&visitor->handovers, memory_order_relaxed),
                              memory_order_relaxed);
    }
    (void)atomic_fetch_add_explicit(&stress.churned, started, memory_order_relaxed);
}

bool churn_init(void)
{
    for (unsigned i = 0; i < VISITORS_MAX; i++) {
        (void)snprintf(visitors[i].name, sizeof visitors[i].name, "visitor %u", i);
    }
    return pthread_key_create(&late_key, visitor_late) == 0;
}

void *churn_main(void *argument)
{
    struct actor *actor = argument;
    pthread_attr_t attributes;

    (void)pthread_attr_init(&attributes);
    /* Small stacks: the cost of a thread should be the allocator's, not the kernel's. */
    (void)pthread_attr_setstacksize(&attributes, 256 * KIB);
    while (!stress_stopped()) {
        gate_pass(&stress.gate);
        churn_round(actor, &attributes);
    }
    (void)pthread_attr_destroy(&attributes);
    return NULL;
}
