/* SPDX-License-Identifier: MIT */
#include "entry/slow.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/text.h"
#include "control/options.h"
#include "control/start.h"
#include "entry/fast.h"
#include "heap/collect.h"
#include "large/large.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "platform/report.h"
#include "segment/account.h"

/* ---- Allocating ---- */

static SMM_COLD void *out_of_memory(size_t size)
{
    smm_account_failure();
    if (smm_option_verbose() >= 2) {
        struct smm_text line;
        smm_text_clear(&line);
        smm_text_string(&line, "shardmm: no memory for ");
        smm_text_unsigned(&line, size);
        smm_text_string(&line, " bytes\n");
        smm_os_write(SMM_OS_STDERR, line.bytes, line.length);
    }
    errno = ENOMEM;
    return NULL;
}

static void *small_alloc(unsigned size_class, size_t zero_bytes)
{
    struct smm_heap *const heap = smm_heap_enter();
    struct smm_page *page;
    void *item = NULL;

    if (heap == NULL)
        return NULL;
    page = smm_small_find_page(&heap->small, size_class);
    if (page != NULL)
        item = zero_bytes != 0 ? smm_page_pop_zero(page, zero_bytes) : smm_page_pop(page);
    smm_tick_sometimes(heap);
    smm_heap_leave(heap);
    return item;
}

static void *medium_alloc(size_t size, size_t alignment, size_t *dirty)
{
    struct smm_heap *const heap = smm_heap_enter();
    void *block;

    if (heap == NULL)
        return NULL;
    block = smm_medium_alloc(&heap->medium, size, alignment, dirty);
    smm_tick_sometimes(heap);
    smm_heap_leave(heap);
    return block;
}

static void *large_alloc(size_t size, size_t alignment, size_t *dirty)
{
    smm_tick();
    return smm_large_alloc(size, alignment, dirty);
}

/* A block of any kind, its first `zero_bytes` bytes zero. */
static void *alloc_once(size_t size, size_t alignment, size_t zero_bytes)
{
    size_t dirty = 0;
    void *block;

    if (size <= SMM_SMALL_MAX && alignment <= SMM_SMALL_MAX) {
        const unsigned size_class =
            alignment <= SMM_BLOCK_ALIGN ? smm_class_of(size) : smm_class_of_aligned(size, alignment);
        if (size_class < SMM_CLASS_COUNT)
            return small_alloc(size_class, zero_bytes);
    }
    if (size <= SMM_MEDIUM_MAX && alignment <= SMM_MEDIUM_ALIGN_MAX)
        block = medium_alloc(size, alignment, &dirty);
    else
        block = large_alloc(size, alignment, &dirty);
    if (block != NULL && zero_bytes != 0)
        memset(block, 0, dirty < zero_bytes ? dirty : zero_bytes);
    return block;
}

static void *alloc(size_t size, size_t alignment, size_t zero_bytes)
{
    void *block;

    /* Room for a header, for rounding and for the alignment is then there without wrapping. */
    if (SMM_UNLIKELY(size > PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX / 2 || !smm_start()))
        return out_of_memory(size);
    block = alloc_once(size, alignment, zero_bytes);
    if (SMM_UNLIKELY(block == NULL)) {
        /* What is kept for later may be what is missing now. */
        if (smm_purge() != 0)
            block = alloc_once(size, alignment, zero_bytes);
        if (block == NULL)
            return out_of_memory(size);
    }
    return block;
}

static SMM_NOINLINE void *malloc_slower(size_t size)
{
    return alloc(size, SMM_BLOCK_ALIGN, 0);
}

/* Most misses: the page has items, but they were freed since its list was last taken. */
void *smm_malloc_slow(size_t size)
{
    if (SMM_LIKELY(size <= SMM_SMALL_MAX)) {
        struct smm_heap *const heap = smm_heap_self;
        struct smm_page *const page = heap->small.classes[smm_class_of(size)].first;
        /* Now and then the long way, which looks at the clock. */
        if (SMM_LIKELY(page->free == NULL && (heap->slow_paths & 255) != 255 && smm_page_refill(page))) {
            heap->slow_paths++;
            return smm_page_pop(page);
        }
    }
    return malloc_slower(size);
}

void *smm_calloc_slow(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return out_of_memory(SIZE_MAX);
    return alloc(bytes, SMM_BLOCK_ALIGN, bytes);
}

void *smm_aligned(size_t alignment, size_t size)
{
    return alloc(size, alignment < SMM_BLOCK_ALIGN ? SMM_BLOCK_ALIGN : alignment, 0);
}

/* ---- Freeing ---- */

static const char *kind_name(enum smm_kind kind)
{
    switch (kind) {
    case SMM_KIND_SMALL:
        return "small";
    case SMM_KIND_MEDIUM:
        return "medium";
    case SMM_KIND_LARGE:
    case SMM_KIND_LARGE_NEXT:
        return "large";
    case SMM_KIND_NONE:
    case SMM_KIND_COUNT:
        break;
    }
    return NULL;
}

/* What the structures say of an address in a small segment; nothing about whether the item is handed out. */
static enum smm_fault small_check(const void *block)
{
    const struct smm_page *const page = smm_page_of(block);
    const size_t offset = (uintptr_t)block & (SMM_PAGE_SIZE - 1);

    if (smm_page_index(page) == 0)
        return SMM_FAULT_INTERIOR;
    if (page->item_size == 0)
        return SMM_FAULT_UNKNOWN;
    if (offset % page->item_size != 0 || offset / page->item_size >= page->capacity)
        return SMM_FAULT_INTERIOR;
    return SMM_FAULT_NONE;
}

/* The usable size of the block that something is wrong with, or 0 where it is not known: a medium chunk that was freed
 * may be part of another by now, and what is known of it may have been overwritten. */
static size_t known_size(const void *block, enum smm_kind kind, enum smm_fault fault)
{
    switch (kind) {
    case SMM_KIND_SMALL:
        return fault == SMM_FAULT_FREED ? smm_class_size(smm_load_relaxed(&smm_page_of(block)->shared_class)) : 0;
    case SMM_KIND_LARGE:
    case SMM_KIND_LARGE_NEXT:
        return smm_large_known_size(block);
    case SMM_KIND_MEDIUM:
        return fault == SMM_FAULT_INTERIOR ? smm_medium_known_size(block) : 0;
    case SMM_KIND_NONE:
    case SMM_KIND_COUNT:
        break;
    }
    return 0;
}

static enum smm_fault small_free_foreign(struct smm_heap *mine, void *block)
{
    enum smm_fault fault = SMM_FAULT_NONE;

    if (((uintptr_t)block & (SMM_BLOCK_ALIGN - 1)) != 0 || smm_page_index(smm_page_of(block)) == 0)
        fault = SMM_FAULT_INTERIOR;
    if (fault == SMM_FAULT_NONE)
        fault = smm_small_free_foreign(mine != NULL ? &mine->small : NULL, smm_page_of(block), block);
    if (mine != NULL)
        smm_tick_sometimes(mine);
    return fault;
}

void smm_free_slow(void *block, const char *call)
{
    if (block == NULL)
        return;
    const enum smm_kind kind = smm_kind_of(block);
    /* A thread that frees what others made will make its own: its heap is born now, to know where it may borrow. */
    struct smm_heap *const mine = kind == SMM_KIND_SMALL || kind == SMM_KIND_MEDIUM ? smm_heap_own() : NULL;
    enum smm_fault fault = SMM_FAULT_NONE;

    switch (kind) {
    case SMM_KIND_SMALL:
        if (mine != NULL && smm_segment_of(block)->owner == &mine->small) {
            /* It was forgotten for another one, and is known again. */
            smm_small_learn(&mine->small, block);
            smm_free_as(block, call);
            return;
        }
        fault = small_free_foreign(mine, block);
        break;
    case SMM_KIND_MEDIUM:
        fault = smm_medium_free(mine != NULL ? &mine->medium : NULL, block);
        if (mine != NULL)
            smm_tick_sometimes(mine);
        break;
    case SMM_KIND_LARGE:
    case SMM_KIND_LARGE_NEXT:
        fault = smm_large_free(block);
        smm_tick();
        break;
    case SMM_KIND_NONE:
    case SMM_KIND_COUNT:
        fault = SMM_FAULT_UNKNOWN;
        break;
    }
    if (SMM_UNLIKELY(fault != SMM_FAULT_NONE))
        smm_report_misuse(call, block, fault, kind_name(kind), known_size(block, kind, fault));
}

void smm_free_rare(struct smm_page *page, void *block, const char *call)
{
    struct smm_heap *const heap = smm_heap_self;

    if (SMM_UNLIKELY(smm_small_free_rare(&heap->small, page) != SMM_FAULT_NONE)) {
        /* More was freed than the page has given out: this block, if it is one. */
        const enum smm_fault fault = small_check(block);
        smm_report_misuse(call, block, fault != SMM_FAULT_NONE ? fault : SMM_FAULT_FREED, "small", page->item_size);
    }
    smm_tick_sometimes(heap);
}

void smm_free_check(void *block, const char *call)
{
    const struct smm_page *const page = smm_page_of(block);
    enum smm_fault fault = small_check(block);

    if (fault == SMM_FAULT_NONE) {
        /* A block that was freed a moment ago is near the head of its list. */
        const struct smm_item *item = page->local_free;
        for (unsigned i = 0; i < 64 && item != NULL; i++, item = item->link)
            if (item == block)
                fault = SMM_FAULT_FREED;
    }
    if (fault != SMM_FAULT_NONE)
        smm_report_misuse(call, block, fault, "small", page->item_size);
}

void smm_free_sized_check(void *block, size_t alignment, size_t size, const char *call)
{
    const size_t usable = smm_usable_size(block, call);
    /* A block that realloc left in its place has up to four times what it is asked for, and one that it moved
     * has headroom. */
    const bool fits = size <= usable && (usable == SMM_BLOCK_ALIGN || usable / 4 <= size + alignment);

    if (block != NULL && (!fits || ((uintptr_t)block & (alignment - 1)) != 0))
        smm_report_misuse(call, block, SMM_FAULT_SIZE, kind_name(smm_kind_of(block)), usable);
}

/* ---- Sizes ---- */

size_t smm_usable_size(const void *block, const char *call)
{
    const enum smm_kind kind = smm_kind_of(block);
    enum smm_fault fault = SMM_FAULT_NONE;
    size_t size = 0;

    switch (kind) {
    case SMM_KIND_SMALL:
        fault = small_check(block);
        size = smm_page_of(block)->item_size;
        break;
    case SMM_KIND_MEDIUM:
        size = smm_medium_usable(block, &fault);
        break;
    case SMM_KIND_LARGE:
    case SMM_KIND_LARGE_NEXT:
        size = smm_large_usable(block, &fault);
        break;
    case SMM_KIND_NONE:
    case SMM_KIND_COUNT:
        fault = block == NULL ? SMM_FAULT_NONE : SMM_FAULT_UNKNOWN;
        break;
    }
    if (fault != SMM_FAULT_NONE)
        smm_report_misuse(call, block, fault, kind_name(kind), known_size(block, kind, fault));
    return size;
}

size_t smm_good_size(size_t size)
{
    if (size > PTRDIFF_MAX)
        return 0;
    if (size <= SMM_SMALL_MAX)
        return smm_class_size(smm_class_of(size));
    if (size <= SMM_MEDIUM_MAX)
        return smm_medium_good_size(size);
    const size_t good = smm_large_good_size(size);
    return good <= PTRDIFF_MAX ? good : 0;
}
