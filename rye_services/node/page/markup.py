"""HTML and SVG out of values. Pure; whatever is not `Html` is text, and is escaped."""

import re
from collections.abc import Iterable
from html import escape

from lillux.values import dataclass

# What the parser of HTML drops, or takes for something else: shown as the sign of a lost letter.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# They turn the text around them over, so that a path reads as another one.
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_EMPTY = frozenset({"br", "hr", "img", "input", "link", "meta"})


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that is ready to be sent; made by `tag`, `joined` and `text` only."""

    source: str

    def __str__(self) -> str:
        return self.source


Part = Html | str | int | float | None


def text(value: str) -> Html:
    """A text as it is to be read: escaped, without letters that hide or turn others."""
    return Html(escape(_TURNING.sub("\ufffd", _UNPRINTABLE.sub("\ufffd", value))))


def joined(parts: Iterable[Part]) -> Html:
    """The parts one after another; ``None`` is nothing."""
    return Html("".join(_source(part) for part in parts))


def tag(element: str, /, *children: Part, **attributes: str | float | bool | None) -> Html:
    """An element. ``class_`` is the attribute ``class``, ``data_id`` is ``data-id``.

    An attribute that is ``None`` or ``False`` is left out; ``True`` stands without a value.
    """
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in _EMPTY:
        return Html(f"<{element}{opened}>")
    return Html(f"<{element}{opened}>{joined(children)}</{element}>")


def _source(part: Part) -> str:
    match part:
        case None:
            return ""
        case Html():
            return part.source
        case _:
            return text(str(part)).source


def _attribute(key: str, value: str | float | bool | None) -> str:  # noqa: FBT001
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
