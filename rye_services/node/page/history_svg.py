"""The history of a project as a picture: SVG, whose colours are those of the style sheet. Pure."""

from rye_services.node.page.lanes import Dot, Lanes, Line, lay_out
from rye_services.node.page.links import snapshot_anchor
from rye_services.node.page.markup import Html, joined, tag
from rye_services.node.page.model import History, Snapshot

ROW_HEIGHT, LANE_WIDTH, MARGIN, RADIUS = 28, 18, 16, 5
_TEXT_WIDTH = 520
_SHORT = 12


def history_svg(history: History) -> Html:
    """The picture; each dot leads to the row of its snapshot in the table below it."""
    lanes = lay_out(history.snapshots)
    width = 2 * MARGIN + lanes.width * LANE_WIDTH + _TEXT_WIDTH
    height = 2 * MARGIN + max(len(lanes.dots) - 1 + history.is_cut, 0) * ROW_HEIGHT
    merges = sum(len(snapshot.parents) > 1 for snapshot in history.snapshots)
    return tag(
        "svg",
        tag("title", f"History: {len(lanes.dots)} snapshots, {merges} merges, newest first"),
        tag("g", *(_line(line) for line in lanes.lines), class_="lines"),
        tag("g", *(_dot(dot, lanes, history) for dot in lanes.dots), class_="dots"),
        xmlns="http://www.w3.org/2000/svg",
        class_="history",
        role="img",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
    )


def _line(line: Line) -> Html:
    x, y = _place(line.row, line.lane)
    to_x, to_y = _place(line.to_row, line.to_lane)
    if line.to_lane == line.lane:
        path = f"M{x} {y}V{to_y}"
    elif line.is_merge:  # out of the merge at once, then down its own lane
        path = f"M{x} {y}C{x} {y + ROW_HEIGHT} {to_x} {y} {to_x} {y + ROW_HEIGHT}V{to_y}"
    else:  # down its own lane, and into the parent at the end
        path = f"M{x} {y}V{to_y - ROW_HEIGHT}C{x} {to_y} {to_x} {to_y - ROW_HEIGHT} {to_x} {to_y}"
    return tag("path", d=path, class_=f"lane{line.to_lane % 6}")


def _dot(dot: Dot, lanes: Lanes, history: History) -> Html:
    x, y = _place(dot.row, dot.lane)
    snapshot = dot.snapshot
    is_head = snapshot.digest == history.project.snapshot_hash
    kind = "head" if is_head else "merge" if len(snapshot.parents) > 1 else "plain"
    text_x = 2 * MARGIN + lanes.width * LANE_WIDTH
    label = joined([f"{snapshot.digest[:_SHORT]} {caption(snapshot)}", " (HEAD)" * is_head])
    return tag(
        "a",
        tag("circle", cx=x, cy=y, r=RADIUS, class_=f"{kind} lane{dot.lane % 6}"),
        tag("text", label, x=text_x, y=y + 4),
        href=f"#{snapshot_anchor(snapshot.digest)}",
    )


def caption(snapshot: Snapshot) -> str:
    """What made the snapshot, in a few words."""
    match snapshot.source:
        case "execution":
            return f"execution of {snapshot.detail}" if snapshot.detail else "execution"
        case "merge":
            return "merge of an execution"
        case source:
            return source or "snapshot"


def _place(row: int, lane: int) -> tuple[int, int]:
    return MARGIN + lane * LANE_WIDTH, MARGIN + row * ROW_HEIGHT
