/* SPDX-License-Identifier: MIT */
/* size_class.h - the 43 sizes of small blocks.
 *
 * Up to 2 KiB steps of 12.5 to 25 %, of 2 to 8 KiB steps of 6 to 12.5 %, above them 17 to 25 %: a page holds
 * few items there, and finer steps would leave more at its end than they save.
 * There is no class 48: half of its items would lie on one cache line more than their size needs. Class 112
 * is there although that holds for it too, so that objects of 97..112 and of 113..128 bytes do not share pages.
 */
#ifndef SMM_BASE_SIZE_CLASS_H
#define SMM_BASE_SIZE_CLASS_H

#include "base/geometry.h"

/* X(index, size, size of the class before) */
#define SMM_CLASSES(X)                                                                                    \
    X(0, 16, 0) X(1, 32, 16) X(2, 64, 32) X(3, 80, 64) X(4, 96, 80) X(5, 112, 96) X(6, 128, 112)          \
    X(7, 160, 128) X(8, 192, 160) X(9, 224, 192) X(10, 256, 224)                                          \
    X(11, 320, 256) X(12, 384, 320) X(13, 448, 384) X(14, 512, 448)                                       \
    X(15, 640, 512) X(16, 768, 640) X(17, 896, 768) X(18, 1024, 896)                                      \
    X(19, 1280, 1024) X(20, 1536, 1280) X(21, 1792, 1536) X(22, 2048, 1792)                               \
    X(23, 2304, 2048) X(24, 2560, 2304) X(25, 2816, 2560) X(26, 3072, 2816)                               \
    X(27, 3328, 3072) X(28, 3584, 3328) X(29, 3840, 3584) X(30, 4096, 3840)                               \
    X(31, 4608, 4096) X(32, 5120, 4608) X(33, 5632, 5120) X(34, 6144, 5632)                               \
    X(35, 6656, 6144) X(36, 7168, 6656) X(37, 7680, 7168) X(38, 8192, 7680)                               \
    X(39, 10240, 8192) X(40, 12288, 10240) X(41, 14336, 12288) X(42, 16384, 14336)

#define SMM_CLASS_COUNT 43u

extern const uint16_t smm_class_sizes[SMM_CLASS_COUNT];
extern const uint8_t smm_class_table[SMM_SMALL_MAX / SMM_BLOCK_ALIGN + 1];

/* The class of a request of 0..16 KiB. */
SMM_INLINE unsigned smm_class_of(size_t size)
{
    return smm_class_table[(size + SMM_BLOCK_ALIGN - 1) >> SMM_BLOCK_SHIFT];
}

SMM_INLINE size_t smm_class_size(unsigned size_class)
{
    return smm_class_sizes[size_class];
}

/* The smallest class for `size` whose items all lie at multiples of `alignment` (up to 16 KiB), or
 * SMM_CLASS_COUNT when there is none. */
unsigned smm_class_of_aligned(size_t size, size_t alignment);

#endif
