"""A picture as boxes and arrows, before it is Mermaid, Graphviz or SVG."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

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
from ryeos.run.model import Chain
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


# --- shape ----------------------------------------------------------------------------------------
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


# --- mermaid --------------------------------------------------------------------------------------
# A picture as a Mermaid flowchart, which GitHub and most viewers of Markdown draw.

_BRACKETS: Mapping[Outline, tuple[str, str]] = {
    Outline.SQUARE: ("[", "]"),
    Outline.ROUNDED: ("(", ")"),
    Outline.HEXAGON: ("{{", "}}"),
    Outline.STACK: ("[[", "]]"),
    Outline.STADIUM: ("([", "])"),
}
# Mermaid has its own entities, and directives (%%{init}%%) that it finds even within a label; `&`
# and `<` are read as HTML by the browsers that draw it.
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "#": "#35;", "`": "#96;", "%": "#37;"}
)


def mermaid(picture: Picture) -> str:
    """The text of the flowchart, without a newline at the end."""
    return "\n".join(_mermaid_lines(picture))


def _mermaid_lines(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    if picture.start is not None:
        yield '    begin((" "))'
        yield f"    begin --> {picture.start}"
    yield from (f"    {_mermaid_box(box)}" for box in picture.boxes)
    yield from (f"    {_mermaid_arrow(arrow)}" for arrow in picture.arrows)
    for state in picture.states:
        yield f"    {_class(state)}"
        keys = ",".join(box.key for box in picture.boxes if box.state is state)
        yield f"    class {keys} {state.value}"


def _mermaid_box(box: Box) -> str:
    opening, closing = _BRACKETS[box.outline]
    label = "<br/>".join(_safe(line) for line in box.lines) or " "
    return f'{box.key}{opening}"{label}"{closing}'


def _mermaid_arrow(arrow: Arrow) -> str:
    line = "-.->" if arrow.stroke is Stroke.DASHED else "-->"
    text = _safe(arrow.label)
    label = f'|"{text}"|' if text else ""
    return f"{arrow.source} {line}{label} {arrow.target}"


def _class(state: NodeState) -> str:
    paint = PAINTS[state]
    return (
        f"classDef {state.value} fill:{paint.fill},stroke:{paint.line},color:{paint.text}"
        ",stroke-width:2px"
    )


def _safe(text: str) -> str:
    """Text that cannot end a label."""
    return " ".join(text.translate(_ESCAPES).split())


# --- dot ------------------------------------------------------------------------------------------
# A picture in the language of Graphviz.

_SHAPES: Mapping[Outline, str] = {
    Outline.SQUARE: 'shape=box style="filled"',
    Outline.ROUNDED: 'shape=box style="rounded,filled"',
    Outline.HEXAGON: 'shape=hexagon style="filled"',
    Outline.STACK: 'shape=box3d style="filled"',
    Outline.STADIUM: 'shape=box style="rounded,filled,bold"',
}


def dot(picture: Picture) -> str:
    """The text of the digraph, without a newline at the end."""
    return "\n".join(_dot_lines(picture))


def _dot_lines(picture: Picture) -> Iterator[str]:
    yield f"digraph {_quoted(picture.title)} {{"
    yield '    node [fontname="Helvetica,sans-serif" fontsize=11]'
    yield '    edge [fontname="Helvetica,sans-serif" fontsize=9]'
    if picture.start is not None:
        yield '    begin [shape=point width=0.15 label=""]'
        yield f"    begin -> {picture.start}"
    yield from (f"    {_dot_box(box)}" for box in picture.boxes)
    yield from (f"    {_dot_arrow(arrow)}" for arrow in picture.arrows)
    if picture.states:
        yield from (f"    {line}" for line in _legend(picture.states))
    yield "}"


def _dot_box(box: Box) -> str:
    paint = PAINTS[box.state] if box.state else NEUTRAL
    colours = f'fillcolor="{paint.fill}" color="{paint.line}" fontcolor="{paint.text}"'
    return f"{box.key} [label={_quoted(*box.lines)} {_SHAPES[box.outline]} {colours}]"


def _dot_arrow(arrow: Arrow) -> str:
    attributes = []
    if arrow.label:
        attributes.append(f"label={_quoted(' ' + arrow.label + ' ')}")
    if arrow.stroke is Stroke.DASHED:
        attributes.append(f'style=dashed color="{ERROR_LINE}" fontcolor="{ERROR_LINE}"')
    suffix = f" [{' '.join(attributes)}]" if attributes else ""
    return f"{arrow.source} -> {arrow.target}{suffix}"


def _legend(states: tuple[NodeState, ...]) -> Iterator[str]:
    yield "subgraph cluster_legend {"
    yield '    label="states" color="#d0d7de" fontname="Helvetica,sans-serif" fontsize=9'
    for state in states:
        yield f"    {_dot_box(Box(key=f'legend_{state.value}', lines=(state.value,), state=state))}"
    yield "}"


def _quoted(*lines: str) -> str:
    """Lines of text as one string of Graphviz."""
    return '"' + "\\n".join(_escape(line) for line in lines) + '"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def chain_picture(chain: Chain) -> Picture:
    """The elements of a tool's chain as boxes, from the tool to its primitive."""
    boxes = [
        Box(key=f"e{number}", lines=(element.item_id, element.space))
        for number, element in enumerate(chain.elements)
    ]
    arrows = [Arrow(source=box.key, target=other.key) for box, other in pairwise(boxes)]
    return Picture(title=chain.tool.item_id, boxes=boxes, arrows=arrows)


# --- states of a run ------------------------------------------------------------------------------

_STARTED, _COMPLETED = "step_started", "step_completed"
_LEFT: Mapping[str, NodeState] = {
    "error": NodeState.ERROR,
    "killed": NodeState.CANCELLED,
    "cancelled": NodeState.CANCELLED,
}


def recorded_node_states(workspace: Workspace, run_id: str, status: str) -> dict[str, NodeState]:
    """The state of each node that the run has come to; ``status`` is that of its thread.

    Raises as `ryeos.graph.run_store.load_run`.
    """
    from ryeos.graph.run_log import run_place
    from ryeos.graph.run_store import key_lookup, load_run

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
