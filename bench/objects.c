/* SPDX-License-Identifier: MIT */
/* objects.c - objects with reference counts that are changed atomically, whoever holds them. */

#include "bench.h"

struct object {
    _Atomic uint32_t references;
    uint32_t size;
    uint64_t value;
    struct object *left, *right;
    unsigned char payload[];
};

static struct object *object_new(uint64_t *random, size_t least, size_t most)
{
    const size_t size = random_between(random, least, most);
    /* As languages do that promise it: a new object is all zero. */
    struct object *object = need(calloc(1, size));
    object->size = (uint32_t)size;
    object->value = next_random(random);
    atomic_init(&object->references, 1);
    return object;
}

static struct object *object_share(struct object *object)
{
    atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
    return object;
}

static void object_release(struct object *object)
{
    while (object != NULL && atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1) {
        struct object *right = object->right;
        object_release(object->left);
        free(object);
        object = right; /* a list hangs on the right: no recursion along it */
    }
}

static uint64_t tree_sum(const struct object *tree)
{
    uint64_t sum = 0;
    for (; tree != NULL; tree = tree->right)
        sum += (tree->value ^ tree->size) + tree_sum(tree->left);
    return sum;
}

/* ---- objects ---- */

enum { ROOTS = 64, NODES = 500 };

static void tree_insert(struct object **root, struct object *object)
{
    while (*root != NULL)
        root = object->value < (*root)->value ? &(*root)->left : &(*root)->right;
    *root = object;
}

static void objects_work(struct worker *self)
{
    struct object **roots = need(calloc(ROOTS, sizeof(struct object *)));
    const size_t rounds = scaled(self, 2500);
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        const size_t at = round % ROOTS;
        object_release(roots[at]);
        roots[at] = NULL;
        if (round % 2 == 0) {
            for (size_t i = 0; i < NODES; i++)
                tree_insert(&roots[at], object_new(&self->random, 40, 400));
        } else {
            for (size_t i = 0; i < NODES; i++) {
                struct object *head = object_new(&self->random, 40, 400);
                head->right = roots[at];
                roots[at] = head;
            }
        }
        /* Readers come and go. */
        for (struct object *each = roots[(at + ROOTS / 2) % ROOTS]; each != NULL; each = each->right) {
            struct object *reader = object_share(each);
            sum += reader->value;
            object_release(reader);
        }
        self->operations += NODES;
    }
    for (size_t i = 0; i < ROOTS; i++)
        sum = mix(sum, tree_sum(roots[i]));
    self->held = roots;
    self->checksum = mix(self->checksum, sum);
}

static void objects_drop(struct worker *self)
{
    struct object **roots = self->held;
    for (size_t i = 0; i < ROOTS; i++)
        object_release(roots[i]);
    free(roots);
}

/* ---- interfaces ---- */

enum { INSTANCES = 500 };

/* What a closure captures: an object, and where it found it. */
struct closure {
    _Atomic uint32_t references;
    uint64_t (*call)(const struct closure *self, uint64_t argument);
    struct object *captured;
    uint64_t index;
};

static uint64_t call_add(const struct closure *self, uint64_t argument)
{
    return argument + self->captured->value + self->index;
}

static uint64_t call_xor(const struct closure *self, uint64_t argument)
{
    return argument ^ (self->captured->value >> (self->index % 32));
}

static void interfaces_round(struct worker *self, struct object **objects, struct closure **closures)
{
    for (size_t i = 0; i < INSTANCES; i++)
        objects[i] = object_new(&self->random, 40, 72);
    for (size_t i = 0; i < INSTANCES; i++) {
        closures[i] = need(malloc(sizeof *closures[i]));
        *closures[i] = (struct closure){.call = i % 3 == 0 ? call_xor : call_add, .index = i,
                                        .captured = object_share(objects[(i * 7) % INSTANCES])};
    }
    uint64_t value = self->checksum;
    for (size_t i = 0; i < INSTANCES; i++)
        value = closures[i]->call(closures[i], value);
    self->checksum = mix(self->checksum, value);
    self->operations += 2 * INSTANCES;
}

static void interfaces_release(struct object **objects, struct closure **closures)
{
    for (size_t i = 0; i < INSTANCES; i++) {
        object_release(closures[i]->captured);
        free(closures[i]);
    }
    for (size_t i = 0; i < INSTANCES; i++)
        object_release(objects[i]);
}

struct interfaces {
    struct object *objects[INSTANCES];
    struct closure *closures[INSTANCES];
};

static void interfaces_work(struct worker *self)
{
    struct interfaces *held = need(malloc(sizeof *held));
    const size_t rounds = scaled(self, 8000);
    for (size_t round = 0; round < rounds; round++) {
        if (round != 0)
            interfaces_release(held->objects, held->closures);
        interfaces_round(self, held->objects, held->closures);
    }
    self->held = held;
}

static void interfaces_drop(struct worker *self)
{
    struct interfaces *held = self->held;
    interfaces_release(held->objects, held->closures);
    free(held);
}

const struct scenario B(object_scenarios)[] = {
    {.name = "objects", .about = "trees and lists of 40- to 400-byte objects with atomic reference counts",
     .work = objects_work, .drop = objects_drop},
    {.name = "interfaces", .about = "500 small objects and as many closures a round", .work = interfaces_work,
     .drop = interfaces_drop},
    {.name = NULL},
};
