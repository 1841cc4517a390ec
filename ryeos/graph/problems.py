"""Problems of a graph file, each with its place, the reader that notes them, errors of runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

from lillux.fields import Fields
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.specs import type_name

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


# --- lines ----------------------------------------------------------------------------------------


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
    """Where a problem's path stands; that of what holds it, where it is not there itself."""
    while path and path not in known:
        path = path.rpartition("[" if path.endswith("]") else ".")[0]
    return known.get(path, (1, 1))


# --- fields ---------------------------------------------------------------------------------------
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


# --- errors ---------------------------------------------------------------------------------------
# Errors that keep a graph run from starting or resuming. See ``docs/graphs.md``.


class GraphInvalidError(RyeError):
    """A graph file with problems; ``details`` lists all of them, each with its place."""

    code = "VALIDATION_FAILED"

    def __init__(self, graph_id: str, problems: Sequence[GraphProblem]) -> None:
        self.graph_id, self.problems = graph_id, tuple(problems)
        self.details = tuple(str(problem) for problem in problems)
        super().__init__(
            f"Graph validation failed: {'; '.join(self.details)}",
            hint=f"see all there is to it: rye graph validate {graph_id}",
        )


class GraphInputError(RyeError):
    """Inputs that do not fit the graph's ``config_schema``; no node was worked on."""

    code = "VALIDATION_FAILED"

    def __init__(self, graph_id: str, problems: Sequence[str]) -> None:
        self.graph_id = graph_id
        self.details = tuple(problems)
        super().__init__(
            f"Input validation failed: {'; '.join(problems)}",
            hint=f"see what the graph takes: rye run {graph_id} --help",
        )


class NodeNotFoundError(RyeError):
    """A node that the graph does not have."""

    code = "VALIDATION_FAILED"

    def __init__(self, node: str, known: Sequence[str]) -> None:
        self.node = node
        self.suggestions = tuple(get_close_matches(node, known, 3, 0.5))
        hint = f"did you mean {', '.join(self.suggestions)}?" if self.suggestions else ""
        super().__init__(
            f"Target node '{node}' not found in graph",
            hint=hint or f"its nodes are: {', '.join(known[:20])}",
        )


def not_resumable_error(run_id: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a run that cannot be resumed as it is."""
    return RyeError(f"Cannot resume {run_id}: {problem}", code="CONFLICT", hint=hint)


# --- run errors -----------------------------------------------------------------------------------
# What can be wrong with the records of a run, or with resuming from them.


class RunIdError(RyeError):
    """A run id that could not be the name of a run's folder."""

    code = "INVALID_REF"

    def __init__(self, run_id: str, problem: str) -> None:
        self.run_id, self.problem = run_id, problem
        super().__init__(
            f"run id {run_id[:200]!r}: {problem}",
            hint="a run id is printed when the run starts, like mine-build-1763725437000-00ff",
        )


class RunPlaceError(RyeError):
    """The folder of runs, or a file in it, is not Rye's own: a link leads elsewhere."""

    code = "INTEGRITY"

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint="remove the link; runs follow none")


class RecordError(RyeError):
    """An object of a run has another shape than its kind. ``key`` is where in it."""

    code = "INTEGRITY"

    def __init__(self, where: str, key: str, expected: str, found: str) -> None:
        self.where, self.key, self.expected, self.found = where, key, expected, found
        super().__init__(f"{where}: {key}: expected {expected}, found {found}")


class TranscriptError(RyeError):
    """A line of a transcript that no run has written. ``line`` counts from 1."""

    code = "INTEGRITY"

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}, line {line}: {problem}")
