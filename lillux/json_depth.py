"""How deep JSON is nested, and the id of a message that is nested too deep. Nothing recurs.

An object or a list is one level deeper than what holds it; the outermost is at level one.
"""

import json
import re
from typing import Any

# The ends of a message that are looked at for its id, however long the rest is.
SEARCHED_BYTES = 4096
# Characters are taken for good, groups are not: before 3.11.5 possessive groups lose matches.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_SCALAR = rb"(?:" + _STRING + rb"|[-+.0-9A-Za-z]++)"
_MEMBER = _STRING + rb"\s*+:\s*+" + _SCALAR
_ID = rb'"id"\s*+:\s*+(' + _STRING + rb"|-?[0-9]++)\s*+"
_AT_THE_START = re.compile(rb"\s*+\{\s*+(?:(?!\"id\")" + _MEMBER + rb"\s*+,\s*+)*" + _ID + rb"[,}]")
_ANSWER = re.compile(rb"\s*+\{\s*+(?:" + _MEMBER + rb"\s*+,\s*+)*\"(?:result|error)\"\s*+:")
_AT_THE_END = re.compile(rb",\s*+" + _ID + rb"(?:,\s*+" + _MEMBER + rb"\s*+)*\}\s*+\Z")


def is_deeper(value: Any, max_depth: int) -> bool:  # noqa: ANN401 - JSON
    """Whether a value has more levels than this. Takes about as long as reading it did."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def id_of_text(text: bytes) -> str | int | None:
    """The ``id`` of an object that was not read; None where it lies between two deep members.

    Found is one that has nothing but scalars between it and an end of the object.
    """
    if not text.lstrip().startswith(b"{"):
        return None
    found = _AT_THE_START.match(text[:SEARCHED_BYTES])
    return _read(found or _AT_THE_END.search(text[-SEARCHED_BYTES:]))


def id_at_start(text: bytes) -> str | int | None:
    """The ``id`` of an object of which only the start is there; None where it is not in it."""
    return _read(_AT_THE_START.match(text[:SEARCHED_BYTES]))


def begins_an_answer(text: bytes) -> bool:
    """Whether an object has a ``result`` or an ``error`` before any member that is no scalar."""
    return _ANSWER.match(text[:SEARCHED_BYTES]) is not None


def _read(found: re.Match[bytes] | None) -> str | int | None:
    try:
        given = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return given if isinstance(given, str | int) else None
