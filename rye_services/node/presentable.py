"""What a worker answered, as it can be told and stored. Pure."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rye_services.node.redaction import Redaction
from rye_services.node.workspaces import Workspace

_MAX_DEPTH = 100
_DEEPER = "(nested too deep)"


def presentable(
    envelope: Mapping[str, Any], workspace: Workspace, redaction: Redaction, bundle: Path
) -> dict[str, Any]:
    """An answer without secrets, without places of the server, and such that JSON can hold it.

    The folders of the workspace are called ``/project``, ``/user``, ``/home`` and ``/tmp``.
    """
    places = {
        str(workspace.project): "/project",
        str(workspace.user): "/user",
        str(workspace.home): "/home",
        str(workspace.temporary): "/tmp",  # noqa: S108 - a name for it
        str(bundle): "/system",
    }
    value = _plain(redaction.value(dict(envelope)), places, _MAX_DEPTH)
    return value if isinstance(value, dict) else {}


def _plain(value: Any, places: Mapping[str, str], depth: int) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return _text(value, places)
        case float() if not math.isfinite(value):
            return str(value)
        case dict() | list() if not depth:
            return _DEEPER
        case dict():
            return {
                _text(str(key), places): _plain(one, places, depth - 1)
                for key, one in value.items()
            }
        case list() | tuple():
            return [_plain(one, places, depth - 1) for one in value]
        case _:
            return value


def _text(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        if place in text:
            text = text.replace(place, name)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
