/* SPDX-License-Identifier: MIT */
#include "c_twins.h"

#include "entry/posix.h"

void *smm_twin_malloc(size_t size)
{
    return smm_malloc(size);
}

void *smm_twin_calloc(size_t count, size_t size)
{
    return smm_calloc(count, size);
}

void *smm_twin_realloc(void *block, size_t size)
{
    return smm_realloc(block, size);
}

void smm_twin_free(void *block)
{
    smm_free(block);
}

void smm_twin_free_sized(void *block, size_t size)
{
    smm_free_sized(block, size);
}

void smm_twin_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    smm_free_aligned_sized(block, alignment, size);
}
