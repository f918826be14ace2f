// SPDX-License-Identifier: MIT
//! Holds off a crate that is built otherwise than the library: sources, flags and shared numbers are compared with
//! the commands of a Meson build, which is configured here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The commands of a release build, one of each source, with the numbers that it shares with the assembler.
fn meson(options: &[&str]) -> (Vec<(String, BTreeSet<String>)>, String) {
    let build =
        std::env::temp_dir().join(format!("shardmm-sys-meson-{}-{}", std::process::id(), options.len()));
    let _ = std::fs::remove_dir_all(&build);
    let mut setup = Command::new("meson");
    setup.args(["setup", "--buildtype=release", "-Dtests=disabled"]).args(options).arg(&build).arg(root());
    run(&mut setup);
    let database = run(Command::new("ninja").arg("-C").arg(&build).args(["-t", "compdb"]));
    let numbers = std::fs::read_to_string(build.join("asm/offsets.h")).unwrap();
    std::fs::remove_dir_all(&build).unwrap();

    let mut commands = Vec::new();
    let mut command = None;
    for line in database.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("\"command\": \"") {
            command = Some(rest.trim_end_matches("\",").replace("\\\"", "\""));
        } else if let Some(rest) = line.strip_prefix("\"file\": \"") {
            let file = rest.trim_end_matches("\",");
            let words = command.take().expect("a command before its file");
            let source = file.trim_start_matches("../");
            let source = source.strip_prefix(root().to_str().unwrap()).unwrap_or(file);
            let at = ["src/", "asm/"].iter().find_map(|dir| source.find(dir));
            if let (Some(at), true) = (at, words.contains(" -c ") || words.contains("nasm")) {
                if file.ends_with(".c") || file.ends_with(".cc") || file.ends_with(".asm") {
                    commands.push((source[at..].to_string(), words.split(' ').map(unquote).collect()));
                }
            }
        }
    }
    assert!(commands.len() > 20, "too few commands in Meson's build: {}", commands.len());
    (commands, numbers)
}

fn unquote(word: &str) -> String {
    word.replace(['\'', '\\'], "").replace("\"\"", "\"")
}

fn lines(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("OUT_DIR")).join(name);
    std::fs::read_to_string(path).unwrap().lines().map(String::from).collect()
}

/// What changes the code: not warnings, paths, names of outputs and dependency files.
fn matters(word: &str) -> bool {
    let start = ["-f", "-m", "-D", "-std", "-O"].iter().any(|start| word.starts_with(start));
    // Meson adds the first to every program; files are never opened by name with an offset here. The second is the
    // default of the processor's ABI.
    start && word != "-D_FILE_OFFSET_BITS=64" && word != "-fdiagnostics-color=always"
}

#[test]
fn sources_flags_and_shared_numbers_are_those_of_the_meson_build() {
    let ours = lines("flags.txt");
    let asm = ours.contains("-DSMM_ASM=1");
    let over = cfg!(feature = "override");
    let mut options = vec![if asm { "-Dasm=enabled" } else { "-Dasm=disabled" }];
    options.push(if over { "-Doverride=true" } else { "-Doverride=false" });
    for (value, name) in ["always", "debug", "paranoid"].iter().enumerate() {
        if ours.contains(&format!("-DSMM_CHECKS={value}")) {
            options.push(match *name {
                "always" => "-Dchecks=always",
                "debug" => "-Dchecks=debug",
                _ => "-Dchecks=paranoid",
            });
        }
    }
    if ours.contains("-DSMM_TEST_POINTS=1") {
        options.push("-Dtest_points=true");
    }
    if cfg!(feature = "local_dynamic_tls") {
        options.push("-Dtls_model=local-dynamic");
    }
    let (commands, numbers) = meson(&options);

    // operator new needs a C++ compiler, which the crate does not ask for; early_start.c is for the shared library.
    let sources: BTreeSet<String> = commands
        .iter()
        .map(|(source, _)| source.clone())
        .filter(|source| !source.starts_with("src/api/override_new") && source != "src/api/early_start.c")
        .collect();
    assert_eq!(lines("sources.txt"), sources);

    let expected: BTreeSet<String> =
        ours.iter().cloned().chain(["-O3".to_string(), "-fPIC".to_string()]).collect();
    let mut compared = 0;
    for (source, words) in &commands {
        if source.ends_with(".c") && sources.contains(source) && !source.starts_with("src/api/override") {
            let words: BTreeSet<String> = words.iter().filter(|word| matters(word)).cloned().collect();
            assert_eq!(words, expected, "{source}");
            compared += 1;
        }
    }
    assert!(compared > 20);

    let generated = std::fs::read_to_string(Path::new(env!("OUT_DIR")).join("generated/offsets.h")).unwrap();
    let defines = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|line| line.starts_with("#define")).map(String::from).collect()
    };
    assert_eq!(defines(&generated), defines(&numbers));
}
