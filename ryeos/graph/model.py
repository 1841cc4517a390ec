"""A graph file as values: validated, normalised, ready to walk. See ``docs/graphs.md``.

`ryeos.graph.reading` makes them. Whatever may hold an expression (``${state.n}``) is called a
template here and is kept as it was written; every other field has its final type.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lillux.digests import CanonicalJsonError, require_json
from lillux.values import dataclass, field
from ryeos.items.errors import ParameterError
from ryeos.items.specs import type_name

if TYPE_CHECKING:
    from ryeos.graph.conditions import Condition


Primary: TypeAlias = Literal["execute", "fetch", "sign"]
OnError: TypeAlias = Literal["fail", "continue"]
ResultShape: TypeAlias = Literal["output", "state", "both"]


FORK, INLINE = "fork", "inline"
"""How a directive is carried out: by a model, as a thread, or by the one who reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a node calls.

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
    """How often a failed call is made again: before retry n it waits delay_s * backoff ** (n - 1).

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
    """What is done at an event, when its condition holds: either a call or a control.

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
    """Where a node goes when its call fails, or None."""
    return node.on_error if isinstance(node, (ActionNode, ForeachNode)) else None


# --- capabilities ---------------------------------------------------------------------------------
# What a run may call: capability strings, as ``docs/graphs.md`` defines them. Pure.
#
# A call needs ``rye.<primary>.<kind>.<id>``, the slashes of the id as dots. A capability is such a
# string with the wildcards of a shell, of which ``*`` crosses dots. There may be several lists: of
# the run's starter, of the caller, of the graph. Each must have a capability that covers the
# call, and there must be one list at least: what is not allowed is denied.

SEARCH = "search"
# What steers a run from inside of it, and does nothing else: where it is the program's own.
ALWAYS_ALLOWED = "rye/agent/threads/internal/"

Capabilities = tuple[str, ...]


def required_capability(primary: str, kind: str | None, item_id: str) -> str:
    """What a call needs; ``item_id`` is bare, and ``""`` for a search."""
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
    """As `denial`, without the exception for what steers a run."""
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


# --- options --------------------------------------------------------------------------------------
# A caller's parameters, taken apart: inputs of the graph, and what steers the run. Pure.
#
# A name that the graph's own ``config_schema`` declares is an input, whatever it is otherwise.


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What steers a run. Page: ``docs/graphs.md``.

    run_id           of the run to begin, or with ``resume`` of that one
    node             the one node to work on, then stop
    inject_state     laid over the state before that
    capabilities     a further list that must allow every call, or None
    max_steps, max_concurrency, depth  None leaves them to the graph and the configuration
    override_inputs  a resumed run takes the inputs of this call
    force            a resumed run may be of another version of the graph
    """

    max_steps: int | None = None
    max_concurrency: int | None = None
    run_id: str = ""
    resume: bool = False
    node: str = ""
    inject_state: Mapping[str, Any] = field(default_factory=dict)
    validate: bool = False
    capabilities: tuple[str, ...] | None = None
    depth: int | None = None
    override_inputs: bool = False
    force: bool = False


OptionCheck = Callable[[object], bool]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_depth(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is(kind: type) -> OptionCheck:
    return lambda value: isinstance(value, kind)


# What the engine takes from the parameters of any tool.
_ENGINES = frozenset({"timeout", "cwd"})
# name of the parameter -> what it must be, in words and as a check
_KNOWN: Mapping[str, tuple[str, OptionCheck]] = {
    "max_steps": ("a whole number above 0", _is_count),
    "max_concurrency": ("a whole number above 0", _is_count),
    "resume": ("true or false", _is(bool)),
    "graph_run_id": ("the id of a run", _is(str)),
    "resume_run_id": ("the id of a run", _is(str)),
    "node": ("the name of a node", _is(str)),
    "inject_state": ("a mapping", _is(dict)),
    "validate": ("true or false", _is(bool)),
    "capabilities": ("a list of texts", _is_names),
    "depth": ("a whole number from 0 up", _is_depth),
    "limits": ("a mapping", _is(dict)),
    "override_inputs": ("true or false", _is(bool)),
    "force": ("true or false", _is(bool)),
    "async": ("true or false", _is(bool)),
}


def taken_apart(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Options]:
    """Inputs and options. Raises ParameterError with every option that is of a wrong type."""
    declared = (schema or {}).get("properties") or {}
    given = {name: parameters[name] for name in _KNOWN if name in parameters}
    given = {name: value for name, value in given.items() if name not in declared}
    problems = [
        f"{name}: expected {words}, got {type_name(given[name])}"
        for name, (words, fits) in _KNOWN.items()
        if name in given and not fits(given[name])
    ]
    injected = given.get("inject_state")
    if isinstance(injected, dict) and not isinstance(injected.get("inputs", {}), dict):
        found = type_name(injected["inputs"])
        problems.append(f"inject_state.inputs: expected a mapping, got {found}")
    depth = (given.get("limits") or {}).get("depth") if not problems else None
    if depth is not None and not _is_depth(depth):
        problems.append(f"limits.depth: expected a whole number from 0 up, got {type_name(depth)}")
    if problems:
        raise ParameterError(problems, hint="what steers a run of a graph: rye help graphs")
    taken = given.keys() | (_ENGINES - declared.keys())
    inputs = {name: value for name, value in parameters.items() if name not in taken}
    return inputs, _options(given, depth)


def _options(given: Mapping[str, Any], depth: int | None) -> Options:
    resumed = given.get("resume_run_id", "")
    depths = [one for one in (given.get("depth"), depth) if one is not None]
    listed = given.get("capabilities")
    return Options(
        max_steps=given.get("max_steps"),
        max_concurrency=given.get("max_concurrency"),
        run_id=resumed or given.get("graph_run_id", ""),
        resume=bool(resumed) or given.get("resume", False),
        node=given.get("node", ""),
        inject_state=given.get("inject_state", {}),
        validate=given.get("validate", False),
        capabilities=None if listed is None else tuple(listed),
        depth=min(depths) if depths else None,
        override_inputs=given.get("override_inputs", False),
        force=given.get("force", False),
    )


# --- storable -------------------------------------------------------------------------------------
# Values that can be stored as JSON. Pure.
#
# A tool may answer ``NaN``, a pipe may give an infinite number, a loop may nest a value ever
# deeper: what JSON cannot hold fails the node that it comes from, for the run could not be resumed
# with it.

MAX_SIZE = 16 * 1024 * 1024
"""Of one value: its characters and its parts, together. What is larger belongs into a file."""


def storage_problem(value: object) -> str | None:
    """Why a value cannot be part of a run; None if it can.

    It has levels of nesting to spare for the objects and lists that it is stored in.
    """
    if is_too_large(value):  # first: what is small in memory may be endless as JSON
        return f"expected at most {MAX_SIZE} characters and parts, found more"
    try:
        require_json([[[[value]]]])
    except CanonicalJsonError as error:
        return f"expected {error.expected}, found {error.found}"
    return None


def is_too_large(value: object) -> bool:
    """Whether a value as JSON is larger than `MAX_SIZE`; stops counting there."""
    left, parts = MAX_SIZE, [value]
    while parts and left >= 0:
        part = parts.pop()
        left -= 1
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, Mapping):
            left -= sum(map(len, part)) if all(isinstance(key, str) for key in part) else 0
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)
    return left < 0
