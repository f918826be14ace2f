// SPDX-License-Identifier: MIT
//! Writes the bindings anew.

fn main() {
    std::fs::write(bindings::committed(), bindings::generate()).unwrap();
}
