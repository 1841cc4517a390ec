"""The program that a run started, and the digest of the bytes that were executed.

A program is looked at before it starts and after it has ended. Its identity holds the change time,
which the kernel alone sets: where both looks agree, the bytes in between were the same.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.run.written_files import file_digest

_MAX_PROGRAMS = 100
_SETTLED_NS = 2_000_000_000  # a change within one step of the clock would not show
_MAX_TABLE_BYTES = 1 << 20

Identity = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was before it started: its real path and its identity."""

    path: str
    real: str
    identity: Identity | None

    @property
    def is_unchanged(self) -> bool:
        """True if the file at its path is still the one that was there before the start."""
        return self.identity is not None and self.identity == _identity(self.real)


def program_at(path: str) -> Program:
    """The program at a path, as it is now."""
    real = os.path.realpath(path)
    return Program(path, real, _identity(real))


def _identity(real: str) -> Identity | None:
    try:
        status = os.stat(real)  # noqa: PTH116 - the text is the key
    except OSError:
        return None
    return (
        *(status.st_ino, status.st_dev, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )


class ProgramDigests:
    """Digests of programs, cached in a file of user space by the identity of each program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[Any]] | None = None

    def digest(self, program: Program) -> str:
        """The SHA-256 of what was executed; ``""`` where it was changed since, or is not readable.

        Call it when the program has ended.
        """
        if program.identity is None:
            return ""
        known = self._table().get(program.real)
        if known and known[:-1] == list(program.identity):
            return str(known[-1]) if program.is_unchanged else ""
        found = file_digest(program.real)
        if not found or not program.is_unchanged:
            return ""
        if time.time_ns() - program.identity[-1] > _SETTLED_NS:
            self._keep(program.real, [*program.identity, found])
        return found

    def _table(self) -> dict[str, list[Any]]:
        if self._known is None:
            self._known = {}
            with suppress(OSError, LilluxError, ValueError):
                said = json.loads(read_bytes(self._path, _MAX_TABLE_BYTES))
                self._known = {k: v for k, v in said.items() if isinstance(v, list)}
        return self._known

    def _keep(self, real: str, entry: list[Any]) -> None:
        table = self._table()
        while len(table) >= _MAX_PROGRAMS:
            del table[next(iter(table))]
        table[real] = entry
        with suppress(OSError, LilluxError):  # read again next time
            make_directory(self._path.parent, mode=0o700)
            write_atomic(self._path, json.dumps(table).encode())
