"""Problems of a graph file, each with its place, and the reader that notes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

from lillux.fields import Fields
from lillux.values import dataclass, field
from ryeos.items.specs import type_name

MAX_PROBLEMS = 200
"""Errors that are listed, and warnings; a hostile file could have a million."""

_MAX_GUESSES, _MAX_CANDIDATES, _CUTOFF = 50, 500, 0.6
_PLAIN_KEY = re.compile(r"[\w-]+")
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """A problem that a reader finds: as an error it keeps the graph from running, as a warning not.

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
    refused: dict[GraphProblem, None] = field(default_factory=dict)

    def error(self, path: str, text: str, hint: str = "") -> None:
        """Add what keeps the graph from running."""
        self.errors[GraphProblem(path, text, hint)] = None

    def warn(self, path: str, text: str, hint: str = "") -> None:
        """Add what looks like a slip."""
        self.warnings[GraphProblem(path, text, hint)] = None

    def refuse(self, path: str, text: str, hint: str = "") -> None:
        """Add what no run by itself gets past: a warning when it runs, an error when it is signed.

        A graph that was signed before may still run for a caller.
        """
        self.warn(path, text, hint)
        self.refused[GraphProblem(path, text, hint)] = None

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


def lines_of(text: str) -> dict[str, tuple[int, int]]:
    """Line and column of each path of a YAML text, as problems name it."""
    from ryeos.items.yaml import places

    found = {}
    for place, position in places(text).items():
        path = ""
        for key in place:
            path = below(path, key)
        found[path] = position
    return found


def position_of(path: str, known: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The position of a problem's path; that of what holds it, where it is missing itself."""
    while path and path not in known:
        path = path.rpartition("[" if path.endswith("]") else ".")[0]
    return known.get(path, (1, 1))


# Typed reads of one mapping of a graph file: a wrong value is noted, and reading continues.

MAX_COUNT = 1_000_000
"""The largest ``max_steps`` and its like: beyond it a slip is likelier than a wish."""

MAX_SECONDS = 31_536_000.0
"""The longest timeout, a year."""

MAX_NAME_CHARACTERS = 128
"""Of a node, a state key, a loop variable."""


class GraphFields(Fields):
    """Reads one mapping of a graph file; problems go to the findings, and reading continues."""

    text_word = "a text"

    def __init__(self, data: Mapping[str, Any], path: str, findings: Findings) -> None:
        super().__init__(data, self._note)
        self.path, self.findings = path, findings

    def at(self, key: str) -> str:
        """The path of a key."""
        return below(self.path, key)

    def text(self, key: str) -> str | None:
        """A text that is not empty."""
        text: str | None = self.read(key, _says_something, self.text_word)
        return text

    def prose(self, key: str) -> str:
        """A text that may be empty."""
        return super().text(key) or ""

    def truth(self, key: str) -> bool:
        """True or false; absent is false."""
        return bool(self.flag(key))

    def count(self, key: str, least: int = 1, most: int = MAX_COUNT) -> int | None:
        """A whole number in a range."""
        return super().count(key, least, most)

    def seconds(self, key: str) -> float | None:
        """A number of seconds above zero, at most `MAX_SECONDS`."""
        return self.number(key, 0.0, MAX_SECONDS, above=True)

    def limit_s(self, key: str) -> float | None:
        """A number of seconds, at most `MAX_SECONDS`; None for 0, which is no limit."""
        return self.number(key, 0.0, MAX_SECONDS) or None

    def choice(self, key: str, words: Sequence[str]) -> str | None:
        """One of some words."""
        value = self.any(key)
        if value is None or (value in words and isinstance(value, str)):
            return value
        hint = self.findings.guess(value, words) if isinstance(value, str) else ""
        expected = f"expected one of {', '.join(words)}, found {found(value)}"
        self.findings.error(self.at(key), expected, hint)
        return None

    def some_texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, none of them empty; None where there is no list."""
        if self.any(key) is None:
            return None
        good = []
        for index, value in enumerate(self.sequence(key)):
            if _says_something(value):
                good.append(value)
            else:
                place = below(self.at(key), index)
                self.findings.error(place, f"expected a text, found {found(value)}")
        return tuple(good)

    def env_requires(self) -> tuple[str, ...]:
        """The variables that must be set: one text, or a list of them."""
        value = self.any("env_requires")
        return (value,) if _says_something(value) else self.some_texts("env_requires") or ()

    def first_of(self, keys: Sequence[str]) -> str:
        """The first of these keys that is there, else the first; of two the second is unused."""
        there = [key for key in keys if self.data.get(key) is not None]
        self.read_keys.update(keys)
        for other in there[1:]:
            self.findings.warn(self.at(other), f"{other} is not used beside {there[0]}")
        return there[0] if there else keys[0]

    def report_unknown(self, known: Sequence[str], unused: Mapping[str, str]) -> None:
        """Warn of every key that was not read.

        ``known`` are the keys that mean something here or are ignored; ``unused`` are those that
        mean something elsewhere, with what to say of them.
        """
        for key in self.data:
            if key in self.read_keys or key in known or str(key).startswith("x-"):
                continue
            text = unused.get(key, f"unknown key {shown(str(key))} is not used")
            hint = "" if key in unused else self.findings.guess(str(key), [*known, *self.read_keys])
            self.findings.warn(below(self.path, str(key)), text, hint)

    def _note(self, key: str, expected: str, value: object) -> None:
        self.findings.error(self.at(key), f"expected {expected}, found {found(value)}")


def _says_something(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


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
