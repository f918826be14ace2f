// SPDX-License-Identifier: MIT
//! The index of free chunks against a list of sizes.
#![no_main]

use std::os::raw::c_int;

use shardmm_fuzz as _;
use shardmm_sys as _;

extern "C" {
    fn tlsf_entry_chunks() -> c_int;
    fn tlsf_entry_clear();
    fn tlsf_entry_insert(number: c_int, size: usize);
    fn tlsf_entry_remove(number: c_int);
    fn tlsf_entry_take(size: usize) -> c_int;
    fn tlsf_entry_verify() -> c_int;
}

const UNIT: usize = 256;
const LEAST: u32 = 8;
const MOST: usize = (4 << 20) - UNIT;

/// Where the bin begins that a chunk of `size` lies in.
fn bin_start(size: usize) -> usize {
    let width = 1usize << (size.ilog2() - 4);
    size / width * width
}

/// Where the first bin begins whose chunks all have `size`.
fn sure_start(size: usize) -> usize {
    let width = 1usize << (size.ilog2() - 4);
    (size + width - 1) / width * width
}

fn size_of(power: u8, detail: u16) -> usize {
    let size = (1usize << (LEAST + u32::from(power) % 14)) + detail as usize * UNIT;
    size.min(MOST) / UNIT * UNIT
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
