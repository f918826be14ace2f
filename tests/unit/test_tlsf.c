/* SPDX-License-Identifier: MIT */
/* test_tlsf.c - the index of free chunks against a plain array of them. */
#include "medium/tlsf.h"

#include "unit.h"

enum { CHUNKS = 300 };
/* Sizes in units. */
#define SIZE_LEAST SMM_CHUNK_LEAST
#define SIZE_END ((unsigned)SMM_ARENA_UNITS)
#define SIZE_MAX_CHUNK (SIZE_END - 1)

/* The index knows sizes, not places: chunks may lie anywhere. */
static struct smm_free_chunk chunks[CHUNKS];
static bool listed[CHUNKS];

static void chunk_init(struct smm_free_chunk *chunk, unsigned size)
{
    memset(chunk, 0, sizeof *chunk);
    chunk->size = (uint16_t)size;
}

/* The bins numbered from 0 upwards: the number of bins that start at or below `size`, less one. */
static unsigned bin_number(unsigned size)
{
    unsigned bins = 0;
    for (unsigned level = SIZE_LEAST; level <= SIZE_END; level *= 2)
        for (unsigned bin = 0; bin < SMM_TLSF_BINS; bin++)
            bins += level + bin * (level / SMM_TLSF_BINS) <= size;
    return bins - 1;
}

static unsigned bin_start(unsigned number)
{
    const unsigned level = SIZE_LEAST << (number / SMM_TLSF_BINS);
    return level + number % SMM_TLSF_BINS * (level / SMM_TLSF_BINS);
}

static unsigned random_size(uint64_t *seed)
{
    const unsigned limit = SIZE_LEAST << random_below(seed, SMM_TLSF_LEVELS + 1);
    const unsigned size = (unsigned)random_below(seed, limit) + SIZE_LEAST;
    return size > SIZE_MAX_CHUNK ? SIZE_MAX_CHUNK : size;
}

/* What the model says of a request: the lowest bin that holds a chunk and starts at or above `size`. */
static unsigned lowest_sure_bin(unsigned size)
{
    unsigned lowest = UINT32_MAX;
    for (unsigned i = 0; i < CHUNKS; i++) {
        const unsigned bin = bin_number(chunks[i].size);
        if (listed[i] && bin_start(bin) >= size && bin < lowest)
            lowest = bin;
    }
    return lowest;
}

static void check_taken(const struct smm_free_chunk *taken, unsigned size, unsigned sure_bin)
{
    if (taken == NULL) {
        assert_int_equal(sure_bin, UINT32_MAX);
        return;
    }
    assert_true(taken->size >= size);
    const unsigned bin = bin_number(taken->size);
    /* A chunk of the request's own bin, or of the first above that has one. */
    assert_true(bin == bin_number(size) || bin == sure_bin);
    assert_true(listed[taken - chunks]);
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    struct smm_tlsf index;
    uint64_t seed = 3;

    (void)state;
    memset(&index, 0, sizeof index);
    memset(listed, 0, sizeof listed);
    for (unsigned round = 0; round < 20000; round++) {
        const size_t i = random_below(&seed, CHUNKS);
        /* Phases of growing and of shrinking. */
        const size_t dice = random_below(&seed, 10) + (round / 2000 % 2 ? 2 : 0);
        if (dice < 6) {
            if (!listed[i]) {
                chunk_init(&chunks[i], random_size(&seed));
                smm_tlsf_insert(&index, &chunks[i]);
                listed[i] = true;
            }
        } else if (dice < 8) {
            if (listed[i]) {
                smm_tlsf_remove(&index, &chunks[i]);
                listed[i] = false;
            }
        } else {
            const unsigned size = random_size(&seed);
            const unsigned sure_bin = lowest_sure_bin(size);
            struct smm_free_chunk *const taken = smm_tlsf_take(&index, size);
            check_taken(taken, size, sure_bin);
            if (taken != NULL)
                listed[taken - chunks] = false;
        }
        assert_int_equal(smm_tlsf_verify(&index), 0);
    }
    /* All that the model has is there, and nothing else. */
    for (;;) {
        struct smm_free_chunk *const taken = smm_tlsf_take(&index, SIZE_LEAST);
        if (taken == NULL)
            break;
        assert_true(listed[taken - chunks]);
        listed[taken - chunks] = false;
        assert_int_equal(smm_tlsf_verify(&index), 0);
    }
    for (unsigned i = 0; i < CHUNKS; i++)
        assert_false(listed[i]);
    assert_int_equal(index.levels, 0);
}

static void an_empty_index_has_nothing_for_any_size(void **state)
{
    struct smm_tlsf index;

    (void)state;
    memset(&index, 0, sizeof index);
    for (unsigned size = SIZE_LEAST; size < SIZE_END; size++)
        assert_null(smm_tlsf_take(&index, size));
}

static void a_chunk_is_found_by_every_size_that_its_bin_serves(void **state)
{
    struct smm_tlsf index;

    (void)state;
    memset(&index, 0, sizeof index);
    for (unsigned size = SIZE_LEAST; size <= SIZE_MAX_CHUNK; size++) {
        struct smm_free_chunk chunk;
        chunk_init(&chunk, size);
        smm_tlsf_insert(&index, &chunk);
        /* One unit more than it has is never served by it. */
        if (size < SIZE_MAX_CHUNK)
            assert_null(smm_tlsf_take(&index, size + 1));
        /* Its own size is, and so is the start of its bin. */
        assert_ptr_equal(smm_tlsf_take(&index, size), &chunk);
        smm_tlsf_insert(&index, &chunk);
        assert_ptr_equal(smm_tlsf_take(&index, bin_start(bin_number(size))), &chunk);
        assert_null(smm_tlsf_take(&index, SIZE_LEAST));
    }
}

static void the_chunk_of_the_same_size_comes_before_larger_ones(void **state)
{
    struct smm_tlsf index;
    struct smm_free_chunk larger, same, largest;

    (void)state;
    memset(&index, 0, sizeof index);
    for (unsigned size = SIZE_LEAST; size <= SMM_MEDIUM_MAX >> SMM_UNIT_SHIFT; size++) {
        chunk_init(&larger, size + size / 4 + 1);
        chunk_init(&same, size);
        chunk_init(&largest, SIZE_MAX_CHUNK);
        smm_tlsf_insert(&index, &largest);
        smm_tlsf_insert(&index, &larger);
        smm_tlsf_insert(&index, &same);
        assert_ptr_equal(smm_tlsf_take(&index, size), &same);
        assert_ptr_not_equal(smm_tlsf_take(&index, size), NULL);
        assert_ptr_not_equal(smm_tlsf_take(&index, size), NULL);
        assert_null(smm_tlsf_take(&index, size));
    }
}

static void a_bin_gives_back_the_chunk_that_came_last(void **state)
{
    struct smm_tlsf index;

    (void)state;
    memset(&index, 0, sizeof index);
    for (unsigned i = 0; i < 10; i++) {
        chunk_init(&chunks[i], 64);
        smm_tlsf_insert(&index, &chunks[i]);
    }
    smm_tlsf_remove(&index, &chunks[5]);
    smm_tlsf_remove(&index, &chunks[9]);
    smm_tlsf_remove(&index, &chunks[0]);
    assert_int_equal(smm_tlsf_verify(&index), 0);
    for (unsigned i = 9; i-- > 1;)
        if (i != 5)
            assert_ptr_equal(smm_tlsf_take(&index, 64), &chunks[i]);
    assert_null(smm_tlsf_take(&index, 64));
}

static void verify_finds_what_does_not_fit_together(void **state)
{
    struct smm_tlsf index;
    struct smm_free_chunk a, b;

    (void)state;
    memset(&index, 0, sizeof index);
    chunk_init(&a, 256);
    chunk_init(&b, 256);
    smm_tlsf_insert(&index, &a);
    smm_tlsf_insert(&index, &b);
    assert_int_equal(smm_tlsf_verify(&index), 0);

    index.levels ^= 1;
    assert_int_not_equal(smm_tlsf_verify(&index), 0);
    index.levels ^= 1;
    index.bins[4] ^= 2;
    assert_int_not_equal(smm_tlsf_verify(&index), 0);
    index.bins[4] ^= 2;
    a.prev = NULL;
    assert_int_not_equal(smm_tlsf_verify(&index), 0);
    a.prev = &b;
    a.size = 256 + 16;
    assert_int_not_equal(smm_tlsf_verify(&index), 0);
    a.size = SIZE_LEAST - 1;
    assert_int_not_equal(smm_tlsf_verify(&index), 0);
    a.size = 256;
    assert_int_equal(smm_tlsf_verify(&index), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_index_has_nothing_for_any_size),
        cmocka_unit_test(a_chunk_is_found_by_every_size_that_its_bin_serves),
        cmocka_unit_test(the_chunk_of_the_same_size_comes_before_larger_ones),
        cmocka_unit_test(a_bin_gives_back_the_chunk_that_came_last),
        cmocka_unit_test(random_operations_agree_with_a_plain_array),
        cmocka_unit_test(verify_finds_what_does_not_fit_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
