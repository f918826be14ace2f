/* SPDX-License-Identifier: MIT */
#include "medium/tlsf.h"

#include "base/bits.h"
#include "base/check.h"

struct bin {
    unsigned level;
    unsigned number;
};

/* The bin that a chunk of this size lies in. */
static struct bin bin_of(unsigned size)
{
    const unsigned power = smm_bit_high(size);
    const unsigned number = (size >> (power - SMM_TLSF_BINS_SHIFT)) & (SMM_TLSF_BINS - 1);
    return (struct bin){power - SMM_TLSF_FIRST, number};
}

/* The first bin of which every chunk is large enough for this size. */
static struct bin bin_above(unsigned size)
{
    const unsigned width = 1u << (smm_bit_high(size) - SMM_TLSF_BINS_SHIFT);
    return bin_of(size + width - 1);
}

void smm_tlsf_insert(struct smm_tlsf *index, struct smm_free_chunk *chunk)
{
    const struct bin bin = bin_of(chunk->size);
    struct smm_free_chunk **const first = &index->first[bin.level][bin.number];

    chunk->prev = NULL;
    chunk->next = *first;
    if (*first != NULL)
        (*first)->prev = chunk;
    *first = chunk;
    index->bins[bin.level] |= (uint16_t)(1u << bin.number);
    index->levels |= 1u << bin.level;
}

static void bin_remove(struct smm_tlsf *index, struct bin bin, struct smm_free_chunk *chunk)
{
    if (chunk->next != NULL)
        chunk->next->prev = chunk->prev;
    if (chunk->prev != NULL) {
        chunk->prev->next = chunk->next;
        return;
    }
    SMM_DEBUG(index->first[bin.level][bin.number] == chunk);
    index->first[bin.level][bin.number] = chunk->next;
    if (chunk->next != NULL)
        return;
    index->bins[bin.level] &= (uint16_t)~(1u << bin.number);
    if (index->bins[bin.level] == 0)
        index->levels &= ~(1u << bin.level);
}

void smm_tlsf_remove(struct smm_tlsf *index, struct smm_free_chunk *chunk)
{
    bin_remove(index, bin_of(chunk->size), chunk);
}

/* The first chunk of the lowest bin that holds one, from `bin` upwards. */
static struct smm_free_chunk *first_from(const struct smm_tlsf *index, struct bin *bin)
{
    unsigned bins, levels;

    if (bin->level >= SMM_TLSF_LEVELS)
        return NULL;
    bins = (unsigned)index->bins[bin->level] & (~0u << bin->number);
    if (bins == 0) {
        levels = index->levels & (uint32_t)((uint64_t)~0u << (bin->level + 1));
        if (levels == 0)
            return NULL;
        bin->level = smm_bit_low(levels);
        bins = index->bins[bin->level];
    }
    bin->number = smm_bit_low(bins);
    return index->first[bin->level][bin->number];
}

struct smm_free_chunk *smm_tlsf_take(struct smm_tlsf *index, unsigned size)
{
    struct bin bin = bin_of(size);
    struct smm_free_chunk *chunk = index->first[bin.level][bin.number];

    if (chunk == NULL || chunk->size < size) {
        bin = bin_above(size);
        chunk = first_from(index, &bin);
    }
    if (chunk != NULL)
        bin_remove(index, bin, chunk);
    return chunk;
}

int smm_tlsf_verify(const struct smm_tlsf *index)
{
    for (unsigned level = 0; level < SMM_TLSF_LEVELS; level++) {
        if (((index->levels >> level) & 1) != (index->bins[level] != 0))
            return __LINE__;
        for (unsigned number = 0; number < SMM_TLSF_BINS; number++) {
            const struct smm_free_chunk *before = NULL;
            const struct smm_free_chunk *chunk = index->first[level][number];
            if (((index->bins[level] >> number) & 1u) != (chunk != NULL))
                return __LINE__;
            for (; chunk != NULL; before = chunk, chunk = chunk->next) {
                if (chunk->size < SMM_CHUNK_LEAST)
                    return __LINE__;
                const struct bin bin = bin_of(chunk->size);
                if (chunk->prev != before || bin.level != level || bin.number != number)
                    return __LINE__;
            }
        }
    }
    return 0;
}
