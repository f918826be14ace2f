/* SPDX-License-Identifier: MIT */
/* posix.h - the calls whose arguments the standards say how to check: aligned, sized, of arrays; shared by the public
 * names and by the override. */
#ifndef SMM_ENTRY_POSIX_H
#define SMM_ENTRY_POSIX_H

#include <errno.h>

#include "base/bits.h"
#include "entry/fast.h"

/* `resize` is a constant: what resizes when the product fits. */
SMM_INLINE void *smm_reallocarray_by(void *(*resize)(void *, size_t), void *block, size_t count, size_t size)
{
    size_t bytes;

    if (SMM_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(block, bytes);
}

SMM_INLINE void *smm_aligned_alloc(size_t alignment, size_t size)
{
    if (SMM_UNLIKELY(!smm_is_power_of_two(alignment))) {
        errno = EINVAL;
        return NULL;
    }
    return smm_aligned(alignment, size);
}

SMM_INLINE int smm_posix_memalign(void **result, size_t alignment, size_t size)
{
    const int saved = errno;
    void *block;

    if (SMM_UNLIKELY(!smm_is_power_of_two(alignment) || alignment % sizeof(void *) != 0))
        return EINVAL;
    block = smm_aligned(alignment, size);
    if (SMM_UNLIKELY(block == NULL)) {
        errno = saved;
        return ENOMEM;
    }
    *result = block;
    return 0;
}

SMM_INLINE void *smm_memalign(size_t alignment, size_t size)
{
    if (SMM_UNLIKELY(!smm_is_power_of_two(alignment))) {
        if (alignment > SIZE_MAX / 2 + 1) {
            errno = EINVAL;
            return NULL;
        }
        alignment = alignment == 0 ? 1 : (size_t)2 << smm_bit_high(alignment);
    }
    return smm_aligned(alignment, size);
}

/* The sizes help nobody here: the page knows. So they are checked where checks are on. */
SMM_INLINE void smm_free_sized_as(void *block, size_t alignment, size_t size, const char *call)
{
#if SMM_CHECKS >= 1
    smm_free_sized_check(block, alignment, size, call);
#else
    (void)alignment;
    (void)size;
#endif
    smm_free_as(block, call);
}

SMM_INLINE void smm_free_sized(void *block, size_t size)
{
    smm_free_sized_as(block, 1, size, "free_sized");
}

SMM_INLINE void smm_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    smm_free_sized_as(block, alignment, size, "free_aligned_sized");
}

#endif
