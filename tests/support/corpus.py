"""Records of items without files, for tests of pure search functions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ryeos.items.refs import PROJECT, ItemRef, Kind, Location, Space
from ryeos.search.evaluation import Evaluation
from ryeos.search.index import Index
from ryeos.search.pools import Pool, document_of, texts_of
from ryeos.search.query import parse_query
from ryeos.search.records import Record
from ryeos.search.search import SearchResult

HERE = Space(PROJECT, Path("project"))


def record(
    item_id: str = "media/resize",
    kind: Kind = Kind.TOOL,
    space: Space = HERE,
    *,
    content: str = "",
    signed: bool = False,
    **header: Any,  # noqa: ANN401 - metadata
) -> Record:
    """A record of an item without a file."""
    location = Location(ref=ItemRef(kind, item_id), space=space, path=Path("x.py"))
    return Record(location=location, header=header, read=lambda: content, verify=lambda: signed)


def pool_of(records: Iterable[Record]) -> Pool:
    """Candidates, numbered from 0."""
    index, known = Index(), _Records(records)
    for number, one in enumerate(known.records):
        index.add(number, enumerate(texts_of(one)))
    documents = {
        number: document_of(number, *_place(one), known) for number, one in enumerate(known.records)
    }
    numbers = {kind: [n for n, one in documents.items() if one.kind is kind] for kind in Kind}
    return Pool(documents, numbers, index)


def _place(one: Record) -> tuple[Kind, str, str]:
    return one.location.ref.kind, one.location.ref.id, one.location.space.label


class _Records:
    """Records by their numbers, without shadowed ones."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def record(self, number: int) -> Record:
        """See `ryeos.search.pools.Source`."""
        return self.records[number]

    def holders(self, ref: ItemRef) -> tuple[str, ...]:
        """See `ryeos.search.pools.Source`."""
        return tuple(one.location.space.label for one in self.records if one.location.ref == ref)


def scores(query: str, *records: Record, max_slips: int = 0) -> dict[str, float]:
    """The score of each record that matches, by its id, before a whole name counts."""
    pool = pool_of(records)
    evaluation = Evaluation(pool, max_slips)
    found = evaluation.scores(evaluation.matches(parse_query(query).node))
    return {pool.documents[n].record.location.ref.id: score for n, score in found.items()}


def finds(query: str, max_slips: int = 0, **fields: Any) -> bool:  # noqa: ANN401 - of `record`
    """Whether a query matches an item with these fields."""
    return bool(scores(query, record(**fields), max_slips=max_slips))


def ids(result: SearchResult) -> list[str]:
    """The ids of the hits in order."""
    return [hit.document.record.location.ref.id for hit in result.hits]
