"""A picture as SVG: one file, no script, no font and no address outside it."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from lillux.values import dataclass
from ryeos.graph.layout import Layout, LayoutArrow, Point, Route, Size, lay_out
from ryeos.graph.pictures import (
    ERROR_LINE,
    NEUTRAL,
    PAINTS,
    Arrow,
    Box,
    NodeState,
    Outline,
    Paint,
    Picture,
    Stroke,
)

_MARGIN, _LEGEND_HEIGHT = 24.0, 34.0
_TITLE_SIZE, _LINE_SIZE, _LABEL_SIZE = 13.0, 11.0, 10.5
_LEADING = 1.4
_PAD_X, _PAD_Y = 14.0, 9.0
_LEAST = Size(72.0, 36.0)
_START = Size(14.0, 14.0)
_CHAMFER, _STACK = 12.0, 4.0
_LOOP = 26.0
_LINE_COLOUR, _TEXT_COLOUR = "#57606a", "#1f2328"
_FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', sans-serif"
_MARKS: Mapping[NodeState, str] = {
    NodeState.COMPLETED: "M-3.4 0.2 L-1 2.8 L3.6 -2.6",
    NodeState.ERROR: "M-2.8 -2.8 L2.8 2.8 M2.8 -2.8 L-2.8 2.8",
    NodeState.RUNNING: "M-2 -3.2 L3.2 0 L-2 3.2 Z",
    NodeState.CANCELLED: "M-3.4 0 L3.4 0",
}
# What a document of XML 1.0 may not hold, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Font:
    """The look of a line of text."""

    size: float
    colour: str
    weight: int = 400
    anchor: str = "middle"


def svg(picture: Picture) -> str:
    """The text of the file, with a newline at the end."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    boxes = list(picture.boxes)
    keys = {box.key: index for index, box in enumerate(boxes)}
    sizes = [_box_size(box) for box in boxes]
    arrows = list(picture.arrows)
    lines = [_line(keys[arrow.source], keys[arrow.target], arrow.label) for arrow in arrows]
    if picture.start is not None:
        # The mark of the beginning comes first, so that the search for cycles begins there.
        sizes = [_START, *sizes]
        lines = [
            LayoutArrow(source=line.source + 1, target=line.target + 1, label=line.label)
            for line in lines
        ]
        lines.append(LayoutArrow(source=0, target=keys[picture.start] + 1))
        arrows.append(Arrow(source="", target=picture.start))
    layout = lay_out(sizes, lines, _loop_margins(lines))
    first = 0 if picture.start is None else 1
    legend = list(_legend(picture.states))
    yield from _opening(picture, _extent(layout, _legend_width(picture)))
    yield f'<g transform="translate({_MARGIN:g} {_MARGIN + (_LEGEND_HEIGHT if legend else 0):g})">'
    for arrow, line, route in zip(arrows, lines, layout.routes, strict=True):
        yield from _arrow(arrow, route, layout.centres[line.source], sizes[line.source])
    if first:
        centre = layout.centres[0]
        yield f'<circle cx="{centre.x:.1f}" cy="{centre.y:.1f}" r="6" fill="{_LINE_COLOUR}"/>'
    for box, centre, size in zip(boxes, layout.centres[first:], sizes[first:], strict=True):
        yield from _box(box, centre, size)
    yield "</g>"
    yield from legend
    yield "</svg>"


def _line(source: int, target: int, label: str) -> LayoutArrow:
    if not label:
        return LayoutArrow(source=source, target=target)
    size = Size(text_width(label, _LABEL_SIZE) + 10, _LABEL_SIZE * _LEADING + 2)
    return LayoutArrow(source=source, target=target, label=size)


def _box_size(box: Box) -> Size:
    title, *rest = box.lines or ("",)
    widths = [text_width(title, _TITLE_SIZE, is_bold=True)]
    widths += [text_width(line, _LINE_SIZE) for line in rest]
    chamfer = 2 * _CHAMFER if box.outline is Outline.HEXAGON else 0.0
    mark = 2 * _PAD_X if box.state else 0.0
    height = (_TITLE_SIZE + _LINE_SIZE * len(rest)) * _LEADING + 2 * _PAD_Y
    width = max(widths[0] + mark, *widths) + 2 * _PAD_X + chamfer
    return Size(max(width, _LEAST.width), max(height, _LEAST.height))


def _loop_margins(lines: Sequence[LayoutArrow]) -> Mapping[int, float]:
    """The room beside each box that has an arrow to itself."""
    margins: dict[int, float] = {}
    for line in lines:
        if line.source == line.target:
            label = line.label.width if line.label else 0.0
            margins[line.source] = max(margins.get(line.source, 0.0), _LOOP + label)
    return margins


def _extent(layout: Layout, legend_width: float) -> Size:
    """The size of the whole picture, legend included."""
    legend = _LEGEND_HEIGHT if legend_width else 0.0
    return Size(
        max(layout.size.width, legend_width) + 2 * _MARGIN,
        layout.size.height + 2 * _MARGIN + legend,
    )


def _opening(picture: Picture, size: Size) -> Iterator[str]:
    width, height = f"{size.width:.0f}", f"{size.height:.0f}"
    title = _text(picture.title)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" font-family={quoteattr(_FONT)}>'
    )
    yield f"<title>{title}</title>"
    yield "<defs>"
    for name, colour in (("arrow", _LINE_COLOUR), ("failed", ERROR_LINE)):
        yield (
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
            f' markerHeight="7" orient="auto"><path d="M0 1 L10 5 L0 9 z" fill="{colour}"/>'
            "</marker>"
        )
    yield "</defs>"
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'


def _arrow(arrow: Arrow, route: Route | None, centre: Point, size: Size) -> Iterator[str]:
    is_dashed = arrow.stroke is Stroke.DASHED
    colour, marker = (ERROR_LINE, "failed") if is_dashed else (_LINE_COLOUR, "arrow")
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    path = _curve(route.points) if route else _loop(centre, size)
    yield (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.4"{dashes}'
        f' marker-end="url(#{marker})"/>'
    )
    if not arrow.label:
        return
    width = text_width(arrow.label, _LABEL_SIZE) + 6
    height = _LABEL_SIZE * _LEADING
    if route and route.label:
        middle = route.label
    else:
        middle = Point(centre.x + size.width / 2 + _LOOP + width / 2, centre.y)
    yield (
        f'<rect x="{middle.x - width / 2:.1f}" y="{middle.y - height / 2:.1f}" width="{width:.1f}"'
        f' height="{height:.1f}" rx="3" fill="#ffffff"/>'
    )
    yield _line_of_text(arrow.label, middle, _Font(_LABEL_SIZE, colour))


def _curve(points: Sequence[Point]) -> str:
    """A smooth line that leaves and arrives upright."""
    first = points[0]
    parts = [f"M{first.x:.1f} {first.y:.1f}"]
    for one, other in itertools.pairwise(points):
        middle = (one.y + other.y) / 2
        parts.append(
            f"C{one.x:.1f} {middle:.1f} {other.x:.1f} {middle:.1f} {other.x:.1f} {other.y:.1f}"
        )
    return " ".join(parts)


def _loop(centre: Point, size: Size) -> str:
    """From the right side of a box and back to it."""
    x, reach, half = centre.x + size.width / 2, _LOOP, size.height / 4
    return (
        f"M{x:.1f} {centre.y - half:.1f} C{x + reach:.1f} {centre.y - 2 * half:.1f}"
        f" {x + reach:.1f} {centre.y + 2 * half:.1f} {x:.1f} {centre.y + half:.1f}"
    )


def _box(box: Box, centre: Point, size: Size) -> Iterator[str]:
    paint = PAINTS[box.state] if box.state else NEUTRAL
    state = f" data-state={quoteattr(box.state.value)}" if box.state else ""
    yield f"<g id={quoteattr(box.key)}{state}>"
    title_lines = [*box.lines, *([box.state.value] if box.state else [])]
    yield f"<title>{_text(' - '.join(title_lines))}</title>"
    yield from _outline(box, centre, size, paint)
    heights = [_TITLE_SIZE * _LEADING, *[_LINE_SIZE * _LEADING] * (len(box.lines) - 1)]
    depth = _STACK / 2 if box.outline is Outline.STACK else 0.0
    y = centre.y - sum(heights) / 2 + depth
    for index, (line, height) in enumerate(zip(box.lines, heights, strict=True)):
        font = _Font(_LINE_SIZE, paint.text) if index else _Font(_TITLE_SIZE, paint.text, 600)
        yield _line_of_text(line, Point(centre.x - depth, y + height / 2), font)
        y += height
    if box.state and box.state in _MARKS:
        chamfer = _CHAMFER / 2 if box.outline is Outline.HEXAGON else 0.0
        x = centre.x + size.width / 2 - 12 - chamfer - 2 * depth
        y = centre.y - size.height / 2 + 12 + 2 * depth
        yield from _mark(box.state, Point(x, y))
    yield "</g>"


def _outline(box: Box, centre: Point, size: Size, paint: Paint) -> Iterator[str]:
    x, y = centre.x - size.width / 2, centre.y - size.height / 2
    dashes = ' stroke-dasharray="4 3"' if box.state is NodeState.PENDING else ""
    look = f'fill="{paint.fill}" stroke="{paint.line}" stroke-width="1.4"{dashes}'
    if box.outline is Outline.HEXAGON:
        yield f'<polygon points="{_hexagon(x, y, size)}" {look}/>'
        return
    radius = {Outline.STADIUM: size.height / 2, Outline.SQUARE: 3.0}.get(box.outline, 8.0)
    depth = _STACK if box.outline is Outline.STACK else 0.0
    width, height = size.width - depth, size.height - depth
    area = f'width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"'
    if depth:
        yield f'<rect x="{x + depth:.1f}" y="{y:.1f}" {area} {look}/>'
    yield f'<rect x="{x:.1f}" y="{y + depth:.1f}" {area} {look}/>'


def _hexagon(x: float, y: float, size: Size) -> str:
    right, bottom, middle = x + size.width, y + size.height, y + size.height / 2
    corners = [
        *((x + _CHAMFER, y), (right - _CHAMFER, y), (right, middle)),
        *((right - _CHAMFER, bottom), (x + _CHAMFER, bottom), (x, middle)),
    ]
    return " ".join(f"{corner_x:.1f},{corner_y:.1f}" for corner_x, corner_y in corners)


def _mark(state: NodeState, place: Point) -> Iterator[str]:
    """The sign of a state, for those who do not see its colour."""
    yield (
        f'<g transform="translate({place.x:.1f} {place.y:.1f})">'
        f'<circle r="6.5" fill="{PAINTS[state].line}"/>'
        f'<path d="{_MARKS[state]}" fill="none" stroke="#ffffff" stroke-width="1.6"'
        ' stroke-linecap="round" stroke-linejoin="round"/></g>'
    )


def _legend(states: Sequence[NodeState]) -> Iterator[str]:
    x = _MARGIN
    for state in states:
        paint = PAINTS[state]
        dashes = ' stroke-dasharray="4 3"' if state is NodeState.PENDING else ""
        yield (
            f'<rect x="{x:.1f}" y="{_MARGIN / 2 + 5:.1f}" width="22" height="16" rx="4"'
            f' fill="{paint.fill}" stroke="{paint.line}" stroke-width="1.4"{dashes}/>'
        )
        if state in _MARKS:
            yield from _mark(state, Point(x + 11, _MARGIN / 2 + 13))
        text = Point(x + 28, _MARGIN / 2 + 13)
        yield _line_of_text(state.value, text, _Font(_LINE_SIZE, _TEXT_COLOUR, anchor="start"))
        x += _legend_step(state)


def _legend_step(state: NodeState) -> float:
    return text_width(state.value, _LINE_SIZE) + 28 + 18


def _legend_width(picture: Picture) -> float:
    return sum(_legend_step(state) for state in picture.states)


def _line_of_text(text: str, middle: Point, font: _Font) -> str:
    # dy instead of dominant-baseline: not every viewer knows the latter.
    return (
        f'<text x="{middle.x:.1f}" y="{middle.y:.1f}" dy="0.35em" font-size="{font.size:g}"'
        f' text-anchor="{font.anchor}" font-weight="{font.weight}" fill="{font.colour}">'
        f"{_text(text)}</text>"
    )


def _text(text: str) -> str:
    """Text as XML allows it: escaped, without the characters that no document may hold."""
    return escape(_NOT_XML.sub("\ufffd", text))


# How wide a text is in a sans-serif font, roughly: no font is read.

_NARROW, _SLIM, _MEDIUM, _WIDE, _FULL = 0.28, 0.36, 0.57, 0.7, 0.92
_WIDTHS: Mapping[str, float] = {
    **dict.fromkeys("ijl|!.,:;' `", _NARROW),
    **dict.fromkeys('ftr()[]{}/\\-*"I', _SLIM),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+<>=~", _WIDE),
    **dict.fromkeys("mwMW@%", _FULL),
}
_SAFETY = 1.04


def text_width(text: str, font_size: float, *, is_bold: bool = False) -> float:
    """The width in pixels; on the large side, so that a box is seldom too small."""
    ems = sum(_WIDTHS.get(character) or _other(character) for character in text)
    return ems * font_size * _SAFETY * (1.07 if is_bold else 1.0)


def _other(character: str) -> float:
    return 1.0 if east_asian_width(character) in "WF" else _MEDIUM
