// SPDX-License-Identifier: MIT
//! Holds off what nobody thought of: sequences of operations that are made at random, every block of which is checked.
//! What fails is shrunk, and written to a file for `replay`.

use model::case::{self, Cases};
use model::op::{AlignedCall, Op, Step};
use model::run;
use model::size;
use model::target::ShardMM;
#[cfg(not(feature = "tsan"))]
use model::target::System;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

// ---- Sequences ----------------------------------------------------------------------------------------------------

fn any_size() -> impl Strategy<Value = usize> {
    (any::<u8>(), any::<u16>()).prop_map(|(choice, detail)| size::pick(choice, detail))
}

/// Cheap to fill: for many operations in little time.
fn small_size() -> impl Strategy<Value = usize> {
    (0..190u8, any::<u16>()).prop_map(|(choice, detail)| size::pick(choice, detail))
}

/// Most above 1 MiB.
fn large_size() -> impl Strategy<Value = usize> {
    (226..=255u8, any::<u16>()).prop_map(|(choice, detail)| size::pick(choice, detail))
}

fn count_and_size() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        8 => (1..9usize, any_size()).prop_map(|(count, size)| (count, size.min(4 << 20) / count)),
        2 => (0..300usize, 0..40usize),
        1 => (1..8usize, 1..4usize).prop_map(|(n, size)| (usize::MAX / n, size + n)),
    ]
}

fn alignment() -> impl Strategy<Value = usize> {
    prop_oneof![8 => (0..13u32).prop_map(|n| 1 << n), 2 => (13..23u32).prop_map(|n| 1 << n), 1 => 0..100usize]
}

fn aligned_call() -> impl Strategy<Value = AlignedCall> {
    prop_oneof![
        Just(AlignedCall::AlignedAlloc),
        Just(AlignedCall::PosixMemalign),
        Just(AlignedCall::Memalign)
    ]
}

fn op<S: Strategy<Value = usize> + Clone + 'static>(size: S) -> impl Strategy<Value = Op> {
    let slot = any::<u8>();
    prop_oneof![
        60 => (slot, size.clone()).prop_map(|(slot, size)| Op::Malloc { slot, size }),
        20 => (slot, count_and_size()).prop_map(|(slot, (count, size))| Op::Calloc { slot, count, size }),
        30 => (slot, size.clone()).prop_map(|(slot, size)| Op::Realloc { slot, size }),
        6 => (slot, count_and_size()).prop_map(|(slot, (count, size))| Op::ReallocArray { slot, count, size }),
        20 => (slot, aligned_call(), alignment(), size.clone())
            .prop_map(|(slot, call, align, size)| Op::Aligned { slot, call, align, size }),
        40 => slot.prop_map(|slot| Op::Free { slot }),
        20 => slot.prop_map(|slot| Op::FreeSized { slot }),
        4 => slot.prop_map(|slot| Op::UsableSize { slot }),
        4 => size.prop_map(|size| Op::GoodSize { size }),
        2 => Just(Op::Purge),
        2 => Just(Op::Flush),
        25 => (slot, any::<u8>()).prop_map(|(slot, to)| Op::HandOver { slot, to }),
        2 => (0..33u8, small_size()).prop_map(|(count, size)| Op::Spawn { count, size: size.min(2048) }),
        1 => (any::<u8>(), any_size()).prop_map(|(count, size)| Op::Late { count, size: size.min(3 << 20) }),
        2 => any::<bool>().prop_map(|keep| Op::End { keep }),
        // All but the last one, which prints.
        2 => (0..9u8, any::<u8>()).prop_map(|(option, choice)| Op::Set { option, choice }),
        3 => (0..5u8, any::<bool>()).prop_map(|(nth, all)| Op::Fail { nth, all }),
        2 => Just(Op::Verify),
    ]
}

fn steps(threads: u8, length: usize) -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        400 => (0..threads, op(any_size().boxed())).prop_map(|(thread, op)| Step { thread, op }),
        400 => (0..threads, op(small_size().boxed())).prop_map(|(thread, op)| Step { thread, op }),
        1 => (0..threads).prop_map(|thread| Step { thread, op: Op::Delay }),
    ];
    prop::collection::vec(one, 1..length)
}

/// Steps of one thread stay together: fewer waits, longer sequences.
fn rows(threads: u8, length: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..threads, steps(1, 40)), 1..length).prop_map(|rows| {
        let row =
            |(thread, steps): (u8, Vec<Step>)| steps.into_iter().map(move |step| Step { thread, ..step });
        rows.into_iter().flat_map(row).collect()
    })
}

/// Few slots: what one step made is what another one resizes and frees, also in short sequences.
fn few(steps: impl Strategy<Value = Vec<Step>>, slots: u8) -> impl Strategy<Value = Vec<Step>> {
    steps.prop_map(move |steps| {
        steps.into_iter().map(|step| Step { op: step.op.among(slots), ..step }).collect()
    })
}

// ---- Running them -------------------------------------------------------------------------------------------------

/// `PROPTEST_CASES` makes all tests longer or shorter by the same factor: 256 is the budget of each as it stands.
fn config(cases: u32) -> ProptestConfig {
    let all = ProptestConfig::default();
    ProptestConfig {
        cases: (cases * all.cases / 256).max(1),
        // See model::case, which makes failing sequences smaller.
        max_shrink_iters: 0,
        failure_persistence: match case::shrinks() {
            true => Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
            false => None,
        },
        source_file: Some(file!()),
        ..all
    }
}

fn property(
    name: &'static str,
    how: &str,
    cases: u32,
    steps: impl Strategy<Value = Vec<Step>>,
    run: impl Fn(&[Step]) -> Result<(), String>,
) {
    let seen = Cases::new(name, FOLDER);
    let result = TestRunner::new(config(cases))
        .run(&steps, |steps| seen.check(how, &steps, &run).map_err(TestCaseError::fail));
    if let Err(error) = result {
        panic!("{name}: {error}");
    }
}

fn programs(steps: &[Step], threads: usize) -> Vec<Vec<Op>> {
    let mut programs = vec![Vec::new(); threads];
    for step in steps {
        programs[step.thread as usize % threads].push(step.op);
    }
    programs
}

#[test]
fn every_block_is_whole_in_one_thread() {
    property("one_thread", "", 60, steps(1, 3000), |steps| run::by_turns::<ShardMM>(1, steps));
}

#[test]
fn short_sequences_hold_from_the_start() {
    property("short", "", 300, few(steps(1, 60), 8), |steps| run::by_turns::<ShardMM>(1, steps));
}

#[test]
fn large_blocks_are_whole() {
    let step = op(large_size().boxed()).prop_map(|op| Step { thread: 0, op });
    let steps = prop::collection::vec(step, 1..80);
    property("large", "", 250, few(steps, 6), |steps| run::by_turns::<ShardMM>(1, steps));
}

#[test]
fn blocks_go_from_thread_to_thread_by_turns() {
    property("by_turns", "--threads 4", 60, rows(4, 80), |steps| run::by_turns::<ShardMM>(4, steps));
}

#[test]
fn threads_work_at_once() {
    for threads in [2, 3, 8] {
        property("at_once", "--at-once --threads 8", 16, steps(threads as u8, 1500 * threads), |steps| {
            run::at_once::<ShardMM>(&programs(steps, threads))
        });
    }
}

/// Sequences that failed once, as `replay` has them.
#[test]
fn saved_sequences_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let steps = model::op::from_text(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let result = run::by_turns::<ShardMM>(4, &steps);
        assert_eq!(result, Ok(()), "{}", path.display());
        count += 1;
    }
    assert!(count > 0);
}

/// Holds off a step that is written otherwise than it is read, and bytes of a fuzzer that mean nothing.
#[test]
fn any_bytes_are_steps_and_steps_are_text() {
    let bytes: Vec<u8> = (0..1u32 << 16).map(|n| (n.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let steps = Step::decode_all(&bytes);
    assert_eq!(steps.len(), bytes.len() / 8);
    assert_eq!(model::op::from_text(&model::op::to_text(&steps)).unwrap(), steps);
    assert_eq!(run::by_turns::<ShardMM>(3, &steps[..2000]), Ok(()));
}

/// A test of the tests. The thread sanitizer has a malloc of its own, which refuses what C17 does not promise.
#[cfg(not(feature = "tsan"))]
#[test]
fn the_same_holds_for_the_malloc_of_the_c_library() {
    property("system_one_thread", "--system", 20, steps(1, 3000), |steps| run::by_turns::<System>(1, steps));
    property("system_by_turns", "--system --threads 4", 20, rows(4, 80), |steps| {
        run::by_turns::<System>(4, steps)
    });
    property("system_at_once", "--system --at-once --threads 4", 8, steps(4, 4000), |steps| {
        run::at_once::<System>(&programs(steps, 4))
    });
}

/// Holds off failures that nobody can read: of a long sequence that fails for two of its steps these are left, with
/// the least sizes that matter.
#[test]
fn a_failing_sequence_becomes_small_and_simple() {
    let noise: Vec<Step> = Step::decode_all(&(0..8000u32).map(|n| (n * 37) as u8).collect::<Vec<_>>());
    let mut steps = noise.clone();
    steps.insert(300, Step { thread: 0, op: Op::Malloc { slot: 3, size: 70_123 } });
    steps.insert(700, Step { thread: 0, op: Op::Calloc { slot: 5, count: 7, size: 5003 } });
    let fails = |steps: &[Step]| {
        let large = steps.iter().any(|step| matches!(step.op, Op::Malloc { slot: 3, size } if size > 60_000));
        let array = steps.iter().any(|step| matches!(step.op, Op::Calloc { slot: 5, .. }));
        if large && array {
            Err("both".to_string())
        } else {
            Ok(())
        }
    };
    let message = Cases::new("shrinking", FOLDER).check("", &steps, fails).unwrap_err();
    let left: Vec<&str> = message.lines().skip(1).collect();
    assert_eq!(left.len(), 2, "{message}");
    assert!(left.iter().any(|line| line.ends_with("calloc 5 1 0")), "{message}");
    let size = left.iter().find_map(|line| line.split("malloc 3 ").nth(1)).expect("the malloc");
    assert!((60_001..65_000).contains(&size.parse::<usize>().unwrap()), "{message}");
}
