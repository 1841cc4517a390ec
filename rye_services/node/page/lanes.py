"""Where the snapshots of a history stand in its picture: a row each, the mainline left. Pure.

A lane is held for the parent that a snapshot waits for. (1) A snapshot stands in the first lane
that waits for it, else in a free one; (2) the other lanes that wait for it end there; (3) its own
lane goes on with its first parent; (4) each further parent joins the lane that waits for it
already, or opens one.
"""

from collections.abc import Mapping, Sequence

from lillux.values import dataclass
from rye_services.node.page.model import Snapshot


@dataclass(frozen=True, slots=True)
class Dot:
    """A snapshot in the picture; row 0 is at the top, lane 0 on the left."""

    row: int
    lane: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Line:
    """From a snapshot down to a parent. A parent that is not shown is past the last row."""

    row: int
    lane: int
    to_row: int
    to_lane: int
    is_merge: bool


@dataclass(frozen=True, slots=True)
class Lanes:
    """The picture in whole numbers."""

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    width: int


def lay_out(snapshots: Sequence[Snapshot]) -> Lanes:
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
    return Lanes(tuple(dots), tuple(_lines(dots)), width)


def newest_first(found: Mapping[str, Snapshot]) -> tuple[Snapshot, ...]:
    """Every snapshot before its parents; of those that may come next, the newest one."""
    children = dict.fromkeys(found, 0)
    for snapshot in found.values():
        for parent in set(snapshot.parents) & found.keys():
            children[parent] += 1
    ready = [found[digest] for digest, count in children.items() if count == 0]
    ordered: list[Snapshot] = []
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


def _lines(dots: Sequence[Dot]) -> list[Line]:
    places = {dot.snapshot.digest: dot for dot in dots}
    lines = []
    for dot in dots:
        for index, parent in enumerate(dot.snapshot.parents):
            to = places.get(parent)
            to_row, to_lane = (to.row, to.lane) if to else (len(dots), dot.lane)
            lines.append(Line(dot.row, dot.lane, to_row, to_lane, is_merge=index > 0))
    return lines
