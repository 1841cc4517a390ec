"""Every item of the spaces as a search sees it: in memory, and in a file of the user's cache.

(1) the first look reads the file that an earlier process kept, if there is one that fits
(2) a folder is listed again, and a file is read again, when what ``stat`` tells of it is another;
    what changed within the same tick of the clock as it was read could not be seen that way, so
    that is read again as well. A process that searches again has the system report changes
(3) what is new is kept for the next process, where that takes less than reading it again

The file contains where words occur and what headers say. It contains no result of a verification:
an item is read and verified when it is shown. The file has a digest, and a key: Rye's version and
the folders of the spaces. A file that is damaged, that another user can write, or that has another
key is not used, and is written again.
"""

import json
import os
import stat
import sys
import time
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import write_atomic
from lillux.folder_watch import FolderWatch, watch_folders
from lillux.store_layout import is_digest
from lillux.values import dataclass
from ryeos import __version__
from ryeos.items.refs import ItemRef, Kind, Location, Spaces
from ryeos.search.catalog_files import (
    MARK_TYPES,
    NEVER,
    TICK_NS,
    CatalogFiles,
    Shelf,
    is_racy,
    mark_of,
    modified_ns,
)
from ryeos.search.index import Index, PackedIndex
from ryeos.search.pools import Pool, texts_of
from ryeos.search.records import Record, read_item
from ryeos.trust.resolver import item_folders
from ryeos.trust.sign_targets import SKIPPED_FILES
from ryeos.trust.verify import Verifier

PLACE = "search"
"""The folder of the user's cache that catalogs are kept in."""

# How long files are not looked at while the system reports no change.
_TRUSTED_S = 60.0
_MAX_KEPT_POOLS = 8
_DEAD_PER_LIVING = 0.25
_FEW_DEAD = 256
# Documents that are read again in the time in which a catalog is kept.
_WORTH_KEEPING = 64
_DIGEST_CHARACTERS = 16

_NOT_RUN = ('"tool_type": "library"', '"tool_type": "config"')
"""In headers of modules that tools import, and of forms of settings: they are not searched for."""


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The catalog as of now: the candidates, and the items that could not be read."""

    pool: Pool
    skipped: tuple[Location, ...]


class Catalog:
    """The items of some spaces as a search sees them. Safe from several threads.

    ``place`` is a folder that only this user writes to, or None to keep nothing.
    """

    def __init__(
        self,
        spaces: Spaces,
        verifier: Verifier,
        place: Path | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._verifier, self._clock_ns = verifier, clock_ns
        self._shelves = [
            Shelf(space, kind, f"{space.directory(kind)}{os.sep}")
            for kind in Kind
            for space in spaces
        ]
        self._key = _key(spaces)
        name = sha256_hex(json.dumps(self._key).encode("utf-8", "backslashreplace"))
        self._path = place / name if place else None
        self._lock = RLock()
        self._files, self._index = CatalogFiles(self._shelves, verifier), Index()
        self._unreadable: set[int] = set()
        # Links: their targets may change without a change of the folder that they are in.
        self._links: set[int] = set()
        self._is_loaded, self._unkept = False, 0
        self._pools: dict[tuple[object, ...], Pool] = {}
        # Of the watch: its folders, since when, and the shelves that were looked at since then.
        self._watch: FolderWatch | None = None
        self._watched: set[str] = set()
        self._watched_s, self._seen, self._looked = 0.0, set[int](), False

    def __del__(self) -> None:
        """Release the watch."""
        if self._watch:
            self._watch.close()

    def snapshot(
        self, kinds: Sequence[Kind], tiers: frozenset[str], prefix: str = ""
    ) -> CatalogSnapshot:
        """The items of the kinds in these tiers whose id is the prefix or lies below it."""
        with self._lock:
            if not self._is_loaded:
                self._is_loaded = True
                self._load()  # (1)
            places = [n for n, shelf in enumerate(self._shelves) if shelf.kind in kinds]
            self._refresh(places)  # (2)
            self._keep()  # (3)
            key = (*kinds, tiers, prefix)
            selected = [n for n in places if self._shelves[n].space.tier in tiers]
            if key not in self._pools:
                while len(self._pools) >= _MAX_KEPT_POOLS:
                    del self._pools[next(iter(self._pools))]
                numbers = {kind: self._readable(selected, kind, prefix) for kind in kinds}
                self._pools[key] = Pool(self._files.documents, numbers, self._index)
            skipped = tuple(
                self._files.location(number)
                for number in sorted(self._unreadable)
                if self._files.shelves[number] in selected
                and _is_in(self._files.ids[number], prefix)
            )
            return CatalogSnapshot(self._pools[key], skipped)

    def refs(self, kinds: Sequence[Kind]) -> Iterator[tuple[str, str]]:
        """The reference and the id of each item of the kinds, as it was last looked at."""
        with self._lock:
            known = [
                (shelf.kind.value, tuple(shelf.numbers))
                for shelf in self._shelves
                if shelf.kind in kinds
            ]
        return ((f"{kind}:{item_id}", item_id) for kind, ids in known for item_id in ids)

    def states(self, kinds: Sequence[Kind], tiers: frozenset[str]) -> frozenset[tuple[str, str]]:
        """A digest that differs when one of these items comes, goes, or says something else."""
        self.snapshot(kinds, tiers)
        with self._lock:
            return frozenset(
                (self._files.paths[number], self._files.digests[number])
                for shelf in self._shelves
                if shelf.kind in kinds and shelf.space.tier in tiers
                for number in shelf.numbers.values()
            )

    def _readable(self, places: Iterable[int], kind: Kind, prefix: str) -> list[int]:
        return [
            number
            for shelf in (self._shelves[place] for place in places)
            if shelf.kind is kind
            for item_id, number in shelf.numbers.items()
            if number not in self._unreadable and _is_in(item_id, prefix)
            if not any(one in self._files.headers[number] for one in _NOT_RUN)
        ]

    def _refresh(self, places: Sequence[int]) -> None:
        """Bring the files of some shelves up to date."""
        changed, is_quiet = False, self._is_quiet(places)
        for place in places:
            shelf = self._shelves[place]
            new, is_less = self._list_shelf(shelf)
            changed |= is_less
            stale = self._stale(shelf, only_links=is_quiet)
            for item_id, suffix in new:
                changed |= self._read(place, item_id, suffix)
            for number in stale:
                files = self._files
                changed |= self._read(place, files.ids[number], files.suffixes[number])
        if changed:
            self._pools.clear()
            self._bury()

    def _list_shelf(self, shelf: Shelf) -> tuple[list[tuple[str, str]], bool]:
        """Walk the folders of a shelf if one of them was changed.

        What is there and was not, and whether something is there no more.
        """
        folder = shelf.root.removesuffix(os.sep)
        marks = {path: mark_of(path) for path in shelf.folders or (folder,)}
        limit = shelf.listed_ns - TICK_NS
        types = _digest_of_types(shelf)
        is_as_it_was = marks == shelf.folders and types == shelf.types
        if is_as_it_was and all(mark[0] < limit for mark in marks.values() if mark):
            return [], False
        if types != shelf.types:
            self._forget_added(shelf)
        shelf.listed_ns, shelf.types = self._clock_ns(), types
        shelf.folders = {folder: mark_of(folder)}
        found: list[tuple[str, str]] = []
        for path, items in item_folders(shelf.space, shelf.kind):
            shelf.folders.setdefault(path, mark_of(path))
            found += items
        winners = _winners(shelf.kind, found)
        known = {item_id: self._files.suffixes[n] for item_id, n in shelf.numbers.items()}
        gone = [item_id for item_id, suffix in known.items() if winners.get(item_id) != suffix]
        for item_id in gone:
            self._unreadable.discard(shelf.numbers.pop(item_id))
        return [one for one in winners.items() if known.get(one[0]) != one[1]], bool(gone)

    def _forget_added(self, shelf: Shelf) -> None:
        """Know nothing of the files of added types, which may say something else now."""
        for item_id, number in list(shelf.numbers.items()):
            if self._files.suffixes[number].lower() not in shelf.kind.suffixes:
                self._unreadable.discard(shelf.numbers.pop(item_id))

    def _is_quiet(self, places: Iterable[int]) -> bool:
        """True if the system would have reported a change since these shelves were looked at.

        It is asked to from the second look on: a command that searches once has no use for it.
        """
        folders = {path for shelf in self._shelves for path, mark in shelf.folders.items() if mark}
        watch, now = self._watch, time.monotonic()
        is_watched = watch and folders == self._watched and now - self._watched_s < _TRUSTED_S
        if not watch or not is_watched or watch.wait(0) or not watch.is_valid:
            if watch:
                watch.close()
            self._watch = watch_folders(folders) if self._looked else None
            self._watched, self._watched_s, self._seen = folders, now, set()
        is_quiet = self._watch is not None and self._seen.issuperset(places)
        self._seen.update(places)
        self._looked = True
        return is_quiet

    def _stale(self, shelf: Shelf, *, only_links: bool) -> list[int]:
        """The files that may hold something else than when they were read.

        Ten thousand times for a search: one loop, and no call but that to the system.
        """
        stale, status_of = [], os.stat
        paths = self._files.paths
        modified, changed, sizes, inodes = self._files.marks
        links = self._links.intersection(shelf.numbers.values()) if only_links else ()
        for number in links if only_links else shelf.numbers.values():
            try:
                found = status_of(paths[number])
            except (OSError, ValueError):
                stale.append(number)
                continue
            if (
                found.st_mtime_ns != modified[number]
                or found.st_ctime_ns != changed[number]
                or found.st_size != sizes[number]
                or found.st_ino != inodes[number]
            ):
                stale.append(number)
        return stale

    def _read(self, place: int, item_id: str, suffix: str) -> bool:
        """Read a file; whether it says something else than before."""
        shelf, files = self._shelves[place], self._files
        path = f"{shelf.root}{item_id}{suffix}"
        mark, read_ns = mark_of(path), self._clock_ns()
        location = Location(ref=ItemRef(shelf.kind, item_id), space=shelf.space, path=Path(path))
        try:
            text, header = read_item(location)
            said = json.dumps(header, default=str)
            digest = sha256_hex(f"{said}\n{text}".encode("utf-8", "surrogatepass"))
        except (OSError, LilluxError, ValueError, TypeError, RecursionError):
            text, header, said, digest = "", {}, "", ""
        digest = digest[:_DIGEST_CHARACTERS]
        self._unkept += 1
        number = shelf.numbers.get(item_id)
        is_known = number is not None and files.digests[number] == digest
        if number is None or not is_known:
            self._unreadable.discard(-1 if number is None else number)
            number = shelf.numbers[item_id] = files.add(place, item_id, suffix, (said, digest))
            if said:
                record = Record(location=location, header=header, read=lambda: text)
                self._index.add(number, enumerate(texts_of(record)))
            else:
                self._unreadable.add(number)
        if os.path.islink(path):  # noqa: PTH114 - a text
            self._links.add(number)
        files.set_mark(number, mark if mark and not is_racy(mark, read_ns) else NEVER)
        return not is_known

    def _bury(self) -> None:
        """Pack the index when too much of it is about files as they were."""
        living = sum(len(shelf.numbers) for shelf in self._shelves)
        if len(self._files.ids) - living > max(_FEW_DEAD, living * _DEAD_PER_LIVING):
            self._pack()

    def _pack(self) -> None:
        """Leave out the rows of files as they were, and number the others anew."""
        old, index = self._files, self._index
        living = sorted(n for shelf in self._shelves for n in shelf.numbers.values())
        links = {new for new, number in enumerate(living) if number in self._links}
        files = CatalogFiles(self._shelves, self._verifier)
        for number in living:
            row = old.headers[number], old.digests[number]
            new = files.add(old.shelves[number], old.ids[number], old.suffixes[number], row)
            files.set_mark(new, tuple(column[number] for column in old.marks))
        self._put(files, Index(packed=index.packed(living)), links)

    def _put(self, files: CatalogFiles, index: Index, links: Iterable[int] = ()) -> None:
        """Take over these rows, all of them living."""
        for shelf in self._shelves:
            shelf.numbers = {}
        for number, place in enumerate(files.shelves):
            self._shelves[place].numbers[files.ids[number]] = number
        self._files, self._index, self._links = files, index, set(links)
        self._unreadable = {number for number, header in enumerate(files.headers) if not header}
        self._pools.clear()

    # --- the file ---------------------------------------------------------------------------------
    # A line with the digest of the rest, a line of JSON, and then the columns, one after the other.

    def _keep(self) -> None:
        """Write what is known, if that saves time. Nothing is lost where it cannot be written."""
        if self._path is None or self._unkept < _WORTH_KEEPING:
            return
        self._unkept = 0
        living = sum(len(shelf.numbers) for shelf in self._shelves)
        if len(self._files.ids) > living:
            self._pack()
        with suppress(OSError, LilluxError):
            write_atomic(self._path, self._as_file(), mode=0o600)
            _remove_oldest(self._path.parent)

    def _as_file(self) -> bytes:
        files, index = self._files, self._index.packed(range(len(self._files.ids)))
        columns = {
            "shelves": files.shelves.tobytes(),
            "names": "\0".join(map(str.__add__, files.ids, files.suffixes)).encode(*_NAMES),
            "headers": "\n".join(files.headers).encode(),
            "digests": "\n".join(files.digests).encode(),
            "words": index.words.encode(),
            "starts": index.starts.tobytes(),
            "postings": index.postings.tobytes(),
        }
        columns |= {f"mark{n}": column.tobytes() for n, column in enumerate(files.marks)}
        columns |= {f"length{n}": column.tobytes() for n, column in enumerate(index.lengths)}
        said = {
            "key": self._key,
            "shelves": [[one.listed_ns, one.types, one.folders] for one in self._shelves],
            "links": sorted(self._links),
            "columns": {name: len(data) for name, data in columns.items()},
        }
        body = b"".join((json.dumps(said).encode(), b"\n", *columns.values()))
        return f"{sha256_hex(body)}\n".encode() + body

    def _load(self) -> None:
        """Take over what an earlier process kept; nothing where that does not fit."""
        try:
            data = _own_file(self._path) if self._path else b""
            body = data[_DIGEST_LINE:]
            if body and data[:_DIGEST_LINE] == f"{sha256_hex(body)}\n".encode():
                self._from_file(body)
        except _UNFIT:
            self._put(CatalogFiles(self._shelves, self._verifier), Index())
            for shelf in self._shelves:
                shelf.folders, shelf.listed_ns = {}, 0

    def _from_file(self, body: bytes) -> None:
        start = body.index(b"\n") + 1
        said = json.loads(body[:start])
        if said["key"] != self._key:
            return
        columns = {}
        for name, size in said["columns"].items():
            columns[name] = body[start : start + size]
            start += size
        files = CatalogFiles(self._shelves, self._verifier)
        files.shelves = _array("H", columns["shelves"])
        count = len(files.shelves)
        names = columns["names"].decode(*_NAMES)
        if any(way_out in f"\0{names}\0" for way_out in _WAYS_OUT):
            raise ValueError(names)
        roots = [shelf.root for shelf in self._shelves]
        for place, name in zip(files.shelves, _lines(names, "\0", count), strict=True):
            item_id, dot, suffix = name.rpartition(".")
            files.ids.append(item_id)
            files.suffixes.append(dot + suffix)
            files.paths.append(roots[place] + name)
        files.headers = _lines(columns["headers"].decode(), "\n", count)
        files.digests = _lines(columns["digests"].decode(), "\n", count)
        files.marks = tuple(
            _array(code, columns[f"mark{n}"], count) for n, code in enumerate(MARK_TYPES)
        )
        packed = PackedIndex(
            columns["words"].decode(),
            _array("I", columns["starts"]),
            _array("I", columns["postings"]),
            tuple(_array("I", columns[f"length{n}"], count) for n, _ in enumerate(Index().lengths)),
        )
        if len(packed.starts) != len(packed.words.splitlines()) + 1:
            raise ValueError(len(packed.starts))
        for shelf, (listed_ns, types, folders) in zip(self._shelves, said["shelves"], strict=True):
            shelf.listed_ns, shelf.types = int(listed_ns), str(types)
            shelf.folders = {path: tuple(mark) for path, mark in folders.items()}
        self._put(files, Index(packed=packed), said["links"])


def _digest_of_types(shelf: Shelf) -> str:
    types = shelf.space.added() if shelf.kind is Kind.TOOL else {}
    return sha256_hex(repr(sorted(types.items())).encode()) if types else ""


def _winners(kind: Kind, found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of files with one id the suffix of the one that would be resolved."""
    winners: dict[str, str] = {}
    for item_id, suffix in found:
        known = winners.get(item_id)
        if known is None or _suffix_rank(kind, suffix) < _suffix_rank(kind, known):
            name = item_id.rpartition("/")[2] + suffix
            if name not in SKIPPED_FILES and not ItemRef(kind, item_id).is_test:
                winners[item_id] = suffix
    return winners


def _suffix_rank(kind: Kind, suffix: str) -> int:
    known = kind.suffixes
    return known.index(suffix.lower()) if suffix.lower() in known else len(known)


def _is_in(item_id: str, prefix: str) -> bool:
    return not prefix or item_id == prefix or item_id.startswith(f"{prefix}/")


_FORMAT = 1
_DIGEST_LINE = 65
_MAX_CATALOGS = 32
_MAX_CATALOG_BYTES = 1 << 30
_OTHERS_WRITE = 0o022
_NAMES = ("utf-8", "surrogatepass")
# Of a name that leads out of its folder.
_WAYS_OUT = ("\0/", "\0../", "/../", *(("\\",) if os.name == "nt" else ()))
# What reading a catalog raises that is not what was kept, however it came about.
_UNFIT = (
    OSError, LilluxError, ValueError, TypeError, LookupError, OverflowError, AttributeError,
    RecursionError,
)  # fmt: skip


def _key(spaces: Spaces) -> list[Any]:
    """Key of a catalog. The digest of this names its file."""
    folders = [[space.label, str(space.ai)] for space in spaces]
    return [_FORMAT, __version__, unicodedata.unidata_version, sys.byteorder, folders]


def _own_file(path: Path) -> bytes:
    """A regular file that this user alone writes; nothing where it is another's."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_CATALOG_BYTES
        if os.name != "nt":
            is_ours = status.st_uid == os.getuid() and not status.st_mode & _OTHERS_WRITE
            is_file = is_file and is_ours
        return file.read() if is_file else b""


def _array(code: str, data: bytes, count: int | None = None) -> "array[int]":
    """The numbers of a column. Raises ValueError where they are not so many."""
    column = array(code, data)
    if count is not None and len(column) != count:
        raise ValueError(count)
    return column


def _lines(text: str, end: str, count: int) -> list[str]:
    """The texts of a column. Raises ValueError where they are not so many."""
    lines = text.split(end) if count else []
    if len(lines) != count:
        raise ValueError(count)
    return lines


def _remove_oldest(folder: Path) -> None:
    """Leave no more than `_MAX_CATALOGS` in a folder of the cache, and whatever is no catalog."""
    ours = (entry.path for entry in os.scandir(folder) if is_digest(entry.name))
    for _, path in sorted((modified_ns(path), path) for path in ours)[:-_MAX_CATALOGS]:
        Path(path).unlink()
