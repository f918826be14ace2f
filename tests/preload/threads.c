/* SPDX-License-Identifier: MIT */
/* threads.c - blocks that go between threads through the replaced malloc, with the C library's own memory
 * (stdio, getline, thread stacks) mixed in. For preloaded, static and static PIE programs alike. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "which_malloc.h"

enum { THREADS = 8, ROUNDS = 60, BLOCKS = 400 };

/* A table of blocks that each thread leaves to the next. */
static struct {
    unsigned char *block[BLOCKS];
    size_t size[BLOCKS];
} table[THREADS];
static pthread_barrier_t barrier;
static int errors[THREADS];

static size_t size_of(unsigned thread, unsigned round, unsigned i)
{
    const unsigned mixed = (thread * 7919u + round * 104729u + i * 1299709u) & 0xFFFFu;
    return i % 40 == 0 ? (size_t)mixed * 20 : mixed % 700;
}

static void *work(void *argument)
{
    const unsigned self = (unsigned)(uintptr_t)argument;
    const unsigned next = (self + 1) % THREADS;

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            const size_t size = size_of(self, round, i);
            unsigned char *block = malloc(size / 2 + 1);
            if (block != NULL)
                block = realloc(block, size + 1);
            if (block == NULL) {
                errors[self]++;
                continue;
            }
            memset(block, (int)(self + 1), size + 1);
            table[self].block[i] = block;
            table[self].size[i] = size + 1;
        }
        char *line = NULL;
        size_t length = 0;
        FILE *const memory = open_memstream(&line, &length);
        if (memory == NULL || fprintf(memory, "round %u of %u", round, self) < 0 || fclose(memory) != 0)
            errors[self]++;
        free(line);

        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < BLOCKS; i++) {
            const unsigned char *const block = table[next].block[i];
            for (size_t at = 0; block != NULL && at < table[next].size[i]; at++) {
                if (block[at] != next + 1) {
                    errors[self]++;
                    break;
                }
            }
            free(table[next].block[i]);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t ids[THREADS];
    int sum = 0;

    require_our_malloc();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&ids[i], NULL, work, (void *)i) != 0)
            return 2;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        sum += errors[i];
    }
    if (sum != 0)
        fprintf(stderr, "%d errors\n", sum);
    return sum != 0;
}
