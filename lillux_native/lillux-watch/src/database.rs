//! The database of threads, as far as those who wait for a status read it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// What a thread's status is when it will not change any more.
const TERMINAL: [&str; 7] =
    ["cancelled", "completed", "completed_with_errors", "continued", "error", "killed", "released"];
const BUSY: Duration = Duration::from_millis(100);

/// The status of a thread that has ended; `None` while it has not, or nothing can be read.
pub fn terminal_status(db: &Path, thread_id: &str) -> Option<String> {
    // Not there yet, being made, locked by a writer: all of that may change.
    status(db, thread_id).ok().filter(|status| TERMINAL.contains(&status.as_str()))
}

fn status(db: &Path, thread_id: &str) -> rusqlite::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(db, flags)?;
    connection.busy_timeout(BUSY)?;
    connection
        .query_row("SELECT status FROM threads WHERE thread_id = ?", [thread_id], |row| row.get(0))
}
