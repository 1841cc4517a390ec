"""A picture in the language of Graphviz."""

from collections.abc import Iterator, Mapping

from ryeos.graph.picture import (
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

_SHAPES: Mapping[Outline, str] = {
    Outline.SQUARE: 'shape=box style="filled"',
    Outline.ROUNDED: 'shape=box style="rounded,filled"',
    Outline.HEXAGON: 'shape=hexagon style="filled"',
    Outline.STACK: 'shape=box3d style="filled"',
    Outline.STADIUM: 'shape=box style="rounded,filled,bold"',
}


def dot(picture: Picture) -> str:
    """The text of the digraph, without a newline at the end."""
    return "\n".join(_lines(picture))


def _lines(picture: Picture) -> Iterator[str]:
    yield f"digraph {_quoted(picture.title)} {{"
    yield '    node [fontname="Helvetica,sans-serif" fontsize=11]'
    yield '    edge [fontname="Helvetica,sans-serif" fontsize=9]'
    if picture.start is not None:
        yield '    begin [shape=point width=0.15 label=""]'
        yield f"    begin -> {picture.start}"
    yield from (f"    {_box(box)}" for box in picture.boxes)
    yield from (f"    {_arrow(arrow)}" for arrow in picture.arrows)
    if picture.states:
        yield from (f"    {line}" for line in _legend(picture.states))
    yield "}"


def _box(box: Box) -> str:
    paint = PAINTS[box.state] if box.state else NEUTRAL
    colours = f'fillcolor="{paint.fill}" color="{paint.line}" fontcolor="{paint.text}"'
    return f"{box.key} [label={_quoted(*box.lines)} {_SHAPES[box.outline]} {colours}]"


def _arrow(arrow: Arrow) -> str:
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
        yield f"    {_box(Box(key=f'legend_{state.value}', lines=(state.value,), state=state))}"
    yield "}"


def _quoted(*lines: str) -> str:
    """Lines of text as one string of Graphviz."""
    return '"' + "\\n".join(_escaped(line) for line in lines) + '"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
