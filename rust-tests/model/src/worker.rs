// SPDX-License-Identifier: MIT
//! One operation in the thread that calls, and everything that is checked of it.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::fault;
use crate::late;
use crate::op::{AlignedCall, Op, SETTINGS, SLOTS};
use crate::shadow::{first_not_zero, Block, Made, Shadow};
use crate::size::{class_of, SMALL_MAX};
use crate::sync;
use crate::target::{errno, set_errno, Target, Usage, EINVAL, ENOMEM};

/// How old freed memory is before it goes back, and how long [`Op::Delay`] waits for that.
pub const PURGE_DELAY_MS: i64 = 20;
const DELAY: Duration = Duration::from_millis(31);

/// Not a number of any error.
const NO_ERROR: i32 = 7777;
/// From here on a request must fail; in between nobody asks.
const IMPOSSIBLE: usize = 1 << 46;
/// What all threads may have at once where nothing else is said. More is not asked for.
pub const LIMIT: usize = 256 << 20;

/// What the threads of a run share.
pub struct Common {
    pub shadow: Shadow,
    /// Blocks that were handed to a thread and not taken yet.
    pub mail: Vec<Mutex<Vec<Block>>>,
    /// What was in use before; where threads run at once nothing, since no place is quiet.
    pub quiet: Option<Usage>,
    /// Bytes that all may have at once.
    limit: usize,
}

impl Common {
    pub fn new(threads: usize, quiet: Option<Usage>, limit: usize) -> Arc<Common> {
        let mail = (0..threads).map(|_| Mutex::default()).collect();
        Arc::new(Common { shadow: Shadow::default(), mail, quiet, limit })
    }

    fn send(&self, to: usize, blocks: impl IntoIterator<Item = Block>) {
        let mut mail = self.mail[to].lock().unwrap();
        mail.extend(blocks);
        sync::release(&self.mail[to]);
    }

    fn receive(&self, me: usize) -> Vec<Block> {
        let mut mail = self.mail[me].lock().unwrap();
        sync::acquire(&self.mail[me]);
        std::mem::take(&mut *mail)
    }
}

/// What comes after an operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    End,
}

/// The blocks of one thread.
pub struct Worker<T> {
    common: Arc<Common>,
    me: usize,
    slots: Vec<Option<Block>>,
    fail: Option<(u8, bool)>,
    target: PhantomData<T>,
}

/// How a call ended.
struct Outcome {
    address: usize,
    errno: i32,
    faults: u32,
}

impl<T: Target> Worker<T> {
    pub fn new(common: Arc<Common>, me: usize) -> Self {
        Worker { common, me, slots: (0..SLOTS).map(|_| None).collect(), fail: None, target: PhantomData }
    }

    pub fn run(&mut self, op: Op) -> Result<Flow, String> {
        self.take_mail()?;
        self.step(op).map_err(|fault| format!("{op:?}: {fault}"))
    }

    /// Frees all that the thread has.
    pub fn finish(&mut self) -> Result<(), String> {
        self.take_mail()?;
        (0..SLOTS).try_for_each(|slot| self.empty(slot, false))
    }

    /// Has no blocks, and none to come.
    pub fn is_idle(&self) -> bool {
        self.slots.iter().all(Option::is_none) && self.common.mail[self.me].lock().unwrap().is_empty()
    }

    fn step(&mut self, op: Op) -> Result<Flow, String> {
        match op {
            Op::Malloc { slot, size } => {
                let slot = self.vacate(slot)?;
                if self.room(size) {
                    let outcome = self.call(|| unsafe { T::malloc(size) });
                    self.accept(slot, outcome, size, 1, Made::Plain, true)?;
                }
            }
            Op::Calloc { slot, count, size } => {
                let slot = self.vacate(slot)?;
                let bytes = count.checked_mul(size);
                if bytes.map_or(true, |bytes| self.room(bytes)) {
                    let outcome = self.call(|| unsafe { T::calloc(count, size) });
                    let bytes = bytes.unwrap_or(usize::MAX);
                    if outcome.address != 0 && bytes < IMPOSSIBLE {
                        if let Some(at) = unsafe { first_not_zero(outcome.address, bytes) } {
                            return Err(format!("byte {at} of {bytes} is not zero"));
                        }
                    }
                    self.accept(slot, outcome, bytes, 1, Made::Plain, true)?;
                }
            }
            Op::Realloc { slot, size } => {
                self.resize(slot, Some(size), |block| unsafe { T::realloc(block, size) })?
            }
            Op::ReallocArray { slot, count, size } => {
                self.resize(slot, count.checked_mul(size), |block| unsafe {
                    T::reallocarray(block, count, size)
                })?
            }
            Op::Aligned { slot, call, align, size } => self.aligned(slot, call, align, size)?,
            Op::Free { slot } => self.empty(slot as usize % SLOTS, false)?,
            Op::FreeSized { slot } => self.empty(slot as usize % SLOTS, true)?,
            Op::UsableSize { slot } => {
                if let Some(block) = &self.slots[slot as usize % SLOTS] {
                    check_usable::<T>(block)?;
                }
                if unsafe { T::usable_size(0) } != 0 {
                    return Err("NULL has a usable size".into());
                }
            }
            Op::GoodSize { size } => check_good::<T>(size)?,
            Op::Purge => {
                self.call(|| {
                    T::purge();
                    0
                });
            }
            Op::Flush => {
                self.call(|| {
                    T::flush();
                    0
                });
            }
            Op::HandOver { slot, to } => {
                let to = to as usize % self.common.mail.len();
                if let Some(block) = self.slots[slot as usize % SLOTS].take() {
                    self.common.send(to, Some(block));
                }
            }
            Op::Spawn { count, size } => {
                let common = Arc::clone(&self.common);
                let me = self.me;
                let made = thread::spawn(move || {
                    let mut other = Worker::<T>::new(common, me);
                    for index in 0..count % 33 {
                        other.step(Op::Malloc { slot: index, size: size.min(SMALL_MAX) })?;
                    }
                    Ok::<_, String>(other.slots)
                });
                let made = made.join().map_err(|_| "a thread panicked")??;
                self.common.send(self.me, made.into_iter().flatten());
            }
            Op::Late { count, size } => {
                if !self.room(size.saturating_mul(usize::from(count % 4) + 1)) {
                    return Ok(Flow::Next);
                }
                let common = Arc::clone(&self.common);
                let me = self.me;
                let made = late::at_the_end_of_a_thread(
                    || unsafe { T::malloc(100) },
                    move |first| {
                        let mut other = Worker::<T>::new(common, me);
                        other.own_late(0, first)?;
                        for index in 1..=count % 4 {
                            other.step(Op::Malloc { slot: index, size })?;
                        }
                        other.step(Op::Realloc {
                            slot: 1,
                            size: size.saturating_mul(2).min(size.saturating_add(70_000)),
                        })?;
                        other.step(Op::Free { slot: 0 })?;
                        Ok::<_, String>(other.slots)
                    },
                )?;
                self.common.send(self.me, made.into_iter().flatten());
            }
            Op::End { keep } => {
                if keep {
                    let next = (self.me + 1) % self.common.mail.len();
                    let blocks: Vec<Block> = self.slots.iter_mut().filter_map(Option::take).collect();
                    self.common.send(next, blocks);
                } else {
                    self.finish()?;
                }
                return Ok(Flow::End);
            }
            Op::Delay => thread::sleep(DELAY),
            Op::Set { option, choice } => {
                let (name, values) = SETTINGS[option as usize % SETTINGS.len()];
                T::set(name, values[choice as usize % values.len()]);
            }
            Op::Fail { nth, all } => self.fail = Some((nth, all)),
            Op::Verify => {
                if let Some(before) = &self.common.quiet {
                    self.common.shadow.check_usage::<T>(before)?;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Takes a block that this thread made before it had a worker.
    fn own_late(&mut self, slot: usize, address: usize) -> Result<(), String> {
        let block = self.own(address, 100, 1, Made::Plain, self.common.shadow.seed())?;
        unsafe { block.fill(0) };
        self.slots[slot] = Some(block);
        Ok(())
    }

    /// One call, with what was asked for to fail.
    fn call(&mut self, work: impl FnOnce() -> usize) -> Outcome {
        let work = || {
            set_errno(NO_ERROR);
            let address = work();
            (address, errno())
        };
        let ((address, errno), faults) = match self.fail.take() {
            Some((nth, all)) => fault::with(nth, all, work),
            None => (work(), 0),
        };
        Outcome { address, errno, faults }
    }

    fn room(&self, size: usize) -> bool {
        size >= IMPOSSIBLE || self.common.shadow.bytes().saturating_add(size) <= self.common.limit
    }

    /// What was handed over is looked at by who gets it.
    fn take_mail(&mut self) -> Result<(), String> {
        let blocks = self.common.receive(self.me);
        for block in blocks {
            check_contents(&block, block.usable, "after it was handed over")?;
            match self.slots.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some(block),
                None => self.free(block, false)?,
            }
        }
        Ok(())
    }

    fn vacate(&mut self, slot: u8) -> Result<usize, String> {
        let slot = slot as usize % SLOTS;
        self.empty(slot, false)?;
        Ok(slot)
    }

    fn empty(&mut self, slot: usize, sized: bool) -> Result<(), String> {
        match self.slots[slot].take() {
            Some(block) => self.free(block, sized),
            None => Ok(()),
        }
    }

    fn free(&mut self, block: Block, sized: bool) -> Result<(), String> {
        check_contents(&block, block.usable, "before it was freed")?;
        check_usable::<T>(&block)?;
        self.common.shadow.remove(block.address);
        let outcome = self.call(|| unsafe {
            match (sized, block.made) {
                (false, _) => T::free(block.address),
                (true, Made::Plain) => T::free_sized(block.address, block.size),
                (true, Made::Aligned) => T::free_aligned_sized(block.address, block.align, block.size),
            }
            0
        });
        if outcome.errno != NO_ERROR && T::PROMISES {
            return Err(format!("free changed errno to {}", outcome.errno));
        }
        Ok(())
    }

    /// A request of `size` bytes got no memory. May it?
    fn refused(&self, outcome: &Outcome, size: usize) -> Result<(), String> {
        if size < IMPOSSIBLE && outcome.faults == 0 {
            return Err(format!("NULL for {size} bytes, errno {}", outcome.errno));
        }
        if outcome.errno != ENOMEM {
            return Err(format!("NULL with errno {}, not ENOMEM", outcome.errno));
        }
        Ok(())
    }

    fn keeps_errno(&self, outcome: &Outcome) -> Result<(), String> {
        if T::PROMISES && outcome.errno != NO_ERROR {
            return Err(format!("success changed errno to {}", outcome.errno));
        }
        Ok(())
    }

    /// Takes what a call gave: it is what was asked for, and lies on no other block.
    fn accept(
        &mut self,
        slot: usize,
        outcome: Outcome,
        size: usize,
        align: usize,
        made: Made,
        fresh: bool,
    ) -> Result<(), String> {
        if outcome.address == 0 {
            return self.refused(&outcome, size);
        }
        self.keeps_errno(&outcome)?;
        let block = self.own(outcome.address, size, align, made, self.common.shadow.seed())?;
        if fresh && T::PROMISES && made == Made::Plain {
            check_fresh::<T>(&block)?;
        }
        unsafe { block.fill(0) };
        self.slots[slot] = Some(block);
        Ok(())
    }

    fn own(&self, address: usize, size: usize, align: usize, made: Made, seed: u64) -> Result<Block, String> {
        if size >= IMPOSSIBLE {
            return Err(format!("a block for {size} bytes"));
        }
        if address % align.max(16) != 0 {
            return Err(format!("a block at {address:#x}, not a multiple of {}", align.max(16)));
        }
        let usable = unsafe { T::usable_size(address) };
        // None would be an address that another block may have.
        if usable < size.max(1) {
            return Err(format!("{usable} bytes to use of {size} asked for"));
        }
        self.common.shadow.insert(address, usable)?;
        Ok(Block { address, size, usable, align, made, seed })
    }

    fn aligned(&mut self, slot: u8, call: AlignedCall, align: usize, size: usize) -> Result<(), String> {
        let slot = self.vacate(slot)?;
        if !self.room(size.saturating_add(align)) {
            return Ok(());
        }
        let power = align.is_power_of_two();
        match call {
            AlignedCall::AlignedAlloc if !power => {
                if T::PROMISES {
                    let outcome = self.call(|| unsafe { T::aligned_alloc(align, size) });
                    if (outcome.address, outcome.errno) != (0, EINVAL) {
                        return Err(format!(
                            "{:#x} with errno {}, not NULL with EINVAL",
                            outcome.address, outcome.errno
                        ));
                    }
                }
                Ok(())
            }
            AlignedCall::AlignedAlloc => {
                let outcome = self.call(|| unsafe { T::aligned_alloc(align, size) });
                self.accept(slot, outcome, size, align, Made::Aligned, true)
            }
            AlignedCall::Memalign => {
                let outcome = self.call(|| unsafe { T::memalign(align, size) });
                self.accept(slot, outcome, size, align.next_power_of_two(), Made::Aligned, true)
            }
            AlignedCall::PosixMemalign => {
                let untouched = 0x1234;
                let mut result = untouched;
                let mut outcome =
                    self.call(|| unsafe { T::posix_memalign(&mut result, align, size) as usize });
                let status = outcome.address as i32;
                if T::PROMISES {
                    self.keeps_errno(&outcome)?;
                }
                if status != 0 && result != untouched {
                    return Err(format!("status {status}, and the result was touched"));
                }
                if !power || align % 8 != 0 {
                    return if status == EINVAL {
                        Ok(())
                    } else {
                        Err(format!("status {status}, not EINVAL"))
                    };
                }
                outcome.address = if status == 0 { result } else { 0 };
                outcome.errno = if status == 0 { NO_ERROR } else { status };
                self.accept(slot, outcome, size, align, Made::Aligned, true)
            }
        }
    }

    /// `size` is None where the product overflows.
    fn resize(
        &mut self,
        slot: u8,
        size: Option<usize>,
        call: impl FnOnce(usize) -> usize,
    ) -> Result<(), String> {
        let slot = slot as usize % SLOTS;
        let bytes = size.unwrap_or(usize::MAX);
        if !self.room(bytes) {
            return Ok(());
        }
        let old = match self.slots[slot].take() {
            Some(block) => block,
            None => {
                let outcome = self.call(|| call(0));
                return self.accept(slot, outcome, bytes, 1, Made::Plain, true);
            }
        };
        check_contents(&old, old.usable, "before it was resized")?;
        self.common.shadow.remove(old.address);
        let outcome = self.call(|| call(old.address));
        if bytes == 0 {
            if outcome.address != 0 || (T::PROMISES && outcome.errno != NO_ERROR) {
                return Err(format!("{:#x} with errno {} for 0 bytes", outcome.address, outcome.errno));
            }
            return Ok(());
        }
        if outcome.address == 0 {
            self.refused(&outcome, bytes)?;
            self.common.shadow.insert(old.address, old.usable)?;
            check_contents(&old, old.usable, "after it was not resized")?;
            check_usable::<T>(&old)?;
            self.slots[slot] = Some(old);
            return Ok(());
        }
        self.keeps_errno(&outcome)?;
        let block = self.own(outcome.address, bytes, 1, Made::Plain, old.seed)?;
        let kept = old.usable.min(bytes);
        check_contents(&block, kept, "after it was resized")?;
        unsafe { block.fill(kept) };
        self.slots[slot] = Some(block);
        Ok(())
    }
}

fn check_contents(block: &Block, length: usize, when: &str) -> Result<(), String> {
    match unsafe { block.damage(length) } {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} of the block of {} bytes is wrong {when}", block.size)),
    }
}

fn check_usable<T: Target>(block: &Block) -> Result<(), String> {
    let usable = unsafe { T::usable_size(block.address) };
    if usable != block.usable {
        return Err(format!("usable size {usable}, and {} before", block.usable));
    }
    Ok(())
}

/// A block of malloc has the good size of its request.
fn check_fresh<T: Target>(block: &Block) -> Result<(), String> {
    let good = T::good_size(block.size);
    if block.usable != good {
        return Err(format!("{} bytes to use, and the good size of {} is {good}", block.usable, block.size));
    }
    Ok(())
}

fn check_good<T: Target>(size: usize) -> Result<(), String> {
    if !T::PROMISES {
        return Ok(());
    }
    let good = T::good_size(size);
    let expected = match size {
        0..=SMALL_MAX => class_of(size),
        _ if size > isize::MAX as usize => Some(0),
        _ => None,
    };
    // 0 also where the size itself is possible, and what it is rounded up to is not.
    let rounds =
        (good >= size && T::good_size(good) == good) || (good == 0 && size > isize::MAX as usize - (1 << 22));
    if expected.map_or(!rounds, |expected| good != expected) {
        return Err(format!("the good size of {size} is {good}, and its own is {}", T::good_size(good)));
    }
    Ok(())
}
