"""Search: filters, ranking by BM25F, and the answer.

(1) the items in scope, from the catalog: candidates
(2) the query, parsed, over the inverted index: those that match
(3) nothing matches a plain query: any half of its words will do; then words that are spelled nearly
(4) metadata filters
(5) scores, order, the requested page

The rules and the grammar: ``docs/items.md``.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from lillux.values import dataclass, field
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, ItemRef, Kind, Location
from ryeos.search.catalog import Catalog
from ryeos.search.evaluation import Evaluation
from ryeos.search.filters import conditions, date_of
from ryeos.search.pools import Pool, SearchDocument
from ryeos.search.query import And, InField, Or, Phrase, Query, QueryNode, Term, parse_query
from ryeos.search.words import folded

LOCAL_TIERS = frozenset({PROJECT, USER, SYSTEM})
MAX_LIMIT = 100
DEFAULT_LIMIT = 10


class SortBy(StrEnum):
    """The order of the hits."""

    SCORE = "score"
    DATE = "date"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search, its texts not parsed yet.

    prefix         the id that items have or lie below, ``""`` for any
    fields         field -> a query of its own; all must hold
    filters        what metadata has to be: see `conditions`
    max_slips      fuzzy: how many slips a word may be away, 0 to 2
    max_distance   proximity: how many words may stand between the terms; None for any number
    is_visible     whether a caller may know of an item
    """

    query: str = ""
    kinds: tuple[Kind, ...] = EXECUTABLE_KINDS
    tiers: frozenset[str] = LOCAL_TIERS
    prefix: str = ""
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    sort_by: SortBy = SortBy.SCORE
    fields: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, object] = field(default_factory=dict)
    max_slips: int = 0
    max_distance: int | None = None
    is_visible: Callable[[ItemRef], bool] = lambda _ref: True


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that matches, and how well: from 0 to 1, to four places."""

    document: SearchDocument
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search.

    hits         the requested page of them
    total        how many there are
    relaxed      ``or`` or ``fuzzy`` when nothing matched as it was typed, else ``""``
    skipped      items that could not be read
    suggestions  references that look like what was typed, when nothing matched at all
    """

    hits: tuple[Hit, ...]
    total: int
    relaxed: str = ""
    skipped: tuple[Location, ...] = ()
    suggestions: tuple[str, ...] = ()


_FOR_LONG_WORDS = 8
_START_BONUS, _BEST_BUT_EXACT = 0.1, 0.99
_SCORE_PLACES = 4


def search(
    catalog: Catalog, request: SearchRequest, suggest: Callable[[str], tuple[str, ...]]
) -> SearchResult:
    """The items that match a request, best first. Raises InvalidQueryError, VerbArgumentError."""
    query = parse_query(request.query)
    fields = [
        InField(name.lower(), parse_query(text).node) for name, text in request.fields.items()
    ]
    checks = conditions(request.filters)
    snapshot = catalog.snapshot(request.kinds, request.tiers, request.prefix)  # (1)
    pool = snapshot.pool
    node = And((query.node, *fields)) if fields else query.node
    scores, relaxed = _matching(pool, query, node, request), ""  # (2)
    if not scores and query.is_plain and not fields and not checks:
        scores, relaxed = _relaxed(pool, query)  # (3)
    found = [
        (document, score)
        for document, score in ((pool.documents[n], score) for n, score in scores.items())
        if request.is_visible(document.ref)
        if not checks or all(check(document.record) for check in checks)  # (4)
    ]
    found.sort(key=_ORDERS[request.sort_by])  # (5)
    page = found[request.offset : request.offset + request.limit]
    return SearchResult(
        hits=tuple(Hit(document, score) for document, score in page),
        total=len(found),
        relaxed=relaxed if found else "",
        skipped=snapshot.skipped,
        suggestions=() if found or not query.text else suggest(_words(query)),
    )


def _matching(
    pool: Pool, query: Query, node: QueryNode, request: SearchRequest
) -> dict[int, float]:
    evaluation = Evaluation(pool, request.max_slips)
    numbers: Iterable[int] = evaluation.matches(node)
    terms = _positive_words(node)
    if request.max_distance is not None and len(terms) > 1:
        numbers = evaluation.near(terms, request.max_distance).intersection(numbers)
    named = _items_named(pool, query) if node == query.node else frozenset[int]()
    return _final(evaluation.scores({*numbers, *named}), pool, query)


def _relaxed(pool: Pool, query: Query) -> tuple[dict[int, float], str]:
    """Items that match half of the words or more; else words spelled nearly so."""
    terms = query.terms
    loose = Evaluation(pool)
    loose.matches(Or(terms))
    counts: dict[int, int] = {}
    for leaf in loose.leaves:
        for number in leaf.documents:
            counts[number] = counts.get(number, 0) + 1
    enough = [number for number, count in counts.items() if 2 * count >= len(terms)]
    if enough:
        return _final(loose.scores(enough), pool, query), "or"
    slips = 2 if all(len(term.text) >= _FOR_LONG_WORDS for term in terms) else 1
    close = Evaluation(pool, slips)
    return _final(close.scores(close.matches(query.node)), pool, query), "fuzzy"


def _final(scores: Mapping[int, float], pool: Pool, query: Query) -> dict[int, float]:
    """The scores with what the whole query says about an item's id and name."""
    whole = folded(query.text)
    kind, _, item_id = whole.rpartition(":")
    final: dict[int, float] = {}
    for number, score in scores.items():
        document = pool.documents[number]
        best = min(score, 1.0)
        if whole and document.name.startswith(whole):
            best = min(best + _START_BONUS, max(best, _BEST_BUT_EXACT))
            if whole == document.name:
                best = 1.0
        elif document.id == item_id and kind in {"", document.kind.value}:
            best = 1.0
        final[number] = round(best, _SCORE_PLACES)
    return final


def _items_named(pool: Pool, query: Query) -> frozenset[int]:
    """The items that a reference names, which is no word of any text."""
    kind, colon, item_id = folded(query.text).partition(":")
    if not colon or kind not in {kind.value for kind in Kind}:
        return frozenset()
    return frozenset(
        document.number
        for document in pool.all()
        if (document.kind.value, document.id) == (kind, item_id)
    )


def _words(query: Query) -> str:
    """The text as typed, without quotes and operators."""
    return " ".join(_positive_words(query.node)) or query.text


def _positive_words(node: QueryNode) -> list[str]:
    match node:
        case Term(text) | Phrase(text):
            return [text]
        case And(parts) | Or(parts):
            return [word for part in parts for word in _positive_words(part)]
        case InField(_, part):
            return _positive_words(part)
    return []


_Scored = tuple[SearchDocument, float]


def _by_date(found: _Scored) -> tuple[Any, ...]:
    record = found[0].record
    declared = date_of(record)
    utc_time = declared or datetime.fromtimestamp(record.modified_ns / 1e9, UTC)
    return -utc_time.timestamp(), *found[0].order


_ORDERS: dict[SortBy, Callable[[_Scored], tuple[Any, ...]]] = {
    SortBy.SCORE: lambda found: (-found[1], found[0].order),
    SortBy.DATE: _by_date,
    SortBy.NAME: lambda found: (found[0].name, found[0].order),
}
