/* SPDX-License-Identifier: MIT */
/* c_twins.h - the fast paths of src/entry/fast.h as functions, whatever the library itself is built with. */
#ifndef SMM_TESTS_C_TWINS_H
#define SMM_TESTS_C_TWINS_H

#include <stddef.h>

void *smm_twin_malloc(size_t size);
void *smm_twin_calloc(size_t count, size_t size);
void *smm_twin_realloc(void *block, size_t size);
void smm_twin_free(void *block);
void smm_twin_free_sized(void *block, size_t size);
void smm_twin_free_aligned_sized(void *block, size_t alignment, size_t size);

#endif
