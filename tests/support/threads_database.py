"""A database of threads with the columns that waiting programs read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Self


class ThreadsDatabase:
    """The table ``threads`` with ``thread_id`` and ``status`` in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, journal: str = "wal") -> Self:
        """Make the file and its table."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"PRAGMA journal_mode={journal}")
            connection.execute("CREATE TABLE threads (thread_id TEXT PRIMARY KEY, status TEXT)")
            connection.commit()
        return self

    def set(self, thread_id: str, status: str) -> None:
        """Set the status of a thread; make the thread if it is missing."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("REPLACE INTO threads VALUES (?, ?)", (thread_id, status))
            connection.commit()
