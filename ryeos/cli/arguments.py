"""Command lines that need no argparse: known flags, their values, and words.

Loading argparse and building its parser takes a fifth of a short run. A command declares its
arguments once, to whatever has an ``add_argument``; this collects them and reads the plain command
lines. Anything else (help, a mistake, ``--flag=value``, joined short flags) is left to argparse,
whose result for plain lines is the same: a property test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from typing import Any, Protocol, Self
else:
    Protocol = object


class Arguments(Protocol):
    """Where a command declares what it takes: this module's collection, or an argparse parser."""

    def add_argument(self, *names: str, **rules: Any) -> object:  # noqa: ANN401 - argparse's rules
        """Declare a word or a flag, in the way of `argparse`."""


def declare_shared(shared: Arguments, *, has_project: bool) -> None:
    """Declare the flags that every command takes; `init` has a ``--project`` of its own."""
    if not has_project:
        shared.add_argument("-p", "--project", "--project-path", metavar="DIR", help="the project")
    shared.add_argument("--user-space", metavar="DIR", help="the base of user space")
    shared.add_argument("--json", action="store_true", help="one JSON document on stdout")
    shared.add_argument("-q", "--quiet", action="store_true", help="no notes, no progress")
    shared.add_argument("-v", "--verbose", action="count", default=0, help="say more")
    shared.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    shared.add_argument("--no-input", action="store_true", help="never ask")


class PlainArguments:
    """Declared arguments, and the reading of plain command lines."""

    def __init__(self) -> None:
        self._flags: dict[str, tuple[str, dict[str, Any]]] = {}
        self._words: list[tuple[str, dict[str, Any]]] = []
        self._defaults: dict[str, Any] = {}

    def add_argument(self, *names: str, **rules: Any) -> None:  # noqa: ANN401 - argparse's rules
        """Declare a word or a flag, in the way of `argparse`."""
        longest = next((name for name in names if name.startswith("--")), names[0])
        destination = rules.get("dest") or longest.lstrip("-").replace("-", "_")
        if names[0].startswith("-"):
            self._flags |= dict.fromkeys(names, (destination, rules))
        else:
            self._words.append((destination, rules))
        if rules.get("action") == "store_true":
            default = rules.get("default", False)
        else:
            default = rules.get("default", [] if rules.get("nargs") == "*" else None)
        self._defaults[destination] = default

    def add_argument_group(self, _: str) -> Self:
        """Groups matter for help only."""
        return self

    def takes(self, flag: str) -> bool:
        """Whether a flag is declared already."""
        return flag in self._flags

    def takes_value(self) -> dict[str, bool]:
        """The flags, and whether a value follows each."""
        stores = {"store", "append"}
        return {
            name: rules.get("action", "store") in stores for name, (_, rules) in self._flags.items()
        }

    def parse(self, arguments: Sequence[str]) -> SimpleNamespace | None:
        """The values of a plain command line, None for any other."""
        if any(rules.get("required") for _, rules in self._flags.values()):
            return None  # argparse says what is missing
        values = dict(self._defaults)
        words: list[str] = []
        rest = iter(arguments)
        for argument in rest:
            if argument == "-" or not argument.startswith("-"):
                words.append(argument)
                continue
            if argument not in self._flags:
                return None
            destination, rules = self._flags[argument]
            match rules.get("action", "store"):
                case "store_true":
                    values[destination] = True
                case "count":
                    values[destination] = (values[destination] or 0) + 1
                case "store" if "nargs" not in rules:
                    given = next(rest, "-")
                    if given.startswith("-") or not _is_allowed(given, rules):
                        return None
                    values[destination] = given
                case _:
                    return None
        return SimpleNamespace(**values) if self._take_words(words, values) else None

    def _take_words(self, words: list[str], values: dict[str, Any]) -> bool:
        """Give the words to those who declared them, in order; False if they do not fit."""
        for position, (destination, rules) in enumerate(self._words):
            many = rules.get("nargs")
            is_last = position == len(self._words) - 1
            if many in {"*", "+"} and is_last and all(_is_allowed(w, rules) for w in words):
                if words:
                    values[destination] = words
                return bool(words) or many == "*"
            if many not in {None, "?"} or not words:
                return many == "?" and is_last
            if not _is_allowed(words[0], rules):
                return False
            values[destination] = words.pop(0)
        return not words


def _is_allowed(word: str, rules: dict[str, Any]) -> bool:
    """A word that may stand as it is: of the choices, if there are any, and not to be converted."""
    return "type" not in rules and word in rules.get("choices", (word,))
