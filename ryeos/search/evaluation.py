"""Evaluation of a query: the candidates that match, and how well, by BM25F. Pure.

tf(t, d)  the sum over fields of weight x grades / (1 - b + b x length / average length)
idf(t)    ln(1 + (N - n + 0.5) / (n + 0.5)), n candidates out of N have t
score     the mean of tf / (1.2 + tf) over the terms that may match, weighted by idf: 0 to 1

Lengths are compared to those of the candidates of the same kind. At most 8 occurrences of a term
in a field count, the best ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import log

from lillux.values import dataclass, field
from ryeos.search.grades import GRADES, Counts, Pattern, pattern_of
from ryeos.search.index import (
    COUNT_BITS,
    COUNT_MASK,
    DOCUMENT_BITS,
    EXTRA,
    FIELD_MASK,
    MAX_OCCURRENCES,
    Index,
    field_of,
    posting,
)
from ryeos.search.pools import ID, Pool, text_of_field
from ryeos.search.query import FIELDS, And, InField, NotQuery, Or, Phrase, QueryNode, Term
from ryeos.search.records import as_text
from ryeos.search.words import cached_word, identifiers, is_cjk, normalized, sequence

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
    """True if a word is of several pairs of characters that stand for words."""
    return any(is_cjk(part) for word in words for part in cached_word(word).sequence[1:])


def _occurrences(wanted: Sequence[str], words: list[str]) -> int:
    """Number of places where the wanted words follow one another."""
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
