// SPDX-License-Identifier: MIT
//! Which blocks live, and what they hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::target::Target;

/// How a block was made, which says how it may be freed with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Plain,
    Aligned,
}

/// A live block, in the hands of one thread. Its whole usable size holds the pattern of its seed.
#[derive(Debug)]
pub struct Block {
    pub address: usize,
    pub size: usize,
    pub usable: usize,
    pub align: usize,
    pub made: Made,
    pub seed: u64,
}

fn start(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 31)
}

/// Depends on the seed and the place, not on the size: a prefix can be checked after a resize. Seeds agree nowhere for
/// long, also when shifted against each other.
fn word(start: u64, index: usize) -> u64 {
    let mixed = (start ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

impl Block {
    /// # Safety
    /// The block is alive, and nobody else touches it.
    pub unsafe fn fill(&self, from: usize) {
        let start = start(self.seed);
        let memory = self.address as *mut u8;
        let mut at = from & !7;
        while at + 8 <= self.usable {
            memory.add(at).cast::<u64>().write(word(start, at / 8));
            at += 8;
        }
        let rest = word(start, at / 8).to_ne_bytes();
        memory.add(at).copy_from_nonoverlapping(rest.as_ptr(), self.usable - at);
    }

    /// The first of `length` bytes that is not what the pattern says.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn damage(&self, length: usize) -> Option<usize> {
        let start = start(self.seed);
        let memory = self.address as *const u8;
        let mut at = 0;
        while at + 8 <= length && memory.add(at).cast::<u64>().read() == word(start, at / 8) {
            at += 8;
        }
        (at..length).find(|&at| *memory.add(at) != word(start, at / 8).to_ne_bytes()[at % 8])
    }
}

/// The first byte that is not zero.
///
/// # Safety
/// `address` has `length` bytes.
pub unsafe fn first_not_zero(address: usize, length: usize) -> Option<usize> {
    let memory = address as *const u8;
    let mut at = 0;
    while at + 8 <= length && memory.add(at).cast::<u64>().read() == 0 {
        at += 8;
    }
    (at..length).find(|&at| *memory.add(at) != 0)
}

/// What all threads of a run share. An interval goes in after the block was handed out, and out before it is given
/// back: in between no other block may have any of its bytes.
pub struct Shadow {
    live: Mutex<BTreeMap<usize, usize>>,
    bytes: AtomicUsize,
    seeds: AtomicU64,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow { live: Mutex::default(), bytes: AtomicUsize::new(0), seeds: AtomicU64::new(1) }
    }
}

impl Shadow {
    pub fn seed(&self) -> u64 {
        self.seeds.fetch_add(1, Ordering::Relaxed)
    }

    /// Usable bytes of all live blocks.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn blocks(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    pub fn insert(&self, address: usize, usable: usize) -> Result<(), String> {
        let end = address.checked_add(usable).ok_or("a block past the end of addresses")?;
        let mut live = self.live.lock().unwrap();
        if let Some((&other, &other_end)) = live.range(..end.max(address + 1)).next_back() {
            if other_end > address || other == address {
                return Err(format!(
                    "a block at {address:#x}..{end:#x} overlaps the one at {other:#x}..{other_end:#x}"
                ));
            }
        }
        live.insert(address, end);
        self.bytes.fetch_add(usable, Ordering::Relaxed);
        Ok(())
    }

    pub fn remove(&self, address: usize) {
        let end = self.live.lock().unwrap().remove(&address).expect("a block of the shadow");
        self.bytes.fetch_sub(end - address, Ordering::Relaxed);
    }

    /// Quiet: no other thread is in the allocator.
    pub fn check_usage<T: Target>(&self, before: &crate::target::Usage) -> Result<(), String> {
        if !T::PROMISES {
            return Ok(());
        }
        let fault = T::verify();
        if fault != 0 {
            return Err(format!("shardmm_verify() returned {fault}"));
        }
        let now = T::usage();
        let (blocks, bytes) = (now.blocks.wrapping_sub(before.blocks), now.bytes.wrapping_sub(before.bytes));
        if (blocks, bytes) != (self.blocks() as u64, self.bytes() as u64) {
            return Err(format!(
                "the statistics say {blocks} blocks with {bytes} bytes, and {} with {} live",
                self.blocks(),
                self.bytes()
            ));
        }
        Ok(())
    }
}
