"""Capabilities: what a run may call. Pure.

A call needs ``rye.<primary>.<kind>.<id>``, the slashes of the id as dots. A capability is such a
string with the wildcards of a shell, of which ``*`` crosses dots. There may be several lists: of
the run's starter, of the caller, of the graph. Each must have a capability that covers the
call, and there must be one list at least: what is not allowed is denied. See ``docs/graphs.md``.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

SEARCH = "search"
# What steers a run from inside of it, and does nothing else: where it is the program's own.
ALWAYS_ALLOWED = "rye/agent/threads/internal/"

Capabilities = tuple[str, ...]


def required_capability(primary: str, kind: str | None, item_id: str) -> str:
    """The capability that a call needs; ``item_id`` is bare, and ``""`` for a search."""
    if not item_id:
        return f"rye.{primary}.{SEARCH}"
    return ".".join(["rye", primary, kind or "tool", *item_id.split("/")])


def denial(
    primary: str, kind: str | None, item_id: str, grants: Sequence[Capabilities]
) -> str | None:
    """Why a call is not allowed; None if it is."""
    if primary == "execute" and item_id.startswith(ALWAYS_ALLOWED):
        return None
    return unlisted(primary, kind, item_id, grants)


def unlisted(
    primary: str, kind: str | None, item_id: str, grants: Sequence[Capabilities]
) -> str | None:
    """The `denial` without the exception for what controls a run."""
    if not any(grants) or not all(grants):
        return "Permission denied: no capabilities"
    required = required_capability(primary, kind, item_id)
    for capabilities in grants:
        covering = _that_read(capabilities) if primary == "fetch" and item_id else capabilities
        if not any(fnmatchcase(required, capability) for capability in covering):
            return f"Permission denied: '{required}' not covered by capabilities"
    return None


def _that_read(capabilities: Capabilities) -> Capabilities:
    """Without those of ``<search>``, which let items be found and not read."""
    found = {one.removeprefix("rye.search.") for one in capabilities if one[:11] == "rye.search."}
    if not found:
        return capabilities
    read = {one.removeprefix("rye.load.") for one in capabilities if one[:9] == "rye.load."}
    of_searches = {f"rye.fetch.{pattern}" for pattern in found - read}
    return tuple(one for one in capabilities if one not in of_searches)
