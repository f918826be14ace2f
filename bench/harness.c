/* SPDX-License-Identifier: MIT */
/* harness.c - shardmm-bench: runs one scenario in N threads and tells time, memory, page faults and a checksum.
 *
 * The time runs from the moment when all threads are ready to the one when the last has done its work; all of them
 * still hold their data then, and the memory of the process is taken. After it they drop the data and end. The harness
 * itself allocates nothing while a scenario runs. */

#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "count.h"

enum { MAX_SAMPLES = 4096, SAMPLE_MILLISECONDS = 20 };

static const struct scenario *const families[][2] = {
#define FAMILY(name) {name, name##_counted}
    FAMILY(loop_scenarios),   FAMILY(text_scenarios),   FAMILY(array_scenarios),  FAMILY(object_scenarios),
    FAMILY(packet_scenarios), FAMILY(document_scenarios), FAMILY(map_scenarios), FAMILY(medium_scenarios),
    FAMILY(server_scenarios), FAMILY(thread_scenarios),
};
enum { FAMILIES = sizeof families / sizeof families[0] };

struct usage {
    double wall, user, system;
    long faults;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned phase;   /* 0 starting, 1 work, 2 drop, 3 end */
    unsigned arrived; /* threads that wait for the next phase */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct scenario *current;
static struct worker workers[MAX_THREADS];
static int cores[CPU_SETSIZE];
static unsigned core_count;
static struct {
    double seconds;
    long kib;
} samples[MAX_SAMPLES];
static unsigned sample_count;

_Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("shardmm-bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct usage usage_now(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        fail("getrusage: %s", strerror(errno));
    return (struct usage){
        .wall = now(),
        .user = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
        .system = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6,
        .faults = usage.ru_minflt,
    };
}

/* `field` of /proc/self/status, in KiB. By system calls alone: the memory that it measures is not to change. */
static long status_kib(const char *field)
{
    char text[4096];
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail("/proc/self/status: %s", strerror(errno));
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        fail("/proc/self/status cannot be read");
    text[length] = 0;
    const char *at = strstr(text, field);
    if (at == NULL)
        fail("/proc/self/status has no %s", field);
    return strtol(at + strlen(field), NULL, 10);
}

static void take_sample(double start)
{
    if (sample_count < MAX_SAMPLES) {
        samples[sample_count].seconds = now() - start;
        samples[sample_count].kib = status_kib("VmRSS:");
        sample_count++;
    }
}

/* ---- Threads ---- */

static void pin(unsigned index)
{
    if (core_count == 0)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cores[index % core_count], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("processor %d: %s", cores[index % core_count], strerror(errno));
}

static void arrive_and_wait(unsigned phase)
{
    pthread_mutex_lock(&gate.lock);
    gate.arrived++;
    pthread_cond_broadcast(&gate.changed);
    while (gate.phase < phase)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void await_all(unsigned threads, double start)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.arrived < threads) {
        if (!current->sampled) {
            pthread_cond_wait(&gate.changed, &gate.lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SAMPLE_MILLISECONDS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (pthread_cond_timedwait(&gate.changed, &gate.lock, &until) == ETIMEDOUT && start > 0)
            take_sample(start);
    }
    gate.arrived = 0;
    pthread_mutex_unlock(&gate.lock);
}

static void open_gate(unsigned phase)
{
    pthread_mutex_lock(&gate.lock);
    gate.phase = phase;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void *worker_body(void *argument)
{
    struct worker *self = argument;
    pin(self->index);
    arrive_and_wait(1);
    current->work(self);
    arrive_and_wait(2);
    if (current->drop != NULL)
        current->drop(self);
    arrive_and_wait(3);
    return NULL;
}

pthread_t start_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0)
        fail("pthread_create: %s", strerror(error));
    return thread;
}

void join_thread(pthread_t thread)
{
    const int error = pthread_join(thread, NULL);
    if (error != 0)
        fail("pthread_join: %s", strerror(error));
}

void find_function(void *pointer, const char *name)
{
    /* ISO C has no conversion from what dlsym() answers to a function. */
    void *const found = dlsym(RTLD_DEFAULT, name);
    memcpy(pointer, &found, sizeof found);
}

/* ---- Purge: by the name that each allocator has for it ---- */

static void purge(void)
{
    int (*control)(const char *, void *, size_t *, void *, size_t);
    void (*collect)(bool), (*release)(void);
    find_function(&control, "mallctl");
    find_function(&collect, "mi_collect");
    find_function(&release, "MallocExtension_ReleaseFreeMemory");
    if (control != NULL)
        control("arena.4096.purge", NULL, NULL, NULL, 0);
    else if (collect != NULL)
        collect(true);
    else if (release != NULL)
        release();
    else
        malloc_trim(0);
}

/* ---- Command line ---- */

static void usage(FILE *to)
{
    fputs("usage: shardmm-bench --only SCENARIO [--threads N] [--scale F] [--cores LIST] [--json | --histogram]\n"
          "       shardmm-bench --list\n"
          "\n"
          "Runs a scenario with whatever malloc is linked or preloaded, and tells time, memory and a checksum.\n"
          "\n"
          "  --only SCENARIO  one of --list\n"
          "  --threads N      threads that do the work, each the same amount (default 1, or the least that it needs)\n"
          "  --scale F        multiplies the work (default 1: about a second)\n"
          "  --cores LIST     processors for the threads, in turn: 0,2,4-7\n"
          "  --json           one object on one line\n"
          "  --histogram      calls and sizes instead of figures (the counting takes time and memory of its own)\n"
          "  --list           the scenarios\n",
          to);
}

static void list_scenarios(void)
{
    for (unsigned family = 0; family < FAMILIES; family++)
        for (const struct scenario *each = families[family][0]; each->name != NULL; each++)
            printf("%-16s %s\n", each->name, each->about);
}

static const struct scenario *find_scenario(const char *name, bool counted)
{
    for (unsigned family = 0; family < FAMILIES; family++)
        for (const struct scenario *each = families[family][counted]; each->name != NULL; each++)
            if (strcmp(each->name, name) == 0)
                return each;
    fail("no scenario %s (--list names them)", name);
}

static unsigned long parse_number(const char *text, char **end, unsigned long most, const char *what)
{
    errno = 0;
    const unsigned long number = strtoul(text, end, 10);
    if (*end == text || text[0] == '-' || errno != 0 || number > most)
        fail("%s: not a number up to %lu: %s", what, most, text);
    return number;
}

static void parse_cores(const char *list)
{
    for (const char *at = list;; at++) {
        char *end;
        const unsigned long first = parse_number(at, &end, CPU_SETSIZE - 1, "--cores");
        unsigned long last = first;
        if (*end == '-')
            last = parse_number(end + 1, &end, CPU_SETSIZE - 1, "--cores");
        for (unsigned long core = first; core <= last; core++) {
            if (core_count == CPU_SETSIZE)
                fail("--cores: too many");
            cores[core_count++] = (int)core;
        }
        if (*end == 0)
            return;
        if (*end != ',')
            fail("--cores: not a list of processors: %s", list);
        at = end;
    }
}

static const char *option_value(int count, char **arguments, int *at)
{
    if (*at + 1 >= count)
        fail("%s needs a value", arguments[*at]);
    return arguments[++*at];
}

int main(int count, char **arguments)
{
    const char *only = NULL;
    unsigned threads = 0;
    double scale = 1;
    bool json = false, histogram = false;

    for (int at = 1; at < count; at++) {
        const char *option = arguments[at];
        char *end;
        if (strcmp(option, "--only") == 0) {
            only = option_value(count, arguments, &at);
        } else if (strcmp(option, "--threads") == 0) {
            threads = (unsigned)parse_number(option_value(count, arguments, &at), &end, MAX_THREADS, option);
            if (*end != 0 || threads == 0)
                fail("--threads: from 1 to %d", MAX_THREADS);
        } else if (strcmp(option, "--scale") == 0) {
            scale = strtod(option_value(count, arguments, &at), &end);
            if (*end != 0 || !(scale > 0 && scale <= 1000))
                fail("--scale: a number above 0, up to 1000");
        } else if (strcmp(option, "--cores") == 0) {
            parse_cores(option_value(count, arguments, &at));
        } else if (strcmp(option, "--json") == 0) {
            json = true;
        } else if (strcmp(option, "--histogram") == 0) {
            histogram = true;
        } else if (strcmp(option, "--list") == 0) {
            list_scenarios();
            return 0;
        } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
            usage(stdout);
            return 0;
        } else {
            usage(stderr);
            return 2;
        }
    }
    if (only == NULL) {
        usage(stderr);
        return 2;
    }
    current = find_scenario(only, histogram);
    const unsigned step = current->threads_step != 0 ? current->threads_step : 1;
    if (threads == 0)
        threads = step;
    if (threads % step != 0)
        fail("%s runs in multiples of %u threads", only, step);

    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&gate.changed, &monotonic);

    static pthread_t handles[MAX_THREADS];
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){.index = i, .threads = threads, .scale = scale, .mates = workers,
                                     .random = mix(0x5DEECE66Du, i + 1), .checksum = i};
        handles[i] = start_thread(worker_body, &workers[i]);
    }
    await_all(threads, 0);
    const struct usage before = usage_now();
    open_gate(1);
    await_all(threads, before.wall);
    const struct usage after = usage_now();
    const long held_kib = status_kib("VmRSS:");
    open_gate(2);
    await_all(threads, before.wall);
    if (current->idle_milliseconds != 0) {
        if (current->purge)
            purge();
        const double end = now() + current->idle_milliseconds / 1000.0;
        while (now() < end) {
            take_sample(before.wall);
            nanosleep(&(struct timespec){.tv_nsec = SAMPLE_MILLISECONDS * 1000000L}, NULL);
        }
    }
    const long left_kib = status_kib("VmRSS:");
    open_gate(3);
    for (unsigned i = 0; i < threads; i++)
        join_thread(handles[i]);
    /* The kernel brings the mark up to date a little late. */
    const long marked_kib = status_kib("VmHWM:"), peak_kib = marked_kib > held_kib ? marked_kib : held_kib;

    uint64_t checksum = 0, operations = 0;
    for (unsigned i = 0; i < threads; i++) {
        checksum = mix(checksum, workers[i].checksum);
        operations += workers[i].operations;
    }
    const double seconds = after.wall - before.wall;
    if (histogram) {
        count_print(json);
    } else if (json) {
        printf("{\"scenario\": \"%s\", \"threads\": %u, \"scale\": %g, \"checksum\": \"%016" PRIx64 "\", "
               "\"seconds\": %.6f, \"user\": %.6f, \"system\": %.6f, \"faults\": %ld, \"operations\": %" PRIu64 ", "
               "\"held_kib\": %ld, \"left_kib\": %ld, \"peak_kib\": %ld, \"samples\": [",
               only, threads, scale, checksum, seconds, after.user - before.user, after.system - before.system,
               after.faults - before.faults, operations, held_kib, left_kib, peak_kib);
        for (unsigned i = 0; i < sample_count; i++)
            printf("%s[%.3f, %ld]", i != 0 ? ", " : "", samples[i].seconds, samples[i].kib);
        puts("]}");
    } else {
        printf("%s, %u threads, scale %g: %.3f s (user %.3f, system %.3f), %.0f operations/s, %ld page faults,\n"
               "memory %ld KiB at the end of the work, %ld when all was freed, %ld peak; checksum %016" PRIx64 "\n",
               only, threads, scale, seconds, after.user - before.user, after.system - before.system,
               (double)operations / seconds, after.faults - before.faults, held_kib, left_kib, peak_kib, checksum);
    }
    return 0;
}
