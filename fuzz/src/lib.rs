// SPDX-License-Identifier: MIT
//! What the targets have in common: bytes become steps of `model`, which carries them out and checks every block.

use arbitrary::{Arbitrary, Unstructured};
use model::op::{to_text, AlignedCall, Op, Step, SETTINGS};
use model::size;
use model::{run, target::ShardMM};

/// A target that carries out steps.
pub struct Target {
    pub name: &'static str,
    decode: fn(&[u8]) -> Vec<Step>,
    /// 0: the calling thread alone, as fast as can be.
    threads: usize,
    /// What may be in use at once, in bytes.
    limit: usize,
}

/// Filling blocks, and the page faults of new ones, take nearly all the time: so little is in use at once.
pub const OPS: Target = Target { name: "ops", decode: ops, threads: 0, limit: 3 << 19 };
pub const THREADS: Target = Target { name: "threads", decode: threads, threads: 4, limit: 8 << 20 };
pub const REALLOC_CHAIN: Target =
    Target { name: "realloc_chain", decode: realloc_chain, threads: 0, limit: 12 << 20 };
pub const ALIGNED: Target = Target { name: "aligned", decode: aligned, threads: 0, limit: 12 << 20 };
pub const LARGE: Target = Target { name: "large", decode: large, threads: 0, limit: 40 << 20 };

pub const TARGETS: [&Target; 5] = [&OPS, &THREADS, &REALLOC_CHAIN, &ALIGNED, &LARGE];

impl Target {
    pub fn steps(&self, bytes: &[u8]) -> Vec<Step> {
        (self.decode)(bytes)
    }

    pub fn replay_arguments(&self) -> String {
        format!("--threads {}", self.threads.max(1))
    }

    /// Ends the process when something does not hold.
    pub fn check(&self, bytes: &[u8]) {
        let steps = self.steps(bytes);
        let result = match self.threads {
            // Without a purge what one sequence left is what the next one starts with.
            0 => run::in_place::<ShardMM>(&steps, self.limit, bytes.len() % 16 == 0),
            threads => run::by_turns_within::<ShardMM>(threads, &steps, self.limit),
        };
        if let Err(fault) = result {
            panic!("{fault}, in\n{}", to_text(&steps));
        }
    }
}

// ---- Bytes as steps -----------------------------------------------------------------------------------------------

fn step(op: Op) -> Step {
    Step { thread: 0, op }
}

/// No waits: a purge does what the time would do. Nor whole huge pages, which cost milliseconds to fill with zeros; the
/// target `threads` has them.
fn ops(bytes: &[u8]) -> Vec<Step> {
    let mut steps = Step::decode_all(bytes);
    for step in &mut steps {
        step.op = match step.op {
            Op::Delay => Op::Purge,
            Op::Set { option, choice } if SETTINGS[option as usize % SETTINGS.len()].0 == "huge_pages" => {
                Op::Set { option, choice: choice % 2 }
            }
            op => op.among(24),
        };
    }
    steps
}

/// Real threads, one at a time; the first wait alone is one.
fn threads(bytes: &[u8]) -> Vec<Step> {
    let mut waited = false;
    let mut steps = Step::decode_all(bytes);
    for step in &mut steps {
        if step.op == Op::Delay {
            if waited {
                step.op = Op::Flush;
            }
            waited = true;
        }
        step.op = step.op.among(12);
    }
    steps
}

/// Values until the bytes run out.
fn all<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Vec<T> {
    let mut source = Unstructured::new(bytes);
    let mut values = Vec::new();
    while !source.is_empty() && values.len() < 400 {
        match T::arbitrary(&mut source) {
            Ok(value) => values.push(value),
            Err(_) => break,
        }
    }
    values
}

/// What happens to one block of a few, which lie beside each other.
#[derive(Arbitrary)]
enum Link {
    Grow { slot: u8, by: u16 },
    Shrink { slot: u8, by: u16 },
    Double { slot: u8 },
    Half { slot: u8 },
    To { slot: u8, choice: u8, detail: u16 },
    Array { slot: u8, count: u8, size: u16 },
    Fresh { slot: u8, choice: u8, detail: u16 },
    Zeroed { slot: u8, choice: u8, detail: u16 },
    Aligned { slot: u8, shift: u8, choice: u8, detail: u16 },
    Free { slot: u8 },
    Fail { nth: u8, all: bool },
    Purge,
}

const CHAINS: u8 = 4;
const CHAIN_MAX: usize = 6 << 20;

fn realloc_chain(bytes: &[u8]) -> Vec<Step> {
    let mut sizes = [0usize; CHAINS as usize];
    let mut steps = Vec::new();
    for link in all::<Link>(bytes) {
        let mut resize = |slot: u8, to: &dyn Fn(usize) -> usize| {
            let slot = slot % CHAINS;
            let size = &mut sizes[slot as usize];
            *size = to(*size).clamp(1, CHAIN_MAX);
            (slot, *size)
        };
        let op = match link {
            Link::Grow { slot, by } => {
                let (slot, size) = resize(slot, &|size| size + by as usize);
                Op::Realloc { slot, size }
            }
            Link::Shrink { slot, by } => {
                let (slot, size) = resize(slot, &|size| size.saturating_sub(by as usize));
                Op::Realloc { slot, size }
            }
            Link::Double { slot } => {
                let (slot, size) = resize(slot, &|size| size * 2);
                Op::Realloc { slot, size }
            }
            Link::Half { slot } => {
                let (slot, size) = resize(slot, &|size| size / 2);
                Op::Realloc { slot, size }
            }
            Link::To { slot, choice, detail } => {
                let (slot, size) = resize(slot, &|_| size::pick(choice, detail));
                Op::Realloc { slot, size }
            }
            Link::Array { slot, count, size } => {
                let (slot, _) = resize(slot, &|_| count as usize * size as usize);
                Op::ReallocArray { slot, count: count.into(), size: size.into() }
            }
            Link::Fresh { slot, choice, detail } => {
                let (slot, size) = resize(slot, &|_| size::pick(choice, detail));
                Op::Malloc { slot, size }
            }
            Link::Zeroed { slot, choice, detail } => {
                let (slot, size) = resize(slot, &|_| size::pick(choice, detail));
                Op::Calloc { slot, count: 1, size }
            }
            Link::Aligned { slot, shift, choice, detail } => {
                let (slot, size) = resize(slot, &|_| size::pick(choice, detail));
                Op::Aligned { slot, call: AlignedCall::AlignedAlloc, align: 1 << (shift % 22), size }
            }
            Link::Free { slot } => {
                let (slot, _) = resize(slot, &|_| 0);
                Op::Free { slot }
            }
            Link::Fail { nth, all } => Op::Fail { nth: nth % 6, all },
            Link::Purge => Op::Purge,
        };
        steps.push(step(op));
    }
    steps
}

#[derive(Arbitrary)]
enum Call {
    AlignedAlloc,
    PosixMemalign,
    Memalign,
}

#[derive(Arbitrary)]
enum Alignment {
    Power(u8),
    Any(u16),
}

#[derive(Arbitrary)]
enum AlignedStep {
    Get { slot: u8, call: Call, align: Alignment, choice: u8, detail: u16 },
    Plain { slot: u8, choice: u8, detail: u16 },
    Resize { slot: u8, choice: u8, detail: u16 },
    Free { slot: u8 },
    FreeSized { slot: u8 },
    Fail { nth: u8, all: bool },
    Flush,
    Purge,
}

fn aligned(bytes: &[u8]) -> Vec<Step> {
    let op = |value| match value {
        AlignedStep::Get { slot, call, align, choice, detail } => Op::Aligned {
            slot,
            call: match call {
                Call::AlignedAlloc => AlignedCall::AlignedAlloc,
                Call::PosixMemalign => AlignedCall::PosixMemalign,
                Call::Memalign => AlignedCall::Memalign,
            },
            align: match align {
                Alignment::Power(shift) => 1 << (shift % 25),
                Alignment::Any(align) => align.into(),
            },
            size: size::pick(choice, detail),
        },
        AlignedStep::Plain { slot, choice, detail } => Op::Malloc { slot, size: size::pick(choice, detail) },
        AlignedStep::Resize { slot, choice, detail } => {
            Op::Realloc { slot, size: size::pick(choice, detail) }
        }
        AlignedStep::Free { slot } => Op::Free { slot },
        AlignedStep::FreeSized { slot } => Op::FreeSized { slot },
        AlignedStep::Fail { nth, all } => Op::Fail { nth: nth % 6, all },
        AlignedStep::Flush => Op::Flush,
        AlignedStep::Purge => Op::Purge,
    };
    all(bytes).into_iter().map(|value| step(op(value))).collect()
}

/// Blocks of 1 to 9 MiB: the cache, moving, growing in place.
#[derive(Arbitrary)]
enum LargeStep {
    Malloc { slot: u8, size: u16 },
    Calloc { slot: u8, size: u16 },
    Realloc { slot: u8, size: u16 },
    Edge { slot: u8, choice: u8, detail: u16 },
    ReallocEdge { slot: u8, choice: u8, detail: u16 },
    Aligned { slot: u8, shift: u8, size: u16 },
    Free { slot: u8 },
    FreeSized { slot: u8 },
    Fail { nth: u8, all: bool },
    Purge,
}

fn large(bytes: &[u8]) -> Vec<Step> {
    let pages = |size: u16| (1 << 20) + (size as usize % 2048) * 4096 + size as usize % 16;
    let edge = |choice: u8, detail| size::pick(246 + choice % 10, detail);
    let slot = |slot: u8| slot % 6;
    let op = |value| match value {
        LargeStep::Malloc { slot: s, size } => Op::Malloc { slot: slot(s), size: pages(size) },
        LargeStep::Calloc { slot: s, size } => Op::Calloc { slot: slot(s), count: 1, size: pages(size) },
        LargeStep::Realloc { slot: s, size } => Op::Realloc { slot: slot(s), size: pages(size) },
        LargeStep::Edge { slot: s, choice, detail } => {
            Op::Malloc { slot: slot(s), size: edge(choice, detail) }
        }
        LargeStep::ReallocEdge { slot: s, choice, detail } => {
            Op::Realloc { slot: slot(s), size: edge(choice, detail) }
        }
        LargeStep::Aligned { slot: s, shift, size } => Op::Aligned {
            slot: slot(s),
            call: AlignedCall::AlignedAlloc,
            align: 1 << (shift % 25),
            size: pages(size),
        },
        LargeStep::Free { slot: s } => Op::Free { slot: slot(s) },
        LargeStep::FreeSized { slot: s } => Op::FreeSized { slot: slot(s) },
        LargeStep::Fail { nth, all } => Op::Fail { nth: nth % 6, all },
        LargeStep::Purge => Op::Purge,
    };
    all(bytes).into_iter().take(24).map(|value| step(op(value))).collect()
}
