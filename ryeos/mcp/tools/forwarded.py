"""``execute`` with ``action: sign`` or ``load``: what belongs to another tool is handed to it."""

from collections.abc import Mapping
from typing import Any

from ryeos.request_errors import ArgumentError

# What both take by the same name, and how sign was told of its space before it had `source`.
_SHARED = {
    "load": frozenset({"item_id", "item_type", "project_path"}),
    "sign": frozenset({"item_id", "item_type", "project_path", "dry_run"}),
}
_OLDER_FORM = {"load": frozenset[str](), "sign": frozenset({"location", "category"})}


def forwarded(
    action: str, given: Mapping[str, object], parameters: Mapping[str, Any]
) -> dict[str, object]:
    """The arguments of the tool ``action``: those given, and what ``parameters`` holds for it.

    Raises ArgumentError for one that only a run takes.
    """
    shared = _SHARED[action]
    kept = {name: value for name, value in given.items() if value is not None}
    for name in kept:
        if name not in shared | {"action", "parameters"}:
            raise ArgumentError(
                name, "expected only with action run", hint=f"leave it out, or call {action}"
            )
    older = {name: value for name, value in parameters.items() if name in _OLDER_FORM[action]}
    own = {name: value for name, value in parameters.items() if name not in older}
    arguments = {name: kept[name] for name in kept if name in shared}
    return {**own, **arguments, **({"parameters": older} if older else {})}
