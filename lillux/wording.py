"""JSON values in words: on one line, printable, never long.

A message shows what a file, a program or a peer wrote. None of it may end the line, move the cursor
or fill the screen.
"""

import json
from collections.abc import Iterable

from lillux.foreign_text import printable

MAX_SHOWN = 80
"""Characters of one value that a message shows."""

MAX_LISTED = 240
"""Characters of a list of values that a message shows."""


def json_text(value: object, limit: int = MAX_SHOWN) -> str:
    """The JSON of a value, cut; of a huge or endless one only what is shown is written."""
    if isinstance(value, str):
        value = value[: limit + 1]
    text = ""
    try:
        for part in _ENCODER.iterencode(value):
            text += part
            if len(text) > limit:
                break
    except ValueError:  # Python prints no integer of thousands of digits
        text += "..."
    return printable(text, limit)


_ENCODER = json.JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=str)


def listed(values: Iterable[object]) -> str:
    """JSON values one after another, cut: ``"a", "b", 3``."""
    text = ""
    for value in values:
        text += (", " if text else "") + json_text(value)
        if len(text) > MAX_LISTED:
            break
    return printable(text, MAX_LISTED)


def counted(number: float, one: str, many: str) -> str:
    """A number of things: ``1 item``, ``3 items``."""
    return f"{int(number)} {one if number == 1 else many}"


def describe_value(value: object) -> str:
    """Type and content: ``string "x"``, ``integer 3``, ``null``, ``array [1, 2]``."""
    return "null" if value is None else f"{_type_name(value)} {json_text(value)}"


def _type_name(value: object) -> str:
    """The JSON type of a value; a number written with a point is a ``number``."""
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return type(value).__name__


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "boolean"),  # before int, which it is to Python
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    ((list, tuple), "array"),
    (dict, "object"),
)
