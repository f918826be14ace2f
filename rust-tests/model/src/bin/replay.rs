// SPDX-License-Identifier: MIT
//! Runs a saved sequence again.
//!
//! ```text
//! replay [--system] [--threads N] [--at-once] [--bytes] [--times N] FILE
//! ```
//!
//! `--bytes`: the file is what a fuzzer saved, not text. `--print` shows it as text.

use std::process::exit;

use model::op::{from_text, to_text, Op, Step};
use model::target::{ShardMM, System, Target};
use model::{run, worker};

fn usage() -> ! {
    eprintln!("usage: replay [--system] [--threads N] [--at-once] [--bytes] [--print] [--times N] FILE");
    exit(2);
}

fn once<T: Target>(threads: usize, at_once: bool, steps: &[Step]) -> Result<(), String> {
    if !at_once {
        return run::by_turns::<T>(threads, steps);
    }
    let mut programs: Vec<Vec<Op>> = vec![Vec::new(); threads];
    for step in steps {
        programs[step.thread as usize % threads].push(step.op);
    }
    run::at_once::<T>(&programs)
}

fn main() {
    let (mut system, mut threads, mut at_once, mut bytes, mut print, mut times, mut file) =
        (false, 1, false, false, false, 1, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| usage());
        match argument.as_str() {
            "--system" => system = true,
            "--threads" => threads = number(),
            "--at-once" => at_once = true,
            "--bytes" => bytes = true,
            "--print" => print = true,
            "--times" => times = number(),
            _ if argument.starts_with('-') || file.is_some() => usage(),
            _ => file = Some(argument),
        }
    }
    let file = file.unwrap_or_else(|| usage());
    let contents = std::fs::read(&file).unwrap_or_else(|error| {
        eprintln!("replay: {file}: {error}");
        exit(2);
    });
    let steps = if bytes {
        Step::decode_all(&contents)
    } else {
        from_text(&String::from_utf8_lossy(&contents)).unwrap_or_else(|error| {
            eprintln!("replay: {file}: {error}");
            exit(2);
        })
    };
    if print {
        print!("{}", to_text(&steps));
    }
    for _ in 0..times {
        let result = if system {
            once::<System>(threads.max(1), at_once, &steps)
        } else {
            once::<ShardMM>(threads.max(1), at_once, &steps)
        };
        if let Err(fault) = result {
            eprintln!("replay: {fault}");
            exit(1);
        }
    }
    println!("{} steps hold, with a delay of {} ms", steps.len(), worker::PURGE_DELAY_MS);
}
