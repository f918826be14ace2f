// SPDX-License-Identifier: MIT
//! Entries of the environment, a line each, against the rules as the documentation has them.
#![no_main]

use std::ffi::CString;
use std::os::raw::{c_char, c_int};

use shardmm_sys as _;

extern "C" {
    fn smm_options_read(entry: *const c_char);
    fn smm_option_get(name: *const c_char, value: *mut i64) -> c_int;
    fn smm_option_set(name: *const c_char, value: i64) -> c_int;
    fn smm_option_stats_file() -> *const c_char;
}

const ENOENT: c_int = 2;

struct Rule {
    name: &'static str,
    least: i64,
    most: i64,
    words: &'static [&'static str],
}

const fn number(name: &'static str, most: i64) -> Rule {
    Rule { name, least: 0, most, words: &[] }
}

const fn words(name: &'static str, words: &'static [&'static str]) -> Rule {
    Rule { name, least: 0, most: words.len() as i64 - 1, words }
}

/// docs/tuning.md
const RULES: [Rule; 13] = [
    number("purge_delay", 1_000_000),
    number("keep_pages", 65536),
    number("keep_arenas", 4096),
    number("reserve_pages", 65536),
    number("reserve_arenas", 4096),
    number("large_cache_blocks", 64),
    number("large_cache_bytes", 1 << 46),
    words("prefault", &["off", "on"]),
    words("huge_pages", &["never", "auto", "always"]),
    number("huge_slow_us", 1_000_000),
    words("stats", &["none", "text", "json", "summary"]),
    number("stats_pid", i32::MAX as i64),
    number("verbose", 2),
];

fn get(name: &str) -> Option<i64> {
    let name = CString::new(name).unwrap();
    let mut value = 0;
    match unsafe { smm_option_get(name.as_ptr(), &mut value) } {
        0 => Some(value),
        status => {
            assert_eq!(status, ENOENT);
            None
        }
    }
}

fn parse(rule: &Rule, text: &str) -> Option<i64> {
    if let Some(index) = rule.words.iter().position(|word| *word == text) {
        return Some(index as i64);
    }
    let digits = text.trim_end_matches(|c| "KMGkmg".contains(c));
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<i64>().ok()?.checked_mul(1 << shift)?;
    (rule.least..=rule.most).contains(&value).then_some(value)
}

/// The option that the entry sets, and to what.
fn meaning(entry: &str) -> Option<(usize, i64)> {
    let (name, text) = entry.strip_prefix("SHARDMM_")?.split_once('=')?;
    let name = name.to_ascii_lowercase();
    let index = RULES.iter().position(|rule| rule.name == name)?;
    Some((index, parse(&RULES[index], text)?))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(entry) = CString::new(line) else { continue };
        let before: Vec<i64> = RULES.iter().map(|rule| get(rule.name).expect("an option")).collect();
        unsafe { smm_options_read(entry.as_ptr()) };
        let text = String::from_utf8_lossy(line);
        let meaning = meaning(&text);
        for (index, rule) in RULES.iter().enumerate() {
            let expected = match meaning {
                Some((which, value)) if which == index => value,
                _ => before[index],
            };
            assert_eq!(get(rule.name), Some(expected), "{} after {text:?}", rule.name);
        }
        // By name, as the public calls: what the text says is a name of no option or of one.
        if let Some((name, _)) = text.split_once('=') {
            assert_eq!(get(&name.replace('\0', "")).is_some(), RULES.iter().any(|rule| rule.name == name));
        }
    }
    // Nothing that would be written at the end, and settings as they were.
    for reset in
        ["SHARDMM_STATS=none\0", "SHARDMM_STATS_PID=0\0", "SHARDMM_STATS_FILE=\0", "SHARDMM_VERBOSE=0\0"]
    {
        unsafe { smm_options_read(reset.as_ptr().cast()) };
    }
    assert!(unsafe { smm_option_stats_file() }.is_null());
    for (name, value) in
        [("purge_delay\0", 1000), ("large_cache_blocks\0", 32), ("large_cache_bytes\0", 128 << 20)]
    {
        assert_eq!(unsafe { smm_option_set(name.as_ptr().cast(), value) }, 0);
    }
});
