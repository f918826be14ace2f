// SPDX-License-Identifier: MIT
//! The allocators under test.

use std::ffi::CString;
use std::os::raw::{c_int, c_void};

use shardmm_sys as sys;

pub const EINVAL: c_int = 22;
pub const ENOMEM: c_int = 12;

extern "C" {
    fn __errno_location() -> *mut c_int;
}

pub fn errno() -> c_int {
    unsafe { *__errno_location() }
}

pub fn set_errno(value: c_int) {
    unsafe { *__errno_location() = value }
}

/// What is in use, of the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub blocks: u64,
    pub bytes: u64,
    pub committed: u64,
    pub segments: u64,
    pub heaps: u64,
}

/// An allocator. Pointers are addresses here; 0 is NULL.
///
/// # Safety
/// As for the C calls of these names.
pub trait Target: Send + Sync + 'static {
    /// Whether what only ShardMM promises is checked.
    const PROMISES: bool;
    const NAME: &'static str;

    unsafe fn malloc(size: usize) -> usize;
    unsafe fn calloc(count: usize, size: usize) -> usize;
    unsafe fn realloc(block: usize, size: usize) -> usize;
    unsafe fn reallocarray(block: usize, count: usize, size: usize) -> usize;
    unsafe fn aligned_alloc(align: usize, size: usize) -> usize;
    unsafe fn posix_memalign(result: &mut usize, align: usize, size: usize) -> c_int;
    unsafe fn memalign(align: usize, size: usize) -> usize;
    unsafe fn free(block: usize);
    unsafe fn free_sized(block: usize, size: usize);
    unsafe fn free_aligned_sized(block: usize, align: usize, size: usize);
    unsafe fn usable_size(block: usize) -> usize;
    fn good_size(size: usize) -> usize;
    fn purge();
    fn flush();
    /// Sets an option.
    fn set(option: &str, value: i64);
    /// 0, or the number of a fault.
    fn verify() -> c_int;
    fn usage() -> Usage;
}

pub struct ShardMM;

impl Target for ShardMM {
    const PROMISES: bool = true;
    const NAME: &'static str = "shardmm";

    unsafe fn malloc(size: usize) -> usize {
        sys::shardmm_malloc(size) as usize
    }
    unsafe fn calloc(count: usize, size: usize) -> usize {
        sys::shardmm_calloc(count, size) as usize
    }
    unsafe fn realloc(block: usize, size: usize) -> usize {
        sys::shardmm_realloc(block as *mut c_void, size) as usize
    }
    unsafe fn reallocarray(block: usize, count: usize, size: usize) -> usize {
        sys::shardmm_reallocarray(block as *mut c_void, count, size) as usize
    }
    unsafe fn aligned_alloc(align: usize, size: usize) -> usize {
        sys::shardmm_aligned_alloc(align, size) as usize
    }
    unsafe fn posix_memalign(result: &mut usize, align: usize, size: usize) -> c_int {
        sys::shardmm_posix_memalign((result as *mut usize).cast(), align, size)
    }
    unsafe fn memalign(align: usize, size: usize) -> usize {
        sys::shardmm_memalign(align, size) as usize
    }
    unsafe fn free(block: usize) {
        sys::shardmm_free(block as *mut c_void)
    }
    unsafe fn free_sized(block: usize, size: usize) {
        sys::shardmm_free_sized(block as *mut c_void, size)
    }
    unsafe fn free_aligned_sized(block: usize, align: usize, size: usize) {
        sys::shardmm_free_aligned_sized(block as *mut c_void, align, size)
    }
    unsafe fn usable_size(block: usize) -> usize {
        sys::shardmm_usable_size(block as *const c_void)
    }
    fn good_size(size: usize) -> usize {
        unsafe { sys::shardmm_good_size(size) }
    }
    fn purge() {
        unsafe { sys::shardmm_purge() };
    }
    fn flush() {
        unsafe { sys::shardmm_thread_flush() }
    }
    fn set(option: &str, value: i64) {
        let name = CString::new(option).unwrap();
        assert_eq!(unsafe { sys::shardmm_option_set(name.as_ptr(), value) }, 0);
    }
    fn verify() -> c_int {
        unsafe { sys::shardmm_verify() }
    }
    fn usage() -> Usage {
        let mut stats: sys::shardmm_stats = unsafe { std::mem::zeroed() };
        unsafe { sys::shardmm_stats_get(&mut stats, std::mem::size_of_val(&stats)) };
        Usage {
            blocks: stats.small_blocks + stats.medium_blocks + stats.large_blocks,
            bytes: stats.small_bytes + stats.medium_bytes + stats.large_bytes,
            committed: stats.committed,
            segments: stats.segments,
            heaps: stats.heaps_live + stats.heaps_waiting,
        }
    }
}

mod libc {
    use super::{c_int, c_void};
    extern "C" {
        pub fn malloc(size: usize) -> *mut c_void;
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        pub fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
        pub fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
        pub fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int;
        pub fn memalign(align: usize, size: usize) -> *mut c_void;
        pub fn free(block: *mut c_void);
        pub fn malloc_usable_size(block: *mut c_void) -> usize;
        pub fn malloc_trim(pad: usize) -> c_int;
    }
}

/// The C library's malloc. What holds here as well is no promise of ours, and a test that fails here is wrong.
pub struct System;

impl Target for System {
    const PROMISES: bool = false;
    const NAME: &'static str = "system";

    unsafe fn malloc(size: usize) -> usize {
        libc::malloc(size) as usize
    }
    unsafe fn calloc(count: usize, size: usize) -> usize {
        libc::calloc(count, size) as usize
    }
    unsafe fn realloc(block: usize, size: usize) -> usize {
        libc::realloc(block as *mut c_void, size) as usize
    }
    unsafe fn reallocarray(block: usize, count: usize, size: usize) -> usize {
        libc::reallocarray(block as *mut c_void, count, size) as usize
    }
    unsafe fn aligned_alloc(align: usize, size: usize) -> usize {
        libc::aligned_alloc(align, size) as usize
    }
    unsafe fn posix_memalign(result: &mut usize, align: usize, size: usize) -> c_int {
        libc::posix_memalign((result as *mut usize).cast(), align, size)
    }
    unsafe fn memalign(align: usize, size: usize) -> usize {
        libc::memalign(align, size) as usize
    }
    unsafe fn free(block: usize) {
        libc::free(block as *mut c_void)
    }
    unsafe fn free_sized(block: usize, _size: usize) {
        libc::free(block as *mut c_void)
    }
    unsafe fn free_aligned_sized(block: usize, _align: usize, _size: usize) {
        libc::free(block as *mut c_void)
    }
    unsafe fn usable_size(block: usize) -> usize {
        libc::malloc_usable_size(block as *mut c_void)
    }
    fn good_size(size: usize) -> usize {
        size
    }
    fn purge() {
        unsafe { libc::malloc_trim(0) };
    }
    fn flush() {}
    fn set(_option: &str, _value: i64) {}
    fn verify() -> c_int {
        0
    }
    fn usage() -> Usage {
        Usage::default()
    }
}
