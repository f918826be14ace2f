// SPDX-License-Identifier: MIT
//! A library for C programs that is written in Rust and allocates from ShardMM, also in threads of its own and of the
//! program.

use std::os::raw::c_char;
use std::thread;

#[global_allocator]
static GLOBAL: shardmm::ShardMM = shardmm::ShardMM;

/// Sorts the characters of each of `threads` copies of `text` in a thread of its own. Returns the sum of the lengths,
/// or 0 when two copies differ.
///
/// # Safety
/// `text` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn interop_sort(text: *const c_char, length: usize, threads: usize) -> usize {
    let text = std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec();
    let sorted: Vec<Vec<Box<u8>>> = (0..threads)
        .map(|_| {
            let text = text.clone();
            thread::spawn(move || {
                let mut boxes: Vec<Box<u8>> = text.into_iter().map(Box::new).collect();
                boxes.sort();
                boxes
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    if sorted.windows(2).any(|pair| pair[0] != pair[1]) {
        return 0;
    }
    sorted.iter().map(Vec::len).sum()
}

/// Blocks in use: a program can see that nothing was left.
#[no_mangle]
pub extern "C" fn interop_blocks() -> u64 {
    shardmm::stats().blocks_in_use()
}
