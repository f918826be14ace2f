/* SPDX-License-Identifier: MIT */
/* tlsf.h - the index of free chunks: two-level segregated fit. It knows chunks and sizes only, not where they
 * lie; whoever owns it calls it under its lock.
 *
 * Every power of two of sizes has 16 bins of equal width. A chunk lies in the bin of its size. A request
 * is rounded up to the start of the next bin, so that whatever a bin holds fits: two bit scans, no search.
 * Before that the first chunk of the request's own bin is tried, which a chunk of the same size waits in.
 *
 *     first level:   8   9   10  ...  22     (size 256 << n)
 *     second level:  0 1 2 ... 15            (sixteenths of it)
 */
#ifndef SMM_MEDIUM_TLSF_H
#define SMM_MEDIUM_TLSF_H

#include "base/atomic.h"
#include "base/geometry.h"

#define SMM_TLSF_FIRST SMM_CHUNK_SHIFT
#define SMM_TLSF_LEVELS (SMM_SLOT_SHIFT - SMM_TLSF_FIRST)
#define SMM_TLSF_BINS_SHIFT 4u
#define SMM_TLSF_BINS (1u << SMM_TLSF_BINS_SHIFT)

/*
 *     0           8              16                      16 + usable
 *     | prev_size | size | flags | block ...             | next chunk
 *                                  ^ links while free
 */
struct smm_chunk {
    size_t prev_size;           /* of the chunk before it in memory, 0 for the first */
    _Atomic(size_t) size_flags; /* own size with its header; other threads set PENDING */
    struct smm_chunk *next_free;
    struct smm_chunk *prev_free;
};

enum {
    SMM_CHUNK_FREE = 1,    /* in the index */
    SMM_CHUNK_PENDING = 2, /* freed by another thread, waiting to be merged */
    SMM_CHUNK_PURGED = 4,  /* free, and the inner pages that had memory have gone back */
    SMM_CHUNK_AGE = 16,    /* free: counts the collector's visits */
    SMM_CHUNK_AGES = 3 * SMM_CHUNK_AGE,
    SMM_CHUNK_FLAGS = SMM_CHUNK_UNIT - 1
};

struct smm_tlsf {
    uint32_t levels;                  /* bit: some bin of the level holds a chunk */
    uint16_t bins[SMM_TLSF_LEVELS];   /* bit: the bin holds a chunk */
    struct smm_chunk *first[SMM_TLSF_LEVELS][SMM_TLSF_BINS];
};

SMM_INLINE size_t smm_chunk_size(const struct smm_chunk *chunk)
{
    return smm_load_relaxed(&chunk->size_flags) & ~(size_t)SMM_CHUNK_FLAGS;
}

/* The chunk's flags and size are set; puts it into its bin. */
void smm_tlsf_insert(struct smm_tlsf *index, struct smm_chunk *chunk);

/* Takes out a chunk that is in its bin. */
void smm_tlsf_remove(struct smm_tlsf *index, struct smm_chunk *chunk);

/* A chunk of at least `size`, a multiple of the unit, taken out; NULL when none is known. */
struct smm_chunk *smm_tlsf_take(struct smm_tlsf *index, size_t size);

/* 0, or the line of the first invariant that does not hold. */
int smm_tlsf_verify(const struct smm_tlsf *index);

#endif
