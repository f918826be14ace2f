/* SPDX-License-Identifier: MIT */
/* api.c - the public names. Contracts are in shardmm.h. */
#include <shardmm/shardmm.h>

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "control/options.h"
#include "control/start.h"
#include "control/stats.h"
#include "control/verify.h"
#include "entry/fast.h"
#include "entry/posix.h"
#include "heap/collect.h"

/* The fast paths in C, unless asm/ brings these names. */
#if !SMM_ASM
void *shardmm_malloc(size_t size)
{
    return smm_malloc(size);
}

void *shardmm_calloc(size_t count, size_t size)
{
    return smm_calloc(count, size);
}

void *shardmm_realloc(void *block, size_t size)
{
    return smm_realloc(block, size);
}

void shardmm_free(void *block)
{
    smm_free(block);
}

void shardmm_free_sized(void *block, size_t size)
{
    smm_free_sized(block, size);
}

void shardmm_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    smm_free_aligned_sized(block, alignment, size);
}
#endif

void *shardmm_reallocarray(void *block, size_t count, size_t size)
{
    return smm_reallocarray_by(smm_realloc, block, count, size);
}

void *shardmm_aligned_alloc(size_t alignment, size_t size)
{
    return smm_aligned_alloc(alignment, size);
}

int shardmm_posix_memalign(void **result, size_t alignment, size_t size)
{
    return smm_posix_memalign(result, alignment, size);
}

void *shardmm_memalign(size_t alignment, size_t size)
{
    return smm_memalign(alignment, size);
}

size_t shardmm_usable_size(const void *block)
{
    return smm_usable_size(block, "usable_size");
}

size_t shardmm_good_size(size_t size)
{
    return smm_good_size(size);
}

size_t shardmm_purge(void)
{
    return smm_purge();
}

void shardmm_thread_flush(void)
{
    struct smm_heap *const heap = smm_heap_mine();

    if (heap != NULL)
        (void)smm_heap_flush(heap);
}

int shardmm_stats_get(struct shardmm_stats *stats, size_t size)
{
    struct shardmm_stats all;

    if (stats == NULL || size < offsetof(struct shardmm_stats, committed))
        return EINVAL;
    smm_stats_collect(&all);
    memcpy(stats, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

int shardmm_stats_print(enum shardmm_stats_format format, shardmm_write_fn *write, void *context)
{
    return smm_stats_print(format, write, context);
}

int shardmm_option_get(const char *name, int64_t *value)
{
    (void)smm_start();
    return smm_option_get(name, value);
}

int shardmm_option_set(const char *name, int64_t value)
{
    (void)smm_start();
    return smm_option_set(name, value);
}

int shardmm_verify(void)
{
    return smm_verify();
}

const char *shardmm_version(void)
{
    return SHARDMM_VERSION_STRING;
}
