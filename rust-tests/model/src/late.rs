// SPDX-License-Identifier: MIT
//! What a thread does when it is all but gone: destructors of thread-specific data that set their own value again are
//! called once more, by then after the one of the allocator.

use std::cell::Cell;
use std::os::raw::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Once};
use std::thread;

extern "C" {
    fn pthread_key_create(key: *mut c_uint, destructor: extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
}

/// The C library promises four rounds.
const LAST_ROUND: u32 = 4;

type Work = Box<dyn FnOnce()>;

struct Pending {
    round: Cell<u32>,
    work: Cell<Option<Work>>,
}

static START: Once = Once::new();
static KEY: AtomicU32 = AtomicU32::new(0);

fn key() -> c_uint {
    START.call_once(|| {
        let mut key = 0;
        assert_eq!(unsafe { pthread_key_create(&mut key, round) }, 0);
        KEY.store(key, Ordering::Relaxed);
    });
    KEY.load(Ordering::Relaxed)
}

extern "C" fn round(value: *mut c_void) {
    let pending = value.cast::<Pending>();
    unsafe {
        let round = (*pending).round.get() + 1;
        (*pending).round.set(round);
        if round < LAST_ROUND {
            pthread_setspecific(key(), value);
            return;
        }
        if let Some(work) = Box::from_raw(pending).work.take() {
            work();
        }
    }
}

/// Runs `first` in a new thread, and `last` with its result when the thread's heap has gone.
pub fn at_the_end_of_a_thread<R: Send + 'static>(
    first: impl FnOnce() -> usize + Send + 'static,
    last: impl FnOnce(usize) -> Result<R, String> + Send + 'static,
) -> Result<R, String> {
    let (answer, result) = mpsc::channel();
    let thread = thread::spawn(move || {
        let block = first();
        let work: Work = Box::new(move || answer.send(last(block)).unwrap());
        let pending = Box::new(Pending { round: Cell::new(0), work: Cell::new(Some(work)) });
        unsafe { pthread_setspecific(key(), Box::into_raw(pending).cast()) };
    });
    let result = result.recv().map_err(|_| "a thread ended without its last work".to_string())?;
    thread.join().map_err(|_| "a thread panicked".to_string())?;
    result
}
