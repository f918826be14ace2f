/* SPDX-License-Identifier: MIT */
/* test_system_calls.c - programs lock themselves in after their start: a filter then refuses system calls, does
 * not know them, or ends the process for them. Every call that the library makes is refused here, one at a time,
 * in a process that has run for a while and in one that starts like that.
 *
 * What is a hint to the system, or has another way, the program may not notice. Without new memory requests get
 * null and ENOMEM, and what is there goes on working.
 */
#include <errno.h>
#include <sys/mman.h>

#include "../common/support.h"
#include "../common/system_calls.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
enum { FUTEX_WAIT_PRIVATE_OP = 128, FUTEX_WAKE_PRIVATE_OP = 129 };

enum { ANY = -1 };

/* `index` is the argument that is looked at, ANY for all calls of the number. */
struct refusal {
    const char *name;
    long number;
    int index;
    unsigned value;
};

static const struct refusal without_harm[] = {
    {"madvise", SYS_madvise, ANY, 0},
    {"madvise(MADV_DONTNEED)", SYS_madvise, 2, MADV_DONTNEED},
    {"madvise(MADV_DONTNEED_LOCKED)", SYS_madvise, 2, MADV_DONTNEED_LOCKED},
    {"madvise(MADV_POPULATE_WRITE)", SYS_madvise, 2, MADV_POPULATE_WRITE},
    {"madvise(MADV_HUGEPAGE)", SYS_madvise, 2, MADV_HUGEPAGE},
    {"madvise(MADV_NOHUGEPAGE)", SYS_madvise, 2, MADV_NOHUGEPAGE},
    {"mremap", SYS_mremap, ANY, 0},
    {"munmap", SYS_munmap, ANY, 0},
    {"mprotect(PROT_NONE)", SYS_mprotect, 2, PROT_NONE},
    {"openat", SYS_openat, ANY, 0},
    {"sched_yield", SYS_sched_yield, ANY, 0},
    {"clock_gettime", SYS_clock_gettime, ANY, 0},
    {"getrandom", SYS_getrandom, ANY, 0},
    {"prctl", SYS_prctl, ANY, 0},
    {"getpid", SYS_getpid, ANY, 0},
    {"getrusage", SYS_getrusage, ANY, 0},
    {"fcntl", SYS_fcntl, ANY, 0},
    {"futex(FUTEX_WAIT)", SYS_futex, 1, FUTEX_WAIT_PRIVATE_OP},
};

/* Refused, not known, not for these arguments, and no memory for it. EAGAIN is not among them: a kernel that says
 * so means a call that is worth a second try. */
static const int errors[] = {EPERM, ENOSYS, EINVAL, ENOMEM, EACCES};

static const size_t sizes[] = {
    0, 1, 24, 500, 2048, 6000, SMALL_MAX, SMALL_MAX + 1, 70000, 300000, 1000000, 2 * MIB, 9 * MIB,
};

/* Of a long block the beginning and the end are looked at: there are many rows. */
enum { LOOKED_AT = 3000 };

static void fill(void *block, size_t size, uint64_t seed)
{
    const size_t part = size < LOOKED_AT ? size : LOOKED_AT;
    memset((char *)block + (size - part), (int)seed + 1, part);
    pattern_fill(block, part < size / 2 ? part : size / 2, seed);
}

/* The first `kept` bytes are those of a block of `size`. */
static bool holds(const void *block, size_t kept, size_t size, uint64_t seed)
{
    const size_t part = size < LOOKED_AT ? size : LOOKED_AT;
    const size_t head = part < size / 2 ? part : size / 2;
    const unsigned char *const bytes = block;

    if (!pattern_holds(block, head < kept ? head : kept, seed))
        return false;
    for (size_t at = size - part < head ? head : size - part; at < kept; at++) {
        if (bytes[at] != (unsigned char)(seed + 1))
            return false;
    }
    return true;
}

static void *exchange[2][COUNT_OF(sizes)];

static void set(const struct refusal *refusal, int error)
{
    fprintf(stderr, "%s: errno %d\n", refusal->name, error);
    if (refusal->index == ANY)
        system_call_answers(refusal->number, error);
    else
        system_call_with_answers(refusal->number, (unsigned)refusal->index, refusal->value, error);
}

/* Blocks of all kinds by all kinds of calls, resized in both directions; half of them change hands. */
static void use_everything(unsigned self)
{
    static const size_t steps[] = {3, 2, 7, 1};
    void *blocks[COUNT_OF(sizes)];

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        blocks[i] = i % 3 == 0   ? shardmm_calloc(1, sizes[i])
                    : i % 3 == 1 ? shardmm_malloc(sizes[i])
                                 : shardmm_aligned_alloc((size_t)64 << i, sizes[i]);
        CHILD_CHECK(blocks[i] != NULL && (i % 3 != 0 || bytes_are_zero(blocks[i], sizes[i])));
        fill(blocks[i], sizes[i], i);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t before = sizes[i];
        for (size_t step = 0; step < COUNT_OF(steps); step++) {
            const size_t size = sizes[i] * steps[step] / 2 + 1;
            void *const block = shardmm_realloc(blocks[i], size);
            CHILD_CHECK(block != NULL && holds(block, before < size ? before : size, before, i));
            fill(block, size, i);
            blocks[i] = block;
            before = size;
        }
        if (i % 2 == 0)
            shardmm_free(blocks[i]);
        else
            exchange[self][i] = blocks[i];
    }
}

static void *use_in_a_thread(void *unused)
{
    use_everything(1);
    for (size_t i = 1; i < COUNT_OF(sizes); i += 2)
        shardmm_free(exchange[0][i]);
    return unused;
}

/* Twice, so that what was freed is used again, and with a heap that is born now. */
static void use_and_purge(void)
{
    pthread_t thread;

    for (int round = 0; round < 2; round++) {
        use_everything(0);
        CHILD_CHECK(pthread_create(&thread, NULL, use_in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
        for (size_t i = 1; i < COUNT_OF(sizes); i += 2)
            shardmm_free(exchange[1][i]);
        (void)shardmm_purge();
        shardmm_thread_flush();
    }
    CHILD_CHECK(shardmm_verify() == 0);
    CHILD_CHECK(stats_now().large_blocks == 0 && stats_now().medium_blocks == 0);
}

struct row {
    const struct refusal *refusal;
    int error;
};

static void refuse_and_use(void *argument)
{
    const struct row *const row = argument;

    set(row->refusal, row->error);
    use_and_purge();
}

static void purge_then_refuse_and_use(void *argument)
{
    use_and_purge();
    refuse_and_use(argument);
}

static void every_row(void (*run)(void *), size_t error_count)
{
    for (size_t i = 0; i < COUNT_OF(without_harm); i++) {
        for (size_t e = 0; e < error_count; e++) {
            struct row row = {.refusal = &without_harm[i], .error = errors[e]};
            in_child(run, &row, 60);
        }
    }
}

/* Holds off: an allocator that takes a refusal of a hint for a failure, spins on it, loses what it could not
 * return, or takes the memory for returned. */
static void calls_that_are_refused_from_now_on_do_no_harm(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    every_row(refuse_and_use, COUNT_OF(errors));
    every_row(purge_then_refuse_and_use, 2);
}

/* The same of a process that knows nothing else. The dynamic linker needs its files, though. */
static const char start_refused[] = "start-refused";

static int run_refused(void)
{
    use_and_purge();
    return 0;
}

static void refuse_and_start_again(void *argument)
{
    const struct row *const row = argument;

    set(row->refusal, row->error);
    start_again(start_refused);
}

static void a_program_starts_although_calls_are_refused(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (size_t i = 0; i < COUNT_OF(without_harm); i++) {
        struct row row = {.refusal = &without_harm[i], .error = EPERM};
        if (row.refusal->number == SYS_openat || row.refusal->number == SYS_munmap)
            continue;
        in_child(refuse_and_start_again, &row, 60);
    }
}

/* ---- No new memory --------------------------------------------------------------------------------- */

static const struct refusal memory[] = {
    {"mmap", SYS_mmap, ANY, 0},
    {"mprotect", SYS_mprotect, ANY, 0},
    {"mprotect(PROT_READ | PROT_WRITE)", SYS_mprotect, 2, PROT_READ | PROT_WRITE},
};

static void run_without_memory(void *argument)
{
    enum { COUNT = 4000 };
    static void *blocks[COUNT];
    const struct row *const row = argument;
    size_t made = 0;
    bool refused = false;

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        CHILD_CHECK((exchange[0][i] = filled_block(sizes[i], i)) != NULL);
    set(row->refusal, row->error);

    while (made < COUNT) {
        const size_t size = made % 5 == 4 ? 3 * MIB : made % 5 == 3 ? 600 * KIB : 4000;
        errno = 0;
        blocks[made] = filled_block(size, made);
        if (blocks[made] == NULL) {
            CHILD_CHECK(errno == ENOMEM);
            refused = true;
            break;
        }
        made++;
    }
    CHILD_CHECK(refused);
    CHILD_CHECK(shardmm_realloc(exchange[0][COUNT_OF(sizes) - 1], 500 * MIB) == NULL);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        CHILD_CHECK(pattern_holds(exchange[0][i], sizes[i], i));
    for (size_t i = 0; i < made; i++) {
        const size_t size = i % 5 == 4 ? 3 * MIB : i % 5 == 3 ? 600 * KIB : 4000;
        CHILD_CHECK(pattern_holds(blocks[i], size, i));
        shardmm_free(blocks[i]);
    }
    /* What was given back serves again. */
    (void)shardmm_purge();
    for (size_t i = 0; i < made; i++) {
        const size_t size = i % 5 == 4 ? 3 * MIB : i % 5 == 3 ? 600 * KIB : 4000;
        if (size > MEDIUM_MAX)
            continue;
        blocks[i] = filled_block(size, i);
        CHILD_CHECK(blocks[i] != NULL && pattern_holds(blocks[i], size, i));
    }
    CHILD_CHECK(shardmm_verify() == 0);
}

/* Holds off: a crash or a lost block where a filter does not let the process have more memory. */
static void without_new_memory_requests_fail_and_blocks_stay(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    for (size_t i = 0; i < COUNT_OF(memory); i++) {
        for (size_t e = 0; e < COUNT_OF(errors); e++) {
            struct row row = {.refusal = &memory[i], .error = errors[e]};
            in_child(run_without_memory, &row, 60);
        }
    }
}

/* ---- Locks without the kernel ----------------------------------------------------------------------- */

static void *contend(void *unused)
{
    for (int i = 0; i < 3000; i++) {
        void *const block = shardmm_malloc(2 * MIB); /* the lock of the cache, which all share */
        CHILD_CHECK(block != NULL);
        *(volatile char *)block = 1;
        shardmm_free(block);
    }
    return unused;
}

static void contend_without_futex(void *unused)
{
    pthread_t threads[4];
    (void)unused;

    system_call_with_answers(SYS_futex, 1, FUTEX_WAIT_PRIVATE_OP, ENOSYS);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, contend, NULL) == 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Holds off: threads that wait for a lock by a call that does not wait, and keep its holder from running. */
static void threads_take_turns_without_futex(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(contend_without_futex, NULL, 60);
}

/* ---- Sandboxes ------------------------------------------------------------------------------------- */

static void use_much_in_a_sandbox(void *unused)
{
    enum { COUNT = 700 };
    static void *blocks[COUNT];
    static const long forbidden[] = {
        SYS_openat, SYS_open,  SYS_clone,     SYS_clone3,  SYS_socket,            SYS_getrandom, SYS_brk, SYS_write,
        SYS_fcntl,  SYS_read,  SYS_getrlimit, SYS_sysinfo, SYS_sched_getaffinity, SYS_readlink,
        SYS_prctl, /* which sets the filters: the last one */
    };
    (void)unused;

    for (size_t i = 0; i < COUNT_OF(forbidden); i++)
        system_call_kills(forbidden[i]);
    /* So much that the heap would have huge pages. */
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++)
            CHILD_CHECK((blocks[i] = filled_block(SMALL_MAX, i)) != NULL);
        for (size_t i = 0; i < COUNT; i++)
            shardmm_free(blocks[i]);
        for (size_t i = 0; i < COUNT; i++)
            CHILD_CHECK((blocks[i] = filled_block(100000, i)) != NULL);
        for (size_t i = 0; i < COUNT; i++)
            shardmm_free(blocks[i]);
        blocks[0] = filled_block(9 * MIB, 0);
        for (size_t size = 9 * MIB; size < 60 * MIB; size += 3 * MIB)
            CHILD_CHECK((blocks[0] = shardmm_realloc(blocks[0], size)) != NULL);
        shardmm_free(blocks[0]);
        (void)shardmm_purge();
        errno = 0;
        CHILD_CHECK(shardmm_malloc(SIZE_MAX) == NULL && errno == ENOMEM);
    }
}

/* Holds off: an allocator that opens files, asks for the machine's shape or starts threads when the process has
 * promised to do so no more, and is ended for it. Memory calls are all that it makes then. */
static void a_process_that_locked_itself_in_makes_memory_calls_alone(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(use_much_in_a_sandbox, NULL, 60);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_are_refused_from_now_on_do_no_harm),
        cmocka_unit_test(a_program_starts_although_calls_are_refused),
        cmocka_unit_test(without_new_memory_requests_fail_and_blocks_stay),
        cmocka_unit_test(threads_take_turns_without_futex),
        cmocka_unit_test(a_process_that_locked_itself_in_makes_memory_calls_alone),
    };

    if (count == 2 && strcmp(arguments[1], start_refused) == 0)
        return run_refused();
    return cmocka_run_group_tests_name("system_calls", tests, NULL, NULL);
}
