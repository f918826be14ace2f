/* SPDX-License-Identifier: MIT */
/* memory_limit.c - a program in a control group with a limit of memory; memory_limit.sh starts it.
 *
 *     memory_limit rounds     six times 64 MiB of blocks of all kinds, each in a thread of its own, all freed each time
 *     memory_limit endless    more and more of them */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { ROUNDS = 6, BLOCKS = 100000 };

#define LIMIT (64 * MIB)
static unsigned round_number;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Mostly up to 1 KiB, some up to 64 KiB, few up to 4 MiB. */
static size_t some_size(uint64_t *state)
{
    const uint64_t kind = next(state) % 256;
    return 1 + next(state) % (kind < 240 ? 1024 : kind < 252 ? 65536 : kind < 255 ? MIB : 4 * MIB);
}

static void *fill_and_free(void *unused)
{
    static void *blocks[BLOCKS];
    uint64_t state = round_number;
    size_t count = 0, bytes = 0;

    while (bytes < LIMIT && count < BLOCKS) {
        const size_t size = some_size(&state);
        void *const block = malloc(size);
        if (block == NULL) {
            perror("malloc");
            exit(2);
        }
        memset(block, 1, size);
        blocks[count++] = block;
        bytes += size;
    }
    while (count > 0) {
        const size_t at = next(&state) % count;
        free(blocks[at]);
        blocks[at] = blocks[--count];
    }
    return unused;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "endless") == 0) {
        uint64_t state = 1;
        for (;;) {
            const size_t size = some_size(&state);
            void *const block = malloc(size);
            if (block == NULL)
                return 3;
            memset(block, 1, size);
        }
    }
    /* Each round in a thread of its own: what the one before has freed must serve it, too. */
    for (round_number = 1; round_number <= ROUNDS; round_number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill_and_free, NULL) != 0)
            return 1;
        pthread_join(thread, NULL);
    }
    puts("done");
    return 0;
}
