"""The inverted index of items, and what a search knows of each of them.

A posting is one number: the document's, the field's (3 bits), the count (4 bits, at most
`MAX_OCCURRENCES`). Documents are numbers that are not used twice, so that a changed file is a new
document and its old postings are dead until the index is packed.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

from lillux.files import read_bytes
from lillux.values import dataclass, field
from ryeos.items.refs import ItemRef, Kind, Location, rank_of
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
from ryeos.trust.resolver import require_inside_space
from ryeos.trust.signature import form_for, form_of, split, text_of

MAX_OCCURRENCES = 8
# Behind the fields that are always searched: any other one, in an index of its own.
EXTRA = len(FIELDS)
COUNT_BITS, DOCUMENT_BITS = 4, 7
COUNT_MASK, FIELD_MASK = 15, 7
_IN_DOCUMENT = (1 << DOCUMENT_BITS) - 1
_BREAK = "\n"
_MAX_KEPT_PARTS, _MAX_KEPT_WORDS = 2_000_000, 256


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


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An index as it can be kept in a file.

    words     all words as they are written, a line each
    starts    where the postings of each word begin, and where the last end
    postings  32 bits each: a document's number is less than 2 ** 25
    lengths   for each field how long it is in each document
    """

    words: str
    starts: "array[int]"
    postings: "array[int]"
    lengths: tuple["array[int]", ...]


NOTHING_PACKED = PackedIndex("", array("I", [0]), array("I"), ())


class Index:
    """Words, postings, and how long each field of each document is, in runs of letters.

    ``name`` is the metadata field that an index is of, ``""`` for that of the usual fields. Numbers
    of documents grow. What belongs to one word stands at one place of several lists; its postings
    are those that were there when the index was packed, and those that were added since.
    """

    def __init__(self, name: str = "", packed: PackedIndex = NOTHING_PACKED) -> None:
        self.name = name
        # One array per field. A document that ends before it has nothing in the field.
        self.lengths = packed.lengths or tuple(array("I") for _ in range(EXTRA + 1))
        self._written = packed.words.split(_BREAK) if packed.words else []
        self._starts_packed, self._packed = packed.starts, memoryview(packed.postings)
        # The postings that were added, by word and in the order of the words.
        self._added: dict[str, list[int]] = {}
        self._added_at: list[list[int]] = []
        # All words in one text, each in a line: to look through it is one call.
        self._lines, self._starts = "", [0]
        # What was asked for of late: words by a part of theirs, fields as parts.
        self._with_part: dict[str, list[int]] = {}
        self._known_words = 0
        self._sequences: dict[int, list[str]] = {}
        self._kept_parts = 0

    @property
    def is_empty(self) -> bool:
        """Whether no document has a word in it."""
        return not self._written

    def add(self, document: int, fields: Iterable[tuple[int, str]]) -> None:
        """Take in the fields of a document, by their numbers."""
        if len(self._added_at) < len(self._written):
            self._added_at = [[] for _ in self._written]
            self._added = dict(zip(self._written, self._added_at, strict=True))
        added, most = self._added, MAX_OCCURRENCES
        self.reach(document + 1)
        for number, text in fields:
            if not text:
                continue
            compared = normalized(text)
            base = document << DOCUMENT_BITS | number << COUNT_BITS
            for written, count in Counter(identifiers(compared)).items():
                # As `posting`, which is too much of a call for a million times.
                one = base | (count if count < most else most)  # noqa: FURB136 - half a call
                several = added.get(written)
                if several is None:
                    added[written] = several = []
                    self._added_at.append(several)
                    self._written.append(written)
                several.append(one)
            self.lengths[number][document] = count_runs(compared)

    def reach(self, documents: int) -> None:
        """Have a length for so many documents at least, 0 for those that nothing was said of."""
        missing = documents - len(self.lengths[0])
        if missing > 0:
            for lengths in self.lengths:
                lengths.frombytes(bytes(missing * lengths.itemsize))

    def packed(self, numbers: Sequence[int]) -> PackedIndex:
        """The index of the documents with these numbers, in order, numbered from 0 anew."""
        self.reach(max(numbers, default=-1) + 1)
        lengths = tuple(array("I", map(column.__getitem__, numbers)) for column in self.lengths)
        is_same = len(numbers) == len(self.lengths[0])
        new = {old: number for number, old in enumerate(numbers)}
        words: list[str] = []
        starts, postings = array("I", [0]), array("I")
        for place, written in enumerate(self._written):
            postings.extend(
                self._postings(place)
                if is_same
                else [
                    new[p >> DOCUMENT_BITS] << DOCUMENT_BITS | p & _IN_DOCUMENT
                    for p in self._postings(place)
                    if p >> DOCUMENT_BITS in new
                ]
            )
            if len(postings) > starts[-1]:
                words.append(written)
                starts.append(len(postings))
        return PackedIndex(_BREAK.join(words), starts, postings, lengths)

    def sequence(self, key: int, text: Callable[[], str]) -> list[str]:
        """The parts of a field's text; kept by the field's key, a posting without its count."""
        known = self._sequences.get(key)
        if known is None:
            known = sequence(normalized(text()))
            self._kept_parts += len(known)
            if self._kept_parts > _MAX_KEPT_PARTS:
                self._sequences, self._kept_parts = {}, len(known)
            self._sequences[key] = known
        return known

    def containing(self, pieces: Sequence[str]) -> Iterator[IndexEntry]:
        """The words whose whole has one of the pieces in it; the empty piece is in all."""
        places = sorted({place for piece in pieces for place in self._places_of(piece)})
        return (IndexEntry(cached_word(self._written[n]), self._postings(n)) for n in places)

    def entries_with_part(self, part: str) -> Iterator[IndexEntry]:
        """The words that one of their parts is."""
        if len(self._with_part) > _MAX_KEPT_WORDS or self._known_words != len(self._written):
            self._with_part, self._known_words = {}, len(self._written)
        if part not in self._with_part:
            words = ((n, cached_word(self._written[n])) for n in self._places_of(part))
            self._with_part[part] = [n for n, word in words if part in word.sequence]
        places = self._with_part[part]
        return (IndexEntry(cached_word(self._written[n]), self._postings(n)) for n in places)

    def _places_of(self, piece: str) -> Iterator[int]:
        if not piece:
            yield from range(len(self._written))
            return
        self._read_lines()
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
        new = [written.casefold() + _BREAK for written in self._written[known:]]
        self._starts.extend(accumulate(map(len, new), initial=self._starts.pop()))
        self._lines += "".join(new)

    def _postings(self, place: int) -> Sequence[int]:
        added = self._added_at[place] if self._added_at else []
        if place + 1 >= len(self._starts_packed):
            return added
        packed = self._packed[self._starts_packed[place] : self._starts_packed[place + 1]].tolist()
        return [*packed, *added] if added else packed


# --- records --------------------------------------------------------------------------------------
# What a search knows about an item file: its header, its text, whether its signature fits.

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the file of an item says.

    header       its metadata, names without dunders
    read         gives the text without signature lines, ``""`` where it cannot be read any more
    verify       tells whether it may be used as it is
    modified_ns  when the file was changed last
    """

    location: Location
    header: Mapping[str, Any] = field(default_factory=dict, repr=False)
    read: Callable[[], str] = field(default=lambda: "", repr=False)
    verify: Callable[[], bool] = field(default=lambda: False, repr=False)
    modified_ns: int = 0

    @property
    def content(self) -> str:
        """The text of the file as it is now, without signature lines."""
        return self.read()

    @property
    def signed(self) -> bool:
        """Whether a key that is trusted here signed the file as it is now, as this item."""
        return self.verify()

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


def read_item(location: Location) -> tuple[str, Mapping[str, Any]]:
    """The text and the header of an item's file as it is now. Nothing is verified.

    Raises OSError, and LilluxError for what no item can be.
    """
    if location.path.is_symlink():
        require_inside_space(location)
    return parse_item(location, read_bytes(location.path, MAX_SEARCHED_BYTES))


def parse_item(location: Location, data: bytes) -> tuple[str, Mapping[str, Any]]:
    """The text without signature lines, and the header, of an item. Raises LilluxError."""
    kind, suffix, where = location.ref.kind, location.suffix, str(location.path)
    file_type = location.file_type
    form = form_of(file_type) if file_type else form_for(kind, suffix, where)
    signed = split(text_of(data, form, where), form, where)
    text = signed.shebang + signed.body
    return text, extract(kind, suffix, text, where, file_type)


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
_FURTHER_WEIGHTS: Mapping[str, float] = {"id": 2.5, "tags": 3.0}
_EXTRA_WEIGHT = 1.0
_KIND_ORDER = {kind: place for place, kind in enumerate(Kind)}
_CONTENT_B, _FIELD_B = 0.75, 0.3


class SearchDocument(NamedTuple):
    """An item as it is searched for. Thousands match a common word: a tuple is soon made.

    id, name     case folded
    order        where it stands among equals: nearer spaces, then kinds, then ids, and its label
    """

    number: int
    kind: Kind
    id: str
    name: str
    order: tuple[int, int, str, str]
    source: "Source"

    @property
    def ref(self) -> ItemRef:
        """The reference of the item."""
        return ItemRef(self.kind, self.order[-2])

    @property
    def label(self) -> str:
        """The space that the item is in."""
        return self.order[-1]

    @property
    def record(self) -> Record:
        """What the file says."""
        return self.source.record(self.number)

    @property
    def shadows(self) -> tuple[str, ...]:
        """The spaces whose item of the same id this one hides."""
        holders = self.source.holders(self.ref)
        return holders[holders.index(self.label) + 1 :] if self.label in holders else ()

    @property
    def shadowed_by(self) -> str:
        """The space whose item hides this one, ``""`` if absent."""
        first = next(iter(self.source.holders(self.ref)), self.label)
        return "" if first == self.label else first


class Source(Protocol):
    """What knows the files of documents."""

    def record(self, number: int) -> Record:
        """What the file of a document says."""
        ...

    def holders(self, ref: ItemRef) -> tuple[str, ...]:
        """The spaces that have an item of this reference, the nearest first."""
        ...


def document_of(
    number: int, kind: Kind, item_id: str, label: str, source: Source
) -> SearchDocument:
    """A document, ready to be compared."""
    name = folded(item_id.rpartition("/")[2])
    order = -rank_of(label), _KIND_ORDER[kind], item_id, label
    return SearchDocument(number, kind, folded(item_id), name, order, source)


def texts_of(record: Record) -> tuple[str, ...]:
    """The searched fields of a record, in the order of `FIELDS`."""
    return tuple(text_of_field(record, place) for place in range(len(FIELDS)))


def text_of_field(record: Record, place: int) -> str:
    """One of the searched fields."""
    return _TEXTS[FIELDS[place]](record)


_TEXTS: Mapping[str, Callable[[Record], str]] = {
    "title": lambda record: record.title,
    "name": lambda record: record.location.ref.name,
    "id": lambda record: record.location.ref.id,
    "description": lambda record: record.description,
    "category": lambda record: record.location.ref.category,
    "tags": lambda record: " ".join(record.tags),
    "content": lambda record: record.content,
}


# For each field: its weight, 1 - b, and b divided by the average length.
Shares = tuple[tuple[float, float, float], ...]


class Pool:
    """Candidates: the documents in scope, before any word is looked for."""

    def __init__(
        self,
        documents: Mapping[int, SearchDocument],
        numbers: Mapping[Kind, Sequence[int]],
        index: Index,
    ) -> None:
        self.documents, self.index, self._by_kind = documents, index, numbers
        self.numbers = frozenset(chain.from_iterable(numbers.values()))
        self._shares: dict[Index, dict[Kind, Shares]] = {}
        self._extras: dict[str, Index] = {}

    def all(self) -> Iterator[SearchDocument]:
        """Every candidate, by its number."""
        return (self.documents[number] for number in sorted(self.numbers))

    def field_index(self, name: str) -> Index:
        """An index of a metadata field alone, empty where no candidate has it."""
        if name not in self._extras:
            index = self._extras[name] = Index(name)
            for document in self.all():
                text = as_text(document.record.value(name))
                if text:
                    index.add(document.number, [(EXTRA, text)])
        return self._extras[name]

    def shares(self, index: Index) -> Mapping[Kind, Shares]:
        """What an occurrence counts in each field: the weight / (1 - b + b x relative length)."""
        if index not in self._shares:
            self._shares[index] = {
                kind: tuple(_shares(index, kind, own)) for kind, own in self._by_kind.items()
            }
        return self._shares[index]


def _shares(index: Index, kind: Kind, own: Sequence[int]) -> Iterable[tuple[float, float, float]]:
    weights = {**EXTRACTORS[kind].search_fields, **_FURTHER_WEIGHTS}
    index.reach(max(own, default=-1) + 1)
    for place, lengths in enumerate(index.lengths):
        total = sum(map(lengths.__getitem__, own))
        b = _CONTENT_B if place == _CONTENT else _FIELD_B
        weight = weights.get(FIELDS[place], 0.0) if place < EXTRA else _EXTRA_WEIGHT
        yield weight, 1 - b, b * len(own) / total if total else 0.0
