/* SPDX-License-Identifier: MIT */
/* loops.c - the hot loops, which do little else than malloc and free, and the cycle of many blocks. */

#include "bench.h"

enum { SIZES = 4096, BATCH = 1000, CYCLE = 100000, LEAST = 16, MOST = 512 };

static void draw_sizes(struct worker *self, uint16_t sizes[static SIZES])
{
    for (size_t i = 0; i < SIZES; i++)
        sizes[i] = (uint16_t)random_between(&self->random, LEAST, MOST);
}

static void pairs_work(struct worker *self)
{
    uint16_t sizes[SIZES];
    draw_sizes(self, sizes);
    const size_t rounds = scaled(self, 8000);
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < SIZES; i++) {
            unsigned char *block = need(malloc(sizes[i]));
            block[0] = (unsigned char)i;
            sum += block[0];
            free(block);
        }
    self->checksum = mix(self->checksum, sum);
    self->operations = rounds * SIZES;
}

static void batches_work(struct worker *self)
{
    uint16_t sizes[SIZES];
    unsigned char *blocks[BATCH];
    draw_sizes(self, sizes);
    const size_t rounds = scaled(self, 30000);
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        const size_t first = round % (SIZES - BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            blocks[i] = need(malloc(sizes[first + i]));
            blocks[i][0] = (unsigned char)(i + round);
        }
        for (size_t i = 0; i < BATCH; i++) {
            sum += blocks[i][0];
            free(blocks[i]);
        }
    }
    self->checksum = mix(self->checksum, sum);
    self->operations = rounds * BATCH;
}

/* Everything is freed and allocated again: what was given back to the system in between is paid for. */
static void cycle_drop(struct worker *self)
{
    void **blocks = self->held;
    for (size_t i = 0; i < CYCLE; i++)
        free(blocks[i]);
    free(blocks);
}

static void cycle_work(struct worker *self)
{
    const size_t rounds = scaled(self, 40);
    unsigned char **blocks = need(malloc(CYCLE * sizeof *blocks));
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CYCLE; i++) {
            const size_t size = random_between(&self->random, LEAST, MOST);
            blocks[i] = need(malloc(size));
            memset(blocks[i], (int)(i + round), size);
        }
        for (size_t i = 0; i < CYCLE; i++)
            sum = mix(sum, blocks[i][LEAST - 1]);
        if (round + 1 < rounds)
            for (size_t i = 0; i < CYCLE; i++)
                free(blocks[i]);
    }
    self->held = blocks;
    self->checksum = mix(self->checksum, sum);
    self->operations = CYCLE * rounds;
}

const struct scenario B(loop_scenarios)[] = {
    {.name = "pairs", .about = "a block of 16 to 512 bytes allocated and freed at once", .work = pairs_work},
    {.name = "batches", .about = "the same, 1000 blocks at a time", .work = batches_work},
    {.name = "cycle", .about = "100,000 blocks allocated, all freed, and again", .work = cycle_work,
     .drop = cycle_drop},
    {.name = NULL},
};
