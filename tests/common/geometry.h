/* SPDX-License-Identifier: MIT */
/* geometry.h - the sizes that the documentation promises, written down a second time: a test that took them
 * from the library's own tables could not find a wrong table. */
#ifndef SMM_TESTS_GEOMETRY_H
#define SMM_TESTS_GEOMETRY_H

#include <stddef.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

#define SMALL_MAX (16 * KIB)
#define MEDIUM_MAX (1 * MIB)
#define PAGE_BYTES (64 * KIB)
#define SEGMENT_BYTES (4 * MIB)
#define RESERVATION_MIN (16 * MIB)

enum { CLASS_COUNT = 43 };

static const size_t class_size[CLASS_COUNT] = {
    16,   32,   64,   80,   96,   112,  128,                    /* no 48: half would straddle a cache line */
    160,  192,  224,  256,  320,  384,  448,  512,              /* 4 a power of two */
    640,  768,  896,  1024, 1280, 1536, 1792, 2048,
    2304, 2560, 2816, 3072, 3328, 3584, 3840, 4096,             /* 8 */
    4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192,
    10240, 12288, 14336, 16384,                                 /* 4 */
};

/* The smallest class of at least `size` bytes that is a multiple of `alignment`. */
static inline size_t class_size_aligned(size_t size, size_t alignment)
{
    for (int i = 0; i < CLASS_COUNT; i++) {
        if (class_size[i] >= size && class_size[i] % alignment == 0)
            return class_size[i];
    }
    return 0;
}

static inline size_t class_size_for(size_t size)
{
    return class_size_aligned(size, 16);
}

#endif
