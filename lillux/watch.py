"""Waits for the end of a background run, as the database of threads reports it.

The database is SQLite's, with a table ``threads`` that has ``thread_id`` and ``status``. It is only
read: never made, and never changed. Its folder is watched by the means of the system; as events may
be lost, and do not come from other machines, it is also read every half second.
"""

import math
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from lillux.folder_watch import FolderWatch, watch_folder

TERMINAL_STATUSES = frozenset(
    {
        "cancelled",
        "completed",
        "completed_with_errors",
        "continued",
        "error",
        "killed",
        "released",
    }
)
"""Statuses of threads that will not change any more."""

TIMEOUT = "timeout"
SAFETY_S = 0.5
# Without a folder that can be watched.
_UNWATCHED_S = 0.1
# SQLite tells readers about a commit shortly after it wrote the file, without another event.
_SETTLING_S = (0.002, 0.01, 0.04)
_BUSY_S = 0.1

OpenWatch = Callable[[Path], FolderWatch | None]


def await_status(
    db: Path,
    thread_id: str,
    timeout_s: float | None,
    *,
    open_watch: OpenWatch | None = None,
    platform: str = sys.platform,
) -> str:
    """The terminal status of a thread, as soon as it has one; `TIMEOUT` when it does not in time.

    A database, a table or a row that is not there yet is waited for. ``timeout_s`` of 0 looks
    once, None sets no limit.
    """
    open_watch = open_watch or (lambda folder: watch_folder(folder, platform))
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    folder = db.absolute().parent
    watch: FolderWatch | None = None
    pauses: tuple[float, ...] = ()
    try:
        while True:
            watch = watch or open_watch(folder)  # before the look, so that nothing falls between
            status = terminal_status(db, thread_id)
            if status is not None:
                return status
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return TIMEOUT
            pause_s, *rest = pauses or (SAFETY_S if watch else _UNWATCHED_S,)
            pauses = tuple(rest)
            if watch is None:
                time.sleep(min(pause_s, left_s))
                continue
            if watch.wait(min(pause_s, left_s)):
                pauses = _SETTLING_S
            if not watch.is_valid:
                watch.close()
                watch = None
    finally:
        if watch is not None:
            watch.close()


def terminal_status(db: Path, thread_id: str) -> str | None:
    """The status of a thread that has ended; None while it has not, or nothing can be read."""
    import sqlite3
    from urllib.parse import quote

    try:
        uri = f"file:{quote(str(db.absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:
            query = "SELECT status FROM threads WHERE thread_id = ?"
            row = connection.execute(query, (thread_id,)).fetchone()
    except sqlite3.Error:  # not there yet, being made, locked by a writer
        return None
    return row[0] if row and row[0] in TERMINAL_STATUSES else None
