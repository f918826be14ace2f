/* SPDX-License-Identifier: MIT */
/* large.h - blocks above 1 MiB: a reservation each, with addresses to grow into.
 *
 *     base            block                    dirty      writable          base + reserved
 *     | header | (gap) | block ........ usable | zero ... | addresses only ... |
 *                                         ^ or here
 *
 * L1  base is a multiple of 4 MiB, and the header lies at the start of the slot that the segment map calls
 *     LARGE, or of the slot before the one that it calls LARGE_NEXT. Both words are read before the header
 *     is believed: the slot's kind, then the mark.
 * L2  The mark says live or freed, mixed with the header's address. It goes from live to freed by one CAS:
 *     of two threads that free a block, one is told.
 * L3  base <= block + usable <= base + writable; all bytes from base + dirty on are zero.
 * L4  A live block belongs to the program, a freed one to the cache, under its lock. No other thread looks
 *     into the header of a live block.
 */
#ifndef SMM_LARGE_LARGE_H
#define SMM_LARGE_LARGE_H

#include "base/atomic.h"
#include "base/geometry.h"
#include "platform/report.h"

struct SMM_ALIGNED(SMM_CACHE_LINE) smm_large {
    _Atomic(uint64_t) mark;
    char *block;
    size_t usable;
    size_t reserved; /* of base, as are the next two */
    size_t writable;
    size_t dirty;
    uint64_t free_since; /* while in the cache: smm_os_now() */
};

_Static_assert(sizeof(struct smm_large) == SMM_CACHE_LINE, "blocks follow on a cache line");

/* The usable size that a request above SMM_MEDIUM_MAX gets. */
size_t smm_large_good_size(size_t size);

/* A block at a multiple of `alignment`, or NULL when there is no memory. The first *dirty bytes may hold
 * anything, the rest is zero. */
void *smm_large_alloc(size_t size, size_t alignment, size_t *dirty);

enum smm_fault smm_large_free(void *block);

/* Resizes; the address may change, by moving pages instead of bytes. NULL when it has to be done by copying,
 * or with *fault set. `headroom` is what to ask for above `size` when the block has to move. */
void *smm_large_resize(void *block, size_t size, size_t headroom, enum smm_fault *fault);

/* The usable size. 0 with *fault set when there is no live block there. */
size_t smm_large_usable(const void *block, enum smm_fault *fault);

/* The same for a report: of the block that an address lies in, live or freed; 0 where the header does not tell. */
size_t smm_large_known_size(const void *address);

struct smm_large_settings {
    _Atomic(bool) huge_pages; /* for blocks that grow */
};
extern struct smm_large_settings smm_large_settings;

struct smm_large_usage {
    _Atomic(uint64_t) live_blocks;
    _Atomic(uint64_t) live_bytes;
};
extern struct smm_large_usage smm_large_usage;

/* For the cache: gives a freed block's memory and addresses back. False when the system refuses the
 * addresses; the memory has gone back if it could. */
bool smm_large_release(struct smm_large *large);

/* 0, or the line of the first invariant that does not hold. */
int smm_large_verify(void);

#endif
