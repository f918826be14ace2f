// SPDX-License-Identifier: MIT

fn main() {
    println!("cargo:rerun-if-changed=c/lines.c");
    let include = std::env::var("DEP_SHARDMM_INCLUDE").expect("the directory that shardmm-sys exports");
    let mut build = cc::Build::new();
    // With the override plain malloc is the same allocator.
    if std::env::var_os("CARGO_FEATURE_OVERRIDE").is_some() {
        build.define("PLAIN", None);
    }
    build.include(include).file("c/lines.c").compile("lines");
    // Threads of the program that loads the library call into it when they end.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
