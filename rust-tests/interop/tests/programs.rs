// SPDX-License-Identifier: MIT
//! Holds off what shows in whole programs only: builds them in the ways that users do, and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A target directory for each way, so that they can be built at the same time and are kept for the next run.
fn target(way: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/interop").join(way)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

fn cargo(way: &str, arguments: &[&str], environment: &[(&str, &str)]) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--offline", "--manifest-path"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    command.arg("--target-dir").arg(target(way)).args(arguments).envs(environment.iter().copied());
    run(&mut command);
    target(way)
}

fn example(way: &str, arguments: &[&str], environment: &[(&str, &str)]) -> PathBuf {
    let arguments: Vec<&str> = ["--example", "shared_blocks"].iter().chain(arguments).copied().collect();
    cargo(way, &arguments, environment)
}

fn check_example(program: &Path) {
    let text = run(&mut Command::new(program));
    assert!(
        text.starts_with("made by one, freed by the other\nmade by one, freed by the other\nin use "),
        "{text}"
    );
}

#[test]
fn c_and_rust_share_blocks() {
    check_example(&example("plain", &[], &[]).join("debug/examples/shared_blocks"));
}

#[test]
fn with_the_override_plain_malloc_in_c_is_the_same_allocator() {
    check_example(
        &example("override", &["--features", "override"], &[]).join("debug/examples/shared_blocks"),
    );
}

#[test]
fn it_works_with_link_time_optimisation_and_without_unwinding() {
    let profile = [
        ("CARGO_PROFILE_RELEASE_LTO", "fat"),
        ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ];
    check_example(&example("lto", &["--release"], &profile).join("release/examples/shared_blocks"));
}

#[test]
fn a_c_program_loads_and_unloads_a_library_in_rust() {
    let library = cargo("plain", &["--lib"], &[]).join("debug/libinterop.so");
    let program = target("plain").join("load");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/load.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    run(Command::new(compiler).arg("-O1").arg("-o").arg(&program).arg(source).args(["-pthread", "-ldl"]));
    assert_eq!(run(Command::new(program).arg(library)), "loaded\n");
}
