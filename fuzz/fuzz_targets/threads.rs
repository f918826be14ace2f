// SPDX-License-Identifier: MIT
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shardmm_fuzz::THREADS.check(bytes));
