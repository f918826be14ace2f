// SPDX-License-Identifier: MIT
//! The index of free chunks against a list of sizes.
#![no_main]

use std::os::raw::c_int;

use shardmm_fuzz as _;
use shardmm_sys as _;

extern "C" {
    fn tlsf_entry_chunks() -> c_int;
    fn tlsf_entry_clear();
    fn tlsf_entry_insert(number: c_int, size: u32);
    fn tlsf_entry_remove(number: c_int);
    fn tlsf_entry_take(size: u32) -> c_int;
    fn tlsf_entry_verify() -> c_int;
}

/// Sizes of chunks, in units.
const LEAST: u32 = 16;
const MOST: u32 = 4095;

/// Where the bin begins that a chunk of `size` lies in.
fn bin_start(size: u32) -> u32 {
    let width = 1u32 << (size.ilog2() - 4);
    size / width * width
}

/// Where the first bin begins whose chunks all have `size`.
fn sure_start(size: u32) -> u32 {
    let width = 1u32 << (size.ilog2() - 4);
    (size + width - 1) / width * width
}

fn size_of(power: u8, detail: u16) -> u32 {
    ((LEAST << (power % 8)) + u32::from(detail)).min(MOST)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut live = vec![None; unsafe { tlsf_entry_chunks() } as usize];
    unsafe { tlsf_entry_clear() };
    for chunk in bytes.chunks_exact(5) {
        let number = chunk[1] as usize % live.len();
        let size = size_of(chunk[2], u16::from_le_bytes([chunk[3], chunk[4]]));
        match chunk[0] % 4 {
            0 | 1 => match live[number].take() {
                None => {
                    unsafe { tlsf_entry_insert(number as c_int, size) };
                    live[number] = Some(size);
                }
                Some(_) => unsafe { tlsf_entry_remove(number as c_int) },
            },
            _ => {
                let sure = live.iter().flatten().copied().filter(|&has| bin_start(has) >= sure_start(size));
                let lowest = sure.map(bin_start).min();
                let taken = unsafe { tlsf_entry_take(size) };
                if taken < 0 {
                    assert_eq!(lowest, None, "nothing for {size}, and a chunk of that bin is there");
                    continue;
                }
                let has = live[taken as usize].take().expect("a chunk that is in the index");
                assert!(has >= size, "a chunk of {has} for {size}");
                let own_bin = bin_start(has) == bin_start(size);
                assert!(
                    own_bin || Some(bin_start(has)) == lowest,
                    "a chunk of {has} for {size}, not of {lowest:?}"
                );
            }
        }
        assert_eq!(unsafe { tlsf_entry_verify() }, 0);
    }
});
