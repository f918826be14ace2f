/* SPDX-License-Identifier: MIT */
/* compiler.h - what the code needs of the compiler beyond C11, and the targets it supports. */
#ifndef SMM_BASE_COMPILER_H
#define SMM_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || defined(__ILP32__)
#error "ShardMM supports x86-64 only (64-bit pointers)"
#endif

#define SMM_LIKELY(x) __builtin_expect(!!(x), 1)
#define SMM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SMM_INLINE static inline __attribute__((always_inline))
#define SMM_NOINLINE __attribute__((noinline))
#define SMM_COLD __attribute__((noinline, cold))
#define SMM_NORETURN __attribute__((noreturn))
#define SMM_ALIGNED(bytes) __attribute__((aligned(bytes)))

/* One cache line of the targets; a struct's parts that different threads write lie on different ones. */
#define SMM_CACHE_LINE 64

#endif
