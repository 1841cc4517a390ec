"""Values of headers: limits, plain types, and the error of a header that cannot be read."""

import re
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import TypeAlias

from lillux.errors import LilluxError, as_word

_SHOWN_CHARACTERS = 60


class MetadataError(LilluxError):
    """A file's header cannot be read, so nothing is known about the item.

    parser    which format was expected: ``python``, ``yaml``, ``directive`` ...
    problem   what was expected and what was found
    line      where, counted from 1 in the text that was handed in; None when no line is to blame
    place     what the message starts with; ``<parser> header`` unless the caller knows better
    column    where in the line, counted from 1, as far as the parser says it
    path      the file, where the caller says it
    """

    code, exit_status = "PARSING_ERROR", 6
    path = ""

    def __init__(
        self,
        parser: str,
        problem: str,
        line: int | None = None,
        *,
        place: str = "",
        hint: str = "",
        column: int | None = None,
    ) -> None:
        self.parser, self.problem, self.line, self.column = parser, problem, line, column
        self.place = place or f"{parser} header"
        at = "" if line is None else f", line {line}"
        path = self.place.partition(": ")[0]
        fix = f", then sign it again: rye sign {as_word(path)}" if {*"/\\"} & {*path} else ""
        super().__init__(f"{self.place}{at}: {problem}", hint=hint or f"fix the file{fix}")


class PlacedMetadataError(MetadataError):
    """A header that cannot be read, at ``FILE:LINE:COLUMN`` as editors and CI read it.

    ``error`` is of that file and has a column.
    """

    def __init__(self, error: MetadataError, path: str) -> None:
        line, column = error.line, error.column
        super().__init__(
            error.parser, error.problem, line, place=error.place, hint=error.hint, column=column
        )
        part = error.place.removeprefix(path).removeprefix(": ") or f"{error.parser} header"
        self.args = (f"{path}:{line}:{column}: {part}: {error.problem}",)
        self.facts = {"line": line, "column": column}


def shown(text: str) -> str:
    """Text of the file as a message may show it: quoted, on one line, cut short."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
    return repr(cut)


_FEW = 4096


@lru_cache(maxsize=2)
def _line_ends(text: str) -> list[int]:
    """The ends of a text's lines: who asks for thousands of lines counts once."""
    return [match.start() for match in re.finditer("\n", text)]


def line_of(text: str, position: int) -> int:
    """The line, counted from 1, that a position of the text lies on."""
    if position < _FEW:
        return text.count("\n", 0, position) + 1
    from bisect import bisect_left

    return bisect_left(_line_ends(text), position) + 1


# The words that a comment can say about a file: ``@version 1.0.0`` is ``__version__``.

TAGS: Mapping[str, str] = {
    "name": "__name__",
    "version": "__version__",
    "tool_type": "__tool_type__",
    "executor_id": "__executor_id__",
    "category": "__category__",
    "description": "__tool_description__",
    "tool_description": "__tool_description__",
    "author": "__author__",
    "params_mode": "__params_mode__",
}
"""Tag -> the name that a constant of the same meaning has. Other words in comments are prose."""


def unquoted(words: str) -> str:
    """A value without the blanks around it and one pair of quotes."""
    value = words.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


# What a header can say: the values of JSON, whatever format they were written in.
#
# Every parser hands its values through `plain_value`, so that all readers of headers get the same
# few types and can print, hash and copy them without care.

PlainValue: TypeAlias = "bool | int | float | str | list[PlainValue] | dict[str, PlainValue] | None"

MAX_HEADER_BYTES = 1024 * 1024
"""The longest text that any parser reads, in UTF-8; hand-written items are a hundredth of it."""

MAX_DEPTH = 64
"""Levels of nesting; a deep JSON Schema has about twenty."""

MAX_INTEGER_BITS = 1024
"""The size of a whole number; beyond it no float can hold it and few readers of JSON can."""


class UnreadableValueError(Exception):
    """A value that no header can hold; inside this package only, the parser decides what it means.

    ``position`` is its place in the text, where the parser knows it.
    """

    def __init__(self, problem: str, position: int | None = None) -> None:
        self.problem, self.position = problem, position
        super().__init__(problem)


def require_parsable_text(parser: str, text: str, place: str = "") -> None:
    """Refuse a text that no parser should get.

    Raises MetadataError for a text over `MAX_HEADER_BYTES`, a NUL or half a surrogate pair, which
    the parsers below us answer in as many ways as there are parsers.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = line_of(text, error.start)
        raise MetadataError(
            parser, "expected Unicode text, found half a surrogate pair", line, place=place
        ) from error
    if size > MAX_HEADER_BYTES:
        raise MetadataError(
            parser, f"expected at most {MAX_HEADER_BYTES} bytes, found {size}", place=place
        )
    nul = text.find("\0")
    if nul >= 0:
        raise MetadataError(
            parser, "expected text, found a NUL character", line_of(text, nul), place=place
        )


def plain_value(value: object) -> PlainValue:
    """A fresh copy made of JSON's types: tuples become lists, dates their RFC 3339 text.

    Raises UnreadableValueError for anything else, for nesting beyond `MAX_DEPTH`, and for a value
    that shares its parts so often that the copy would be larger than a header may be.
    """
    return _Copier().copy(value, depth=0)


class _Copier:
    """Copies one value and counts its characters on the way."""

    def __init__(self) -> None:
        self._characters = 0

    def copy(self, value: object, depth: int) -> PlainValue:
        self._grow(1)
        match value:
            case None | bool():
                return value
            case int():
                return _bounded_integer(value)
            case float():
                return _finite_number(value)
            case str():
                self._grow(len(value))
                return _unicode_text(value)
            case list() | tuple() | dict():
                return self._collection(value, depth)
            case _:
                return _date_text(value)

    def _collection(
        self, value: list[object] | tuple[object, ...] | dict[object, object], depth: int
    ) -> PlainValue:
        if depth >= MAX_DEPTH:
            raise UnreadableValueError(
                f"expected at most {MAX_DEPTH} levels of nesting, found more"
            )
        if isinstance(value, dict):
            return {self._key(key): self.copy(entry, depth + 1) for key, entry in value.items()}
        return [self.copy(entry, depth + 1) for entry in value]

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise UnreadableValueError(f"expected a string key, found {type(key).__name__}")
        self._grow(len(key))
        return _unicode_text(key)

    def _grow(self, characters: int) -> None:
        self._characters += characters
        if self._characters > MAX_HEADER_BYTES:
            raise UnreadableValueError(
                f"expected at most {MAX_HEADER_BYTES} characters of values, found more"
            )


def _bounded_integer(value: int) -> int:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise UnreadableValueError(
            f"expected a number of at most {MAX_INTEGER_BITS} bits, found {value.bit_length()}"
        )
    return value


def _finite_number(value: float) -> float:
    if not isfinite(value):
        raise UnreadableValueError(f"expected a finite number, found {value}")
    return value


def _unicode_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnreadableValueError(
                f"expected Unicode text, found half a surrogate pair in {shown(value)}"
            ) from None
    return value


def _date_text(value: object) -> str:
    # Asked for by its method: naming the class would load datetime for formats without dates.
    isoformat = getattr(value, "isoformat", None)
    if isoformat is None:
        raise UnreadableValueError(f"expected a value of JSON, found {type(value).__name__}")
    text = str(isoformat())
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
