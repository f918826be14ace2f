// SPDX-License-Identifier: MIT
#![no_std]
#![doc = include_str!("../README.md")]
#![allow(non_camel_case_types)]

/// The types of C that the bindings use. `core::ffi` has them from Rust 1.64 on.
pub mod ctypes {
    pub use core::ffi::c_void;
    pub type c_char = i8;
    pub type c_int = i32;
    pub type c_uint = u32;
}

include!("bindings.rs");
