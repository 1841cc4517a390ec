"""Every item of the spaces, kept in memory and looked at again for each search.

A file is read again when its change time, size or number on the disk is another. A change within
the same tick of the clock as the reading could not be seen that way, so a file that was just
changed is read again as well. Folders are listed again by the same rule. Nothing is kept on disk.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import RLock

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.file_types import FileType
from ryeos.items import ItemRef, Kind, Location, Space, Spaces
from ryeos.resolver import item_folders
from ryeos.search.index import Index
from ryeos.search.pool import Document, Pool, document_of, texts_of
from ryeos.search.records import Record, read_record
from ryeos.sign_targets import SKIPPED_FILES
from ryeos.signature import DETACHED_SUFFIXES, detached_path
from ryeos.verify import Verifier

# Longer than a tick of any clock that file systems take their times from.
_TICK_NS = 50_000_000
_MAX_KEPT_POOLS = 8
_DEAD_PER_LIVING = 0.25
_FEW_DEAD = 256

# What tells that a file was changed: time, size, number.
Mark = tuple[int, ...]


@dataclass(slots=True)
class _Shelf:
    """The items of one kind in one space: its folders as they were, and its files."""

    folders: dict[str, Mark] = field(default_factory=dict)
    listed_ns: int = 0
    types: Mapping[str, FileType] = field(default_factory=dict)
    winners: Mapping[ItemRef, Location] = field(default_factory=dict)


@dataclass(slots=True)
class _File:
    """An item's file as it was read; ``record`` is None where it could not be."""

    location: Location
    path: str
    beside: str
    mark: Mark = ()
    read_ns: int = 0
    record: Record | None = None
    number: int = -1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is right now: the candidates, and the items that could not be read."""

    pool: Pool
    skipped: tuple[Location, ...]


class Catalog:
    """The items of some spaces as a search sees them. Safe from several threads."""

    def __init__(
        self, spaces: Spaces, verifier: Verifier, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._spaces, self._verifier, self._clock_ns = spaces, verifier, clock_ns
        self._lock = RLock()
        self._shelves: dict[tuple[str, Kind], _Shelf] = {}
        self._files: dict[Kind, dict[str, _File]] = {}
        self._documents: dict[Kind, list[Document]] = {}
        self._index = Index()
        self._next_number = 0
        self._pools: dict[tuple[object, ...], Pool] = {}

    def snapshot(self, kinds: Sequence[Kind], tiers: frozenset[str], prefix: str = "") -> Snapshot:
        """The items of the kinds in these tiers whose id is the prefix or lies below it."""
        with self._lock:
            for kind in kinds:
                self._refresh(kind)
            self._bury()
            key = (*kinds, tiers, prefix)
            if key not in self._pools:
                while len(self._pools) >= _MAX_KEPT_POOLS:
                    del self._pools[next(iter(self._pools))]
                self._pools[key] = Pool(self._candidates(kinds, tiers, prefix), self._index)
            skipped = tuple(
                file.location
                for kind in kinds
                for file in self._files[kind].values()
                if file.record is None and _is_in(file.location, tiers, prefix)
            )
            return Snapshot(self._pools[key], skipped)

    def _candidates(
        self, kinds: Sequence[Kind], tiers: frozenset[str], prefix: str
    ) -> Iterator[Document]:
        for kind in kinds:
            for document in self._documents[kind]:
                if _is_in(document.record.location, tiers, prefix):
                    yield document

    # --- listing ----------------------------------------------------------------------------------

    def _refresh(self, kind: Kind) -> None:
        """Bring the files of a kind up to date."""
        listed = [self._list(space, kind) for space in self._spaces]
        is_relisted = any(listed) or kind not in self._files
        if is_relisted:
            self._files[kind] = self._listed_files(kind)
        changed = _stale(self._files[kind].values())
        for file in changed:
            self._read(file)
        if changed or is_relisted:
            self._documents[kind] = list(self._arranged(kind))
            self._pools.clear()

    def _list(self, space: Space, kind: Kind) -> bool:
        """Walk the folders of a shelf if one of them was changed; whether it was done."""
        shelf = self._shelves.setdefault((space.label, kind), _Shelf())
        marks = {folder: _mark(folder) for folder in shelf.folders or (str(space.directory(kind)),)}
        limit = shelf.listed_ns - _TICK_NS
        types = space.added() if kind is Kind.TOOL else {}
        is_as_it_was = marks == shelf.folders and types == shelf.types
        if is_as_it_was and all(mark[0] < limit for mark in marks.values() if mark):
            return False
        if types != shelf.types:
            self._forget_added(space)
        shelf.listed_ns, shelf.types = self._clock_ns(), types
        found: dict[str, list[Location]] = {str(space.directory(kind)): []}
        before = {folder: _mark(folder) for folder in found}
        for folder, items in item_folders(space, kind):
            before.setdefault(folder, _mark(folder))
            found[folder] = items
        shelf.folders = before
        shelf.winners = _winners(location for items in found.values() for location in items)
        return True

    def _forget_added(self, space: Space) -> None:
        """Have the files of added types read again, which may say something else now."""
        for file in self._files.get(Kind.TOOL, {}).values():
            if file.location.space == space and file.location.suffix not in Kind.TOOL.suffixes:
                file.mark = ()

    def _listed_files(self, kind: Kind) -> dict[str, _File]:
        known = self._files.get(kind, {})
        files: dict[str, _File] = {}
        for space in self._spaces:
            for location in self._shelves[space.label, kind].winners.values():
                path = str(location.path)
                files[path] = known.get(path) or _File(location, path, _beside(location))
        return files

    def _arranged(self, kind: Kind) -> Iterator[Document]:
        """The documents of a kind, each with the spaces that it hides or that hide it."""
        holders: dict[ItemRef, list[_File]] = {}
        for file in self._files[kind].values():
            holders.setdefault(file.location.ref, []).append(file)
        for files in holders.values():
            labels = tuple(file.location.space.label for file in files)
            for place, file in enumerate(files):
                if file.record:
                    hidden_by = labels[0] if place else ""
                    yield document_of(file.number, file.record, labels[place + 1 :], hidden_by)

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, file: _File) -> None:
        file.mark = _mark(file.path) + (_mark(file.beside) if file.beside else ())
        file.read_ns = self._clock_ns()
        modified_ns = file.mark[0] if file.mark else 0
        try:
            record = read_record(file.location, self._verifier, modified_ns)
        except (OSError, LilluxError):
            file.record, file.number = None, -1
            return
        if file.record != record:
            file.record, file.number = record, self._next_number
            self._next_number += 1
            self._index.add(file.number, enumerate(texts_of(record)))

    def _bury(self) -> None:
        """Make the index anew when too much of it is about files as they were."""
        living = [f for files in self._files.values() for f in files.values() if f.record]
        dead = len(self._index.lengths) - len(living)
        if dead <= max(_FEW_DEAD, len(living) * _DEAD_PER_LIVING):
            return
        self._index = Index()
        for file in living:
            if file.record:
                self._index.add(file.number, enumerate(texts_of(file.record)))
        self._pools.clear()


def _stale(files: Iterable[_File]) -> list[_File]:
    """Those that may hold something else than when they were read.

    Ten thousand times for a search: one loop, and no call but that to the system.
    """
    stale, stat = [], os.stat
    for file in files:
        mark = file.mark
        try:
            found = stat(file.path)
        except (OSError, ValueError):
            stale.append(file)
            continue
        if (
            not mark
            or found.st_mtime_ns != mark[0]
            or found.st_size != mark[1]
            or found.st_ino != mark[2]
            or mark[0] > file.read_ns - _TICK_NS
            or (file.beside and _mark(file.beside) != mark[3:])
        ):
            stale.append(file)
    return stale


def _mark(path: str) -> Mark:
    try:
        found = os.stat(path)  # noqa: PTH116 - ten thousand times; a Path takes as long as the call
    except (OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _is_in(location: Location, tiers: frozenset[str], prefix: str) -> bool:
    item_id = location.ref.id
    below = not prefix or item_id == prefix or item_id.startswith(f"{prefix}/")
    return below and location.space.tier in tiers


def _beside(location: Location) -> str:
    """Where the signature of a file without comments would be, ``""`` for any other file."""
    return str(detached_path(location.path)) if location.suffix in DETACHED_SUFFIXES else ""


def _winners(found: Iterable[Location]) -> dict[ItemRef, Location]:
    """Of files with one id the one that would be resolved."""
    winners: dict[ItemRef, Location] = {}
    for location in found:
        known = winners.get(location.ref)
        wins = known is None or _suffix_rank(location) < _suffix_rank(known)
        is_shown = location.path.name not in SKIPPED_FILES and not location.ref.is_test
        if wins and is_shown:
            winners[location.ref] = location
    return winners


def _suffix_rank(location: Location) -> int:
    known = location.ref.kind.suffixes
    return known.index(location.suffix) if location.suffix in known else len(known)
