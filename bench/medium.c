/* SPDX-License-Identifier: MIT */
/* medium.c - 2000 live blocks, 2,000,000 times one of them at random replaced by one of a random size. */

#include "bench.h"

enum { LIVE = 2000, REPLACEMENTS = 2000000, EDGE = 64 };

struct block {
    size_t size;
    unsigned char *bytes;
};

static void replace(struct worker *self, struct block *block, size_t least, size_t most)
{
    free(block->bytes);
    block->size = random_between(&self->random, least, most);
    block->bytes = need(malloc(block->size));
    /* Both ends, as a header and the end of data would be: over the run that is every page. */
    const int mark = (int)(block->size & 0xFF);
    memset(block->bytes, mark, EDGE);
    memset(block->bytes + block->size - EDGE, mark, EDGE);
}

static void medium(struct worker *self, size_t least, size_t most)
{
    struct block *blocks = need(calloc(LIVE, sizeof *blocks));
    for (size_t i = 0; i < LIVE; i++)
        replace(self, &blocks[i], least, most);
    const size_t replacements = scaled(self, REPLACEMENTS);
    uint64_t sum = 0;
    for (size_t i = 0; i < replacements; i++) {
        struct block *block = &blocks[random_below(&self->random, LIVE)];
        sum += (uint64_t)block->bytes[0] + block->bytes[block->size - 1] * i;
        replace(self, block, least, most);
    }
    for (size_t i = 0; i < LIVE; i++)
        sum = mix_bytes(sum, blocks[i].bytes, EDGE);
    self->held = blocks;
    self->checksum = mix(self->checksum, sum);
    self->operations = replacements;
}

static void medium_8_16k_work(struct worker *self)
{
    medium(self, 8 << 10, 16 << 10);
}

static void medium_16_256k_work(struct worker *self)
{
    medium(self, 16 << 10, 256 << 10);
}

static void medium_64k_1m_work(struct worker *self)
{
    medium(self, 64 << 10, 1 << 20);
}

static void medium_drop(struct worker *self)
{
    struct block *blocks = self->held;
    for (size_t i = 0; i < LIVE; i++)
        free(blocks[i].bytes);
    free(blocks);
}

const struct scenario B(medium_scenarios)[] = {
    {.name = "medium-8-16k", .about = "2000 blocks of 8 to 16 KiB, replaced at random", .work = medium_8_16k_work,
     .drop = medium_drop},
    {.name = "medium-16-256k", .about = "the same of 16 to 256 KiB", .work = medium_16_256k_work, .drop = medium_drop},
    {.name = "medium-64k-1m", .about = "the same of 64 KiB to 1 MiB", .work = medium_64k_1m_work, .drop = medium_drop},
    {.name = NULL},
};
