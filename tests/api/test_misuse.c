/* SPDX-License-Identifier: MIT */
/* test_misuse.c - addresses that were never handed out or were freed before are reported by exactly one line
 * on standard error, which names the call and the address, and the process aborts. Each case runs in a child
 * process with its standard error in a pipe. */
#include <ctype.h>
#include <inttypes.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../common/support.h"

/* What the child does: it returns the address of the block to misuse, and the parent's table says how. */
typedef void *make_fn(void);
typedef void use_fn(void *block);

static void use_free(void *block)
{
    shardmm_free(block);
}

static void use_realloc(void *block)
{
    block = shardmm_realloc(block, 5 * MIB);
    (void)block;
}

static void use_realloc_to_less(void *block)
{
    block = shardmm_realloc(block, 100);
    (void)block;
}

static void use_realloc_to_0(void *block)
{
    block = shardmm_realloc(block, 0);
    (void)block;
}

static void use_free_sized(void *block)
{
    shardmm_free_sized(block, 2 * MIB);
}

/* The address leaves the child through memory that both share, before it is used. */
static volatile uintptr_t *shared_address;

static char report[4096];

static void run_and_catch(make_fn *make, use_fn *use, int *status)
{
    int ends[2];
    size_t length = 0;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        void *block;

        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &none);
        signals_by_default();
        alarm(20);
        block = make();
        *shared_address = (uintptr_t)block;
        use((void *)address_of(block));
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof report - 1 && (got = read(ends[0], report + length, sizeof report - 1 - length)) > 0)
        length += (size_t)got;
    report[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, status, 0), child);
}

/* The address in hexadecimal digits with 0x, as a word of its own. */
static bool report_names(uintptr_t address)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "0x%" PRIxPTR, address);

    for (const char *at = report; *at != 0; at++) {
        if (strncasecmp(at, text, (size_t)length) == 0 && !isxdigit((unsigned char)at[length]))
            return true;
    }
    return false;
}

static void check_reported(make_fn *make, use_fn *use, const char *call)
{
    static const char beginning[] = "shardmm: ";
    const char *newline;
    int status = 0;

    *shared_address = 0;
    memset(report, 0, sizeof report);
    run_and_catch(make, use, &status);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("no abort: status 0x%x, \"%s\"", (unsigned)status, report);
    newline = strchr(report, '\n');
    if (strncmp(report, beginning, strlen(beginning)) != 0 || newline == NULL || newline[1] != 0)
        fail_msg("not one line of ours: \"%s\"", report);
    if (strstr(report, call) == NULL)
        fail_msg("no \"%s\" in \"%s\"", call, report);
    if (!report_names(*shared_address))
        fail_msg("no 0x%" PRIxPTR " in \"%s\"", *shared_address, report);
}

static void check_reported_by_free_and_realloc(make_fn *make)
{
    check_reported(make, use_free, "free");
    check_reported(make, use_realloc, "realloc");
    check_reported(make, use_realloc_to_less, "realloc");
}

/* ---- Freed before -------------------------------------------------------------------------------------- */

static void *freed(void *block)
{
    void *const again = (void *)address_of(block);
    shardmm_free(block);
    return again;
}

static void *freed_medium(void)
{
    return freed(shardmm_malloc(100000));
}

static void *freed_medium_between_live_ones(void)
{
    void *blocks[3];

    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = filled_block(50000, i);
    return freed(blocks[1]);
}

static void *freed_aligned_medium(void)
{
    return freed(shardmm_aligned_alloc(PAGE_BYTES, 100000));
}

static void *freed_large(void)
{
    return freed(shardmm_malloc(3 * MIB));
}

static void *freed_large_that_went_back(void)
{
    return freed(shardmm_malloc(200 * MIB));
}

static void *freed_large_that_was_purged(void)
{
    void *const block = freed(shardmm_malloc(3 * MIB));
    (void)shardmm_purge();
    return block;
}

static void *freed_aligned_large(void)
{
    return freed(shardmm_aligned_alloc(SEGMENT_BYTES, 3 * MIB));
}

static void *free_in_thread(void *block)
{
    shardmm_free(block);
    return NULL;
}

static void *freed_large_by_another_thread(void)
{
    void *const block = shardmm_malloc(3 * MIB);
    pthread_t thread;

    if (pthread_create(&thread, NULL, free_in_thread, block) != 0 || pthread_join(thread, NULL) != 0)
        _exit(1);
    return block;
}

static void *moved_large(void)
{
    void *const block = shardmm_malloc(2 * MIB);
    void *const old = (void *)address_of(block);
    void *const moved = shardmm_realloc(block, 400 * MIB); /* beyond its reservation */

    if (moved == NULL || address_of(moved) == address_of(old))
        _exit(1);
    return old;
}

static void a_medium_block_freed_twice(void **state)
{
    (void)state;
    check_reported(freed_medium, use_free, "free");
    check_reported(freed_medium_between_live_ones, use_free, "free");
    check_reported(freed_aligned_medium, use_free, "free");
}

static void a_medium_block_resized_after_it_was_freed(void **state)
{
    (void)state;
    check_reported(freed_medium, use_realloc, "realloc");
    check_reported(freed_medium_between_live_ones, use_realloc, "realloc");
    check_reported(freed_medium_between_live_ones, use_realloc_to_0, "realloc");
}

static void a_large_block_freed_twice(void **state)
{
    (void)state;
    check_reported(freed_large, use_free, "free");
    check_reported(freed_large, use_free_sized, "free");
    check_reported(freed_large_by_another_thread, use_free, "free");
    check_reported(freed_large_that_was_purged, use_free, "free");
    check_reported(freed_large_that_went_back, use_free, "free");
}

static void a_large_block_resized_after_it_was_freed(void **state)
{
    (void)state;
    check_reported(freed_large, use_realloc, "realloc");
    check_reported(freed_large, use_realloc_to_less, "realloc");
    check_reported(freed_large, use_realloc_to_0, "realloc");
    check_reported(freed_large_that_went_back, use_realloc, "realloc");
}

static void a_large_block_freed_at_the_address_that_it_moved_from(void **state)
{
    (void)state;
    check_reported(moved_large, use_free, "free");
}

static void an_aligned_large_block_freed_twice(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(freed_aligned_large);
}

/* ---- Never handed out ------------------------------------------------------------------------------------ */

static char static_data[64] __attribute__((aligned(16)));

static void *in_static_data(void)
{
    return static_data;
}

static void *in_static_data_with_blocks_alive(void)
{
    if (shardmm_malloc(100) == NULL || shardmm_malloc(100000) == NULL || shardmm_malloc(3 * MIB) == NULL)
        _exit(1);
    return static_data + 16;
}

static void *in_the_stack(void)
{
    /* Not of this frame, which ends here. */
    return (void *)(address_of(__builtin_frame_address(0)) + 4096);
}

static void *in_code(void)
{
    return (void *)((uintptr_t)&in_code & ~(uintptr_t)15);
}

static void *in_a_mapping(void)
{
    void *const mapping = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED)
        _exit(1);
    memset(mapping, 0x5A, 2 * MIB);
    return (unsigned char *)mapping + 4096;
}

static void *in_an_aligned_mapping(void)
{
    unsigned char *const mapping = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED)
        _exit(1);
    return mapping + (0 - (uintptr_t)mapping) % SEGMENT_BYTES;
}

static void *from_the_c_library(void)
{
    return malloc(100);
}

static void an_address_in_static_data(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(in_static_data);
    check_reported_by_free_and_realloc(in_static_data_with_blocks_alive);
}

static void an_address_in_code(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(in_code);
}

static void an_address_in_the_stack(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(in_the_stack);
}

static void an_address_of_mmap(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(in_a_mapping);
    check_reported_by_free_and_realloc(in_an_aligned_mapping);
}

static void a_block_of_another_allocator(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(from_the_c_library);
}

static void *at_16(void)
{
    return (void *)16;
}

static void *at_1(void)
{
    return (void *)1;
}

static void *at_pattern(void)
{
    return (void *)0x4141414141414140;
}

static void *above_user_addresses(void)
{
    return (void *)0x0000800000000000;
}

static void *in_the_kernel(void)
{
    return (void *)0xffff888000001000;
}

static void *at_the_end(void)
{
    return (void *)(UINTPTR_MAX - 15);
}

static void wild_addresses(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(at_1);
    check_reported_by_free_and_realloc(at_16);
    check_reported_by_free_and_realloc(at_pattern);
    check_reported_by_free_and_realloc(above_user_addresses);
    check_reported_by_free_and_realloc(in_the_kernel);
    check_reported_by_free_and_realloc(at_the_end);
}

/* ---- Inside of blocks ------------------------------------------------------------------------------------ */

static unsigned char *zeroed(size_t size)
{
    unsigned char *const block = shardmm_calloc(1, size);
    if (block == NULL)
        _exit(1);
    return block;
}

static void *large_and_16(void)
{
    return zeroed(3 * MIB) + 16;
}

static void *large_and_a_page(void)
{
    return zeroed(3 * MIB) + 4096;
}

static void *large_and_a_page_of_64_KiB(void)
{
    return zeroed(3 * MIB) + PAGE_BYTES;
}

static void *large_and_a_segment(void)
{
    return zeroed(9 * MIB) + SEGMENT_BYTES;
}

static void *large_and_1(void)
{
    return zeroed(3 * MIB) + 1;
}

static void *medium_and_1(void)
{
    return zeroed(100000) + 1;
}

static void *medium_and_8(void)
{
    return zeroed(100000) + 8;
}

static void an_address_inside_of_a_large_block(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(large_and_16);
    check_reported_by_free_and_realloc(large_and_a_page);
    check_reported_by_free_and_realloc(large_and_a_page_of_64_KiB);
    check_reported_by_free_and_realloc(large_and_a_segment);
}

static void a_misaligned_address(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(medium_and_1);
    check_reported_by_free_and_realloc(medium_and_8);
    check_reported_by_free_and_realloc(large_and_1);
}

/* Writing below a large block hits its header, and with it the mark of a live one. */
static void *large_with_its_header_overwritten(void)
{
    unsigned char *const block = zeroed(3 * MIB);

    memset((void *)(address_of(block) - 64), 0x41, 64);
    return block;
}

static void a_large_block_whose_header_was_overwritten(void **state)
{
    (void)state;
    check_reported_by_free_and_realloc(large_with_its_header_overwritten);
}

/* ---- And what is no misuse --------------------------------------------------------------------------------- */

static void *nothing(void)
{
    return NULL;
}

static void *medium_of_another_thread(void *unused)
{
    (void)unused;
    return shardmm_malloc(100000);
}

static void *live_of_an_ended_thread(void)
{
    pthread_t thread;
    void *block = NULL;

    if (pthread_create(&thread, NULL, medium_of_another_thread, NULL) != 0 || pthread_join(thread, &block) != 0)
        _exit(1);
    return block;
}

static void what_may_be_freed_is_not_reported(void **state)
{
    int status = -1;
    (void)state;

    run_and_catch(nothing, use_free, &status);
    assert_int_equal(status, 0);
    assert_string_equal(report, "");
    run_and_catch(live_of_an_ended_thread, use_free, &status);
    assert_int_equal(status, 0);
    assert_string_equal(report, "");
}

static int share_an_address(void **state)
{
    void *const shared =
        mmap(NULL, sizeof *shared_address, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;

    shared_address = shared;
    return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_medium_block_freed_twice),
        cmocka_unit_test(a_medium_block_resized_after_it_was_freed),
        cmocka_unit_test(a_large_block_freed_twice),
        cmocka_unit_test(a_large_block_resized_after_it_was_freed),
        cmocka_unit_test(a_large_block_freed_at_the_address_that_it_moved_from),
        cmocka_unit_test(an_aligned_large_block_freed_twice),
        cmocka_unit_test(an_address_in_static_data),
        cmocka_unit_test(an_address_in_code),
        cmocka_unit_test(an_address_in_the_stack),
        cmocka_unit_test(an_address_of_mmap),
        cmocka_unit_test(a_block_of_another_allocator),
        cmocka_unit_test(wild_addresses),
        cmocka_unit_test(an_address_inside_of_a_large_block),
        cmocka_unit_test(a_misaligned_address),
        cmocka_unit_test(a_large_block_whose_header_was_overwritten),
        cmocka_unit_test(what_may_be_freed_is_not_reported),
    };
    return cmocka_run_group_tests_name("misuse", tests, share_an_address, NULL);
}
