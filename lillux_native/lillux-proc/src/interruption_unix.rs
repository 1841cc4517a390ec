//! The signals that ask this program to end, on POSIX systems: taken while a child is to be ended first.

use std::ffi::c_int;
use std::io::{self, PipeReader, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// From now until it is settled the signals are kept, and reported by a file that can be read from.
pub struct Interruption {
    /// The number of the one that came last, 0 for none.
    signal: Arc<AtomicUsize>,
    is_settled: Arc<AtomicBool>,
    told: PipeReader,
}

impl Interruption {
    /// Takes the signals, but for those that our parent process ignores (nohup).
    pub fn awaited() -> io::Result<Self> {
        let (told, tell) = pipe()?;
        let (signal, is_settled) = (Arc::default(), Arc::default());
        for number in [SIGTERM, SIGINT, SIGHUP] {
            if is_ignored(number) {
                continue;
            }
            // In this order: a reader that finds something to read finds the number too.
            flag::register_conditional_default(number, Arc::clone(&is_settled))?;
            flag::register_usize(number, Arc::clone(&signal), number.cast_unsigned() as usize)?;
            low_level::pipe::register(number, tell.try_clone()?)?;
        }
        Ok(Self { signal, is_settled, told })
    }

    /// Whether one came.
    pub fn came(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    /// What can be read from when one comes; nothing once it came.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        (!self.came()).then(|| self.told.as_fd())
    }

    /// Ends this program by the signal that came. From now on a signal does so by itself.
    pub fn settle(&self) {
        self.is_settled.store(true, Ordering::SeqCst);
        if let Ok(number @ 1..) = c_int::try_from(self.signal.load(Ordering::SeqCst)) {
            let _ = low_level::emulate_default_handler(number); // does not come back from these
        }
    }
}

fn is_ignored(number: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; the answer is initialized when the call succeeds, and only read then.
    unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
