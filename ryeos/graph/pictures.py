"""A picture as boxes and arrows, before it is Mermaid, Graphviz or SVG."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from lillux.foreign_text import one_line
from lillux.values import dataclass
from ryeos.graph.conditions import AllOf, AnyOf, Comparison, Condition, Not
from ryeos.graph.model import (
    Action,
    ActionNode,
    ForeachNode,
    Graph,
    GraphNode,
    edges_of,
    error_target,
)
from ryeos.run.workspace import Workspace


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
    """The progress of a run with a node."""

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


# A graph as a picture; of a run, with how far it is with each node.

_MOST_TITLE, _MOST_LINE, _MOST_LABEL = 40, 48, 40
_OUTLINES: Mapping[str, Outline] = {
    "action": Outline.ROUNDED,
    "gate": Outline.HEXAGON,
    "foreach": Outline.STACK,
    "return": Outline.STADIUM,
}
_SIGNS: Mapping[str, str] = {
    "eq": "=",
    "ne": "\u2260",
    "gt": ">",
    "gte": "\u2265",
    "lt": "<",
    "lte": "\u2264",
}
_UNARY: Mapping[str, str] = {
    "exists": "exists",
    "not_exists": "is missing",
    "empty": "is empty",
    "not_empty": "is not empty",
}


def picture_of(graph: Graph, states: Mapping[str, NodeState] | None = None) -> Picture:
    """The picture of a graph, or of a run: ``states`` by node; a node without one is pending."""
    keys = {name: f"n{index}" for index, name in enumerate(graph.nodes)}
    boxes = []
    for name, node in graph.nodes.items():
        state = None if states is None else states.get(name, NodeState.PENDING)
        box = Box(key=keys[name], lines=_box_lines(node), outline=_OUTLINES[node.type], state=state)
        boxes.append(box)
    arrows = [arrow for node in graph.nodes.values() for arrow in _arrows(node, keys)]
    title = one_line(graph.graph_id, _MOST_LINE)
    return Picture(title=title, boxes=boxes, arrows=arrows, start=keys[graph.start])


def _box_lines(node: GraphNode) -> tuple[str, ...]:
    title = one_line(node.name, _MOST_TITLE)
    if not isinstance(node, (ActionNode, ForeachNode)):
        return (title,)
    called = one_line(_call_text(node.action), _MOST_LINE)
    if isinstance(node, ActionNode):
        return (title, called)
    over = node.over if isinstance(node.over, str) else "a list"
    together = ", in parallel" if node.parallel else ""
    return (title, called, one_line(f"for {node.as_name} in {over}{together}", _MOST_LINE))


def _call_text(action: Action) -> str:
    item = action.item_id or "a search"
    return item if action.primary == "execute" else f"{action.primary} {item}"


def _arrows(node: GraphNode, keys: Mapping[str, str]) -> Iterator[Arrow]:
    edges = edges_of(node)
    for index, edge in enumerate(edges):
        if edge.when is not None:
            label = one_line(condition_text(edge.when), _MOST_LABEL)
        else:
            label = "else" if index else ""
        yield Arrow(source=keys[node.name], target=keys[edge.to], label=label)
    failed = error_target(node)
    if failed:
        yield Arrow(
            source=keys[node.name], target=keys[failed], label="error", stroke=Stroke.DASHED
        )


def condition_text(condition: Condition) -> str:
    """A condition as one reads it: ``state.total > 3 and inputs.name exists``."""
    match condition:
        case Comparison(path, op, value):
            return _comparison_text(".".join(path), op, value)
        case AnyOf(conditions):
            return _join_conditions(conditions, " or ") or "never"
        case AllOf(conditions):
            return _join_conditions(conditions, " and ") or "always"
        case Not(inner):
            return f"not {_group_text(inner)}"


def _comparison_text(path: str, op: str, value: object) -> str:
    if op in _UNARY:
        return f"{path} {_UNARY[op]}"
    return f"{path} {_SIGNS.get(op, op.replace('_', ' '))} {_value_text(value)}"


def _value_text(value: object) -> str:
    from json import dumps

    return value if isinstance(value, str) and value else dumps(value, ensure_ascii=False)


def _join_conditions(conditions: tuple[Condition, ...], word: str) -> str:
    if len(conditions) == 1:
        return condition_text(conditions[0])
    return word.join(_group_text(condition) for condition in conditions)


def _group_text(condition: Condition) -> str:
    text = condition_text(condition)
    return text if isinstance(condition, (Comparison, Not)) else f"({text})"


_STARTED, _COMPLETED = "step_started", "step_completed"
_LEFT: Mapping[str, NodeState] = {
    "error": NodeState.ERROR,
    "killed": NodeState.CANCELLED,
    "cancelled": NodeState.CANCELLED,
}


def recorded_node_states(workspace: Workspace, run_id: str, status: str) -> dict[str, NodeState]:
    """The state of each node that the run has come to; ``status`` is that of its thread.

    Raises as `ryeos.graph.loaded_runs.load_run`.
    """
    from ryeos.graph.loaded_runs import key_lookup, load_run
    from ryeos.graph.run_places import run_place

    place = run_place(workspace.context.spaces)
    loaded = load_run(place, run_id, key_lookup(workspace, place))
    states: dict[str, NodeState] = {}
    for event in loaded.events:
        node = event.payload.get("node")
        if not isinstance(node, str):
            continue
        if event.event_type == _STARTED:
            states[node] = NodeState.RUNNING
        elif event.event_type == _COMPLETED:
            states[node] = _end_state(event.payload)
    left = _LEFT.get(status, NodeState.RUNNING)  # what has become of a node that was begun
    return {node: left if state is NodeState.RUNNING else state for node, state in states.items()}


def _end_state(payload: Mapping[str, object]) -> NodeState:
    return NodeState.ERROR if payload.get("status") == "error" else NodeState.COMPLETED
