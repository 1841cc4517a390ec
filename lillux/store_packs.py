"""Packs of a store: many small blobs and objects in one file. Format: ``docs/store.md``, Packs.

A pack is written whole and never changed. Its index says where each piece is; what is read is
hashed by the store. A pack whose index is damaged is read from its beginning instead: each piece
has its length before it, and its digest is computed.
"""

import logging
import os
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from threading import Lock
from time import monotonic, time
from typing import NamedTuple, TypeAlias

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import file_system_error
from lillux.store_files import JUST_NOW_S, StoreFolders
from lillux.store_layout import PACKS, ObjectKind, is_digest

PACK_BYTES = 32 * 1024 * 1024
"""Of the pieces of one pack. All of it is copied when one of them is removed."""

_DAMAGED = ("damaged",)
_SUFFIX = ".pack"
_START, _END = b"rye pack 1\n", b"rye pack end\n"
_MARKS = {ObjectKind.BLOB: b"b", ObjectKind.OBJECT: b"o"}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}
_FRAME = Struct(">cI")  # before each piece: what it is, and how many bytes
_RECORD = Struct(">32scQI")  # in the index: digest, what it is, where its bytes are, how many
_TAIL = Struct(f">I{len(_END)}s")  # the number of records, and the end
_KEY_BYTES = 33
_SMALL_PACK_BYTES, _MANY_SMALL = 4 * 1024 * 1024, 8  # so many are merged by the next sweep

_LISTED_S = 0.002  # so long is a listing of the folder as good as a new one
_TICK_S = 0.1  # what changed in this time may have the same time stamp
_MAX_OPEN = 64
_log = logging.getLogger(__name__)


Piece: TypeAlias = tuple[ObjectKind, str, bytes]
"""Kind, digest and bytes; of an object its canonical JSON."""


class PackedPiece(NamedTuple):
    """A piece in a pack. ``modified_s``: since the epoch, the same for all of a pack."""

    digest: str
    size: int
    modified_s: float


class _Place(NamedTuple):
    pack: "_Pack"
    offset: int
    length: int


class _Pack:
    """The index of one pack, in memory: 53 bytes for each piece."""

    def __init__(self, name: str, index: bytes, *, is_sound: bool) -> None:
        self.name, self.index, self.is_sound = name, index, is_sound
        starts = range(0, len(index), _RECORD.size)
        self._prefixes = array("Q", [int.from_bytes(index[at : at + 8], "big") for at in starts])
        self.young_until = 0.0  # by the monotonic clock

    def __len__(self) -> int:
        return len(self._prefixes)

    def find(self, key: bytes, prefix: int = -1) -> _Place | None:
        """Place of the piece of a digest and a mark. ``prefix``: of the key, where it is known."""
        if prefix < 0:
            prefix = _prefix(key)
        prefixes = self._prefixes
        number, end = bisect_left(prefixes, prefix), len(prefixes)
        while number < end and prefixes[number] == prefix:
            start = number * _RECORD.size
            if self.index.startswith(key, start):
                _, _, offset, length = _RECORD.unpack_from(self.index, start)
                return _Place(self, offset, length)
            number += 1
        return None

    def places(self) -> Iterator[tuple[ObjectKind, str, _Place]]:
        """All pieces, by digest."""
        for digest, mark, offset, length in _RECORD.iter_unpack(self.index):
            yield _KINDS[mark], digest.hex(), _Place(self, offset, length)


class _OpenFile:
    """An open file, closed when the last one who reads it lets go of it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from there on; fewer where the file ends. Raises OSError."""
        parts = []
        while length > 0 and (part := _pread(self.descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __del__(self) -> None:
        os.close(self.descriptor)


if hasattr(os, "pread"):
    _pread = os.pread
else:  # pragma: no cover - Windows
    _seeking = Lock()

    def _pread(descriptor: int, length: int, offset: int) -> bytes:
        with _seeking:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)


class _OpenFiles:
    """The packs that were read last, of all stores of this process. Thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, _OpenFile] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str, open_file: Callable[[], int | None]) -> _OpenFile | None:
        """The file of a path; ``open_file`` opens it. None where it is not there."""
        with self._lock:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
                return found
        descriptor = open_file()
        if descriptor is None:
            return None
        opened = _OpenFile(descriptor)
        with self._lock:
            self._files[path] = opened
            while len(self._files) > _MAX_OPEN:
                self._files.popitem(last=False)
        return opened

    def forget(self, path: str) -> None:
        """Open it anew the next time."""
        with self._lock:
            self._files.pop(path, None)


_open_files = _OpenFiles()


class Packs:
    """The packs of one store. Thread-safe; other processes may write and remove packs meanwhile.

    Methods raise StoreLinkError and FileSystemError.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folders = folders
        self._known: tuple[_Pack, ...] = ()
        self._folder_mtime_ns = -1
        self._listed_at = -1.0
        self._lock = Lock()

    def write(self, pieces: Sequence[Piece], *, force: bool) -> list[str]:
        """Write packs with these pieces, each once. The names of their files in ``packs/``.

        The digests are computed by the caller. A reader sees a whole pack or none of it. ``force``:
        they are on the disk when this returns.
        """
        return [self._write(group, force=force) for group in _groups(pieces)]

    def look(self) -> None:
        """Learn of packs that others have written or removed, for calls without ``look``."""
        self._look()

    def size(self, space: ObjectKind, digest: str, *, look: bool = True) -> int | None:
        """Size of a piece in bytes; None where no pack has it.

        Without ``look`` only of packs that are known already: others may have written some since.
        """
        key = _key(space, digest)
        for _ in range(2):  # a pack may have been written anew since it was found
            place = self._find(key, look=look)
            if place is None or self._is_there(place.pack):
                return place.length if place else None
            look = True
        return None

    def sizes(self, space: ObjectKind, digests: Iterable[str]) -> dict[str, int]:
        """Size of each in bytes, of those that are in packs."""
        packs = self._current_packs()
        if [pack for pack in packs if not self._is_there(pack)]:
            packs = self._current_packs()
        mark, found = _MARKS[space], {}
        for digest in digests if packs else ():
            key = bytes.fromhex(digest) + mark
            prefix = _prefix(key)
            for pack in packs:
                place = pack.find(key, prefix)
                if place is not None:
                    found[digest] = place.length
                    break
        return found

    def read(self, space: ObjectKind, digest: str, *, look: bool = True) -> bytes | None:
        """The bytes of a piece as they are in the file, not hashed. ``look``: as of `size`."""
        key = _key(space, digest)
        for _ in range(2):
            place = self._find(key, look=look)
            if place is None:
                return None
            file = self._open_pack(place.pack.name)
            if file is not None:
                return self._read(file, place)
            self._drop(place.pack)
            look = True
        return None

    def touch(self, space: ObjectKind, digest: str, *, look: bool = True) -> bool:
        """Make a piece as young as one written now, with all of its pack; False if absent.

        A pack that was young just before still is: no sweep takes what is younger than a minute.
        """
        key = _key(space, digest)
        for _ in range(2):
            place = self._find(key, look=look)
            if place is None:
                return False
            pack = place.pack
            if monotonic() < pack.young_until:
                return True
            now = monotonic()
            if self._folders.touch(PACKS, pack.name):
                pack.young_until = now + JUST_NOW_S
                return True
            self._drop(pack)
            look = True
        return False

    def stored(self, space: ObjectKind) -> Iterator[PackedPiece]:
        """All pieces of a kind. One that is in two packs comes twice."""
        for pack in self._current_packs():
            status = self._folders.status(PACKS, pack.name)
            if status is None:
                continue
            for kind, digest, place in pack.places():
                if kind is space:
                    yield PackedPiece(digest, place.length, status.st_mtime)

    def file_of(self, space: ObjectKind, digest: str) -> tuple[tuple[str, ...], str] | None:
        """The folder and the name of the pack that has a piece."""
        place = self._find(_key(space, digest), look=True)
        return (PACKS, place.pack.name) if place else None

    def remove_older(
        self, space: ObjectKind, digests: Collection[str], before_s: float
    ) -> set[str]:
        """Remove pieces from packs that were not written or touched since a time; which those are.

        What else is in such a pack is written to a new one first, as old as it was. A touch at the
        same time either keeps the pack or finds nothing.
        """
        wanted = {bytes.fromhex(digest) + _MARKS[space] for digest in digests}
        removed: set[str] = set()
        for pack in self._current_packs() if wanted else ():
            gone = wanted.intersection(_keys(pack))
            if gone and self._replace(pack, before_s, gone):
                removed.update(key[:-1].hex() for key in gone)
        return removed

    def set_aside(self, space: ObjectKind, digest: str) -> bool:
        """Remove a damaged piece; its pack is kept below ``damaged/``.

        What is sound in the pack is written to a new one first. False where the piece is sound,
        or in no pack.
        """
        key, was_there = _key(space, digest), False
        for pack in self._current_packs():
            place = pack.find(key)
            if place is None or self._is_sound(digest, place):
                continue
            self._renew(pack)
            was_there = True
        return was_there

    def tidy(self, before_s: float) -> None:
        """Write packs anew that have a damaged index, and many small ones as one.

        Only those that were not written or touched since a time (of the epoch).
        """
        for pack in self._current_packs():
            status = self._folders.status(PACKS, pack.name)
            if not pack.is_sound and status is not None and status.st_mtime < before_s:
                self._renew(pack)
        self._merge_small(before_s)

    def _write(
        self, pieces: Sequence[Piece], *, force: bool, modified_s: float | None = None
    ) -> str:
        index, parts, position = [], [_START], len(_START)
        for space, digest, data in pieces:
            mark = _MARKS[space]
            start = position + _FRAME.size
            index.append(_RECORD.pack(bytes.fromhex(digest), mark, start, len(data)))
            parts += (_FRAME.pack(mark, len(data)), data)
            position = start + len(data)
        joined = b"".join(sorted(index))
        name = sha256_hex(joined) + _SUFFIX
        parts += (joined, _TAIL.pack(len(index), _END))
        now = monotonic()
        self._folders.put(PACKS, name, b"".join(parts), force=force)
        _open_files.forget(self._folders.path(PACKS, name))  # one with a damaged index, maybe
        if modified_s is not None:
            self._age(name, modified_s)
        if force:
            self._folders.force(PACKS)
            self._folders.force(())
        pack = _Pack(name, joined, is_sound=True)
        if modified_s is None:
            pack.young_until = now + JUST_NOW_S
        with self._lock:
            others = tuple(one for one in self._known if one.name != name)
            self._known = (pack, *others)
        return name

    def _age(self, name: str, modified_s: float) -> None:
        path = self._folders.path(PACKS, name)
        try:
            os.utime(path, (modified_s, modified_s))
        except OSError as error:
            raise file_system_error(path, error) from error

    def _replace(self, pack: _Pack, before_s: float, gone: Collection[bytes]) -> bool:
        """Remove pieces, by their keys, and so a pack that is older than a time; whether it was.

        (1) What is kept is on the disk in a new pack, as old as it was. (2) The old one is removed,
        unless a process touches it; then the new one goes.
        """
        status = self._folders.status(PACKS, pack.name)
        if status is None or status.st_mtime >= before_s:
            return False
        pieces = [
            (space, digest, place)
            for space, digest, place in pack.places()
            if _key(space, digest) not in gone
        ]
        new = ""
        if pieces:  # (1)
            file = self._open_pack(pack.name)
            if file is None:
                return False
            kept = [(space, digest, self._read(file, place)) for space, digest, place in pieces]
            new = self._write(kept, force=True, modified_s=status.st_mtime)
        if self._folders.remove_older(PACKS, pack.name, before_s):  # (2)
            self._drop(pack)
            return True
        if new:
            self._remove(new)
        return False

    def _renew(self, pack: _Pack) -> None:
        """Write what is sound in a pack to a new one, and move the old one below ``damaged/``."""
        status, file = self._folders.status(PACKS, pack.name), self._open_pack(pack.name)
        if status is None or file is None:
            self._drop(pack)
            return
        sound = [
            (space, digest, data)
            for space, digest, place in pack.places()
            if sha256_hex(data := self._read(file, place)) == digest
        ]
        if sound:
            name = self._write(sound, force=True, modified_s=status.st_mtime)
            if name == pack.name:  # what was damaged is written over: nothing is left to keep
                return
        _log.warning("pack %s: %s of %s pieces are sound", pack.name, len(sound), len(pack))
        self._folders.move(PACKS, pack.name, _DAMAGED, f"{pack.name}.{os.urandom(4).hex()}")
        self._drop(pack)

    def _merge_small(self, before_s: float) -> None:
        """Many small packs as few larger ones: all of them are asked for what is in none."""
        small = []
        for pack in self._current_packs():
            status = self._folders.status(PACKS, pack.name)
            if status and status.st_size < _SMALL_PACK_BYTES and status.st_mtime < before_s:
                small.append((status.st_mtime, status.st_size, pack))
        if len(small) < _MANY_SMALL:
            return
        group: list[tuple[float, _Pack]] = []
        size = 0
        for modified_s, pack_size, pack in small:
            if size + pack_size > PACK_BYTES:
                self._merge(group, before_s)
                group, size = [], 0
            group.append((modified_s, pack))
            size += pack_size
        self._merge(group, before_s)

    def _merge(self, packs: Sequence[tuple[float, _Pack]], before_s: float) -> None:
        """Write packs as one, as old as the newest of them, and remove those."""
        pieces: list[Piece] = []
        for _, pack in packs:
            file = self._open_pack(pack.name)
            if file is not None:
                pieces += (
                    (space, digest, self._read(file, place))
                    for space, digest, place in pack.places()
                )
        newest_s = max(modified_s for modified_s, _ in packs)
        written = {self._write(one, force=True, modified_s=newest_s) for one in _groups(pieces)}
        for _, pack in packs:
            if pack.name in written:
                continue
            if self._folders.remove_older(PACKS, pack.name, before_s):
                self._drop(pack)

    def _remove(self, name: str) -> None:
        self._folders.remove(PACKS, name)
        with self._lock:
            self._known = tuple(one for one in self._known if one.name != name)

    def _find(self, key: bytes, *, look: bool) -> _Place | None:
        prefix = _prefix(key)
        for pack in self._known:
            place = pack.find(key, prefix)
            if place is not None:
                return place
        if not look or not self._look():
            return None
        return next((place for pack in self._known if (place := pack.find(key))), None)

    def _is_there(self, pack: _Pack) -> bool:
        if self._folders.status(PACKS, pack.name) is not None:
            return True
        self._drop(pack)
        return False

    def _current_packs(self) -> tuple[_Pack, ...]:
        self._look()
        return self._known

    def _look(self) -> bool:
        """Learn of packs that others have written or removed; whether there may be any such."""
        now = monotonic()
        if now - self._listed_at < _LISTED_S:
            return False
        if not self._folders.require_plain(PACKS, make=False):
            return False
        try:
            mtime_ns = os.stat(self._folders.path(PACKS, "")).st_mtime_ns  # noqa: PTH116 - hot
        except FileNotFoundError:
            mtime_ns = -1
        except OSError as error:
            raise file_system_error(self._folders.path(PACKS, ""), error) from error
        if mtime_ns == self._folder_mtime_ns:
            return False
        with self._lock:
            self._list(mtime_ns)
            self._listed_at = now
        return True

    def _list(self, mtime_ns: int) -> None:
        is_racy = abs(time() - mtime_ns / 1e9) < _TICK_S
        found = [
            entry.name
            for entry in self._folders.entries(PACKS)
            if entry.name.endswith(_SUFFIX) and is_digest(entry.name.removesuffix(_SUFFIX))
        ]
        known = {pack.name: pack for pack in self._known}
        packs = (known[name] if name in known else self._load(name) for name in found)
        self._known = tuple(pack for pack in packs if pack is not None)
        self._folder_mtime_ns = -1 if is_racy else mtime_ns

    def _load(self, name: str) -> _Pack | None:
        """The index of a pack that is there; made of its pieces where it is damaged."""
        file = self._open_pack(name)
        if file is None:
            return None
        try:
            size = os.fstat(file.descriptor).st_size
            index = _read_index(file, size)
            if sha256_hex(index) + _SUFFIX == name and _is_index_of(index, size):
                return _Pack(name, index, is_sound=True)
            _log.warning("pack %s has no sound index, and is read piece by piece", name)
            return _Pack(name, _index_of_pieces(file, size), is_sound=False)
        except OSError as error:
            raise file_system_error(self._folders.path(PACKS, name), error) from error

    def _open_pack(self, name: str) -> _OpenFile | None:
        path = self._folders.path(PACKS, name)
        return _open_files.get(path, lambda: self._folders.open_file(PACKS, name))

    def _read(self, file: _OpenFile, place: _Place) -> bytes:
        try:
            return file.read(place.offset, min(place.length, PACK_BYTES))
        except OSError as error:
            raise file_system_error(self._folders.path(PACKS, place.pack.name), error) from error

    def _is_sound(self, digest: str, place: _Place) -> bool:
        with suppress(LilluxError):
            file = self._open_pack(place.pack.name)
            return file is not None and sha256_hex(self._read(file, place)) == digest
        return False

    def _drop(self, pack: _Pack) -> None:
        """Forget a pack that is no longer there."""
        _open_files.forget(self._folders.path(PACKS, pack.name))
        with self._lock:
            self._known = tuple(one for one in self._known if one is not pack)
            self._folder_mtime_ns, self._listed_at = -1, -1.0


def _key(space: ObjectKind, digest: str) -> bytes:
    return bytes.fromhex(digest) + _MARKS[space]


def _prefix(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


def _keys(pack: _Pack) -> Iterator[bytes]:
    index = pack.index
    return (index[at : at + _KEY_BYTES] for at in range(0, len(index), _RECORD.size))


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces, each once, in packs of a good size."""
    group: list[Piece] = []
    size, known = 0, set[tuple[ObjectKind, str]]()
    for piece in pieces:
        space, digest, data = piece
        if (space, digest) in known:
            continue
        if group and size + len(data) > PACK_BYTES:
            yield group
            group, size = [], 0
        known.add((space, digest))
        group.append(piece)
        size += len(data)
    if group:
        yield group


def _read_index(file: _OpenFile, size: int) -> bytes:
    """Bytes in the place of the index of a pack, ``b""`` for none. Raises OSError."""
    tail_at = size - _TAIL.size
    tail = file.read(tail_at, _TAIL.size) if tail_at >= len(_START) else b""
    if len(tail) < _TAIL.size:
        return b""
    count, end = _TAIL.unpack(tail)
    index_at = tail_at - count * _RECORD.size
    if end != _END or index_at < len(_START):
        return b""
    return file.read(index_at, tail_at - index_at)


def _is_index_of(index: bytes, size: int) -> bool:
    """True if it says of a file of this size what a pack can hold."""
    pieces_end = size - _TAIL.size - len(index)
    return all(
        mark in _KINDS and offset + length <= pieces_end
        for _, mark, offset, length in _RECORD.iter_unpack(index)
    )


def _index_of_pieces(file: _OpenFile, size: int) -> bytes:
    """An index of the pieces from the beginning of a pack on, as far as they are whole."""
    index, position = {}, len(_START)
    while position + _FRAME.size <= size:
        mark, length = _FRAME.unpack(file.read(position, _FRAME.size))
        start = position + _FRAME.size
        if mark not in _KINDS or length > PACK_BYTES or start + length > size:
            break
        digest = bytes.fromhex(sha256_hex(file.read(start, length)))
        index[digest + mark] = _RECORD.pack(digest, mark, start, length)
        position = start + length
    return b"".join(index[key] for key in sorted(index))
