// SPDX-License-Identifier: MIT
//! Compiles the library. Which sources, with which flags, and which numbers C and assembler share, is read from the
//! files of the Meson build: there is no second list. What stands there and is not understood stops the build.
//!
//! Environment, beside what `cc` and cargo themselves look at:
//!
//! | variable | |
//! | --- | --- |
//! | `LIBSHARDMM_SOURCE` | another tree than `source/` of this package |
//! | `LIBSHARDMM_CHECKS` | `always` (the default), `debug` or `paranoid`: which assertions are compiled in |
//! | `LIBSHARDMM_TEST_POINTS` | 1: yield at random inside lock-free operations |
//! | `LIBSHARDMM_ASM` | 0: no assembler |
//! | `NASM` | the assembler, if not `nasm` |

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let target = env::var("TARGET").unwrap();
    if !(target.starts_with("x86_64-") && target.contains("-linux-")) || target.ends_with("x32") {
        panic!("ShardMM builds for 64-bit Linux on x86-64 only, not for {target}");
    }
    if feature("HARDENED") {
        panic!(
            "the feature `hardened` is reserved: the hardened build is not part of this version of ShardMM"
        );
    }
    let root = match env_path("LIBSHARDMM_SOURCE") {
        Some(path) => path,
        None => PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("source"),
    };
    // A link to a directory is a small text file where git has no symbolic links.
    let root = fs::canonicalize(root).expect("the tree of ShardMM");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    for part in ["src", "asm", "include"] {
        watch(&root.join(part));
    }
    watch(&root.join("meson.build"));

    let top = Meson::read(&root.join("meson.build"));
    let sources = Meson::read(&root.join("src/meson.build"));
    let asm = Meson::read(&root.join("asm/meson.build"));

    let checks = match env_text("LIBSHARDMM_CHECKS").as_deref() {
        None | Some("") | Some("always") => 0,
        Some("debug") => 1,
        Some("paranoid") => 2,
        Some(other) => panic!("LIBSHARDMM_CHECKS={other}: not always, debug or paranoid"),
    };
    let tls_model = if feature("LOCAL_DYNAMIC_TLS") { "local-dynamic" } else { "initial-exec" };
    let nasm = nasm(&target, checks, tls_model);

    // ---- Flags ----

    let values = BTreeMap::from([
        ("SMM_CHECKS", checks.to_string()),
        ("SMM_TEST_POINTS", u8::from(env_text("LIBSHARDMM_TEST_POINTS").as_deref() == Some("1")).to_string()),
        ("SMM_TLS_MODEL", format!("\"{tls_model}\"")),
        ("SMM_TLS_DYNAMIC", u8::from(tls_model == "local-dynamic").to_string()),
        ("SMM_ASM", u8::from(nasm.is_some()).to_string()),
    ]);
    let mut flags = vec![format!("-std={}", top.option("c_std"))];
    flags.extend(top.list("library_args").iter().map(|flag| fill_in(flag, &values)));
    flags.extend(top.added("library_args").iter().map(|flag| fill_in(flag, &values)));

    // ---- What C and assembler share ----

    let generated = out.join("generated");
    fs::create_dir_all(&generated).unwrap();
    let numbers = asm.table("asm_numbers");
    let c =
        numbers.iter().map(|(name, value)| format!("#define SMM_ASM_{name} {value}\n")).collect::<String>();
    let inc = numbers.iter().map(|(name, value)| format!("%define {name} {value}\n")).collect::<String>();
    fs::write(generated.join("offsets.h"), c).unwrap();
    fs::write(generated.join("offsets.inc"), inc).unwrap();

    // ---- Objects ----

    let mut files: Vec<PathBuf> =
        sources.list("library_sources").iter().map(|f| root.join("src").join(f)).collect();
    files.extend(asm.list("asm_check_sources").iter().map(|f| root.join("asm").join(f)));

    let base = |flags: &[String]| {
        let mut build = cc::Build::new();
        // As a release build of Meson, also when the program around it is not optimised.
        build.opt_level(3).pic(true).force_frame_pointer(false).warnings(false);
        build.include(root.join("include")).include(root.join("src")).include(&generated);
        for flag in flags {
            build.flag(flag);
        }
        build
    };
    let over = feature("OVERRIDE");
    let mut core = base(&flags);
    core.files(&files);
    let asm_files: Vec<PathBuf> = asm.list("asm_sources").iter().map(|f| root.join("asm").join(f)).collect();
    if let Some(nasm) = &nasm {
        for source in &asm_files {
            core.object(assemble(nasm, source, &out, &generated, &asm.list("asm_args"), over));
        }
    }
    core.cargo_metadata(!over).compile("shardmm_core");

    if over {
        // Only what C names: operator new and delete of C++ code call malloc and free, and a C++ compiler is not
        // asked for. All of it is linked, whether or not somebody before it has asked for a name.
        let mut flags = flags.clone();
        flags.push("-fno-lto".into());
        flags.push("-fexceptions".into());
        flags.push(format!(
            "-DSMM_HAVE_MALLINFO2={}",
            u8::from(compiles(
                &out,
                "#include <malloc.h>\nvoid *f(void);\nvoid *f(void) { return (void *)mallinfo2; }\n"
            ))
        ));
        let mut build = base(&flags);
        build.files(sources.list("override_sources").iter().map(|f| root.join("src").join(f)));
        build.cargo_metadata(false).compile("shardmm_override");
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static:-bundle,+whole-archive=shardmm_override");
        println!("cargo:rustc-link-lib=static:-bundle,+whole-archive=shardmm_core");
        files.extend(sources.list("override_sources").iter().map(|f| root.join("src").join(f)));
    }

    println!("cargo:include={}", root.join("include").display());
    println!("cargo:asm={}", u8::from(nasm.is_some()));

    // For the test that compares this with Meson's build.
    let names = files.iter().chain(asm_files.iter().filter(|_| nasm.is_some()));
    let names: Vec<String> = names.map(|f| f.strip_prefix(&root).unwrap().display().to_string()).collect();
    fs::write(out.join("sources.txt"), names.join("\n")).unwrap();
    fs::write(out.join("flags.txt"), flags.join("\n")).unwrap();
}

// ---- Environment ----------------------------------------------------------------------------------------------

fn feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

fn env_path(name: &str) -> Option<PathBuf> {
    println!("cargo:rerun-if-env-changed={name}");
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn env_text(name: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed={name}");
    env::var(name).ok()
}

/// Each file for itself: a directory would count for its time as well, which an editor's temporary file changes.
fn watch(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            watch(&entry.unwrap().path());
        }
    } else {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

fn compiles(out: &Path, program: &str) -> bool {
    let source = out.join("try.c");
    fs::write(&source, program).unwrap();
    let compiler =
        cc::Build::new().cargo_metadata(false).flag("-D_GNU_SOURCE").flag("-Werror").get_compiler();
    let run = compiler.to_command().arg("-fsyntax-only").arg(&source).output();
    run.map_or(false, |output| output.status.success())
}

// ---- Assembler ------------------------------------------------------------------------------------------------

/// The assembler, or `None` for the twins in C; the same rule as in meson.build.
fn nasm(target: &str, checks: u32, tls_model: &str) -> Option<OsString> {
    let insist = feature("ASM");
    let flags =
        ["CFLAGS".to_string(), format!("CFLAGS_{target}"), format!("CFLAGS_{}", target.replace('-', "_"))];
    let misfit = if env_text("LIBSHARDMM_ASM").as_deref() == Some("0") {
        Some("LIBSHARDMM_ASM=0")
    } else if tls_model != "initial-exec" {
        Some("the feature `local_dynamic_tls`")
    } else if checks != 0 {
        Some("LIBSHARDMM_CHECKS")
    } else if flags.iter().any(|name| env_text(name).map_or(false, |text| text.contains("-fsanitize"))) {
        Some("a sanitizer")
    } else {
        None
    };
    if let Some(misfit) = misfit {
        assert!(!insist, "the feature `asm` does not go with {misfit}");
        return None;
    }
    let program = env_path("NASM").map_or_else(|| OsString::from("nasm"), PathBuf::into_os_string);
    let there = Command::new(&program).arg("-v").output().map_or(false, |output| output.status.success());
    assert!(there || !insist, "the feature `asm` needs NASM, and {program:?} could not be run");
    there.then_some(program)
}

fn assemble(
    nasm: &OsString,
    source: &Path,
    out: &Path,
    generated: &Path,
    args: &[String],
    over: bool,
) -> PathBuf {
    let object = out.join(source.file_stem().unwrap()).with_extension("o");
    let mut command = Command::new(nasm);
    command.args(["-f", "elf64"]).args(args);
    for include in [source.parent().unwrap(), generated] {
        command.arg("-I").arg(format!("{}/", include.display()));
    }
    if over {
        command.arg("-DOVERRIDE");
    }
    let status = command.arg("-o").arg(&object).arg(source).status().expect("to run nasm");
    assert!(status.success(), "nasm could not assemble {}", source.display());
    object
}

// ---- Meson ----------------------------------------------------------------------------------------------------

/// A file of the Meson build, read as far as its lists of strings go.
struct Meson {
    path: PathBuf,
    text: String,
}

impl Meson {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = text.lines().map(|line| format!("{}\n", without_comment(line))).collect();
        Meson { path: path.into(), text }
    }

    /// What stands between the brackets that open after `NAME = ` and the ones that close them.
    fn bracketed(&self, start: &str) -> &str {
        let at = self.text.find(start).unwrap_or_else(|| panic!("{}: no `{start}`", self.path.display()));
        let rest = &self.text[at + start.len()..];
        let open = rest.find(|c| "[({".contains(c)).expect("a list");
        let mut depth = 0;
        let mut quoted = false;
        for (index, c) in rest.char_indices().skip(open) {
            match c {
                '\'' => quoted = !quoted,
                '[' | '(' | '{' if !quoted => depth += 1,
                ']' | ')' | '}' if !quoted => {
                    depth -= 1;
                    if depth == 0 {
                        return &rest[open + 1..index];
                    }
                }
                _ => {}
            }
        }
        panic!("{}: `{start}` does not end", self.path.display())
    }

    /// The strings of `NAME = [...]` or `NAME = files(...)`. Strings may be followed by `.format(...)`.
    fn list(&self, name: &str) -> Vec<String> {
        let found = strings(self.bracketed(&format!("{name} = ")));
        assert!(!found.is_empty(), "{}: `{name}` is empty", self.path.display());
        found
    }

    /// The strings of all lines `NAME += '...'`.
    fn added(&self, name: &str) -> Vec<String> {
        let start = format!("{name} += ");
        self.text.lines().filter_map(|line| line.trim().strip_prefix(&start)).flat_map(strings).collect()
    }

    /// The pairs of `NAME = { 'A': 1, ... }`, in their order.
    fn table(&self, name: &str) -> Vec<(String, u64)> {
        let rows = self.bracketed(&format!("{name} = ")).split(',').filter(|row| !row.trim().is_empty());
        rows.map(|row| {
            let (name, value) = row.split_once(':').unwrap_or_else(|| panic!("not a pair: {row}"));
            (strings(name)[0].clone(), value.trim().parse().unwrap_or_else(|_| panic!("not a number: {row}")))
        })
        .collect()
    }

    /// The value of 'NAME=VALUE' in the default options of the project.
    fn option(&self, name: &str) -> String {
        let start = format!("{name}=");
        let found = strings(self.bracketed("default_options: "));
        let value = found.iter().find_map(|option| option.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("{}: no default for {name}", self.path.display())).into()
    }
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (index, c) in line.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '#' if !quoted => return &line[..index],
            _ => {}
        }
    }
    line
}

/// What is quoted, but for the names of options.
fn strings(text: &str) -> Vec<String> {
    let mut text = text.to_string();
    while let Some(at) = text.find("get_option('") {
        let end = at + text[at..].find(')').expect("a bracket");
        text.replace_range(at..=end, "");
    }
    text.split('\'').skip(1).step_by(2).map(String::from).collect()
}

/// `-DNAME=@0@` with the value of NAME.
fn fill_in(flag: &str, values: &BTreeMap<&str, String>) -> String {
    if !flag.contains('@') {
        return flag.into();
    }
    let name = flag.trim_start_matches("-D").split('=').next().unwrap();
    let value = values
        .get(name)
        .unwrap_or_else(|| panic!("meson.build sets {name}: build.rs does not know from what"));
    format!("-D{name}={value}")
}
