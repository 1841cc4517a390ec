"""Typed reads of one mapping, key by key: of configuration, headers and graphs.

`Fields.read` is the one rule: a key that is absent is None, a value of another type is handed to
``wrong``, which raises, or notes the problem and answers None. The other methods are that rule with
a type. A file of its own because every floor above reads its own format with it.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import isfinite
from typing import Any, TypeAlias


class Absent(Enum):
    """A key that is not there, where None is a value of its own."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

Wrong: TypeAlias = Callable[[str, str, Any], None]
"""Gets a key, what was expected, and the value that is there; raises, or notes the problem."""


class Fields:
    """One mapping. ``read_keys`` are the keys that were read.

    With ``null_is_absent`` a key that holds null is one that is not there; else null is a value of
    another type. ``text_word`` and ``mapping_word`` are what messages call these types.
    """

    text_word, mapping_word = "a string", "a mapping"
    null_is_absent = True

    def __init__(self, data: Mapping[str, Any], wrong: Wrong) -> None:
        self.data, self._wrong = data, wrong
        self.read_keys: set[str] = set()

    def value(self, key: str) -> Any:  # noqa: ANN401 - JSON passes through
        """The value as it is, `ABSENT` if the key is not there."""
        self.read_keys.add(key)
        value = self.data.get(key, ABSENT)
        return ABSENT if value is None and self.null_is_absent else value

    def any(self, key: str) -> Any:  # noqa: ANN401 - JSON passes through
        """The value as it is, or None."""
        value = self.value(key)
        return None if value is ABSENT else value

    def read(self, key: str, fits: Callable[[Any], object], expected: str) -> Any:  # noqa: ANN401
        """The value if it fits, or None."""
        value = self.value(key)
        if value is ABSENT:
            return None
        if fits(value):
            return value
        self._wrong(key, expected, value)
        return None

    def text(self, key: str) -> str | None:
        """A string."""
        text: str | None = self.read(key, is_text, self.text_word)
        return text

    def flag(self, key: str) -> bool | None:
        """True or false."""
        flag: bool | None = self.read(key, is_flag, "true or false")
        return flag

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """A mapping."""
        mapping: Mapping[str, Any] | None = self.read(key, is_mapping, self.mapping_word)
        return mapping

    def sequence(self, key: str) -> Sequence[Any]:
        """A list, empty if absent."""
        return self.read(key, is_sequence, "a list") or ()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if absent."""
        return tuple(self.read(key, is_texts, "a list of strings") or ())

    def count(self, key: str, least: int, most: int) -> int | None:
        """A whole number in a range."""
        expected = f"a whole number from {least} to {most}"
        count: int | None = self.read(
            key, lambda n: type(n) is int and least <= n <= most, expected
        )
        return count

    def number(self, key: str, least: float, most: float, *, above: bool = False) -> float | None:
        """A number in a range; ``above`` leaves out the least."""
        expected = f"a number {'above' if above else 'from'} {least:g} to {most:g}"
        number = self.read(
            key,
            lambda n: is_number(n) and least <= n <= most and not (above and n == least),
            expected,
        )
        return None if number is None else float(number)


def is_text(value: object) -> bool:
    """True if it is a string."""
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    """True if it is true or false."""
    return isinstance(value, bool)


def is_mapping(value: object) -> bool:
    """True if it is a mapping."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> bool:
    """True if it is a list."""
    return isinstance(value, list | tuple)


def is_texts(value: object) -> bool:
    """True if it is a list of strings."""
    return isinstance(value, list | tuple) and all(map(is_text, value))


def is_number(value: object) -> bool:
    """True if it is a finite number; true and false are not numbers."""
    return type(value) is int or (type(value) is float and isfinite(value))
