"""Calls of nodes and hooks, with nothing left to fill in. Pure.

(1) expressions filled in   (2) the item named   (3) allowed by every list of capabilities
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.graph.capabilities import Capabilities, denial
from ryeos.graph.commands import Act
from ryeos.graph.expressions import ExpressionError, fill
from ryeos.graph.model import FORK, Action, ActionNode, ForeachNode, Hook
from ryeos.graph.storable_values import storage_problem
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import Kind, parse_reference

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The allowed calls: each of these lists must have a capability for one."""

    grants: Sequence[Capabilities]


class RefusedCallError(LilluxError):
    """A call that is not made; the node that wants it fails with this. ``reason`` is a code."""

    exit_status = 6

    def __init__(self, problem: str, reason: str) -> None:
        self.problem, self.reason = problem, reason
        super().__init__(problem)


def act_of(
    node: ActionNode | ForeachNode,
    document: Mapping[str, Any],
    rules: CallRules,
    *,
    index: int | None,
    warn: Warn,
) -> Act:
    """The call of a node, or of one element of a foreach. Raises RefusedCallError."""
    filled = _fill_action(node.action, node.remote, document, warn)
    return _require_allowed(
        Act(
            node=node.name,
            primary=node.action.primary,
            kind=filled.kind,
            item_id=filled.item_id,
            params=filled.params,
            index=index,
            remote=filled.remote,
            timeout_s=node.timeout_s,
            caches=node.cache_result,
            cache_ttl_s=node.cache_ttl_s,
            is_async=isinstance(node, ActionNode) and node.is_async,
            forks=filled.forks,
        ),
        rules,
    )


def act_of_hook(
    hook: Hook, action: Action, document: Mapping[str, Any], rules: CallRules, warn: Warn
) -> Act:
    """The call of a hook. Raises RefusedCallError."""
    filled = _fill_action(action, None, document, warn)
    return _require_allowed(
        Act(
            node=f"hook:{hook.event}",
            primary=action.primary,
            kind=filled.kind,
            item_id=filled.item_id,
            params=filled.params,
            forks=filled.forks,
        ),
        rules,
    )


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value without members and elements that are null, so that a tool's defaults count."""
    if isinstance(value, Mapping):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value if inner is not None]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilledAction:
    kind: str | None
    item_id: str
    params: Mapping[str, Any]
    remote: str | None
    forks: bool


def _fill_action(
    action: Action, remote: str | None, document: Mapping[str, Any], warn: Warn
) -> _FilledAction:
    try:
        item_id = fill(action.item_id, document, warn)
        params = without_nulls(fill(dict(action.params), document, warn))
        where = None if remote is None else fill(remote, document, warn)
    except ExpressionError as error:
        raise RefusedCallError(str(error), error.code) from error
    kind, bare = _item_named(action, item_id)
    problem = storage_problem(params)
    if problem:
        raise RefusedCallError(f"action.params: {problem}", "INVALID_PARAMS")
    is_directive = action.primary == "execute" and kind == Kind.DIRECTIVE.value
    if is_directive and action.thread:  # written beside the item: no input of the directive
        params = {name: value for name, value in params.items() if name != "thread"}
    return _FilledAction(
        kind=kind,
        item_id=bare,
        params=params,
        remote=None if where is None else str(where),
        forks=is_directive and action.thread == FORK,
    )


def _item_named(action: Action, item_id: object) -> tuple[str | None, str]:
    """The kind and the bare id. Raises RefusedCallError."""
    if not isinstance(item_id, str) or (not item_id and action.primary != "fetch"):
        raise RefusedCallError(
            f"action.item_id: expected an item, {action.item_id!r} gave {item_id!r:.100}",
            "INVALID_REF",
        )
    if not item_id:
        return None, ""
    try:
        reference = parse_reference(item_id)
    except InvalidRefError as error:
        raise RefusedCallError(str(error), error.code) from error
    kind = reference.kind.value if reference.kind else action.kind or Kind.TOOL.value
    return kind, reference.id


def _require_allowed(act: Act, rules: CallRules) -> Act:
    denied = denial(act.primary, act.kind, act.item_id, rules.grants)
    if denied:
        raise RefusedCallError(denied, "PERMISSION_DENIED")
    return act
