// SPDX-License-Identifier: MIT
//! What can be done to an allocator, as data. Every value means something: slots and threads are taken modulo what
//! there are, an operation on an empty slot does nothing. So any bytes are a sequence, and any part of one is, too.

use std::fmt;
use std::str::FromStr;

use crate::size;

/// Blocks that each thread can hold.
pub const SLOTS: usize = 96;

/// The ways to ask for an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignedCall {
    AlignedAlloc,
    PosixMemalign,
    Memalign,
}

/// An operation of one thread. A slot that is to be filled is emptied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Malloc {
        slot: u8,
        size: usize,
    },
    Calloc {
        slot: u8,
        count: usize,
        size: usize,
    },
    Realloc {
        slot: u8,
        size: usize,
    },
    ReallocArray {
        slot: u8,
        count: usize,
        size: usize,
    },
    Aligned {
        slot: u8,
        call: AlignedCall,
        align: usize,
        size: usize,
    },
    Free {
        slot: u8,
    },
    /// With the size, or the size and the alignment, that the block was made with.
    FreeSized {
        slot: u8,
    },
    UsableSize {
        slot: u8,
    },
    GoodSize {
        size: usize,
    },
    Purge,
    Flush,
    /// Gives the block to another thread.
    HandOver {
        slot: u8,
        to: u8,
    },
    /// Another thread, which lives for a few blocks of small size that it hands to this one.
    Spawn {
        count: u8,
        size: usize,
    },
    /// The same, but the blocks are made at the very end of the thread, when its heap has gone, and one of its own is
    /// freed there.
    Late {
        count: u8,
        size: usize,
    },
    /// The thread ends, with its blocks (which others get) or without; another one takes its place, and its heap.
    End {
        keep: bool,
    },
    /// Waits until what was freed before is old enough to go back to the system.
    Delay,
    /// Of the next operation of this thread the system call of this number fails; with `all` those after it, too.
    Fail {
        nth: u8,
        all: bool,
    },
    /// Sets an option of [`SETTINGS`], until the end of the sequence.
    Set {
        option: u8,
        choice: u8,
    },
    /// Walks all structures, and compares the statistics with the shadow. Where other threads run, nothing.
    Verify,
}

/// Options that can be set at run time, and values of each: the first is the default.
pub const SETTINGS: [(&str, &[i64]); 10] = [
    ("huge_pages", &[1, 0, 2]),
    ("huge_slow_us", &[1000, 0, 1_000_000]),
    ("keep_pages", &[8, 0, 1000]),
    ("keep_arenas", &[1, 0, 4]),
    ("reserve_pages", &[64, 0]),
    ("reserve_arenas", &[4, 0]),
    ("large_cache_blocks", &[32, 0, 1]),
    ("large_cache_bytes", &[128 << 20, 0, 4 << 20]),
    ("prefault", &[1, 0]),
    ("verbose", &[0, 2]),
];

impl Op {
    /// The same with one of the first `slots` slots: in a short sequence that many are used again and again.
    pub fn among(mut self, slots: u8) -> Op {
        match &mut self {
            Op::Malloc { slot, .. }
            | Op::Calloc { slot, .. }
            | Op::Realloc { slot, .. }
            | Op::ReallocArray { slot, .. }
            | Op::Aligned { slot, .. }
            | Op::Free { slot }
            | Op::FreeSized { slot }
            | Op::UsableSize { slot }
            | Op::HandOver { slot, .. } => *slot %= slots,
            Op::GoodSize { .. }
            | Op::Purge
            | Op::Flush
            | Op::Spawn { .. }
            | Op::Late { .. }
            | Op::End { .. }
            | Op::Delay
            | Op::Fail { .. }
            | Op::Set { .. }
            | Op::Verify => {}
        }
        self
    }
}

impl Op {
    /// Operations that are easier to read, the easiest first: small round sizes, one item, plain calls.
    pub fn simpler(self) -> Vec<Op> {
        let sizes = |size: usize| {
            let round = size.next_power_of_two() / 2;
            let tens = 10usize.pow((size.max(1) as f64).log10() as u32);
            [0, 1, 16, 100, size / 2, round, tens, size / 4096 * 4096, size / 16 * 16, size.wrapping_sub(1)]
                .into_iter()
                .filter(move |&other| other < size)
        };
        match self {
            Op::Malloc { slot, size } => sizes(size).map(|size| Op::Malloc { slot, size }).collect(),
            Op::Realloc { slot, size } => sizes(size).map(|size| Op::Realloc { slot, size }).collect(),
            Op::Calloc { slot, count, size } if count > 1 => vec![Op::Calloc { slot, count: 1, size }],
            Op::Calloc { slot, count, size } => {
                let plain = std::iter::once(Op::Malloc { slot, size });
                plain.chain(sizes(size).map(|size| Op::Calloc { slot, count, size })).collect()
            }
            Op::ReallocArray { slot, count, size } if count > 1 => {
                vec![Op::Realloc { slot, size }, Op::ReallocArray { slot, count: 1, size }]
            }
            Op::ReallocArray { slot, size, .. } => vec![Op::Realloc { slot, size }],
            Op::Aligned { slot, call, align, size } => {
                let plain = std::iter::once(Op::Malloc { slot, size });
                let aligns = [16, 64, 4096, align / 2].into_iter().filter(move |&other| other < align);
                let aligns = aligns.map(move |align| Op::Aligned { slot, call, align, size });
                plain
                    .chain(aligns)
                    .chain(sizes(size).map(|size| Op::Aligned { slot, call, align, size }))
                    .collect()
            }
            Op::FreeSized { slot } => vec![Op::Free { slot }],
            Op::Spawn { count, size } => sizes(size).map(|size| Op::Spawn { count, size }).collect(),
            Op::Late { count, size } => sizes(size).map(|size| Op::Late { count, size }).collect(),
            _ => Vec::new(),
        }
    }
}

/// An operation and the thread that carries it out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub thread: u8,
    pub op: Op,
}

impl Step {
    /// From any bytes, as fuzzers have them. Common operations are common.
    pub fn decode(bytes: [u8; 8]) -> Step {
        let [kind, thread, slot, a, b, c, d, e] = bytes;
        let size = size::pick(a, u16::from_le_bytes([b, c]));
        let count = match d {
            0..=199 => d as usize % 9,
            200..=249 => d as usize,
            _ => usize::MAX / (d as usize - 248),
        };
        // Products of what is sensible, or overflowing ones.
        let item = if d < 250 { size.min(1 << 20) / count.max(1) } else { size };
        let call =
            [AlignedCall::AlignedAlloc, AlignedCall::PosixMemalign, AlignedCall::Memalign][e as usize % 3];
        let align = match d {
            0..=239 => 1 << (d % 23),
            _ => d as usize,
        };
        let op = match kind {
            0..=69 => Op::Malloc { slot, size },
            70..=84 => Op::Calloc { slot, count, size: item },
            85..=114 => Op::Realloc { slot, size },
            115..=119 => Op::ReallocArray { slot, count, size: item },
            120..=139 => Op::Aligned { slot, call, align, size },
            140..=194 => Op::Free { slot },
            195..=214 => Op::FreeSized { slot },
            215..=219 => Op::UsableSize { slot },
            220..=222 => Op::GoodSize { size },
            223..=225 => Op::Purge,
            226..=227 => Op::Flush,
            228 => Op::Set { option: a, choice: b },
            229..=244 => Op::HandOver { slot, to: a },
            245 => Op::Spawn { count: d, size: size.min(4096) },
            246 => Op::Late { count: d, size },
            247..=248 => Op::End { keep: d & 1 == 1 },
            249 => {
                if d < 64 {
                    Op::Delay
                } else {
                    Op::Flush
                }
            }
            250..=252 => Op::Fail { nth: d % 6, all: e & 1 == 1 },
            253..=255 => Op::Verify,
        };
        Step { thread, op }
    }

    /// All whole groups of eight bytes.
    pub fn decode_all(bytes: &[u8]) -> Vec<Step> {
        bytes.chunks_exact(8).map(|chunk| Step::decode(chunk.try_into().unwrap())).collect()
    }
}

// ---- As text: `0 malloc 3 100`, a step a line ------------------------------------------------------------------

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.thread)?;
        match self.op {
            Op::Malloc { slot, size } => write!(f, "malloc {slot} {size}"),
            Op::Calloc { slot, count, size } => write!(f, "calloc {slot} {count} {size}"),
            Op::Realloc { slot, size } => write!(f, "realloc {slot} {size}"),
            Op::ReallocArray { slot, count, size } => write!(f, "reallocarray {slot} {count} {size}"),
            Op::Aligned { slot, call, align, size } => {
                let call = match call {
                    AlignedCall::AlignedAlloc => "aligned_alloc",
                    AlignedCall::PosixMemalign => "posix_memalign",
                    AlignedCall::Memalign => "memalign",
                };
                write!(f, "{call} {slot} {align} {size}")
            }
            Op::Free { slot } => write!(f, "free {slot}"),
            Op::FreeSized { slot } => write!(f, "free_sized {slot}"),
            Op::UsableSize { slot } => write!(f, "usable_size {slot}"),
            Op::GoodSize { size } => write!(f, "good_size {size}"),
            Op::Purge => write!(f, "purge"),
            Op::Flush => write!(f, "flush"),
            Op::HandOver { slot, to } => write!(f, "hand_over {slot} {to}"),
            Op::Spawn { count, size } => write!(f, "spawn {count} {size}"),
            Op::Late { count, size } => write!(f, "late {count} {size}"),
            Op::End { keep } => write!(f, "end {}", u8::from(keep)),
            Op::Delay => write!(f, "delay"),
            Op::Fail { nth, all } => write!(f, "fail {nth} {}", u8::from(all)),
            Op::Set { option, choice } => write!(f, "set {option} {choice}"),
            Op::Verify => write!(f, "verify"),
        }
    }
}

/// As text, too: failing sequences are long.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Step, String> {
        let bad = || format!("no step: {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number =
            |index: usize| words.get(index).and_then(|word| word.parse::<usize>().ok()).ok_or_else(bad);
        let byte = |index| number(index).and_then(|n| u8::try_from(n).map_err(|_| bad()));
        let aligned =
            |call| Ok::<_, String>(Op::Aligned { slot: byte(2)?, call, align: number(3)?, size: number(4)? });
        let op = match *words.get(1).ok_or_else(bad)? {
            "malloc" => Op::Malloc { slot: byte(2)?, size: number(3)? },
            "calloc" => Op::Calloc { slot: byte(2)?, count: number(3)?, size: number(4)? },
            "realloc" => Op::Realloc { slot: byte(2)?, size: number(3)? },
            "reallocarray" => Op::ReallocArray { slot: byte(2)?, count: number(3)?, size: number(4)? },
            "aligned_alloc" => aligned(AlignedCall::AlignedAlloc)?,
            "posix_memalign" => aligned(AlignedCall::PosixMemalign)?,
            "memalign" => aligned(AlignedCall::Memalign)?,
            "free" => Op::Free { slot: byte(2)? },
            "free_sized" => Op::FreeSized { slot: byte(2)? },
            "usable_size" => Op::UsableSize { slot: byte(2)? },
            "good_size" => Op::GoodSize { size: number(2)? },
            "purge" => Op::Purge,
            "flush" => Op::Flush,
            "hand_over" => Op::HandOver { slot: byte(2)?, to: byte(3)? },
            "spawn" => Op::Spawn { count: byte(2)?, size: number(3)? },
            "late" => Op::Late { count: byte(2)?, size: number(3)? },
            "end" => Op::End { keep: byte(2)? != 0 },
            "delay" => Op::Delay,
            "fail" => Op::Fail { nth: byte(2)?, all: byte(3)? != 0 },
            "set" => Op::Set { option: byte(2)?, choice: byte(3)? },
            "verify" => Op::Verify,
            _ => return Err(bad()),
        };
        Ok(Step { thread: byte(0)?, op })
    }
}

/// Steps as text, a line each.
pub fn to_text(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

/// What [`to_text`] wrote; empty lines and those that begin with `#` are left out.
pub fn from_text(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::parse).collect()
}
