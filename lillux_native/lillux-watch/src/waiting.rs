//! The wait for a terminal status.

use std::path::{Path, absolute};
use std::thread;
use std::time::{Duration, Instant};

use crate::database::terminal_status;
use crate::folder::FolderWatch;

pub const TIMEOUT: &str = "timeout";
/// Events may be lost, and do not come from other machines.
const SAFETY: Duration = Duration::from_millis(500);
/// Without a folder that can be watched.
const UNWATCHED: Duration = Duration::from_millis(100);
/// SQLite tells readers about a commit a moment after it wrote the file, without another event.
const SETTLING: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(40)];

/// The terminal status of a thread as soon as it has one; `TIMEOUT` when it does not in time.
pub fn await_status(db: &Path, thread_id: &str, timeout: Option<Duration>) -> String {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let file = absolute(db).unwrap_or_else(|_| db.into());
    let folder = file.parent().unwrap_or(&file).to_path_buf();
    if let Some(status) = terminal_status(db, thread_id) {
        return status;
    }
    let mut watch: Option<FolderWatch> = None;
    let mut pauses: &[Duration] = &[];
    loop {
        watch = watch.or_else(|| FolderWatch::open(&folder)); // before the look: nothing is missed
        if let Some(status) = terminal_status(db, thread_id) {
            return status;
        }
        let left = deadline
            .map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return TIMEOUT.into();
        }
        let pause = match pauses.split_first() {
            Some((first, rest)) => {
                pauses = rest;
                *first
            }
            None if watch.is_some() => SAFETY,
            None => UNWATCHED,
        };
        let Some(open) = &mut watch else {
            thread::sleep(pause.min(left));
            continue;
        };
        if open.wait(pause.min(left)) {
            pauses = &SETTLING;
        }
        if !open.is_valid {
            watch = None;
        }
    }
}
