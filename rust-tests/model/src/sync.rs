// SPDX-License-Identifier: MIT
//! Rust is not instrumented, nor is its standard library: where a block, or the turn, goes from thread to thread, the
//! thread sanitizer of the C code is told so. Elsewhere nothing: it must find what the allocator does not order.

/// What this thread did comes before what others do after [`acquire`] of the same place.
pub fn release<T>(place: &T) {
    tell(place, false);
}

/// See [`release`].
pub fn acquire<T>(place: &T) {
    tell(place, true);
}

#[cfg(feature = "tsan")]
fn tell<T>(place: &T, acquire: bool) {
    extern "C" {
        fn __tsan_acquire(place: *mut u8);
        fn __tsan_release(place: *mut u8);
    }
    let place = place as *const T as *mut u8;
    unsafe {
        if acquire {
            __tsan_acquire(place)
        } else {
            __tsan_release(place)
        }
    }
}

#[cfg(not(feature = "tsan"))]
fn tell<T>(_place: &T, _acquire: bool) {}

/// The sanitizer takes each malloc and free of Rust for a write, whose order it does not see: so Rust's own blocks come
/// from the C library past it.
#[cfg(feature = "tsan")]
mod unseen {
    use std::alloc::{GlobalAlloc, Layout};

    extern "C" {
        fn __libc_malloc(size: usize) -> *mut u8;
        fn __libc_free(block: *mut u8);
    }

    struct Unseen;

    unsafe impl GlobalAlloc for Unseen {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let align = layout.align().max(16);
            let whole = __libc_malloc(layout.size() + 2 * align);
            if whole.is_null() {
                return whole;
            }
            // Between the start and the block there is room for the address of the start.
            let block = ((whole as usize + 16 + align - 1) & !(align - 1)) as *mut u8;
            block.cast::<*mut u8>().sub(1).write(whole);
            block
        }
        unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
            __libc_free(block.cast::<*mut u8>().sub(1).read())
        }
    }

    #[global_allocator]
    static UNSEEN: Unseen = Unseen;
}
