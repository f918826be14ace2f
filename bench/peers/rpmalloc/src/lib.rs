// SPDX-License-Identifier: MIT
//! rpmalloc with the names of the C library, which its feature `preload` defines.
pub use rpmalloc_sys::rpmalloc;
