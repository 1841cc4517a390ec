"""Pools: the documents that a query is about, and what scores compare each of them to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from ryeos.items.refs import ItemRef, Kind, rank_of
from ryeos.search.index import EXTRA, Index
from ryeos.search.query import FIELDS
from ryeos.search.records import Record, as_text
from ryeos.search.words import folded
from ryeos.trust.extractors import EXTRACTORS

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
        """Record of the file."""
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
    """Source of the files of documents."""

    def record(self, number: int) -> Record:
        """Header of a document's file."""
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
        """Weight of an occurrence in each field: the weight / (1 - b + b x relative length)."""
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
