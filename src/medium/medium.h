/* SPDX-License-Identifier: MIT */
/* medium.h - the medium blocks of one heap: above 16 KiB up to 1 MiB, as chunks of 4 MiB arenas.
 *
 *     0       first                     top                touched          4 MiB
 *     | header | chunk | chunk | free ... | never carved yet, or merged back   |
 *                                          dirty until `touched`, zero beyond
 *
 * M1  Chunks lie side by side from `first` to `top`; each knows the size of the one before it. No two free
 *     chunks are neighbours.
 * M2  Only the carving arena has room above `top`; no free chunk lies right below that top. In another
 *     arena in use top is the end; an arena without live chunks is empty: top is `first`.
 * M3  All bytes from `touched` on are zero.
 * M4  Chunk sizes and the offsets of blocks in the arena are multiples of 256: splits never leave crumbs.
 *
 * Everything here is under the lock of the heap's medium part, which is free most of the time: so any
 * thread may resize in place, merge what others freed and return memory while the owner sleeps. Taking a free
 * lock is a small part of an operation on 16 KiB and more. A free by another thread does not wait for it: it
 * pushes the chunk onto `foreign`, and whoever holds the lock next takes the whole list.
 */
#ifndef SMM_MEDIUM_MEDIUM_H
#define SMM_MEDIUM_MEDIUM_H

#include "base/bits.h"
#include "medium/tlsf.h"
#include "platform/lock.h"
#include "platform/report.h"

struct smm_medium;

struct smm_arena {
    struct smm_medium *owner; /* constant, as is `older` */
    struct smm_arena *older;  /* the heap's arena before this one */
    size_t top;               /* offset */
    size_t last_size;         /* of the chunk that ends at top, 0 when there is none */
    size_t touched;           /* offset */
    uint32_t live;            /* chunks handed out, pending ones included */
    uint32_t free_since;      /* while empty: smm_os_now() cut to 32 bits */
    struct smm_arena *next_empty;
    bool empty; /* in the list of empty arenas */
};

struct smm_medium {
    /* Chunks that other threads freed, linked by next_free. Any thread pushes, the holder of the lock takes
     * all. */
    SMM_ALIGNED(SMM_CACHE_LINE) _Atomic(struct smm_chunk *) foreign;
    /* What is in the hands of the program; any thread. */
    _Atomic(uint64_t) live_blocks;
    _Atomic(uint64_t) live_bytes;
    _Atomic(uint64_t) foreign_frees; /* into this heap */

    /* The heap that this heap's thread freed into last: it is asked for memory before a new arena is made. The thread's
     * own, and not under the lock. */
    struct smm_medium *lender;

    SMM_ALIGNED(SMM_CACHE_LINE) struct smm_gated_lock lock;
    struct smm_arena *carving;
    struct smm_arena *empties; /* the one that emptied last comes first */
    struct smm_arena *arenas;  /* all, newest first */
    size_t purged_bytes;       /* in free chunks, of what lies below `touched` */
    size_t aged_top;           /* for the collector: top of the carving arena when it came last, and how */
    uint32_t top_ages;         /* often it has found it there */
    struct smm_tlsf index;
};

struct smm_medium_settings {
    _Atomic(enum smm_huge_policy) huge_pages;
};
extern struct smm_medium_settings smm_medium_settings;

/* The usable size that a request of at most SMM_MEDIUM_MAX gets. */
SMM_INLINE size_t smm_medium_good_size(size_t size)
{
    return smm_align_up(size + SMM_CHUNK_HEADER, SMM_CHUNK_UNIT) - SMM_CHUNK_HEADER;
}

/* Largest alignment that a medium block can have: the search and the trimming need room for both. */
#define SMM_MEDIUM_ALIGN_MAX (SMM_SLOT_SIZE / 4)

/* A block at a multiple of `alignment`, of the caller's heap or of its lender, or NULL when there is no memory. The
 * first *dirty bytes of it may hold anything, the rest is zero. */
void *smm_medium_alloc(struct smm_medium *medium, size_t size, size_t alignment, size_t *dirty);

/* Frees a block: of `self`, the medium part of the calling thread's heap, or of another heap. */
enum smm_fault smm_medium_free(struct smm_medium *self, void *block);

/* Resizes in place; any thread. False when the block cannot be so large where it is. A fault is stored in
 * *fault, and false returned. */
bool smm_medium_resize(void *block, size_t size, enum smm_fault *fault);

/* The usable size. 0 with *fault set when there is no live block there. */
size_t smm_medium_usable(const void *block, enum smm_fault *fault);

/* Merges what other threads freed. */
void smm_medium_drain(struct smm_medium *medium);

/* A collector's visit: merges what other threads freed, and returns the inner pages of chunks, and memory above
 * top, that have been free at the three visits before. Does nothing when another thread holds the lock. */
size_t smm_medium_age(struct smm_medium *medium);

/* Returns the memory of arenas that have been empty for `age` milliseconds, but for the `keep` that emptied
 * last. Any thread. Returns the bytes. */
size_t smm_medium_trim(struct smm_medium *medium, unsigned keep, uint64_t now, uint32_t age);

/* Returns all free memory: empty arenas, what lies above top, and the inner pages of free chunks. */
size_t smm_medium_purge(struct smm_medium *medium);

/* Free memory that may be resident. Takes the lock. */
uint64_t smm_medium_free_bytes(struct smm_medium *medium);

/* 0, or the line of the first invariant that does not hold. */
int smm_medium_verify(struct smm_medium *medium);

#endif
