"""A layered layout: boxes in rows, arrows from row to row, few crossings. Pure geometry.

The method of Sugiyama, Tagawa and Toda (1981), small:

1. Cycles are broken: an arrow back to a box that leads here is laid out the other way round.
2. Rows: a box stands below everything that leads to it. Between two rows of boxes lies a row of
   labels.
3. An arrow over several rows gets a *bend* in each; its label is the bend in the first.
4. Within rows, a few sweeps down and up put each entry at the mean place of its neighbours.
5. Columns: each entry is moved towards the mean of its neighbours, as far as its row allows.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lillux.values import dataclass, field

MAX_BENDS = 10_000
"""Beyond it the longest arrows are drawn straight: a picture must not take minutes."""

ROW_GAP, COLUMN_GAP = 24.0, 32.0
_BEND_WIDTH, _BEND_WEIGHT = 10.0, 4
_ORDER_SWEEPS, _COLUMN_SWEEPS = 8, 12


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
class Line:
    """An arrow to lay out: indices of its boxes, and the size of its label, None without one."""

    source: int
    target: int
    label: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where an arrow runs: from its source to its target. ``label`` is the middle of its label."""

    points: tuple[Point, ...]
    label: Point | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The middle of each box, the route of each line (None from a box to itself), the extent."""

    centres: tuple[Point, ...]
    routes: tuple[Route | None, ...]
    size: Size


@dataclass(slots=True)
class _Entry:
    """What takes room in a row: a box, a bend or a label; its neighbours above and below.

    ``weight`` is how hard it is to move: lines over many rows are to be straight.
    """

    size: Size
    row: int = 0
    weight: int = 1
    x: float = 0.0
    y: float = 0.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def lay_out(
    boxes: Sequence[Size], lines: Sequence[Line], margins: Mapping[int, float] | None = None
) -> Layout:
    """Lay out boxes; the search for cycles begins at the first one, which stays in the first row.

    margins  index of a box -> room that it needs on each side besides its own
    """
    down = _downward(len(boxes), lines)
    margins = margins or {}
    entries = [
        _Entry(Size(size.width + 2 * margins.get(index, 0.0), size.height))
        for index, size in enumerate(boxes)
    ]
    for entry, row in zip(entries, _rows(len(boxes), down), strict=True):
        entry.row = 2 * row
    straight = _straight([entry.row for entry in entries], down)
    chains = [
        list(ends) if number in straight else _chain(entries, line, *ends)
        for number, (line, ends) in enumerate(zip(lines, down, strict=True))
    ]
    rows = _ordered(entries)
    _place_columns(entries, rows)
    _place_rows(entries, rows)
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
def _downward(count: int, lines: Sequence[Line]) -> list[tuple[int, int]]:
    """The ends of each line, upper first; a search from the first box tells which are back."""
    following: list[list[int]] = [[] for _ in range(count)]
    for number, line in enumerate(lines):
        if line.source != line.target:
            following[line.source].append(number)
    ends = [(line.source, line.target) for line in lines]
    done, active = [False] * count, [False] * count
    for root in range(count):
        if done[root]:
            continue
        stack: list[tuple[int, Iterator[int]]] = [(root, iter(following[root]))]
        active[root] = True
        while stack:
            box, waiting = stack[-1]
            number = next(waiting, -1)
            if number < 0:
                stack.pop()
                active[box], done[box] = False, True
                continue
            target = lines[number].target
            if active[target]:
                ends[number] = (target, box)
            elif not done[target]:
                active[target] = True
                stack.append((target, iter(following[target])))
    return ends


# Step (2).
def _rows(count: int, ends: Iterable[tuple[int, int]]) -> list[int]:
    """The row of each box: the longest way to it."""
    following: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for upper, lower in ends:
        if upper != lower:
            following[upper].append(lower)
            waiting[lower] += 1
    rows, has_above = [0] * count, [bool(number) for number in waiting]
    ready = [box for box in range(count) if not waiting[box]]
    for box in ready:
        for lower in following[box]:
            rows[lower] = max(rows[lower], rows[box] + 1)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    return [_nearer(box, rows, following, has_above[box]) for box in range(count)]


def _nearer(box: int, rows: list[int], following: list[list[int]], has_above: bool) -> int:  # noqa: FBT001
    """A box that nothing leads to stands right above what it leads to; the first stays on top."""
    if has_above or box == 0 or not following[box]:
        return rows[box]
    return min(rows[lower] for lower in following[box]) - 1


# Step (3).
def _straight(rows: Sequence[int], ends: Sequence[tuple[int, int]]) -> frozenset[int]:
    """The lines that get no bends, because all lines together would have too many."""
    spans = sorted(
        (abs(rows[upper] - rows[lower]), index) for index, (upper, lower) in enumerate(ends)
    )
    bends, bent = 0, set()
    for span, index in spans:
        bends += span
        if bends > MAX_BENDS:
            break
        bent.add(index)
    return frozenset(range(len(ends))) - bent


def _chain(entries: list[_Entry], line: Line, upper: int, lower: int) -> list[int]:
    """The entries that a line passes, from its upper end to its lower; new ones are added."""
    if upper == lower:
        return []
    first, last = entries[upper].row, entries[lower].row
    labelled = first + 1 if line.source == upper else last - 1
    chain = [upper]
    for row in range(first + 1, last):
        size = line.label if line.label and row == labelled else Size(_BEND_WIDTH, 0.0)
        chain.append(len(entries))
        entries.append(_Entry(size, row, _BEND_WEIGHT))
    chain.append(lower)
    for one, other in itertools.pairwise(chain):
        entries[one].below.append(other)
        entries[other].above.append(one)
    return chain


# Step (4).
def _ordered(entries: Sequence[_Entry]) -> list[list[int]]:
    """The entries of each row from left to right."""
    count = max((entry.row for entry in entries), default=-1) + 1
    rows: list[list[int]] = [[] for _ in range(count)]
    for number in _by_depth(entries):
        rows[entries[number].row].append(number)
    best, fewest = [list(row) for row in rows], _crossings(entries, rows)
    for sweep in range(_ORDER_SWEEPS):
        downwards = sweep % 2 == 0
        for row in range(1, count) if downwards else range(count - 2, -1, -1):
            fixed = rows[row - 1 if downwards else row + 1]
            _sort_row(entries, rows[row], fixed, downwards=downwards)
        crossings = _crossings(entries, rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _by_depth(entries: Sequence[_Entry]) -> Iterator[int]:
    """All entries, each followed by what is below it: a first order with few crossings."""
    seen = [False] * len(entries)
    for root in sorted(range(len(entries)), key=lambda number: entries[number].row):
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if not seen[number]:
                seen[number] = True
                yield number
                waiting += reversed(entries[number].below)


def _sort_row(
    entries: Sequence[_Entry], row: list[int], fixed: Sequence[int], *, downwards: bool
) -> None:
    places = {number: place for place, number in enumerate(fixed)}
    means: dict[int, float] = {}
    for place, number in enumerate(row):
        neighbours = entries[number].above if downwards else entries[number].below
        there = [places[other] for other in neighbours]
        means[number] = sum(there) / len(there) if there else float(place)
    row.sort(key=means.__getitem__)


def _crossings(entries: Sequence[_Entry], rows: Sequence[Sequence[int]]) -> int:
    """How many pairs of lines cross, counted row by row with a Fenwick tree."""
    total = 0
    for row, under in itertools.pairwise(rows):
        places = {number: place for place, number in enumerate(under)}
        ends = [
            place
            for number in row
            for place in sorted(places[other] for other in entries[number].below)
        ]
        total += _inversions(ends, len(under))
    return total


def _inversions(values: Iterable[int], bound: int) -> int:
    tree = [0] * (bound + 1)
    total = 0
    for seen, value in enumerate(values):
        index, not_above = value + 1, 0
        while index:
            not_above += tree[index]
            index -= index & -index
        total += seen - not_above
        index = value + 1
        while index <= bound:
            tree[index] += 1
            index += index & -index
    return total


# Step (5).
def _place_columns(entries: Sequence[_Entry], rows: Sequence[Sequence[int]]) -> None:
    for row in rows:
        edge = 0.0
        for number in row:
            entry = entries[number]
            entry.x = edge + entry.size.width / 2
            edge += entry.size.width + COLUMN_GAP
    for sweep in range(_COLUMN_SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            _settle(entries, row, [_wish(entries, number, downwards=downwards) for number in row])


def _wish(entries: Sequence[_Entry], number: int, *, downwards: bool) -> float:
    """Where an entry would stand if it were alone."""
    entry = entries[number]
    near = (entry.above if downwards else entry.below) or entry.above or entry.below
    places = sorted(entries[other].x for other in near)
    if not places:
        return entry.x
    middle = len(places) // 2
    return (places[middle] + places[-middle - 1]) / 2


def _settle(entries: Sequence[_Entry], row: Sequence[int], wishes: Sequence[float]) -> None:
    """Put a row as near to the wishes as its order and gaps allow (least squares).

    Wishes minus the room to the left must ascend; neighbours that do not are put together at the
    mean of their wishes, until all do (pool adjacent violators).
    """
    offsets, room = [], 0.0
    for place, number in enumerate(row):
        half = entries[number].size.width / 2
        room += half + (COLUMN_GAP if place else 0.0)
        offsets.append(room)
        room += half
    blocks: list[tuple[float, int, int]] = []
    for number, wish, offset in zip(row, wishes, offsets, strict=True):
        weight = entries[number].weight
        total, count = (wish - offset) * weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / weight:
            earlier = blocks.pop()
            total, weight, count = total + earlier[0], weight + earlier[1], count + earlier[2]
        blocks.append((total, weight, count))
    starts = [total / weight for total, weight, count in blocks for _ in range(count)]
    for number, start, offset in zip(row, starts, offsets, strict=True):
        entries[number].x = start + offset


def _place_rows(entries: Sequence[_Entry], rows: Sequence[Sequence[int]]) -> None:
    top = 0.0
    for row in rows:
        height = max((entries[number].size.height for number in row), default=0.0)
        for number in row:
            entries[number].y = top + height / 2
        top += height + ROW_GAP


def _routes(
    entries: Sequence[_Entry],
    lines: Sequence[Line],
    chains: Sequence[Sequence[int]],
    boxes: Sequence[Size],
) -> Iterator[Route | None]:
    ports = _ports(entries, chains, boxes)
    for number, (line, chain) in enumerate(zip(lines, chains, strict=True)):
        if not chain:
            yield None
            continue
        points = [
            ports[number, True],
            *(Point(entries[bend].x, entries[bend].y) for bend in chain[1:-1]),
            ports[number, False],
        ]
        back = line.source != chain[0]
        yield Route(
            points=tuple(reversed(points) if back else points),
            label=_label_place(points, back=back) if line.label else None,
        )


def _label_place(points: Sequence[Point], *, back: bool) -> Point:
    """The first bend from the source; the middle of a line without bends."""
    if len(points) > 2:  # noqa: PLR2004 - more than its ends
        return points[-2] if back else points[1]
    first, last = points
    return Point((first.x + last.x) / 2, (first.y + last.y) / 2)


def _ports(
    entries: Sequence[_Entry], chains: Sequence[Sequence[int]], boxes: Sequence[Size]
) -> Mapping[tuple[int, bool], Point]:
    """Where each line leaves its upper box (True) and meets its lower (False), side by side."""
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
