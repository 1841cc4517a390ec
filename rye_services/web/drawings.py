"""Pictures on pages as numbers: histories, sparklines, bars. Templates make SVG of them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from lillux.values import dataclass

# --- sparklines -----------------------------------------------------------------------------------

SPARK_WIDTH, SPARK_HEIGHT = 240, 48
_SPARK_MARGIN = 3


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A row of values as lines: one for each part without gaps, in units of the picture.

    most, first, last  what the ends of the axes say: the top, the left and the right
    """

    title: str
    lines: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    most: str = ""
    first: str = ""
    last: str = ""
    width: int = SPARK_WIDTH
    height: int = SPARK_HEIGHT


def sparkline(
    title: str,
    values: Sequence[float | None],
    most: float,
    axes: tuple[str, str, str] = ("", "", ""),
) -> Sparkline:
    """The values from the left to the right, 0 at the bottom and ``most`` at the top.

    ``axes`` are the words at its top, its left and its right end. None is a gap. The last value of
    each part is a dot, so that one without neighbours shows.
    """
    step = (SPARK_WIDTH - 2 * _SPARK_MARGIN) / max(len(values) - 1, 1)
    room = SPARK_HEIGHT - 2 * _SPARK_MARGIN
    parts: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            parts.append([])
            continue
        share = min(max(value / most, 0.0), 1.0) if most else 0.0
        x, y = _SPARK_MARGIN + place * step, SPARK_HEIGHT - _SPARK_MARGIN - share * room
        parts[-1].append((round(x, 1), round(y, 1)))
    lines = (" ".join(f"{x},{y}" for x, y in part) for part in parts if len(part) > 1)
    return Sparkline(title, tuple(lines), tuple(part[-1] for part in parts if part), *axes)


# --- bars -----------------------------------------------------------------------------------------

BAR_HEIGHT, BAR_GAP, BAR_LABEL_WIDTH, BAR_WIDTH = 16, 6, 200, 400
_LABEL_CHARACTERS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that was done: from ``start_s`` on, counted from the first one.

    ``result`` is the digest of what it gave, ``log`` the end of what its tools printed.
    """

    name: str
    status: str
    start_s: float
    took_s: float
    note: str = ""
    result: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A step in the picture."""

    step: Step
    label: str
    x: float
    y: int
    width: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """Steps over time, each in a row."""

    bars: tuple[Bar, ...]
    total_s: float
    width: int = BAR_LABEL_WIDTH + BAR_WIDTH

    @property
    def height(self) -> int:
        """Of the whole picture."""
        return len(self.bars) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP


def bar_chart(steps: Sequence[Step]) -> BarChart:
    """The steps in their order, below each other."""
    total_s = max((step.start_s + step.took_s for step in steps), default=0.0)
    scale = BAR_WIDTH / total_s if total_s else 0.0
    bars = (
        Bar(
            step=step,
            label=step.name[:_LABEL_CHARACTERS],
            x=round(BAR_LABEL_WIDTH + step.start_s * scale, 1),
            y=BAR_GAP + row * (BAR_HEIGHT + BAR_GAP),
            width=round(max(step.took_s * scale, 2.0), 1),
        )
        for row, step in enumerate(steps)
    )
    return BarChart(tuple(bars), total_s)


# --- lanes ----------------------------------------------------------------------------------------
# Where the snapshots of a history stand in its picture: a row each, the mainline left. Pure.
#
# A lane is held for the parent that a snapshot waits for. (1) A snapshot stands in the first lane
# that waits for it, else in a free one; (2) the other lanes that wait for it end there; (3) its own
# lane continues with its first parent; (4) each further parent joins the lane that waits for it
# already, or opens one.


class Snapshot(Protocol):
    """What a history is made of; the first parent is the mainline."""

    @property
    def digest(self) -> str:
        """What names it."""
        ...

    @property
    def parents(self) -> tuple[str, ...]:
        """The digests of what it came from."""
        ...

    @property
    def timestamp(self) -> str:
        """When it was made, as text whose order is the order in time."""
        ...


AnySnapshot = TypeVar("AnySnapshot", bound=Snapshot)


@dataclass(frozen=True, slots=True)
class Dot:
    """A snapshot in the picture; row 0 is at the top, lane 0 on the left."""

    row: int
    lane: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """From a snapshot down to a parent. A parent that is not shown is past the last row."""

    row: int
    lane: int
    to_row: int
    to_lane: int
    is_merge: bool


@dataclass(frozen=True, slots=True)
class HistoryLanes:
    """The picture in whole numbers."""

    dots: tuple[Dot, ...]
    lines: tuple[HistoryLine, ...]
    width: int


def lay_out(snapshots: Sequence[Snapshot]) -> HistoryLanes:
    """Place them; every snapshot stands before its parents, as `newest_first` orders them."""
    waiting: list[str | None] = []
    dots: list[Dot] = []
    width = 0
    for row, snapshot in enumerate(snapshots):
        lane = _lane_of(snapshot.digest, waiting)  # (1)
        waiting[:] = [None if digest == snapshot.digest else digest for digest in waiting]  # (2)
        for parent in snapshot.parents[:1]:
            if parent not in waiting:
                waiting[lane] = parent  # (3)
        for parent in snapshot.parents[1:]:
            if parent not in waiting:
                waiting[_lane_of(parent, waiting)] = parent  # (4)
        dots.append(Dot(row, lane, snapshot))
        width = max(width, len(waiting))
    return HistoryLanes(tuple(dots), tuple(_parent_lines(dots)), width)


def newest_first(found: Mapping[str, AnySnapshot]) -> tuple[AnySnapshot, ...]:
    """Every snapshot before its parents; of those that may come next, the newest one."""
    children = dict.fromkeys(found, 0)
    for snapshot in found.values():
        for parent in set(snapshot.parents) & found.keys():
            children[parent] += 1
    ready = [found[digest] for digest, count in children.items() if count == 0]
    ordered: list[AnySnapshot] = []
    while ready:
        ready.sort(key=lambda snapshot: (snapshot.timestamp, snapshot.digest))
        snapshot = ready.pop()
        ordered.append(snapshot)
        for parent in set(snapshot.parents) & found.keys():
            children[parent] -= 1
            if children[parent] == 0:
                ready.append(found[parent])
    return tuple(ordered)


def _lane_of(digest: str, waiting: list[str | None]) -> int:
    for wanted in (digest, None):
        if wanted in waiting:
            return waiting.index(wanted)
    waiting.append(None)
    return len(waiting) - 1


def _parent_lines(dots: Sequence[Dot]) -> list[HistoryLine]:
    places = {dot.snapshot.digest: dot for dot in dots}
    lines = []
    for dot in dots:
        for index, parent in enumerate(dot.snapshot.parents):
            to = places.get(parent)
            to_row, to_lane = (to.row, to.lane) if to else (len(dots), dot.lane)
            lines.append(HistoryLine(dot.row, dot.lane, to_row, to_lane, is_merge=index > 0))
    return lines


# --- history --------------------------------------------------------------------------------------
# The lanes as paths and circles of SVG.

ROW_HEIGHT, LANE_WIDTH, MARGIN = 28, 18, 16
_COLOURS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """The dot of a snapshot."""

    digest: str
    x: int
    y: int
    colour: int
    is_merge: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPicture:
    """``paths`` are pairs of a path and the number of its colour."""

    circles: tuple[Circle, ...]
    paths: tuple[tuple[str, int], ...]
    width: int
    height: int
    merges: int


def history_picture(snapshots: Sequence[Snapshot], *, is_cut: bool) -> HistoryPicture:
    """The picture of snapshots, a row each; ``is_cut``: older ones follow below."""
    lanes = lay_out(snapshots)
    circles = tuple(_circle(dot) for dot in lanes.dots)
    return HistoryPicture(
        circles=circles,
        paths=tuple((_path(line), line.to_lane % _COLOURS) for line in lanes.lines),
        width=2 * MARGIN + max(lanes.width - 1, 0) * LANE_WIDTH,
        height=2 * MARGIN + max(len(circles) - 1 + is_cut, 0) * ROW_HEIGHT,
        merges=sum(circle.is_merge for circle in circles),
    )


def _circle(dot: Dot) -> Circle:
    x, y = _place(dot.row, dot.lane)
    snapshot = dot.snapshot
    is_merge = len(snapshot.parents) > 1
    return Circle(digest=snapshot.digest, x=x, y=y, colour=dot.lane % _COLOURS, is_merge=is_merge)


def _path(line: HistoryLine) -> str:
    x, y = _place(line.row, line.lane)
    to_x, to_y = _place(line.to_row, line.to_lane)
    if line.to_lane == line.lane:
        return f"M{x} {y}V{to_y}"
    if line.is_merge:  # out of the merge at once, then down its own lane
        return f"M{x} {y}C{x} {y + ROW_HEIGHT} {to_x} {y} {to_x} {y + ROW_HEIGHT}V{to_y}"
    # Down its own lane, and into the parent at the end.
    return f"M{x} {y}V{to_y - ROW_HEIGHT}C{x} {to_y} {to_x} {to_y - ROW_HEIGHT} {to_x} {to_y}"


def _place(row: int, lane: int) -> tuple[int, int]:
    return MARGIN + lane * LANE_WIDTH, MARGIN + row * ROW_HEIGHT
