"""A picture in the language of Graphviz."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ryeos.graph.pictures import (
    ERROR_LINE,
    NEUTRAL,
    PAINTS,
    Arrow,
    Box,
    NodeState,
    Outline,
    Picture,
    Stroke,
)
from ryeos.run.model import Chain

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
