/* SPDX-License-Identifier: MIT */
#include "small/page.h"

#include "base/check.h"
#include "platform/platform.h"

/* Memory first touched at once: as much as the page has handed out, within these bounds. So a class that is
 * hardly used takes a system page or two, and one that is used heavily few faults. */
static const size_t CARVE_BYTES_MIN = SMM_OS_PAGE_MIN;
static const size_t CARVE_BYTES_MAX = 16 * SMM_KIB;
enum { UNITS_MAX = 8 };

void smm_page_init(struct smm_page *page, unsigned size_class, bool fresh)
{
    const size_t size = smm_class_size(size_class);

    page->free = NULL;
    page->local_free = NULL;
    smm_store_relaxed(&page->used, 0);
    page->item_size = (uint16_t)size;
    page->size_class = (uint8_t)size_class;
    page->free_is_zero = false;
    page->carved = 0;
    page->capacity = (uint16_t)(SMM_PAGE_SIZE / size);
    if (fresh)
        page->touched = 0;
    page->fresh = fresh;
    page->listed = false;
    page->borrowed = false;
    smm_store_relaxed(&page->kept, false);
    smm_store_relaxed(&page->shared_capacity, page->capacity);
    smm_store_relaxed(&page->shared_carved, 0);
    smm_store_relaxed(&page->shared_class, page->size_class);
}

/* Has the first `end` bytes of the page resident, and some more when it grows. */
static void page_touch(struct smm_page *page, size_t end, bool prefault)
{
    const unsigned wanted = (unsigned)((end + SMM_OS_PAGE_MIN - 1) / SMM_OS_PAGE_MIN);
    const unsigned touched = page->touched;
    unsigned units;

    if (wanted <= touched)
        return;
    units = wanted - touched;
    if (units < touched)
        units = touched < UNITS_MAX ? touched : UNITS_MAX;
    if (touched + units > SMM_PAGE_SIZE / SMM_OS_PAGE_MIN)
        units = SMM_PAGE_SIZE / SMM_OS_PAGE_MIN - touched;
    /* One unit is as cheap by a fault. And of items that are larger than a unit the program may never touch a
     * part: buffers that are not filled, headroom for growth. */
    if (!prefault || units < 2 || page->item_size > SMM_OS_PAGE_MIN || smm_os_page_size() != SMM_OS_PAGE_MIN) {
        page->touched = (uint8_t)wanted;
        return;
    }
    smm_os_prefault(smm_page_memory(page) + touched * SMM_OS_PAGE_MIN, units * SMM_OS_PAGE_MIN);
    page->touched = (uint8_t)(touched + units);
}

bool smm_page_carve(struct smm_page *page, bool prefault)
{
    const size_t size = page->item_size;
    const size_t start = page->carved * size;
    size_t bytes = start;
    unsigned count;

    if (page->carved == page->capacity)
        return false;
    SMM_DEBUG(page->free == NULL && !page->borrowed);
    if (bytes < CARVE_BYTES_MIN)
        bytes = CARVE_BYTES_MIN;
    if (bytes > CARVE_BYTES_MAX)
        bytes = CARVE_BYTES_MAX;
    count = (unsigned)(bytes / size);
    if (count == 0)
        count = 1;
    if (count > SMM_CARVE_MAX)
        count = SMM_CARVE_MAX;
    if (count > (unsigned)(page->capacity - page->carved))
        count = page->capacity - page->carved;

    page_touch(page, start + count * size, prefault);

    /* Ascending addresses: what is made one after another lies one after another. */
    char *const first = smm_page_memory(page) + start;
    char *at = first;
    for (unsigned left = count - 1; left != 0; left--) {
        ((struct smm_item *)(void *)at)->link = (struct smm_item *)(void *)(at + size);
        at += size;
    }
    ((struct smm_item *)(void *)at)->link = NULL;
    page->free = (struct smm_item *)(void *)first;
    page->free_is_zero = page->fresh;
    page->carved = (uint16_t)(page->carved + count);
    smm_store_relaxed(&page->shared_carved, page->carved);
    return true;
}
