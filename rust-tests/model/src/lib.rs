// SPDX-License-Identifier: MIT
//! Operations on an allocator, and an interpreter that carries them out on a real one and checks what it can.
//!
//! | module | |
//! | --- | --- |
//! | [`op`] | what can be done, as data: readable text, and from any eight bytes |
//! | [`size`] | where sizes are interesting |
//! | [`target`] | the allocators: ShardMM, and the C library's as a test of the tests |
//! | [`shadow`] | which blocks live, and what they hold |
//! | [`worker`] | one operation in one thread |
//! | [`run`] | sequences, in one thread, in many by turns, in many at once |
//! | [`late`] | what a thread does when its heap has gone |
//! | [`fault`] | system calls that fail |
//! | [`sync`] | what the thread sanitizer has to be told |
//! | [`case`] | what a test does around a sequence: saves it, and counts |

pub mod case;
pub mod fault;
pub mod late;
pub mod op;
pub mod run;
pub mod shadow;
pub mod size;
pub mod sync;
/// Calls as in C, with their contracts.
#[allow(clippy::missing_safety_doc)]
pub mod target;
pub mod worker;

pub use op::{Op, Step};
