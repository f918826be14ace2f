/* SPDX-License-Identifier: MIT */
/* arrays.c - arrays that grow: by an element, by doubling, and one to 256 MiB. */

#include "bench.h"

/* ---- arrays ---- */

enum { ARRAYS = 300 };

struct array {
    size_t count, capacity;
    uint64_t *items;
};

static void arrays_work(struct worker *self)
{
    struct array *arrays = need(calloc(ARRAYS, sizeof *arrays));
    const size_t rounds = scaled(self, 120);
    uint64_t sum = self->checksum;
    for (size_t round = 0; round < rounds; round++)
        for (size_t at = 0; at < ARRAYS; at++) {
            struct array *array = &arrays[at];
            free(array->items);
            *array = (struct array){0};
            const bool doubling = at % 2 == 0;
            const size_t wanted = doubling ? random_between(&self->random, 1, at % 50 == 0 ? 60000 : 4000)
                                           : random_between(&self->random, 1, 600);
            while (array->count < wanted) {
                if (array->count == array->capacity) {
                    array->capacity = doubling ? (array->capacity != 0 ? 2 * array->capacity : 4)
                                               : array->capacity + 1;
                    array->items = need(realloc(array->items, array->capacity * sizeof *array->items));
                }
                array->items[array->count] = array->count ^ round;
                array->count++;
            }
            /* What is not needed is given back, as a list that is finished does. */
            if (doubling) {
                array->items = need(realloc(array->items, array->count * sizeof *array->items));
                array->capacity = array->count;
            }
            for (size_t i = 0; i < array->count; i += 7)
                sum += array->items[i] * (i + 1);
            self->operations += wanted;
        }
    self->held = arrays;
    self->checksum = mix(self->checksum, sum);
}

static void arrays_drop(struct worker *self)
{
    struct array *arrays = self->held;
    for (size_t at = 0; at < ARRAYS; at++)
        free(arrays[at].items);
    free(arrays);
}

/* ---- grow ---- */

static void grow_work(struct worker *self)
{
    enum { STEP = 1 << 20, STEPS = 256 };
    const size_t steps = scaled(self, STEPS);
    unsigned char *buffer = NULL;
    uint64_t sum = 0;
    for (size_t step = 0; step < steps; step++) {
        buffer = need(realloc(buffer, (step + 1) * STEP));
        memset(buffer + step * STEP, (int)(step + 1), STEP);
        /* A word of an old part: it must have come along. */
        sum = mix(sum, buffer[random_below(&self->random, (step + 1) * STEP)]);
    }
    self->held = buffer;
    self->checksum = mix(self->checksum, sum);
    self->operations = steps;
}

static void grow_drop(struct worker *self)
{
    free(self->held);
}

const struct scenario B(array_scenarios)[] = {
    {.name = "arrays", .about = "dynamic arrays grown by one element, and by doubling", .work = arrays_work,
     .drop = arrays_drop},
    {.name = "grow", .about = "a buffer grown to 256 MiB by steps of 1 MiB", .work = grow_work, .drop = grow_drop},
    {.name = NULL},
};
