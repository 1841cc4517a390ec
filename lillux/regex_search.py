"""Search by a regular expression that ends in time, whatever the text is. Pure.

`re` goes back and tries again, for some patterns and texts until the end of days. Where that
could take long, a machine that is in all its states at once reads the text, each character once.
"""

import re
from functools import lru_cache

from lillux.regex_syntax import (
    MAX_STATES,
    Alternatives,
    Character,
    PatternError,
    PlaceMatch,
    RegexNode,
    Repeat,
    Sequence,
    parse_pattern,
)
from lillux.values import dataclass

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
    """True if the pattern is anywhere in the text. Raises TextTooLongError."""
    if pattern.simple and tries(pattern, len(text)) <= _MAX_TRIES:
        return pattern.whole.search(text) is not None
    if len(text) * len(pattern.states) > _MAX_STEPS:
        longest = _MAX_STEPS // len(pattern.states)
        raise TextTooLongError(
            f"expected a text of at most {longest} characters for this pattern, found {len(text)}"
        )
    return _search_all_at_once(pattern.states, text)


def tries(pattern: SearchPattern, length: int) -> int:
    """Most places that `re` may look at in a text of so many characters."""
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
    """States that may read the next character, or None when the end was reached."""
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
    """Number of repeats without an end, and of the ways in which all else can match."""
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
