#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tsan.sh - the property tests with C code under gcc's thread sanitizer and with test points. Rust is not instrumented:
# model/src/sync.rs says what the sanitizer has to be told. Arguments go to the tests. Half of the usual cases, unless
# PROPTEST_CASES says otherwise; the system's malloc and failing system calls are left out, whose names the sanitizer
# takes.
set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"

export CC=gcc CFLAGS='-fsanitize=thread -g' LIBSHARDMM_TEST_POINTS=1 PROPTEST_CASES="${PROPTEST_CASES:-128}"
export RUSTFLAGS='-Clink-arg=-Wl,--no-as-needed -Clink-arg=-ltsan'
# It must be the first library, which no flag of the linker does. What Rust's library copies is not looked at.
runtime=$(gcc -print-file-name=libtsan.so)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$runtime TSAN_OPTIONS=ignore_interceptors_accesses=1"
exec cargo test --locked -p model --no-default-features --features tsan --target x86_64-unknown-linux-gnu \
    --target-dir target/tsan --test properties -- "$@"
