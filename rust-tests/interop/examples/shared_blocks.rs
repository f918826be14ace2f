// SPDX-License-Identifier: MIT
//! C and Rust in one program, with one allocator: blocks go to and fro, and either side frees what the other made.
//! With the feature `override` the C side calls plain `malloc` and `free`.

// For the C side and the global allocator.
use interop as _;

extern "C" {
    fn lines_copy(text: *const u8, length: usize) -> *mut u8;
    fn lines_repeat(text: *mut u8, length: usize, times: usize) -> *mut u8;
    fn lines_free(text: *mut u8);
}

fn main() {
    let line = "made by one, freed by the other\n";

    // Made by C, owned and freed by Rust.
    let from_c = unsafe {
        let copy = lines_copy(line.as_ptr(), line.len());
        assert!(!copy.is_null());
        String::from_raw_parts(copy, line.len(), line.len())
    };
    assert_eq!(from_c, line);

    // Made by Rust, resized and freed by C.
    let before = shardmm::stats().blocks_in_use();
    let mut bytes = line.as_bytes().to_vec().into_boxed_slice();
    let (start, length) = (bytes.as_mut_ptr(), bytes.len());
    std::mem::forget(bytes);
    unsafe {
        let all = lines_repeat(start, length, 1000);
        assert!(!all.is_null());
        assert_eq!(std::slice::from_raw_parts(all, length * 1000), line.repeat(1000).as_bytes());
        assert!(shardmm::usable_size(all) >= length * 1000);
        lines_free(all);
    }
    assert_eq!(shardmm::stats().blocks_in_use(), before);

    // Made by C in one thread, freed by Rust in another.
    let address = unsafe { lines_copy(line.as_ptr(), line.len()) } as usize;
    let text = std::thread::spawn(move || unsafe {
        String::from_raw_parts(address as *mut u8, line.len(), line.len())
    });
    print!("{}{}", from_c, text.join().unwrap());

    let stats = shardmm::stats();
    println!("in use {} bytes, committed {} bytes", stats.bytes_in_use(), stats.committed);
}
