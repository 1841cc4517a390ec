"""The documents that a query is about, and what scores compare each of them to."""

from collections.abc import Iterable, Mapping, Sequence

from lillux.values import dataclass, field
from ryeos.extractors import EXTRACTORS
from ryeos.items import Kind, rank_of
from ryeos.search.index import EXTRA, Index
from ryeos.search.query import FIELDS
from ryeos.search.records import Record, as_text
from ryeos.search.words import folded

ID = FIELDS.index("id")
_CONTENT = FIELDS.index("content")
# What an extractor does not say: the weights of the fields that every item has.
_FURTHER_WEIGHTS: Mapping[str, float] = {"id": 2.5, "tags": 2.0}
_EXTRA_WEIGHT = 1.0
_KIND_ORDER = {kind: place for place, kind in enumerate(Kind)}
_CONTENT_B, _FIELD_B = 0.75, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A record as it is searched for.

    shadows      the spaces whose item of the same id this one hides
    shadowed_by  the space whose item hides this one, ``""`` for none
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
) -> Document:
    """A document, ready to be compared."""
    ref, label = record.location.ref, record.location.space.label
    return Document(
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

    def __init__(self, documents: Iterable[Document], index: Index) -> None:
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
