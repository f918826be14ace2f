// SPDX-License-Identifier: MIT
//! Counts the words of files in as many threads as there are processors, and prints what the allocator had to do.
//!
//! ```text
//! cargo run --release --example word_count -- FILE...
//! ```
//!
//! The threads make the words; the main thread merges the tables and frees them: blocks that cross threads.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::{env, fs, process, thread};

#[global_allocator]
static GLOBAL: shardmm::ShardMM = shardmm::ShardMM;

fn count(text: &str) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
    words
}

fn main() {
    let files: Vec<String> = env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: word_count FILE...");
        process::exit(2);
    }
    let files = Arc::new(Mutex::new(files.into_iter()));
    let (results, tables) = mpsc::channel();
    let threads: Vec<_> = (0..thread::available_parallelism().map_or(2, |n| n.get()))
        .map(|_| {
            let files = Arc::clone(&files);
            let results = results.clone();
            thread::spawn(move || loop {
                let file = files.lock().unwrap().next();
                match file {
                    None => break,
                    Some(file) => {
                        let table = fs::read(&file).map(|bytes| count(&String::from_utf8_lossy(&bytes)));
                        results.send((file, table)).unwrap();
                    }
                }
            })
        })
        .collect();
    drop(results);

    let mut failed = false;
    let mut total: HashMap<String, usize> = HashMap::new();
    for (file, table) in tables {
        match table {
            Ok(table) => table.into_iter().for_each(|(word, n)| *total.entry(word).or_default() += n),
            Err(error) => {
                eprintln!("word_count: {file}: {error}");
                failed = true;
            }
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let mut words: Vec<_> = total.iter().collect();
    words.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (word, n) in words.iter().take(10) {
        println!("{n:8} {word}");
    }
    println!("{:8} words, {} different", words.iter().map(|(_, n)| **n).sum::<usize>(), words.len());

    let stats = shardmm::stats();
    println!();
    println!("in use            {:10} bytes in {} blocks", stats.bytes_in_use(), stats.blocks_in_use());
    println!("committed         {:10} bytes, at most {}", stats.committed, stats.committed_peak);
    println!("foreign frees     {:10}", stats.foreign_frees);
    drop(words);
    drop(total);
    println!("given back        {:10} bytes by a purge", shardmm::purge());
    process::exit(failed.into());
}
