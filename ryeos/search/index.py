"""Inverted index of items.

A posting is one number: the document's, the field's (3 bits), the count (4 bits, at most
`MAX_OCCURRENCES`). Documents are numbers that are not used twice, so that a changed file is a new
document and its old postings are dead until the index is packed.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from lillux.values import dataclass
from ryeos.search.query import FIELDS
from ryeos.search.words import Word, cached_word, count_runs, identifiers, normalized, sequence

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
        """True if no document has a word in it."""
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
