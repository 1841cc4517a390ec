"""Pieces of ``rye.pyz`` that are read where they lie, without unpacking anything.

A part is an entry of the archive stored without compression, its first 16 bytes a mark of the
build. It is read through one descriptor that stays open: a file renamed over the archive does not
matter to a running program, and one written over it in place is noticed. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from zipimport import zipimporter

MARK_BYTES = 16
_LOCAL_HEADER_BYTES = 30


class Part:
    """A stored entry of the archive, read piecewise. ``size`` is without the mark."""

    def __init__(self, archive: zipimporter, entry: str, mark: bytes, size: int) -> None:
        self._archive = archive
        self._entry = entry
        self._mark = mark
        self._size = size
        self._start = 0
        self._descriptor: int | None = None
        self._state: tuple[int, int] | None = None
        self._held: bytes | None = None
        self._lock = allocate_lock()

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes at ``offset``.

        Raises SystemExit when the archive was overwritten: no module of this program can be
        imported any more, not even those that tell of failures.
        """
        if self._held is None and self._descriptor is None:
            self._open()
        if self._held is not None:
            return self._held[offset : offset + size]
        data = self._read_at(self._start + offset, size)
        if len(data) != size or self._state_now() != self._state:
            raise _overwritten(self._archive.archive)
        return data

    def hold(self) -> None:
        """Keep all of it in memory, for a long life: then nothing done to the file matters."""
        self._held = self.read(0, self._size)

    def _open(self) -> None:
        """Open the entry in place, or read it whole where that is not possible."""
        try:
            self._open_in_place()
        except (LookupError, AttributeError, OSError):
            self._close()
            self._held = self._whole()

    def _open_in_place(self) -> None:
        """Find the entry's data through the directory that the interpreter has already read."""
        import zipimport

        directory = zipimport._zip_directory_cache[self._archive.archive]  # type: ignore[attr-defined] # noqa: SLF001
        entry = directory[self._entry.replace("/", os.sep)]
        compression, header = entry[1], entry[4]
        if compression:
            raise LookupError(self._entry)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self._archive.archive, flags)
        self._state = self._state_now()
        local = self._read_at(header, _LOCAL_HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        self._start = header + _LOCAL_HEADER_BYTES + names + MARK_BYTES
        if self._read_at(self._start - MARK_BYTES, MARK_BYTES) != self._mark:
            raise LookupError(self._entry)

    def _whole(self) -> bytes:
        try:
            data = self._archive.get_data(self._entry)
        except (ImportError, OSError):
            data = b""
        if data[:MARK_BYTES] != self._mark:
            raise _overwritten(self._archive.archive)
        return data[MARK_BYTES:]

    def _read_at(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor
        assert descriptor is not None  # noqa: S101 - only called between open and close
        if hasattr(os, "pread"):
            return os.pread(descriptor, size, position)
        with self._lock:  # Windows has no pread, and threads share the position
            os.lseek(descriptor, position, os.SEEK_SET)
            return os.read(descriptor, size)

    def _state_now(self) -> tuple[int, int]:
        assert self._descriptor is not None  # noqa: S101 - only called between open and close
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _overwritten(archive: str) -> SystemExit:
    return SystemExit(f"rye: {archive} was replaced by another file while it ran; start it again")
