"""What a worker answered, as it can be answered and stored: without secrets and places. Pure."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.canonical_json import MAX_INTEGER_BITS
from lillux.redaction import Redaction
from rye_services.node.worker.workspaces import Checkout

MAX_WORDS = 4096
"""Characters of an error that is kept apart from its answer."""

_MAX_DEPTH = 100
_DEEPER = "(nested too deep)"


def presentable(
    envelope: Mapping[str, Any], workspace: Checkout, redaction: Redaction, bundle: Path
) -> dict[str, Any]:
    """An answer without secrets, without places of the server, and such that JSON can hold it.

    The folders of the workspace are called ``/project``, ``/user``, ``/home`` and ``/tmp``.
    """
    places = _places(workspace, bundle)
    shallow = _shallow(dict(envelope), _MAX_DEPTH)  # first: the rest recurs
    value = _plain(redaction.value(shallow), places)
    return value if isinstance(value, dict) else {}


def without_places(text: str, workspace: Checkout, bundle: Path) -> str:
    """A text that names the folders of a workspace as `presentable` does."""
    return _text(text, _places(workspace, bundle))


def shortened(text: str, most: int = MAX_WORDS) -> str:
    """A text of at most so many characters, with an ellipsis where some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _places(workspace: Checkout, bundle: Path) -> dict[str, str]:
    return {
        str(workspace.project): "/project",
        str(workspace.user): "/user",
        str(workspace.home): "/home",
        str(workspace.temporary): "/tmp",  # noqa: S108 - a name for it
        str(bundle): "/system",
    }


def _shallow(value: Any, depth: int) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict() | list() if not depth:
            return _DEEPER
        case dict():
            return {key: _shallow(one, depth - 1) for key, one in value.items()}
        case list() | tuple():
            return [_shallow(one, depth - 1) for one in value]
        case _:
            return value


def _plain(value: Any, places: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return _text(value, places)
        case float() if not math.isfinite(value):
            return str(value)
        case int() if value.bit_length() > MAX_INTEGER_BITS:
            return str(value)
        case dict():
            return {_text(str(key), places): _plain(one, places) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one, places) for one in value]
        case _:
            return value


def _text(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        if place in text:
            text = text.replace(place, name)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
