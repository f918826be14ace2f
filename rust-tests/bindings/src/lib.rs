// SPDX-License-Identifier: MIT
//! The bindings are made from the header, comments included, and committed, so that who builds the crate needs no
//! libclang. The test of this package fails when they are not what the header gives.

use std::path::{Path, PathBuf};

/// Where the committed bindings are.
pub fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shardmm-sys/src/bindings.rs")
}

/// Comments of C are text, not markdown.
#[derive(Debug)]
struct Comments;

impl bindgen::callbacks::ParseCallbacks for Comments {
    fn process_comment(&self, comment: &str) -> Option<String> {
        let lines: Vec<&str> = comment.lines().map(str::trim_end).collect();
        Some(format!("```text\n{}\n```", lines.join("\n").trim()))
    }
}

/// The bindings that the header gives.
pub fn generate() -> String {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let bindings = bindgen::builder()
        .header(include.join("shardmm/shardmm.h").to_str().unwrap())
        .clang_arg(format!("-I{}", include.display()))
        .clang_arg("-fparse-all-comments")
        .allowlist_file(".*/shardmm/(shardmm|version)\\.h")
        .blocklist_item("SHARDMM_SHARDMM_H|SHARDMM_VERSION_H|SHARDMM_API|SHARDMM_M.*")
        .blocklist_type("(u?int[0-9]+|size)_t")
        .use_core()
        .ctypes_prefix("crate::ctypes")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        .disable_header_comment()
        .parse_callbacks(Box::new(Comments))
        .rustified_enum("")
        .generate()
        .expect("to read shardmm.h; is libclang installed?");
    format!(
        "// SPDX-License-Identifier: MIT\n// Made from include/shardmm/shardmm.h by `cargo run -p bindings`. Do not edit.\n\n{bindings}"
    )
}
