// SPDX-License-Identifier: MIT
//! Holds off a layout that the Rust interface does not keep: every size and alignment, through every call of
//! `GlobalAlloc` and of `Allocator`.

use std::alloc::{GlobalAlloc, Layout};

use allocator_api2::alloc::Allocator;
use model::shadow::{first_not_zero, Block, Made};
use model::size;
use proptest::prelude::*;
use shardmm::ShardMM;

/// A block that is full of its pattern.
fn block(memory: *mut u8, layout: Layout, seed: u64) -> Result<Block, TestCaseError> {
    prop_assert!(!memory.is_null());
    prop_assert_eq!(memory as usize % layout.align(), 0);
    prop_assert!(shardmm::usable_size(memory) >= layout.size());
    let usable = layout.size();
    Ok(Block {
        address: memory as usize,
        size: usable,
        usable,
        align: layout.align(),
        made: Made::Aligned,
        seed,
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    (0..253u8, any::<u16>(), 0..17u32).prop_map(|(choice, detail, power)| {
        Layout::from_size_align(size::pick(choice, detail).max(1), 1 << power).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_layout_is_kept_by_the_global_allocator(
        blocks in prop::collection::vec((layout(), any::<bool>(), 0..253u8, any::<u16>()), 1..60)
    ) {
        let mut live = Vec::new();
        for (seed, (layout, zeroed, choice, detail)) in blocks.into_iter().enumerate() {
            unsafe {
                let memory = if zeroed { ShardMM.alloc_zeroed(layout) } else { ShardMM.alloc(layout) };
                let first = block(memory, layout, seed as u64)?;
                if zeroed {
                    prop_assert_eq!(first_not_zero(first.address, layout.size()), None);
                }
                first.fill(0);
                let new = Layout::from_size_align(size::pick(choice, detail).max(1), layout.align()).unwrap();
                let second = block(ShardMM.realloc(memory, layout, new.size()), new, seed as u64)?;
                prop_assert_eq!(second.damage(layout.size().min(new.size())), None);
                second.fill(0);
                live.push((second, new));
            }
        }
        for (block, layout) in live {
            unsafe {
                prop_assert_eq!(block.damage(block.usable), None);
                ShardMM.dealloc(block.address as *mut u8, layout);
            }
        }
    }

    #[test]
    fn a_layout_may_become_any_other_by_the_allocator_trait(
        layouts in prop::collection::vec((layout(), any::<bool>()), 2..40)
    ) {
        unsafe {
            let nothing = Layout::from_size_align(0, 64).unwrap();
            let mut memory = ShardMM.allocate(nothing).unwrap().cast::<u8>();
            let mut old = nothing;
            let mut before: Option<Block> = None;
            for (seed, (new, zeroed)) in layouts.into_iter().enumerate() {
                let result = match (new.size() >= old.size(), zeroed) {
                    (true, true) => ShardMM.grow_zeroed(memory, old, new),
                    (true, false) => ShardMM.grow(memory, old, new),
                    (false, _) => ShardMM.shrink(memory, old, new),
                };
                memory = result.unwrap().cast();
                let mut now = block(memory.as_ptr(), new, 0)?;
                if let Some(before) = before {
                    now.seed = before.seed;
                    prop_assert_eq!(now.damage(old.size().min(new.size())), None);
                }
                if zeroed && new.size() > old.size() {
                    let start = now.address + old.size();
                    prop_assert_eq!(first_not_zero(start, new.size() - old.size()), None);
                }
                now.seed = seed as u64;
                now.fill(0);
                (old, before) = (new, Some(now));
            }
            ShardMM.deallocate(memory, old);
        }
    }
}

#[test]
fn collections_live_in_it() {
    let mut numbers = allocator_api2::vec::Vec::new_in(ShardMM);
    numbers.extend(0..1_000_000u64);
    assert_eq!(numbers.iter().sum::<u64>(), 499_999_500_000);
    // An address that is no block of ShardMM would end the process here.
    assert!(shardmm::usable_size(numbers.as_ptr().cast()) >= 8_000_000);
}
