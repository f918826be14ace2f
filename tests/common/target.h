/* SPDX-License-Identifier: MIT */
/* target.h - which allocator the tests run against.
 *
 * Without SHARDMM_TEST_LIBC the library's own calls. With it the C library's, under the same names: a test
 * of the tests, which then leave out what only ShardMM promises.
 */
#ifndef SMM_TESTS_TARGET_H
#define SMM_TESTS_TARGET_H

#ifndef SHARDMM_TEST_LIBC

#include <shardmm/shardmm.h>

#else

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

/* Not inlined: that a failed call leaves the block is what the tests look at, and what the compiler's
 * warnings about the use of resized blocks do not know. */
#define TARGET_CALL static __attribute__((noinline, unused))

TARGET_CALL void *shardmm_malloc(size_t size)
{
    return malloc(size);
}

TARGET_CALL void *shardmm_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

TARGET_CALL void *shardmm_realloc(void *block, size_t size)
{
    return realloc(block, size);
}

TARGET_CALL void *shardmm_reallocarray(void *block, size_t count, size_t size)
{
    return reallocarray(block, count, size);
}

TARGET_CALL void shardmm_free(void *block)
{
    free(block);
}

TARGET_CALL void shardmm_free_sized(void *block, size_t size)
{
    (void)size;
    free(block);
}

TARGET_CALL void shardmm_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free(block);
}

TARGET_CALL void *shardmm_aligned_alloc(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

TARGET_CALL int shardmm_posix_memalign(void **result, size_t alignment, size_t size)
{
    return posix_memalign(result, alignment, size);
}

TARGET_CALL void *shardmm_memalign(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

TARGET_CALL size_t shardmm_usable_size(void *block)
{
    return malloc_usable_size(block);
}

TARGET_CALL size_t shardmm_purge(void)
{
    return malloc_trim(0) != 0;
}

TARGET_CALL void shardmm_thread_flush(void)
{
}

#endif
#endif
