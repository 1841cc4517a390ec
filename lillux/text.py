"""Text: edit distance, and regular expressions that do a bounded amount of work."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from lillux.patterns import pattern as late_pattern
from lillux.values import dataclass

# --- edit distance --------------------------------------------------------------------------------


_LONGEST_WORD = 80


def edit_distance(first: str, second: str, limit: int, *, swap_cost: int = 1) -> int:
    """Letters to insert, delete, replace or swap with a neighbour; ``limit + 1`` for more.

    A swap of neighbours counts ``swap_cost``: 1 is the distance of Damerau and Levenshtein (no
    letter is touched twice), 2 is that of Levenshtein.
    """
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        two_before, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                best = min(best, two_before[j - 2] + swap_cost)
            row.append(best)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def likely_meant(typed: str, known: Iterable[str]) -> str:
    """The known word that was meant, with at most a third of its letters wrong; else ``""``."""
    limit = max(len(typed[:_LONGEST_WORD]) // 3, 1)
    distances = {word: edit_distance(typed[:_LONGEST_WORD], word, limit) for word in known}
    near = min(distances, key=lambda word: distances[word], default="")
    return near if near and distances[near] <= limit else ""


# --- regex parts ----------------------------------------------------------------------------------
# The structure of a regular expression: its characters, choices and repeats. Pure.
#
# Only what a machine without memory can match is read. References back to groups, looking ahead or
# behind, atomic groups and possessive repeats are refused.

MAX_STATES = 1000
_MAX_GROUPS_INSIDE = 30

_FLAGS = late_pattern(r"\(\?([aims]+)\)")
_GROUP = late_pattern(r"\((?:\?(?:P<[^>]*>|([aims]*):))?(?!\?)")
_REPEAT = late_pattern(r"(?P<mark>[*+?])|\{(?=[0-9,])(?P<low>[0-9]*)(?P<more>,)?(?P<high>[0-9]*)\}")
_CLASS = late_pattern(r"\[\^?\]?[^\]\\]*+(?:\\.[^\]\\]*+)*\]", re.DOTALL)
_ESCAPE = late_pattern(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[^0-9xuUN])",
    re.DOTALL,
)
# What Python announces to read otherwise one day.
_AMBIGUOUS_CLASS = late_pattern(r"^\[\^?\[|--|&&|\|\||~~")
_PLACES = frozenset({"^", "$", r"\A", r"\Z", r"\b", r"\B"})


class PatternError(ValueError):
    """A text that is no pattern, or one of a kind that is not read; its words say why."""


@dataclass(frozen=True, slots=True)
class Character:
    """One character, tested by a small pattern of its own."""

    test: "re.Pattern[str]"


@dataclass(frozen=True, slots=True)
class PlaceMatch:
    """Between two characters: a beginning, an end, an edge of a word."""

    test: "re.Pattern[str]"


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: "tuple[RegexNode, ...]"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One of several."""

    options: "tuple[RegexNode, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part from ``low`` to ``high`` times, None without end."""

    part: "RegexNode"
    low: int
    high: int | None


RegexNode: TypeAlias = Character | PlaceMatch | Sequence | Alternatives | Repeat


def parse_pattern(pattern: str) -> RegexNode:
    """The structure of a pattern. Raises PatternError."""
    start = _FLAGS.match(pattern)
    reader = _Reader(pattern, start.end() if start else 0)
    node = reader.choice(_flags(start[1]) if start else re.NOFLAG)
    if reader.place < len(pattern):
        raise PatternError("found ) without (")
    return node


def _flags(letters: str) -> re.RegexFlag:
    flags = re.NOFLAG
    for letter in letters:
        flags |= re.RegexFlag[letter.upper()]
    return flags


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, place: int) -> None:
        self.pattern, self.place, self._depth = pattern, place, 0

    def choice(self, flags: re.RegexFlag) -> RegexNode:
        """Everything up to the end or a closing parenthesis."""
        options = [self._sequence(flags)]
        while self._next() == "|":
            self.place += 1
            options.append(self._sequence(flags))
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _next(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _sequence(self, flags: re.RegexFlag) -> RegexNode:
        parts = []
        while self._next() not in {"", "|", ")"}:
            parts.append(self._repeated(self._single(flags)))
        return Sequence(tuple(parts))

    def _single(self, flags: re.RegexFlag) -> RegexNode:
        match self._next():
            case "(":
                return self._group(flags)
            case "[":
                source = self._take(_CLASS, "[ without ]")
                if _AMBIGUOUS_CLASS.search(source):
                    raise PatternError(f"escape with \\ what is doubled or nested in {source[:40]}")
            case "\\":
                source = self._take(_ESCAPE, f"{self.pattern[self.place :][:2]}, which is not read")
            case "*" | "+" | "?":
                raise PatternError(f"found nothing to repeat before {self._next()}")
            case source:
                self.place += 1
        test = _compiled(re.escape(source) if source in {"{", "}", "]"} else source, flags)
        return PlaceMatch(test) if source in _PLACES else Character(test)

    def _take(self, form: "re.Pattern[str]", found: str) -> str:
        match = form.match(self.pattern, self.place)
        if match is None:
            raise PatternError(f"found {found}")
        self.place = match.end()
        return match.group()

    def _group(self, flags: re.RegexFlag) -> RegexNode:
        opening = _GROUP.match(self.pattern, self.place)
        if opening is None:
            raise PatternError(
                f"found {self.pattern[self.place :][:4]}, which is not read: looking around,"
                " going back to groups and atomic groups are left out"
            )
        self._depth += 1
        if self._depth > _MAX_GROUPS_INSIDE:
            raise PatternError(f"expected at most {_MAX_GROUPS_INSIDE} groups inside each other")
        self.place = opening.end()
        inner = self.choice(flags | _flags(opening[1] or ""))
        if self._next() != ")":
            raise PatternError("found ( without )")
        self.place += 1
        self._depth -= 1
        return inner

    def _repeated(self, part: RegexNode) -> RegexNode:
        match = _REPEAT.match(self.pattern, self.place)
        if match is None:
            return part
        self.place = match.end()
        if self._next() == "+":
            raise PatternError(f"found {match.group()}+, which is not read: repeats may go back")
        if self._next() == "?":  # whether a repeat is greedy is nothing to a search for yes or no
            self.place += 1
        if _REPEAT.match(self.pattern, self.place):
            raise PatternError("found a repeat of a repeat, expected parentheses between")
        return Repeat(part, *_bounds(match))


def _bounds(match: "re.Match[str]") -> tuple[int, int | None]:
    if match["mark"]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[match["mark"]]
    limits = [match["low"] or "0", match["high"] or "0"]
    if any(len(limit) > len(str(MAX_STATES)) for limit in limits):
        raise PatternError(f"found {match.group()[:40]}, expected at most {MAX_STATES}")
    low, high = map(int, limits)
    if not match["more"]:
        return low, low
    return low, high if match["high"] else None


def _compiled(source: str, flags: re.RegexFlag) -> "re.Pattern[str]":
    try:
        return re.compile(source, flags)
    except (re.error, OverflowError, ValueError) as error:
        raise PatternError(f"{source[:40]}: {error}") from error


# --- regex search ---------------------------------------------------------------------------------
# A search for a pattern that ends in time, whatever the text is. Pure.
#
# `re` goes back and tries again, for some patterns and texts until the end of days. Where that
# could take long, a machine that is in all its states at once reads the text, each character once.

# About 0.1 s of `re` and 5 s of the machine, each at its worst.
_MAX_TRIES = 10_000_000
_MAX_STEPS = 10_000_000
_MAX_PATTERN_CHARS = 1000
_CACHED_PATTERNS = 512


class TextTooLongError(ValueError):
    """A text that this pattern cannot be searched for in reasonable time."""


@dataclass(frozen=True, slots=True)
class _State:
    """Reads a character, or looks at a place, or (both None) is free; then goes to each next."""

    character: "re.Pattern[str] | None"
    place: "re.Pattern[str] | None"
    next: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPattern:
    """A pattern that was read; make one with `compile_pattern`.

    repeats  parts repeated an open number of times: for `re` each is a factor, the text's length
    ways     in how many ways all the other parts can match: a factor for `re` too
    simple   no choice stands inside a repeat
    """

    whole: "re.Pattern[str]"
    states: tuple[_State, ...]
    repeats: int
    ways: int
    simple: bool


@lru_cache(maxsize=_CACHED_PATTERNS)
def compile_pattern(pattern: str) -> SearchPattern:
    """A pattern of Python's `re`, without what needs going back. Raises PatternError."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise PatternError(f"expected at most {_MAX_PATTERN_CHARS} characters")
    node = parse_pattern(pattern)
    try:
        whole = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error)) from error
    states = [_State(None, None, [1])]
    _append(node, states)
    repeats, ways = _choices(node)
    return SearchPattern(
        whole=whole, states=tuple(states), repeats=repeats, ways=ways, simple=_is_simple(node)
    )


def search(pattern: SearchPattern, text: str) -> bool:
    """Whether the pattern is anywhere in the text. Raises TextTooLongError."""
    if pattern.simple and tries(pattern, len(text)) <= _MAX_TRIES:
        return pattern.whole.search(text) is not None
    if len(text) * len(pattern.states) > _MAX_STEPS:
        longest = _MAX_STEPS // len(pattern.states)
        raise TextTooLongError(
            f"expected a text of at most {longest} characters for this pattern, found {len(text)}"
        )
    return _search_all_at_once(pattern.states, text)


def tries(pattern: SearchPattern, length: int) -> int:
    """How many places `re` may look at, at most, in a text of so many characters."""
    return int((length + 1) ** (pattern.repeats + 1)) * pattern.ways


def _search_all_at_once(states: tuple[_State, ...], text: str) -> bool:
    here: set[int] = set()
    for place in range(len(text) + 1):
        here.add(0)  # a match may begin anywhere
        reading = _reading(states, here, text, place)
        if reading is None:
            return True
        if place < len(text):
            letter = text[place]
            here = {
                following for test, nexts in reading if test.match(letter) for following in nexts
            }
    return False


def _reading(
    states: tuple[_State, ...], here: set[int], text: str, place: int
) -> "list[tuple[re.Pattern[str], list[int]]] | None":
    """What may read the next character, or None when the end was reached."""
    reading = []
    waiting, seen = list(here), set(here)
    while waiting:
        index = waiting.pop()
        if index == len(states):
            return None
        state = states[index]
        if state.character:
            reading.append((state.character, state.next))
        elif state.place is None or state.place.match(text, place):
            new = [following for following in state.next if following not in seen]
            seen.update(new)
            waiting += new
    return reading


def _append(node: RegexNode, states: list[_State]) -> None:
    """Append the states of a part; who comes to the first of them leaves behind the last."""
    if len(states) > MAX_STATES:
        raise PatternError(f"expected a pattern of at most {MAX_STATES} steps, repeats counted")
    end = len(states)
    match node:
        case Character(test):
            states.append(_State(test, None, [end + 1]))
        case PlaceMatch(test):
            states.append(_State(None, test, [end + 1]))
        case Sequence(parts):
            for part in parts:
                _append(part, states)
        case Alternatives(options):
            _append_choice(options, states)
        case Repeat(part, low, high):
            _append_repeat(part, low, high, states)


def _append_choice(options: tuple[RegexNode, ...], states: list[_State]) -> None:
    fork = _State(None, None, [])
    states.append(fork)
    ends = []
    for option in options:
        fork.next.append(len(states))
        _append(option, states)
        leave = _State(None, None, [])
        ends.append(leave)
        states.append(leave)
    for leave in ends:
        leave.next.append(len(states))


def _append_repeat(part: RegexNode, low: int, high: int | None, states: list[_State]) -> None:
    for _ in range(low):
        states.append(_State(None, None, [len(states) + 1]))  # so that nothing repeated counts too
        _append(part, states)
    if high is None:
        fork = _State(None, None, [len(states) + 1])
        back = len(states)
        states.append(fork)
        _append(part, states)
        states.append(_State(None, None, [back]))
        fork.next.append(len(states))
        return
    forks = []
    for _ in range(high - low):
        forks.append(_State(None, None, [len(states) + 1]))
        states.append(forks[-1])
        _append(part, states)
    for fork in forks:
        fork.next.append(len(states))


def _choices(node: RegexNode) -> tuple[int, int]:
    """How many repeats of an open number there are, and in how many ways all else can match."""
    repeats, ways = 0, 1
    for part in _parts(node):
        match part:
            case Repeat(_, low, high) if (low, high) == (0, 1):
                ways *= 2
            case Repeat(_, low, high) if low != high:
                repeats += 1
            case Alternatives(options):
                ways *= len(options)
            case _:
                pass
    return repeats, ways


def _is_simple(node: RegexNode) -> bool:
    return not any(
        isinstance(part, Repeat)
        and part.high not in {0, 1}
        and any(
            isinstance(inner, Alternatives)
            or (isinstance(inner, Repeat) and inner.low != inner.high)
            for inner in _parts(part.part)
        )
        for part in _parts(node)
    )


def _parts(node: RegexNode) -> list[RegexNode]:
    """A part with everything inside it."""
    match node:
        case Sequence(inner) | Alternatives(inner):
            return [node, *(part for one in inner for part in _parts(one))]
        case Repeat(part, _, _):
            return [node, *_parts(part)]
        case _:
            return [node]
