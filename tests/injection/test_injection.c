/* SPDX-License-Identifier: MIT */
/* test_injection.c - a script of operations of all kinds, run once for every system call that can fail in it, for
 * each kind of call: that one alone fails, all from it on, every third.
 *
 * Each run is a process of its own, which starts the library. In it no request may crash or hang; one that fails says
 * ENOMEM and leaves what it was asked to resize; free keeps errno; every block keeps its contents and is its owner's
 * alone; the structures hold. When calls succeed again, all requests do; when all is freed, nothing is in use, and
 * committed memory and addresses are back at what a run without failures leaves.
 */
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../common/support.h"
#include "faults.h"

enum { BLOCKS_MAX = 1024, WHOLE_MAX = 64 * 1024, EDGE = 1024 };

struct block {
    unsigned char *at;
    size_t size;
    uint64_t seed;
};

/* A run's blocks. Threads take turns: nothing here needs to be atomic. */
static struct block blocks[BLOCKS_MAX];
static size_t block_count;
static bool may_fail;

/* What a run tells the parent. */
struct report {
    unsigned seen;    /* calls of the kinds */
    unsigned refused; /* of those */
    unsigned failed;  /* requests that got no memory */
    uint64_t committed, reserved, mapped;
    char text[160]; /* what went wrong */
};
static struct report *report;

#define MUST(condition)                                                                                   \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            snprintf(report->text, sizeof report->text, "line %d: not so: %s", __LINE__, #condition);     \
            _exit(1);                                                                                     \
        }                                                                                                 \
    } while (0)

/* ---- Blocks: small ones are filled, of others the start and the end ---- */

static void fill(const struct block *block)
{
    if (block->size <= WHOLE_MAX) {
        pattern_fill(block->at, block->size, block->seed);
        return;
    }
    pattern_fill(block->at, EDGE, block->seed);
    pattern_fill(block->at + block->size - EDGE, EDGE, ~block->seed);
}

/* Of a block that now has `size` bytes. */
static bool holds(const struct block *block, size_t size)
{
    const size_t kept = size < block->size ? size : block->size;

    if (block->size <= WHOLE_MAX)
        return pattern_holds(block->at, kept, block->seed);
    return pattern_holds(block->at, kept < EDGE ? kept : EDGE, block->seed) &&
           (size < block->size || pattern_holds(block->at + block->size - EDGE, EDGE, ~block->seed));
}

static bool is_zero(const unsigned char *at, size_t size)
{
    if (size <= 4 * WHOLE_MAX)
        return bytes_are_zero(at, size);
    return bytes_are_zero(at, WHOLE_MAX) && bytes_are_zero(at + size - WHOLE_MAX, WHOLE_MAX);
}

static bool overlaps(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < block_count; i++)
        if (blocks[i].at != NULL && at < blocks[i].at + blocks[i].size && blocks[i].at < at + size)
            return true;
    return false;
}

static void got_nothing(int error)
{
    MUST(error == ENOMEM);
    MUST(may_fail);
    report->failed++;
}

static void keep(void *at, size_t size, size_t alignment, bool zero)
{
    if (at == NULL) {
        got_nothing(errno);
        return;
    }
    MUST(is_aligned(at, alignment));
    MUST(shardmm_usable_size(at) >= size);
    MUST(!zero || is_zero(at, size));
    MUST(!overlaps(at, size));
    MUST(block_count < BLOCKS_MAX);
    struct block *const block = &blocks[block_count++];
    *block = (struct block){.at = at, .size = size, .seed = block_count};
    fill(block);
}

static void give(struct block *block)
{
    if (block->at == NULL)
        return;
    MUST(holds(block, block->size));
    errno = 77;
    shardmm_free(block->at);
    MUST(errno == 77);
    block->at = NULL;
}

static void give_range(size_t from, size_t to, size_t step)
{
    for (size_t i = from; i < to; i += step)
        give(&blocks[i]);
}

static void resize(struct block *block, size_t size)
{
    if (block->at == NULL)
        return;
    errno = 0;
    unsigned char *const at = shardmm_realloc(block->at, size);
    if (at == NULL) {
        got_nothing(errno);
        MUST(holds(block, block->size));
        return;
    }
    block->at = at;
    MUST(holds(block, size));
    block->size = size;
    fill(block);
}

/* ---- The script ---- */

static void take(size_t size)
{
    errno = 0;
    keep(shardmm_malloc(size), size, 16, false);
}

static void take_zeros(size_t size)
{
    errno = 0;
    keep(shardmm_calloc(1, size), size, 16, true);
}

static void take_aligned(size_t alignment, size_t size)
{
    void *at = report;

    errno = 0;
    keep(shardmm_aligned_alloc(alignment, size), size, alignment, false);
    errno = 77;
    const int error = shardmm_posix_memalign(&at, alignment, size);
    MUST(errno == 77);
    MUST(error == 0 || at == report);
    errno = error;
    keep(error == 0 ? at : NULL, size, alignment, false);
}

static void take_all_kinds(void)
{
    for (size_t i = 0; i < CLASS_COUNT; i += 3)
        take(class_size[i]);
    for (unsigned i = 0; i < 20; i++)
        take(8000);
    take(SMALL_MAX + 1);
    take(300000);
    take(MEDIUM_MAX);
    take(MEDIUM_MAX + 1);
    take(20 * MIB);
    take_zeros(40);
    take_zeros(5000);
    take_zeros(200000);
    take_zeros(3 * MIB);
    take_aligned(64, 100);
    take_aligned(4096, 5000);
    take_aligned(PAGE_BYTES, 100000);
    take_aligned(2 * SEGMENT_BYTES, 2 * MIB);
}

static void resize_all_ways(void)
{
    static const size_t ways[][5] = {
        {10, 100, 3000, 50, 30000},                              /* small, to medium */
        {30000, 40000, 200000, 100000, 20000},                   /* medium, in place and not */
        {500000, 900000, 3 * MIB, 5 * MIB, 100000},              /* to large and back */
        {2 * MIB, 10 * MIB, 40 * MIB, 60 * MIB, 3 * MIB},        /* beyond the reservation: pages move */
        {20 * MIB, 30 * MIB, 9 * MIB, MEDIUM_MAX + 1, 64},
    };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        const size_t index = block_count;
        take(ways[i][0]);
        for (size_t step = 1; step < COUNT_OF(ways[i]) && block_count > index; step++)
            resize(&blocks[index], ways[i][step]);
    }
    errno = 0;
    if (block_count > 0 && blocks[0].at != NULL) {
        MUST(shardmm_reallocarray(blocks[0].at, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        MUST(holds(&blocks[0], blocks[0].size));
    }
}

/* A thread that is born, frees what is not its own, borrows where those items lie, and leaves blocks behind. */
static void *work_in_thread(void *range)
{
    const size_t *const limits = range;

    give_range(limits[0], limits[1], 1);
    for (unsigned i = 0; i < 12; i++)
        take(8000);
    take(100);
    take_zeros(150000);
    take(3 * MIB);
    give_range(limits[0], limits[1], 1);
    return NULL;
}

static pthread_key_t late_key;

static void work_after_death(void *round)
{
    take(200);
    take(70000);
    take(2 * MIB);
    if ((uintptr_t)round < DESTRUCTOR_ROUNDS)
        (void)pthread_setspecific(late_key, (char *)round + 1);
}

static void *die_late(void *unused)
{
    (void)unused;
    (void)pthread_setspecific(late_key, (void *)(uintptr_t)1);
    take(10);
    return NULL;
}

static void *sleep_and_free(void *unused)
{
    (void)unused;
    shardmm_thread_flush();
    give_range(0, block_count, 5);
    return NULL;
}

static void run_thread(void *(*work)(void *), void *argument)
{
    pthread_t thread;

    /* Under a limit there may be no stack for it; then its work is left undone. */
    if (pthread_create(&thread, NULL, work, argument) != 0)
        MUST(may_fail);
    else
        MUST(pthread_join(thread, NULL) == 0);
}

static void check_all(void)
{
    for (size_t i = 0; i < block_count; i++)
        MUST(blocks[i].at == NULL || holds(&blocks[i], blocks[i].size));
    MUST(shardmm_verify() == 0);
}

static void script(void)
{
    struct shardmm_stats stats;

    take(1);
    take_all_kinds();
    resize_all_ways();
    check_all();

    const size_t many = block_count;
    for (unsigned i = 0; i < 60; i++)
        take(8000);
    size_t range[2] = {many + 1, block_count};
    run_thread(work_in_thread, range);
    run_thread(die_late, NULL);
    check_all();

    give_range(0, block_count, 2);
    errno = 77;
    (void)shardmm_purge();
    MUST(errno == 77);
    MUST(shardmm_stats_get(&stats, sizeof stats) == 0);
    check_all();

    take_all_kinds();
    run_thread(sleep_and_free, NULL);
    shardmm_thread_flush();
    give_range(0, block_count, 3);
    (void)shardmm_purge();
    check_all();
    resize_all_ways();
    check_all();
}

/* What makes calls fail, and when it has gone. */
struct trouble {
    void (*start)(const struct trouble *);
    void (*stop)(void);
    size_t amount; /* of limits */
    size_t given_up; /* addresses that may be lost for good: see smm_os_move() */
    unsigned kinds, nth; /* of faults */
    enum fault_mode mode;
};

static void run(const struct trouble *trouble)
{
    struct shardmm_stats stats;

    MUST(pthread_key_create(&late_key, work_after_death) == 0);
    may_fail = true;
    trouble->start(trouble);
    script();
    trouble->stop();

    may_fail = false;
    script();
    give_range(0, block_count, 1);
    MUST(shardmm_stats_get(&stats, sizeof stats) == 0);
    MUST(stats.small_blocks == 0 && stats.medium_blocks == 0 && stats.large_blocks == 0);
    MUST(stats.small_bytes == 0 && stats.medium_bytes == 0 && stats.large_bytes == 0);
    shardmm_thread_flush();
    (void)shardmm_purge();
    MUST(shardmm_verify() == 0);
    MUST(shardmm_stats_get(&stats, sizeof stats) == 0);
    report->committed = stats.committed;
    report->reserved = stats.reserved;
    report->mapped = mapped_bytes() - faults_taken();
}

/* ---- The matrix ---- */

static const char *const mode_names[] = {"once", "from then on", "every third"};

static struct report run_in_child(const struct trouble *trouble, const char *name, unsigned seconds)
{
    int status = 0;

    memset(report, 0, sizeof *report);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signals_by_default();
        alarm(seconds);
        run(trouble);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s, %s, call %u: status %#x, %s", name, mode_names[trouble->mode], trouble->nth, (unsigned)status,
                 report->text);
    return *report;
}

/* A stack of a thread may be in the C library's cache or not. */
static void check_nothing_leaked(const struct report *normal, const struct report *found, const struct trouble *trouble,
                                 const char *name)
{
    if (found->committed > normal->committed + PAGE_BYTES || found->reserved > normal->reserved ||
        found->mapped > normal->mapped + 3 * MIB + trouble->given_up)
        fail_msg("%s, %s, call %u: left %zu KiB committed, %zu KiB reserved, %zu KiB mapped; normally %zu, %zu, %zu", name,
                 mode_names[trouble->mode], trouble->nth, (size_t)(found->committed / KIB), (size_t)(found->reserved / KIB),
                 (size_t)(found->mapped / KIB), (size_t)(normal->committed / KIB), (size_t)(normal->reserved / KIB),
                 (size_t)(normal->mapped / KIB));
}

static void start_faults(const struct trouble *trouble)
{
    faults_start(trouble->kinds, trouble->mode, trouble->nth);
}

static void stop_faults(void)
{
    report->seen = faults_seen();
    report->refused = faults_stop();
}

static void run_matrix_of(const char *name, unsigned kinds)
{
    struct trouble trouble = {
        .start = start_faults, .stop = stop_faults, .kinds = kinds, .mode = FAULT_ONCE, .nth = UINT32_MAX};
    const struct report normal = run_in_child(&trouble, name, 30);

    for (trouble.mode = FAULT_ONCE; trouble.mode <= FAULT_EVERY_THIRD; trouble.mode++) {
        unsigned failed = 0, refused = 0;
        struct report found;
        trouble.nth = 0;
        do {
            found = run_in_child(&trouble, name, 30);
            check_nothing_leaked(&normal, &found, &trouble, name);
            failed += found.failed;
            refused += found.refused;
            trouble.nth++;
        } while (found.refused != 0 && (trouble.mode != FAULT_EVERY_THIRD || trouble.nth < 3));
        printf("%-12s %-14s %4u runs, %5u calls refused, %5u requests failed\n", name, mode_names[trouble.mode],
               trouble.nth, refused, failed);
        assert_true(refused != 0);
    }
}

/* Holds off: a crash, a lost block or a leak when the system refuses, at whatever call it does. */
static void refusals_of_one_kind_break_nothing(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
        run_matrix_of(fault_names[kind], 1u << kind);
}

static void refusals_of_all_kinds_break_nothing(void **state)
{
    (void)state;
    run_matrix_of("all", (1u << FAULT_KINDS) - 1 - (1u << FAULT_MOVE_LOST) - (1u << FAULT_MOVE));
}

static void grow_without_moves(void *unused)
{
    (void)unused;
    faults_start(1u << FAULT_MOVE_LOST, FAULT_FROM, 0);
    for (unsigned i = 0; i < 40; i++) {
        unsigned char *block = shardmm_malloc(2 * MIB);
        CHILD_CHECK(block != NULL);
        pattern_fill(block, EDGE, i);
        block = shardmm_realloc(block, 40 * MIB); /* beyond its reservation */
        CHILD_CHECK(block != NULL && pattern_holds(block, EDGE, i));
        shardmm_free(block);
        (void)shardmm_purge();
    }
    CHILD_CHECK(faults_stop() <= 8);
}

/* Holds off: addresses lost at every try to move, since nobody knows whose the destination is after a refusal. */
static void a_system_that_refuses_every_move_is_not_asked_for_ever(void **state)
{
    (void)state;
    in_child(grow_without_moves, NULL, 60);
}

/* ---- The same script where the system itself refuses ---- */

static void limit_addresses(const struct trouble *trouble)
{
    const struct rlimit limit = {.rlim_cur = mapped_bytes() + trouble->amount, .rlim_max = RLIM_INFINITY};
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void limit_no_more(void)
{
    const struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

static char *stripes;
static size_t stripes_size;

/* Each page of one mapping with another protection than its neighbours, until the kernel has no more to describe
 * mappings with; then some are given back. */
static void fill_mappings(const struct trouble *trouble)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t at = 0;

    stripes_size = (size_t)200000 * page;
    stripes = mmap(NULL, stripes_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(stripes != MAP_FAILED);
    while (at < stripes_size && mprotect(stripes + at, page, PROT_READ) == 0)
        at += 2 * page;
    MUST(at < stripes_size && errno == ENOMEM);
    MUST(trouble->amount == 0 || munmap(stripes, 2 * page * trouble->amount) == 0);
}

static void unfill_mappings(void)
{
    MUST(munmap(stripes, stripes_size) == 0);
}

static void check_outside(const char *name, const struct trouble *trouble)
{
    const struct trouble none = {.start = start_faults, .stop = stop_faults, .nth = UINT32_MAX};
    const struct report normal = run_in_child(&none, name, 30);
    const struct report found = run_in_child(trouble, name, 60);

    check_nothing_leaked(&normal, &found, trouble, name);
    printf("%-12s %8zu left %5u requests failed\n", name, trouble->amount, found.failed);
}

/* Holds off: a process that met its limit once and is of no more use. */
static void a_limit_of_addresses_that_comes_and_goes_breaks_nothing(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (size_t amount = 0; amount <= 256 * MIB; amount = amount * 2 + MIB) {
        const struct trouble trouble = {.start = limit_addresses, .stop = limit_no_more, .amount = amount};
        check_outside("addresses", &trouble);
    }
}

static void a_process_with_as_many_mappings_as_there_may_be_breaks_nothing(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (size_t amount = 0; amount <= 64; amount = amount * 2 + 1) {
        const struct trouble trouble = {.start = fill_mappings, .stop = unfill_mappings, .amount = amount, .given_up = 12 * MIB};
        check_outside("mappings", &trouble);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_of_one_kind_break_nothing),
        cmocka_unit_test(refusals_of_all_kinds_break_nothing),
        cmocka_unit_test(a_system_that_refuses_every_move_is_not_asked_for_ever),
        cmocka_unit_test(a_limit_of_addresses_that_comes_and_goes_breaks_nothing),
        cmocka_unit_test(a_process_with_as_many_mappings_as_there_may_be_breaks_nothing),
    };

    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("injection", tests, NULL, NULL);
}
