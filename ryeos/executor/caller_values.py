"""A caller's parameters, taken apart: what the tool gets, and what steers its process. Pure."""

from collections.abc import Mapping
from typing import Any

from lillux.interpreters import ResolvedEnv
from lillux.templating import Names, fill
from lillux.values import dataclass, field
from ryeos.errors import SpecError
from ryeos.executor.anchor import Anchor
from ryeos.executor.limits import GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT
from ryeos.specs import type_name

STEERING = ("timeout", "cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerValues:
    """A caller's parameters, taken apart.

    tool       what the tool receives
    steering   ``timeout`` and ``cwd``, where the tool's schema does not claim them
    warnings   parameters that the tool's fixed ones replace
    """

    tool: Mapping[str, Any]
    steering: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def filled_fixed_params(
    config: Mapping[str, Any], anchor: Anchor, env: ResolvedEnv
) -> dict[str, Any]:
    """The parameters that the chain itself gives, ``config.fixed_params``. Raises SpecError."""
    fixed = config.get("fixed_params") or {}
    if not isinstance(fixed, dict):
        raise SpecError("config.fixed_params", f"expected a mapping, got {type_name(fixed)}")
    names = Names(variables=env.variables, fixed=anchor.names, templates=config)
    return {name: fill(value, names) for name, value in fixed.items()}


def caller_values(
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> CallerValues:
    """Take the caller's parameters apart, the ``fixed`` ones laid over them."""
    declared = (schema or {}).get("properties") or {}
    steering = {
        name: parameters[name] for name in STEERING if name in parameters and name not in declared
    }
    own = {name: value for name, value in parameters.items() if name not in steering}
    nested = config.get("params_key")
    if isinstance(nested, str):
        return CallerValues(tool={**fixed, nested: own}, steering=steering)
    clashes = sorted(own.keys() & fixed.keys())
    return CallerValues(
        tool={**own, **fixed},
        steering=steering,
        warnings=tuple(
            f"parameter {name} is fixed by the tool; yours is not used" for name in clashes
        ),
    )


def tool_timeout(limit_s: float | None, values: CallerValues) -> float | None:
    """The process's limit when the tool has a ``timeout`` parameter of its own: a little longer."""
    own = values.tool.get("timeout")
    if limit_s is None or isinstance(own, bool) or not isinstance(own, (int, float)):
        return limit_s
    return max(limit_s, min(own + GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT))
