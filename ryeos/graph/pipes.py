"""Pipes: what ``${value | name:argument}`` can do with a value. Pure.

A pipe raises PipeError for a value that it is not made for. No pipe is applied to None but
those that say something about it: ``length``, ``default`` and ``sh``.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from lillux.canonical_json import CanonicalJsonError, require_json
from lillux.values import dataclass

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]+)?")
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "nothing"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a text"),
    ((list, tuple), "a list"),
    (Mapping, "a mapping"),
)
_SHOWN_VALUE = 60


class PipeError(ValueError):
    """A pipe was given a value it cannot work on; its words say what it expected and found."""


class Argument(Enum):
    """True if a pipe has something behind a colon."""

    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Pipe:
    """One pipe. ``apply`` takes the value and the argument, None where it has none."""

    apply: Callable[[Any, Any], Any]
    argument: Argument = Argument.NONE
    sees_none: bool = False


def text_of(value: object) -> str:
    """A value as it stands inside a longer text: Python's `str`, nothing for None.

    Raises PipeError for what has no text (nested too deeply, a number of thousands of digits).
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return str(value)
    except (ValueError, RecursionError) as error:
        raise PipeError(f"cannot be written as text: {error}") from error


def kind_of(value: object) -> str:
    """The type of a value, as a person calls it."""
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return type(value).__name__


def is_number(value: object) -> bool:
    """True if a value is a number; true and false are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_in(text: str) -> int | float | None:
    """The number that a text is, blanks around it aside, or None; never infinite."""
    text = text.strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else None
    return None


def _json(value: Any, _: Any) -> str:  # noqa: ANN401
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError) as error:
        raise PipeError(f"cannot be written as JSON: {error}") from error


def _from_json(value: Any, _: Any) -> Any:  # noqa: ANN401
    """The value of a text; what is no text has been read already."""
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
        require_json(parsed)
    except (ValueError, RecursionError, CanonicalJsonError) as error:
        raise PipeError(f"expected JSON, found {value[:_SHOWN_VALUE]!r} ({error})") from error
    return parsed


def _length(value: Any, _: Any) -> int:  # noqa: ANN401
    if value is None:
        return 0
    if isinstance(value, (str, list, tuple, Mapping)):
        return len(value)
    raise PipeError(f"expected a text, a list or a mapping, found {kind_of(value)}")


def _keys(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    return list(value) if isinstance(value, Mapping) else []


def _values(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    return list(value.values()) if isinstance(value, Mapping) else []


def _items(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(value, Mapping):
        return []
    return [{"key": key, "value": entry} for key, entry in value.items()]


def _list(value: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(value, (list, tuple)):
        raise PipeError(f"expected a list, found {kind_of(value)}")
    return list(value)


def _first(value: Any, _: Any) -> Any:  # noqa: ANN401
    return next(iter(_list(value)), None)


def _last(value: Any, _: Any) -> Any:  # noqa: ANN401
    return next(iter(_list(value)[-1:]), None)


def _join(value: Any, separator: Any) -> str:  # noqa: ANN401
    return text_of(separator).join(map(text_of, _list(value)))


def _sum(value: Any, _: Any) -> Any:  # noqa: ANN401
    numbers = _list(value)
    for number in numbers:
        if not is_number(number):
            raise PipeError(f"expected a list of numbers, found {kind_of(number)} in it")
    try:
        total = sum(numbers)
    except OverflowError as error:
        raise PipeError(f"expected numbers that can be added: {error}") from error
    if not -float("inf") < total < float("inf"):
        raise PipeError("expected numbers with a finite sum")
    return total


def _sort(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    entries = _list(value)
    if all(map(is_number, entries)) or all(isinstance(entry, str) for entry in entries):
        return sorted(entries)
    kinds = sorted({kind_of(entry) for entry in entries})
    raise PipeError(f"expected only numbers or only texts, found {', '.join(kinds)}")


def _int(value: Any, _: Any) -> int:  # noqa: ANN401
    """Text of a whole number, or any number without what is behind its point."""
    number = _number(value, _WHOLE_NUMBER, "a whole number")
    return int(number)


def _float(value: Any, _: Any) -> float:  # noqa: ANN401
    number = _number(value, _NUMBER, "a number")
    try:
        return float(number)
    except OverflowError as error:
        raise PipeError("expected a number within the range of float") from error


def _number(value: Any, form: re.Pattern[str], expected: str) -> Any:  # noqa: ANN401
    """A finite number, whose text has the form."""
    number = value
    if isinstance(value, str):
        number = number_in(value) if form.fullmatch(value.strip()) else None
    if isinstance(number, (int, float)) and -float("inf") < number < float("inf"):
        return number
    found = repr(value[:_SHOWN_VALUE]) if isinstance(value, str) else kind_of(value)
    raise PipeError(f"expected {expected}, found {found}")


def _sh(value: Any, _: Any) -> str:  # noqa: ANN401
    """One word for a POSIX shell; the words of a list; ``''`` for nothing, so that it stays one."""
    import shlex

    words = [text_of(entry) for entry in value] if isinstance(value, (list, tuple)) else None
    quoted = " ".join(map(shlex.quote, [text_of(value)] if words is None else words))
    if "\0" in quoted:
        raise PipeError("expected text that a shell can hold, found a NUL in it")
    return quoted


def _b64(value: Any, _: Any) -> str:  # noqa: ANN401
    import base64

    try:
        return base64.b64encode(text_of(value).encode()).decode("ascii")
    except UnicodeEncodeError as error:
        raise PipeError(f"expected text that UTF-8 can hold ({error.reason})") from error


PIPES: Mapping[str, Pipe] = {
    "json": Pipe(_json),
    "from_json": Pipe(_from_json),
    "length": Pipe(_length, sees_none=True),
    "keys": Pipe(_keys),
    "values": Pipe(_values),
    "items": Pipe(_items),
    "first": Pipe(_first),
    "last": Pipe(_last),
    "join": Pipe(_join, Argument.REQUIRED),
    "sum": Pipe(_sum),
    "sort": Pipe(_sort),
    "upper": Pipe(lambda value, _: text_of(value).upper()),
    "lower": Pipe(lambda value, _: text_of(value).lower()),
    "trim": Pipe(lambda value, _: text_of(value).strip()),
    "str": Pipe(lambda value, _: text_of(value)),
    "int": Pipe(_int),
    "float": Pipe(_float),
    "sh": Pipe(_sh, sees_none=True),
    "b64": Pipe(_b64),
    "default": Pipe(
        lambda value, instead: instead if value is None else value,
        Argument.REQUIRED,
        sees_none=True,
    ),
}
