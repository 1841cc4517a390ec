"""A graph as a picture; of a run, with how far it is with each node."""

from collections.abc import Iterator, Mapping

from ryeos.graph.conditions import AllOf, AnyOf, Comparison, Condition, Not
from ryeos.graph.model import Action, ActionNode, ForeachNode, Graph, Node, edges_of, error_target
from ryeos.graph.picture import Arrow, Box, NodeState, Outline, Picture, Stroke, shortened

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
    title = shortened(graph.graph_id, _MOST_LINE)
    return Picture(title=title, boxes=boxes, arrows=arrows, start=keys[graph.start])


def _box_lines(node: Node) -> tuple[str, ...]:
    title = shortened(node.name, _MOST_TITLE)
    if not isinstance(node, (ActionNode, ForeachNode)):
        return (title,)
    called = shortened(_called(node.action), _MOST_LINE)
    if isinstance(node, ActionNode):
        return (title, called)
    over = node.over if isinstance(node.over, str) else "a list"
    together = ", in parallel" if node.parallel else ""
    return (title, called, shortened(f"for {node.as_name} in {over}{together}", _MOST_LINE))


def _called(action: Action) -> str:
    item = action.item_id or "a search"
    return item if action.primary == "execute" else f"{action.primary} {item}"


def _arrows(node: Node, keys: Mapping[str, str]) -> Iterator[Arrow]:
    edges = edges_of(node)
    for index, edge in enumerate(edges):
        if edge.when is not None:
            label = shortened(condition_text(edge.when), _MOST_LABEL)
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
            return _joined(conditions, " or ") or "never"
        case AllOf(conditions):
            return _joined(conditions, " and ") or "always"
        case Not(inner):
            return f"not {_grouped(inner)}"


def _comparison_text(path: str, op: str, value: object) -> str:
    if op in _UNARY:
        return f"{path} {_UNARY[op]}"
    return f"{path} {_SIGNS.get(op, op.replace('_', ' '))} {_value_text(value)}"


def _value_text(value: object) -> str:
    from json import dumps

    return value if isinstance(value, str) and value else dumps(value, ensure_ascii=False)


def _joined(conditions: tuple[Condition, ...], word: str) -> str:
    if len(conditions) == 1:
        return condition_text(conditions[0])
    return word.join(_grouped(condition) for condition in conditions)


def _grouped(condition: Condition) -> str:
    text = condition_text(condition)
    return text if isinstance(condition, (Comparison, Not)) else f"({text})"
