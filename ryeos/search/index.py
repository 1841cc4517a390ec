"""The inverted index: for each word the documents and fields that have it, and how often. Pure.

A posting is one number: the document's, the field's (3 bits), the count (4 bits, at most
`MAX_OCCURRENCES`). Documents are numbers that are never used twice, so that a changed file is a new
document and its old postings are dead until the index is made anew.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lillux.values import dataclass
from ryeos.search.query import FIELDS
from ryeos.search.words import Word, cached_word, count_runs, identifiers, normalized, sequence

MAX_OCCURRENCES = 8
# Behind the fields that are always searched: any other one, in an index of its own.
EXTRA = len(FIELDS)
COUNT_BITS, DOCUMENT_BITS = 4, 7
COUNT_MASK, FIELD_MASK = 15, 7
_BREAK = "\n"
_MAX_KEPT_PARTS = 2_000_000


@dataclass(frozen=True, slots=True)
class Entry:
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
        for field, text in fields:
            base, length = document << DOCUMENT_BITS | field << COUNT_BITS, 0
            for written, count in Counter(identifiers(normalized(text))).items():
                place = places.get(written)
                if place is None:
                    place = self._new_place(written)
                # As `posting`, which is too much of a call for a million times.
                postings[place].append(base | (min(MAX_OCCURRENCES, count)))
                length += count * runs[place]
            lengths[field] = length
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

    def containing(self, pieces: Sequence[str]) -> Iterator[Entry]:
        """The words whose whole has one of the pieces in it; the empty piece is in all."""
        self._read_lines()
        places = sorted({place for piece in pieces for place in self._places_of(piece)})
        return (Entry(cached_word(self._written[n]), self._postings[n]) for n in places)

    def having(self, part: str) -> Iterator[Entry]:
        """The words that one of their parts is."""
        self._read_parts()
        for place in self._with_part.get(part, ()):
            yield Entry(cached_word(self._written[place]), self._postings[place])

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
