// SPDX-License-Identifier: MIT
//! Holds off bindings that differ from the header: a wrong type corrupts memory without a word.

/// Layout is rustfmt's, which is not on every machine.
fn words(text: &str) -> Vec<String> {
    let text: String = text.lines().collect::<Vec<_>>().join(" ").replace(',', " ");
    text.replace('(', " ( ").replace(')', " ) ").split_whitespace().map(String::from).collect()
}

#[test]
fn the_committed_bindings_are_what_the_header_gives() {
    let committed = words(&std::fs::read_to_string(bindings::committed()).unwrap());
    let generated = words(&bindings::generate());
    for (index, (have, want)) in committed.iter().zip(&generated).enumerate() {
        let before = committed[index.saturating_sub(12)..index].join(" ");
        assert_eq!(have, want, "after `{before}`; `cargo run -p bindings` writes them anew");
    }
    assert_eq!(committed.len(), generated.len());
}
