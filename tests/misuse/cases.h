/* SPDX-License-Identifier: MIT */
/* cases.h - CASE(name, code that misuses `p`, the tier that sees it, the report after "shardmm: "). The address
 * stands as @. A case of the tier debug is not run against the release build, which may not see it. */
#define MIB ((size_t)1 << 20)
#define UNKNOWN "not a block of this allocator"
#define INTERIOR "not the start of a block"
#define FREED "freed before"
#define SIZE "the size does not belong to this block"

CASE(small_freed_twice, p = shardmm_malloc(100); shardmm_free(p); shardmm_free(p), DEBUG,
     "free(@): " FREED " (small, 112 bytes)")
CASE(medium_freed_twice, p = shardmm_malloc(100000); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (medium)")
CASE(medium_aligned_freed_twice, p = shardmm_aligned_alloc(65536, 100000); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (medium)")
CASE(large_freed_twice, p = shardmm_malloc(3 * MIB); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (large)")
/* Its reservation is not kept, so that nothing is known of the address any more. */
CASE(large_aligned_freed_twice, p = shardmm_aligned_alloc(4 * MIB, 3 * MIB); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(medium_resized_after_free, p = shardmm_malloc(100000); shardmm_free(p); p = shardmm_realloc(p, 5 * MIB), ALWAYS,
     "realloc(@): " FREED " (medium)")
CASE(large_resized_after_free, p = shardmm_malloc(3 * MIB); shardmm_free(p); p = shardmm_realloc(p, 100), ALWAYS,
     "realloc(@): " FREED " (large)")

CASE(small_interior, p = (char *)shardmm_malloc(100) + 16; shardmm_free(p), DEBUG,
     "free(@): " INTERIOR " (small, 112 bytes)")
CASE(small_misaligned, p = (char *)shardmm_malloc(100) + 1; shardmm_free(p), DEBUG,
     "free(@): " INTERIOR " (small, 112 bytes)")
CASE(medium_misaligned, p = (char *)shardmm_malloc(100000) + 1; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium)")
CASE(large_interior, p = (char *)shardmm_malloc(3 * MIB) + 4096; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (large)")
CASE(large_misaligned, p = (char *)shardmm_malloc(3 * MIB) + 15; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (large)")
/* Only the segment where a large block starts is on record. */
CASE(large_second_segment, p = (char *)shardmm_malloc(9 * MIB) + 4 * MIB; shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(large_header_overwritten, p = shardmm_malloc(3 * MIB); memset((char *)p - 64, 0x41, 64); shardmm_free(p), ALWAYS,
     "free(@): the words before or after the block were overwritten (large)")

CASE(in_stack, p = __builtin_frame_address(0); shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(in_data, p = data; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(in_code, p = (void *)(uintptr_t)main; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(mapped_for_nobody, p = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(near_null, p = (void *)16; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(non_canonical, p = (void *)0x4141414141414140; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(in_kernel, p = (void *)0xffff888000001000; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(last_address, p = (void *)UINTPTR_MAX; shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(wild_resized, p = (void *)0x4141414141414140; p = shardmm_realloc(p, 100), ALWAYS, "realloc(@): " UNKNOWN)

CASE(small_sized_wrong, p = shardmm_malloc(100); shardmm_free_sized(p, 1000), DEBUG,
     "free_sized(@): " SIZE " (small, 112 bytes)")
