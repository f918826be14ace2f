/* SPDX-License-Identifier: MIT */
/* threads.c - threads that start, work and end; and a process that rests after its work. */

#include "bench.h"
#include "model.h"

#include <stdio.h>

/* ---- threads: each worker starts one thread after the other ---- */

struct errand {
    uint64_t random, checksum;
    struct text *result; /* freed by who sent for it */
};

static void *errand_body(void *argument)
{
    struct errand *errand = argument;
    struct map *map = B(map_new)();
    for (size_t i = 0; i < 300; i++)
        B(map_put)(map, random_below(&errand->random, 500), random_between(&errand->random, 16, 400));
    struct packet packet;
    B(packet_write)(&packet, &errand->random);
    errand->checksum = mix(B(map_sum)(map), B(packet_read)(&packet));
    errand->result = B(text_random)(&errand->random, 100, 2000);
    free(packet.bytes);
    B(map_drop)(map);
    return NULL;
}

enum { RESULTS = 100 };

static void threads_work(struct worker *self)
{
    struct text **results = need(calloc(RESULTS, sizeof(struct text *)));
    const size_t errands = scaled(self, 3000);
    for (size_t i = 0; i < errands; i++) {
        struct errand errand = {.random = next_random(&self->random) | 1};
        join_thread(start_thread(errand_body, &errand));
        free(results[i % RESULTS]);
        results[i % RESULTS] = errand.result;
        self->checksum = mix(self->checksum, errand.checksum ^ errand.result->length);
    }
    self->held = results;
    self->operations = errands;
}

static void threads_drop(struct worker *self)
{
    struct text **results = self->held;
    for (size_t i = 0; i < RESULTS; i++)
        free(results[i]);
    free(results);
}

/* ---- spawn: rounds of threads that keep some blocks, and exchange others with whoever is there ---- */

enum { ROUNDS = 25, SLOTS = 1000, SPAWN_STEPS = 60000 };

struct parcel {
    size_t size;
    uint64_t value;
};

static struct parcel *_Atomic slots[SLOTS];
static pthread_barrier_t round_barrier;

static struct parcel *parcel_new(uint64_t *random)
{
    const size_t dice = random_below(random, 1000);
    const size_t size = dice == 0   ? random_between(random, 10000, 100000)
                        : dice < 10 ? random_between(random, 1000, 10000)
                                    : random_between(random, sizeof(struct parcel) + 8, 320);
    struct parcel *parcel = need(malloc(size));
    parcel->size = size;
    parcel->value = next_random(random);
    memcpy((char *)parcel + size - sizeof parcel->value, &parcel->value, sizeof parcel->value);
    return parcel;
}

static void parcel_drop(struct parcel *parcel)
{
    uint64_t end;
    if (parcel == NULL)
        return;
    memcpy(&end, (char *)parcel + parcel->size - sizeof end, sizeof end);
    if (end != parcel->value)
        fail("spawn: a block of %zu bytes was overwritten", parcel->size);
    free(parcel);
}

static void *spawn_body(void *argument)
{
    struct worker *self = argument;
    const size_t steps = scaled(self, SPAWN_STEPS);
    size_t kept_count = 0;
    struct parcel **kept = need(malloc(steps * sizeof(struct parcel *)));
    for (size_t i = 0; i < steps; i++) {
        struct parcel *parcel = parcel_new(&self->random);
        self->checksum = mix(self->checksum, parcel->value ^ parcel->size);
        kept[kept_count++] = parcel;
        const size_t dice = random_below(&self->random, 100);
        const size_t at = random_below(&self->random, kept_count);
        if (dice < 45) {
            parcel_drop(kept[at]);
            kept[at] = kept[--kept_count];
        } else if (dice < 70) {
            struct parcel *other = atomic_exchange(&slots[random_below(&self->random, SLOTS)], kept[at]);
            /* Which one comes back is up to the other threads; only how many there are must not be. */
            parcel_drop(other);
            kept[at] = kept[--kept_count];
        }
    }
    while (kept_count > 0)
        parcel_drop(kept[--kept_count]);
    free(kept);
    self->operations += steps;
    return NULL;
}

static void spawn_work(struct worker *self)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool ready;
    pthread_mutex_lock(&lock);
    if (!ready)
        pthread_barrier_init(&round_barrier, NULL, self->threads);
    ready = true;
    pthread_mutex_unlock(&lock);
    for (size_t round = 0; round < ROUNDS; round++) {
        join_thread(start_thread(spawn_body, self));
        pthread_barrier_wait(&round_barrier);
        /* Half of what the round left goes before the next one. */
        for (size_t i = self->index; i < SLOTS; i += self->threads)
            if ((i + round) % 2 == 0)
                parcel_drop(atomic_exchange(&slots[i], NULL));
        pthread_barrier_wait(&round_barrier);
    }
}

static void spawn_drop(struct worker *self)
{
    for (size_t i = self->index; i < SLOTS; i += self->threads)
        parcel_drop(atomic_exchange(&slots[i], NULL));
}

/* ---- idle: work, then nothing, with the threads still there ---- */

enum { IDLE_BLOCKS = 60000 };

static void idle_work(struct worker *self)
{
    const size_t count = scaled(self, IDLE_BLOCKS);
    unsigned char **blocks = need(malloc(count * sizeof *blocks));
    for (size_t i = 0; i < count; i++) {
        const size_t size = i % 1000 == 0  ? random_between(&self->random, 1 << 20, 3 << 20)
                            : i % 100 == 0 ? random_between(&self->random, 16 << 10, 200 << 10)
                                           : random_between(&self->random, 16, 1200);
        blocks[i] = need(malloc(size));
        memset(blocks[i], (int)i, size);
        self->checksum = mix(self->checksum, blocks[i][size / 2]);
    }
    self->held = blocks;
    self->operations = count;
}

static void idle_drop(struct worker *self)
{
    unsigned char **blocks = self->held;
    const size_t count = scaled(self, IDLE_BLOCKS);
    /* In another order than allocated. */
    for (size_t first = 0; first < 7; first++)
        for (size_t i = first; i < count; i += 7)
            free(blocks[i]);
    free(blocks);
}

const struct scenario B(thread_scenarios)[] = {
    {.name = "threads", .about = "threads that start, work and end, one after the other", .work = threads_work,
     .drop = threads_drop},
    {.name = "spawn", .about = "25 rounds of threads that exchange blocks through a shared table", .work = spawn_work,
     .drop = spawn_drop},
    {.name = "idle", .about = "memory over two seconds after all was freed", .work = idle_work, .drop = idle_drop,
     .sampled = true, .idle_milliseconds = 2000},
    {.name = "idle-purge", .about = "the same after a request to give memory back", .work = idle_work,
     .drop = idle_drop, .sampled = true, .idle_milliseconds = 2000, .purge = true},
    {.name = NULL},
};
