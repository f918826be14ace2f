// SPDX-License-Identifier: MIT
//! The entries in C to what has no public call. Flags and compiler are those of the library, from the environment.

fn main() {
    println!("cargo:rerun-if-changed=c/tlsf_entry.c");
    println!("cargo:rerun-if-env-changed=CFLAGS");
    cc::Build::new()
        .file("c/tlsf_entry.c")
        .include("../src")
        .flag("-std=gnu11")
        .flag("-mcx16")
        .define("_GNU_SOURCE", None)
        .define("SMM_CHECKS", "2")
        .define("SMM_TEST_POINTS", "0")
        .compile("tlsf_entry");
}
