/* SPDX-License-Identifier: MIT */
/* target.h - the allocator under test, under one set of names.
 *
 *   SHARDMM_STRESS_OWN       1: it is ShardMM, whose own calls and rules may be relied on
 *   SHARDMM_STRESS_PREFIXED  1: it is called by its own names, because malloc is somebody else's (the
 *                            sanitizers', or the C library's where the override is off); implies OWN
 *
 * With neither, this is the plain malloc family, whoever provides it.
 */
#ifndef SHARDMM_STRESS_TARGET_H
#define SHARDMM_STRESS_TARGET_H

#ifndef SHARDMM_STRESS_PREFIXED
#define SHARDMM_STRESS_PREFIXED 0
#endif
#ifndef SHARDMM_STRESS_OWN
#define SHARDMM_STRESS_OWN SHARDMM_STRESS_PREFIXED
#endif
#if SHARDMM_STRESS_PREFIXED && !SHARDMM_STRESS_OWN
#error "SHARDMM_STRESS_PREFIXED calls ShardMM by name and so needs SHARDMM_STRESS_OWN"
#endif

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if SHARDMM_STRESS_OWN
#include <shardmm/shardmm.h>
#endif

#if SHARDMM_STRESS_PREFIXED
#define TARGET_CALL(name) shardmm_##name
#define TARGET_USABLE_SIZE shardmm_usable_size
#else
#define TARGET_CALL(name) name
#define TARGET_USABLE_SIZE malloc_usable_size
#endif

/* Hides from the compiler where `block` comes from. It knows calloc and malloc as built-ins: without this
 * it may answer "is it zero?" at compile time, and the test would pass whatever the allocator does. */
static inline void *target_opaque(void *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static inline void *target_malloc(size_t size)
{
    return target_opaque(TARGET_CALL(malloc)(size));
}

static inline void *target_calloc(size_t count, size_t size)
{
    return target_opaque(TARGET_CALL(calloc)(count, size));
}

static inline void *target_realloc(void *block, size_t size)
{
    return target_opaque(TARGET_CALL(realloc)(target_opaque(block), size));
}

/* C17 wants `size` to be a multiple of `alignment`, and ASan insists: the caller sees to it unless
 * SHARDMM_STRESS_OWN. */
static inline void *target_aligned_alloc(size_t alignment, size_t size)
{
    return target_opaque(TARGET_CALL(aligned_alloc)(alignment, size));
}

static inline void *target_posix_memalign(size_t alignment, size_t size)
{
    void *block = NULL;

    if (TARGET_CALL(posix_memalign)(&block, alignment, size) != 0) {
        block = NULL;
    }
    return target_opaque(block);
}

static inline void target_free(void *block)
{
    TARGET_CALL(free)(target_opaque(block));
}

static inline size_t target_usable_size(void *block)
{
    return TARGET_USABLE_SIZE(target_opaque(block));
}

/* Frees a block by what was asked for: `alignment` is 0 when no aligned call made it. */
static inline void target_free_exact(void *block, size_t alignment, size_t size)
{
#if SHARDMM_STRESS_OWN
    if (alignment != 0) {
        shardmm_free_aligned_sized(target_opaque(block), alignment, size);
    } else {
        shardmm_free_sized(target_opaque(block), size);
    }
#else
    (void)alignment;
    (void)size;
    target_free(block);
#endif
}

/* Gives back what can be given back, of all threads. */
static inline void target_purge(void)
{
#if SHARDMM_STRESS_OWN
    (void)shardmm_purge();
#endif
}

/* What a thread does that tends the whole process: one of several things, by a number below TARGET_TENDS. */
#define TARGET_TENDS 16u
static inline void target_tend(size_t what)
{
#if SHARDMM_STRESS_OWN
    static const int64_t delays[] = {0, 1, 20, 1000};
    struct shardmm_stats stats;

    switch (what % 4) {
    case 0:
        (void)shardmm_stats_get(&stats, sizeof stats);
        break;
    case 1:
        (void)shardmm_option_set("purge_delay", delays[what / 4]);
        break;
#if !SHARDMM_STRESS_PREFIXED
    case 2:
        (void)malloc_trim(0);
        break;
#endif
    default:
        (void)shardmm_purge();
        break;
    }
#else
    if (what % 2 == 0) {
        (void)malloc_trim(0);
    } else {
        (void)mallinfo2();
    }
#endif
}

/* Ends what that changed. */
static inline void target_tend_end(void)
{
#if SHARDMM_STRESS_OWN
    (void)shardmm_option_set("purge_delay", 1000);
#endif
}

/* Gives back what the calling thread keeps. */
static inline void target_flush(void)
{
#if SHARDMM_STRESS_OWN
    shardmm_thread_flush();
#endif
}

/* 0 when every structure of the allocator holds. No other thread may be inside it. */
static inline int target_verify(void)
{
#if SHARDMM_STRESS_OWN
    return shardmm_verify();
#else
    return 0;
#endif
}

#endif
