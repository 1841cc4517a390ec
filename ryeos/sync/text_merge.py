"""Merge of two changes of one text, line by line. Pure. Rules: ``docs/sync.md``, Texts.

The reason that this is ours: ADR 0002.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from lillux.values import dataclass

MAX_WORK = 2_000_000
"""Pairs of equal lines that are looked at before a merge is given up: a second or so."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines ``start`` to ``end`` of the base (from 0, end not included) became ``lines``."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: "Hunk") -> bool:
        """True if the two change the same lines, or insert at the same place."""
        if self.start == self.end == other.start == other.end:
            return True
        return self.start < other.end and other.start < self.end


class _TooMuchWorkError(Exception):
    """The texts are too much alike within themselves to be compared in bounded time."""


def merge_text(base: str, ours: str, theirs: str) -> str | None:
    """The text with the changes of both sides; None where they change the same lines.

    What both sides changed in the same way is taken once. Swapping the sides gives the same text.
    None also for texts whose comparison would take too long, see `MAX_WORK`.
    """
    if theirs in (ours, base):
        return ours
    if base == ours:
        return theirs
    lines = split_lines(base)
    try:
        one, other = (list(_hunks(lines, split_lines(side))) for side in (ours, theirs))
    except _TooMuchWorkError:
        return None
    hunks = _together(one, other)
    return None if hunks is None else _apply_hunks(lines, hunks)


def changed_hunks(base: Sequence[str], side: Sequence[str]) -> tuple[Hunk, ...] | None:
    """Changes from one list of lines to the other; None where comparing takes too long."""
    try:
        return tuple(_hunks(base, side))
    except _TooMuchWorkError:
        return None


def split_lines(text: str) -> list[str]:
    """The lines with their line feeds; nothing else ends a line."""
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, last] if last else lines


def _together(ours: Sequence[Hunk], theirs: Sequence[Hunk]) -> list[Hunk] | None:
    """The hunks of both by their place in the base, None when two of them overlap."""
    merged: list[Hunk] = []
    one, other = list(reversed(ours)), list(reversed(theirs))
    while one and other:
        if one[-1] == other[-1]:
            merged.append(one.pop())
            other.pop()
        elif one[-1].overlaps(other[-1]):
            return None
        else:
            earlier = one if _place(one[-1]) < _place(other[-1]) else other
            merged.append(earlier.pop())
    return [*merged, *reversed(one), *reversed(other)]


def _place(hunk: Hunk) -> tuple[int, int]:
    return hunk.start, hunk.end


def _apply_hunks(base: Sequence[str], hunks: Sequence[Hunk]) -> str | None:
    """The changed text; None when a line without an end would be joined with the next."""
    lines: list[str] = []
    at = 0
    for hunk in hunks:
        lines += base[at : hunk.start]
        lines += hunk.lines
        at = hunk.end
    lines += base[at:]
    if any(not line.endswith("\n") for line in lines[:-1]):
        return None
    return "".join(lines)


def _hunks(base: Sequence[str], side: Sequence[str]) -> Iterator[Hunk]:
    """Changes from one to the other. Raises _TooMuchWorkError."""
    at_base = at_side = 0
    for start_base, start_side, length in _equal_blocks(base, side):
        if start_base > at_base or start_side > at_side:
            yield Hunk(at_base, start_base, tuple(side[at_side:start_side]))
        at_base, at_side = start_base + length, start_side + length
    if at_base < len(base) or at_side < len(side):
        yield Hunk(at_base, len(base), tuple(side[at_side:]))


def _equal_blocks(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of lines that both have, in order: the place in each, and how many lines.

    (1) What both begin and end with. (2) Between, lines that each has once, in the order of both.
    (3) Between those, what `difflib` finds.
    """
    head = _common(a, b)
    tail = _common(list(reversed(a[head:])), list(reversed(b[head:])))
    end_a, end_b = len(a) - tail, len(b) - tail
    found = [(0, 0, head)]  # (1)
    budget = [MAX_WORK]
    at_a, at_b = head, head
    for place_a, place_b in _anchors(a[head:end_a], b[head:end_b]):  # (2)
        found += _equal_runs(a, b, (at_a, head + place_a, at_b, head + place_b), budget)
        at_a, at_b = head + place_a + 1, head + place_b + 1
        found.append((at_a - 1, at_b - 1, 1))
    found += _equal_runs(a, b, (at_a, end_a, at_b, end_b), budget)
    return [*found, (end_a, end_b, tail)]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Number of lines that both begin with."""
    shorter = min(len(a), len(b))
    return next((at for at in range(shorter) if a[at] != b[at]), shorter)


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that occur once in each, as many as are in the same order."""
    once_a, once_b = ({line for line, n in Counter(side).items() if n == 1} for side in (a, b))
    places = {line: at for at, line in enumerate(b) if line in once_b}
    pairs = [(at, places[line]) for at, line in enumerate(a) if line in once_a and line in places]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of these pairs whose second numbers increase as the first do."""
    ends: list[int] = []  # the least second number that a run of each length ends with
    last: list[int] = []  # the position of its pair
    before: list[int] = []  # of each pair, the position of the one before it in its run
    for position, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [position]
    chosen = []
    position = last[-1] if last else -1
    while position >= 0:
        chosen.append(pairs[position])
        position = before[position]
    return chosen[::-1]


def _equal_runs(
    a: Sequence[str], b: Sequence[str], window: tuple[int, int, int, int], budget: list[int]
) -> list[tuple[int, int, int]]:
    """The equal runs within a window of both, longest first taken. Raises _TooMuchWorkError."""
    start_a, end_a, start_b, end_b = window
    if start_a == end_a or start_b == end_b:
        return []
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, a[start_a:end_a], b[start_b:end_b], autojunk=False)
    times = Counter(b[start_b:end_b])
    found = []
    open_windows = [(0, end_a - start_a, 0, end_b - start_b)]
    while open_windows:
        low_a, high_a, low_b, high_b = open_windows.pop()
        lines = a[start_a + low_a : start_a + high_a]
        budget[0] -= len(lines) + sum(times[line] for line in lines)
        if budget[0] < 0:
            raise _TooMuchWorkError
        match = matcher.find_longest_match(low_a, high_a, low_b, high_b)
        if not match.size:
            continue
        found.append((start_a + match.a, start_b + match.b, match.size))
        open_windows.append((low_a, match.a, low_b, match.b))
        open_windows.append((match.a + match.size, high_a, match.b + match.size, high_b))
    return sorted(found)
