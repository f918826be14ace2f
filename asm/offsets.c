/* SPDX-License-Identifier: MIT */
/* offsets.c - compares the numbers that the assembler fast paths are made with, which stand in asm/meson.build, with
 * what they stand for. Nothing else: it has no code. */
#include "offsets.h"

#include "entry/fast.h"

#define SAME(name, value) _Static_assert(SMM_ASM_##name == (value), "asm/meson.build: " #name " is " #value)

SAME(BLOCK_ALIGN, SMM_BLOCK_ALIGN);
SAME(BLOCK_SHIFT, SMM_BLOCK_SHIFT);
SAME(DIRECT_MAX, SMM_DIRECT_MAX);
SAME(SMALL_MAX, SMM_SMALL_MAX);
SAME(SLOT_SHIFT, SMM_SLOT_SHIFT);
SAME(PAGE_SHIFT, SMM_PAGE_SHIFT);
SAME(PAGE_INDEX_MASK, SMM_PAGE_COUNT - 1);
SAME(PAGE_SIZEOF_SHIFT, __builtin_ctz(sizeof(struct smm_page)));
SAME(PAGE_FREE, offsetof(struct smm_page, free));
SAME(PAGE_LOCAL_FREE, offsetof(struct smm_page, local_free));
SAME(PAGE_USED, offsetof(struct smm_page, used));
SAME(PAGE_ITEM_SIZE, offsetof(struct smm_page, item_size));
SAME(PAGE_FREE_IS_ZERO, offsetof(struct smm_page, free_is_zero));
SAME(HEAP_DIRECT, offsetof(struct smm_heap, small.direct));
SAME(HEAP_CLASSES, offsetof(struct smm_heap, small.classes));
SAME(HEAP_OWN, offsetof(struct smm_heap, small.own));
SAME(CLASS_LIST_SHIFT, __builtin_ctz(sizeof(struct smm_class_list)));

/* What the instructions themselves rest on. */
_Static_assert(offsetof(struct smm_segment, pages) == 0, "descriptors start the segment");
_Static_assert(offsetof(struct smm_item, link) == 0, "the link is an item's first word");
_Static_assert(sizeof(((struct smm_page *)0)->used) == 4 && sizeof(((struct smm_page *)0)->item_size) == 2 &&
                   sizeof(((struct smm_page *)0)->free_is_zero) == 1, "operand sizes");
_Static_assert(SMM_OWN_COUNT == 256 && sizeof(((struct smm_small *)0)->own[0]) == 8, "indexed by the low byte");
_Static_assert(sizeof smm_class_table[0] == 1 && SMM_CLASS_COUNT <= 256, "a byte a class");
