// SPDX-License-Identifier: MIT
//! The trait `Allocator` of allocator-api2.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::ShardMM;

/// The blocks' whole usable size is not told: it may be more than what the layout of a later call fits.
fn block(memory: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(ptr::slice_from_raw_parts_mut(memory, size)).ok_or(AllocError)
}

/// Layouts of 0 bytes have no memory, but an address of their alignment.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let address = layout.align() as *mut u8;
    // SAFETY: no alignment is 0.
    unsafe { NonNull::new_unchecked(ptr::slice_from_raw_parts_mut(address, 0)) }
}

impl ShardMM {
    unsafe fn resize(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() != 0 && new.size() != 0 && old.align() == new.align() {
            return block(self.realloc(memory.as_ptr(), old, new.size()), new.size());
        }
        let to = self.allocate(new)?;
        to.as_ptr().cast::<u8>().copy_from_nonoverlapping(memory.as_ptr(), old.size().min(new.size()));
        self.deallocate(memory, old);
        Ok(to)
    }
}

// SAFETY: as for GlobalAlloc; all values of ShardMM are the same allocator.
unsafe impl Allocator for ShardMM {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        // SAFETY: not of 0 bytes.
        block(unsafe { self.alloc(layout) }, layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        // SAFETY: not of 0 bytes.
        block(unsafe { self.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            self.dealloc(memory.as_ptr(), layout);
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(memory, old, new)
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let to = self.resize(memory, old, new)?;
        to.as_ptr().cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
        Ok(to)
    }

    #[inline]
    unsafe fn shrink(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(memory, old, new)
    }
}
