/* SPDX-License-Identifier: MIT */
/* tlsf.h - the index of free chunks: two-level segregated fit. It knows the nodes of chunks and their sizes only, not
 * where they lie; whoever owns it calls it under its lock.
 *
 * Every power of two of sizes has 16 bins of equal width. A chunk lies in the bin of its size. A request
 * is rounded up to the start of the next bin, so that whatever a bin holds fits: two bit scans, no search.
 * Before that the first chunk of the request's own bin is tried, which a chunk of the same size waits in.
 *
 *     first level:   0   1   2  ...  7       (from 16 units << n on)
 *     second level:  0 1 2 ... 15            (sixteenths of it)
 */
#ifndef SMM_MEDIUM_TLSF_H
#define SMM_MEDIUM_TLSF_H

#include "base/atomic.h"
#include "base/geometry.h"

#define SMM_TLSF_BINS_SHIFT 4u
#define SMM_TLSF_BINS (1u << SMM_TLSF_BINS_SHIFT)
#define SMM_TLSF_FIRST SMM_TLSF_BINS_SHIFT /* power of two of the smallest size */
#define SMM_TLSF_LEVELS (SMM_SLOT_SHIFT - SMM_UNIT_SHIFT - SMM_TLSF_FIRST)

_Static_assert(SMM_CHUNK_LEAST == 1u << SMM_TLSF_FIRST, "the first bin is the one of the smallest chunk");

/* The node of a chunk in the index; of a chunk that another thread freed, in the list of those. */
struct smm_free_chunk {
    struct smm_free_chunk *next;
    struct smm_free_chunk *prev;
    uint16_t size; /* units */
    uint16_t unit; /* of its arena, at which it begins */
    uint32_t age;  /* visits of the collector */
};

struct smm_tlsf {
    uint32_t levels;                /* bit: some bin of the level holds a chunk */
    uint16_t bins[SMM_TLSF_LEVELS]; /* bit: the bin holds a chunk */
    struct smm_free_chunk *first[SMM_TLSF_LEVELS][SMM_TLSF_BINS];
};

/* The chunk's size is set, at least SMM_CHUNK_LEAST; puts it into its bin. */
void smm_tlsf_insert(struct smm_tlsf *index, struct smm_free_chunk *chunk);

/* Takes out a chunk that is in its bin. */
void smm_tlsf_remove(struct smm_tlsf *index, struct smm_free_chunk *chunk);

/* A chunk of at least `size` units, which are at least SMM_CHUNK_LEAST, taken out; NULL when none is known. */
struct smm_free_chunk *smm_tlsf_take(struct smm_tlsf *index, unsigned size);

/* 0, or the line of the first invariant that does not hold. */
int smm_tlsf_verify(const struct smm_tlsf *index);

#endif
