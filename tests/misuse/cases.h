/* SPDX-License-Identifier: MIT */
/* cases.h - CASE(name, code that misuses `p`, the tier that sees it, the report after "shardmm: "). The address
 * stands as @. A case of the tier debug is not run against the release build, which may not see it. */
#define MIB ((size_t)1 << 20)
#define UNKNOWN "not a block of this allocator"
#define INTERIOR "not the start of a block"
#define FREED "freed before"
#define OVERWRITTEN "the header that describes the block was overwritten"
#define SIZE "the size does not belong to this block"

CASE(small_freed_twice, p = shardmm_malloc(100); shardmm_free(p); shardmm_free(p), DEBUG,
     "free(@): " FREED " (small, 112 bytes)")
/* A release build sees it where the page has no other block in use. */
CASE(small_alone_freed_twice, p = shardmm_malloc(200); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (small, 224 bytes)")
CASE(small_alone_freed_with_size_twice, p = shardmm_malloc(200); shardmm_free_sized(p, 200); shardmm_free_sized(p, 200),
     ALWAYS, "free_sized(@): " FREED " (small, 224 bytes)")
CASE(medium_freed_twice, p = shardmm_malloc(100000); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (medium)")
CASE(medium_aligned_freed_twice, p = shardmm_aligned_alloc(65536, 100000); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (medium)")
CASE(large_freed_twice, p = shardmm_malloc(3 * MIB); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " FREED " (large, 3149760 bytes)")
/* Its reservation is not kept, so that nothing is known of the address any more. */
CASE(large_aligned_freed_twice, p = shardmm_aligned_alloc(4 * MIB, 3 * MIB); shardmm_free(p); shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(medium_resized_after_free, p = shardmm_malloc(100000); shardmm_free(p); p = shardmm_realloc(p, 5 * MIB), ALWAYS,
     "realloc(@): " FREED " (medium)")
CASE(large_resized_after_free, p = shardmm_malloc(3 * MIB); shardmm_free(p); p = shardmm_realloc(p, 100), ALWAYS,
     "realloc(@): " FREED " (large, 3149760 bytes)")

CASE(small_interior, p = (char *)shardmm_malloc(100) + 16; shardmm_free(p), DEBUG,
     "free(@): " INTERIOR " (small, 112 bytes)")
CASE(small_misaligned, p = (char *)shardmm_malloc(100) + 1; shardmm_free(p), DEBUG,
     "free(@): " INTERIOR " (small, 112 bytes)")
CASE(medium_misaligned, p = (char *)shardmm_malloc(100000) + 1; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium, 100352 bytes)")
CASE(medium_interior, p = (char *)shardmm_malloc(100000) + 51200; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium, 100352 bytes)")
CASE(medium_last_byte, p = (char *)shardmm_malloc(100000) + 100351; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium, 100352 bytes)")
CASE(medium_one_past_the_end, p = (char *)shardmm_malloc(100000) + 100352; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium)")
CASE(medium_interior_of_a_merged_block, p = shardmm_malloc(100000);
     void *q = shardmm_malloc(100000); shardmm_free(q); p = (char *)shardmm_realloc(p, 150000) + 102400; shardmm_free(p),
     ALWAYS, "free(@): " INTERIOR " (medium, 150528 bytes)")
CASE(large_interior, p = (char *)shardmm_malloc(3 * MIB) + 4096; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (large, 3149760 bytes)")
CASE(large_misaligned, p = (char *)shardmm_malloc(3 * MIB) + 15; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (large, 3149760 bytes)")
/* Only the segment where a large block starts is on record. */
CASE(large_second_segment, p = (char *)shardmm_malloc(9 * MIB) + 4 * MIB; shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(large_header_overwritten, p = shardmm_malloc(3 * MIB); memset((char *)p - 64, 0x41, 64); shardmm_free(p), ALWAYS,
     "free(@): the header that describes the block was overwritten (large)")

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

/* ---- Other calls ---- */
CASE(usable_size_of_data, p = data; (void)shardmm_usable_size(p), ALWAYS, "usable_size(@): " UNKNOWN)
CASE(usable_size_of_freed_medium, p = shardmm_malloc(100000); shardmm_free(p); (void)shardmm_usable_size(p), ALWAYS,
     "usable_size(@): " FREED " (medium)")
CASE(usable_size_of_freed_large, p = shardmm_malloc(3 * MIB); shardmm_free(p); (void)shardmm_usable_size(p), ALWAYS,
     "usable_size(@): " FREED " (large, 3149760 bytes)")
CASE(array_of_data_resized, p = data; p = shardmm_reallocarray(p, 10, 10), ALWAYS, "realloc(@): " UNKNOWN)
CASE(data_freed_with_size, p = data; shardmm_free_sized(p, 64), ALWAYS, "free_sized(@): " UNKNOWN)
CASE(data_freed_with_alignment, p = data; shardmm_free_aligned_sized(p, 16, 64), ALWAYS,
     "free_aligned_sized(@): " UNKNOWN)
CASE(medium_freed_with_size_twice, p = shardmm_malloc(100000); shardmm_free_sized(p, 100000);
     shardmm_free_sized(p, 100000), ALWAYS, "free_sized(@): " FREED " (medium)")
CASE(aligned_wrong_size, p = shardmm_aligned_alloc(64, 128); shardmm_free_aligned_sized(p, 64, 5000), DEBUG,
     "free_aligned_sized(@): " SIZE " (small, 128 bytes)")
CASE(aligned_wrong_alignment, p = (char *)shardmm_aligned_alloc(64, 64); shardmm_free_aligned_sized(p, 4 * MIB, 64),
     DEBUG, "free_aligned_sized(@): " SIZE " (small, 64 bytes)")

/* ---- What the library knows of a block ---- */
#define SEGMENT(block) ((char *)((uintptr_t)(block) & ~(4 * MIB - 1)))
/* 4 bytes for each KiB, in the header of the arena. */
#define TAG_OVERWRITTEN(block) memset(SEGMENT(block) + 64 + ((char *)(block) - SEGMENT(block)) / 1024 * 4, 0x44, 2)
CASE(medium_tag_overwritten, p = shardmm_malloc(100000); TAG_OVERWRITTEN(p); shardmm_free(p), ALWAYS,
     "free(@): " OVERWRITTEN " (medium)")
CASE(medium_resized_after_its_tag_was_overwritten, p = shardmm_malloc(100000); TAG_OVERWRITTEN(p);
     p = shardmm_realloc(p, 200000), ALWAYS, "realloc(@): " OVERWRITTEN " (medium)")
CASE(medium_freed_twice_after_its_bytes_were_overwritten, p = shardmm_malloc(100000); shardmm_free(p);
     memset((char *)p - 16, 0x40, 100032); shardmm_free(p), ALWAYS, "free(@): " FREED " (medium)")

/* ---- Memory of ours that is no block ---- */
CASE(segment_of_small_blocks, p = SEGMENT(shardmm_malloc(100)) + 4096; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (small)")
CASE(unused_page_of_a_segment, p = SEGMENT(shardmm_malloc(100)) + 4 * MIB - 65536; shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN " (small)")
CASE(end_of_a_segment, p = SEGMENT(shardmm_malloc(100)) + 4 * MIB - 16; shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN " (small)")
CASE(arena_of_medium_blocks, p = SEGMENT(shardmm_malloc(100000)) + 16; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium)")
CASE(memory_of_an_arena_that_nobody_had, p = SEGMENT(shardmm_malloc(100000)) + 3 * MIB; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium)")
CASE(end_of_an_arena, p = SEGMENT(shardmm_malloc(100000)) + 4 * MIB - 256; shardmm_free(p), ALWAYS,
     "free(@): " INTERIOR " (medium)")
CASE(memory_of_an_arena_resized, p = SEGMENT(shardmm_malloc(100000)) + 3 * MIB; p = shardmm_realloc(p, 100), ALWAYS,
     "realloc(@): " INTERIOR " (medium)")

/* ---- Beside memory that must not be read ---- */
#define ISLAND ((char *)mmap(NULL, 12288, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096)
CASE(alone_between_unreadable_pages, p = ISLAND; mprotect(p, 4096, PROT_READ | PROT_WRITE); shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(end_beside_an_unreadable_page, p = ISLAND; mprotect(p, 4096, PROT_READ | PROT_WRITE); p = (char *)p + 4080;
     shardmm_free(p), ALWAYS, "free(@): " UNKNOWN)
CASE(unreadable_resized, p = ISLAND; p = shardmm_realloc(p, 100), ALWAYS, "realloc(@): " UNKNOWN)
CASE(unreadable_usable_size, p = ISLAND; (void)shardmm_usable_size(p), ALWAYS, "usable_size(@): " UNKNOWN)
CASE(unreadable_freed_with_size, p = ISLAND; shardmm_free_sized(p, 100), ALWAYS, "free_sized(@): " UNKNOWN)
CASE(unreadable_freed_with_alignment, p = ISLAND; shardmm_free_aligned_sized(p, 64, 100), ALWAYS,
     "free_aligned_sized(@): " UNKNOWN)
/* A reservation that went back: what was its header is not there any more. */
CASE(released_large, p = shardmm_malloc(9 * MIB); shardmm_free(p); (void)shardmm_purge(); shardmm_free(p), ALWAYS,
     "free(@): " UNKNOWN)
CASE(released_large_usable_size, p = shardmm_malloc(9 * MIB); shardmm_free(p); (void)shardmm_purge();
     p = (char *)p + 5 * MIB; (void)shardmm_usable_size(p), ALWAYS, "usable_size(@): " UNKNOWN)

/* ---- Calls that would wait for their own thread ---- */
#define REENTRY \
    "called while another call of this thread holds a lock: by a signal handler, or a function in place of the system's"
CASE(system_function_that_allocates, purge(call_again), ALWAYS, REENTRY)
CASE(sigabrt_under_a_lock, purge(raise_sigabrt), ALWAYS, REENTRY)
CASE(sigsegv_under_a_lock, p = NULL; purge(touch_nothing), ALWAYS, REENTRY)
CASE(signal_under_a_lock, purge(raise_sigusr1), ALWAYS, REENTRY)
/* Not under a lock such a handler gets what it asks for. */
CASE(sigsegv_of_the_program, p = NULL; touch_nothing(), ALWAYS, "no line")
