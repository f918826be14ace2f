// SPDX-License-Identifier: MIT
//! System calls that fail. With the feature `faults` this program's own `mmap` and the like stand before those of the
//! C library, for the allocator as for everybody; they make the system call, or fail with ENOMEM where this thread has
//! asked for it. The library needs no seam for that, so what is tested is what users get.

use std::cell::Cell;

#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "faults"), allow(dead_code))]
struct Plan {
    /// How many calls succeed before one fails.
    left: u32,
    all: bool,
    armed: bool,
    failed: u32,
}

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan { left: 0, all: false, armed: false, failed: 0 }) };
}

/// Whether faults can be made.
pub const AVAILABLE: bool = cfg!(feature = "faults");

/// Runs `work`, whose `nth` system call for memory fails, and returns how many failed.
pub fn with<R>(nth: u8, all: bool, work: impl FnOnce() -> R) -> (R, u32) {
    PLAN.with(|plan| plan.set(Plan { left: nth.into(), all, armed: true, failed: 0 }));
    let result = work();
    let failed = PLAN.with(|plan| plan.replace(Plan { left: 0, all: false, armed: false, failed: 0 }).failed);
    (result, failed)
}

#[cfg(feature = "faults")]
mod calls {
    use super::PLAN;
    use std::os::raw::{c_int, c_long, c_void};

    extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
        fn __errno_location() -> *mut c_int;
    }

    const ENOMEM: c_int = 12;
    const MMAP: c_long = 9;
    const MPROTECT: c_long = 10;
    const MUNMAP: c_long = 11;
    const MREMAP: c_long = 25;
    const MADVISE: c_long = 28;

    fn fails() -> bool {
        let now = PLAN.try_with(|cell| {
            let mut plan = cell.get();
            if !plan.armed {
                return false;
            }
            let fail = plan.left == 0 && (plan.all || plan.failed == 0);
            plan.left = plan.left.saturating_sub(1);
            plan.failed += u32::from(fail);
            cell.set(plan);
            fail
        });
        if now == Ok(true) {
            unsafe { *__errno_location() = ENOMEM };
        }
        now == Ok(true)
    }

    #[no_mangle]
    unsafe extern "C" fn mmap(
        at: *mut c_void,
        size: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void {
        if fails() {
            return usize::MAX as *mut c_void;
        }
        syscall(MMAP, at, size, prot as c_long, flags as c_long, fd as c_long, offset) as *mut c_void
    }

    #[no_mangle]
    unsafe extern "C" fn mprotect(at: *mut c_void, size: usize, prot: c_int) -> c_int {
        if fails() {
            return -1;
        }
        syscall(MPROTECT, at, size, prot as c_long) as c_int
    }

    #[no_mangle]
    unsafe extern "C" fn munmap(at: *mut c_void, size: usize) -> c_int {
        if fails() {
            return -1;
        }
        syscall(MUNMAP, at, size) as c_int
    }

    #[no_mangle]
    unsafe extern "C" fn madvise(at: *mut c_void, size: usize, advice: c_int) -> c_int {
        if fails() {
            return -1;
        }
        syscall(MADVISE, at, size, advice as c_long) as c_int
    }

    /// In C with a variable argument, which is in the same register.
    #[no_mangle]
    unsafe extern "C" fn mremap(
        at: *mut c_void,
        old: usize,
        new: usize,
        flags: c_int,
        to: *mut c_void,
    ) -> *mut c_void {
        if fails() {
            return usize::MAX as *mut c_void;
        }
        syscall(MREMAP, at, old, new, flags as c_long, to) as *mut c_void
    }
}
