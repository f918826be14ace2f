/* SPDX-License-Identifier: MIT */
#include "base/size_class.h"

#define SMM_SIZE(index, size, before) [index] = (size),
const uint16_t smm_class_sizes[SMM_CLASS_COUNT] = {SMM_CLASSES(SMM_SIZE)};
#undef SMM_SIZE

/* Ranges in designators are an extension that gcc and clang share. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#define SMM_RANGE(index, size, before) [(before) / 16 + ((index) != 0) ... (size) / 16] = (index),
const uint8_t smm_class_table[SMM_SMALL_MAX / SMM_BLOCK_ALIGN + 1] = {SMM_CLASSES(SMM_RANGE)};
#undef SMM_RANGE
#pragma GCC diagnostic pop

#define SMM_CHECK(index, size, before)                                                                    \
    _Static_assert((size) % SMM_BLOCK_ALIGN == 0 && (size) > (before), "classes grow in steps of 16 bytes");
SMM_CLASSES(SMM_CHECK)
#undef SMM_CHECK

unsigned smm_class_of_aligned(size_t size, size_t alignment)
{
    unsigned size_class = smm_class_of(size);

    /* Items lie at multiples of their size from a page's start, which is aligned to 64 KiB. */
    while (size_class < SMM_CLASS_COUNT && (smm_class_size(size_class) & (alignment - 1)) != 0)
        size_class++;
    return size_class;
}
