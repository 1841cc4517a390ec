"""Files of a catalog: what is known of each, and the marks by which a change is seen."""

import json
import os
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.items.refs import ItemRef, Kind, Location, Space
from ryeos.search.pools import SearchDocument, document_of
from ryeos.search.records import Record, read_item
from ryeos.trust.verify import Verifier

# Longer than a tick of any clock that file systems take their times from; and of those that count
# seconds, or two at a time.
TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_100_000_000
_SECOND_NS = 1_000_000_000

# The marks of a file, by which a change is seen: modification, change of state, size, number.
Mark = tuple[int, ...]
NEVER: Mark = (-(2**63), 0, 0, 0)
MARK_TYPES = "qqqQ"


@dataclass(slots=True)
class Shelf:
    """The items of one kind in one space: its folders as they were listed, its files by id.

    ``types`` is a digest of the file types that the space has added.
    """

    space: Space
    kind: Kind
    root: str
    folders: dict[str, Mark] = field(default_factory=dict)
    listed_ns: int = 0
    types: str = ""
    numbers: dict[str, int] = field(default_factory=dict)


class CatalogFiles:
    """Facts about each file, a column each: a file's number is its place in all of them.

    A row is not changed but for its mark: a file that holds something else gets another number.
    ``headers`` are JSON, ``""`` of a file that cannot be read.
    """

    def __init__(self, shelves: Sequence[Shelf], verifier: Verifier) -> None:
        self._shelves, self._verifier = shelves, verifier
        self.shelves = array("H")
        self.ids: list[str] = []
        self.suffixes: list[str] = []
        self.headers: list[str] = []
        self.digests: list[str] = []
        self.marks = tuple(array(code) for code in MARK_TYPES)
        self.paths: list[str] = []
        self.documents: Mapping[int, SearchDocument] = _Documents(self)
        self._records: dict[int, Record] = {}

    def add(self, shelf: int, item_id: str, suffix: str, said: tuple[str, str]) -> int:
        """The number of a new row; ``said`` is a header and a digest."""
        self.shelves.append(shelf)
        self.ids.append(item_id)
        self.suffixes.append(suffix)
        self.headers.append(said[0])
        self.digests.append(said[1])
        for column, value in zip(self.marks, NEVER, strict=True):
            column.append(value)
        self.paths.append(f"{self._shelves[shelf].root}{item_id}{suffix}")
        return len(self.ids) - 1

    def set_mark(self, number: int, mark: Mark) -> None:
        """Remember what a file looked like when it was read."""
        for column, value in zip(self.marks, mark, strict=True):
            column[number] = value

    def location(self, number: int) -> Location:
        """Path of a row's file."""
        shelf = self._shelves[self.shelves[number]]
        ref = ItemRef(shelf.kind, self.ids[number])
        return Location(ref=ref, space=shelf.space, path=Path(self.paths[number]))

    def document(self, number: int) -> SearchDocument:
        """A row as it is searched for."""
        shelf = self._shelves[self.shelves[number]]
        return document_of(number, shelf.kind, self.ids[number], shelf.space.label, self)

    def record(self, number: int) -> Record:
        """Header of a row's file. See `ryeos.search.pools.Source`."""
        known = self._records.get(number)
        if known is None:
            location = self.location(number)
            known = self._records[number] = Record(
                location=location,
                header=_header(self.headers[number], location),
                read=lambda: search_text(location),
                verify=lambda: _is_signed(location, self._verifier),
                modified_ns=max(self.marks[0][number], 0) or modified_ns(self.paths[number]),
            )
        return known

    def holders(self, ref: ItemRef) -> tuple[str, ...]:
        """The spaces that have an item of this reference, the nearest first."""
        return tuple(
            shelf.space.label
            for shelf in self._shelves
            if shelf.kind is ref.kind and ref.id in shelf.numbers
        )


def _header(kept: str, location: Location) -> Mapping[str, Any]:
    """The header of a row: of its file where what was kept is damaged."""
    with suppress(ValueError, RecursionError):
        header = json.loads(kept or "{}")
        if isinstance(header, dict):
            return header
    try:
        return read_item(location)[1]
    except (OSError, LilluxError, ValueError, TypeError, RecursionError):
        return {}


class _Documents(dict[int, SearchDocument]):
    """The documents of rows, each made when it is first needed."""

    def __init__(self, files: CatalogFiles) -> None:
        super().__init__()
        self._files = files

    def __missing__(self, number: int) -> SearchDocument:
        """Make the document of a row."""
        made = self[number] = self._files.document(number)
        return made


def mark_of(path: str) -> Mark:
    """The marks of a file or a folder, by which a change is seen; nothing if absent."""
    try:
        found = os.stat(path)  # noqa: PTH116 - ten thousand times; a Path takes as long as the call
    except (OSError, ValueError):
        return ()
    mark = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
    # A file system may count further than a column: what cannot be kept is read each time.
    return mark if max(map(abs, mark[:3])) < 2**63 and mark[3] < 2**64 else NEVER


def is_racy(mark: Mark, read_ns: int) -> bool:
    """True if the file might change once more without looking changed."""
    is_coarse = not any(time_ns % _SECOND_NS for time_ns in mark[:2])
    return max(mark[:2]) > read_ns - (_COARSE_TICK_NS if is_coarse else TICK_NS)


def modified_ns(path: str) -> int:
    """The time of the last change of a file; 0 where there is none."""
    return next(iter(mark_of(path)), 0)


def search_text(location: Location) -> str:
    """The text of an item file, ``""`` of one that cannot be read."""
    try:
        return read_item(location)[0]
    except (OSError, LilluxError):  # removed, or broken, since it was looked at
        return ""


def _is_signed(location: Location, verifier: Verifier) -> bool:
    try:
        return verifier.verify_location(location).verified
    except LilluxError:
        return False
