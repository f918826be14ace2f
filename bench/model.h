/* SPDX-License-Identifier: MIT */
/* model.h - the data that several scenarios share: strings, packets, maps, documents. Include after bench.h. */
#ifndef SHARDMM_BENCH_MODEL_H
#define SHARDMM_BENCH_MODEL_H

struct text {
    size_t length;
    char bytes[];
};

struct text *B(text_new)(size_t length);
struct text *B(text_random)(uint64_t *random, size_t least, size_t most);
struct text *B(text_copy)(const struct text *from);
/* A NULL text is an empty one; the result takes its place. */
struct text *B(text_append)(struct text *text, const void *bytes, size_t length);

/* A binary message: a header and the bytes after it in one block. Written by realloc, in growing steps. */
struct packet {
    size_t length, capacity;
    unsigned char *bytes;
};

void B(packet_write)(struct packet *packet, uint64_t *random);
/* Reads a copy of its own, as a reader does that outlives the buffer it was given. Returns the sum of what it read. */
uint64_t B(packet_read)(const struct packet *packet);

struct map;
struct map *B(map_new)(void);
void B(map_put)(struct map *map, uint64_t key, size_t size);
bool B(map_remove)(struct map *map, uint64_t key);
uint64_t B(map_sum)(const struct map *map);
void B(map_drop)(struct map *map);

struct json;
struct json *B(json_random)(uint64_t *random, unsigned depth);
struct text *B(json_write)(const struct json *json);
uint64_t B(json_sum)(const struct json *json);
void B(json_drop)(struct json *json);

#endif
