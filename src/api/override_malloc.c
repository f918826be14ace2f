/* SPDX-License-Identifier: MIT */
/* override_malloc.c - the malloc family of the C library, in one object: a static program that takes one of
 * the names gets them all, and never a second one from the C library. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shardmm/shardmm.h>

#include "base/bits.h"
#include "control/stats.h"
#include "entry/posix.h"
#include "heap/collect.h"
#include "platform/platform.h"

#define EXPORT __attribute__((visibility("default")))

/* Not in the headers of this C library, or under another standard only. */
EXPORT void free_sized(void *block, size_t size);
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size);
EXPORT void cfree(void *block);
EXPORT void *__libc_malloc(size_t size);
EXPORT void *__libc_calloc(size_t count, size_t size);
EXPORT void *__libc_realloc(void *block, size_t size);
EXPORT void __libc_free(void *block);
EXPORT void *__libc_memalign(size_t alignment, size_t size);
EXPORT void *__libc_valloc(size_t size);
EXPORT void *__libc_pvalloc(size_t size);
EXPORT int __libc_mallopt(int parameter, int value);

/* ---- The fast paths in C, unless asm/ brings these names ---- */

#if SMM_ASM
/* fast.asm names it, so that whoever takes one of the names from an archive takes all of them. */
extern const char smm_override_rest;
const char smm_override_rest = 0;
#else
EXPORT void *malloc(size_t size)
{
    return smm_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    return smm_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size)
{
    return smm_realloc(block, size);
}

EXPORT void free(void *block)
{
    smm_free(block);
}

void *__libc_malloc(size_t size)
{
    return smm_malloc(size);
}

void *__libc_calloc(size_t count, size_t size)
{
    return smm_calloc(count, size);
}

void *__libc_realloc(void *block, size_t size)
{
    return smm_realloc(block, size);
}

void __libc_free(void *block)
{
    smm_free(block);
}
#endif

/* ---- The rest ---- */

/* The rarer calls go through the names of the others. Tools that put a malloc of their own before this one
 * (valgrind, sanitizers, tracers) often do not know them, and a block of theirs would come here. */

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    return smm_reallocarray_by(realloc, block, count, size);
}

#if SMM_CHECKS >= 1
/* Our own free(), whatever else that name leads to. */
static __attribute__((alias("free"), nothrow)) void own_free(void *block);
#endif

/* The size can be checked where the block is known to be ours. */
static void sized_check(void *block, size_t alignment, size_t size, const char *call)
{
#if SMM_CHECKS >= 1
    if (free == own_free)
        smm_free_sized_check(block, alignment, size, call);
#else
    (void)block;
    (void)alignment;
    (void)size;
    (void)call;
#endif
}

void free_sized(void *block, size_t size)
{
    sized_check(block, 1, size, "free_sized");
    free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    sized_check(block, alignment, size, "free_aligned_sized");
    free(block);
}

void cfree(void *block)
{
    free(block);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return smm_aligned_alloc(alignment, size);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size)
{
    return smm_posix_memalign(result, alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return smm_memalign(alignment, size);
}

EXPORT void *valloc(size_t size)
{
    return memalign(smm_os_page_size(), size);
}

/* A size that cannot be rounded is passed on as it is, to fail for its own sake. */
static size_t whole_pages(size_t size)
{
    const size_t page = smm_os_page_size();

    return size > PTRDIFF_MAX ? size : size == 0 ? page : smm_align_up(size, page);
}

EXPORT void *pvalloc(size_t size)
{
    return memalign(smm_os_page_size(), whole_pages(size));
}

EXPORT size_t malloc_usable_size(void *block)
{
    return smm_usable_size(block, "malloc_usable_size");
}

/* ---- Names by which some programs, and the tools named above, reach past an override ---- */

void *__libc_memalign(size_t alignment, size_t size)
{
    return smm_memalign(alignment, size);
}

void *__libc_valloc(size_t size)
{
    return smm_aligned(smm_os_page_size(), size);
}

void *__libc_pvalloc(size_t size)
{
    return smm_aligned(smm_os_page_size(), whole_pages(size));
}

/* ---- glibc's calls about the state of the allocator ---- */

/* Gives back all that can be; `pad`, which glibc would leave at the top of its heap, has no meaning here.
 * Returns 1 when memory went back, else 0. */
EXPORT int malloc_trim(size_t pad)
{
    (void)pad;
    return smm_purge() != 0;
}

/* The options of glibc's allocator (arenas, thresholds, checks) have no counterpart. They are accepted, and
 * change nothing; 1 is glibc's answer for success. */
EXPORT int mallopt(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 1;
}

int __libc_mallopt(int parameter, int value)
{
    return mallopt(parameter, value);
}

#if SMM_HAVE_MALLINFO2
/* What glibc calls arena, its main heap, is here all that is not in large blocks; what is free there is
 * memory that is kept for later. */
EXPORT struct mallinfo2 mallinfo2(void)
{
    struct shardmm_stats stats;
    struct mallinfo2 info;

    smm_stats_collect(&stats);
    memset(&info, 0, sizeof info);
    const size_t large = stats.large_bytes + stats.large_cache_bytes;
    info.arena = stats.committed > large ? stats.committed - large : 0;
    info.hblks = stats.large_blocks;
    info.hblkhd = stats.large_bytes;
    info.uordblks = stats.small_bytes + stats.medium_bytes + stats.large_bytes;
    info.fordblks = stats.committed > info.uordblks ? stats.committed - info.uordblks : 0;
    info.keepcost = stats.free_pages_bytes + stats.large_cache_bytes;
    return info;
}

static int cut(size_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

/* Deprecated for its fields of int: values that do not fit are cut to the largest one. */
static struct mallinfo cut_info(void)
{
    const struct mallinfo2 wide = mallinfo2();
    struct mallinfo info;

    memset(&info, 0, sizeof info);
    info.arena = cut(wide.arena);
    info.hblks = cut(wide.hblks);
    info.hblkhd = cut(wide.hblkhd);
    info.uordblks = cut(wide.uordblks);
    info.fordblks = cut(wide.fordblks);
    info.keepcost = cut(wide.keepcost);
    return info;
}

EXPORT struct mallinfo mallinfo(void)
{
    return cut_info();
}

EXPORT struct mallinfo __libc_mallinfo(void);

struct mallinfo __libc_mallinfo(void)
{
    return cut_info();
}
#endif

static void write_to_stderr(void *context, const char *text, size_t length)
{
    (void)context;
    smm_os_write(SMM_OS_STDERR, text, length);
}

EXPORT void malloc_stats(void)
{
    (void)smm_stats_print(SHARDMM_STATS_TEXT, write_to_stderr, NULL);
}

static void write_to_stream(void *context, const char *text, size_t length)
{
    /* The stream keeps its own error. */
    (void)fwrite(text, 1, length, context);
}

/* An XML document, as callers of glibc's expect; its one element holds the statistics as JSON. */
EXPORT int malloc_info(int options, FILE *stream)
{
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    fputs("<malloc version=\"shardmm-1\"><![CDATA[", stream);
    (void)smm_stats_print(SHARDMM_STATS_JSON, write_to_stream, stream);
    fputs("]]></malloc>\n", stream);
    return 0;
}
