"""Cache of file digests, keyed by stat().

An optimisation only: it is kept where no other user writes, and a sender of the content of a file
hashes it again. A file changed within a tick of the file system's clock after it was looked at
looks the same as before; so what was that young when it was recorded is not remembered.
"""

import json
import os
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic

_VERSION = 2
_MAX_TABLE_BYTES = 512 * 1024 * 1024
_DIGEST_LINE = 65
_ROWS_A_FILE = 25  # that are written in the time in which a small file is read
_MANY_BYTES = 4 * 1024 * 1024
_SECOND_NS = 1_000_000_000
_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000  # of file systems that count seconds, or two at a time


class TreeEntry(
    NamedTuple
):  # made for each file, each time: a tuple is made in a third of the time
    """The digest of a file's bytes; of an item that of its item_source too, and the object."""

    blob: str
    item_digest: str | None = None
    item: Mapping[str, Any] | None = None


_Row = list[Any]
"""Row of the file: size, mtime_ns, ctime_ns, inode, the three of an `Entry`. Never written into."""

_FIELDS = 7
BLOB, ITEM_DIGEST, ITEM = 4, 5, 6


class StatTable:
    """Entries by relative path, of the files below one folder. Not thread-safe.

    ``path`` is the file it is kept in, None for a table that lives in memory only. ``admitted_by``
    is a digest of the rules by which every path in it may travel, ``""`` where that was not asked.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.admitted_by = ""
        self._rows: dict[str, _Row] = {}
        self._changed_error = False
        self._learned = self._learned_bytes = 0  # since it was saved

    def __len__(self) -> int:
        """Number of files that are known."""
        return len(self._rows)

    def paths(self) -> Collection[str]:
        """The paths of all files that are known; a set answers fast."""
        return self._rows.keys()

    def copy(self) -> "StatTable":
        """A copy in memory, which learns independently of this one."""
        other = StatTable()
        other._rows = self._rows.copy()
        other.admitted_by = self.admitted_by
        return other

    def entry(self, relative: str, status: os.stat_result) -> TreeEntry | None:
        """Row of a file, if it is still the one that was recorded."""
        row = self.row(relative, status)
        return None if row is None else TreeEntry(*row[BLOB:])

    def row(self, relative: str, status: os.stat_result) -> _Row | None:
        """The same as `entry`, for many: nothing is made for it."""
        row = self._rows.get(relative)
        if (
            row is None
            or row[0] != status.st_size
            or row[1] != status.st_mtime_ns
            or row[2] != status.st_ctime_ns
            or row[3] != (0 if _WINDOWS else status.st_ino)
        ):
            return None
        return row

    def admit(self, rules: str) -> None:
        """Note the rules by which every path in the table may travel."""
        if self.admitted_by != rules:
            self.admitted_by = rules
            self._changed_error = True
            self._learned += len(self._rows)  # worth writing: it saves a check of each of them

    def record(
        self, relative: str, status: os.stat_result, entry: TreeEntry, *, now_ns: int | None = None
    ) -> None:
        """Remember an entry. ``status`` is from before the file was read, or after it was written.

        ``now_ns`` is when the system was asked for it, by default now.
        """
        self._changed_error = True
        if _is_racy(status, time_ns() if now_ns is None else now_ns):
            self._rows.pop(relative, None)
        else:
            self._rows[relative] = [*_key(status), entry.blob, entry.item_digest, entry.item]
            self._learned += 1
            self._learned_bytes += status.st_size

    def forget(self, relative: str) -> None:
        """Forget a file."""
        if self._rows.pop(relative, None) is not None:
            self._changed_error = True

    def retain(self, paths: AbstractSet[str]) -> None:
        """Forget all files but these."""
        if not self._rows.keys() <= paths:
            self._rows = {path: row for path, row in self._rows.items() if path in paths}
            self._changed_error = True

    def load(self) -> None:
        """Read what was saved. A file that is not there, or broken, is an empty table."""
        self._rows, self.admitted_by = {}, ""
        if self.path is None:
            return
        try:
            data = read_bytes(self.path, _MAX_TABLE_BYTES)
            if data[:_DIGEST_LINE] == f"{sha256_hex(data[_DIGEST_LINE:])}\n".encode():
                value = json.loads(data[_DIGEST_LINE:])
                self._rows, self.admitted_by = _rows(value), str(value["admitted_by"])
        except (OSError, LilluxError, ValueError, TypeError, KeyError, RecursionError):
            return

    def save_if_worth_it(self) -> None:
        """Call `save` where that takes less than reading again what the table has learned."""
        is_little = self._learned * _ROWS_A_FILE < len(self._rows)
        if not is_little or self._learned_bytes > _MANY_BYTES:
            self.save()

    def save(self) -> None:
        """Write the table if it has changed, whole or not at all. Raises FileSystemError."""
        if self.path is None or not self._changed_error:
            return
        value = {"version": _VERSION, "admitted_by": self.admitted_by, "files": self._rows}
        text = json.dumps(value, separators=(",", ":"))
        data = text.encode("ascii")
        make_directory(self.path.parent, mode=0o700)
        write_atomic(self.path, f"{sha256_hex(data)}\n".encode() + data, mode=0o600)
        self._changed_error = False
        self._learned = self._learned_bytes = 0


# On Windows a folder's listing has no inodes, and reading each costs what this saves.
_WINDOWS = os.name == "nt"


def _key(status: os.stat_result) -> list[int]:
    inode = 0 if _WINDOWS else status.st_ino
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
