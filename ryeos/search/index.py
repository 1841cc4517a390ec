"""The inverted index of the items of a context, kept while their files stay the same.

A posting is one number: the document's, the field's (3 bits), the count (4 bits, at most
`MAX_OCCURRENCES`). Documents are numbers that are never used twice, so that a changed file is a new
document and its old postings are dead until the index is made anew.
"""

import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.values import dataclass, field
from ryeos.items.refs import SYSTEM, FileType, ItemRef, Kind, Location, Space, Spaces, rank_of
from ryeos.search.query import (
    FIELDS,
    Word,
    cached_word,
    count_runs,
    folded,
    identifiers,
    normalized,
    sequence,
)
from ryeos.trust.file_types import EXTRACTORS, extract
from ryeos.trust.resolver import item_folders, require_inside_space
from ryeos.trust.sign import SKIPPED_FILES
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    detached_path,
    form_for,
    form_of,
    split,
    text_of,
)
from ryeos.trust.verify import Verifier

MAX_OCCURRENCES = 8
# Behind the fields that are always searched: any other one, in an index of its own.
EXTRA = len(FIELDS)
COUNT_BITS, DOCUMENT_BITS = 4, 7
COUNT_MASK, FIELD_MASK = 15, 7
_BREAK = "\n"
_MAX_KEPT_PARTS = 2_000_000


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A word of the vocabulary: its forms, and where it occurs."""

    word: Word
    postings: Sequence[int]


def posting(document: int, field: int, count: int) -> int:
    """The number that says how often a field of a document has a word."""
    return document << DOCUMENT_BITS | field << COUNT_BITS | min(count, MAX_OCCURRENCES)


def field_of(number: int) -> int:
    """The field in a posting."""
    return number >> COUNT_BITS & FIELD_MASK


class Index:
    """Words, postings, and how long each field of each document is, in runs of letters.

    ``name`` is the metadata field that an index is of, ``""`` for that of the usual fields. What
    belongs to one word stands at one place of several lists.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.lengths: dict[int, tuple[int, ...]] = {}
        self._places: dict[str, int] = {}
        self._written: list[str] = []
        self._runs: list[int] = []
        self._postings: list[list[int]] = []
        # All words in one text, each in a line: to look through it is one call.
        self._lines, self._starts = "", [0]
        self._with_part: dict[str, list[int]] = {}
        self._known_parts = 0
        self._sequences: dict[int, list[str]] = {}
        self._kept_parts = 0

    def add(self, document: int, fields: Iterable[tuple[int, str]]) -> None:
        """Take in the fields of a document, by their numbers."""
        lengths = [0] * (EXTRA + 1)
        places, runs, postings = self._places, self._runs, self._postings
        for number, text in fields:
            base, length = document << DOCUMENT_BITS | number << COUNT_BITS, 0
            for written, count in Counter(identifiers(normalized(text))).items():
                place = places.get(written)
                if place is None:
                    place = self._new_place(written)
                # As `posting`, which is too much of a call for a million times.
                postings[place].append(base | (min(MAX_OCCURRENCES, count)))
                length += count * runs[place]
            lengths[number] = length
        self.lengths[document] = tuple(lengths)

    def sequence(self, key: int, text: str) -> list[str]:
        """The parts of a field's text; kept by the field's key, a posting without its count."""
        known = self._sequences.get(key)
        if known is None:
            known = sequence(normalized(text))
            self._kept_parts += len(known)
            if self._kept_parts > _MAX_KEPT_PARTS:
                self._sequences, self._kept_parts = {}, len(known)
            self._sequences[key] = known
        return known

    def containing(self, pieces: Sequence[str]) -> Iterator[IndexEntry]:
        """The words whose whole has one of the pieces in it; the empty piece is in all."""
        self._read_lines()
        places = sorted({place for piece in pieces for place in self._places_of(piece)})
        return (IndexEntry(cached_word(self._written[n]), self._postings[n]) for n in places)

    def having(self, part: str) -> Iterator[IndexEntry]:
        """The words that one of their parts is."""
        self._read_parts()
        for place in self._with_part.get(part, ()):
            yield IndexEntry(cached_word(self._written[place]), self._postings[place])

    def _places_of(self, piece: str) -> Iterator[int]:
        if not piece:
            yield from range(len(self._written))
            return
        lines, starts = self._lines, self._starts
        found = lines.find(piece)
        while found >= 0:
            place = bisect_right(starts, found) - 1
            yield place
            found = lines.find(piece, starts[place + 1])

    def _read_lines(self) -> None:
        """Bring the text of all words up to date."""
        known = len(self._starts) - 1
        if known == len(self._written):
            return
        start, new = self._starts[-1], []
        for written in self._written[known:]:
            line = written.casefold() + _BREAK
            start += len(line)
            new.append(line)
            self._starts.append(start)
        self._lines += "".join(new)

    def _read_parts(self) -> None:
        """Bring the parts of all words up to date."""
        known, self._known_parts = self._known_parts, len(self._written)
        for place in range(known, self._known_parts):
            for part in frozenset(cached_word(self._written[place]).sequence):
                self._with_part.setdefault(part, []).append(place)

    def _new_place(self, written: str) -> int:
        place = self._places[written] = len(self._written)
        self._written.append(written)
        self._runs.append(count_runs(written))
        self._postings.append([])
        return place


# --- records --------------------------------------------------------------------------------------
# What a search knows about an item file: its header, its text, whether its signature fits.
#
# No signature is checked but the manifest's of a bundle: a search shows, it runs nothing.

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the file of an item says.

    header       its metadata, names without dunders
    content      the text without signature lines
    signed       it has a signature line, and the hash in it is that of the text
    modified_ns  when the file was changed last
    """

    location: Location
    header: Mapping[str, Any] = field(default_factory=dict, repr=False)
    content: str = field(default="", repr=False)
    signed: bool = False
    modified_ns: int = 0

    @property
    def title(self) -> str:
        """The declared title, ``""`` if absent."""
        return as_text(self.header.get("title"))

    @property
    def description(self) -> str:
        """The declared description, ``""`` if absent."""
        return as_text(self.header.get("description"))

    @property
    def version(self) -> str:
        """The declared version, ``""`` if absent."""
        return as_text(self.header.get("version"))

    @property
    def tags(self) -> tuple[str, ...]:
        """The declared tags; one text is split at blanks and commas."""
        tags = self.header.get("tags")
        if isinstance(tags, str):
            return tuple(tags.replace(",", " ").split())
        return tuple(map(as_text, tags)) if isinstance(tags, list) else ()

    def value(self, name: str) -> object:
        """A metadata value: at the top level, else under ``metadata``, or None."""
        value = self.header.get(name)
        below = self.header.get("metadata")
        if value is None and isinstance(below, Mapping):
            return below.get(name)
        return value


def read_record(location: Location, verifier: Verifier, modified_ns: int = 0) -> Record:
    """Read an item's file, once. Raises OSError, and LilluxError for what no item can be."""
    content, header, signed = _read(location, verifier)
    return Record(
        location=location, header=header, content=content, signed=signed, modified_ns=modified_ns
    )


def preview(location: Location, content: str) -> str:
    """The first characters of an item's text, on one line, its header left out where it has one."""
    text = " ".join(_body(location, content).split())
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def as_text(value: object) -> str:
    """A metadata value as text; that of a list or a mapping is all that is in it."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).lower()
        case list() | tuple():
            return " ".join(map(as_text, value))
        case Mapping():
            return " ".join(map(as_text, value.values()))
    return str(value)


def _read(location: Location, verifier: Verifier) -> tuple[str, Mapping[str, Any], bool]:
    """An item's text without signature lines, its header, and whether it is signed."""
    kind, suffix, where = location.ref.kind, location.suffix, str(location.path)
    file_type = location.file_type
    form = form_of(file_type) if file_type else form_for(kind, suffix, where)
    if location.space.tier == SYSTEM:
        item = verifier.verify_location(location)
        data, header, is_signed = item.data, item.header, item.verified
        signed = split(text_of(data, form, where), form, where)
    else:
        if location.path.is_symlink():
            require_inside_space(location)
        data, header = read_bytes(location.path, MAX_SEARCHED_BYTES), None
        signed = split(text_of(data, form, where), form, where)
        is_signed = _is_signed(location, verifier, data)
    text = signed.shebang + signed.body
    return text, header or extract(kind, suffix, text, where, file_type), is_signed


def _is_signed(location: Location, verifier: Verifier, data: bytes) -> bool:
    """Whether a key that is trusted here signed these bytes, as this item."""
    try:
        item = verifier.verify_location(location)
    except LilluxError:
        return False
    return item.verified and item.data == data


def _body(location: Location, content: str) -> str:
    from ryeos.items.markdown import find_fence, parse_knowledge

    if location.ref.kind is Kind.KNOWLEDGE:
        return parse_knowledge(content, location.suffix).body or content
    fence = find_fence(content, "xml") if location.ref.kind is Kind.DIRECTIVE else None
    return f"{fence.before} {fence.after}" if fence else content


# --- pool -----------------------------------------------------------------------------------------
# The documents that a query is about, and what scores compare each of them to.

ID = FIELDS.index("id")
_CONTENT = FIELDS.index("content")
# What an extractor does not say: the weights of the fields that every item has.
_FURTHER_WEIGHTS: Mapping[str, float] = {"id": 2.5, "tags": 2.0}
_EXTRA_WEIGHT = 1.0
_KIND_ORDER = {kind: place for place, kind in enumerate(Kind)}
_CONTENT_B, _FIELD_B = 0.75, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """A record as it is searched for.

    shadows      the spaces whose item of the same id this one hides
    shadowed_by  the space whose item hides this one, ``""`` if absent
    id, name     case folded
    order        where it stands among equals: nearer spaces, then kinds, then ids
    """

    number: int
    record: Record = field(repr=False)
    shadows: tuple[str, ...] = ()
    shadowed_by: str = ""
    kind: Kind = Kind.TOOL
    id: str = ""
    name: str = ""
    order: tuple[int, int, str, str] = (0, 0, "", "")


def document_of(
    number: int, record: Record, shadows: tuple[str, ...] = (), shadowed_by: str = ""
) -> SearchDocument:
    """A document, ready to be compared."""
    ref, label = record.location.ref, record.location.space.label
    return SearchDocument(
        number=number,
        record=record,
        shadows=shadows,
        shadowed_by=shadowed_by,
        kind=ref.kind,
        id=folded(ref.id),
        name=folded(ref.name),
        order=(-rank_of(label), _KIND_ORDER[ref.kind], ref.id, label),
    )


def texts_of(record: Record) -> tuple[str, ...]:
    """The searched fields of a record, in the order of `FIELDS`."""
    ref = record.location.ref
    return (
        record.title,
        ref.name,
        ref.id,
        record.description,
        ref.category,
        " ".join(record.tags),
        record.content,
    )


# For each field: its weight, 1 - b, and b divided by the average length.
Shares = tuple[tuple[float, float, float], ...]


class Pool:
    """Candidates: the documents in scope, before any word is looked for."""

    def __init__(self, documents: Iterable[SearchDocument], index: Index) -> None:
        self.documents = {document.number: document for document in documents}
        self.numbers = frozenset(self.documents)
        self.index = index
        self._shares: dict[Index, dict[Kind, Shares]] = {}
        self._extras: dict[str, Index] = {}

    def field_index(self, name: str) -> Index:
        """An index of a metadata field alone, empty where no candidate has it."""
        if name not in self._extras:
            index = self._extras[name] = Index(name)
            for number, document in self.documents.items():
                text = as_text(document.record.value(name))
                if text:
                    index.add(number, [(EXTRA, text)])
        return self._extras[name]

    def shares(self, index: Index) -> Mapping[Kind, Shares]:
        """What an occurrence counts in each field: the weight / (1 - b + b x relative length)."""
        if index not in self._shares:
            numbers: dict[Kind, list[int]] = {}
            for number, document in self.documents.items():
                numbers.setdefault(document.kind, []).append(number)
            self._shares[index] = {
                kind: tuple(_shares(index, kind, own)) for kind, own in numbers.items()
            }
        return self._shares[index]


def _shares(index: Index, kind: Kind, own: Sequence[int]) -> Iterable[tuple[float, float, float]]:
    weights = {**EXTRACTORS[kind].search_fields, **_FURTHER_WEIGHTS}
    lengths = [index.lengths[number] for number in own if number in index.lengths]
    totals = [sum(column) for column in zip(*lengths, strict=True)] or [0] * (EXTRA + 1)
    for place, total in enumerate(totals):
        b = _CONTENT_B if place == _CONTENT else _FIELD_B
        weight = weights.get(FIELDS[place], 0.0) if place < EXTRA else _EXTRA_WEIGHT
        yield weight, 1 - b, b * len(own) / total if total else 0.0


# --- catalog --------------------------------------------------------------------------------------
# Every item of the spaces, kept in memory and looked at again for each search.
#
# A file is read again when its change time, size or number on the disk is another. A change within
# the same tick of the clock as the reading could not be seen that way, so a file that was just
# changed is read again as well. Folders are listed again by the same rule. Nothing is kept on disk.

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
class CatalogSnapshot:
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
        self._documents: dict[Kind, list[SearchDocument]] = {}
        self._index = Index()
        self._next_number = 0
        self._pools: dict[tuple[object, ...], Pool] = {}

    def snapshot(
        self, kinds: Sequence[Kind], tiers: frozenset[str], prefix: str = ""
    ) -> CatalogSnapshot:
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
            return CatalogSnapshot(self._pools[key], skipped)

    def _candidates(
        self, kinds: Sequence[Kind], tiers: frozenset[str], prefix: str
    ) -> Iterator[SearchDocument]:
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

    def _arranged(self, kind: Kind) -> Iterator[SearchDocument]:
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
