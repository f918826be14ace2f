/* SPDX-License-Identifier: MIT */
/* fast.h - the paths that most calls take: a small block, of the calling thread's heap, of a page that has
 * an item at hand. They are inline, so that each exported name is such a path and no jump to one. What they
 * cannot do goes to slow.h in a tail call.
 *
 *     malloc   size <= 2 KiB -> heap->direct[] -> page->free -> pop           -.
 *              size <= 16 KiB -> class table -> classes[] -> page->free -> pop  +-> smm_malloc_slow
 *     free     segment is known as this heap's -> push -> used > 0             -+-> smm_free_slow
 *     realloc  the same, new size within the class and at least a quarter of it -> smm_realloc_slow
 *     calloc   as malloc, then clear what is not known to be zero              -'-> smm_calloc_slow
 */
#ifndef SMM_ENTRY_FAST_H
#define SMM_ENTRY_FAST_H

#include <string.h>

#include "base/bits.h"
#include "entry/slow.h"
#include "heap/heap.h"
#include "segment/segment_map.h"

/* `slow` is a constant: what a miss goes to. */
SMM_INLINE void *smm_malloc_or(size_t size, void *(*slow)(size_t))
{
    struct smm_heap *const heap = smm_heap_self;
    struct smm_page *page;

    /* The size is compared before 15 is added, which could wrap. */
    if (SMM_LIKELY(size <= SMM_DIRECT_MAX))
        page = heap->small.direct[(size + SMM_BLOCK_ALIGN - 1) >> SMM_BLOCK_SHIFT];
    else if (size <= SMM_SMALL_MAX)
        page = heap->small.classes[smm_class_of(size)].first;
    else
        return slow(size);
    if (SMM_LIKELY(page->free != NULL))
        return smm_page_pop(page);
    return slow(size);
}

SMM_INLINE void *smm_malloc(size_t size)
{
    return smm_malloc_or(size, smm_malloc_slow);
}

/* A small block that is known to be zero but for its link, or cleared here: whole units of 16 bytes, as items are. */
SMM_INLINE void *smm_page_pop_zero(struct smm_page *page, size_t size)
{
    const bool zero = page->free_is_zero;
    struct smm_item *const item = smm_page_pop(page);

    if (zero)
        item->link = NULL;
    else
        memset(item, 0, smm_align_up(size, SMM_BLOCK_ALIGN));
    return item;
}

SMM_INLINE void *smm_calloc(size_t count, size_t size)
{
    struct smm_heap *const heap = smm_heap_self;
    size_t bytes;

    if (SMM_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)) || bytes > SMM_SMALL_MAX)
        return smm_calloc_slow(count, size);
    struct smm_page *const page = heap->small.classes[smm_class_of(bytes)].first;
    if (SMM_UNLIKELY(page->free == NULL))
        return smm_calloc_slow(count, size);
    return smm_page_pop_zero(page, bytes);
}

/* `call` is a constant: the name that a report gives. */
SMM_INLINE void smm_free_as(void *block, const char *call)
{
    if (SMM_UNLIKELY(!smm_small_knows(&smm_heap_self->small, block))) {
        smm_free_slow(block, call);
        return;
    }
    struct smm_page *const page = smm_page_of(block);
#if SMM_CHECKS >= 1
    smm_free_check(block, call);
#endif
    if (SMM_UNLIKELY(smm_page_push(page, block) <= 0))
        smm_free_rare(page, block, call);
}

SMM_INLINE void smm_free(void *block)
{
    smm_free_as(block, "free");
}

SMM_INLINE void *smm_realloc(void *block, size_t size)
{
    if (SMM_LIKELY(smm_small_knows(&smm_heap_self->small, block)) && SMM_LIKELY(smm_page_fits(smm_page_of(block), size)))
        return block;
    return smm_realloc_slow(block, size);
}

#endif
