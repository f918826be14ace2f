// SPDX-License-Identifier: MIT
//! snmalloc. malloc and the like are aliases that the linker makes of its sn_ functions; what has no such twin is here.
use core::ffi::{c_int, c_void};
use snmalloc_sys::{sn_malloc, sn_rust_alloc, sn_rust_dealloc};

pub use snmalloc_sys::{sn_calloc, sn_free, sn_malloc_usable_size, sn_realloc};

const MALLOC_ALIGNMENT: usize = 16;
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;
const SYSTEM_PAGE: usize = 4096;

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    if alignment <= MALLOC_ALIGNMENT {
        return sn_malloc(size);
    }
    sn_rust_alloc(alignment, size.max(1))
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    aligned_alloc(alignment, size)
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    aligned_alloc(SYSTEM_PAGE, size)
}

/// # Safety
/// As in the C library.
#[no_mangle]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment % core::mem::size_of::<*mut c_void>() != 0 {
        return EINVAL;
    }
    let block = aligned_alloc(alignment, size);
    if block.is_null() {
        return ENOMEM;
    }
    *out = block;
    0
}

/// # Safety
/// As in C23.
#[no_mangle]
pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize) {
    if !block.is_null() {
        sn_rust_dealloc(block, MALLOC_ALIGNMENT, size.max(1));
    }
}
