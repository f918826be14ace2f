/* SPDX-License-Identifier: MIT */
/* packets.c - binary packets: written into a buffer that grows, read from a copy; by one thread, or by pairs. */

#include "bench.h"
#include "model.h"

enum { FIELDS_LEAST = 10, FIELDS_MOST = 300, QUEUE = 64, KEPT = 200 };

static void append(struct packet *packet, const void *bytes, size_t length)
{
    if (packet->capacity - packet->length < length) {
        /* A quarter more each time, as buffers of libraries grow. */
        size_t capacity = packet->capacity + packet->capacity / 4 + 64;
        if (capacity < packet->length + length)
            capacity = packet->length + length;
        packet->bytes = need(realloc(packet->bytes, capacity));
        packet->capacity = capacity;
    }
    memcpy(packet->bytes + packet->length, bytes, length);
    packet->length += length;
}

/* A field: one byte of type, then four or eight bytes, or a string with its length. */
void B(packet_write)(struct packet *packet, uint64_t *random)
{
    *packet = (struct packet){0};
    for (size_t fields = random_between(random, FIELDS_LEAST, FIELDS_MOST); fields > 0; fields--) {
        const unsigned char type = (unsigned char)random_below(random, 3);
        const uint64_t value = next_random(random);
        append(packet, &type, 1);
        if (type == 2) {
            const struct text *text = B(text_random)(random, 5, 60);
            append(packet, text, sizeof *text + text->length);
            free((void *)text);
        } else {
            append(packet, &value, type == 0 ? 4 : 8);
        }
    }
}

uint64_t B(packet_read)(const struct packet *packet)
{
    unsigned char *copy = need(malloc(packet->length));
    memcpy(copy, packet->bytes, packet->length);
    uint64_t sum = packet->length;
    for (size_t at = 0; at < packet->length;) {
        const unsigned char type = copy[at++];
        if (type == 2) {
            size_t length;
            memcpy(&length, copy + at, sizeof length);
            struct text *text = B(text_new)(length);
            memcpy(text->bytes, copy + at + sizeof length, length);
            at += sizeof length + length;
            sum = mix_bytes(sum, text->bytes, text->length);
            free(text);
        } else {
            uint64_t value = 0;
            memcpy(&value, copy + at, type == 0 ? 4 : 8);
            at += type == 0 ? 4 : 8;
            sum = mix(sum, value);
        }
    }
    free(copy);
    return sum;
}

/* ---- pack ---- */

static void pack_work(struct worker *self)
{
    struct packet *kept = need(calloc(KEPT, sizeof *kept));
    const size_t rounds = scaled(self, 20000);
    for (size_t round = 0; round < rounds; round++) {
        struct packet *packet = &kept[round % KEPT];
        free(packet->bytes);
        B(packet_write)(packet, &self->random);
        self->checksum = mix(self->checksum, B(packet_read)(packet));
    }
    self->held = kept;
    self->operations = rounds;
}

static void pack_drop(struct worker *self)
{
    struct packet *kept = self->held;
    for (size_t i = 0; i < KEPT; i++)
        free(kept[i].bytes);
    free(kept);
}

/* ---- pipeline ---- */

/* A message is a list of strings: many blocks, which all go home from another thread. */
struct message {
    size_t count;
    struct text *texts[32];
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct message *messages[QUEUE];
    size_t put, taken;
};

static struct queue queues[MAX_THREADS / 2];

static void queue_put(struct queue *queue, struct message *message)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->put - queue->taken == QUEUE)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->messages[queue->put++ % QUEUE] = message;
    /* The other side waits at the ends only: a word at half full saves most of the switches. */
    if (queue->put - queue->taken == QUEUE / 2 || message == NULL)
        pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static size_t queue_take(struct queue *queue, struct message *messages[static QUEUE], bool *end)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->put - queue->taken < QUEUE / 2 &&
           !(queue->put != queue->taken && queue->messages[(queue->put - 1) % QUEUE] == NULL))
        pthread_cond_wait(&queue->changed, &queue->lock);
    size_t count = 0;
    for (; queue->taken != queue->put; queue->taken++) {
        struct message *message = queue->messages[queue->taken % QUEUE];
        if (message == NULL)
            *end = true;
        else
            messages[count++] = message;
    }
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return count;
}

static void produce(struct worker *self, struct queue *queue)
{
    const size_t rounds = scaled(self, 60000);
    for (size_t round = 0; round < rounds; round++) {
        struct message *message = need(malloc(sizeof *message));
        message->count = random_between(&self->random, 8, 32);
        for (size_t i = 0; i < message->count; i++)
            message->texts[i] = B(text_random)(&self->random, 8, i == 0 ? 1000 : 100);
        queue_put(queue, message);
    }
    queue_put(queue, NULL);
}

static void consume(struct worker *self, struct queue *queue)
{
    struct message *messages[QUEUE];
    for (bool end = false; !end;) {
        const size_t count = queue_take(queue, messages, &end);
        for (size_t at = 0; at < count; at++) {
            struct message *message = messages[at];
            for (size_t i = 0; i < message->count; i++) {
                self->checksum = mix_bytes(self->checksum, message->texts[i]->bytes, message->texts[i]->length);
                free(message->texts[i]);
            }
            self->operations += message->count;
            free(message);
        }
    }
}

/* An even thread packs, the next one unpacks. */
static void pipeline_work(struct worker *self)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool ready;
    pthread_mutex_lock(&lock);
    if (!ready)
        for (size_t i = 0; i < MAX_THREADS / 2; i++) {
            pthread_mutex_init(&queues[i].lock, NULL);
            pthread_cond_init(&queues[i].changed, NULL);
        }
    ready = true;
    pthread_mutex_unlock(&lock);
    struct queue *queue = &queues[self->index / 2];
    if (self->index % 2 == 0)
        produce(self, queue);
    else
        consume(self, queue);
}

const struct scenario B(packet_scenarios)[] = {
    {.name = "pack", .about = "binary packets written and read from a copy", .work = pack_work, .drop = pack_drop},
    {.name = "pipeline", .about = "pairs of threads: one packs messages, the other unpacks and frees them",
     .work = pipeline_work, .threads_step = 2},
    {.name = NULL},
};
