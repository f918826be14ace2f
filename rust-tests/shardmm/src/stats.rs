// SPDX-License-Identifier: MIT
//! Statistics and options.

use core::mem;

use shardmm_sys as sys;

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Figures of the whole process, sizes in bytes: exact while other threads are quiet, else each for itself a
        /// value of about now.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Stats {
            fn from_c(c: &sys::shardmm_stats) -> Self {
                Stats { $($field: c.$field),* }
            }
        }
    };
}

stats! {
    /// Memory that may be resident for blocks, free memory and metadata.
    committed,
    /// The highest `committed` seen.
    committed_peak,
    /// Addresses reserved.
    reserved,
    /// In use: blocks up to 16 KiB, by their usable size.
    small_bytes,
    /// Their number.
    small_blocks,
    /// In use: blocks above 16 KiB up to 1 MiB.
    medium_bytes,
    /// Their number.
    medium_blocks,
    /// In use: blocks above 1 MiB.
    large_bytes,
    /// Their number.
    large_blocks,
    /// Kept: free pages of 64 KiB.
    free_pages_bytes,
    /// Kept: free memory in arenas of medium blocks.
    free_medium_bytes,
    /// Kept: freed large blocks.
    large_cache_bytes,
    /// Their number.
    large_cache_blocks,
    /// Heaps that a thread has.
    heaps_live,
    /// Heaps of ended threads that wait for a new one.
    heaps_waiting,
    /// Segments of 4 MiB, of small pages and medium arenas.
    segments,
    /// Blocks freed by a thread that did not own them.
    foreign_frees,
    /// Times that memory went back to the system.
    purges,
    /// How much, in all.
    purged_bytes,
    /// Times that memory was taken from the system.
    commits,
    /// Requests that got no memory.
    failures,
}

impl Stats {
    /// Bytes in use, of all kinds, by usable size.
    pub fn bytes_in_use(&self) -> u64 {
        self.small_bytes + self.medium_bytes + self.large_bytes
    }

    /// Blocks in use, of all kinds.
    pub fn blocks_in_use(&self) -> u64 {
        self.small_blocks + self.medium_blocks + self.large_blocks
    }
}

/// The statistics of now. Allocates nothing.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: shardmm::ShardMM = shardmm::ShardMM;
///
/// let before = shardmm::stats();
/// let block = vec![1u8; 3_000_000];
/// let after = shardmm::stats();
/// assert!(after.large_bytes >= before.large_bytes + block.len() as u64);
/// ```
pub fn stats() -> Stats {
    // SAFETY: numbers, for which 0 is a value; the call fills in what it is told the size of, and cannot fail then.
    unsafe {
        let mut c: sys::shardmm_stats = mem::zeroed();
        sys::shardmm_stats_get(&mut c, mem::size_of_val(&c));
        Stats::from_c(&c)
    }
}

/// Why an option could not be read or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no option of this name.
    Unknown,
    /// The value is out of the option's range.
    OutOfRange,
    /// It can be set in the environment at start only.
    AtStartOnly,
}

impl core::fmt::Display for OptionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            OptionError::Unknown => "no such option",
            OptionError::OutOfRange => "the value is out of range",
            OptionError::AtStartOnly => "the option can be set at start only",
        })
    }
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;

/// Longer than every option's name, which ends with 0.
fn c_name(name: &str) -> Result<[u8; 64], OptionError> {
    let mut c = [0; 64];
    if name.len() >= c.len() || name.contains('\0') {
        return Err(OptionError::Unknown);
    }
    c[..name.len()].copy_from_slice(name.as_bytes());
    Ok(c)
}

fn result(status: i32) -> Result<(), OptionError> {
    match status {
        0 => Ok(()),
        ENOENT => Err(OptionError::Unknown),
        EPERM => Err(OptionError::AtStartOnly),
        _ => Err(OptionError::OutOfRange),
    }
}

/// Reads an option by the name that it has in the environment, without `SHARDMM_` and in small letters.
///
/// ```
/// assert_eq!(shardmm::option("purge_delay"), Ok(1000));
/// assert_eq!(shardmm::option("no_such"), Err(shardmm::OptionError::Unknown));
/// ```
pub fn option(name: &str) -> Result<i64, OptionError> {
    let name = c_name(name)?;
    let mut value = 0;
    // SAFETY: the name ends with 0.
    result(unsafe { sys::shardmm_option_get(name.as_ptr().cast(), &mut value) })?;
    Ok(value)
}

/// Sets an option; see [`option`].
///
/// ```
/// use shardmm::OptionError;
///
/// assert_eq!(shardmm::set_option("purge_delay", 200), Ok(()));
/// assert_eq!(shardmm::set_option("purge_delay", -1), Err(OptionError::OutOfRange));
/// assert_eq!(shardmm::set_option("stats", 1), Err(OptionError::AtStartOnly));
/// ```
pub fn set_option(name: &str, value: i64) -> Result<(), OptionError> {
    let name = c_name(name)?;
    // SAFETY: the name ends with 0.
    result(unsafe { sys::shardmm_option_set(name.as_ptr().cast(), value) })
}
