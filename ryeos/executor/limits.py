"""How long a tool may run, and other numbers that several places may set. Pure.

Highest first: the caller; ``tools.<id>`` of the project's or user's ``execution.yaml``; the tool's
config; their ``defaults``; ``tools.<id>`` of a bundle; the runtime's config; the bundle's
``defaults``; the numbers here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass
from ryeos.config import Layer, merge_layers
from ryeos.errors import SpecError
from ryeos.items import SYSTEM
from ryeos.specs import type_name

BUILT_IN = {"timeout": 300, "max_steps": 1000, "max_concurrency": 10}
GRACE_OVER_TOOL_TIMEOUT_S = 10
MAX_LIMIT = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSources:
    """Everything that may set a limit, in no order."""

    tool_id: str
    caller: Mapping[str, Any]
    tool_config: Mapping[str, Any]
    runtime_config: Mapping[str, Any]
    layers: Sequence[Layer] = ()


def limit(name: str, sources: LimitSources) -> int | float | None:
    """The value of a limit. For ``timeout``: seconds, None for no limit. Raises SpecError."""
    for where, values in _ladder(sources):
        if name in values:
            return checked_limit(f"{where}.{name}", values[name])
    return BUILT_IN.get(name)


def graph_limits(sources: LimitSources) -> dict[str, int]:
    """The limits of a run of a graph. Raises SpecError, also for none: a run must end."""
    limits: dict[str, int] = {}
    for name in ("max_steps", "max_concurrency"):
        value = limit(name, sources)
        if value is None or value != int(value):
            raise SpecError(name, f"expected a whole number above 0, got {value}")
        limits[name] = int(value)
    return limits


def at_most(limit_s: float | None, most_s: float | None) -> float | None:
    """The lower of two limits, of which None is none."""
    given = [seconds for seconds in (limit_s, most_s) if seconds is not None]
    return min(given) if given else None


def _ladder(sources: LimitSources) -> Iterator[tuple[str, Mapping[str, Any]]]:
    own = merge_layers([x for x in sources.layers if not x.label.startswith(SYSTEM)])
    shipped = merge_layers([x for x in sources.layers if x.label.startswith(SYSTEM)])
    tool = f"tools.{sources.tool_id}"
    yield "parameters", sources.caller
    yield tool, _mapping(_mapping(own, "tools"), sources.tool_id)
    yield "config", sources.tool_config
    yield "defaults", _mapping(own, "defaults")
    yield tool, _mapping(_mapping(shipped, "tools"), sources.tool_id)
    yield "config", sources.runtime_config
    yield "defaults", _mapping(shipped, "defaults")


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name) or {}
    if not isinstance(value, dict):
        raise SpecError(f"execution.yaml: {name}", f"expected a mapping, got {type_name(value)}")
    return value


def checked_limit(where: str, value: object) -> int | float | None:
    """A limit as somebody wrote it at ``where``; None and 0 are none. Raises SpecError."""
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SpecError(where, f"expected a number, got {type_name(value)}")
    if not 0 < value <= MAX_LIMIT:
        found = value if isinstance(value, float) or abs(value) <= MAX_LIMIT else "a longer one"
        raise SpecError(where, f"expected a number above 0 and up to {MAX_LIMIT}, got {found}")
    return value
