"""What files had which digest, by what the system tells of them without reading them.

An optimisation only: it is kept where nobody else writes, and whoever sends the content of a file
hashes it again. A file changed within a tick of the file system's clock after it was looked at
looks the same as before; so what was that young when it was recorded is not remembered.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic

_VERSION = 1
_MAX_BYTES = 512 * 1024 * 1024
_DIGEST_LINE = 65
_ROWS_A_FILE = 25  # that are written in the time in which a small file is read
_MANY_BYTES = 4 * 1024 * 1024
_SECOND_NS = 1_000_000_000
_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000  # of file systems that count seconds, or two at a time


class Entry(NamedTuple):  # made for each file, each time: a tuple is made in a third of the time
    """The digest of a file's bytes; of an item that of its item_source too, and the object."""

    blob: str
    item_digest: str | None = None
    item: Mapping[str, Any] | None = None


_Row = list[Any]
"""As in the file: size, mtime_ns, ctime_ns, inode, the three of an `Entry`. Never written into."""

_FIELDS = 7


class StatTable:
    """Entries by relative path, of the files below one folder. Not thread-safe.

    ``path`` is the file it is kept in, None for a table that lives in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._rows: dict[str, _Row] = {}
        self._changed = False
        self._learned = self._learned_bytes = 0  # since it was saved

    def __len__(self) -> int:
        """How many files are known."""
        return len(self._rows)

    def copy(self) -> "StatTable":
        """A table in memory that knows the same, and learns apart from this one."""
        other = StatTable()
        other._rows = self._rows.copy()
        return other

    def entry(self, relative: str, status: os.stat_result) -> Entry | None:
        """What is known of a file, if it is still the one that was recorded."""
        row = self._rows.get(relative)
        if row is None or row[:4] != _key(status):
            return None
        return Entry(row[4], row[5], row[6])

    def record(
        self, relative: str, status: os.stat_result, entry: Entry, *, now_ns: int | None = None
    ) -> None:
        """Remember an entry. ``status`` is from before the file was read, or after it was written.

        ``now_ns`` is when the system was asked for it, by default now.
        """
        self._changed = True
        if _is_racy(status, time_ns() if now_ns is None else now_ns):
            self._rows.pop(relative, None)
        else:
            self._rows[relative] = [*_key(status), entry.blob, entry.item_digest, entry.item]
            self._learned += 1
            self._learned_bytes += status.st_size

    def forget(self, relative: str) -> None:
        """Know nothing of a file."""
        if self._rows.pop(relative, None) is not None:
            self._changed = True

    def retain(self, paths: Collection[str]) -> None:
        """Forget all files but these; a set answers fast."""
        if len(paths) < len(self._rows) or any(path not in paths for path in self._rows):
            self._rows = {path: row for path, row in self._rows.items() if path in paths}
            self._changed = True

    def load(self) -> None:
        """Read what was saved. A file that is not there, or broken, is an empty table."""
        self._rows = {}
        if self.path is None:
            return
        try:
            data = read_bytes(self.path, _MAX_BYTES)
            if data[:_DIGEST_LINE] == f"{sha256_hex(data[_DIGEST_LINE:])}\n".encode():
                self._rows = _rows(json.loads(data[_DIGEST_LINE:]))
        except (OSError, LilluxError, ValueError, TypeError, KeyError, RecursionError):
            return

    def save_if_worth_it(self) -> None:
        """As `save`, where that takes less than reading again what the table has learned."""
        is_little = self._learned * _ROWS_A_FILE < len(self._rows)
        if not is_little or self._learned_bytes > _MANY_BYTES:
            self.save()

    def save(self) -> None:
        """Write the table if it has changed, whole or not at all. Raises FileSystemError."""
        if self.path is None or not self._changed:
            return
        text = json.dumps({"version": _VERSION, "files": self._rows}, separators=(",", ":"))
        data = text.encode("ascii")
        make_directory(self.path.parent, mode=0o700)
        write_atomic(self.path, f"{sha256_hex(data)}\n".encode() + data, mode=0o600)
        self._changed = False
        self._learned = self._learned_bytes = 0


def _key(status: os.stat_result) -> list[int]:
    # On Windows a folder's listing has no inodes, and asking for each costs what this spares.
    inode = 0 if os.name == "nt" else status.st_ino
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode]


def _is_racy(status: os.stat_result, now_ns: int) -> bool:
    coarse = status.st_mtime_ns % _SECOND_NS == 0
    tick = _COARSE_TICK_NS if coarse else _TICK_NS
    return now_ns - max(status.st_mtime_ns, status.st_ctime_ns) < tick


def _rows(value: Mapping[str, Any]) -> dict[str, _Row]:
    """Raises ValueError, TypeError, KeyError for what `StatTable.save` has not written."""
    rows: dict[str, _Row] = value["files"] if value["version"] == _VERSION else {}
    if (
        type(rows) is not dict
        or {*map(type, rows.values())} - {list}
        or {*map(len, rows.values())} - {_FIELDS}
    ):
        raise ValueError("expected rows")
    return rows
