"""Grades: how well a term fits a word. Pure.

1.0   it is the word, one of its runs or parts, or fits it as a wildcard
0.6   the word, a run or a part begins with it (ASCII: from 3 characters)
0.4   fuzzy: few slips lie between it and the word, a run or a part
0.3   it stands inside the word (ASCII: from 4 characters)
"""

import re
from collections.abc import Callable
from fnmatch import translate
from itertools import pairwise

from lillux.spelling import edit_distance
from lillux.values import dataclass
from ryeos.search.words import Word, folded

GRADES = (1.0, 0.6, 0.4, 0.3)
EXACT, START, CLOSE, INSIDE = range(len(GRADES))
_SHORTEST_START, _SHORTEST_INSIDE = 3, 4
_WILD = re.compile(r"[*?]+")

# How often a word has a term, by grade.
Counts = tuple[int, int, int, int]
NONE: Counts = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A term made ready. ``pieces``: every word that fits has one of them in its whole."""

    pieces: tuple[str, ...]
    counts: Callable[[Word], Counts]
    fits: Callable[[str], bool] | None = None


def pattern_of(term: str, max_distance: int = 0) -> Pattern:
    """The pattern for a term as it was written."""
    text = folded(term)
    if _WILD.search(text):
        return _wildcard(text)
    starts = len(text) >= _SHORTEST_START or not text.isascii()
    inside = len(text) >= _SHORTEST_INSIDE or not text.isascii()
    distance = max_distance if len(text) > max_distance else 0
    pieces = (text,) if not distance else (text, *_halves(text, distance))

    def counts(word: Word) -> Counts:
        if text in word.whole:
            return _plain_counts(text, word, starts=starts, inside=inside)
        return (0, 0, _close_runs(text, word, distance), 0) if distance else NONE

    return Pattern(pieces, counts)


def _wildcard(text: str) -> Pattern:
    matches = re.compile(translate(text.replace("[", "[[]"))).match

    def fits(form: str) -> bool:
        return matches(form) is not None

    def counts(word: Word) -> Counts:
        if fits(word.whole):
            return (1, 0, 0, 0)
        runs = zip(word.runs, word.parts, strict=True)
        found = sum(1 for run, parts in runs if fits(run) or any(map(fits, parts)))
        return (found, 0, 0, 0)

    return Pattern((max(_WILD.split(text), key=len),), counts, fits)


def _plain_counts(text: str, word: Word, *, starts: bool, inside: bool) -> Counts:
    if text == word.whole:
        return (1, 0, 0, 0)
    exact = start = within = 0
    for run, parts in zip(word.runs, word.parts, strict=True):
        if run == text or text in parts:
            exact += parts.count(text) or 1
        elif text in run:
            begins = starts and (run.startswith(text) or any(p.startswith(text) for p in parts))
            start += begins
            within += inside and not begins
    if not any(text in run for run in word.runs):  # it goes over a border
        start = int(starts and word.whole.startswith(text))
        within = int(inside and not start)
    return (exact, start, 0, within)


def _close_runs(text: str, word: Word, distance: int) -> int:
    def close(form: str) -> bool:
        found = edit_distance(text, form, distance, swap_cost=2)
        # Two slips, and another first letter, is another word.
        return found < 2 or (found == 2 and distance == 2 and form[0] == text[0])  # noqa: PLR2004

    if close(word.whole):
        return 1
    runs = zip(word.runs, word.parts, strict=True)
    return sum(1 for run, parts in runs if close(run) or any(map(close, parts)))


def _halves(text: str, distance: int) -> tuple[str, ...]:
    """Pieces of which one is whole in any word at most ``distance`` slips away."""
    size, rest = divmod(len(text), distance + 1)
    cuts = [n * size + min(n, rest) for n in range(distance + 2)]
    return tuple(text[a:b] for a, b in pairwise(cuts))
