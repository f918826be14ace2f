/* SPDX-License-Identifier: MIT */
/* servers.c - servers whose blocks are freed by another thread than allocated them: larson, and a pool of workers. */

#include "bench.h"
#include "model.h"

#include <semaphore.h>
#include <stdio.h>

/* ---- larson: a thread replaces its blocks at random, hands them to a successor, and ends ---- */

enum { BLOCKS = 5000, LEAST = 8, MOST = 1000, GENERATION_ROUNDS = 100, GENERATIONS = 4, WAITING_GENERATIONS = 8 };

struct chunk {
    size_t size;
    unsigned char *bytes;
};

struct larson {
    struct worker *self;
    struct chunk chunks[BLOCKS];
    size_t rounds;
    unsigned generations; /* that are still to come */
    bool waits;           /* a predecessor sleeps until its successor has ended */
    sem_t done;
};

#ifdef BENCH_COUNT
static void larson_setup(void)
{
}

static void *larson_new(size_t size)
{
    return malloc(size);
}

static void larson_delete(struct chunk *chunk)
{
    free(chunk->bytes);
}
#else
/* A sized delete, as C++ programs have it; C23's name for it first, plain malloc and free where there is neither. */
static void *(*larson_new)(size_t);
static void (*delete_sized)(void *, size_t);

static void larson_setup(void)
{
    void *(*operator_new)(size_t);
    void (*operator_delete)(void *, size_t);
    find_function(&delete_sized, "free_sized");
    find_function(&operator_new, "_Znwm");
    find_function(&operator_delete, "_ZdlPvm");
    larson_new = malloc;
    if (delete_sized == NULL && operator_new != NULL && operator_delete != NULL) {
        larson_new = operator_new;
        delete_sized = operator_delete;
    }
}

static void larson_delete(struct chunk *chunk)
{
    if (delete_sized != NULL)
        delete_sized(chunk->bytes, chunk->size);
    else
        free(chunk->bytes);
}
#endif

static void larson_allocate(struct larson *larson, struct chunk *chunk)
{
    chunk->size = random_between(&larson->self->random, LEAST, MOST);
    chunk->bytes = need(larson_new(chunk->size));
    chunk->bytes[0] = (unsigned char)chunk->size;
    chunk->bytes[chunk->size - 1] = (unsigned char)(chunk->size >> 3);
}

static void *larson_generation(void *argument)
{
    struct larson *larson = argument;
    struct worker *self = larson->self;
    uint64_t sum = 0;
    for (size_t round = 0; round < larson->rounds; round++)
        for (size_t i = 0; i < BLOCKS; i++) {
            struct chunk *chunk = &larson->chunks[random_below(&self->random, BLOCKS)];
            sum += chunk->bytes[0] + (uint64_t)chunk->bytes[chunk->size - 1];
            larson_delete(chunk);
            larson_allocate(larson, chunk);
        }
    self->checksum = mix(self->checksum, sum);
    self->operations += larson->rounds * BLOCKS;
    if (--larson->generations == 0) {
        sem_post(&larson->done);
        return NULL;
    }
    const bool waits = larson->waits;
    const pthread_t successor = start_thread(larson_generation, larson);
    if (waits)
        join_thread(successor);
    else
        pthread_detach(successor);
    return NULL;
}

static void larson_run(struct worker *self, unsigned generations, size_t rounds, bool waits)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, larson_setup);
    struct larson *larson = need(malloc(sizeof *larson));
    larson->self = self;
    larson->rounds = rounds;
    larson->generations = generations;
    larson->waits = waits;
    sem_init(&larson->done, 0, 0);
    for (size_t i = 0; i < BLOCKS; i++)
        larson_allocate(larson, &larson->chunks[i]);
    const pthread_t first = start_thread(larson_generation, larson);
    while (sem_wait(&larson->done) != 0) {
    }
    if (waits)
        join_thread(first);
    else
        pthread_detach(first);
    self->held = larson;
}

static void larson_work(struct worker *self)
{
    larson_run(self, GENERATIONS, scaled(self, GENERATION_ROUNDS), false);
}

static void larson_waiting_work(struct worker *self)
{
    larson_run(self, WAITING_GENERATIONS, scaled(self, GENERATION_ROUNDS / 10), true);
}

static void larson_drop(struct worker *self)
{
    struct larson *larson = self->held;
    for (size_t i = 0; i < BLOCKS; i++)
        larson_delete(&larson->chunks[i]);
    sem_destroy(&larson->done);
    free(larson);
}

/* ---- pool: clients put requests into a queue, a few workers answer ---- */

enum { WORKERS = 4, QUEUE = 1024, BATCH = 16, KEPT = 256, REQUESTS = 40000, POOL_GENERATIONS = 8 };

struct client;

struct request {
    struct client *client;
    struct text *question; /* the client makes it, the worker frees it */
    struct text *answer;   /* the other way round */
};

struct client {
    struct worker *self;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    size_t open;
    size_t batches, generations;
    struct request batch[BATCH];
    struct text *kept[KEPT]; /* the latest answers */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct request *requests[QUEUE];
    size_t put, taken;
    unsigned clients; /* that are at work */
    bool stop;
    struct text *records[1000];
    pthread_t workers[WORKERS];
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER,
            .not_full = PTHREAD_COND_INITIALIZER};

static void server_answer(struct request *request)
{
    const struct text *question = request->question;
    const uint64_t hash = mix_bytes(1, question->bytes, question->length);
    struct text *answer = B(text_append)(NULL, "{\"rows\":[", 9);
    for (uint64_t row = 0; row < 1 + hash % 12; row++) {
        char line[96];
        const struct text *record = server.records[(hash >> 8) % 1000 * (row + 1) % 1000];
        /* A row is made as an object of its own before it is written. */
        struct text *copy = B(text_copy)(record);
        const int length = snprintf(line, sizeof line, "{\"id\":%u,\"name\":\"%.40s\"},", (unsigned)row, copy->bytes);
        answer = B(text_append)(answer, line, (size_t)length);
        free(copy);
    }
    request->answer = B(text_append)(answer, "]}", 2);
    free(request->question);
}

static void *server_worker(void *argument)
{
    (void)argument;
    for (;;) {
        pthread_mutex_lock(&server.lock);
        while (server.put == server.taken && !server.stop)
            pthread_cond_wait(&server.not_empty, &server.lock);
        struct request *batch[BATCH];
        size_t count = 0;
        while (count < BATCH && server.taken != server.put)
            batch[count++] = server.requests[server.taken++ % QUEUE];
        const bool stop = count == 0;
        pthread_cond_broadcast(&server.not_full);
        pthread_mutex_unlock(&server.lock);
        if (stop)
            return NULL;
        for (size_t i = 0; i < count; i++)
            server_answer(batch[i]);
        for (size_t i = 0; i < count; i++) {
            struct client *client = batch[i]->client;
            pthread_mutex_lock(&client->lock);
            if (--client->open == 0)
                pthread_cond_signal(&client->answered);
            pthread_mutex_unlock(&client->lock);
        }
    }
}

static void server_enter(void)
{
    pthread_mutex_lock(&server.lock);
    if (server.clients++ == 0) {
        uint64_t random = 77;
        for (size_t i = 0; i < 1000; i++)
            if (server.records[i] == NULL)
                server.records[i] = B(text_random)(&random, 20, 40);
        server.stop = false;
        for (size_t i = 0; i < WORKERS; i++)
            server.workers[i] = start_thread(server_worker, NULL);
    }
    pthread_mutex_unlock(&server.lock);
}

static void server_leave(void)
{
    pthread_mutex_lock(&server.lock);
    const bool last = --server.clients == 0;
    server.stop = last;
    pthread_cond_broadcast(&server.not_empty);
    if (last) {
        /* No client is left, so nobody enters before this returns: all have their work behind them or wait here. */
        pthread_mutex_unlock(&server.lock);
        for (size_t i = 0; i < WORKERS; i++)
            join_thread(server.workers[i]);
        for (size_t i = 0; i < 1000; i++) {
            free(server.records[i]);
            server.records[i] = NULL;
        }
        return;
    }
    pthread_mutex_unlock(&server.lock);
}

static void client_batch(struct client *client)
{
    struct worker *self = client->self;
    client->open = BATCH;
    for (size_t i = 0; i < BATCH; i++)
        client->batch[i] =
            (struct request){.client = client, .question = B(text_random)(&self->random, 20, 200)};
    pthread_mutex_lock(&server.lock);
    while (server.put - server.taken > QUEUE - BATCH)
        pthread_cond_wait(&server.not_full, &server.lock);
    for (size_t i = 0; i < BATCH; i++)
        server.requests[server.put++ % QUEUE] = &client->batch[i];
    pthread_cond_signal(&server.not_empty);
    pthread_mutex_unlock(&server.lock);

    pthread_mutex_lock(&client->lock);
    while (client->open != 0)
        pthread_cond_wait(&client->answered, &client->lock);
    pthread_mutex_unlock(&client->lock);
    for (size_t i = 0; i < BATCH; i++) {
        struct text *answer = client->batch[i].answer;
        self->checksum = mix_bytes(self->checksum, answer->bytes, answer->length);
        struct text **kept = &client->kept[self->operations++ % KEPT];
        free(*kept);
        *kept = answer;
    }
}

static void *client_generation(void *argument)
{
    struct client *client = argument;
    for (size_t i = 0; i < client->batches; i++)
        client_batch(client);
    if (--client->generations != 0)
        join_thread(start_thread(client_generation, client));
    return NULL;
}

static void pool_run(struct worker *self, size_t generations)
{
    struct client *client = need(calloc(1, sizeof *client));
    client->self = self;
    client->generations = generations;
    client->batches = scaled(self, REQUESTS / BATCH / generations);
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->answered, NULL);
    client_generation(client);
    self->held = client;
}

/* The server runs as long as there are clients: they all enter before the first asks, so that it starts once. */
static void pool_start(struct worker *self)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static unsigned inside;
    server_enter();
    pthread_mutex_lock(&lock);
    inside++;
    pthread_cond_broadcast(&changed);
    while (inside < self->threads)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void pool_work(struct worker *self)
{
    pool_start(self);
    pool_run(self, 1);
}

static void pool_waiting_work(struct worker *self)
{
    pool_start(self);
    pool_run(self, POOL_GENERATIONS);
}

static void pool_drop(struct worker *self)
{
    struct client *client = self->held;
    for (size_t i = 0; i < KEPT; i++)
        free(client->kept[i]);
    free(client);
    server_leave();
}

const struct scenario B(server_scenarios)[] = {
    {.name = "larson", .about = "random replacement, handed from a thread that ends to its successor; sized deletes",
     .work = larson_work, .drop = larson_drop},
    {.name = "larson-waiting", .about = "the same with predecessors that sleep until their successors have ended",
     .work = larson_waiting_work, .drop = larson_drop},
    {.name = "pool", .about = "clients (the threads) send requests, four workers answer", .work = pool_work,
     .drop = pool_drop, .sampled = true},
    {.name = "pool-waiting", .about = "the same with clients that hand on to a successor and sleep until it ends",
     .work = pool_waiting_work, .drop = pool_drop, .sampled = true},
    {.name = NULL},
};
