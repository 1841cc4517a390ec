"""Search: filters, ranking by BM25F, and the answer.

(1) the items in scope, from the catalog: candidates
(2) the query, parsed, over the inverted index: those that match
(3) nothing matches a plain query: any half of its words will do; then words that are spelled nearly
(4) metadata filters
(5) scores, order, the requested page

The rules and the grammar: ``docs/items.md``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from enum import StrEnum
from functools import partial
from math import log
from typing import Any

from lillux.values import dataclass, field
from ryeos.items.errors import VerbArgumentError
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, ItemRef, Kind, Location
from ryeos.items.specs import COMPARISONS, compare_versions
from ryeos.search.catalog import Catalog
from ryeos.search.index import (
    COUNT_BITS,
    COUNT_MASK,
    DOCUMENT_BITS,
    EXTRA,
    FIELD_MASK,
    ID,
    MAX_OCCURRENCES,
    Index,
    Pool,
    Record,
    SearchDocument,
    as_text,
    field_of,
    posting,
    text_of_field,
)
from ryeos.search.query import (
    FIELDS,
    GRADES,
    And,
    Counts,
    InField,
    NotQuery,
    Or,
    Pattern,
    Phrase,
    Query,
    QueryNode,
    Term,
    cached_word,
    folded,
    identifiers,
    is_cjk,
    normalized,
    parse_query,
    pattern_of,
    sequence,
)

# --- requests -------------------------------------------------------------------------------------
# The request of a search, and its result. Values only.

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


# --- search ---------------------------------------------------------------------------------------

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


# --- scores ---------------------------------------------------------------------------------------


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
    """What was typed, without quotes and operators."""
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


# --- order ----------------------------------------------------------------------------------------


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


# --- scope ----------------------------------------------------------------------------------------
# Scope strings: ``tool``, ``tool.rye.core.*``, ``rye.fetch.tool.rye.core.*``. Pure.

_VERBS = frozenset({"fetch", "search", "load"})


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A kind, None for all of them, and the id that items have or lie below, ``""`` for any."""

    kind: Kind | None = None
    prefix: str = ""


def parse_scope(text: str) -> SearchScope:
    """The scope that a text names. Raises VerbArgumentError for a kind that there is not.

    ``rye.`` and a verb in front are left out, ``.*`` or ``*`` at the end too; dots and slashes
    separate alike. ``*`` instead of a kind means all of them.
    """
    parts = [part for part in text.strip().replace("/", ".").replace(":", ".").split(".") if part]
    if len(parts) > 1 and parts[0] == "rye" and parts[1] in {"*", *_VERBS, *_kind_names()}:
        parts = parts[1:]
    if len(parts) > 1 and (
        parts[0] in _VERBS or (parts[0] == "*" and parts[1] in {"*", *_kind_names()})
    ):
        parts = parts[1:]
    if not parts:
        return SearchScope()
    first, *rest = parts
    while rest and rest[-1] == "*":
        rest.pop()
    if rest:
        rest[-1] = rest[-1].removesuffix("*")
    return SearchScope(_kind(first, text), "/".join(rest))


def _kind(word: str, text: str) -> Kind | None:
    if word == "*":
        return None
    if word not in _kind_names():
        known = ", ".join(_kind_names())
        raise VerbArgumentError(
            "scope", f"expected a kind ({known}) or * in {text[:60]!r}, found {word[:60]!r}"
        )
    return Kind(word)


def _kind_names() -> tuple[str, ...]:
    return tuple(kind.value for kind in EXECUTABLE_KINDS)


# --- filters --------------------------------------------------------------------------------------
# Metadata filters: conditions that an item's header must meet, all of them. Pure.
#
# ``"x"``                 equal, ignoring case; contained where the value is a list
# ``"!x"``                not so; true of an item without the field
# ``">=1.2"`` ``"<2"``    versions, by PEP 440, else semver
# ``["x", "y"]``          any of these
# ``date_from`` ``date_to``  ISO 8601, inclusive, in UTC; items without a date are left out
# ``signed``              true or false
# ``category``            ``"a/b"``; ``"a/b/*"`` also for all below

DATE_FIELDS = ("updated_at", "created_at")
_MAX_FILTERS = 32

Filter = Callable[[Record], bool]


def conditions(filters: Mapping[str, object]) -> tuple[Filter, ...]:
    """What the filters ask, ready to be applied. Raises VerbArgumentError for a value of no use."""
    if len(filters) > _MAX_FILTERS:
        raise VerbArgumentError("filters", f"expected at most {_MAX_FILTERS}, found {len(filters)}")
    return tuple(_condition(name, value) for name, value in filters.items() if name != "verify")


def wants_verification(filters: Mapping[str, object]) -> bool:
    """Whether the filters ask to check the Ed25519 signature of each hit."""
    value = filters.get("verify", False)
    if not isinstance(value, bool):
        raise _wrong("verify", value, "true or false")
    return value


def date_of(record: Record) -> datetime | None:
    """When an item was changed or made, as its header says; None if it does not."""
    for name in DATE_FIELDS:
        value = record.value(name)
        utc_time = _utc_time(value) if isinstance(value, str | date) else None
        if utc_time:
            return utc_time
    return None


def _condition(name: str, value: object) -> Filter:
    match name:
        case "signed":
            if not isinstance(value, bool):
                raise _wrong(name, value, "true or false")
            return lambda record: record.signed is value
        case "date_from":
            start = _limit(name, value, time.min)
            return lambda record: (utc_time := date_of(record)) is not None and utc_time >= start
        case "date_to":
            end = _limit(name, value, time.max)
            return lambda record: (utc_time := date_of(record)) is not None and utc_time <= end
        case "category" if isinstance(value, str) and value.endswith("/*"):
            above = value.removesuffix("/*").casefold()
            return lambda record: _is_below(record.location.ref.category.casefold(), above)
    if isinstance(value, list):
        choices = [_single(name, one) for one in value]
        return lambda record: any(choice(record) for choice in choices)
    return _single(name, value)


def _single(name: str, value: object) -> Filter:
    if isinstance(value, dict | list) or value is None:
        raise _wrong(name, value, "a text, a number, true or false, or a list of these")
    text = _plain(value)
    operator = next((sign for sign in COMPARISONS if text.startswith(sign)), "")
    if operator:
        return _comparison(name, operator, text.removeprefix(operator).strip())
    if text.startswith("!"):
        unwanted = text[1:]
        return lambda record: unwanted not in _values(record, name)
    return lambda record: text in _values(record, name)


def _comparison(name: str, operator: str, wanted: str) -> Filter:
    try:
        compare_versions(wanted, wanted)
    except ValueError:
        raise _wrong(name, f"{operator}{wanted}", "a version like >=1.2") from None
    fits = COMPARISONS[operator]

    def condition(record: Record) -> bool:
        found = _value(record, name)
        try:
            return found is not None and fits(compare_versions(str(found), wanted))
        except ValueError:
            return False

    return condition


def _value(record: Record, name: str) -> object:
    """What the header says; id, name and category are those of the file, whatever it says."""
    ref = record.location.ref
    match name:
        case "id":
            return ref.id
        case "name":
            return ref.name
        case "category":
            return ref.category
        case "type":
            return ref.kind.value
        case "tags":
            return list(record.tags)
    return record.value(name)


def _values(record: Record, name: str) -> tuple[str, ...]:
    value = _value(record, name)
    if value is None:
        return ()
    return tuple(map(_plain, value)) if isinstance(value, list) else (_plain(value),)


def _plain(value: object) -> str:
    return str(value).casefold()


def _is_below(category: str, above: str) -> bool:
    return category == above or category.startswith(f"{above}/")


def _limit(name: str, value: object, end: time) -> datetime:
    expected = "a date like 2026-01-31 or 2026-01-31T12:00:00Z"
    if not isinstance(value, str):
        raise _wrong(name, value, expected)
    utc_time = _utc_time(value, end)
    if utc_time is None:
        raise _wrong(name, value, expected)
    return utc_time


def _utc_time(value: str | date, of_day: time = time.min) -> datetime | None:
    """A time in UTC; a bare date is this time of its day, a time without zone is UTC."""
    try:
        if isinstance(value, datetime):
            utc_time = value
        elif isinstance(value, date):
            utc_time = datetime.combine(value, of_day)
        elif len(value.strip()) <= len("2026-01-31"):
            utc_time = datetime.combine(date.fromisoformat(value.strip()), of_day)
        else:
            utc_time = datetime.fromisoformat(value.strip())
        return utc_time.replace(tzinfo=UTC) if utc_time.tzinfo is None else utc_time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _wrong(name: str, value: object, expected: str) -> VerbArgumentError:
    return VerbArgumentError(
        f"filters.{name}",
        f"expected {expected}, found {str(value)[:60]!r}",
        field=name,
        value=value,
        expected=expected,
    )


# --- evaluation -----------------------------------------------------------------------------------
# Which candidates a query matches, and how well: BM25F over the inverted index. Pure.
#
# tf(t, d)  the sum over fields of weight x grades / (1 - b + b x length / average length)
# idf(t)    ln(1 + (N - n + 0.5) / (n + 0.5)), n candidates out of N have t
# score     the mean of tf / (1.2 + tf) over the terms that may match, weighted by idf: 0 to 1
#
# Lengths are compared to those of the candidates of the same kind. At most 8 occurrences of a term
# in a field count, the best ones.

SATURATION = 1.2
_EXACT_COUNTS: Counts = (1, 0, 0, 0)
# How many postings are looked at in the time that it takes to read a field.
_LOOK_OR_READ = 250
# Postings of words, by how well the words fit.
Postings = Sequence[tuple[Counts, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term, phrase or wildcard of a query: which candidates have it, and where."""

    index: Index
    found: Postings
    documents: frozenset[int]
    pattern: Pattern | None = None


@dataclass(slots=True)
class Evaluation:
    """One query over one pool. ``leaves`` are those that raise a score."""

    pool: Pool
    max_distance: int = 0
    leaves: list[Leaf] = field(default_factory=list)

    def matches(self, node: QueryNode) -> frozenset[int]:
        """The numbers of the candidates that match."""
        return self._matches(node, self.pool.index, None, positive=True)

    def scores(self, documents: Iterable[int]) -> dict[int, float]:
        """The score of each of these candidates; 1 where no leaf can raise one."""
        wanted = frozenset(documents)
        total = len(self.pool.numbers)
        weights = [
            log(1 + (total - len(leaf.documents) + 0.5) / (len(leaf.documents) + 0.5))
            for leaf in self.leaves
        ]
        if not sum(weights):
            return dict.fromkeys(wanted, 1.0)
        sums = dict.fromkeys(wanted, 0.0)
        for leaf, weight in zip(self.leaves, weights, strict=True):
            for number, frequency in self._frequencies(leaf, wanted).items():
                sums[number] += weight * frequency / (SATURATION + frequency)
        return {number: value / sum(weights) for number, value in sums.items()}

    # --- matching ---------------------------------------------------------------------------------

    def _matches(
        self, node: QueryNode, index: Index, only: int | None, *, positive: bool
    ) -> frozenset[int]:
        def inside(part: QueryNode) -> frozenset[int]:
            return self._matches(part, index, only, positive=positive)

        match node:
            case And(parts):
                return self.pool.numbers.intersection(*map(inside, parts))
            case Or(parts):
                return frozenset[int]().union(*map(inside, parts))
            case NotQuery(part):
                return self.pool.numbers - self._matches(part, index, only, positive=not positive)
            case InField(name, part):
                return self._in_field(node, name, part, positive=positive)
            case Term(text):
                leaf = self._term(text, index, only)
            case Phrase(text):
                leaf = self._phrase(text, index, only)
        if positive:
            self.leaves.append(leaf)
        return leaf.documents

    def _in_field(
        self, node: InField, name: str, part: QueryNode, *, positive: bool
    ) -> frozenset[int]:
        if name in FIELDS:
            only = FIELDS.index(name)
            return self._matches(part, self.pool.index, only, positive=positive)
        index = self.pool.field_index(name)
        if index.is_empty and node.written:  # a text with a colon, like a reference or an address
            return self._matches(Term(node.written), self.pool.index, None, positive=positive)
        return self._matches(part, index, EXTRA, positive=positive)

    def _term(self, text: str, index: Index, only: int | None) -> Leaf:
        words = identifiers(normalized(text))
        if not ("*" in text or "?" in text) and (len(words) > 1 or _has_pairs(words)):
            return self._phrase(text, index, only)
        plain = words[0] if len(words) == 1 and not ("*" in text or "?" in text) else text
        pattern = pattern_of(plain, self.max_distance)
        found = self._postings(pattern, index, only)
        if pattern.fits and index is self.pool.index and only in {None, ID}:
            found = [*found, *self._ids(pattern.fits, found)]
        return Leaf(index, found, self._documents(found), pattern)

    def _postings(self, pattern: Pattern, index: Index, only: int | None) -> Postings:
        counted = ((pattern.counts(e.word), e) for e in index.containing(pattern.pieces))
        return [(counts, _of_field(e.postings, only)) for counts, e in counted if any(counts)]

    def _ids(self, fits: Callable[[str], bool], found: Postings) -> Postings:
        """Whole ids that a wildcard fits, where no word of theirs does."""
        known = {p >> COUNT_BITS for _, several in found for p in several}
        numbers = (document.number for document in self.pool.all() if fits(document.id))
        postings = [posting(number, ID, 1) for number in numbers]
        return [(_EXACT_COUNTS, [p for p in postings if p >> COUNT_BITS not in known])]

    def _phrase(self, text: str, index: Index, only: int | None) -> Leaf:
        wanted = sequence(normalized(text))
        if not wanted:
            return Leaf(index, [], frozenset())
        places = self._common([self._with_part(part, index, only) for part in set(wanted)])
        postings = [
            posting(number, field_of(key << COUNT_BITS), count)
            for key, number, text in self._texts(places, index)
            if (count := _occurrences(wanted, index.sequence(key, text)))
        ]
        found = [(_EXACT_COUNTS, postings)]
        return Leaf(index, found, self._documents(found))

    def _with_part(self, part: str, index: Index, only: int | None) -> Postings:
        entries = index.entries_with_part(part)
        return [(_EXACT_COUNTS, _of_field(e.postings, only)) for e in entries]

    def _documents(self, found: Postings) -> frozenset[int]:
        numbers = {p >> DOCUMENT_BITS for _, postings in found for p in postings}
        return self.pool.numbers & numbers

    def _common(self, several: Iterable[Postings]) -> list[int]:
        """Fields, as postings without their count, that all of these may occur in.

        The rarest come first; when few fields are left, the rest is for the reader.
        """
        ordered = sorted(several, key=lambda found: sum(len(postings) for _, postings in found))
        first, *others = ordered
        keys = {p >> COUNT_BITS for _, postings in first for p in postings}
        for found in others:
            if len(keys) * _LOOK_OR_READ < sum(len(postings) for _, postings in found):
                break
            keys &= {p >> COUNT_BITS for _, postings in found for p in postings}
        return sorted(keys)

    def _texts(
        self, places: Iterable[int], index: Index
    ) -> Iterator[tuple[int, int, Callable[[], str]]]:
        """Key, document and what gives the text of each of these fields."""
        for key in places:
            number, place = key >> DOCUMENT_BITS - COUNT_BITS, field_of(key << COUNT_BITS)
            if number in self.pool.numbers:
                record = self.pool.documents[number].record
                if place == EXTRA:
                    yield key, number, partial(as_text, record.value(index.name))
                else:
                    yield key, number, partial(text_of_field, record, place)

    # --- scoring ----------------------------------------------------------------------------------

    def _frequencies(self, leaf: Leaf, wanted: frozenset[int]) -> Mapping[int, float]:
        """Tf of the leaf in each wanted document that has it."""
        graded = _graded(leaf.found, wanted)
        frequencies: dict[int, float] = {}
        shares, lengths = self.pool.shares(leaf.index), leaf.index.lengths
        documents = self.pool.documents
        for key in sorted(graded):  # sums of floats depend on their order
            number, place = key >> DOCUMENT_BITS - COUNT_BITS, key & FIELD_MASK
            weight, base, slope = shares[documents[number].kind][place]
            one = graded[key] * weight / (base + slope * lengths[place][number])
            frequencies[number] = frequencies.get(number, 0.0) + one
        return frequencies

    # --- windows ----------------------------------------------------------------------------------

    def near(self, terms: Sequence[str], max_distance: int) -> frozenset[int]:
        """The candidates with every term, in one field, near one place of the first.

        At most ``max_distance`` words stand between the two.
        """
        patterns = [pattern_of(term, self.max_distance) for term in terms]
        index = self.pool.index
        places = self._common([self._postings(pattern, index, None) for pattern in patterns])
        return frozenset(
            number
            for _, number, text in self._texts(places, index)
            if _are_near(patterns, max_distance, normalized(text()))
        )


def _of_field(postings: Sequence[int], only: int | None) -> Sequence[int]:
    return postings if only is None else [p for p in postings if field_of(p) == only]


def _graded(found: Postings, wanted: frozenset[int]) -> dict[int, float]:
    """For each field of these documents the grades of its best occurrences, summed up."""
    taken: dict[int, int] = {}
    graded: dict[int, float] = {}
    for place, grade in enumerate(GRADES):
        for counts, postings in found:
            times = counts[place]
            if not times:
                continue
            for p in postings:
                if p >> DOCUMENT_BITS in wanted:
                    key, more = p >> COUNT_BITS, times * (p & COUNT_MASK)
                    before = taken.get(key)
                    if before is None:
                        taken[key] = more = min(more, MAX_OCCURRENCES)
                        graded[key] = grade * more
                    elif before < MAX_OCCURRENCES:
                        more = min(more, MAX_OCCURRENCES - before)
                        taken[key] = before + more
                        graded[key] += grade * more
    return graded


def _has_pairs(words: Sequence[str]) -> bool:
    """Whether a word is of several pairs of characters that stand for words."""
    return any(is_cjk(part) for word in words for part in cached_word(word).sequence[1:])


def _occurrences(wanted: Sequence[str], words: list[str]) -> int:
    """How often the wanted words follow one another."""
    first, size, rest = wanted[0], len(wanted), list(wanted[1:])
    count = place = 0
    try:
        while True:
            place = words.index(first, place) + 1
            count += words[place : place + size - 1] == rest
    except ValueError:
        return count


def _are_near(patterns: Sequence[Pattern], max_distance: int, text: str) -> bool:
    places: list[list[int]] = [[] for _ in patterns]
    position = 0
    for name in identifiers(text):
        word = cached_word(name)
        for number, pattern in enumerate(patterns):
            if any(pattern.counts(word)):
                places[number].append(position)
        position += len(word.runs)
    return any(
        all(any(abs(place - start) <= max_distance + 1 for place in other) for other in places[1:])
        for start in places[0]
    )
