"""A layered layout: boxes in rows, arrows from row to row. Pure geometry.

1. An arrow back to a box that leads here is laid out the other way round.
2. Rows: a box stands below everything that leads to it. Between two rows of boxes lies a row of
   labels.
3. An arrow over several rows gets a *bend* in each, which keeps it off their boxes; its label is
   the bend in the first.
4. A few sweeps down and up sort each row by the mean place of neighbours, and put each entry
   there, as far as fixed gaps allow.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from lillux.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Point:
    """A place; y grows downwards."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutArrow:
    """An arrow to lay out: indices of its boxes, and the size of its label, None without one."""

    source: int
    target: int
    label: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route of an arrow from source to target. ``label`` is the middle of its label."""

    points: tuple[Point, ...]
    label: Point | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The middle of each box, the route of each line (None from a box to itself), the extent."""

    centres: tuple[Point, ...]
    routes: tuple[Route | None, ...]
    size: Size


MAX_BENDS = 10_000
"""Beyond it the longest arrows are drawn straight: a picture must not take minutes."""

ROW_GAP, COLUMN_GAP = 24.0, 32.0
_BEND = Size(10.0, 0.0)
_SWEEPS = 12


@dataclass(slots=True)
class _Entry:
    """An entry of a row: a box, a bend or a label; its neighbours above and below."""

    size: Size
    row: int
    x: float = 0.0
    y: float = 0.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def lay_out(
    boxes: Sequence[Size], lines: Sequence[LayoutArrow], margins: Mapping[int, float] | None = None
) -> Layout:
    """Lay out boxes; the search for cycles begins at the first one, which stays in the first row.

    margins  index of a box -> room that it needs on each side besides its own
    """
    ends, order = _downward(len(boxes), lines)
    entries = []
    for index, (size, row) in enumerate(zip(boxes, _rows(ends, order), strict=True)):
        width = size.width + 2 * (margins or {}).get(index, 0.0)
        entries.append(_Entry(Size(width, size.height), 2 * row))
    chains = _chains(entries, lines, ends)
    _place(entries)
    left = min((entry.x - entry.size.width / 2 for entry in entries), default=0.0)
    for entry in entries:
        entry.x -= left
    return Layout(
        centres=tuple(Point(entry.x, entry.y) for entry in entries[: len(boxes)]),
        routes=tuple(_routes(entries, lines, chains, boxes)),
        size=Size(
            max((entry.x + entry.size.width / 2 for entry in entries), default=0.0),
            max((entry.y + entry.size.height / 2 for entry in entries), default=0.0),
        ),
    )


# Step (1).
def _downward(count: int, lines: Sequence[LayoutArrow]) -> tuple[list[tuple[int, int]], list[int]]:
    """The ends of each line, upper first; all boxes, each behind those that lead to it."""
    ends = [(line.source, line.target) for line in lines]
    leaving: list[list[int]] = [[] for _ in range(count)]
    for number, line in enumerate(lines):
        leaving[line.source].append(number)
    seen, way, left = set[int](), set[int](), list[int]()
    waiting = list(range(count - 1, -1, -1))
    while waiting:
        box = waiting.pop()
        if box < 0:  # the mark behind all that the box leads to
            way.remove(~box)
            left.append(~box)
        elif box not in seen:
            seen.add(box)
            way.add(box)
            waiting.append(~box)
            for number in reversed(leaving[box]):
                target = lines[number].target
                waiting.append(target)
                if target in way:
                    ends[number] = (target, box)
    return ends, left[::-1]


# Step (2).
def _rows(ends: Sequence[tuple[int, int]], order: Sequence[int]) -> list[int]:
    """The row of each box: the longest way to it."""
    lower: list[list[int]] = [[] for _ in order]
    for one, other in ends:
        if one != other:
            lower[one].append(other)
    rows = [0] * len(order)
    for box in order:
        for other in lower[box]:
            rows[other] = max(rows[other], rows[box] + 1)
    return rows


# Step (3).
def _chains(
    entries: list[_Entry], lines: Sequence[LayoutArrow], ends: Sequence[tuple[int, int]]
) -> list[list[int]]:
    """The entries that each line passes, from its upper end to its lower; bends are added.

    The longest lines have none where all lines together would have too many.
    """
    spans = [entries[lower].row - entries[upper].row for upper, lower in ends]
    chains, bends = [list(one) for one in ends], 0
    for number in sorted(range(len(ends)), key=spans.__getitem__):
        (upper, lower), line = ends[number], lines[number]
        bends += max(spans[number] - 1, 0)
        if upper == lower:
            chains[number] = []
        elif bends <= MAX_BENDS:
            first, last = entries[upper].row, entries[lower].row
            labelled = first + 1 if line.source == upper else last - 1
            chain = range(len(entries), len(entries) + last - first - 1)
            for row in range(first + 1, last):
                size = line.label if line.label and row == labelled else _BEND
                entries.append(_Entry(size, row))
            chains[number] = [upper, *chain, lower]
            for one, other in itertools.pairwise(chains[number]):
                entries[one].below.append(other)
                entries[other].above.append(one)
    return chains


# Step (4).
def _place(entries: Sequence[_Entry]) -> None:
    rows: list[list[_Entry]] = [[] for _ in range(max((e.row for e in entries), default=-1) + 1)]
    for entry in entries:
        rows[entry.row].append(entry)
    top = 0.0
    for row in rows:
        height = max((entry.size.height for entry in row), default=0.0)
        for entry in row:
            entry.y = top + height / 2
        top += height + ROW_GAP
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        for row in rows if is_down else reversed(rows):
            wishes = [_mean_of_neighbours(entries, entry, is_down=is_down) for entry in row]
            order = sorted(range(len(row)), key=wishes.__getitem__)
            row[:] = [row[place] for place in order]
            _set_out(row, [wishes[place] for place in order])


def _mean_of_neighbours(entries: Sequence[_Entry], entry: _Entry, *, is_down: bool) -> float:
    near = (entry.above if is_down else entry.below) or entry.above or entry.below
    return sum(entries[number].x for number in near) / len(near) if near else entry.x


def _set_out(row: Sequence[_Entry], wishes: Sequence[float]) -> None:
    """Put a row in its order near its wishes: half way between pushed to the right and to the left.

    Both keep the gaps, and so does what is half way between.
    """
    pushed, edge = [], -math.inf
    for entry, wish in zip(row, wishes, strict=True):
        pushed.append(max(wish, edge + entry.size.width / 2))
        edge = pushed[-1] + entry.size.width / 2 + COLUMN_GAP
    edge = math.inf
    for entry, wish, right in zip(reversed(row), reversed(wishes), reversed(pushed), strict=True):
        left = min(wish, edge - entry.size.width / 2)
        edge = left - entry.size.width / 2 - COLUMN_GAP
        entry.x = (left + right) / 2


def _routes(
    entries: Sequence[_Entry],
    lines: Sequence[LayoutArrow],
    chains: Sequence[Sequence[int]],
    boxes: Sequence[Size],
) -> Iterator[Route | None]:
    ports = _ports(entries, chains, boxes)
    for number, (line, chain) in enumerate(zip(lines, chains, strict=True)):
        if not chain:
            yield None
            continue
        bends = [Point(entries[bend].x, entries[bend].y) for bend in chain[1:-1]]
        points = [ports[number, True], *bends, ports[number, False]]
        if line.source != chain[0]:
            points.reverse()
        one, other = points[:2]
        label = other if bends else Point((one.x + other.x) / 2, (one.y + other.y) / 2)
        yield Route(points=tuple(points), label=label if line.label else None)


def _ports(
    entries: Sequence[_Entry], chains: Sequence[Sequence[int]], boxes: Sequence[Size]
) -> Mapping[tuple[int, bool], Point]:
    """Points where lines leave their upper box (True) and meet their lower (False)."""
    sides: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for number, chain in enumerate(chains):
        if chain:
            sides.setdefault((chain[0], True), []).append((entries[chain[1]].x, number))
            sides.setdefault((chain[-1], False), []).append((entries[chain[-2]].x, number))
    ports: dict[tuple[int, bool], Point] = {}
    for (box, is_upper), lines in sides.items():
        entry = entries[box]
        y = entry.y + entry.size.height / 2 * (1 if is_upper else -1)
        step = min(24.0, boxes[box].width * 0.7 / len(lines))
        for place, (_, number) in enumerate(sorted(lines)):
            x = entry.x + (place - (len(lines) - 1) / 2) * step
            ports[number, is_upper] = Point(x, y)
    return ports
