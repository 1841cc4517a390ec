"""What is wrong in a graph file, each thing with the place where it stands."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from lillux.values import dataclass, field

MAX_PROBLEMS = 200
"""Errors that are listed, and warnings; a hostile file could have a million."""

_MAX_GUESSES, _MAX_CANDIDATES, _CUTOFF = 50, 500, 0.6
_PLAIN_KEY = re.compile(r"[\w-]+")
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Problem:
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

    errors: dict[Problem, None] = field(default_factory=dict)
    warnings: dict[Problem, None] = field(default_factory=dict)

    def error(self, path: str, text: str, hint: str = "") -> None:
        """Add what keeps the graph from running."""
        self.errors[Problem(path, text, hint)] = None

    def warn(self, path: str, text: str, hint: str = "") -> None:
        """Add what looks like a slip."""
        self.warnings[Problem(path, text, hint)] = None

    def guess(self, word: str, known: Iterable[str]) -> str:
        """``did you mean x?`` or ``""``; a file with very many slips gets no more of them."""
        if len(self.errors) + len(self.warnings) > _MAX_GUESSES or len(word) > _MAX_SHOWN:
            return ""
        candidates = [name for name in islice(known, _MAX_CANDIDATES) if name != word]
        close = get_close_matches(word, candidates, 1, _CUTOFF)
        return f"did you mean {close[0]}?" if close else ""


def listed(problems: Iterable[Problem], noun: str) -> tuple[Problem, ...]:
    """The first `MAX_PROBLEMS`, and a last one that counts the rest."""
    found = tuple(problems)
    rest = len(found) - MAX_PROBLEMS
    if rest <= 0:
        return found
    return (*found[:MAX_PROBLEMS], Problem("", f"{rest} more {noun} are not listed"))
