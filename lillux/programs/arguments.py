"""Flags with values, as both forms of the programs read them.

``--flag VALUE`` or ``--flag=VALUE``, and nothing that is no flag. A value may begin with ``-``,
which is why this is not argparse: the arguments of another program are values here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

_N = TypeVar("_N", int, float)

HELP_FLAGS = frozenset({"-h", "--help"})


class ArgumentError(Exception):
    """The command line is not one of the program's. The text says why."""


class HelpRequest(Exception):  # noqa: N818 - no error
    """The command line asks for help."""


class Flags:
    """The values of a command line, by flag."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def has(self, flag: str) -> bool:
        """Whether the flag was given."""
        return flag in self._values

    def all(self, flag: str) -> tuple[str, ...]:
        """Every value of the flag, in order."""
        return tuple(self._values.get(flag, ()))

    def last(self, flag: str) -> str | None:
        """The value that counts: the last one; None if there is none."""
        values = self._values.get(flag)
        return values[-1] if values else None

    def required(self, flag: str) -> str:
        """The value. Raises ArgumentError if there is none."""
        value = self.last(flag)
        if value is None:
            raise ArgumentError(f"{flag}: expected a value, got nothing")
        return value

    def seconds(self, flag: str, default: float) -> float:
        """A number of seconds, 0 or more. Raises ArgumentError for anything else."""
        text = self.last(flag)
        number = default if text is None else _number(text, float)
        if number is None or not 0 <= number < math.inf:
            raise ArgumentError(f"{flag}: expected seconds, 0 or more, got {text}")
        return number

    def integer(self, flag: str, default: int | None = None) -> int:
        """A whole number. Raises ArgumentError for anything else."""
        text = self.required(flag) if default is None else self.last(flag)
        number = default if text is None else _number(text, int)
        if number is None:
            raise ArgumentError(f"{flag}: expected a whole number, got {text}")
        return number


def read_flags(arguments: Sequence[str], known: Mapping[str, bool]) -> Flags:
    """The flags of a command line; ``known`` says of each whether it takes a value.

    Raises ArgumentError, and HelpRequest for ``-h`` where a flag may stand.
    """
    values: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument in HELP_FLAGS:
            raise HelpRequest
        flag, equals, value = argument.partition("=")
        takes_value = known.get(flag)
        if takes_value is None:
            raise ArgumentError(f"unknown argument {argument}")
        if not takes_value:
            if equals:
                raise ArgumentError(f"{flag}: expected no value, got {value}")
            values[flag] = []
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                raise ArgumentError(f"{flag}: expected a value, got nothing")
            value = following
        values.setdefault(flag, []).append(value)
    return Flags(values)


def _number(text: str, kind: Callable[[str], _N]) -> _N | None:
    # Python alone allows these in numbers.
    if "_" in text or text != text.strip() or not text.isascii():
        return None
    try:
        return kind(text)
    except ValueError:
        return None
