/* SPDX-License-Identifier: MIT */
/* geometry.h - every size that the layout of memory rests on, once.
 *
 *     slot     4 MiB of addresses at a multiple of 4 MiB; the segment map has a byte for each
 *     segment  a slot of small pages (segment of pages) or of medium chunks (arena)
 *     page     64 KiB of a segment; page 0 of a segment holds the descriptors of all its pages
 */
#ifndef SMM_BASE_GEOMETRY_H
#define SMM_BASE_GEOMETRY_H

#include "base/compiler.h"

#define SMM_KIB ((size_t)1 << 10)
#define SMM_MIB ((size_t)1 << 20)
#define SMM_GIB ((size_t)1 << 30)

#define SMM_BLOCK_ALIGN 16u /* of every block */
#define SMM_BLOCK_SHIFT 4u

#define SMM_SLOT_SHIFT 22u
#define SMM_SLOT_SIZE ((size_t)1 << SMM_SLOT_SHIFT)
#define SMM_SLOT_MASK (SMM_SLOT_SIZE - 1)
#define SMM_ADDRESS_BITS 47u /* user addresses of x86-64 without 5-level paging, which needs asking for */
#define SMM_SLOT_COUNT ((size_t)1 << (SMM_ADDRESS_BITS - SMM_SLOT_SHIFT))

#define SMM_PAGE_SHIFT 16u
#define SMM_PAGE_SIZE ((size_t)1 << SMM_PAGE_SHIFT)
#define SMM_PAGE_COUNT 64u /* of a segment, page 0 included */

#define SMM_SMALL_MAX (16 * SMM_KIB)
#define SMM_MEDIUM_MAX SMM_MIB
#define SMM_UNIT_SHIFT 10u
#define SMM_UNIT ((size_t)1 << SMM_UNIT_SHIFT)       /* sizes and offsets of medium chunks are multiples of it */
#define SMM_ARENA_UNITS (SMM_SLOT_SIZE / SMM_UNIT)
#define SMM_CHUNK_LEAST 16u                          /* units of a live chunk, and of a free one that is of use */
#define SMM_DIRECT_MAX ((size_t)2048) /* sizes that find their page without the class table */
#define SMM_DIRECT_COUNT (SMM_DIRECT_MAX / SMM_BLOCK_ALIGN + 1)
#define SMM_CARVE_MAX 64u /* items carved at once */

#define SMM_OS_PAGE_MIN ((size_t)4096) /* the system's page size is a multiple of it */

/* Who asks for huge pages: nobody; heaps that are large already, and large blocks that grow; every heap from its
 * first segment on, and large blocks that grow. */
enum smm_huge_policy { SMM_HUGE_NEVER, SMM_HUGE_AUTO, SMM_HUGE_ALWAYS };

_Static_assert(SMM_PAGE_SIZE * SMM_PAGE_COUNT == SMM_SLOT_SIZE, "pages fill the segment");
_Static_assert(SMM_PAGE_COUNT == 64, "a page set of a segment is one 64-bit word");

SMM_INLINE size_t smm_slot_of(const void *address)
{
    return (uintptr_t)address >> SMM_SLOT_SHIFT;
}

SMM_INLINE void *smm_slot_base(const void *address)
{
    return (void *)((uintptr_t)address & ~(uintptr_t)SMM_SLOT_MASK);
}

#endif
