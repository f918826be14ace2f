/* SPDX-License-Identifier: MIT */
#include "control/verify.h"

#include "base/bits.h"
#include "base/text.h"
#include "heap/heap.h"
#include "large/large.h"
#include "platform/platform.h"
#include "segment/segment_map.h"
#include "small/foreign_free.h"

/* Every check names its line: a fault is found by looking there. */
#define HOLDS(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition))                                                                                 \
            return __LINE__;                                                                              \
    } while (0)

/* The number of items of a list that lie in `page` at multiples of its item size, or -1. Items that were
 * cut and are zero but for the link (P6) are checked to be so. */
static int list_length(const struct smm_page *page, const struct smm_item *item, bool zero)
{
    const uintptr_t memory = (uintptr_t)smm_page_memory(page);
    int length = 0;

    for (; item != NULL; item = item->link) {
        const uintptr_t offset = (uintptr_t)item - memory;
        if (offset >= (size_t)page->carved * page->item_size || offset % page->item_size != 0)
            return -1;
        if (zero)
            for (size_t i = 1; i < page->item_size / sizeof(uint64_t); i++)
                if (((const uint64_t *)(const void *)item)[i] != 0)
                    return -1;
        if (++length > (int)page->capacity)
            return -1;
    }
    return length;
}

/* The foreign word's list, which ends at its tail (F2). */
static int foreign_length(const struct smm_page *page, uint64_t word)
{
    const unsigned count = smm_foreign_count(word);
    const struct smm_item *item = smm_foreign_item(page, smm_foreign_head(word));

    if (word & SMM_FOREIGN_PURGED)
        return (int)count;
    for (unsigned i = 1; i < count; i++) {
        if (smm_page_of(item) != page)
            return -1;
        item = item->link;
    }
    return count == 0 || item == smm_foreign_item(page, smm_foreign_tail(word)) ? (int)count : -1;
}

static int verify_used_page(const struct smm_page *page)
{
    const uint64_t word = smm_load_relaxed(&page->foreign);
    const uint32_t used = smm_page_used(page);
    const int free_items = list_length(page, page->free, page->free_is_zero);
    const int local_items = list_length(page, page->local_free, false);
    const int foreign_items = foreign_length(page, word);

    HOLDS(page->size_class < SMM_CLASS_COUNT);
    HOLDS(page->item_size == smm_class_size(page->size_class));
    HOLDS(page->capacity == SMM_PAGE_SIZE / page->item_size && page->carved <= page->capacity);
    HOLDS(smm_load_relaxed(&page->shared_class) == page->size_class);
    HOLDS(smm_load_relaxed(&page->shared_capacity) == page->capacity);
    HOLDS(free_items >= 0 && local_items >= 0 && foreign_items >= 0);
    HOLDS(used + (uint32_t)free_items + (uint32_t)local_items == page->carved);              /* P2 */
    HOLDS(used >= (uint32_t)foreign_items);                                                  /* F3 */
    HOLDS(foreign_items == 0 || (word & SMM_FOREIGN_QUEUED) != 0);                           /* F1 */
    HOLDS((smm_load_relaxed(&page->used) < 0) == !page->listed);                             /* P4 */
    HOLDS(!smm_load_relaxed(&page->kept) ||
          (page->listed && page->next == NULL && page->prev == NULL));                       /* P5 */
    HOLDS(page->listed || (free_items == 0 && local_items == 0 && page->carved == page->capacity));
    HOLDS((word & SMM_FOREIGN_BUSY) == 0);
    return 0;
}

static int verify_segment(const struct smm_small *small, const struct smm_segment *segment)
{
    HOLDS(segment->owner == small && segment->no_items == 0);
    HOLDS(smm_kind_of(segment) == SMM_KIND_SMALL);
    HOLDS((segment->dirty & segment->clean) == 0 && ((segment->dirty | segment->clean) & 1) == 0);
    for (unsigned i = 1; i < SMM_PAGE_COUNT; i++) {
        const struct smm_page *const page = &segment->pages[i];
        const uint64_t bit = (uint64_t)1 << i;
        if ((segment->dirty | segment->clean) & bit) {
            HOLDS(smm_load_relaxed(&page->used) == 0 && smm_load_relaxed(&page->foreign) == 0);
            HOLDS(!page->listed);
            if (segment->clean & bit)
                for (size_t at = 0; at < SMM_PAGE_SIZE; at += SMM_PAGE_SIZE / 4)
                    HOLDS(*(const uint64_t *)(const void *)(smm_page_memory(page) + at) == 0);
        } else {
            const int line = verify_used_page(page);
            if (line != 0)
                return line;
        }
    }
    return 0;
}

static int verify_class(const struct smm_small *small, unsigned size_class)
{
    const struct smm_class_list *const list = &small->classes[size_class];
    const struct smm_page *before = NULL;
    const size_t size = smm_class_size(size_class);

    if (size <= SMM_DIRECT_MAX)
        HOLDS(small->direct[size / SMM_BLOCK_ALIGN] == list->first);
    if (list->first == SMM_EMPTY_PAGE) {
        HOLDS(list->last == SMM_EMPTY_PAGE);
        return 0;
    }
    for (const struct smm_page *page = list->first; page != NULL; page = page->next) {
        HOLDS(page->listed && page->prev == before && page->size_class == size_class);
        HOLDS(page->borrowed || smm_segment_of(page)->owner == small);
        before = page;
    }
    HOLDS(list->last == before);
    return 0;
}

static int verify_heap(struct smm_heap *heap)
{
    const struct smm_small *const small = &heap->small;
    int line = 0;
    uint32_t dirty = 0;

    /* A heap whose thread is not in this process may stand in the middle of a step. */
    if (smm_heap_state(heap) == SMM_HEAP_ORPHAN)
        return 0;
    for (unsigned i = 0; i < SMM_CLASS_COUNT && line == 0; i++)
        line = verify_class(small, i);
    for (const struct smm_segment *segment = smm_load_acquire(&small->pool.segments); segment != NULL && line == 0;
         segment = segment->older) {
        line = verify_segment(small, segment);
        dirty += smm_bit_count(segment->dirty);
    }
    if (line == 0)
        HOLDS(dirty == smm_load_relaxed(&small->pool.dirty_count));
    for (const struct smm_page *page = smm_load_acquire(&small->notified); page != NULL && line == 0;
         page = page->notified_next) {
        HOLDS(smm_segment_of(page)->owner == small);
        HOLDS((smm_load_relaxed(&page->foreign) & SMM_FOREIGN_QUEUED) != 0); /* F1 */
    }
    return line != 0 ? line : smm_medium_verify(&heap->medium);
}

static int report(const char *where, int line)
{
    struct smm_text text;

    if (line == 0)
        return 0;
    smm_text_clear(&text);
    smm_text_string(&text, "shardmm: verify: an invariant of ");
    smm_text_string(&text, where);
    smm_text_string(&text, " does not hold, line ");
    smm_text_unsigned(&text, (uint64_t)line);
    smm_text_string(&text, "\n");
    smm_os_write(SMM_OS_STDERR, text.bytes, text.length);
    return line;
}

int smm_verify(void)
{
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next) {
        const int line = verify_heap(heap);
        if (line != 0)
            return report("a heap", line);
    }
    return report("a large block", smm_large_verify());
}
