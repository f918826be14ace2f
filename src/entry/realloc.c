/* SPDX-License-Identifier: MIT */
/* realloc.c - resizing what does not stay where it is by the fast path.
 *
 *     small    in place within the class and not below a quarter of it, whoever owns it
 *     medium   in place when it shrinks, and when it grows into free memory behind it
 *     large    in place within its reservation, else by moving pages
 *     else     a new block, a copy, and the old one freed
 *
 * A block that moves because it grew a little will grow again: it gets headroom, so that appending moves it
 * O(log n) times. One that grew by half or more is in the hands of somebody who does that himself.
 */
#include <errno.h>
#include <string.h>

#include "control/start.h"
#include "entry/fast.h"
#include "large/large.h"
#include "platform/report.h"

static size_t headroom(size_t before, size_t size)
{
    if (size <= before || size - before >= before / 2)
        return 0;
    if (size <= SMM_SMALL_MAX)
        return size / 2 + 32;
    return size <= SMM_MEDIUM_MAX ? size / 4 : size / 16;
}

/* The old block stays as it was when there is no memory. */
static void *move(void *block, size_t before, size_t size)
{
    const size_t extra = headroom(before, size);
    void *to = NULL;

    if (extra != 0) {
        const int saved = errno;
        to = smm_malloc(size + extra);
        if (to == NULL)
            errno = saved;
    }
    if (to == NULL)
        to = smm_malloc(size);
    if (to == NULL)
        return NULL;
    memcpy(to, block, before < size ? before : size);
    smm_free(block);
    return to;
}

/* The new address of a medium or large block that was resized as it is, or NULL. */
static void *resize(void *block, size_t before, size_t size, enum smm_kind kind)
{
    enum smm_fault fault = SMM_FAULT_NONE;
    void *result = NULL;

    if (kind == SMM_KIND_MEDIUM) {
        /* A block that became small gives its chunk back rather than keep a corner of it. */
        if (size > SMM_SMALL_MAX && size <= SMM_MEDIUM_MAX && smm_medium_resize(block, size, &fault))
            result = block;
    } else if (size > SMM_MEDIUM_MAX) {
        result = smm_large_resize(block, size, headroom(before, size), &fault);
    }
    if (fault != SMM_FAULT_NONE)
        smm_report_misuse("realloc", block, fault, kind == SMM_KIND_MEDIUM ? "medium" : "large",
                          kind == SMM_KIND_MEDIUM ? 0 : smm_large_known_size(block));
    return result;
}

void *smm_realloc_slow(void *block, size_t size)
{
    const enum smm_kind kind = smm_kind_of(block);
    void *result;

    if (block == NULL)
        return smm_malloc(size);
    const size_t before = smm_usable_size(block, "realloc");
    if (size == 0) {
        smm_free(block);
        return NULL;
    }
    if (size > PTRDIFF_MAX)
        return smm_malloc(size);
    if (kind == SMM_KIND_SMALL)
        result = smm_page_fits(smm_page_of(block), size) ? block : NULL;
    else
        result = resize(block, before, size, kind);
    return result != NULL ? result : move(block, before, size);
}
