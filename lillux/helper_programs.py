"""Command lines and answers of ``lillux-proc`` and ``lillux-watch`` in Python.

``--flag VALUE`` or ``--flag=VALUE``, and nothing that is no flag. A value may begin with ``-``,
which is why this is not argparse: the arguments of another program are values here.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

DONE, USAGE_ERROR = 0, 2


def answer(values: Mapping[str, Any]) -> None:
    """Write one JSON object and a newline to standard output, as UTF-8 whatever the locale."""
    line = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def show_help(usage: str) -> int:
    """Write the usage to standard output; the exit status."""
    sys.stdout.write(usage)
    return DONE


def refuse(program: str, problem: str, usage: str) -> int:
    """Write what is wrong with the command line to standard error; the exit status."""
    sys.stderr.write(f"{program}: {problem}\n{usage}")
    return USAGE_ERROR


_N = TypeVar("_N", int, float)

HELP_FLAGS = frozenset({"-h", "--help"})


class CommandLineError(Exception):
    """The command line is not one of the program's. The text says why."""


class HelpRequest(Exception):  # noqa: N818 - no error
    """The command line asks for help."""


class Flags:
    """The values of a command line, by flag."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def has(self, flag: str) -> bool:
        """True if the flag was given."""
        return flag in self._values

    def all(self, flag: str) -> tuple[str, ...]:
        """Every value of the flag, in order."""
        return tuple(self._values.get(flag, ()))

    def last(self, flag: str) -> str | None:
        """The value that counts: the last one, or None."""
        values = self._values.get(flag)
        return values[-1] if values else None

    def required(self, flag: str) -> str:
        """The value. Raises CommandLineError if there is none."""
        value = self.last(flag)
        if value is None:
            raise CommandLineError(f"{flag}: expected a value, got nothing")
        return value

    def seconds(self, flag: str, default: float) -> float:
        """A number of seconds, 0 or more. Raises CommandLineError for anything else."""
        text = self.last(flag)
        number = default if text is None else _number(text, float)
        if number is None or not 0 <= number < math.inf:
            raise CommandLineError(f"{flag}: expected seconds, 0 or more, got {text}")
        return number

    def integer(self, flag: str, default: int | None = None) -> int:
        """A whole number. Raises CommandLineError for anything else."""
        text = self.required(flag) if default is None else self.last(flag)
        number = default if text is None else _number(text, int)
        if number is None:
            raise CommandLineError(f"{flag}: expected a whole number, got {text}")
        return number


def read_flags(arguments: Sequence[str], known: Mapping[str, bool]) -> Flags:
    """The flags of a command line; ``known`` says of each whether it takes a value.

    Raises CommandLineError, and HelpRequest for ``-h`` where a flag may stand.
    """
    values: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument in HELP_FLAGS:
            raise HelpRequest
        flag, equals, value = argument.partition("=")
        takes_value = known.get(flag)
        if takes_value is None:
            raise CommandLineError(f"unknown argument {argument}")
        if not takes_value:
            if equals:
                raise CommandLineError(f"{flag}: expected no value, got {value}")
            values[flag] = []
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                raise CommandLineError(f"{flag}: expected a value, got nothing")
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
