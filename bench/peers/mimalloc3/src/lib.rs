// SPDX-License-Identifier: MIT
//! mimalloc v3 with the names of the C library, which its feature `override` defines.
pub use libmimalloc_sys::mi_malloc;
