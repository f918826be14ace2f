// SPDX-License-Identifier: MIT
//! Holds off a package that builds in this tree only: its sources are links to what lies outside of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files(under: &Path, name: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(under.join(name)).unwrap() {
        let name = name.join(entry.unwrap().file_name());
        if under.join(&name).is_dir() {
            files(under, &name, found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn a_package_holds_all_that_it_is_built_from_and_builds() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::temp_dir().join(format!("shardmm-sys-package-{}", std::process::id()));
    // Cargo unpacks the package, and builds it there.
    let output = Command::new(env!("CARGO"))
        .args(["package", "--offline", "--allow-dirty", "--target-dir"])
        .arg(&target)
        .env_remove("LIBSHARDMM_SOURCE")
        .env_remove("RUSTFLAGS")
        .current_dir(here)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let unpacked = target.join("package").join(concat!("shardmm-sys-", env!("CARGO_PKG_VERSION")));
    let mut expected = BTreeSet::new();
    let root = here.join("../..");
    for part in ["src", "asm", "include"] {
        files(&root, Path::new(part), &mut expected);
    }
    expected.insert("meson.build".into());
    // What the build does not read: a guide, C++ and the linker script of the shared library.
    expected
        .retain(|name| !["md", "cc", "map"].iter().any(|end| name.extension().map_or(false, |e| e == *end)));
    let mut packaged = BTreeSet::new();
    files(&unpacked.join("source"), Path::new(""), &mut packaged);
    assert_eq!(packaged, expected);
    for name in &expected {
        let packaged = unpacked.join("source").join(name);
        assert!(!packaged.symlink_metadata().unwrap().file_type().is_symlink(), "{}", name.display());
        assert_eq!(
            std::fs::read(packaged).unwrap(),
            std::fs::read(root.join(name)).unwrap(),
            "{}",
            name.display()
        );
    }
    assert!(unpacked.join("LICENSE").metadata().unwrap().len() > 0);
    std::fs::remove_dir_all(&target).unwrap();
}
