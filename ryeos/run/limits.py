"""Limits of a run: how long a tool may take, and other numbers that several places may set. Pure.

Highest first: the caller; ``tools.<id>`` of the project's or user's ``execution.yaml``; the
tool's config; their ``defaults``; ``tools.<id>`` of a bundle; the runtime's config; the bundle's
``defaults``; the numbers here. In the background no caller waits: what the caller, the tool and
``tools.<id>`` say counts for the time, and no default.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass
from ryeos.items.errors import SpecError
from ryeos.items.refs import SYSTEM
from ryeos.items.specs import type_name
from ryeos.trust.config import Layer, merge_layers

BUILT_IN = {"timeout": 300, "max_steps": 1000, "max_concurrency": 10}
GRACE_OVER_TOOL_TIMEOUT_S = 10
MAX_LIMIT = 10**9
_FOR_ALL = frozenset({"defaults", "config of the runtime"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSources:
    """Everything that may set a limit, in no order."""

    tool_id: str
    caller: Mapping[str, Any]
    tool_config: Mapping[str, Any]
    runtime_config: Mapping[str, Any]
    layers: Sequence[Layer] = ()
    in_background: bool = False


def limit(name: str, sources: LimitSources) -> int | float | None:
    """The value of a limit. For ``timeout``: seconds, None for no limit. Raises SpecError."""
    is_of_item = sources.in_background and name == "timeout"
    for where, values in _ladder(sources):
        if name in values and not (is_of_item and where in _FOR_ALL):
            return valid_limit(f"{where.partition(' ')[0]}.{name}", values[name])
    return None if is_of_item else BUILT_IN.get(name)


def require_valid_limits(tool_id: str, layers: Sequence[Layer]) -> None:
    """Raise a SpecError for a limit of a tool that these layers set wrongly, with its file."""
    for layer in layers:
        sources = LimitSources(
            tool_id=tool_id, caller={}, tool_config={}, runtime_config={}, layers=(layer,)
        )
        try:
            for name in BUILT_IN:
                limit(name, sources)
        except SpecError as error:
            raise SpecError(str(layer.path), str(error)) from None


def graph_limits(sources: LimitSources) -> dict[str, int]:
    """The limits of a run of a graph. Raises SpecError, also for unlimited: a run must end."""
    limits: dict[str, int] = {}
    for name in ("max_steps", "max_concurrency"):
        value = limit(name, sources)
        if value is None or value != int(value):
            raise SpecError(name, f"expected a whole number above 0, got {value}")
        limits[name] = int(value)
    return limits


def at_most(limit_s: float | None, most_s: float | None) -> float | None:
    """The smaller limit; None means unlimited."""
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
    yield "config of the runtime", sources.runtime_config
    yield "defaults", _mapping(shipped, "defaults")


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name) or {}
    if not isinstance(value, dict):
        raise SpecError(f"execution.yaml: {name}", f"expected a mapping, got {type_name(value)}")
    return value


def valid_limit(where: str, value: object) -> int | float | None:
    """A limit as a person wrote it at ``where``; None and 0 mean unlimited. Raises SpecError."""
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SpecError(where, f"expected a number, got {type_name(value)}")
    if not 0 < value <= MAX_LIMIT:
        found = value if isinstance(value, float) or abs(value) <= MAX_LIMIT else "a longer one"
        raise SpecError(where, f"expected a number above 0 and up to {MAX_LIMIT}, got {found}")
    return value
