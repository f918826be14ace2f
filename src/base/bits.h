/* SPDX-License-Identifier: MIT */
/* bits.h - arithmetic on sizes, alignments and bit maps. */
#ifndef SMM_BASE_BITS_H
#define SMM_BASE_BITS_H

#include "base/compiler.h"

SMM_INLINE bool smm_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* `alignment` is a power of two, and the caller knows that the sum does not wrap. */
SMM_INLINE size_t smm_align_up(size_t n, size_t alignment)
{
    return (n + alignment - 1) & ~(alignment - 1);
}

SMM_INLINE size_t smm_align_down(size_t n, size_t alignment)
{
    return n & ~(alignment - 1);
}

/* Index of the lowest and of the highest set bit; `n` is not 0. */
SMM_INLINE unsigned smm_bit_low(uint64_t n)
{
    return (unsigned)__builtin_ctzll(n);
}

SMM_INLINE unsigned smm_bit_high(uint64_t n)
{
    return 63u - (unsigned)__builtin_clzll(n);
}

/* Number of set bits, without POPCNT, which is above the x86-64 baseline. */
SMM_INLINE unsigned smm_bit_count(uint64_t n)
{
    n -= (n >> 1) & 0x5555555555555555u;
    n = (n & 0x3333333333333333u) + ((n >> 2) & 0x3333333333333333u);
    n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((n * 0x0101010101010101u) >> 56);
}

/* `count` set bits from bit `first` on; count is 1..64. */
SMM_INLINE uint64_t smm_bit_run(unsigned first, unsigned count)
{
    return (~(uint64_t)0 >> (64u - count)) << first;
}

#endif
