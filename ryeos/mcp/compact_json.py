"""JSON as it goes over the wire: one line, no spaces, nothing that a strict reader refuses."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:
    from typing import Any


def compact(value: Any) -> str:  # noqa: ANN401 - JSON, and what can be told as text
    """The value as JSON that every encoding of Unicode can hold.

    Half characters are replaced, numbers that JSON does not have are null, and what is no JSON is
    told as text.
    """
    try:
        text = _dumps(value)
    except ValueError:
        text = _dumps(_finite(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


def _dumps(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
    )


def _finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value
