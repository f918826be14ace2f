// SPDX-License-Identifier: MIT
#![no_std]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

#[cfg(feature = "hardened")]
compile_error!(
    "the feature `hardened` is reserved: the hardened build is not part of this version of ShardMM"
);

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::NonNull;

use shardmm_sys as sys;

#[cfg(feature = "allocator_api2")]
mod allocator;
#[cfg(feature = "stats")]
mod stats;
#[cfg(feature = "stats")]
pub use stats::{option, set_option, stats, OptionError, Stats};

/// The allocator. It has no state of its own: all values are the same allocator, which is that of C code in the
/// program that calls `shardmm_malloc()`, too.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: shardmm::ShardMM = shardmm::ShardMM;
///
/// let block = Box::new([7u8; 100]);
/// assert!(shardmm::usable_size(&*block as *const _ as *mut u8) >= 100);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardMM;

/// Every block is aligned to this at least.
const ALIGN: usize = 16;

// SAFETY: blocks are of at least the size and the alignment of the layout, do not overlap, and no call unwinds.
// Layouts are not of 0 bytes, and their sizes are not above `isize::MAX`.
unsafe impl GlobalAlloc for ShardMM {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The alignment of most layouts is known to the compiler, and one of the branches goes.
        if layout.align() <= ALIGN {
            sys::shardmm_malloc(layout.size()).cast()
        } else {
            sys::shardmm_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN {
            return sys::shardmm_calloc(1, layout.size()).cast();
        }
        let block: *mut u8 = sys::shardmm_aligned_alloc(layout.align(), layout.size()).cast();
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        sys::shardmm_free_aligned_sized(block.cast(), layout.align(), layout.size());
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The C call keeps an alignment of 16 only.
        if layout.align() <= ALIGN {
            return sys::shardmm_realloc(block.cast(), size).cast();
        }
        // In place where neither much is wasted nor much is missing: as realloc does it.
        let usable = sys::shardmm_usable_size(block.cast());
        if size <= usable && size >= usable / 4 {
            return block;
        }
        let to: *mut u8 = sys::shardmm_aligned_alloc(layout.align(), size).cast();
        if !to.is_null() {
            to.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        to
    }
}

/// How many bytes of a block may be used: at least what was asked for. The same for as long as the block lives and is
/// not resized. 0 for a null pointer.
///
/// The address is looked up, not read; one that is no block of ShardMM is reported on standard error, and the process
/// aborts.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let layout = Layout::from_size_align(100, 1).unwrap();
/// unsafe {
///     let block = shardmm::ShardMM.alloc(layout);
///     assert_eq!(shardmm::usable_size(block), shardmm::good_size(100));
///     shardmm::ShardMM.dealloc(block, layout);
/// }
/// ```
pub fn usable_size(block: *const u8) -> usize {
    // SAFETY: any address is allowed; it is checked.
    unsafe { sys::shardmm_usable_size(block.cast::<c_void>()) }
}

/// The usable size that a block of `size` bytes would have: asking for it instead wastes nothing. 0 when `size` is
/// above `isize::MAX`.
///
/// ```
/// assert_eq!(shardmm::good_size(100), 112);
/// ```
pub fn good_size(size: usize) -> usize {
    // SAFETY: allocates nothing, reads no memory of ours.
    unsafe { sys::shardmm_good_size(size) }
}

/// Gives back to the system what can be given back now, of all threads. Returns the number of bytes.
///
/// ```
/// shardmm::purge();
/// ```
pub fn purge() -> usize {
    // SAFETY: may be called by any thread at any time.
    unsafe { sys::shardmm_purge() }
}

/// Gives back what the calling thread keeps for its next allocations: for a thread that is about to sleep for long.
///
/// ```
/// shardmm::flush_thread();
/// ```
pub fn flush_thread() {
    // SAFETY: may be called by any thread at any time.
    unsafe { sys::shardmm_thread_flush() }
}

/// The version of the library, such as "0.1.0".
///
/// ```
/// assert_eq!(shardmm::version(), env!("CARGO_PKG_VERSION"));
/// ```
pub fn version() -> &'static str {
    // SAFETY: a constant string of ASCII that ends with 0.
    unsafe {
        let start: NonNull<u8> = NonNull::new_unchecked(sys::shardmm_version() as *mut u8);
        let mut length = 0;
        while *start.as_ptr().add(length) != 0 {
            length += 1;
        }
        core::str::from_utf8_unchecked(core::slice::from_raw_parts(start.as_ptr(), length))
    }
}
