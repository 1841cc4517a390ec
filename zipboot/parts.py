"""Reads parts of ``rye.pyz`` in place, without unpacking.

The file is opened once, when the program starts: one renamed over it does not matter to a running
program, and one written over it in place is noticed. A part is an entry of the archive stored
without compression, its first 16 bytes a mark of the build. Every piece is compared with what the
index says of it before it is used. Page: ``docs/building.md``.
"""

from __future__ import annotations

import _imp
import os
import sys
from _thread import allocate_lock

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from zipimport import zipimporter

DAMAGED = 78  # EX_CONFIG of sysexits.h: the environment is wrong, not the command
MARK_BYTES = 16
_LOCAL_HEADER_BYTES = 30
_LAST_STREAM = 2


def checksum(data: bytes | memoryview) -> bytes:
    """Eight bytes that tell damage from what was packed; nothing is imported for them.

    SipHash-1-3, as in `.pyc` files that are checked by their source: gigabytes in a second, the
    same in every CPython that code is packed for. Against a person who changes the file on purpose
    it is no help, see ``rye self verify``.
    """
    return _imp.source_hash(0, data)


def damaged(path: str, piece: str) -> SystemExit:
    """Say that the file is damaged; what to raise then.

    Said at once, in case the module is damaged that would say it when the program ends.
    """
    if sys.stderr is not None:
        sys.stderr.write(
            f"rye: {path} is damaged ({piece}): "
            "get it again, or check it with the .sha256 beside it\n"
        )
    return SystemExit(DAMAGED)


class Archive:
    """The file that runs. ``loader`` is what the interpreter made for it.

    Raises SystemExit when it is gone, and whenever it turns out to be another one or damaged: no
    module of this program can be imported then, not even those that tell of failures.
    """

    def __init__(self, loader: zipimporter) -> None:
        self.loader = loader
        self.path = loader.archive
        self._lock = allocate_lock()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError:
            raise self.replaced() from None
        is_streams = descriptor <= _LAST_STREAM
        self._descriptor = _above_streams(descriptor) if is_streams else descriptor
        self._state = self._state_now()

    def read(self, position: int, size: int) -> bytes:
        """``size`` bytes of the file."""
        if hasattr(os, "pread"):
            data = os.pread(self._descriptor, size, position)
        else:
            with self._lock:  # Windows has no pread, and threads share the position
                os.lseek(self._descriptor, position, os.SEEK_SET)
                data = os.read(self._descriptor, size)
        if self._state_now() != self._state:
            raise self.replaced()
        if len(data) != size:
            raise self.differs(f"{size} bytes at {position}")
        return data

    def entry(self, name: str) -> tuple[int, int, int]:
        """Offset of an entry's data, their size, and how they are packed: 0 for not at all.

        From the directory that the interpreter has already read. Raises LookupError without such
        an entry, AttributeError in another Python.
        """
        import zipimport

        directory = zipimport._zip_directory_cache[self.path]  # type: ignore[attr-defined] # noqa: SLF001
        _, method, size, _, header, *_ = directory[name.replace("/", os.sep)]
        local = self.read(header, _LOCAL_HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return header + _LOCAL_HEADER_BYTES + names, size, method

    @property
    def is_written_over(self) -> bool:
        """True if the file was changed in place. One that is renamed over it is no such change."""
        return self._state_now() != self._state

    def differs(self, piece: str) -> SystemExit:
        """Error for a piece that is not what the index says: of another file, or damaged."""
        return self.replaced() if self._is_another() else damaged(self.path, piece)

    def replaced(self) -> SystemExit:
        """Error for a file that is not the one that was started."""
        return SystemExit(
            f"rye: {self.path} was replaced by another file while it ran; start it again"
        )

    def _is_another(self) -> bool:
        """True if the file was written over before it was opened here.

        Its directory is another one then, since that has a checksum of each entry.
        """
        import zipimport

        try:
            known = zipimport._zip_directory_cache[self.path]  # type: ignore[attr-defined] # noqa: SLF001
            read = zipimport._read_directory  # type: ignore[attr-defined] # noqa: SLF001
        except (LookupError, AttributeError):  # another Python
            return False
        try:
            return bool(read(self.path) != known)
        except (ImportError, OSError):
            return True

    def _state_now(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns


def _above_streams(descriptor: int) -> int:
    """The same file by a number that is of no standard stream.

    Who started us had closed one: the null device takes its place, and nothing else ever will.
    """
    closed = []
    while descriptor <= _LAST_STREAM:
        closed.append(descriptor)
        descriptor = os.dup(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for number in closed:
        os.dup2(null, number)
    os.close(null)
    return descriptor


class Part:
    """A stored entry of the archive, read piecewise. Offsets are from behind its mark."""

    def __init__(self, archive: Archive, entry: str, mark: bytes) -> None:
        self._archive = archive
        self._entry = entry
        self._mark = mark
        self._start = 0
        self._whole: bytes | None = None
        self._held: dict[tuple[int, int], bytes] = {}

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes at ``offset``, not checked here. Raises SystemExit, see `Archive`."""
        if not self._start and self._whole is None:
            self._find()
        whole = self._whole  # another thread may let go of it
        if whole is not None:
            return whole[offset : offset + size]
        held = self._held.get((offset, size))
        return self._archive.read(self._start + offset, size) if held is None else held

    def keep(self) -> None:
        """Keep all of it in memory, until `hold` has chosen the pieces: one read."""
        if not self._start and self._whole is None:
            self._find()
        if self._whole is None:
            size = self._archive.entry(self._entry)[1] - MARK_BYTES
            self._whole = self._archive.read(self._start, size)

    def hold(self, pieces: Iterable[tuple[int, int]]) -> None:
        """Keep pieces in memory, by offset and size: then nothing done to the file matters."""
        self._held = {(offset, size): self.read(offset, size) for offset, size in pieces}
        if self._start:
            self._whole = None

    def differs(self, piece: str) -> SystemExit:
        """Error for a piece that is not what the index says, see `Archive`."""
        return self._archive.differs(piece)

    def _find(self) -> None:
        """Offset of the entry; read whole where it cannot be read in place."""
        try:
            self._start = self._find_in_place()
        except (LookupError, AttributeError):  # packed again by another program, another Python
            try:
                data = self._archive.loader.get_data(self._entry)
            except Exception:  # noqa: BLE001 - whatever zipimport makes of a damaged entry
                data = b""
            if data[:MARK_BYTES] != self._mark:
                raise self.differs(self._entry) from None
            self._whole = data[MARK_BYTES:]

    def _find_in_place(self) -> int:
        """The position of the data. Raises LookupError, AttributeError."""
        start, _, method = self._archive.entry(self._entry)
        if method or self._archive.read(start, MARK_BYTES) != self._mark:
            raise LookupError(self._entry)
        return start + MARK_BYTES
