/* SPDX-License-Identifier: MIT */
/* new_slow.h - what operator new does when its fast path has no block: the allocator's slow path, then the
 * program's handler, until there is memory or no handler. The first two throw std::bad_alloc, the others
 * return a null pointer. Written in C++, called from C. */
#ifndef SMM_API_NEW_SLOW_H
#define SMM_API_NEW_SLOW_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *smm_new_slow(size_t size);
void *smm_new_aligned_slow(size_t alignment, size_t size);
void *smm_new_nothrow_slow(size_t size);
void *smm_new_aligned_nothrow_slow(size_t alignment, size_t size);

/* Where the program has a form of its own that throws: that one, or a null pointer when it threw. */
void *smm_new_nothrow_of_program(size_t size);
void *smm_new_array_nothrow_of_program(size_t size);
void *smm_new_aligned_nothrow_of_program(size_t alignment, size_t size);
void *smm_new_array_aligned_nothrow_of_program(size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
