// SPDX-License-Identifier: MIT
//! `steps TARGET FILE`: an input of a target as the text that model's `replay` and its regression test read.

use std::process::exit;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else {
        eprintln!("usage: steps TARGET FILE");
        exit(2);
    };
    let Some(target) = shardmm_fuzz::TARGETS.iter().find(|target| target.name == *name) else {
        eprintln!("steps: {name} has no steps");
        exit(2);
    };
    let bytes = std::fs::read(file).unwrap_or_else(|error| {
        eprintln!("steps: {file}: {error}");
        exit(2);
    });
    println!("# {name}\n# replay {}", target.replay_arguments());
    print!("{}", model::op::to_text(&target.steps(&bytes)));
}
