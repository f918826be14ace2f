/* SPDX-License-Identifier: MIT */
/* test_verify.c - verify finds damage. Each case plants one fault in a child process, in a heap that has blocks
 * of every kind and state; verify there has to return a line and to print one.
 *
 * A case that cannot find what it means to damage ends its child with another status, and fails. */
#include "control/verify.h"

#include "base/bits.h"
#include "entry/fast.h"
#include "heap/collect.h"
#include "large/large.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "small/foreign_free.h"
#include "unit.h"

enum { FOUND = 0, MISSED = 40, NOT_ONE_LINE = 41, NOT_PLANTED = 42, FAULT_AT_START = 43, LOG_SIZE = 4096 };

/* ---- The heap to damage ---- */

static struct {
    char *small[40];   /* of 64 bytes, the odd ones freed again */
    char *full[8];     /* of 8 KiB: a full page */
    char *foreign[20]; /* of 96 bytes, half of them freed by another thread */
    char *emptied[70]; /* of 16 KiB, freed: free pages */
    char *medium[5];   /* the second and the fourth are freed */
    char *large;
    char *cached; /* freed */
} have;

static void *free_foreign(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < COUNT_OF(have.foreign); i += 2)
        smm_free(have.foreign[i]);
    return NULL;
}

static void fill_heap(void)
{
    for (unsigned i = 0; i < COUNT_OF(have.small); i++)
        have.small[i] = smm_malloc(64);
    for (unsigned i = 1; i < COUNT_OF(have.small); i += 2)
        smm_free(have.small[i]);
    for (unsigned i = 0; i < COUNT_OF(have.full); i++)
        have.full[i] = smm_malloc(8 * SMM_KIB);
    smm_free(smm_malloc(8 * SMM_KIB)); /* from the next page: now the first one is known to be full */
    for (unsigned i = 0; i < COUNT_OF(have.emptied); i++) {
        have.emptied[i] = smm_malloc(16 * SMM_KIB);
        memset(have.emptied[i], 0x5a, 16 * SMM_KIB);
    }
    for (unsigned i = 0; i < COUNT_OF(have.emptied); i++)
        smm_free(have.emptied[i]);
    for (unsigned i = 0; i < COUNT_OF(have.foreign); i++)
        have.foreign[i] = smm_malloc(96);
    for (unsigned i = 0; i < COUNT_OF(have.medium); i++)
        have.medium[i] = smm_malloc(100000);
    smm_free(have.medium[1]);
    smm_free(have.medium[3]);
    have.large = smm_malloc(3 * SMM_MIB);
    have.cached = smm_malloc(2 * SMM_MIB);
    smm_free(have.cached);
    /* Last, so that nothing drains it. */
    thread_end(thread_start(free_foreign, NULL));
}

/* ---- Damage: each returns false when it finds nothing to damage ---- */

static struct smm_small *my_small(void)
{
    return &smm_heap_self->small;
}

static struct smm_page *small_page(void)
{
    return smm_page_of(have.small[0]);
}

static struct smm_page *foreign_page(void)
{
    return smm_page_of(have.foreign[0]);
}

static struct smm_segment *segment(void)
{
    return smm_segment_of(have.small[0]);
}

static bool used_one_too_many(void)
{
    smm_own_add(&small_page()->used, 1);
    return true;
}

static bool used_one_too_few(void)
{
    smm_own_add(&small_page()->used, -1);
    return true;
}

static bool freed_twice(void)
{
    (void)smm_page_push(small_page(), have.small[0]);
    (void)smm_page_push(small_page(), have.small[2]);
    (void)smm_page_push(small_page(), have.small[0]);
    return true;
}

static bool link_of_a_freed_item_overwritten(void)
{
    struct smm_item *const item = (struct smm_item *)(void *)have.small[39];
    if (small_page()->local_free != item)
        return false;
    item->link = (struct smm_item *)(uintptr_t)0x4141414141414141u;
    return true;
}

static bool link_into_the_middle_of_an_item(void)
{
    struct smm_item *const item = small_page()->local_free;
    item->link = (struct smm_item *)(void *)((char *)item->link + 16);
    return true;
}

static bool link_to_another_page(void)
{
    small_page()->local_free->link = (struct smm_item *)(void *)have.full[0];
    return true;
}

static bool list_cut_short(void)
{
    if (small_page()->local_free->link == NULL)
        return false;
    small_page()->local_free->link = NULL;
    return true;
}

static bool list_in_a_circle(void)
{
    struct smm_item *const item = small_page()->local_free;
    item->link->link = item;
    return true;
}

static bool item_size_overwritten(void)
{
    small_page()->item_size = 80;
    return true;
}

static bool size_class_overwritten(void)
{
    small_page()->size_class = 200;
    return true;
}

static bool capacity_overwritten(void)
{
    small_page()->capacity--;
    return true;
}

static bool carved_overwritten(void)
{
    small_page()->carved++;
    return true;
}

static bool shared_class_of_another_use(void)
{
    smm_store_relaxed(&small_page()->shared_class, 7);
    return true;
}

static bool shared_capacity_of_another_use(void)
{
    smm_store_relaxed(&small_page()->shared_capacity, 7);
    return true;
}

static bool item_known_to_be_zero_is_not(void)
{
    /* The rest of a batch of fresh memory. */
    struct smm_page *const page = small_page();
    if (!page->free_is_zero || page->free == NULL)
        return false;
    ((char *)page->free)[60] = 1;
    return true;
}

static bool full_page_without_its_mark(void)
{
    struct smm_page *const page = smm_page_of(have.full[0]);
    if (smm_load_relaxed(&page->used) >= 0)
        return false;
    smm_store_relaxed(&page->used, smm_load_relaxed(&page->used) - SMM_PAGE_FULL);
    return true;
}

static bool page_with_items_marked_full(void)
{
    small_page()->listed = false;
    smm_store_relaxed(&small_page()->used, smm_load_relaxed(&small_page()->used) + SMM_PAGE_FULL);
    return true;
}

static bool last_page_of_a_class_forgotten(void)
{
    my_small()->classes[small_page()->size_class].last = smm_page_of(have.full[0]);
    return true;
}

static bool first_page_of_a_class_forgotten(void)
{
    my_small()->classes[small_page()->size_class].first = SMM_EMPTY_PAGE;
    return true;
}

static bool direct_entry_overwritten(void)
{
    my_small()->direct[64 / SMM_BLOCK_ALIGN] = SMM_EMPTY_PAGE;
    return true;
}

static bool page_in_the_list_of_another_class(void)
{
    struct smm_page *const page = foreign_page();
    my_small()->classes[small_page()->size_class].first = page;
    my_small()->classes[small_page()->size_class].last = page;
    my_small()->direct[64 / SMM_BLOCK_ALIGN] = page;
    return true;
}

static bool backward_link_of_a_page_overwritten(void)
{
    small_page()->prev = foreign_page();
    return true;
}

static bool foreign_list_not_queued(void)
{
    const uint64_t word = smm_load_relaxed(&foreign_page()->foreign);
    if (smm_foreign_count(word) == 0)
        return false;
    smm_store_relaxed(&foreign_page()->foreign, word & ~SMM_FOREIGN_QUEUED);
    return true;
}

static bool foreign_count_overwritten(void)
{
    const uint64_t word = smm_load_relaxed(&foreign_page()->foreign);
    smm_store_relaxed(&foreign_page()->foreign, word + ((uint64_t)1 << 32));
    return smm_foreign_count(word) != 0;
}

static bool more_foreign_items_than_used_ones(void)
{
    const uint64_t word = smm_load_relaxed(&foreign_page()->foreign);
    smm_store_relaxed(&foreign_page()->foreign,
                      smm_foreign_word(0, 0, 500) | SMM_FOREIGN_QUEUED | SMM_FOREIGN_PURGED);
    return smm_foreign_count(word) != 0;
}

static bool link_of_a_foreign_item_overwritten(void)
{
    ((struct smm_item *)(void *)have.foreign[2])->link = (struct smm_item *)(void *)have.foreign[4];
    return true;
}

static bool page_that_no_collector_works_on_busy(void)
{
    smm_store_relaxed(&foreign_page()->foreign, smm_load_relaxed(&foreign_page()->foreign) | SMM_FOREIGN_BUSY);
    return true;
}

static bool queued_page_that_says_it_is_not(void)
{
    if (smm_load_relaxed(&my_small()->notified) != foreign_page())
        return false;
    smm_store_relaxed(&foreign_page()->foreign, 0);
    return true;
}

static bool page_of_another_heap_queued(void)
{
    static struct smm_small other;
    struct smm_segment *elsewhere;

    elsewhere = smm_os_reserve(SMM_SLOT_SIZE, SMM_SLOT_SIZE);
    if (elsewhere == NULL || !smm_os_commit(elsewhere, SMM_PAGE_SIZE))
        return false;
    elsewhere->owner = &other;
    smm_store_relaxed(&elsewhere->pages[3].foreign, SMM_FOREIGN_QUEUED);
    elsewhere->pages[3].notified_next = smm_load_relaxed(&my_small()->notified);
    smm_store_relaxed(&my_small()->notified, &elsewhere->pages[3]);
    return true;
}

static bool segment_of_another_owner(void)
{
    segment()->owner = NULL;
    return true;
}

static bool descriptor_page_with_items(void)
{
    segment()->no_items = (uint32_t)-1;
    return true;
}

static bool page_free_twice(void)
{
    if (segment()->dirty == 0)
        return false;
    segment()->clean |= segment()->dirty & -segment()->dirty;
    return true;
}

static bool used_page_among_the_free_ones(void)
{
    segment()->clean |= (uint64_t)1 << smm_page_index(small_page());
    return true;
}

static bool free_pages_miscounted(void)
{
    smm_own_add(&my_small()->pool.dirty_count, 1);
    return true;
}

static bool clean_page_written_to(void)
{
    if (segment()->clean == 0)
        return false;
    *smm_page_memory(&segment()->pages[smm_bit_high(segment()->clean)]) = 1;
    return true;
}

static bool slot_struck_out_of_the_map(void)
{
    smm_segment_map_set(segment(), SMM_KIND_NONE);
    return true;
}

static struct smm_arena *arena(void)
{
    return smm_slot_base(have.medium[0]);
}

static struct smm_chunk *chunk_of(const char *block)
{
    return &arena()->chunks[(size_t)(block - (char *)arena()) / SMM_UNIT];
}

/* The node of the free chunk that begins at `block`. */
static struct smm_free_chunk *node_of(const char *block)
{
    return &arena()->free_chunks[((size_t)(block - (char *)arena()) / SMM_UNIT + SMM_CHUNK_LEAST - 1) / SMM_CHUNK_LEAST];
}

static bool size_of_a_chunk_overwritten(void)
{
    smm_store_relaxed(&chunk_of(have.medium[2])->size_flags, 0xfff0);
    return true;
}

static bool size_of_a_chunk_zero(void)
{
    smm_store_relaxed(&chunk_of(have.medium[2])->size_flags, 0);
    return true;
}

static bool told_size_of_a_chunk_overwritten(void)
{
    chunk_of(have.medium[2])->prev_size++;
    return true;
}

static bool free_chunks_side_by_side(void)
{
    smm_own_add(&chunk_of(have.medium[2])->size_flags, SMM_CHUNK_FREE);
    return true;
}

static bool live_looking_tag_inside_of_a_chunk(void)
{
    smm_store_relaxed(&chunk_of(have.medium[2])[3].size_flags, 20 << SMM_CHUNK_SIZE_SHIFT);
    return true;
}

static bool live_chunks_miscounted(void)
{
    arena()->live++;
    return true;
}

static bool top_overwritten(void)
{
    arena()->top++;
    return true;
}

static bool size_below_the_top_overwritten(void)
{
    arena()->chunks[arena()->top].prev_size++;
    return true;
}

static bool arena_of_another_owner(void)
{
    arena()->owner = NULL;
    return true;
}

static bool untouched_memory_written_to(void)
{
    memset((char *)arena() + SMM_SLOT_SIZE - SMM_PAGE_SIZE, 1, SMM_PAGE_SIZE);
    return true;
}

static bool free_chunk_out_of_its_bin(void)
{
    struct smm_tlsf *const index = &smm_heap_self->medium.index;
    for (unsigned level = 0; level < SMM_TLSF_LEVELS; level++)
        for (unsigned bin = 0; bin < SMM_TLSF_BINS; bin++)
            if (index->first[level][bin] != NULL) {
                index->first[level][bin] = NULL;
                return true;
            }
    return false;
}

static bool links_of_a_free_chunk_overwritten(void)
{
    node_of(have.medium[1])->prev = node_of(have.medium[0]);
    node_of(have.medium[3])->prev = node_of(have.medium[0]);
    return true;
}

static bool size_in_a_node_overwritten(void)
{
    node_of(have.medium[1])->size++;
    return true;
}

static bool free_chunk_that_says_it_is_not(void)
{
    smm_own_add(&chunk_of(have.medium[1])->size_flags, -SMM_CHUNK_FREE);
    return true;
}

static struct smm_large *large_of(char *block)
{
    return (struct smm_large *)(void *)(block - sizeof(struct smm_large));
}

static bool mark_of_a_large_block_overwritten(void)
{
    smm_store_relaxed(&large_of(have.large)->mark, 0);
    return true;
}

static bool mark_of_a_cached_block_overwritten(void)
{
    smm_store_relaxed(&large_of(have.cached)->mark, 0);
    return true;
}

static bool large_block_beyond_its_memory(void)
{
    large_of(have.large)->usable = large_of(have.large)->writable;
    return true;
}

static bool more_writable_than_reserved(void)
{
    large_of(have.large)->reserved = SMM_MIB;
    return true;
}

static bool more_dirty_than_writable(void)
{
    large_of(have.large)->dirty = large_of(have.large)->writable + 1;
    return true;
}

static bool large_blocks_miscounted(void)
{
    smm_add_relaxed(&smm_large_usage.live_blocks, 1);
    return true;
}

static bool large_bytes_miscounted(void)
{
    smm_add_relaxed(&smm_large_usage.live_bytes, 1);
    return true;
}

static bool second_slot_without_a_first(void)
{
    char *const slot = smm_slot_base(have.large);
    if (smm_kind_of(slot + SMM_SLOT_SIZE) != SMM_KIND_NONE)
        return false;
    smm_segment_map_set(slot, SMM_KIND_NONE);
    smm_segment_map_set(slot + SMM_SLOT_SIZE, SMM_KIND_LARGE_NEXT);
    return true;
}

/* ---- Running them ---- */

/* Runs in the child, which ends with what it found. */
static void damage_and_verify(bool (*plant)(void))
{
    char log[LOG_SIZE];
    int output[2];
    size_t lines = 0;

    if (pipe(output) != 0)
        _exit(NOT_PLANTED);
    if (smm_verify() != 0)
        _exit(FAULT_AT_START);
    if (!plant())
        _exit(NOT_PLANTED);
    if (dup2(output[1], STDERR_FILENO) < 0)
        _exit(NOT_PLANTED);
    close(output[1]);
    const int line = smm_verify();
    close(STDERR_FILENO);
    const ssize_t length = read(output[0], log, sizeof log - 1);
    log[length > 0 ? length : 0] = 0;
    for (const char *at = log; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    if (line == 0)
        _exit(MISSED);
    char end[64];
    snprintf(end, sizeof end, " does not hold, line %d\n", line);
    if (lines != 1 || strncmp(log, "shardmm: verify: ", 17) != 0 || strstr(log, end) == NULL)
        _exit(NOT_ONE_LINE);
    _exit(FOUND);
}

struct damage {
    const char *name;
    bool (*plant)(void);
};

static void damage_is_found(void **state)
{
    const struct damage *const damage = *state;
    int status = 0;
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        damage_and_verify(damage->plant);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("verify crashed with status 0x%x", (unsigned)status);
    switch (WEXITSTATUS(status)) {
    case FOUND:
        break;
    case MISSED:
        fail_msg("verify found nothing");
        break;
    case NOT_ONE_LINE:
        fail_msg("verify did not print one line");
        break;
    case NOT_PLANTED:
        fail_msg("there was nothing to damage");
        break;
    case FAULT_AT_START:
        fail_msg("verify found a fault before the damage");
        break;
    default:
        fail_msg("the child ended with status %d", WEXITSTATUS(status));
    }
}

static void a_sound_heap_has_no_fault(void **state)
{
    (void)state;
    assert_int_equal(smm_verify(), 0);
}

static void a_sound_heap_stays_so_when_memory_goes_back(void **state)
{
    (void)state;
    (void)smm_heap_flush(smm_heap_self);
    assert_int_equal(smm_verify(), 0);
    (void)smm_purge();
    assert_int_equal(smm_verify(), 0);
}

static int setup(void **state)
{
    (void)state;
    fill_heap();
    return 0;
}

int main(void)
{
#define DAMAGE(function) {#function, function}
    static const struct damage damages[] = {
        DAMAGE(used_one_too_many),
        DAMAGE(used_one_too_few),
        DAMAGE(freed_twice),
        DAMAGE(link_of_a_freed_item_overwritten),
        DAMAGE(link_into_the_middle_of_an_item),
        DAMAGE(link_to_another_page),
        DAMAGE(list_cut_short),
        DAMAGE(list_in_a_circle),
        DAMAGE(item_size_overwritten),
        DAMAGE(size_class_overwritten),
        DAMAGE(capacity_overwritten),
        DAMAGE(carved_overwritten),
        DAMAGE(shared_class_of_another_use),
        DAMAGE(shared_capacity_of_another_use),
        DAMAGE(item_known_to_be_zero_is_not),
        DAMAGE(full_page_without_its_mark),
        DAMAGE(page_with_items_marked_full),
        DAMAGE(last_page_of_a_class_forgotten),
        DAMAGE(first_page_of_a_class_forgotten),
        DAMAGE(direct_entry_overwritten),
        DAMAGE(page_in_the_list_of_another_class),
        DAMAGE(backward_link_of_a_page_overwritten),
        DAMAGE(foreign_list_not_queued),
        DAMAGE(foreign_count_overwritten),
        DAMAGE(more_foreign_items_than_used_ones),
        DAMAGE(link_of_a_foreign_item_overwritten),
        DAMAGE(page_that_no_collector_works_on_busy),
        DAMAGE(queued_page_that_says_it_is_not),
        DAMAGE(page_of_another_heap_queued),
        DAMAGE(segment_of_another_owner),
        DAMAGE(descriptor_page_with_items),
        DAMAGE(page_free_twice),
        DAMAGE(used_page_among_the_free_ones),
        DAMAGE(free_pages_miscounted),
        DAMAGE(clean_page_written_to),
        DAMAGE(slot_struck_out_of_the_map),
        DAMAGE(size_of_a_chunk_overwritten),
        DAMAGE(size_of_a_chunk_zero),
        DAMAGE(told_size_of_a_chunk_overwritten),
        DAMAGE(free_chunks_side_by_side),
        DAMAGE(live_looking_tag_inside_of_a_chunk),
        DAMAGE(live_chunks_miscounted),
        DAMAGE(top_overwritten),
        DAMAGE(size_below_the_top_overwritten),
        DAMAGE(arena_of_another_owner),
        DAMAGE(untouched_memory_written_to),
        DAMAGE(free_chunk_out_of_its_bin),
        DAMAGE(links_of_a_free_chunk_overwritten),
        DAMAGE(size_in_a_node_overwritten),
        DAMAGE(free_chunk_that_says_it_is_not),
        DAMAGE(mark_of_a_large_block_overwritten),
        DAMAGE(mark_of_a_cached_block_overwritten),
        DAMAGE(large_block_beyond_its_memory),
        DAMAGE(more_writable_than_reserved),
        DAMAGE(more_dirty_than_writable),
        DAMAGE(large_blocks_miscounted),
        DAMAGE(large_bytes_miscounted),
        DAMAGE(second_slot_without_a_first),
    };
#undef DAMAGE
    struct CMUnitTest tests[COUNT_OF(damages) + 2];
    struct damage cases[COUNT_OF(damages)];

    memcpy(cases, damages, sizeof cases);
    memset(tests, 0, sizeof tests);
    tests[0].name = "a_sound_heap_has_no_fault";
    tests[0].test_func = a_sound_heap_has_no_fault;
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        tests[i + 1].name = cases[i].name;
        tests[i + 1].test_func = damage_is_found;
        tests[i + 1].initial_state = &cases[i];
    }
    tests[COUNT_OF(damages) + 1].name = "a_sound_heap_stays_so_when_memory_goes_back";
    tests[COUNT_OF(damages) + 1].test_func = a_sound_heap_stays_so_when_memory_goes_back;
    return cmocka_run_group_tests(tests, setup, NULL);
}
