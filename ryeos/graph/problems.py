"""What is wrong in a graph file, each thing with the place where it stands."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from math import isfinite
from typing import Any

from lillux.values import dataclass, field
from ryeos.items.specs import type_name

# --- problems -------------------------------------------------------------------------------------

MAX_PROBLEMS = 200
"""Errors that are listed, and warnings; a hostile file could have a million."""

_MAX_GUESSES, _MAX_CANDIDATES, _CUTOFF = 50, 500, 0.6
_PLAIN_KEY = re.compile(r"[\w-]+")
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """What a reader finds: as an error it keeps the graph from running, as a warning it does not.

    path  where it stands in the YAML, ``config.nodes.route.next[0].to``; ``""`` for the file
    text  what was expected and what was found
    hint  how to put it right, ``""`` where the text says it all
    """

    path: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        """Give the line that people read."""
        line = f"{self.path}: {self.text}" if self.path else self.text
        return f"{line} ({self.hint})" if self.hint else line

    def described(self) -> dict[str, str]:
        """Give the JSON form; ``hint`` only where there is one."""
        described = {"path": self.path, "message": self.text}
        return described | {"hint": self.hint} if self.hint else described


def below(path: str, key: str | int) -> str:
    """The path of an entry of the mapping or list at ``path``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key[:_MAX_SHOWN]}" if path else key[:_MAX_SHOWN]


def shown(text: str) -> str:
    """A text in quotes, cut where it is long."""
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "...")


@dataclass(frozen=True, slots=True)
class Findings:
    """The problems that were found so far; each is there once, in the order of the search."""

    errors: dict[GraphProblem, None] = field(default_factory=dict)
    warnings: dict[GraphProblem, None] = field(default_factory=dict)

    def error(self, path: str, text: str, hint: str = "") -> None:
        """Add what keeps the graph from running."""
        self.errors[GraphProblem(path, text, hint)] = None

    def warn(self, path: str, text: str, hint: str = "") -> None:
        """Add what looks like a slip."""
        self.warnings[GraphProblem(path, text, hint)] = None

    def guess(self, word: str, known: Iterable[str]) -> str:
        """``did you mean x?`` or ``""``; a file with very many slips gets no more of them."""
        if len(self.errors) + len(self.warnings) > _MAX_GUESSES or len(word) > _MAX_SHOWN:
            return ""
        candidates = [name for name in islice(known, _MAX_CANDIDATES) if name != word]
        close = get_close_matches(word, candidates, 1, _CUTOFF)
        return f"did you mean {close[0]}?" if close else ""


def listed(problems: Iterable[GraphProblem], noun: str) -> tuple[GraphProblem, ...]:
    """The first `MAX_PROBLEMS`, and a last one that counts the rest."""
    found = tuple(problems)
    rest = len(found) - MAX_PROBLEMS
    if rest <= 0:
        return found
    return (*found[:MAX_PROBLEMS], GraphProblem("", f"{rest} more {noun} are not listed"))


# --- fields ---------------------------------------------------------------------------------------
# Typed reads of one mapping of a graph file: a wrong value is noted, and reading goes on.

MAX_COUNT = 1_000_000
"""The largest ``max_steps`` and its like: beyond it a slip is likelier than a wish."""

MAX_SECONDS = 31_536_000.0
"""The longest timeout, a year."""

MAX_NAME_CHARACTERS = 128
"""Of a node, a state key, a loop variable."""


@dataclass(frozen=True, slots=True)
class GraphFields:
    """Reads one mapping, key by key.

    Every read answers None (or the empty value) for a key that is absent, null or wrong; a wrong
    one is in the findings then. ``asked`` are the keys that anybody read.
    """

    data: Mapping[str, Any]
    path: str
    findings: Findings
    asked: set[str] = field(default_factory=set)

    def at(self, key: str) -> str:
        """The path of a key."""
        return below(self.path, key)

    def any(self, key: str) -> Any:  # noqa: ANN401 - JSON passes through
        """The value as it is."""
        self.asked.add(key)
        return self.data.get(key)

    def text(self, key: str) -> str | None:
        """A text that is not empty."""
        value = self.any(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        if isinstance(value, str):
            self._wrong(key, "expected a text, found an empty one")
        else:
            self._wrong(key, f"expected a text, found {found(value)}")
        return None

    def prose(self, key: str) -> str:
        """A text that may be empty."""
        value = self.any(key)
        if value is None or isinstance(value, str):
            return value or ""
        self._wrong(key, f"expected a text, found {found(value)}")
        return ""

    def truth(self, key: str) -> bool:
        """True or false; absent is false."""
        value = self.any(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self._wrong(key, f"expected true or false, found {found(value)}")
        return False

    def count(self, key: str, least: int = 1, most: int = MAX_COUNT) -> int | None:
        """A whole number in a range."""
        value = self.any(key)
        if value is None:
            return None
        if type(value) is int and least <= value <= most:
            return value
        self._wrong(key, f"expected a whole number from {least} to {most}, found {found(value)}")
        return None

    def seconds(self, key: str) -> float | None:
        """A number of seconds above zero, at most `MAX_SECONDS`."""
        return self.number(key, 0.0, MAX_SECONDS, above=True)

    def number(self, key: str, least: float, most: float, *, above: bool = False) -> float | None:
        """A number in a range; ``above`` leaves out the least."""
        value = self.any(key)
        if value is None:
            return None
        is_number = type(value) in (int, float) and (type(value) is int or isfinite(value))
        if is_number and least <= value <= most and not (above and value == least):
            return float(value)
        word = "above" if above else "from"
        self._wrong(key, f"expected a number {word} {least:g} to {most:g}, found {found(value)}")
        return None

    def choice(self, key: str, words: Sequence[str]) -> str | None:
        """One of some words."""
        value = self.any(key)
        if value is None or (value in words and isinstance(value, str)):
            return value
        hint = self.findings.guess(value, words) if isinstance(value, str) else ""
        expected = ", ".join(words)
        self._wrong(key, f"expected one of {expected}, found {found(value)}", hint)
        return None

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """A mapping."""
        value = self.any(key)
        if value is None or isinstance(value, Mapping):
            return value
        self._wrong(key, f"expected a mapping, found {found(value)}")
        return None

    def sequence(self, key: str) -> Sequence[Any]:
        """A list."""
        value = self.any(key)
        if value is None or isinstance(value, (list, tuple)):
            return value or ()
        self._wrong(key, f"expected a list, found {found(value)}")
        return ()

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, none of them empty."""
        if self.any(key) is None:
            return None
        return tuple(self._texts(key))

    def name_or_names(self, key: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        value = self.any(key)
        if isinstance(value, str) and value.strip():
            return (value,)
        return self.texts(key) or ()

    def first_of(self, keys: Sequence[str]) -> str:
        """The first of these keys that is there, else the first; of two the second is unused."""
        there = [key for key in keys if self.data.get(key) is not None]
        self.asked.update(keys)
        for other in there[1:]:
            self.findings.warn(self.at(other), f"{other} is not used beside {there[0]}")
        return there[0] if there else keys[0]

    def report_unknown(self, known: Sequence[str], unused: Mapping[str, str]) -> None:
        """Warn of every key that nobody asked for.

        ``known`` are the keys that mean something here or are ignored; ``unused`` are those that
        mean something elsewhere, with what to say of them.
        """
        for key in self.data:
            if key in self.asked or key in known or str(key).startswith("x-"):
                continue
            text = unused.get(key, f"unknown key {shown(str(key))} is not used")
            hint = "" if key in unused else self.findings.guess(str(key), [*known, *self.asked])
            self.findings.warn(below(self.path, str(key)), text, hint)

    def _texts(self, key: str) -> Iterator[str]:
        for index, value in enumerate(self.sequence(key)):
            if isinstance(value, str) and value.strip():
                yield value
            else:
                self.findings.error(
                    below(self.at(key), index), f"expected a text, found {found(value)}"
                )

    def _wrong(self, key: str, text: str, hint: str = "") -> None:
        self.findings.error(self.at(key), text, hint)


def found(value: object) -> str:
    """A value as a message shows it: short ones themselves, the others by their type."""
    if isinstance(value, str):
        return shown(value) if value else "an empty text"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (
        isinstance(value, int) and value.bit_length() <= _READABLE_BITS
    ):
        return str(value)
    return _FOUND.get(type_name(value), f"a value of type {type_name(value)}")


_READABLE_BITS = 64
_FOUND = {"null": "nothing", "list": "a list", "mapping": "a mapping", "integer": "a huge number"}
