"""A picture as boxes and arrows, before it is Mermaid, Graphviz or SVG."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from lillux.values import dataclass


class Outline(StrEnum):
    """The form of a box, which tells what it stands for."""

    ROUNDED = "rounded"
    HEXAGON = "hexagon"
    STACK = "stack"
    STADIUM = "stadium"
    SQUARE = "square"


class Stroke(StrEnum):
    """The line of an arrow."""

    SOLID = "solid"
    DASHED = "dashed"


class NodeState(StrEnum):
    """How far a run is with a node."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Paint:
    """The colours of a state, each ``#rrggbb``."""

    fill: str
    line: str
    text: str = "#1f2328"


NEUTRAL = Paint("#f6f8fa", "#57606a")
ERROR_LINE = "#cf222e"
PAINTS: Mapping[NodeState, Paint] = {
    NodeState.PENDING: Paint("#ffffff", "#afb8c1", "#6e7781"),
    NodeState.RUNNING: Paint("#ddf4ff", "#0969da"),
    NodeState.COMPLETED: Paint("#dafbe1", "#1a7f37"),
    NodeState.ERROR: Paint("#ffebe9", "#cf222e"),
    NodeState.CANCELLED: Paint("#fff8c5", "#9a6700"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box. ``key`` names it in the output: letters and digits. ``lines``: its title, then more.

    ``state`` is None in a picture of no run.
    """

    key: str
    lines: tuple[str, ...]
    outline: Outline = Outline.SQUARE
    state: NodeState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """From the box with one key to another; ``label`` may be empty."""

    source: str
    target: str
    label: str = ""
    stroke: Stroke = Stroke.SOLID


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Boxes in the order of the file; ``start`` is the key that gets the mark of the beginning."""

    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    start: str | None = None

    @property
    def states(self) -> tuple[NodeState, ...]:
        """The states there are, in the order of their life; the legend shows them."""
        there = {box.state for box in self.boxes}
        return tuple(state for state in NodeState if state in there)


def shortened(text: str, most: int) -> str:
    """A text on one line that is no longer than ``most`` characters, and can be seen."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"
