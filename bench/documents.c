/* SPDX-License-Identifier: MIT */
/* documents.c - documents as trees in memory: JSON that is built and serialised, XML that is queried. */

#include "bench.h"
#include "model.h"

#include <stdio.h>

/* ---- JSON ---- */

enum json_kind { JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT };

struct json {
    enum json_kind kind;
    unsigned count, capacity;
    union {
        uint64_t number;
        struct text *text;
        struct json **items;
    };
    struct text **names; /* of an object's items */
};

static void json_add(struct json *json, struct text *name, struct json *item)
{
    if (json->count == json->capacity) {
        json->capacity = json->capacity != 0 ? 2 * json->capacity : 4;
        json->items = need(realloc(json->items, json->capacity * sizeof(struct json *)));
        if (json->kind == JSON_OBJECT)
            json->names = need(realloc(json->names, json->capacity * sizeof(struct text *)));
    }
    if (json->kind == JSON_OBJECT)
        json->names[json->count] = name;
    json->items[json->count++] = item;
}

struct json *B(json_random)(uint64_t *random, unsigned depth)
{
    struct json *json = need(calloc(1, sizeof *json));
    if (depth == 0) {
        json->kind = random_below(random, 2) == 0 ? JSON_NUMBER : JSON_STRING;
        if (json->kind == JSON_NUMBER)
            json->number = next_random(random) >> 40;
        else
            json->text = B(text_random)(random, 3, 50);
        return json;
    }
    json->kind = random_below(random, 3) == 0 ? JSON_LIST : JSON_OBJECT;
    for (size_t count = random_between(random, 4, 12); count > 0; count--)
        json_add(json, json->kind == JSON_OBJECT ? B(text_random)(random, 4, 16) : NULL,
                 B(json_random)(random, depth - 1));
    return json;
}

/* The writer has room for deep nesting and long lines in itself, and is zeroed as a whole when it is made. */
struct writer {
    size_t used;
    struct text *output;
    char buffer[212 * 1024];
    unsigned depths[256];
};
_Static_assert(sizeof(struct writer) > 212 * 1000 && sizeof(struct writer) < 220 * 1000, "about 213 KB");

static void put(struct writer *writer, const char *bytes, size_t length)
{
    if (sizeof writer->buffer - writer->used < length) {
        writer->output = B(text_append)(writer->output, writer->buffer, writer->used);
        writer->used = 0;
    }
    memcpy(writer->buffer + writer->used, bytes, length);
    writer->used += length;
}

static void put_quoted(struct writer *writer, const struct text *text)
{
    put(writer, "\"", 1);
    put(writer, text->bytes, text->length);
    put(writer, "\"", 1);
}

static void write_value(struct writer *writer, const struct json *json, unsigned depth)
{
    char digits[24];
    writer->depths[depth]++;
    switch (json->kind) {
    case JSON_NUMBER:
        put(writer, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)json->number));
        return;
    case JSON_STRING:
        put_quoted(writer, json->text);
        return;
    case JSON_LIST:
    case JSON_OBJECT:
        break;
    }
    put(writer, json->kind == JSON_LIST ? "[" : "{", 1);
    for (unsigned i = 0; i < json->count; i++) {
        if (i != 0)
            put(writer, ",", 1);
        if (json->kind == JSON_OBJECT) {
            put_quoted(writer, json->names[i]);
            put(writer, ":", 1);
        }
        write_value(writer, json->items[i], depth + 1);
    }
    put(writer, json->kind == JSON_LIST ? "]" : "}", 1);
}

struct text *B(json_write)(const struct json *json)
{
    struct writer *writer = need(calloc(1, sizeof *writer));
    write_value(writer, json, 0);
    struct text *output = B(text_append)(writer->output, writer->buffer, writer->used);
    free(writer);
    return output;
}

uint64_t B(json_sum)(const struct json *json)
{
    uint64_t sum = json->kind;
    if (json->kind == JSON_NUMBER)
        return mix(sum, json->number);
    if (json->kind == JSON_STRING)
        return mix_bytes(sum, json->text->bytes, json->text->length);
    for (unsigned i = 0; i < json->count; i++)
        sum = mix(sum, B(json_sum)(json->items[i]));
    return sum;
}

void B(json_drop)(struct json *json)
{
    if (json->kind == JSON_STRING)
        free(json->text);
    if (json->kind == JSON_LIST || json->kind == JSON_OBJECT) {
        for (unsigned i = 0; i < json->count; i++) {
            if (json->kind == JSON_OBJECT)
                free(json->names[i]);
            B(json_drop)(json->items[i]);
        }
        free(json->items);
        free(json->names);
    }
    free(json);
}

enum { DOCUMENTS = 10, JSON_DEPTH = 4 };

static void json_work(struct worker *self)
{
    struct json **documents = need(calloc(DOCUMENTS, sizeof(struct json *)));
    const size_t rounds = scaled(self, 100);
    for (size_t round = 0; round < rounds; round++) {
        struct json **document = &documents[round % DOCUMENTS];
        if (*document != NULL)
            B(json_drop)(*document);
        *document = B(json_random)(&self->random, JSON_DEPTH);
        struct text *output = B(json_write)(*document);
        self->checksum = mix_bytes(self->checksum, output->bytes, output->length);
        self->operations += output->length;
        free(output);
        /* Answers to single questions are written as well, each by a writer of its own. */
        for (unsigned i = 0; i < (*document)->count; i++) {
            output = B(json_write)((*document)->items[i]);
            self->checksum = mix(self->checksum, output->length);
            free(output);
        }
    }
    for (size_t i = 0; i < DOCUMENTS; i++)
        if (documents[i] != NULL)
            self->checksum = mix(self->checksum, B(json_sum)(documents[i]));
    self->held = documents;
}

static void json_drop_all(struct worker *self)
{
    struct json **documents = self->held;
    for (size_t i = 0; i < DOCUMENTS; i++)
        if (documents[i] != NULL)
            B(json_drop)(documents[i]);
    free(documents);
}

/* ---- XML: nodes of 120 bytes and attributes of 104, as libxml2 has them ---- */

struct attribute {
    struct attribute *next;
    unsigned name;
    struct text *value;
    unsigned char rest[80];
};

struct node {
    struct node *parent, *first, *last, *next;
    struct attribute *attributes;
    struct text *content;
    unsigned name, order;
    unsigned char rest[64];
};
_Static_assert(sizeof(struct attribute) == 104 && sizeof(struct node) == 120, "the sizes of libxml2");

struct node_set {
    size_t count, capacity;
    const struct node **nodes;
};

static struct node *node_new(struct worker *self, struct node *parent, unsigned order)
{
    struct node *node = need(malloc(sizeof *node));
    memset(node, 0, sizeof *node);
    node->parent = parent;
    node->order = order;
    node->name = (unsigned)random_below(&self->random, 12);
    if (parent != NULL) {
        if (parent->last != NULL)
            parent->last->next = node;
        else
            parent->first = node;
        parent->last = node;
    }
    for (size_t count = random_below(&self->random, 3); count > 0; count--) {
        struct attribute *attribute = need(malloc(sizeof *attribute));
        memset(attribute, 0, sizeof *attribute);
        attribute->next = node->attributes;
        attribute->name = (unsigned)random_below(&self->random, 6);
        attribute->value = B(text_random)(&self->random, 1, 24);
        node->attributes = attribute;
    }
    return node;
}

static struct node *xml_build(struct worker *self, size_t nodes)
{
    struct node *root = node_new(self, NULL, 0), *at = root;
    unsigned depth = 0;
    for (unsigned order = 1; order < nodes; order++) {
        struct node *node = node_new(self, at, order);
        if (depth < 8 && random_below(&self->random, 10) < 4) {
            at = node;
            depth++;
        } else {
            node->content = B(text_random)(&self->random, 5, 80);
            while (depth > 0 && random_below(&self->random, 10) < 3) {
                at = at->parent;
                depth--;
            }
        }
    }
    return root;
}

static const struct node *following(const struct node *node, const struct node *root)
{
    if (node->first != NULL)
        return node->first;
    while (node != root && node->next == NULL)
        node = node->parent;
    return node == root ? NULL : node->next;
}

static void set_add(struct node_set *set, const struct node *node)
{
    if (set->count == set->capacity) {
        set->capacity = set->capacity != 0 ? 2 * set->capacity : 10;
        set->nodes = need(realloc(set->nodes, set->capacity * sizeof(struct node *)));
    }
    set->nodes[set->count++] = node;
}

/* //a[@b]/c: every step has a node set of its own, and a result object that holds it. */
static uint64_t xml_query(const struct node *root, unsigned a, unsigned b, unsigned c)
{
    struct node_set *outer = need(calloc(1, sizeof *outer)), *inner = need(calloc(1, sizeof *inner));
    for (const struct node *node = root; node != NULL; node = following(node, root)) {
        if (node->name != a)
            continue;
        for (const struct attribute *each = node->attributes; each != NULL; each = each->next)
            if (each->name == b) {
                set_add(outer, node);
                break;
            }
    }
    for (size_t i = 0; i < outer->count; i++)
        for (const struct node *child = outer->nodes[i]->first; child != NULL; child = child->next)
            if (child->name == c)
                set_add(inner, child);
    uint64_t sum = outer->count;
    for (size_t i = 0; i < inner->count; i++) {
        const struct node *node = inner->nodes[i];
        if (node->content == NULL) {
            sum = mix(sum, node->order);
            continue;
        }
        /* string(): the caller gets a copy. */
        struct text *text = B(text_copy)(node->content);
        sum = mix_bytes(sum, text->bytes, text->length);
        free(text);
    }
    free(outer->nodes);
    free(inner->nodes);
    free(outer);
    free(inner);
    return sum;
}

static void xml_free(struct node *node)
{
    for (struct node *child = node->first, *next; child != NULL; child = next) {
        next = child->next;
        xml_free(child);
    }
    for (struct attribute *each = node->attributes, *next; each != NULL; each = next) {
        next = each->next;
        free(each->value);
        free(each);
    }
    free(node->content);
    free(node);
}

static void xml_work(struct worker *self)
{
    enum { QUERIES = 60, NODES = 60000, PARSES = 4 };
    struct node *root = NULL;
    const size_t nodes = scaled(self, NODES);
    for (size_t parse = 0; parse < PARSES; parse++) {
        if (root != NULL)
            xml_free(root);
        root = xml_build(self, nodes);
        for (unsigned query = 0; query < QUERIES; query++)
            self->checksum = mix(self->checksum, xml_query(root, query % 12, query % 6, (query * 5) % 12));
    }
    self->held = root;
    self->operations = nodes * PARSES;
}

static void xml_drop(struct worker *self)
{
    xml_free(self->held);
}

const struct scenario B(document_scenarios)[] = {
    {.name = "json", .about = "a document built and serialised by a writer of 213 KB", .work = json_work,
     .drop = json_drop_all},
    {.name = "xml", .about = "a tree of 120-byte nodes and 104-byte attributes, queried", .work = xml_work,
     .drop = xml_drop},
    {.name = NULL},
};
