"""Finding items by words: a score from 0 to 1 for each item. Pure but for `read_records`.

A query is words; an item matches when every word occurs in one of its fields. Comparing ignores
case and compatible forms of characters (NFKC). How well a word fits a field:

1.0   it stands there as a word
0.6   a word begins with it (words of ASCII: from 3 characters)
0.3   it stands inside a word (words of ASCII: from 4 characters)

That times the weight of the field (title and name 1, id 5/6, description and tags 2/3, category
1/2, content 1/3) is what the word scores, in the field where it scores most. The item scores the
mean over all words, and 1 when the whole query is its id or name. An empty query, or ``*``, matches
everything with 1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.values import dataclass, field
from ryeos.errors import UsageError
from ryeos.extractors import EXTRACTORS, extract
from ryeos.items import SYSTEM, ItemRef, Kind, Location, Space, Spaces, rank_of
from ryeos.resolver import check_inside, locations
from ryeos.sign_targets import SKIPPED_FILES
from ryeos.signature import (
    DETACHED_SUFFIXES,
    SignedText,
    content_hash,
    decode,
    detached_path,
    form_for,
    hashed_text,
    parse_core,
    split,
)
from ryeos.verify import MAX_DETACHED_BYTES, Verifier

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
MAX_TERMS = 32
MAX_OCCURRENCES = 1000
PREVIEW_CHARACTERS = 160

_WORD, _WORD_START, _INSIDE_WORD = 1.0, 0.6, 0.3
_SHORTEST_START, _SHORTEST_INSIDE = 3, 4
_FURTHER_FIELDS: Mapping[str, float] = {"id": 2.5, "tags": 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a search knows about an item file.

    content      the text without signature lines
    signed       it has a signature line, and the hash in it is that of the text
    shadows      the spaces whose item of the same id this one hides
    shadowed_by  the space whose item hides this one, ``""`` for none
    """

    location: Location
    title: str = ""
    description: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    content: str = field(default="", repr=False)
    signed: bool = False
    shadows: tuple[str, ...] = ()
    shadowed_by: str = ""

    def fields(self) -> Iterator[tuple[str, str]]:
        """The searched fields by name, as they are written."""
        ref = self.location.ref
        yield "id", ref.id
        yield "name", ref.name
        yield "category", ref.category
        yield "title", self.title
        yield "description", self.description
        yield "tags", " ".join(self.tags)
        yield "content", self.content


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that matches, and how well."""

    record: Record
    score: float


@dataclass(frozen=True, slots=True)
class Query:
    """The words to look for, normalised, and the whole text. No words match everything."""

    terms: tuple[str, ...]
    text: str


# --- scoring --------------------------------------------------------------------------------------


def parse_query(text: str) -> Query:
    """The words of a query. Raises UsageError for more than `MAX_TERMS`."""
    words = tuple(dict.fromkeys(_normalized(text).split()))
    terms = tuple(word for word in words if word != "*")
    if len(terms) > MAX_TERMS:
        raise UsageError(f"query: expected at most {MAX_TERMS} words, found {len(terms)}")
    return Query(terms, " ".join(terms))


def search(query: Query, records: Iterable[Record]) -> list[Hit]:
    """The records that match, best first; equals by space, kind and id."""
    scored = (Hit(record, score(query, record)) for record in records)
    return sorted((hit for hit in scored if hit.score > 0), key=_order)


def score(query: Query, record: Record) -> float:
    """How well a record fits, from 0 (not at all) to 1, to four places."""
    ref = record.location.ref
    if not query.terms or query.text in {_normalized(ref.id), _normalized(ref.name)}:
        return 1.0
    weights = {**EXTRACTORS[ref.kind].search_fields, **_FURTHER_FIELDS}
    heaviest = max(weights.values())
    fields = [(weights.get(n, 0.0) / heaviest, _normalized(text)) for n, text in record.fields()]
    best = [max(weight * _grade(term, text) for weight, text in fields) for term in query.terms]
    return round(sum(best) / len(best), 4) if all(best) else 0.0


def _normalized(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _grade(term: str, text: str) -> float:
    """The best fit of a term among the first places where a text has it."""
    best, start = 0.0, -1
    for _ in range(MAX_OCCURRENCES):
        start = text.find(term, start + 1)
        if start < 0 or best == _WORD:
            break
        best = max(best, _grade_at(term, text, start))
    return best


def _grade_at(term: str, text: str, start: int) -> float:
    end = start + len(term)
    begins = start == 0 or not (text[start - 1].isalnum() and term[0].isalnum())
    ends = end == len(text) or not (text[end].isalnum() and term[-1].isalnum())
    if begins and ends:
        return _WORD
    # Scripts without blanks between words have short words.
    if begins and (len(term) >= _SHORTEST_START or not term.isascii()):
        return _WORD_START
    return _INSIDE_WORD if len(term) >= _SHORTEST_INSIDE or not term.isascii() else 0.0


def _order(hit: Hit) -> tuple[float, int, int, str, str]:
    location = hit.record.location
    kind = tuple(Kind).index(location.ref.kind)
    return -hit.score, -rank_of(location.space.label), kind, location.ref.id, location.space.label


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Records:
    """What was read, and the files that could not be."""

    records: tuple[Record, ...]
    skipped: tuple[Location, ...]


def read_records(
    spaces: Spaces, kinds: Sequence[Kind], verifier: Verifier, *, tier: str = ""
) -> Records:
    """A record of every item of the kinds, in one tier or all; each file is read once.

    No signature is checked but the manifest's of a bundle: a search shows, it runs nothing. Files
    that are too large, or whose header cannot be read, are skipped.
    """
    holders = _holders(spaces, kinds)
    records: list[Record] = []
    skipped: list[Location] = []
    for places in holders.values():
        for position, location in enumerate(places):
            if tier in {"", location.space.tier}:
                try:
                    records.append(_record(location, places, position, verifier))
                except (OSError, LilluxError):
                    skipped.append(location)
    return Records(tuple(records), tuple(skipped))


def preview(record: Record) -> str:
    """The first characters of an item's text, on one line, its header left out where it has one."""
    text = " ".join(_body(record).split())
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def _holders(spaces: Spaces, kinds: Sequence[Kind]) -> dict[ItemRef, list[Location]]:
    """The files of each item, the winner first; in one space only the suffix that wins."""
    holders: dict[ItemRef, list[Location]] = {}
    for space in spaces:
        for kind in kinds:
            for ref, location in _winners(space, kind).items():
                holders.setdefault(ref, []).append(location)
    return holders


def _winners(space: Space, kind: Kind) -> dict[ItemRef, Location]:
    winners: dict[ItemRef, Location] = {}
    for location in locations(space, kind):
        known = winners.get(location.ref)
        wins = known is None or _suffix_rank(location) < _suffix_rank(known)
        if wins and location.path.name not in SKIPPED_FILES:
            winners[location.ref] = location
    return winners


def _suffix_rank(location: Location) -> int:
    return location.ref.kind.suffixes.index(location.suffix)


def _record(
    location: Location, places: Sequence[Location], position: int, verifier: Verifier
) -> Record:
    content, header, signed = _read(location, verifier)
    return Record(
        location=location,
        title=_text(header.get("title")),
        description=_text(header.get("description")),
        version=_text(header.get("version")),
        tags=_tags(header.get("tags")),
        content=content,
        signed=signed,
        shadows=tuple(place.space.label for place in places[position + 1 :]),
        shadowed_by=places[0].space.label if position else "",
    )


def _read(location: Location, verifier: Verifier) -> tuple[str, Mapping[str, Any], bool]:
    """An item's text without signature lines, its header, and whether it is signed."""
    kind, suffix, where = location.ref.kind, location.suffix, str(location.path)
    if location.space.tier == SYSTEM:
        item = verifier.verify_location(location)
        data, header, is_signed = item.data, item.header, item.verified
        signed = split(decode(data, where), form_for(kind, suffix, where), where)
    else:
        if location.path.is_symlink():
            check_inside(location)
        data, header = read_bytes(location.path, MAX_SEARCHED_BYTES), None
        signed = split(decode(data, where), form_for(kind, suffix, where), where)
        is_signed = _is_signed(location, signed, data)
    text = signed.shebang + signed.body
    return text, header or extract(kind, suffix, text, where), is_signed


def _is_signed(location: Location, signed: SignedText, data: bytes) -> bool:
    if signed.signature:
        covered = content_hash(hashed_text(location.ref.kind, signed, str(location.path)))
        return signed.signature.content_hash == covered
    if location.suffix not in DETACHED_SUFFIXES:
        return False
    try:
        line = read_bytes(detached_path(location.path), MAX_DETACHED_BYTES).decode(
            "ascii", "replace"
        )
    except FileNotFoundError:
        return False
    beside = parse_core(line.strip())
    return beside is not None and beside.content_hash == sha256_hex(data)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    return tuple(map(_text, value)) if isinstance(value, list) else ()


def _body(record: Record) -> str:
    from ryeos.metadata.knowledge import parse_knowledge
    from ryeos.metadata.markdown import find_fence

    location = record.location
    if location.ref.kind is Kind.KNOWLEDGE:
        return parse_knowledge(record.content, location.suffix).body or record.content
    fence = find_fence(record.content, "xml") if location.ref.kind is Kind.DIRECTIVE else None
    return f"{fence.before} {fence.after}" if fence else record.content
