; SPDX-License-Identifier: MIT
; fast.asm - twins of the routines of src/entry/fast.h, which says what each does: the same results and the same
; writes. Leaf code without a frame. What they cannot do goes to the C routines of entry/slow.h by a jump, with the
; arguments as they came and, for frees, the name that a report gives.
;
; Assembled with OVERRIDE, names of the C library's family and of operator delete are these routines as well.
; NASM can refer to a variable of each thread only where it is defined: so smm_heap_self lives here.

        default rel
%include "abi.inc"
%include "offsets.inc"

        extern  smm_empty_heap, smm_class_table
        extern  smm_malloc_slow, smm_calloc_slow, smm_realloc_slow, smm_free_slow, smm_free_rare
        extern  memset

        global  smm_heap_self:data hidden 8
section .tdata write tls progbits align=8
smm_heap_self:
        dq      smm_empty_heap

%ifdef OVERRIDE
; A static program that takes this object must take the rest of the family with it, and not the C library's. Who
; takes the rest takes this object for smm_heap_self.
        extern  smm_override_rest
section .rodata
        dd      smm_override_rest - $
%endif

; ---- Parts ----

; The descriptor of the page that ARG1 lies in is at RET + T1; or goes to a label when ARG1 does not lie in a segment
; that the heap knows as its own. Changes T2.
%macro find_own_page 1
        load_heap T2
        mov     RET, ARG1
        shr     RET, SLOT_SHIFT
        movzx   T1d, RETb                       ; SMM_OWN_COUNT is 256
        cmp     [T2 + T1*8 + HEAP_OWN], RET
        jne     %1
        shl     RET, SLOT_SHIFT
        mov     T1d, ARG1d
        shr     T1d, PAGE_SHIFT - PAGE_SIZEOF_SHIFT
        and     T1d, PAGE_INDEX_MASK << PAGE_SIZEOF_SHIFT
%endmacro

; T1 = the first page of the class of (index << BLOCK_SHIFT) bytes, of the heap T2.
%macro find_class_page 1
        lea     T1, [smm_class_table]
        movzx   T1d, byte [T1 + %1]
        shl     T1d, CLASS_LIST_SHIFT
        mov     T1, [T2 + T1 + HEAP_CLASSES]
%endmacro

; RET = the first free item of the page T1, taken off the list; or goes to a label when there is none. Changes T2.
%macro pop_item 1
        mov     RET, [T1 + PAGE_FREE]
        test    RET, RET
        jz      %1
        mov     T2, [RET]
        mov     [T1 + PAGE_FREE], T2
        add     dword [T1 + PAGE_USED], 1
%endmacro

; ---- malloc ----

section .text

routine shardmm_malloc, malloc, __libc_malloc
        load_heap T2
        cmp     ARG1, DIRECT_MAX                ; before 15 is added, which could wrap
        ja      .above
        lea     RET, [ARG1 + BLOCK_ALIGN - 1]
        shr     RET, BLOCK_SHIFT
        mov     T1, [T2 + RET*8 + HEAP_DIRECT]
.pop:
        pop_item .miss
        ret
.above:
        cmp     ARG1, SMALL_MAX
        ja      .miss
        lea     RET, [ARG1 + BLOCK_ALIGN - 1]
        shr     RET, BLOCK_SHIFT
        find_class_page RET
        jmp     .pop
.miss:
        jmp     smm_malloc_slow
endroutine

; ---- calloc ----

routine shardmm_calloc, calloc, __libc_calloc
        multiply_args                           ; RET, and changes ARG3
        jc      .miss
        cmp     RET, SMALL_MAX
        ja      .miss
        load_heap T2
        lea     ARG3, [RET + BLOCK_ALIGN - 1]
        shr     ARG3, BLOCK_SHIFT
        find_class_page ARG3
        pop_item .miss
        cmp     byte [T1 + PAGE_FREE_IS_ZERO], 0
        je      .clear
        mov     qword [RET], 0                  ; the link
        ret
.clear:
        shl     ARG3, BLOCK_SHIFT
        jz      .done
        cmp     ARG3, CLEAR_INLINE_MAX
        ja      .memset
        pxor    xmm0, xmm0
.next:
        movaps  [RET + ARG3 - BLOCK_ALIGN], xmm0
        sub     ARG3, BLOCK_ALIGN
        jnz     .next
.done:
        ret
.memset:                                        ; returns the item
        mov     ARG1, RET
        xor     ARG2d, ARG2d
        jmp     memset wrt ..plt
.miss:
        jmp     smm_calloc_slow
endroutine

; ---- realloc ----

routine shardmm_realloc, realloc, __libc_realloc
        find_own_page .miss
        movzx   T1d, word [RET + T1 + PAGE_ITEM_SIZE]
        cmp     ARG2, T1
        ja      .miss
        shr     T1, 2
        sub     T1, 1                           ; wraps where the size of items is 0
        cmp     ARG2, T1
        jbe     .miss
        mov     RET, ARG1
        ret
.miss:
        jmp     smm_realloc_slow
endroutine

; ---- free ----

%macro free_as 1                                ; the name that a report gives
        find_own_page %%miss
        mov     T2, [RET + T1 + PAGE_LOCAL_FREE]
        mov     [ARG1], T2
        mov     [RET + T1 + PAGE_LOCAL_FREE], ARG1
        sub     dword [RET + T1 + PAGE_USED], 1
        jle     %%rare
        ret
%%rare:
        mov     ARG2, ARG1
        lea     ARG1, [RET + T1]
        lea     ARG3, [%1]
        jmp     smm_free_rare
%%miss:
        lea     ARG2, [%1]
        jmp     smm_free_slow
%endmacro

routine shardmm_free, free, __libc_free
        free_as name_free
endroutine

; The sizes help nobody here: the page knows. Nor does the alignment in operator delete. Its other forms lead to these
; two, and the C library's sized frees to free, or to what a program or a tool puts in their place.
routine shardmm_free_sized
        free_as name_free_sized
endroutine

routine shardmm_free_aligned_sized
        free_as name_free_aligned_sized
endroutine

%ifdef OVERRIDE
weak_routine _ZdlPv, _ZdlPvSt11align_val_t
        free_as name_delete
endroutine
%endif

section .rodata
name_free:
        db      "free", 0
name_free_sized:
        db      "free_sized", 0
name_free_aligned_sized:
        db      "free_aligned_sized", 0
name_delete:
        db      "delete", 0
