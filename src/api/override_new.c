/* SPDX-License-Identifier: MIT */
/* override_new.c - all forms of operator new and delete, by their names in the Itanium C++ ABI. In C, so that
 * the fast path is the one of malloc; what fails there is a tail call into the C++ file. Compiled with
 * -fexceptions, for builds that do not make it a tail call.
 *
 * A program may replace some of the forms by its own. The standard says which of the others then come to these:
 *
 *     new[] -> new           nothrow new -> new           nothrow new[] -> new[]           the same when aligned
 *     delete[] -> delete     delete, sized -> delete      delete, nothrow -> delete
 *
 * So only the four forms on the right serve themselves; the others go through their names. All are weak: beside
 * a form of the program's, a linker takes the rest from a static library. */
#include "api/new_slow.h"
#include "entry/posix.h"
#include "platform/platform.h"

struct nothrow; /* std::nothrow_t */

#define DECLARE(result, function, symbol, ...)                                                            \
    result function(__VA_ARGS__) __asm__(symbol);                                                         \
    __attribute__((visibility("default"), weak)) result function(__VA_ARGS__)

/* A C++ program without a C++ run-time library that could throw: nothing is left but to end. */
SMM_NORETURN void smm_new_cannot_throw(void);
void smm_new_cannot_throw(void)
{
    static const char line[] = "shardmm: operator new: no memory, and no C++ library to throw std::bad_alloc\n";

    smm_os_write(SMM_OS_STDERR, line, sizeof line - 1);
    smm_os_abort();
}

/* ---- The forms that serve ---- */

DECLARE(void *, smm_new, "_Znwm", size_t size)
{
    return smm_malloc_or(size, smm_new_slow);
}

DECLARE(void *, smm_new_aligned, "_ZnwmSt11align_val_t", size_t size, size_t alignment)
{
    return smm_new_aligned_slow(alignment, size);
}

#if SMM_ASM
void smm_delete(void *block) __asm__("_ZdlPv");
void smm_delete_aligned(void *block, size_t alignment) __asm__("_ZdlPvSt11align_val_t");
#else
DECLARE(void, smm_delete, "_ZdlPv", void *block)
{
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_aligned, "_ZdlPvSt11align_val_t", void *block, size_t alignment)
{
    (void)alignment;
    smm_free_as(block, "delete");
}
#endif

/* These here, whatever their names lead to. */
static __attribute__((alias("_Znwm"))) void *own_new(size_t size);
static __attribute__((alias("_ZnwmSt11align_val_t"))) void *own_new_aligned(size_t size, size_t alignment);
#if SMM_CHECKS >= 1
static __attribute__((alias("_ZdlPv"))) void own_delete(void *block);
static __attribute__((alias("_ZdlPvSt11align_val_t"))) void own_delete_aligned(void *block, size_t alignment);
#endif

/* ---- new ---- */

DECLARE(void *, smm_new_array, "_Znam", size_t size)
{
    return smm_new(size);
}

DECLARE(void *, smm_new_nothrow, "_ZnwmRKSt9nothrow_t", size_t size, const struct nothrow *tag)
{
    (void)tag;
    if (SMM_UNLIKELY(smm_new != own_new))
        return smm_new_nothrow_of_program(size);
    return smm_malloc_or(size, smm_new_nothrow_slow);
}

/* Whether new[] or new is the program's, new[] leads there. */
static __attribute__((alias("_Znam"))) void *own_new_array(size_t size);

DECLARE(void *, smm_new_array_nothrow, "_ZnamRKSt9nothrow_t", size_t size, const struct nothrow *tag)
{
    (void)tag;
    if (SMM_UNLIKELY(smm_new != own_new || smm_new_array != own_new_array))
        return smm_new_array_nothrow_of_program(size);
    return smm_malloc_or(size, smm_new_nothrow_slow);
}

DECLARE(void *, smm_new_array_aligned, "_ZnamSt11align_val_t", size_t size, size_t alignment)
{
    return smm_new_aligned(size, alignment);
}

DECLARE(void *, smm_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size_t size, size_t alignment,
        const struct nothrow *tag)
{
    (void)tag;
    if (SMM_UNLIKELY(smm_new_aligned != own_new_aligned))
        return smm_new_aligned_nothrow_of_program(alignment, size);
    return smm_new_aligned_nothrow_slow(alignment, size);
}

static __attribute__((alias("_ZnamSt11align_val_t"))) void *own_new_array_aligned(size_t size, size_t alignment);

DECLARE(void *, smm_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size_t size, size_t alignment,
        const struct nothrow *tag)
{
    (void)tag;
    if (SMM_UNLIKELY(smm_new_aligned != own_new_aligned || smm_new_array_aligned != own_new_array_aligned))
        return smm_new_array_aligned_nothrow_of_program(alignment, size);
    return smm_new_aligned_nothrow_slow(alignment, size);
}

/* ---- delete ---- */

/* Sizes can be checked where the block is known to be ours. */
static void sized_check(void *block, size_t alignment, size_t size)
{
#if SMM_CHECKS >= 1
    if (smm_delete == own_delete && smm_delete_aligned == own_delete_aligned)
        smm_free_sized_check(block, alignment, size, "delete");
#else
    (void)block;
    (void)alignment;
    (void)size;
#endif
}

DECLARE(void, smm_delete_array, "_ZdaPv", void *block)
{
    smm_delete(block);
}

DECLARE(void, smm_delete_nothrow, "_ZdlPvRKSt9nothrow_t", void *block, const struct nothrow *tag)
{
    (void)tag;
    smm_delete(block);
}

DECLARE(void, smm_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", void *block, const struct nothrow *tag)
{
    (void)tag;
    smm_delete_array(block);
}

DECLARE(void, smm_delete_sized, "_ZdlPvm", void *block, size_t size)
{
    sized_check(block, 1, size);
    smm_delete(block);
}

DECLARE(void, smm_delete_array_sized, "_ZdaPvm", void *block, size_t size)
{
    sized_check(block, 1, size);
    smm_delete_array(block);
}

DECLARE(void, smm_delete_array_aligned, "_ZdaPvSt11align_val_t", void *block, size_t alignment)
{
    smm_delete_aligned(block, alignment);
}

DECLARE(void, smm_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", void *block, size_t alignment,
        const struct nothrow *tag)
{
    (void)tag;
    smm_delete_aligned(block, alignment);
}

DECLARE(void, smm_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", void *block,
        size_t alignment, const struct nothrow *tag)
{
    (void)tag;
    smm_delete_array_aligned(block, alignment);
}

DECLARE(void, smm_delete_sized_aligned, "_ZdlPvmSt11align_val_t", void *block, size_t size, size_t alignment)
{
    sized_check(block, alignment, size);
    smm_delete_aligned(block, alignment);
}

DECLARE(void, smm_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", void *block, size_t size, size_t alignment)
{
    sized_check(block, alignment, size);
    smm_delete_array_aligned(block, alignment);
}
