"""A graph file as values: validated, normalised, ready to walk. See ``docs/graphs.md``.

`ryeos.graph.reading` makes them. Whatever may hold an expression (``${state.n}``) is called a
template here and is kept as it was written; every other field has its final type.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lillux.values import dataclass, field

if TYPE_CHECKING:
    from ryeos.graph.conditions import Condition


Primary: TypeAlias = Literal["execute", "fetch", "sign"]
OnError: TypeAlias = Literal["fail", "continue"]
ResultShape: TypeAlias = Literal["output", "state", "both"]

FORK, INLINE = "fork", "inline"
"""The way to carry a directive out: by a model, as a thread, or by the one who reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The call of a node.

    item_id  canonical, ``tool:demo/add``, and a template: ``tool:demo/${state.name}``. Only where
             its text begins with an expression may the kind be missing; ``""`` for a search
    kind     ``tool``, ``directive``, ``knowledge``, ``config``; None where only the run will tell
    params   a template; for ``fetch`` and ``sign`` it holds their own (``query``, ``source``)
    thread   ``fork`` or ``inline`` as written beside ``item_id``: of a directive it is no parameter
    """

    primary: Primary
    item_id: str
    kind: str | None
    params: Mapping[str, Any] = field(default_factory=dict)
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A way to another node, taken when its condition holds; None always does."""

    to: str
    when: "Condition | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetry:
    """The retries of a failed call: before retry n it waits delay_s * backoff ** (n - 1).

    max is the number of retries after the first attempt, at least one.
    """

    max: int
    backoff: float = 1.0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionNode:
    """Calls one item and assigns what it answered.

    assign       state key -> template, in the order of the file
    next         in the order they are tried; empty ends the graph
    remote       a template of the remote's name, None for here
    cache_ttl_s  how long a cached result counts, None for ever
    timeout_s    of each call, None for the tool's own
    is_async     starts the call and continues with its ids
    """

    name: str
    action: Action
    assign: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[Edge, ...] = ()
    on_error: str | None = None
    cache_result: bool = False
    cache_ttl_s: float | None = None
    remote: str | None = None
    env_requires: tuple[str, ...] = ()
    retry: NodeRetry | None = None
    timeout_s: float | None = None
    is_async: bool = False

    @property
    def type(self) -> Literal["action"]:
        """The word for it."""
        return "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateNode:
    """Calls nothing: assigns, then chooses where to go."""

    name: str
    assign: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[Edge, ...] = ()
    env_requires: tuple[str, ...] = ()

    @property
    def type(self) -> Literal["gate"]:
        """The word for it."""
        return "gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeachNode:
    """Calls one item for each element of a list.

    over             a template of the list, or the list itself
    as_name          the name of the element in expressions
    collect          the state key that gets the list of results, None to drop them
    max_concurrency  of a parallel one, None for the graph's
    fail_fast        the first failed call ends it; otherwise all are made
    collect_errors   a failed call is an error among the results, and the run continues
    The rest is as in `ActionNode`; ``retry`` and ``timeout_s`` are those of each call.
    """

    name: str
    action: Action
    over: Any
    as_name: str = "item"
    collect: str | None = None
    parallel: bool = False
    max_concurrency: int | None = None
    fail_fast: bool = False
    collect_errors: bool = False
    next: tuple[Edge, ...] = ()
    on_error: str | None = None
    cache_result: bool = False
    cache_ttl_s: float | None = None
    remote: str | None = None
    env_requires: tuple[str, ...] = ()
    retry: NodeRetry | None = None
    timeout_s: float | None = None

    @property
    def type(self) -> Literal["foreach"]:
        """The word for it."""
        return "foreach"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnNode:
    """Ends the graph with an output, a template; ``has_output`` tells ``{}`` from none."""

    name: str
    output: Any = None
    has_output: bool = False
    env_requires: tuple[str, ...] = ()

    @property
    def type(self) -> Literal["return"]:
        """The word for it."""
        return "return"


GraphNode: TypeAlias = ActionNode | GateNode | ForeachNode | ReturnNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The action at an event, when its condition holds: either a call or a control.

    event    ``graph_started``, ``error``, ``after_step``, ``limit``, ``graph_completed``
    control  ``{"action": "retry", "max_retries": 2}``: what a hook's call might answer, as is.
             The actions are retry, fail, abort, continue and skip; ``max_retries`` is optional
    layer    1 the graph's, 2 the engine's, 3 the infrastructure's; they run in this order
    """

    event: str
    condition: "Condition | None" = None
    action: Action | None = None
    control: Mapping[str, Any] | None = None
    layer: int = 1
    hook_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A whole graph file without errors.

    graph_id         the id of the file, ``demo/route``
    permissions      None where the file has no list: then the caller's must be there
    limits           ``{"depth": 5}``: numbers, none negative, ``depth`` a whole one
    nodes            by name, in the order of the file; ``start`` and every target is among them
    max_steps, max_concurrency  None where the file leaves them to the caller
    state            what it starts with; a run takes a deep copy
    timeout_s        of the whole run, or None
    """

    graph_id: str
    start: str
    nodes: Mapping[str, GraphNode]
    permissions: tuple[str, ...] | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    env_requires: tuple[str, ...] = ()
    config_schema: Mapping[str, Any] | None = None
    max_steps: int | None = None
    max_concurrency: int | None = None
    on_error: OnError = "fail"
    state: Mapping[str, Any] = field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    timeout_s: float | None = None
    result: ResultShape = "output"
    description: str = ""


def edges_of(node: GraphNode) -> tuple[Edge, ...]:
    """The ways out of a node but ``on_error``; a return node has none."""
    return () if isinstance(node, ReturnNode) else node.next


def error_target(node: GraphNode) -> str | None:
    """The target of a node when its call fails, or None."""
    return node.on_error if isinstance(node, (ActionNode, ForeachNode)) else None
