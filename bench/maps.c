/* SPDX-License-Identifier: MIT */
/* maps.c - hash maps with stored values, which grow and are walked; and a mix of all kinds of data. */

#include "bench.h"
#include "model.h"

struct entry {
    struct entry *next;
    uint64_t key;
    size_t size;
    unsigned char *value;
};

struct map {
    struct entry **buckets;
    size_t bucket_count, entries;
};

static size_t bucket_of(uint64_t key, size_t buckets)
{
    return mix(0, key) & (buckets - 1);
}

struct map *B(map_new)(void)
{
    struct map *map = need(malloc(sizeof *map));
    map->bucket_count = 16;
    map->entries = 0;
    map->buckets = need(calloc(map->bucket_count, sizeof(struct entry *)));
    return map;
}

static void map_grow(struct map *map)
{
    const size_t count = 2 * map->bucket_count;
    struct entry **buckets = need(calloc(count, sizeof(struct entry *)));
    for (size_t i = 0; i < map->bucket_count; i++)
        for (struct entry *each = map->buckets[i], *next; each != NULL; each = next) {
            next = each->next;
            struct entry **home = &buckets[bucket_of(each->key, count)];
            each->next = *home;
            *home = each;
        }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = count;
}

static struct entry **map_find(const struct map *map, uint64_t key)
{
    struct entry **at = &map->buckets[bucket_of(key, map->bucket_count)];
    while (*at != NULL && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

void B(map_put)(struct map *map, uint64_t key, size_t size)
{
    struct entry **at = map_find(map, key);
    if (*at == NULL) {
        if (map->entries++ == map->bucket_count) {
            map_grow(map);
            at = map_find(map, key);
        }
        *at = need(malloc(sizeof **at));
        **at = (struct entry){.key = key};
    }
    struct entry *entry = *at;
    free(entry->value);
    entry->value = need(malloc(size));
    entry->size = size;
    memset(entry->value, (int)(key & 0xFF), size);
}

bool B(map_remove)(struct map *map, uint64_t key)
{
    struct entry **at = map_find(map, key), *entry = *at;
    if (entry == NULL)
        return false;
    *at = entry->next;
    free(entry->value);
    free(entry);
    map->entries--;
    return true;
}

/* The order of the entries does not depend on where they lie, but a sum makes that plain. */
uint64_t B(map_sum)(const struct map *map)
{
    uint64_t sum = map->entries;
    for (size_t i = 0; i < map->bucket_count; i++)
        for (const struct entry *each = map->buckets[i]; each != NULL; each = each->next)
            sum += mix(each->key, each->size + each->value[each->size - 1]);
    return sum;
}

void B(map_drop)(struct map *map)
{
    for (size_t i = 0; i < map->bucket_count; i++)
        for (struct entry *each = map->buckets[i], *next; each != NULL; each = next) {
            next = each->next;
            free(each->value);
            free(each);
        }
    free(map->buckets);
    free(map);
}

/* ---- maps ---- */

enum { MAPS = 8 };

static void maps_work(struct worker *self)
{
    struct map **maps = need(calloc(MAPS, sizeof(struct map *)));
    const size_t rounds = scaled(self, 48);
    for (size_t round = 0; round < rounds; round++) {
        struct map **map = &maps[round % MAPS];
        if (*map != NULL)
            B(map_drop)(*map);
        *map = B(map_new)();
        const size_t puts = 20000;
        for (size_t i = 0; i < puts; i++) {
            B(map_put)(*map, random_below(&self->random, 16000), random_between(&self->random, 8, 200));
            if (i % 4 == 3)
                self->checksum += B(map_remove)(*map, random_below(&self->random, 16000));
        }
        self->checksum = mix(self->checksum, B(map_sum)(*map));
        self->operations += puts;
    }
    self->held = maps;
}

static void maps_drop(struct worker *self)
{
    struct map **maps = self->held;
    for (size_t i = 0; i < MAPS; i++)
        if (maps[i] != NULL)
            B(map_drop)(maps[i]);
    free(maps);
}

/* ---- mixed ---- */

enum { SESSIONS = 64 };

/* What a server keeps of a client. */
struct session {
    struct map *state;
    struct json *document;
    struct text *answer;
    struct packet packet;
};

static void session_drop(struct session *session)
{
    if (session->state == NULL)
        return;
    B(map_drop)(session->state);
    B(json_drop)(session->document);
    free(session->answer);
    free(session->packet.bytes);
}

static void mixed_work(struct worker *self)
{
    struct session *sessions = need(calloc(SESSIONS, sizeof *sessions));
    const size_t rounds = scaled(self, 1500);
    for (size_t round = 0; round < rounds; round++) {
        struct session *session = &sessions[random_below(&self->random, SESSIONS)];
        session_drop(session);
        *session = (struct session){.state = B(map_new)(), .document = B(json_random)(&self->random, 3)};
        for (size_t i = 0; i < 200; i++)
            B(map_put)(session->state, random_below(&self->random, 1000), random_between(&self->random, 16, 300));
        B(packet_write)(&session->packet, &self->random);
        session->answer = B(json_write)(session->document);
        for (size_t i = 0; i < 20; i++) {
            struct text *text = B(text_random)(&self->random, 10, 60);
            session->answer = B(text_append)(session->answer, text->bytes, text->length);
            free(text);
        }
        uint64_t sum = mix_bytes(0, session->answer->bytes, session->answer->length);
        sum = mix(sum, B(packet_read)(&session->packet));
        sum = mix(sum, B(map_sum)(session->state));
        self->checksum = mix(self->checksum, sum);
    }
    self->held = sessions;
    self->operations = rounds;
}

static void mixed_drop(struct worker *self)
{
    struct session *sessions = self->held;
    for (size_t i = 0; i < SESSIONS; i++)
        session_drop(&sessions[i]);
    free(sessions);
}

const struct scenario B(map_scenarios)[] = {
    {.name = "maps", .about = "hash maps with stored values: put, remove, growth, iteration", .work = maps_work,
     .drop = maps_drop},
    {.name = "mixed", .about = "sessions with a map, a document, a packet and strings each", .work = mixed_work,
     .drop = mixed_drop},
    {.name = NULL},
};
