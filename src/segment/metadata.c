/* SPDX-License-Identifier: MIT */
#include "segment/metadata.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/geometry.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/account.h"

/* Addresses come a slot at a time; memory becomes writable in steps as it is handed out. */
enum { STEP = 64 * 1024 };

static struct smm_lock metadata_lock;
static char *next;      /* under the lock, as are the other two */
static char *committed; /* end of what is writable */
static char *end;

static bool make_room(size_t size)
{
    if (next == NULL || (size_t)(end - next) < size) {
        char *const slot = smm_os_reserve(SMM_SLOT_SIZE, SMM_SLOT_SIZE);
        if (slot == NULL)
            return false;
        smm_os_advise_huge(slot, SMM_SLOT_SIZE, false);
        smm_account_reserve(SMM_SLOT_SIZE);
        next = committed = slot;
        end = slot + SMM_SLOT_SIZE;
    }
    while ((size_t)(committed - next) < size) {
        if (!smm_os_commit(committed, STEP))
            return false;
        smm_account_commit(STEP);
        committed += STEP;
    }
    return true;
}

void *smm_metadata_alloc(size_t size, size_t alignment)
{
    void *result = NULL;

    SMM_ALWAYS(size <= STEP && alignment <= SMM_OS_PAGE_MIN);
    smm_lock_acquire(&metadata_lock);
    /* The padding is asked for as well, so that it never crosses the end. */
    if (make_room(size + alignment)) {
        char *const start = (char *)smm_align_up((uintptr_t)next, alignment);
        next = start + size;
        result = start;
    }
    smm_lock_release(&metadata_lock);
    return result;
}

void smm_metadata_lock(void)
{
    smm_lock_acquire(&metadata_lock);
}

void smm_metadata_unlock(void)
{
    smm_lock_release(&metadata_lock);
}

void smm_metadata_reset_lock(void)
{
    smm_lock_reset(&metadata_lock);
}
