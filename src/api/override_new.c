/* SPDX-License-Identifier: MIT */
/* override_new.c - all forms of operator new and delete, by their names in the Itanium C++ ABI. In C, so that
 * the fast path is the one of malloc; what fails there is a tail call into the C++ file. Compiled with
 * -fexceptions, for builds that do not make it a tail call. */
#include "api/new_slow.h"
#include "entry/posix.h"
#include "platform/platform.h"

struct nothrow; /* std::nothrow_t */

#define DECLARE(result, function, symbol, ...)                                                            \
    result function(__VA_ARGS__) __asm__(symbol);                                                         \
    __attribute__((visibility("default"))) result function(__VA_ARGS__)

/* A C++ program without a C++ run-time library that could throw: nothing is left but to end. */
SMM_NORETURN void smm_new_cannot_throw(void);
void smm_new_cannot_throw(void)
{
    static const char line[] = "shardmm: operator new: no memory, and no C++ library to throw std::bad_alloc\n";

    smm_os_write(SMM_OS_STDERR, line, sizeof line - 1);
    smm_os_abort();
}

/* ---- new ---- */

DECLARE(void *, smm_new, "_Znwm", size_t size)
{
    return smm_malloc_or(size, smm_new_slow);
}

DECLARE(void *, smm_new_array, "_Znam", size_t size)
{
    return smm_malloc_or(size, smm_new_slow);
}

DECLARE(void *, smm_new_nothrow, "_ZnwmRKSt9nothrow_t", size_t size, const struct nothrow *tag)
{
    (void)tag;
    return smm_malloc_or(size, smm_new_nothrow_slow);
}

DECLARE(void *, smm_new_array_nothrow, "_ZnamRKSt9nothrow_t", size_t size, const struct nothrow *tag)
{
    (void)tag;
    return smm_malloc_or(size, smm_new_nothrow_slow);
}

DECLARE(void *, smm_new_aligned, "_ZnwmSt11align_val_t", size_t size, size_t alignment)
{
    return smm_new_aligned_slow(alignment, size);
}

DECLARE(void *, smm_new_array_aligned, "_ZnamSt11align_val_t", size_t size, size_t alignment)
{
    return smm_new_aligned_slow(alignment, size);
}

DECLARE(void *, smm_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size_t size, size_t alignment,
        const struct nothrow *tag)
{
    (void)tag;
    return smm_new_aligned_nothrow_slow(alignment, size);
}

DECLARE(void *, smm_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size_t size, size_t alignment,
        const struct nothrow *tag)
{
    (void)tag;
    return smm_new_aligned_nothrow_slow(alignment, size);
}

/* ---- delete, unless asm/ brings these names ---- */

#if !SMM_ASM
DECLARE(void, smm_delete, "_ZdlPv", void *block)
{
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_array, "_ZdaPv", void *block)
{
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_nothrow, "_ZdlPvRKSt9nothrow_t", void *block, const struct nothrow *tag)
{
    (void)tag;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", void *block, const struct nothrow *tag)
{
    (void)tag;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_sized, "_ZdlPvm", void *block, size_t size)
{
    smm_free_sized_as(block, 1, size, "delete");
}

DECLARE(void, smm_delete_array_sized, "_ZdaPvm", void *block, size_t size)
{
    smm_free_sized_as(block, 1, size, "delete");
}

DECLARE(void, smm_delete_aligned, "_ZdlPvSt11align_val_t", void *block, size_t alignment)
{
    (void)alignment;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_array_aligned, "_ZdaPvSt11align_val_t", void *block, size_t alignment)
{
    (void)alignment;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", void *block, size_t alignment,
        const struct nothrow *tag)
{
    (void)alignment;
    (void)tag;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", void *block,
        size_t alignment, const struct nothrow *tag)
{
    (void)alignment;
    (void)tag;
    smm_free_as(block, "delete");
}

DECLARE(void, smm_delete_sized_aligned, "_ZdlPvmSt11align_val_t", void *block, size_t size, size_t alignment)
{
    smm_free_sized_as(block, alignment, size, "delete");
}

DECLARE(void, smm_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", void *block, size_t size, size_t alignment)
{
    smm_free_sized_as(block, alignment, size, "delete");
}
#endif
