#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A Rust program with the default allocator of the language, which calls malloc: maps, strings and boxes in
# threads, freed by others than those that made them.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs rustc
    cat >work.rs <<'RUST'
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;

fn job(mut seed: u64, send: mpsc::Sender<Vec<Box<[u64]>>>) -> u64 {
    let (mut tree, mut map, mut queue) = (BTreeMap::new(), HashMap::new(), VecDeque::new());
    let mut sum = 0u64;
    for i in 0..300_000u64 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = seed >> 33;
        tree.insert(n % 30_011, format!("{:x}{}", n, "t".repeat((n % 50) as usize)));
        map.entry(n % 7_001).or_insert_with(Vec::new).push(i);
        queue.push_back(vec![n; (n % 100) as usize].into_boxed_slice());
        if queue.len() > 3000 {
            send.send(queue.drain(..1500).collect()).unwrap();
        }
        if n % 11 == 0 {
            tree.remove(&(i % 30_011));
        }
    }
    for (key, text) in &tree {
        sum = sum.wrapping_mul(31).wrapping_add(key ^ text.len() as u64);
    }
    let mut lists: Vec<_> = map.into_iter().collect();
    lists.sort();
    lists.iter().fold(sum, |s, (k, v)| s.wrapping_mul(33).wrapping_add(k + v.iter().sum::<u64>()))
}

fn main() {
    let (send, receive) = mpsc::channel::<Vec<Box<[u64]>>>();
    let workers: Vec<_> = (1..=6)
        .map(|seed| {
            let send = send.clone();
            thread::spawn(move || job(seed, send))
        })
        .collect();
    drop(send);
    let sum = |list: Vec<Box<[u64]>>| list.iter().flat_map(|block| block.iter()).fold(0u64, |s, n| s.wrapping_add(*n));
    let taken = receive.into_iter().map(sum).fold(0, u64::wrapping_add);
    for worker in workers {
        println!("{}", worker.join().unwrap());
    }
    println!("{taken}");
}
RUST
    rustc -O --edition 2021 -o work work.rs
}

run() { ../work; }

main "$@"
