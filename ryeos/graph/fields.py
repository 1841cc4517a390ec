"""Typed reads of one mapping of a graph file: a wrong value is noted, and reading goes on."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from lillux.values import dataclass, field
from ryeos.graph.problems import Findings, below, shown
from ryeos.specs import type_name

MAX_COUNT = 1_000_000
"""The largest ``max_steps`` and its like: beyond it a slip is likelier than a wish."""

MAX_SECONDS = 31_536_000.0
"""The longest timeout, a year."""

MAX_NAME_CHARACTERS = 128
"""Of a node, a state key, a loop variable."""


@dataclass(frozen=True, slots=True)
class Fields:
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
