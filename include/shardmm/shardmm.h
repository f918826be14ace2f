/* SPDX-License-Identifier: MIT */
/* shardmm.h - the public calls of ShardMM, a memory allocator with a heap per thread.
 *
 * Common to all calls, unless a call says otherwise:
 *
 *   Sizes        are in bytes. A request above PTRDIFF_MAX fails with ENOMEM.
 *   Alignment    every block is aligned to 16 bytes at least, blocks of 0..15 bytes included.
 *   Errors       a call that returns memory returns NULL and sets errno to ENOMEM when none is to be
 *                had; on success it leaves errno as it was. Calls that free never change errno.
 *   Threads      every call may be made by any thread at any time, from constructors and destructors,
 *                from destructors of thread-specific data, and in the child of fork(). A block may be
 *                freed or resized by any thread.
 *   Signals      like malloc() of the C library, no call is async-signal-safe.
 *   Misuse       an address that was not handed out, or was freed before, where it is seen, is reported
 *                by one line on standard error, and the process aborts.
 *
 * Blocks of these calls and of the malloc family that libshardmm.so and libshardmm-malloc.a put in
 * place are the same: either side may free what the other handed out.
 */
#ifndef SHARDMM_SHARDMM_H
#define SHARDMM_SHARDMM_H

#include <stddef.h>
#include <stdint.h>

#include <shardmm/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHARDMM_API __attribute__((visibility("default")))
#define SHARDMM_MALLOC_LIKE __attribute__((malloc, warn_unused_result))
#define SHARDMM_MUST_USE __attribute__((warn_unused_result))
#else
#define SHARDMM_API
#define SHARDMM_MALLOC_LIKE
#define SHARDMM_MUST_USE
#endif

/* ---- Memory ------------------------------------------------------------------------------------ */

/* A block of `size` bytes with undefined contents. `size` 0 gives a block of its own that may be freed.
 * From: C23 malloc; size 0 as in glibc. */
SHARDMM_API SHARDMM_MALLOC_LIKE void *shardmm_malloc(size_t size);

/* A block of `count` times `size` bytes, all of them zero. ENOMEM also when the product overflows.
 * From: C23 calloc. */
SHARDMM_API SHARDMM_MALLOC_LIKE void *shardmm_calloc(size_t count, size_t size);

/* Resizes `block` to `size` bytes. The contents up to the smaller of both sizes stay; the address may
 * change. On failure `block` stays as it was.
 *   block == NULL      like shardmm_malloc(size)
 *   size == 0          frees `block` and returns NULL, errno unchanged (as glibc; C23 leaves it undefined)
 * The result keeps an alignment of 16, not a larger one that `block` was made with.
 * From: POSIX realloc. */
SHARDMM_API SHARDMM_MUST_USE void *shardmm_realloc(void *block, size_t size);

/* shardmm_realloc(block, count * size), but ENOMEM and an untouched block when the product overflows.
 * From: glibc and POSIX 2024 reallocarray. */
SHARDMM_API SHARDMM_MUST_USE void *shardmm_reallocarray(void *block, size_t count, size_t size);

/* Gives `block` back. NULL is allowed and does nothing. Keeps errno.
 * From: C23 and POSIX 2024 free. */
SHARDMM_API void shardmm_free(void *block);

/* shardmm_free() of a block that malloc, calloc or realloc gave for exactly `size` bytes. A wrong size
 * is reported in builds with debug assertions, and ignored in others.
 * From: C23 free_sized. */
SHARDMM_API void shardmm_free_sized(void *block, size_t size);

/* shardmm_free() of a block that an aligned call gave for exactly `alignment` and `size`. Checked as
 * shardmm_free_sized() is.
 * From: C23 free_aligned_sized. */
SHARDMM_API void shardmm_free_aligned_sized(void *block, size_t alignment, size_t size);

/* A block of `size` bytes at a multiple of `alignment`, which may be any power of two; `size` need not be
 * a multiple of it. NULL and EINVAL when `alignment` is not a power of two.
 * From: C23 aligned_alloc (C17 asked for a multiple). */
SHARDMM_API SHARDMM_MALLOC_LIKE void *shardmm_aligned_alloc(size_t alignment, size_t size);

/* Stores a block of `size` bytes at a multiple of `alignment` in *result and returns 0. Returns EINVAL
 * when `alignment` is not a power of two or not a multiple of sizeof(void *), ENOMEM when there is no
 * memory; then *result stays as it was. Never changes errno.
 * From: POSIX posix_memalign. */
SHARDMM_API SHARDMM_MUST_USE int shardmm_posix_memalign(void **result, size_t alignment, size_t size);

/* As shardmm_aligned_alloc(), but an `alignment` that is no power of two is rounded up to one (EINVAL
 * when there is none to round to).
 * From: glibc memalign. */
SHARDMM_API SHARDMM_MALLOC_LIKE void *shardmm_memalign(size_t alignment, size_t size);

/* How many bytes of `block` may be used: at least what was asked for, the same for as long as the block
 * lives and is not resized, all of them writable. 0 for NULL.
 * From: glibc malloc_usable_size. */
SHARDMM_API size_t shardmm_usable_size(const void *block);

/* The usable size that shardmm_malloc(size) would give: asking for it instead wastes nothing. 0 when
 * that would be above PTRDIFF_MAX. Allocates nothing.
 * From: ours, as nallocx of jemalloc and malloc_good_size of macOS. */
SHARDMM_API size_t shardmm_good_size(size_t size);

/* ---- Giving memory back ------------------------------------------------------------------------- */

/* Gives back to the system what can be given back now, of every heap, also of threads that sleep and of
 * threads that ended: free pages and arenas, pages whose every block another thread freed, the insides of
 * free medium blocks, and the cache of large blocks. Returns the number of bytes given back. Other threads
 * may go on meanwhile; a slow path of theirs may have to wait for a system call. What needs its owner stays: the
 * last page of each size class of a live thread, and pages with items that the thread itself freed. Keeps errno.
 * From: ours. */
SHARDMM_API size_t shardmm_purge(void);

/* Gives back what the calling thread alone keeps for its next allocations: takes back what other threads
 * freed, then returns empty pages, arenas and the insides of free medium blocks to the system. For a thread
 * that is about to sleep for long. Keeps errno.
 * From: ours. */
SHARDMM_API void shardmm_thread_flush(void);

/* ---- Statistics --------------------------------------------------------------------------------- */

#define SHARDMM_STATS_VERSION 1u

/* Figures of the whole process. Each is read without stopping other threads: exact while they are quiet,
 * else each for itself a value of about now. Sizes in bytes. New fields come at the end, with a higher
 * version. */
struct shardmm_stats {
    uint32_t version;          /* SHARDMM_STATS_VERSION of the library */
    uint32_t struct_size;      /* sizeof(struct shardmm_stats) of the library */

    uint64_t committed;        /* memory that may be resident for blocks, free memory and metadata */
    uint64_t committed_peak;   /* the highest `committed` seen */
    uint64_t reserved;         /* addresses reserved */

    uint64_t small_bytes;      /* in use: blocks up to 16 KiB, by their usable size */
    uint64_t small_blocks;
    uint64_t medium_bytes;     /* in use: above 16 KiB up to 1 MiB */
    uint64_t medium_blocks;
    uint64_t large_bytes;      /* in use: above 1 MiB */
    uint64_t large_blocks;

    uint64_t free_pages_bytes; /* cached, committed: free pages of 64 KiB, of no class */
    uint64_t free_medium_bytes;/* cached, committed: free memory in arenas */
    uint64_t large_cache_bytes;/* cached, committed: freed large blocks */
    uint64_t large_cache_blocks;

    uint64_t heaps_live;       /* heaps that a thread has */
    uint64_t heaps_waiting;    /* heaps of ended threads that wait for a new one */
    uint64_t segments;         /* 4 MiB segments of small pages and medium arenas */

    uint64_t foreign_frees;    /* blocks freed by a thread that did not own them */
    uint64_t purges;           /* times memory went back to the system */
    uint64_t purged_bytes;     /* how much, in all */
    uint64_t commits;          /* times memory was taken from the system */
    uint64_t failures;         /* requests that got no memory */
};

/* Fills the first `size` bytes of *stats (pass sizeof *stats; a program that was compiled with an older
 * header gets the fields that it knows). Returns 0, or EINVAL when `stats` is NULL or `size` is too small
 * to hold the two first fields. Allocates nothing. */
SHARDMM_API int shardmm_stats_get(struct shardmm_stats *stats, size_t size);

enum shardmm_stats_format {
    SHARDMM_STATS_TEXT = 0, /* lines for people */
    SHARDMM_STATS_JSON = 1  /* one JSON object and a newline, its keys named as the fields above */
};

/* Takes `length` bytes of text, not terminated. Must not call back into the library. */
typedef void shardmm_write_fn(void *context, const char *text, size_t length);

/* Writes the statistics through `write`, piece by piece. Allocates nothing. Returns 0, or EINVAL when
 * `write` is NULL or the format unknown. */
SHARDMM_API int shardmm_stats_print(enum shardmm_stats_format format, shardmm_write_fn *write, void *context);

/* ---- Options and the rest ------------------------------------------------------------------------ */

/* Reads or sets an option by the name that it has in the environment without SHARDMM_ and in small letters,
 * such as "purge_delay"; README lists them. Return 0; ENOENT when there is no such option; EINVAL when
 * the value is out of range or `value` is NULL; EPERM when the option can be set at start only. */
SHARDMM_API int shardmm_option_get(const char *name, int64_t *value);
SHARDMM_API int shardmm_option_set(const char *name, int64_t value);

/* Checks every structure of the allocator against its invariants. Returns 0 when all hold; else says the
 * first fault in one line on standard error and returns its number. No other thread may be inside
 * the library meanwhile: for tests, and for hunting a program that overwrites memory. */
SHARDMM_API int shardmm_verify(void);

/* The version of the library that runs, such as "0.1.0": SHARDMM_VERSION_STRING of its header. */
SHARDMM_API const char *shardmm_version(void);

#ifdef __cplusplus
}
#endif

#endif
