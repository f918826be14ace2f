// SPDX-License-Identifier: MIT
//! What a test does around each sequence. It is saved before it runs, so that one that ends the process can be run
//! again by `replay`; one that fails is kept, and of those that proptest shrinks the last one is the smallest.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::op::{to_text, Step};

/// The cases of one test.
pub struct Cases {
    name: &'static str,
    folder: PathBuf,
    count: AtomicUsize,
}

impl Cases {
    /// `folder` is where sequences are saved.
    pub fn new(name: &'static str, folder: &str) -> Self {
        Cases { name, folder: folder.into(), count: AtomicUsize::new(0) }
    }

    /// Saves the sequence, runs it, and when it fails makes it smaller and keeps it.
    pub fn check(
        &self,
        how: &str,
        steps: &[Step],
        run: impl Fn(&[Step]) -> Result<(), String>,
    ) -> Result<(), String> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let running = self.folder.join(format!("{}.running", self.name));
        let text = |steps: &[Step], end: &str| {
            format!("# {}, case {count}{end}\n# replay {how}\n{}", self.name, to_text(steps))
        };
        fs::write(&running, text(steps, "")).expect("to save the sequence");
        let fault = match run(steps) {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        let (steps, fault) = smallest(steps, fault, &run);
        let failed = self.folder.join(format!("{}.failed", self.name));
        fs::write(&failed, text(&steps, &format!(": {fault}"))).expect("to keep the sequence");
        let list = if steps.len() <= 40 { format!("\n{}", to_text(&steps)) } else { String::new() };
        Err(format!(
            "{fault} (found in case {count}; cargo run -p model --bin replay -- {how} {}){list}",
            failed.display()
        ))
    }
}

/// Leaves out parts, larger ones first, as long as what is left fails, and then makes sizes simpler. Sequences are long, and most steps have nothing
/// to do with a failure: proptest, which takes out one after the other, would be at it for an hour. A failed run keeps
/// its memory, so there is an end to it.
fn smallest(
    steps: &[Step],
    mut fault: String,
    run: &impl Fn(&[Step]) -> Result<(), String>,
) -> (Vec<Step>, String) {
    let mut steps = steps.to_vec();
    let end = Instant::now() + Duration::from_secs(if shrinks() { 30 } else { 0 });
    let mut part = (steps.len() + 1) / 2;
    while part > 0 {
        let mut at = 0;
        let before = steps.len();
        while at < steps.len() {
            if Instant::now() > end {
                return (steps, fault);
            }
            let mut less = steps.clone();
            less.drain(at..(at + part).min(steps.len()));
            match run(&less) {
                Err(new) => (steps, fault) = (less, new),
                Ok(()) => at += part,
            }
        }
        part = if part > 1 { (part + 1) / 2 } else { usize::from(steps.len() < before) };
    }
    // What is left, with sizes that say which of them matter.
    let mut at = 0;
    while at < steps.len() && Instant::now() < end {
        let simpler = steps[at].op.simpler().into_iter().find_map(|op| {
            let mut other = steps.clone();
            other[at].op = op;
            match run(&other) {
                Err(new) if Instant::now() < end => Some((other, new)),
                _ => None,
            }
        });
        match simpler {
            Some(found) => (steps, fault) = found,
            None => at += 1,
        }
    }
    (steps, fault)
}

/// Not where bugs are planted: there it is enough that they are found.
pub fn shrinks() -> bool {
    std::env::var_os("MODEL_PLANTED_BUG").is_none()
}

impl Drop for Cases {
    fn drop(&mut self) {
        println!("{}: {} cases", self.name, self.count.load(Ordering::Relaxed));
        let _ = fs::remove_file(self.folder.join(format!("{}.running", self.name)));
    }
}
