"""Syntax of regular expressions: characters, choices and repeats. Pure.

Only what a machine without memory can match is read. References back to groups, looking ahead or
behind, atomic groups and possessive repeats are refused.
"""

import re
from typing import TypeAlias

from lillux.patterns import pattern as late_pattern
from lillux.values import dataclass

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
