"""Paths into a document: ``state.items[0].name``. Pure.

A path sees the keys of mappings and the places of lists, and nothing else of any value.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Keys and indexes as texts: ``("state", "items", "0", "name")``."""

_NAME = r"[^\s.\[\]{}|'\"]+"
_FIRST = re.compile(_NAME)
_STEP = re.compile(
    rf"\.(?P<name>{_NAME})"
    r"|\[\s*+(?:(?P<index>-?[0-9]+)|'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\")\s*+\]"
)
# More digits than any list has places, and few enough to be read at once.
_MAX_INDEX_DIGITS = 18
_INDEX = re.compile(rf"-?[0-9]{{1,{_MAX_INDEX_DIGITS}}}")
_SHOWN = 40


class PathSyntaxError(ValueError):
    """A text that is no path; its words say where it stops being one."""


def parse_path(text: str) -> Path:
    """The steps of a path: ``a.b``, ``a.0``, ``a[0]``, ``a[-1]``, ``a['any key']``.

    Raises PathSyntaxError.
    """
    first = _FIRST.match(text)
    if first is None:
        raise PathSyntaxError(f"expected a path like state.name, found {text[:_SHOWN]!r}")
    steps, place = [first.group()], first.end()
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            raise PathSyntaxError(
                f"expected .key, [0] or ['any key'] after {text[:place][-_SHOWN:]!r},"
                f" found {text[place : place + _SHOWN]!r}"
            )
        steps.append(next(group for group in step.groups() if group is not None))
        place = step.end()
    return tuple(steps)


def look_up(document: Any, path: Path) -> Any:  # noqa: ANN401 - JSON passes through
    """The value at the path, None where nothing is. A negative index counts from the end."""
    value = document
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, (list, tuple)):
            value = _element(value, step)
        else:
            return None
    return value


def _element(values: list[Any] | tuple[Any, ...], step: str) -> Any:  # noqa: ANN401
    if _INDEX.fullmatch(step) is None:
        return None
    index = int(step)
    return values[index] if -len(values) <= index < len(values) else None
