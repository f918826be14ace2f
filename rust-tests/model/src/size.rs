// SPDX-License-Identifier: MIT
//! The sizes that the documentation names, written down once more: a test that took them from the library could not
//! find a wrong table.

/// Blocks up to this are small.
pub const SMALL_MAX: usize = 16 << 10;
/// Blocks up to this are medium.
pub const MEDIUM_MAX: usize = 1 << 20;

/// The usable sizes of small blocks.
pub const CLASSES: [usize; 43] = [
    16, 32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536,
    1792, 2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840, 4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680,
    8192, 10240, 12288, 14336, 16384,
];

/// Where one kind, or one way to serve a request, becomes another.
pub const MEDIUM_EDGES: [usize; 8] =
    [SMALL_MAX, 17 << 10, 32 << 10, 64 << 10, 256 << 10, 512 << 10, MEDIUM_MAX - 1024, MEDIUM_MAX];
/// The same, above 1 MiB.
pub const LARGE_EDGES: [usize; 7] =
    [MEDIUM_MAX, 2 << 20, (2 << 20) - 64, (4 << 20) - 4096, 4 << 20, (8 << 20) - 64, 16 << 20];
/// Nobody has so much memory.
pub const IMPOSSIBLE: [usize; 5] =
    [1 << 47, (1 << 62) + 1, isize::MAX as usize, isize::MAX as usize + 1, usize::MAX];

/// The usable size of a small block of `size` bytes.
pub fn class_of(size: usize) -> Option<usize> {
    CLASSES.iter().copied().find(|class| *class >= size)
}

/// A few bytes beside an edge: `delta` 0..=4 is -2..=2, more goes further.
fn beside(edge: usize, delta: u16) -> usize {
    match delta {
        0..=4 => edge + delta as usize - 2,
        _ => edge.saturating_sub(delta as usize % 512),
    }
}

/// A size from any two numbers: mostly small, mostly at an edge, seldom large, hardly ever impossible.
pub fn pick(choice: u8, detail: u16) -> usize {
    let index = detail as usize >> 4;
    let delta = detail & 15;
    match choice {
        0..=99 => beside(CLASSES[index % CLASSES.len()], delta % 5),
        100..=159 => detail as usize % 300,
        160..=189 => detail as usize % (SMALL_MAX + 1),
        190..=229 => beside(MEDIUM_EDGES[index % MEDIUM_EDGES.len()], delta),
        230..=245 => SMALL_MAX + detail as usize * 3,
        246..=252 => beside(LARGE_EDGES[index % (LARGE_EDGES.len() - 3)], delta),
        253..=254 => beside(LARGE_EDGES[index % LARGE_EDGES.len()], delta),
        255 => IMPOSSIBLE[index % IMPOSSIBLE.len()],
    }
}
