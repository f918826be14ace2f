/* SPDX-License-Identifier: MIT */
/* test_sized_free.c - what builds with debug assertions say of the size and the alignment of a sized free. The
 * check is in every build; only who calls it differs. A wrong one ends the process, so each runs in a child. */
#include "entry/posix.h"
#include "unit.h"

#include <signal.h>

static void *with_headroom(void)
{
    void *block = smm_malloc(1000);

    assert_non_null(block);
    block = smm_realloc(block, 1100);
    assert_non_null(block);
    return block;
}

/* Whether the check lets the block pass. What it says else goes nowhere. */
static bool accepted(void *block, size_t alignment, size_t size)
{
    int status = 0;

    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* cmocka's handlers and core files are not for a child that is to abort. */
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        smm_free_sized_check(block, alignment, size, "free_sized");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) || WTERMSIG(status) == SIGABRT);
    return WIFEXITED(status);
}

static void the_size_of_the_request_is_accepted(void **state)
{
    static const size_t sizes[] = {0,     1,     15,        16,          17,          33,          100,
                                   1000,  2049,  16 * 1024, 16385,       100000,      SMM_MIB,     SMM_MEDIUM_MAX + 1,
                                   5000000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *const block = smm_malloc(sizes[i]);
        assert_non_null(block);
        assert_true(accepted(block, 1, sizes[i]));
        smm_free(block);
    }
    assert_true(accepted(NULL, 1, 100));
}

static void the_size_of_an_aligned_request_is_accepted(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= 8 * SMM_MIB; alignment *= 8) {
        void *const block = smm_aligned(alignment, 8);
        assert_non_null(block);
        assert_true(accepted(block, alignment, 8));
        smm_free(block);
    }
}

static void the_size_that_realloc_was_asked_for_is_accepted(void **state)
{
    (void)state;
    void *block = with_headroom();
    assert_true(accepted(block, 1, 1100));
    const size_t least = (smm_usable_size(block, "test") + 3) / 4;
    block = smm_realloc(block, least);
    assert_true(accepted(block, 1, least));
    smm_free(block);
    for (size_t size = 1; size < 5000; size += 1 + size / 3) {
        block = smm_malloc(size);
        assert_non_null(block);
        block = smm_realloc(block, size + 1);
        assert_non_null(block);
        assert_true(accepted(block, 1, size + 1));
        smm_free(block);
    }
}

static void another_size_or_alignment_is_not(void **state)
{
    (void)state;
    void *const small = smm_malloc(100);
    void *const medium = smm_malloc(100000);
    void *const large = smm_malloc(4 * SMM_MIB);
    assert_true(small != NULL && medium != NULL && large != NULL);
    assert_false(accepted(small, 1, 8));
    assert_false(accepted(small, 1, 113));
    assert_false(accepted(small, SMM_SLOT_SIZE, 100));
    assert_false(accepted(medium, 1, 100));
    assert_false(accepted(medium, 1, 200000));
    assert_false(accepted(large, 1, 1000));
    assert_false(accepted(large, 1, 5 * SMM_MIB));
    smm_free(small);
    smm_free(medium);
    smm_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_size_of_the_request_is_accepted),
        cmocka_unit_test(the_size_of_an_aligned_request_is_accepted),
        cmocka_unit_test(the_size_that_realloc_was_asked_for_is_accepted),
        cmocka_unit_test(another_size_or_alignment_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
