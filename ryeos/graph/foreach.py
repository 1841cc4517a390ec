"""What a foreach goes over, and what it collects. Pure. See ``docs/graphs.md``."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def elements_of(over: Any, node: str, warn: Callable[[str], None]) -> list[Any]:  # noqa: ANN401 - JSON
    """The elements: of a list, of a list written as JSON, or the ``{key, value}`` of a mapping.

    Anything else has none.
    """
    if isinstance(over, list | tuple):
        return list(over)
    if isinstance(over, Mapping):
        return [{"key": key, "value": value} for key, value in over.items()]
    if isinstance(over, str):
        return _written_list(over, node, warn)
    if over is not None:
        warn(f"{node}: over: expected a list, found {type(over).__name__}; there is nothing to do")
    return []


def _written_list(text: str, node: str, warn: Callable[[str], None]) -> list[Any]:
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    warn(f"{node}: over: expected a list, found the text {text!r:.60}; there is nothing to do")
    return []


def collected(results: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What is kept of each result: the thread where one was started, else all of it."""
    return [
        dict(result) if result.get("status") == "error" else result.get("thread_id") or dict(result)
        for result in results
    ]


def first_failure(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first result that is an error."""
    return next((result for result in results if result.get("status") == "error"), None)
