// SPDX-License-Identifier: MIT
//! Sequences. Every thread that touches the allocator is started here and ends here, so that at the end nothing is
//! in use, and nearly all memory goes back.

use std::sync::{mpsc, Arc, Mutex};
use std::thread;

use crate::op::{Op, Step, SETTINGS};
use crate::sync;
use crate::target::{Target, Usage};
use crate::worker::{Common, Flow, Worker, LIMIT, PURGE_DELAY_MS};

/// The statistics are of the whole process: one run at a time.
static ONE: Mutex<()> = Mutex::new(());

type Batch = (Vec<(usize, Op)>, mpsc::Sender<Result<Flow, String>>);

struct Thread {
    work: mpsc::Sender<Batch>,
    handle: thread::JoinHandle<Result<(), String>>,
}

impl Thread {
    /// A real thread, which carries out batches until the channel closes, and then frees what it has.
    fn start<T: Target>(common: &Arc<Common>, me: usize) -> Thread {
        let (work, batches) = mpsc::channel::<Batch>();
        let common = Arc::clone(common);
        let handle = thread::spawn(move || {
            let mut worker = Worker::<T>::new(common, me);
            for (ops, answer) in batches {
                let mut result = Ok(Flow::Next);
                sync::acquire(&ONE);
                for (index, op) in ops {
                    result = worker.run(op).map_err(|fault| format!("step {index}, thread {me}: {fault}"));
                    if result != Ok(Flow::Next) {
                        break;
                    }
                }
                let goes_on = result == Ok(Flow::Next);
                let failed = result.is_err();
                sync::release(&ONE);
                answer.send(result).unwrap();
                if failed || !goes_on {
                    // What a failed run leaves is not trusted, and stays.
                    return Ok(());
                }
            }
            sync::acquire(&ONE);
            let finished = worker.finish();
            sync::release(&ONE);
            finished
        });
        Thread { work, handle }
    }

    fn end(self) -> Result<(), String> {
        drop(self.work);
        self.handle.join().map_err(|_| "a thread panicked".to_string())?
    }
}

/// One step after the other, each in its own of up to `threads` real threads: the same every time.
pub fn by_turns<T: Target>(threads: usize, steps: &[Step]) -> Result<(), String> {
    by_turns_within::<T>(threads, steps, LIMIT)
}

/// The same; `limit` is what all threads may have at once, in bytes.
pub fn by_turns_within<T: Target>(threads: usize, steps: &[Step], limit: usize) -> Result<(), String> {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    T::set("purge_delay", PURGE_DELAY_MS);
    let before = T::usage();
    let common = Common::new(threads, Some(before), limit);
    let mut live: Vec<Option<Thread>> = (0..threads).map(|_| None).collect();
    let mut result = Ok(());

    let mut index = 0;
    while index < steps.len() && result.is_ok() {
        let me = steps[index].thread as usize % threads;
        // What one thread does in a row goes to it at once; an end ends the row.
        let mut batch = Vec::new();
        while index < steps.len() && steps[index].thread as usize % threads == me {
            batch.push((index, steps[index].op));
            index += 1;
            if matches!(batch.last(), Some((_, Op::End { .. }))) {
                break;
            }
        }
        let thread = live[me].get_or_insert_with(|| Thread::start::<T>(&common, me));
        let (answer, result_of_batch) = mpsc::channel();
        // A join of an ended thread comes before what the next one does.
        sync::release(&ONE);
        thread.work.send((batch, answer)).unwrap();
        match result_of_batch.recv() {
            Ok(Ok(Flow::Next)) => {}
            Ok(Ok(Flow::End)) => result = live[me].take().unwrap().end(),
            Ok(Err(fault)) => result = Err(fault),
            Err(_) => result = Err(format!("thread {me} panicked")),
        }
    }
    for thread in live.into_iter().flatten() {
        let ended = thread.end();
        result = result.and(ended);
    }
    result?;
    close::<T>(&common, &before)
}

/// One step after the other in the calling thread, whatever threads they name: some thousand sequences a second. An end
/// of the thread is none. With `purge` all memory goes back at the end, which takes most of the time of a short one.
pub fn in_place<T: Target>(steps: &[Step], limit: usize, purge: bool) -> Result<(), String> {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = T::usage();
    let common = Common::new(1, Some(before), limit);
    let mut worker = Worker::<T>::new(Arc::clone(&common), 0);
    for (index, step) in steps.iter().enumerate() {
        worker.run(step.op).map_err(|fault| format!("step {index}: {fault}"))?;
    }
    while !worker.is_idle() {
        worker.finish()?;
    }
    check_end::<T>(&common, &before, purge)
}

/// Programs that real threads carry out at the same time. A thread that ends in the middle is followed by another.
pub fn at_once<T: Target>(programs: &[Vec<Op>]) -> Result<(), String> {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    T::set("purge_delay", PURGE_DELAY_MS);
    let before = T::usage();
    let common = Common::new(programs.len(), None, LIMIT);
    let controllers: Vec<_> = programs
        .iter()
        .cloned()
        .enumerate()
        .map(|(me, program)| {
            let common = Arc::clone(&common);
            thread::spawn(move || {
                let program = Arc::new(program);
                let mut index = 0;
                while index < program.len() {
                    let (common, program) = (Arc::clone(&common), Arc::clone(&program));
                    let life = thread::spawn(move || {
                        let mut worker = Worker::<T>::new(common, me);
                        for (at, op) in program.iter().enumerate().skip(index) {
                            let flow = worker.run(*op);
                            if flow.map_err(|fault| format!("step {at}, thread {me}: {fault}"))? == Flow::End
                            {
                                return Ok(at + 1);
                            }
                        }
                        worker.finish()?;
                        Ok::<_, String>(program.len())
                    });
                    index = life.join().map_err(|_| format!("thread {me} panicked"))??;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    let results: Vec<_> = controllers.into_iter().map(|controller| controller.join().unwrap()).collect();
    results.into_iter().collect::<Result<(), String>>()?;
    close::<T>(&common, &before)
}

/// Frees what was handed to threads that are gone, and looks at what is left.
fn close<T: Target>(common: &Arc<Common>, before: &Usage) -> Result<(), String> {
    for me in 0..common.mail.len() {
        let common = Arc::clone(common);
        let last = thread::spawn(move || {
            let mut worker = Worker::<T>::new(common, me);
            while !worker.is_idle() {
                worker.finish()?;
            }
            Ok::<_, String>(())
        });
        last.join().map_err(|_| "a thread panicked")??;
    }
    check_end::<T>(common, before, true)
}

fn check_end<T: Target>(common: &Common, before: &Usage, purge: bool) -> Result<(), String> {
    for (option, values) in SETTINGS {
        T::set(option, values[0]);
    }
    assert_eq!(common.shadow.blocks(), 0, "the model lost a block");
    common.shadow.check_usage::<T>(before).map_err(|fault| format!("at the end: {fault}"))?;
    if T::PROMISES && purge {
        T::purge();
        let after = T::usage();
        if after.committed > floor(&after) && before.blocks == 0 {
            return Err(format!(
                "at the end: {} bytes committed, the floor is {}: {after:?}",
                after.committed,
                floor(&after)
            ));
        }
        common.shadow.check_usage::<T>(before).map_err(|fault| format!("after the purge: {fault}"))?;
    }
    Ok(())
}

/// What stays when nothing is in use: the descriptors of segments of pages, the headers and first pages of arenas,
/// heaps and the map.
pub fn floor(usage: &Usage) -> u64 {
    (256 << 10) + usage.segments * (64 << 10) + usage.heaps * (64 << 10)
}
