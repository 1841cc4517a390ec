"""A picture as a Mermaid flowchart.

GitHub and most viewers of Markdown draw it.
"""

from collections.abc import Iterator, Mapping

from ryeos.graph.pictures import PAINTS, Arrow, Box, NodeState, Outline, Picture, Stroke

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
