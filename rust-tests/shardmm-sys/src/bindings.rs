// SPDX-License-Identifier: MIT
// Made from include/shardmm/shardmm.h by `cargo run -p bindings`. Do not edit.

pub const SHARDMM_VERSION_MAJOR: u32 = 0;
pub const SHARDMM_VERSION_MINOR: u32 = 1;
pub const SHARDMM_VERSION_PATCH: u32 = 0;
pub const SHARDMM_VERSION_STRING: &[u8; 6] = b"0.1.0\0";
pub const SHARDMM_STATS_VERSION: u32 = 1;
extern "C" {
    #[doc = "```text\nA block of `size` bytes with undefined contents. `size` 0 gives a block of its own that may be freed.\n From: C23 malloc; size 0 as in glibc.\n```"]
    pub fn shardmm_malloc(size: usize) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nA block of `count` times `size` bytes, all of them zero. ENOMEM also when the product overflows.\n From: C23 calloc.\n```"]
    pub fn shardmm_calloc(count: usize, size: usize) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nResizes `block` to `size` bytes. The contents up to the smaller of both sizes stay; the address may\n change. On failure `block` stays as it was.\n   block == NULL      like shardmm_malloc(size)\n   size == 0          frees `block` and returns NULL, errno unchanged (as glibc; C23 leaves it undefined)\n The result keeps an alignment of 16, not a larger one that `block` was made with.\n From: POSIX realloc.\n```"]
    pub fn shardmm_realloc(block: *mut crate::ctypes::c_void, size: usize) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nshardmm_realloc(block, count * size), but ENOMEM and an untouched block when the product overflows.\n From: glibc and POSIX 2024 reallocarray.\n```"]
    pub fn shardmm_reallocarray(
        block: *mut crate::ctypes::c_void,
        count: usize,
        size: usize,
    ) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nGives `block` back. NULL is allowed and does nothing. Keeps errno.\n From: C23 and POSIX 2024 free.\n```"]
    pub fn shardmm_free(block: *mut crate::ctypes::c_void);
}
extern "C" {
    #[doc = "```text\nshardmm_free() of a block that malloc, calloc or realloc gave for exactly `size` bytes. A wrong size\n is reported in builds with debug assertions, and ignored in others.\n From: C23 free_sized.\n```"]
    pub fn shardmm_free_sized(block: *mut crate::ctypes::c_void, size: usize);
}
extern "C" {
    #[doc = "```text\nshardmm_free() of a block that an aligned call gave for exactly `alignment` and `size`. Checked as\n shardmm_free_sized() is.\n From: C23 free_aligned_sized.\n```"]
    pub fn shardmm_free_aligned_sized(block: *mut crate::ctypes::c_void, alignment: usize, size: usize);
}
extern "C" {
    #[doc = "```text\nA block of `size` bytes at a multiple of `alignment`, which may be any power of two; `size` need not be\n a multiple of it. NULL and EINVAL when `alignment` is not a power of two.\n From: C23 aligned_alloc (C17 asked for a multiple).\n```"]
    pub fn shardmm_aligned_alloc(alignment: usize, size: usize) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nStores a block of `size` bytes at a multiple of `alignment` in *result and returns 0. Returns EINVAL\n when `alignment` is not a power of two or not a multiple of sizeof(void *), ENOMEM when there is no\n memory; then *result stays as it was. Never changes errno.\n From: POSIX posix_memalign.\n```"]
    pub fn shardmm_posix_memalign(
        result: *mut *mut crate::ctypes::c_void,
        alignment: usize,
        size: usize,
    ) -> crate::ctypes::c_int;
}
extern "C" {
    #[doc = "```text\nAs shardmm_aligned_alloc(), but an `alignment` that is no power of two is rounded up to one (EINVAL\n when there is none to round to).\n From: glibc memalign.\n```"]
    pub fn shardmm_memalign(alignment: usize, size: usize) -> *mut crate::ctypes::c_void;
}
extern "C" {
    #[doc = "```text\nHow many bytes of `block` may be used: at least what was asked for, the same for as long as the block\n lives and is not resized, all of them writable. 0 for NULL.\n From: glibc malloc_usable_size.\n```"]
    pub fn shardmm_usable_size(block: *const crate::ctypes::c_void) -> usize;
}
extern "C" {
    #[doc = "```text\nThe usable size that shardmm_malloc(size) would give: asking for it instead wastes nothing. 0 when\n that would be above PTRDIFF_MAX. Allocates nothing.\n From: ours, as nallocx of jemalloc and malloc_good_size of macOS.\n```"]
    pub fn shardmm_good_size(size: usize) -> usize;
}
extern "C" {
    #[doc = "```text\nGives back to the system what can be given back now, of every heap, also of threads that sleep and of\n threads that ended: free pages and arenas, pages whose every block another thread freed, the insides of\n free medium blocks, and the cache of large blocks. Returns the number of bytes given back. Other threads\n may go on meanwhile; a slow path of theirs may have to wait for a system call. What needs its owner stays: the\n last page of each size class of a live thread, and pages with items that the thread itself freed. Keeps errno.\n From: ours.\n```"]
    pub fn shardmm_purge() -> usize;
}
extern "C" {
    #[doc = "```text\nGives back what the calling thread alone keeps for its next allocations: takes back what other threads\n freed, then returns empty pages, arenas and the insides of free medium blocks to the system. For a thread\n that is about to sleep for long. Keeps errno.\n From: ours.\n```"]
    pub fn shardmm_thread_flush();
}
#[doc = "```text\nFigures of the whole process. Each is read without stopping other threads: exact while they are quiet,\n else each for itself a value of about now. Sizes in bytes. New fields come at the end, with a higher\n version.\n```"]
#[repr(C)]
pub struct shardmm_stats {
    #[doc = "```text\nSHARDMM_STATS_VERSION of the library\n```"]
    pub version: u32,
    #[doc = "```text\nsizeof(struct shardmm_stats) of the library\n```"]
    pub struct_size: u32,
    #[doc = "```text\nmemory that may be resident for blocks, free memory and metadata\n```"]
    pub committed: u64,
    #[doc = "```text\nthe highest `committed` seen\n```"]
    pub committed_peak: u64,
    #[doc = "```text\naddresses reserved\n```"]
    pub reserved: u64,
    #[doc = "```text\nin use: blocks up to 16 KiB, by their usable size\n```"]
    pub small_bytes: u64,
    pub small_blocks: u64,
    #[doc = "```text\nin use: above 16 KiB up to 1 MiB\n```"]
    pub medium_bytes: u64,
    pub medium_blocks: u64,
    #[doc = "```text\nin use: above 1 MiB\n```"]
    pub large_bytes: u64,
    pub large_blocks: u64,
    #[doc = "```text\ncached, committed: free pages of 64 KiB, of no class\n```"]
    pub free_pages_bytes: u64,
    #[doc = "```text\ncached, committed: free memory in arenas\n```"]
    pub free_medium_bytes: u64,
    #[doc = "```text\ncached, committed: freed large blocks\n```"]
    pub large_cache_bytes: u64,
    pub large_cache_blocks: u64,
    #[doc = "```text\nheaps that a thread has\n```"]
    pub heaps_live: u64,
    #[doc = "```text\nheaps of ended threads that wait for a new one\n```"]
    pub heaps_waiting: u64,
    #[doc = "```text\n4 MiB segments of small pages and medium arenas\n```"]
    pub segments: u64,
    #[doc = "```text\nblocks freed by a thread that did not own them\n```"]
    pub foreign_frees: u64,
    #[doc = "```text\ntimes memory went back to the system\n```"]
    pub purges: u64,
    #[doc = "```text\nhow much, in all\n```"]
    pub purged_bytes: u64,
    #[doc = "```text\ntimes memory was taken from the system\n```"]
    pub commits: u64,
    #[doc = "```text\nrequests that got no memory\n```"]
    pub failures: u64,
}
#[test]
fn bindgen_test_layout_shardmm_stats() {
    const UNINIT: ::core::mem::MaybeUninit<shardmm_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<shardmm_stats>(),
        176usize,
        concat!("Size of: ", stringify!(shardmm_stats))
    );
    assert_eq!(
        ::core::mem::align_of::<shardmm_stats>(),
        8usize,
        concat!("Alignment of ", stringify!(shardmm_stats))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).version) as usize - ptr as usize },
        0usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(version))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        4usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(struct_size))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).committed) as usize - ptr as usize },
        8usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(committed))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).committed_peak) as usize - ptr as usize },
        16usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(committed_peak))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        24usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(reserved))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).small_bytes) as usize - ptr as usize },
        32usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(small_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).small_blocks) as usize - ptr as usize },
        40usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(small_blocks))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).medium_bytes) as usize - ptr as usize },
        48usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(medium_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).medium_blocks) as usize - ptr as usize },
        56usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(medium_blocks))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_bytes) as usize - ptr as usize },
        64usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(large_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_blocks) as usize - ptr as usize },
        72usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(large_blocks))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_pages_bytes) as usize - ptr as usize },
        80usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(free_pages_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_medium_bytes) as usize - ptr as usize },
        88usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(free_medium_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_cache_bytes) as usize - ptr as usize },
        96usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(large_cache_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_cache_blocks) as usize - ptr as usize },
        104usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(large_cache_blocks))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).heaps_live) as usize - ptr as usize },
        112usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(heaps_live))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).heaps_waiting) as usize - ptr as usize },
        120usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(heaps_waiting))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).segments) as usize - ptr as usize },
        128usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(segments))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).foreign_frees) as usize - ptr as usize },
        136usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(foreign_frees))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).purges) as usize - ptr as usize },
        144usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(purges))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).purged_bytes) as usize - ptr as usize },
        152usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(purged_bytes))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).commits) as usize - ptr as usize },
        160usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(commits))
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).failures) as usize - ptr as usize },
        168usize,
        concat!("Offset of field: ", stringify!(shardmm_stats), "::", stringify!(failures))
    );
}
extern "C" {
    #[doc = "```text\nFills the first `size` bytes of *stats (pass sizeof *stats; a program that was compiled with an older\n header gets the fields that it knows). Returns 0, or EINVAL when `stats` is NULL or `size` is too small\n to hold the two first fields. Allocates nothing.\n```"]
    pub fn shardmm_stats_get(stats: *mut shardmm_stats, size: usize) -> crate::ctypes::c_int;
}
#[doc = "```text\nlines for people\n```"]
pub const SHARDMM_STATS_TEXT: shardmm_stats_format = 0;
#[doc = "```text\none JSON object and a newline, its keys named as the fields above\n```"]
pub const SHARDMM_STATS_JSON: shardmm_stats_format = 1;
pub type shardmm_stats_format = crate::ctypes::c_uint;
#[doc = "```text\nTakes `length` bytes of text, not terminated. Must not call back into the library.\n```"]
pub type shardmm_write_fn = ::core::option::Option<
    unsafe extern "C" fn(
        context: *mut crate::ctypes::c_void,
        text: *const crate::ctypes::c_char,
        length: usize,
    ),
>;
extern "C" {
    #[doc = "```text\nWrites the statistics through `write`, piece by piece. Allocates nothing. Returns 0, or EINVAL when\n `write` is NULL or the format unknown.\n```"]
    pub fn shardmm_stats_print(
        format: shardmm_stats_format,
        write: shardmm_write_fn,
        context: *mut crate::ctypes::c_void,
    ) -> crate::ctypes::c_int;
}
extern "C" {
    #[doc = "```text\nReads or sets an option by the name that it has in the environment without SHARDMM_ and in small letters,\n such as \"purge_delay\"; README lists them. Return 0; ENOENT when there is no such option; EINVAL when\n the value is out of range or `value` is NULL; EPERM when the option can be set at start only.\n```"]
    pub fn shardmm_option_get(name: *const crate::ctypes::c_char, value: *mut i64) -> crate::ctypes::c_int;
}
extern "C" {
    pub fn shardmm_option_set(name: *const crate::ctypes::c_char, value: i64) -> crate::ctypes::c_int;
}
extern "C" {
    #[doc = "```text\nChecks every structure of the allocator against its invariants. Returns 0 when all hold; else says the\n first fault in one line on standard error and returns its number. No other thread may be inside\n the library meanwhile: for tests, and for hunting a program that overwrites memory.\n```"]
    pub fn shardmm_verify() -> crate::ctypes::c_int;
}
extern "C" {
    #[doc = "```text\nThe version of the library that runs, such as \"0.1.0\": SHARDMM_VERSION_STRING of its header.\n```"]
    pub fn shardmm_version() -> *const crate::ctypes::c_char;
}
