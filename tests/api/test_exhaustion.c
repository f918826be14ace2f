/* SPDX-License-Identifier: MIT */
/* test_exhaustion.c - requests that cannot be served get NULL and ENOMEM from every call, and nothing breaks:
 * sizes beyond the address space, a process that runs out of addresses with blocks of each kind or has as many
 * mappings as the system allows, and a system that takes nothing back. */
#include <errno.h>
#include <sys/resource.h>

#include "../common/support.h"
#include "../common/system_calls.h"

static void *by_malloc(size_t size)
{
    return shardmm_malloc(size);
}

static void *by_calloc(size_t size)
{
    return shardmm_calloc(1, size);
}

static void *by_calloc_of_bytes(size_t size)
{
    return shardmm_calloc(size, 1);
}

static void *by_realloc_of_null(size_t size)
{
    return shardmm_realloc(NULL, size);
}

static void *by_reallocarray_of_null(size_t size)
{
    return shardmm_reallocarray(NULL, size, 1);
}

static void *by_aligned_alloc(size_t size)
{
    return shardmm_aligned_alloc(64, size);
}

static void *by_aligned_alloc_at_64_KiB(size_t size)
{
    return shardmm_aligned_alloc(PAGE_BYTES, size);
}

static void *by_memalign(size_t size)
{
    return shardmm_memalign(4 * MIB, size);
}

static void *by_posix_memalign(size_t size)
{
    void *result = NULL;
    const int error = shardmm_posix_memalign(&result, 4096, size);
    if (error != 0)
        errno = error;
    return result;
}

/* Resizes a live block, which must be as it was when that fails. */
static void *resized(size_t from, size_t size)
{
    void *const block = filled_block(from, from);
    void *bigger;

    assert_non_null(block);
    bigger = shardmm_realloc(block, size);
    if (bigger == NULL) {
        const int error = errno;
        assert_true(pattern_holds(block, from, from));
        shardmm_free(block);
        errno = error;
    }
    return bigger;
}

static void *by_realloc_of_small(size_t size)
{
    return resized(100, size);
}

static void *by_realloc_of_medium(size_t size)
{
    return resized(100000, size);
}

static void *by_realloc_of_large(size_t size)
{
    return resized(3 * MIB, size);
}

static void *(*const entry_points[])(size_t size) = {
    by_malloc, by_calloc, by_calloc_of_bytes, by_realloc_of_null, by_reallocarray_of_null, by_aligned_alloc,
    by_aligned_alloc_at_64_KiB, by_memalign, by_posix_memalign, by_realloc_of_small, by_realloc_of_medium,
    by_realloc_of_large,
};

static void check_still_works(void)
{
    static const size_t sizes[] = {1, 1000, SMALL_MAX, 100000, 3 * MIB};
    void *blocks[COUNT_OF(sizes)];

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        assert_non_null(blocks[i] = filled_block(sizes[i], i));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_true(pattern_holds(blocks[i], sizes[i], i));
        shardmm_free(blocks[i]);
    }
}

static void check_child_still_works(void)
{
    for (size_t size = 1; size < 8 * MIB; size = size * 5 + 1) {
        void *const block = filled_block(size, size);
        CHILD_CHECK(block != NULL && pattern_holds(block, size, size));
        shardmm_free(block);
    }
}

static void check_refused(size_t size)
{
    for (size_t i = 0; i < COUNT_OF(entry_points); i++) {
        errno = 0;
        assert_null(entry_points[i](hidden_size(size)));
        assert_int_equal(errno, ENOMEM);
        check_still_works();
    }
}

static void sizes_above_PTRDIFF_MAX_fail_in_every_call(void **state)
{
    static const size_t sizes[] = {
        (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX + 2, SIZE_MAX - 4 * MIB, SIZE_MAX - 4096, SIZE_MAX - 64,
        SIZE_MAX - 17, SIZE_MAX - 16, SIZE_MAX - 15, SIZE_MAX - 14, SIZE_MAX - 1, SIZE_MAX,
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        check_refused(sizes[i]);
}

static void sizes_up_to_PTRDIFF_MAX_that_exceed_the_address_space_fail_in_every_call(void **state)
{
    static const size_t sizes[] = {
        PTRDIFF_MAX, PTRDIFF_MAX - 1, PTRDIFF_MAX - 16, PTRDIFF_MAX - 4096, PTRDIFF_MAX - (ptrdiff_t)SEGMENT_BYTES,
        (size_t)1 << 62, (size_t)1 << 56, (size_t)1 << 48, ((size_t)1 << 47) - 1, (size_t)1 << 47,
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        check_refused(sizes[i]);
}

static int overcommit_mode(void)
{
    int mode = 0;
    FILE *const file = fopen("/proc/sys/vm/overcommit_memory", "r");

    if (file != NULL) {
        if (fscanf(file, "%d", &mode) != 1)
            mode = 0;
        fclose(file);
    }
    return mode;
}

/* Addresses for these there are, memory not, unless the machine promises what it does not have. */
static void sizes_beyond_the_memory_of_the_machine_fail_in_every_call(void **state)
{
    (void)state;
    if (overcommit_mode() == 1 || TEST_SANITIZED)
        skip();
    check_refused((size_t)4096 * GIB);
    check_refused((size_t)1 << 45);
    check_refused((size_t)1 << 46);
}

#ifndef SHARDMM_TEST_LIBC

static void requests_that_got_no_memory_are_counted(void **state)
{
    const struct shardmm_stats before = stats_now();
    (void)state;

    assert_null(shardmm_malloc(SIZE_MAX));
    assert_null(shardmm_malloc((size_t)1 << 48));
    assert_true(stats_now().failures >= before.failures + 2);
    assert_same_in_use(before);
}

#endif

/* ---- Out of addresses ------------------------------------------------------------------------- */

enum { LIMIT_ABOVE = 128 * 1024 * 1024 };

struct link {
    struct link *next;
    uint64_t seed;
};

/* Blocks of `size` bytes until there are no more, in a list that runs through them. */
static struct link *take_all(size_t size, size_t *count)
{
    struct link *list = NULL;
    struct link *block;

    errno = 0;
    *count = 0;
    while ((block = shardmm_malloc(size)) != NULL) {
        block->next = list;
        block->seed = *count;
        pattern_fill(block + 1, size - sizeof *block, *count);
        list = block;
        ++*count;
    }
    CHILD_CHECK(errno == ENOMEM);
    return list;
}

static void give_all(struct link *list, size_t size)
{
    while (list != NULL) {
        struct link *const next = list->next;
        CHILD_CHECK(pattern_holds(list + 1, size - sizeof *list, list->seed));
        shardmm_free(list);
        list = next;
    }
}

static void limit_addresses(size_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Calls that fail for want of memory, all of them, with blocks alive around them. */
static void check_calls_fail(size_t size)
{
    void *result = &result;

    errno = 0;
    CHILD_CHECK(shardmm_calloc(1, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHILD_CHECK(shardmm_aligned_alloc(PAGE_BYTES, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHILD_CHECK(shardmm_realloc(NULL, size) == NULL && errno == ENOMEM);
    CHILD_CHECK(shardmm_posix_memalign(&result, 64, size) == ENOMEM && result == &result);
}

static void exhaust(void *argument)
{
    const size_t size = *(const size_t *)argument;
    size_t count = 0;
    size_t again = 0;
    struct link *list;

    limit_addresses(mapped_bytes() + LIMIT_ABOVE);
    list = take_all(size, &count);
    /* Most of the addresses of a large block may be headroom. */
    CHILD_CHECK(count * size >= LIMIT_ABOVE / (size > MEDIUM_MAX ? 32 : 2));
    check_calls_fail(64 * MIB);
    if (list != NULL) {
        struct link *const first = list;
        errno = 0;
        CHILD_CHECK(shardmm_realloc(first, 100 * MIB) == NULL && errno == ENOMEM);
        CHILD_CHECK(pattern_holds(first + 1, size - sizeof *first, first->seed));
    }
    give_all(list, size);

    /* What was freed serves again, and not much less of it. */
    list = take_all(size, &again);
    CHILD_CHECK(again >= count / 4 * 3);
    give_all(list, size);

    /* Other kinds work or say that they cannot: segments and arenas keep their addresses. */
    (void)shardmm_purge();
    for (size_t other = 100; other < 3 * MIB; other *= 30) {
        void *block;
        errno = 0;
        block = filled_block(other, 1);
        CHILD_CHECK(block != NULL ? pattern_holds(block, other, 1) : errno == ENOMEM);
        shardmm_free(block);
    }
}

static void check_exhaustion(size_t size)
{
    if (TEST_SANITIZED)
        skip();
    in_child(exhaust, &size, 60);
}

static void running_out_with_small_blocks(void **state)
{
    (void)state;
    check_exhaustion(96);
    check_exhaustion(1000);
    check_exhaustion(SMALL_MAX);
}

static void running_out_with_medium_blocks(void **state)
{
    (void)state;
    check_exhaustion(SMALL_MAX + 1);
    check_exhaustion(200000);
    check_exhaustion(MEDIUM_MAX);
}

static void running_out_with_large_blocks(void **state)
{
    (void)state;
    check_exhaustion(MEDIUM_MAX + 1);
    check_exhaustion(5 * MIB);
}

/* Bytes of memory that is freed while nothing new can be mapped: giving back must not need anything. */
static void exhaust_with_a_mix(void *unused)
{
    static struct link *lists[5];
    static const size_t sizes[] = {5 * MIB, 300000, SMALL_MAX, 1000, 32};
    size_t counts[COUNT_OF(sizes)];
    (void)unused;

    limit_addresses(mapped_bytes() + LIMIT_ABOVE);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        lists[i] = take_all(sizes[i], &counts[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        give_all(lists[i], sizes[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = filled_block(sizes[i], i);
        CHILD_CHECK(block != NULL);
        CHILD_CHECK(pattern_holds(block, sizes[i], i));
        shardmm_free(block);
    }
}

static void running_out_with_all_kinds(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(exhaust_with_a_mix, NULL, 60);
}

static pthread_barrier_t exhausted;
static pthread_barrier_t tried;
static pthread_barrier_t freed;

static void *first_call_without_memory(void *unused)
{
    void *block;
    (void)unused;

    pthread_barrier_wait(&exhausted);
    errno = 0;
    block = shardmm_malloc(100);
    CHILD_CHECK(block != NULL || errno == ENOMEM);
    shardmm_free(block);
    errno = 0;
    block = shardmm_malloc(SMALL_MAX + 1);
    CHILD_CHECK(block != NULL || errno == ENOMEM);
    shardmm_free(block);
    pthread_barrier_wait(&tried);
    pthread_barrier_wait(&freed);
    block = filled_block(100, 1);
    CHILD_CHECK(block != NULL);
    shardmm_free(block);
    return NULL;
}

/* The call that finds no memory is the one that makes the heap of its thread. */
static void exhaust_before_a_thread_has_a_heap(void *unused)
{
    enum { THREADS = 4 };
    static const size_t sizes[] = {5 * MIB, 100000, 4096, 64};
    struct link *lists[COUNT_OF(sizes)];
    size_t count;
    pthread_t threads[THREADS];
    (void)unused;

    pthread_barrier_init(&exhausted, NULL, THREADS + 1);
    pthread_barrier_init(&tried, NULL, THREADS + 1);
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, first_call_without_memory, NULL) == 0);
    limit_addresses(mapped_bytes() + LIMIT_ABOVE / 4);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        lists[i] = take_all(sizes[i], &count);
    pthread_barrier_wait(&exhausted);
    pthread_barrier_wait(&tried);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        give_all(lists[i], sizes[i]);
    limit_addresses(RLIM_INFINITY);
    pthread_barrier_wait(&freed);
    for (size_t i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
}

static void a_thread_whose_first_call_finds_no_memory_gets_null_and_goes_on(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(exhaust_before_a_thread_has_a_heap, NULL, 60);
}

/* ---- Little address space from the start -------------------------------------------------------- */

static const char start_small[] = "start-small";

/* What this program does when it was started again under a limit. */
static int run_small(void)
{
    static void *blocks[1000];
    void *const medium = filled_block(300000, 1);
    void *const large = filled_block(2 * MIB, 2);

    CHILD_CHECK(medium != NULL && large != NULL);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        CHILD_CHECK((blocks[i] = filled_block(i * 4, i)) != NULL);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        CHILD_CHECK(pattern_holds(blocks[i], i * 4, i));
        shardmm_free(blocks[i]);
    }
    CHILD_CHECK(pattern_holds(medium, 300000, 1));
    CHILD_CHECK(pattern_holds(large, 2 * MIB, 2));
    shardmm_free(medium);
    shardmm_free(large);
    return 0;
}

static void start_again_under_a_limit(void *unused)
{
    (void)unused;
    limit_addresses(64 * MIB);
    start_again(start_small);
}

static void a_program_works_with_64_MiB_of_addresses(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(start_again_under_a_limit, NULL, 30);
}

/* ---- More blocks than the system has mappings ---------------------------------------------------- */

/* 65530 mappings is what Linux grants a process. A block that leaves room to grow behind it takes two. */
static void live_with_many_large_blocks(void *unused)
{
    enum { COUNT = 45000 };
    static unsigned char *blocks[COUNT];
    (void)unused;

    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = shardmm_malloc(1100 * KIB);
        if (blocks[i] == NULL) {
            fprintf(stderr, "no block after %zu\n", i);
            _exit(1);
        }
        *blocks[i] = (unsigned char)(i * 7);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHILD_CHECK(*blocks[i] == (unsigned char)(i * 7));
        shardmm_free(blocks[i]);
    }
    check_child_still_works();
}

static void a_process_may_have_45000_large_blocks(void **state)
{
    (void)state;
    if (TEST_SANITIZED || overcommit_mode() == 2)
        skip();
    in_child(live_with_many_large_blocks, NULL, 60);
}

#ifndef SHARDMM_TEST_LIBC

/* ---- A system that takes nothing back ------------------------------------------------------------- */

/* A block that could not be released stays for a later try: whoever goes on until all are released goes on for
 * ever. */
static void free_without_munmap(void *unused)
{
    enum { COUNT = 45 };
    void *blocks[COUNT];
    (void)unused;

    for (size_t i = 0; i < COUNT; i++) {
        const size_t size = 1200 * KIB + i * 100 * KIB;
        if (i == 5)
            blocks[i] = shardmm_malloc(200 * MIB); /* too much for the cache */
        else
            blocks[i] = i % 10 == 9 ? shardmm_aligned_alloc(SEGMENT_BYTES, size) : shardmm_malloc(size);
        CHILD_CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], 1200 * KIB, i);
    }
    system_call_answers(SYS_munmap, ENOMEM);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            CHILD_CHECK(pattern_holds(blocks[i], 1200 * KIB, i));
            shardmm_free(blocks[i]);
        }
        (void)shardmm_purge();
        shardmm_thread_flush();
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = shardmm_calloc(1, 1500 * KIB);
            CHILD_CHECK(blocks[i] != NULL && bytes_are_zero(blocks[i], 1500 * KIB));
            pattern_fill(blocks[i], 1500 * KIB, i);
        }
    }
    check_child_still_works();
}

static void freeing_ends_although_the_system_takes_no_addresses_back(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip();
    in_child(free_without_munmap, NULL, 20);
}

#endif

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_above_PTRDIFF_MAX_fail_in_every_call),
        cmocka_unit_test(sizes_up_to_PTRDIFF_MAX_that_exceed_the_address_space_fail_in_every_call),
        cmocka_unit_test(sizes_beyond_the_memory_of_the_machine_fail_in_every_call),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(requests_that_got_no_memory_are_counted),
#endif
        cmocka_unit_test(running_out_with_small_blocks),
        cmocka_unit_test(running_out_with_medium_blocks),
        cmocka_unit_test(running_out_with_large_blocks),
        cmocka_unit_test(running_out_with_all_kinds),
        cmocka_unit_test(a_thread_whose_first_call_finds_no_memory_gets_null_and_goes_on),
        cmocka_unit_test(a_program_works_with_64_MiB_of_addresses),
        cmocka_unit_test(a_process_may_have_45000_large_blocks),
#ifndef SHARDMM_TEST_LIBC
        cmocka_unit_test(freeing_ends_although_the_system_takes_no_addresses_back),
#endif
    };

    if (count == 2 && strcmp(arguments[1], start_small) == 0)
        return run_small();
    return cmocka_run_group_tests_name("exhaustion", tests, NULL, NULL);
}
