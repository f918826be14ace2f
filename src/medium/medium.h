/* SPDX-License-Identifier: MIT */
/* medium.h - the medium blocks of one heap: above 16 KiB up to 1 MiB, as chunks of 4 MiB arenas, in units of 1 KiB.
 *
 *     0        24                          top                touched          4096 units
 *     | header | chunk | chunk | free ... | never carved yet, or merged back   |
 *                                          dirty until `touched`, zero beyond
 *
 * What is known of chunks stands in the header, never beside the blocks: finding a place, merging and splitting touch
 * some lines of dense tables and no cold block, and what a program writes past its blocks' ends cannot change it.
 *
 *     chunks        a tag for each unit: the size of the chunk that begins there, its state, the size of the one before
 *     free_chunks   a node for every 16 units, for the index: of the chunk that its first unit or one of the 15
 *                   before it begins. A chunk of 16 units has one for itself; smaller ones have none, and are free
 *                   memory that waits for a neighbour.
 *
 * M1  Chunks lie side by side from `first` to `top`; each knows the size of the one before it. No two free
 *     chunks are neighbours.
 * M2  Only the carving arena has room above `top`; no free chunk lies right below that top. In another
 *     arena in use top is the end; an arena without live chunks is empty: top is `first`.
 * M3  All bytes from `touched` on are zero.
 * M4  A live chunk has at least 16 units. Of the free ones those, and only those, are in the index.
 * M5  The tag of a unit at which no chunk begins is zero, or of a chunk that was freed: nothing looks live but what is.
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

/*
 *     15           3        0
 *     | size, units | flags |       the rest of the word is the size of the chunk before it, 0 for the first
 */
struct smm_chunk {
    _Atomic(uint16_t) size_flags; /* other threads set PENDING */
    uint16_t prev_size;
};

enum {
    SMM_CHUNK_FREE = 1,
    SMM_CHUNK_PENDING = 2, /* freed by another thread, waiting to be merged */
    SMM_CHUNK_PURGED = 4,  /* free, and the inner pages that had memory have gone back */
    SMM_CHUNK_FLAGS = 15,
    SMM_CHUNK_SIZE_SHIFT = 4
};

SMM_INLINE unsigned smm_chunk_size(const struct smm_chunk *chunk)
{
    return (unsigned)smm_load_relaxed(&chunk->size_flags) >> SMM_CHUNK_SIZE_SHIFT;
}

struct smm_arena {
    struct smm_medium *owner; /* constant, as is `older` */
    struct smm_arena *older;  /* the heap's arena before this one */
    struct smm_arena *next_empty;
    size_t touched;      /* bytes from the arena's start */
    unsigned top;        /* unit; its tag holds the size of the last chunk */
    uint32_t live;       /* chunks handed out, pending ones included */
    uint32_t free_since; /* while empty: smm_os_now() cut to 32 bits */
    bool empty;          /* in the list of empty arenas */
    SMM_ALIGNED(SMM_CACHE_LINE) struct smm_chunk chunks[SMM_ARENA_UNITS + 1];
    struct smm_free_chunk free_chunks[SMM_ARENA_UNITS / SMM_CHUNK_LEAST];
};

struct smm_medium {
    /* Chunks that other threads freed. Any thread pushes, the holder of the lock takes all. */
    SMM_ALIGNED(SMM_CACHE_LINE) _Atomic(struct smm_free_chunk *) foreign;
    /* What they freed since the heap began; any thread. */
    _Atomic(uint64_t) foreign_frees;
    _Atomic(uint64_t) foreign_bytes;

    /* The heap that this heap's thread freed into last: it is asked for memory before a new arena is made. The thread's
     * own, and not under the lock. */
    struct smm_medium *lender;

    SMM_ALIGNED(SMM_CACHE_LINE) struct smm_gated_lock lock;
    struct smm_arena *carving;
    struct smm_arena *empties; /* the one that emptied last comes first */
    struct smm_arena *arenas;  /* all, newest first */
    /* Allocated and not freed under the lock; read by any thread. */
    _Atomic(uint64_t) blocks;
    _Atomic(uint64_t) bytes;
    size_t purged_bytes; /* in free chunks, of what lies below `touched` */
    unsigned aged_top;   /* for the collector: top of the carving arena when it came last, and how */
    uint32_t top_ages;   /* often it has found it there */
    struct smm_tlsf index;
};

struct smm_medium_settings {
    _Atomic(enum smm_huge_policy) huge_pages;
};
extern struct smm_medium_settings smm_medium_settings;

/* The usable size that a request of at most SMM_MEDIUM_MAX gets. */
SMM_INLINE size_t smm_medium_good_size(size_t size)
{
    const size_t least = SMM_CHUNK_LEAST * SMM_UNIT;
    return size < least ? least : smm_align_up(size, SMM_UNIT);
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

/* Of the live block that the address lies in, for a report; 0 where it lies in none. */
size_t smm_medium_known_size(const void *address);

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

/* What is in the hands of the program. Sums of counters that others change: exact when nobody does. */
uint64_t smm_medium_live_blocks(const struct smm_medium *medium);
uint64_t smm_medium_live_bytes(const struct smm_medium *medium);

/* Free memory that may be resident. Takes the lock. */
uint64_t smm_medium_free_bytes(struct smm_medium *medium);

/* 0, or the line of the first invariant that does not hold. */
int smm_medium_verify(struct smm_medium *medium);

#endif
