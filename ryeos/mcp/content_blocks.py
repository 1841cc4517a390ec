"""Blocks of content that a tool gives, held against the protocol. Pure.

A block that is not as the protocol has it ends the whole answer for a strict client: it is left
out, with a warning that says why.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ryeos.items.specs import type_name
from ryeos.mcp.brief import BLOCKS_KEY

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ROLES = frozenset({"user", "assistant"})
_MOST_PROBLEMS = 5

# What is wrong with a value, as `expected ..., found ...`; nothing where it is right.
BlockRule = Callable[[Any], str]


def valid_blocks(blocks: Iterable[object]) -> tuple[list[dict[str, Any]], list[str]]:
    """The blocks that are right, and what is wrong with each of the others."""
    good, problems = [], []
    for number, block in enumerate(blocks):
        problem = problem_of(block)
        if problem:
            problems.append(f"{BLOCKS_KEY}[{number}] is left out: {problem}")
        elif isinstance(block, dict):
            good.append(block)
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        problems[_MOST_PROBLEMS:] = [f"{more} more blocks are left out"]
    return good, problems


def problem_of(block: object) -> str:
    """The reason not to send a block; nothing where it may be sent."""
    if not isinstance(block, dict):
        return f"expected an object, found {type_name(block)}"
    kind = block.get("type")
    required = _REQUIRED.get(kind) if isinstance(kind, str) else None
    if required is None:
        return f"type: expected one of {', '.join(_REQUIRED)}, found {kind!r:.60}"
    for name, rule in required.items():
        if name not in block:
            return f"{name}: expected by {kind}, found nothing"
        problem = rule(block[name])
        if problem:
            return f"{name}: {problem}"
    optional = _OPTIONAL_OF_LINKS if kind == "resource_link" else _OPTIONAL
    wrong = (
        f"{n}: {rule(block[n])}" for n, rule in optional.items() if n in block and rule(block[n])
    )
    return next(wrong, "")


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return "" if isinstance(value, str) else f"expected a string, found {type_name(value)}"


def _base64(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, str):
        return _text(value)
    try:
        b64decode(value, validate=True)
    except (NotBase64, ValueError):
        return "expected base64"
    return ""


def _uri(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, str) and not _SCHEME.match(value):
        return f"expected a URI, found {value[:60]!r}"
    return _text(value)


def _size(value: Any) -> str:  # noqa: ANN401 - JSON
    is_size = isinstance(value, int) and not isinstance(value, bool)
    return "" if is_size else f"expected an integer, found {type_name(value)}"


def _object(value: Any) -> str:  # noqa: ANN401 - JSON
    return "" if isinstance(value, dict) else f"expected an object, found {type_name(value)}"


def _annotations(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, dict):
        return _object(value)
    audience = value.get("audience", [])
    if not isinstance(audience, list) or not all(
        isinstance(one, str) and one in _ROLES for one in audience
    ):
        return "audience: expected a list of user and assistant"
    priority = value.get("priority", 0)
    is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= 1:
        return "priority: expected a number from 0 to 1"
    problem = _text(value.get("lastModified", ""))
    return f"lastModified: {problem}" if problem else ""


def _icons(value: Any) -> str:  # noqa: ANN401 - JSON
    is_list = isinstance(value, list)
    right = is_list and all(isinstance(one, dict) and not _uri(one.get("src")) for one in value)
    return "" if right else "expected a list of objects with src"


_REQUIRED: Mapping[str, Mapping[str, BlockRule]] = {
    "text": {"text": _text},
    "image": {"data": _base64, "mimeType": _text},
    "audio": {"data": _base64, "mimeType": _text},
    "resource_link": {"uri": _uri, "name": _text},
}
_OPTIONAL: Mapping[str, BlockRule] = {"annotations": _annotations, "_meta": _object}
_OPTIONAL_OF_LINKS: Mapping[str, BlockRule] = {
    **_OPTIONAL,
    "title": _text,
    "description": _text,
    "mimeType": _text,
    "size": _size,
    "icons": _icons,
}
