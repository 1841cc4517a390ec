r"""Packs: many blobs and objects as one file of object storage. Format: ``docs/store.md``, Packs.

    rye-pack 1\\n
    LENGTH of the list, 8 hex digits, \\n
    the list: canonical JSON, [[KIND, DIGEST, SIZE], ...]
    the contents, one behind the other in the order of the list

A pack says by itself what it holds, so that rows of the database that are lost can be made again.
Pure: nothing is asked of a storage here.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import time
from typing import NamedTuple, Protocol

from lillux.canonical_json import canonical_json
from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import make_directory
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass

MAX_PACK_BYTES = 8 * 1024 * 1024
"""So much content is put together; what is larger by itself has a pack of its own."""

MAX_CONTENTS = 2000
HEAD_BYTES = 20
"""What a pack begins with, up to its list."""

MAX_LIST_BYTES = 100 * (MAX_CONTENTS + 1)
_MAGIC, _DIGITS = b"rye-pack 1\n", 8


class PackError(LilluxError):
    """A file that is no pack, or a pack that was cut short."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"pack: {problem}")


class Content(NamedTuple):
    """Bytes under their digest."""

    space: ObjectKind
    digest: str
    data: bytes


class Place(NamedTuple):
    """Where a content lies in a pack: its first byte, and how many."""

    space: ObjectKind
    digest: str
    start: int
    size: int


def packed(contents: Sequence[Content]) -> tuple[bytes, tuple[Place, ...]]:
    """The bytes of a pack with these contents, and where each of them lies in it."""
    listed = canonical_json([[one.space.value, one.digest, len(one.data)] for one in contents])
    head = _MAGIC + f"{len(listed):0{_DIGITS}x}\n".encode("ascii")
    places, start = [], len(head) + len(listed)
    for one in contents:
        places.append(Place(one.space, one.digest, start, len(one.data)))
        start += len(one.data)
    return b"".join((head, listed, *(one.data for one in contents))), tuple(places)


def list_length(head: bytes) -> int:
    """The bytes of the list, from the first `HEAD_BYTES` of a pack. Raises PackError."""
    magic, digits, end = head[: len(_MAGIC)], head[len(_MAGIC) : -1], head[-1:]
    try:
        length = int(digits, 16)
    except ValueError:
        length = -1
    is_head = len(head) == HEAD_BYTES and magic == _MAGIC and end == b"\n"
    if not is_head or not 0 <= length <= MAX_LIST_BYTES:
        raise PackError(f"expected {_MAGIC.decode().strip()} and a length, found {head[:24]!a}")
    return length


def places_in(listed: bytes) -> tuple[Place, ...]:
    """Where each content lies, from the list of a pack. Raises PackError."""
    start, places = HEAD_BYTES + len(listed), []
    try:
        rows = json.loads(listed)
        for kind, digest, size in rows:
            if not is_digest(digest) or type(size) is not int or size < 0:
                raise PackError(f"list: expected a digest and a size, found {str(digest)[:80]!a}")
            places.append(Place(ObjectKind(kind), digest, start, size))
            start += size
    except (ValueError, TypeError, RecursionError) as error:
        raise PackError(f"list: expected [[KIND, DIGEST, SIZE], ...]: {error}") from None
    return tuple(places)


def groups(contents: Iterable[Content]) -> Iterator[list[Content]]:
    """The contents in groups of one pack each, in their order."""
    group: list[Content] = []
    size = 0
    for one in contents:
        if group and (size + len(one.data) > MAX_PACK_BYTES or len(group) == MAX_CONTENTS):
            yield group
            group, size = [], 0
        group.append(one)
        size += len(one.data)
    if group:
        yield group


# --- pack cache -----------------------------------------------------------------------------------
# Packs that were read or written lately, kept near: in files of this machine, or in memory.
#
# Files may be shared by several processes, and may be lost or damaged at any time: who reads a
# content hashes it, and asks for the pack anew where it is not what its name says.

_LOCK, _SUFFIX, _TEMPORARY = "cache.lock", ".pack", ".tmp"
_USED_AGAIN_S = 60.0  # a file that was used in the last minute is not marked as used again
_OLD_TEMPORARY_S = 3600.0
_LEFT = 0.8  # of the bound, when some were removed: else each new pack would remove one


class PackCache(Protocol):
    """Packs by name. Thread-safe; nothing of it raises: what cannot be kept is not kept."""

    def read(self, name: str, start: int, size: int) -> bytes | None:
        """Some bytes of a pack; None where it is not kept, or is shorter."""
        ...

    def keep(self, name: str, data: bytes) -> None:
        """Keep a pack, and remove others for it."""
        ...

    def forget(self, name: str) -> None:
        """Forget a pack."""
        ...

    def figures(self) -> "CacheFigures":
        """What it has done, and what is in it."""
        ...


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Of one process: reads that found something and that did not; bytes that are kept now."""

    hits: int
    misses: int
    bytes: int


class MemoryPacks:
    """A cache in memory of at most ``max_bytes``: for one command, which reads in order."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._packs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()
        self._hits = self._misses = 0

    def read(self, name: str, start: int, size: int) -> bytes | None:
        """Some bytes of a pack; None where it is not kept, or is shorter."""
        with self._lock:
            pack = self._packs.get(name)
            if pack is None or len(pack) < start + size:
                self._misses += 1
                return None
            self._hits += 1
            self._packs.move_to_end(name)
        return pack[start : start + size]

    def keep(self, name: str, data: bytes) -> None:
        """Keep a pack, and let those go that were used least lately."""
        if len(data) > self._max_bytes:
            return
        with self._lock:
            self._bytes += len(data) - len(self._packs.pop(name, b""))
            self._packs[name] = data
            while self._bytes > self._max_bytes:
                _, gone = self._packs.popitem(last=False)
                self._bytes -= len(gone)

    def forget(self, name: str) -> None:
        """Forget a pack."""
        with self._lock:
            self._bytes -= len(self._packs.pop(name, b""))

    def figures(self) -> CacheFigures:
        """What it has done, and what is in it."""
        return CacheFigures(self._hits, self._misses, self._bytes)


class PackFiles:
    """A cache in a folder, of at most ``max_bytes`` but for what processes add at the same time.

    Each process knows the size of all files from when it last looked, and looks again when it has
    added a sixteenth of the bound. Of several that would remove files one does so.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = Lock()
        self._bytes = 0
        self._added: int | None = None  # since it last looked; None: it never did
        self._hits = self._misses = self._number = 0

    def read(self, name: str, start: int, size: int) -> bytes | None:
        """Some bytes of a pack; None where it is not kept, or is shorter."""
        path = self._path(name)
        data: bytes | None = None
        with suppress(OSError), path.open("rb", buffering=0) as file:
            file.seek(start)
            data = file.read(size)
            if time() - os.fstat(file.fileno()).st_mtime > _USED_AGAIN_S:
                os.utime(path)
        is_hit = data is not None and len(data) == size
        with self._lock:
            self._hits += is_hit
            self._misses += not is_hit
        return data if is_hit else None

    def keep(self, name: str, data: bytes) -> None:
        """Keep a pack, and let those go that were used least lately."""
        if len(data) > self._max_bytes:
            return
        with self._lock:
            self._number += 1
            number = self._number
        temporary = self._folder / f"{os.getpid():x}-{id(self):x}-{number:x}{_TEMPORARY}"
        try:
            make_directory(self._folder, mode=0o700)
            temporary.write_bytes(data)
            temporary.replace(self._path(name))
        except (OSError, LilluxError):  # a full disk makes reads slower, not wrong
            with suppress(OSError):
                temporary.unlink()
            return
        with self._lock:
            self._bytes += len(data)
            self._added = None if self._added is None else self._added + len(data)
            is_due = self._added is None or self._added > self._max_bytes // 16
            is_due = is_due or self._bytes > self._max_bytes
            if is_due:
                self._added = 0
        if is_due:
            self._make_room()

    def forget(self, name: str) -> None:
        """Forget a pack."""
        with suppress(OSError):
            self._path(name).unlink()

    def figures(self) -> CacheFigures:
        """What it has done, and what is in it."""
        return CacheFigures(self._hits, self._misses, self._bytes)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _make_room(self) -> None:
        with suppress(OSError, LilluxError, LockTimeoutError):
            with locked(self._folder / _LOCK, timeout_s=0):
                found = sorted(self._files(), key=lambda one: one[1].st_mtime, reverse=True)
                kept = 0
                bound = self._max_bytes
                if sum(status.st_size for _, status in found) > bound:
                    bound = int(bound * _LEFT)
                for path, status in found:
                    if kept + status.st_size > bound:
                        path.unlink(missing_ok=True)
                    else:
                        kept += status.st_size
            with self._lock:
                self._bytes = kept

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """The packs that are kept. What a killed process has half written goes."""
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
                        found.append((Path(entry.path), status))
                    is_old = time() - status.st_mtime > _OLD_TEMPORARY_S
                    if entry.name.endswith(_TEMPORARY) and is_old:
                        Path(entry.path).unlink(missing_ok=True)
        return found
