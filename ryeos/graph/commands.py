"""Commands of a walk to the runner, and the events it gets back. Values.

A walk is a generator: it gives a command, and gets the reply that the command names.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeAlias

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.graph.expressions import ExpressionError, fill
from ryeos.graph.model import (
    FORK,
    Action,
    ActionNode,
    Capabilities,
    ForeachNode,
    Graph,
    Hook,
    denial,
    storage_problem,
)
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import Kind, parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Make a call; the reply is an `CallResult`.

    node          the node that asks for it, ``hook:EVENT`` for one of a hook
    primary       ``execute``, ``fetch`` or ``sign``
    kind          ``tool`` and the like, None where only the run can tell
    item_id       bare; ``""`` for a search
    index         the number of the element in a foreach
    remote        where to, None for here
    timeout_s     no longer than that, None for the item's own limit
    caches        whether a kept result will do, and this one may be kept
    cache_ttl_s   how long a kept one counts, None for ever
    is_async      start it, and continue with its ids
    forks         a model carries the directive out; such a call is never made again by itself
    """

    node: str
    primary: str
    kind: str | None
    item_id: str
    params: Mapping[str, Any]
    index: int | None = None
    remote: str | None = None
    timeout_s: float | None = None
    caches: bool = False
    cache_ttl_s: float | None = None
    is_async: bool = False
    forks: bool = False

    @property
    def reference(self) -> str:
        """The item as people write it."""
        return f"{self.kind}:{self.item_id}" if self.kind and self.item_id else self.item_id

    def described(self) -> dict[str, Any]:
        """The call as JSON, for receipts and keys of caches."""
        described: dict[str, Any] = {
            "primary": self.primary,
            "item_id": self.reference,
            "params": dict(self.params),
        }
        described |= {"thread": "fork"} if self.forks else {}
        return described | ({"remote": self.remote} if self.remote else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of a call.

    result        the tool's own values; ``status`` is ``error`` in one that failed
    is_cancelled  the run is to end: nothing of the result counts
    log           the end of what the tool printed beside its result
    """

    result: Mapping[str, Any]
    elapsed_s: float = 0.0
    cache_hit: bool = False
    is_cancelled: bool = False
    log: str = field(default="", repr=False)

    @property
    def has_failed(self) -> bool:
        """Whether the result is an error."""
        return self.result.get("status") == "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """Make several calls, so many at once; the reply is a list of `CallResult` in their order.

    With ``fail_fast`` the first that fails ends the others.
    """

    acts: Sequence[Act]
    max_concurrency: int
    fail_fast: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; the reply is whether the run continues."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """A node is about to be worked on; the reply is whether the run continues."""

    step: int
    node: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDone:
    """A node is done: its result and the state are to be recorded. No reply.

    next_node  where the run continues; the node itself where it has to be worked on once more
    has_failed the node's call failed, whatever was made of that
    calls      every call that was made for it, the last attempt of each
    errors     all that were tolerated by now; it grows while the walk continues
    """

    step: int
    node: str
    type: str
    next_node: str | None
    state: Mapping[str, Any] = field(repr=False)
    result: Any = field(default=None, repr=False)
    error: str | None = None
    calls: Sequence[tuple[Act, CallResult]] = field(default=(), repr=False)
    errors: Sequence[Mapping[str, Any]] = ()


WalkCommand: TypeAlias = Act | Fan | Pause | Enter | NodeDone


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOutcome:
    """How a walk ended.

    status      ``completed``, ``completed_with_errors``, ``error``, ``cancelled``, ``stepped``
    output      of the return node
    has_output  whether the return node has one
    node        where it failed or was cancelled; of a single step, the node that was worked on
    next_node   where it would continue: None at an end
    code        of what went wrong: ``node_error``, ``max_steps_exceeded``, ``cancelled`` ...
    path        the file that the failed call was about, where it names one; ``hint``: what to do
    terminated  ``dead_end`` where no edge led on
    """

    status: str
    state: Mapping[str, Any] = field(repr=False)
    steps: int
    output: Any = None
    has_output: bool = False
    error: str | None = None
    node: str | None = None
    next_node: str | None = None
    code: str = ""
    path: str = ""
    hint: str = ""
    terminated: str = ""
    errors: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


# --- calls ----------------------------------------------------------------------------------------
# From what a node or a hook wants called to a call with nothing left to fill in. Pure.
#
# (1) expressions filled in   (2) the item named   (3) allowed by every list of capabilities

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """What calls are allowed: each of these lists must have a capability for one."""

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


# --- progress -------------------------------------------------------------------------------------
# How far a walk has come, and what it knows on its way: state, errors, warnings.

LAST_ERROR, RETRIES, INPUTS = "_last_error", "_retries", "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a walk begins: at the start, or where an earlier one ended.

    state   with the run's inputs under ``inputs``; copied, never changed
    step    how many steps were taken before
    errors  those that were tolerated before
    """

    node: str
    state: Mapping[str, Any]
    step: int = 0
    errors: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkSettings:
    """What holds for a walk besides its graph.

    max_steps  how many steps this walk may take
    single     whether it ends behind the first node
    env_names  the environment variables that there are
    """

    max_steps: int
    max_concurrency: int
    rules: CallRules
    single: bool = False
    env_names: Collection[str] = ()


def retries_of(state: Mapping[str, Any]) -> dict[str, int]:
    """How often hooks have had each node tried again; what a caller has injected may be odd."""
    known = state.get(RETRIES)
    if not isinstance(known, Mapping):
        return {}
    return {name: n for name, n in known.items() if isinstance(n, int)}


class WalkProgress:
    """One walk's state. ``node`` is the one that is worked on, or comes next; None at an end."""

    def __init__(
        self,
        graph: Graph,
        position: Position,
        settings: WalkSettings,
        now: Callable[[], datetime],
    ) -> None:
        self.graph, self.settings, self._now = graph, settings, now
        self.state: dict[str, Any] = deepcopy(dict(position.state))
        self.node: str | None = position.node
        self.step = self._first_step = position.step
        self.errors: list[Mapping[str, Any]] = list(position.errors)
        self._warnings: dict[str, None] = {}

    @property
    def steps_taken(self) -> int:
        """How many steps this walk has taken, apart from those of the run before."""
        return self.step - self._first_step

    @property
    def is_over_limit(self) -> bool:
        """Whether no further step may be taken."""
        return self.steps_taken >= self.settings.max_steps

    def document(self) -> dict[str, Any]:
        """What expressions see."""
        now = self._now()
        return {
            "state": dict(self.state),  # a copy: what is assigned ``${state}`` must not hold itself
            "inputs": self.state.get(INPUTS) or {},
            "_now": now.isoformat(),
            "_timestamp": int(now.timestamp() * 1000),
        }

    def warn(self, text: str) -> None:
        """Note a warning, once."""
        self._warnings[text] = None

    def assign(self, assign: Mapping[str, Any], result: Any) -> None:  # noqa: ANN401 - JSON
        """Assign in order; each template sees what was assigned before. Raises ExpressionError."""
        for key, template in assign.items():
            value = fill(template, {**self.document(), "result": result}, self.warn)
            problem = storage_problem(value)
            if problem:
                raise ExpressionError(str(template), f"{key}: {problem}")
            if value is None:
                names = ", ".join(map(str, result)) if isinstance(result, Mapping) else ""
                there = f"; the result has {names:.200}" if names else ""
                said = f"{template!r:.100} has none{there}"
                self.warn(f"{self.node}: {key} is assigned nothing: {said}")
            self.state[key] = value

    def outcome(self, status: str, **fields: Any) -> WalkOutcome:  # noqa: ANN401 - those of Outcome
        """The end of the walk, as it is now."""
        fields.setdefault("next_node", self.node if status in {"error", "cancelled"} else None)
        return WalkOutcome(
            status=status,
            state=self.state,
            steps=self.step,
            errors=tuple(self.errors),
            warnings=tuple(self._warnings),
            **fields,
        )

    def completed(self, **fields: Any) -> WalkOutcome:  # noqa: ANN401 - those of Outcome
        """The end without a failure."""
        return self.outcome("completed_with_errors" if self.errors else "completed", **fields)

    def cancelled(self) -> WalkOutcome:
        """The end by a cancellation."""
        return self.outcome(
            "cancelled", error="the run was cancelled", node=self.node, code="cancelled"
        )
