"""Finding items by words: a score from 0 to 1 for each item.

(1) the items in scope, from the catalog: candidates
(2) the query, parsed, over the inverted index: those that match
(3) nothing matches a plain query: any half of its words will do; then words that are spelled nearly
(4) metadata filters
(5) scores, order, the asked page

The rules and the grammar: ``docs/search.md``.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ryeos.items import Kind
from ryeos.search.catalog import Catalog
from ryeos.search.evaluation import Evaluation
from ryeos.search.filters import conditions, date_of
from ryeos.search.pool import Document, Pool
from ryeos.search.query import And, InField, Node, Or, Phrase, Query, Term, parse_query
from ryeos.search.requests import Hit, SearchRequest, SearchResult, SortBy
from ryeos.search.words import folded

__all__ = ["Catalog", "Hit", "SearchRequest", "SearchResult", "SortBy", "search"]

_FOR_LONG_WORDS = 8
_START_BONUS, _BEST_BUT_EXACT = 0.1, 0.99
_SCORE_PLACES = 4


def search(
    catalog: Catalog, request: SearchRequest, suggest: Callable[[str], tuple[str, ...]]
) -> SearchResult:
    """The items that match a request, best first. Raises InvalidQueryError, ArgumentError."""
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
        (pool.documents[number], score)
        for number, score in scores.items()
        if not checks or all(check(pool.documents[number].record) for check in checks)  # (4)
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


# --- scores ---------------------------------------------------------------------------------------


def _matching(pool: Pool, query: Query, node: Node, request: SearchRequest) -> dict[int, float]:
    evaluation = Evaluation(pool, request.max_slips)
    numbers: Iterable[int] = evaluation.matches(node)
    terms = _positive_words(node)
    if request.max_distance is not None and len(terms) > 1:
        numbers = evaluation.near(terms, request.max_distance).intersection(numbers)
    named = _named(pool, query) if node == query.node else frozenset[int]()
    return _final(evaluation.scores({*numbers, *named}), pool, query)


def _relaxed(pool: Pool, query: Query) -> tuple[dict[int, float], str]:
    """What matches at least half of the words; else what matches words spelled nearly so."""
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


def _named(pool: Pool, query: Query) -> frozenset[int]:
    """The items that a reference names, which is no word of any text."""
    kind, colon, item_id = folded(query.text).partition(":")
    if not colon or kind not in {kind.value for kind in Kind}:
        return frozenset()
    return frozenset(
        n for n, d in pool.documents.items() if (d.kind.value, d.id) == (kind, item_id)
    )


def _words(query: Query) -> str:
    """What was typed, without quotes and operators."""
    return " ".join(_positive_words(query.node)) or query.text


def _positive_words(node: Node) -> list[str]:
    match node:
        case Term(text) | Phrase(text):
            return [text]
        case And(parts) | Or(parts):
            return [word for part in parts for word in _positive_words(part)]
        case InField(_, part):
            return _positive_words(part)
    return []


# --- order ----------------------------------------------------------------------------------------


Found = tuple[Document, float]


def _by_date(found: Found) -> tuple[Any, ...]:
    record = found[0].record
    declared = date_of(record)
    moment = declared or datetime.fromtimestamp(record.modified_ns / 1e9, UTC)
    return -moment.timestamp(), *found[0].order


_ORDERS: dict[SortBy, Callable[[Found], tuple[Any, ...]]] = {
    SortBy.SCORE: lambda found: (-found[1], found[0].order),
    SortBy.DATE: _by_date,
    SortBy.NAME: lambda found: (found[0].name, found[0].order),
}
