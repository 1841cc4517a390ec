"""Patterns that names of files are held against: `re` where it ends soon, else in one reading.

A configuration may come with a project, or from another user of a node: no pattern of it may keep
a machine busy.
"""

import re
from collections.abc import Iterable

from lillux.text import (
    PatternError,
    SearchPattern,
    TextTooLongError,
    compile_pattern,
    search,
    tries,
)

_LONGEST_NAME = 255
_FEW_TRIES = 300_000
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")


class NamePatterns:
    """Patterns, each anchored at the start of a name. Raises PatternError."""

    def __init__(self, patterns: Iterable[str]) -> None:
        quick: list[str] = []
        self._slow: list[SearchPattern] = []
        room = _FEW_TRIES
        for pattern in patterns:
            compiled = _anchored(pattern)
            cost = tries(compiled, _LONGEST_NAME)
            if compiled.simple and cost <= room and not _FLAGS.match(pattern):
                room -= cost
                quick.append(f"(?:{pattern})")
            else:
                self._slow.append(compiled)
        self._quick = re.compile("|".join(quick)) if quick else None

    def match(self, name: str) -> bool:
        """Whether one of them matches. A name too long to tell does, to be left out."""
        if self._quick and self._quick.match(name):
            return True
        if not self._slow:
            return False
        try:
            return any(search(pattern, name) for pattern in self._slow)
        except TextTooLongError:
            return True


def _anchored(pattern: str) -> SearchPattern:
    flags = _FLAGS.match(pattern)
    start = flags.end() if flags else 0
    compile_pattern(pattern)  # by itself: a bracket too many must not pair up with ours
    return compile_pattern(f"{pattern[:start]}\\A(?:{pattern[start:]})")


__all__ = ["NamePatterns", "PatternError"]
