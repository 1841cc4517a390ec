"""The state machine that walks a graph, without I/O. Rules: ``docs/graphs.md``.

`Walk.run` is a generator: it gives commands (`ryeos.graph.commands`) and gets their replies, until
it returns the `Outcome`. For each node:

(1) may another step be taken?   (2) `Enter`   (3) the node's own work, calls included
(4) where to: ``next``, ``on_error``, or nowhere   (5) `NodeDone`   (6) ``after_step`` hooks
"""

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeAlias

from lillux.values import dataclass, field
from ryeos.graph.commands import (
    INPUTS,
    LAST_ERROR,
    RETRIES,
    Act,
    CallResult,
    CallRules,
    Enter,
    Fan,
    NodeDone,
    Pause,
    Position,
    RefusedCallError,
    WalkCommand,
    WalkOutcome,
    WalkProgress,
    WalkSettings,
    act_of,
    act_of_hook,
    retries_of,
)
from ryeos.graph.conditions import holds, references
from ryeos.graph.expressions import ExpressionError, fill
from ryeos.graph.model import (
    MAX_SIZE,
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    Graph,
    GraphNode,
    Hook,
    ReturnNode,
    edges_of,
    error_target,
    is_too_large,
    storage_problem,
)
from ryeos.graph.nodes import MAX_RETRIES

# --- foreach --------------------------------------------------------------------------------------
# What a foreach goes over, and what it collects. Pure. See ``docs/graphs.md``.


def elements_of(over: Any, node: str, warn: Callable[[str], None]) -> list[Any]:  # noqa: ANN401 - JSON
    """The elements: of a list, of a list written as JSON, or the ``{key, value}`` of a mapping.

    Anything else has none.
    """
    if isinstance(over, list | tuple):
        return list(over)
    if isinstance(over, Mapping):
        return [{"key": key, "value": value} for key, value in over.items()]
    if isinstance(over, str):
        return _written_list(over, node, warn)
    if over is not None:
        warn(f"{node}: over: expected a list, found {type(over).__name__}; there is nothing to do")
    return []


def _written_list(text: str, node: str, warn: Callable[[str], None]) -> list[Any]:
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    warn(f"{node}: over: expected a list, found the text {text!r:.60}; there is nothing to do")
    return []


def collected(results: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What is kept of each result: the thread where one was started, else all of it.

    A thread of a model that has ended is a result like any other.
    """
    return [
        dict(result) if _is_whole(result) else result.get("thread_id") or dict(result)
        for result in results
    ]


def _is_whole(result: Mapping[str, Any]) -> bool:
    return result.get("status") == "error" or result.get("type") == "thread"


def first_failure(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first result that is an error."""
    return next((result for result in results if result.get("status") == "error"), None)


# --- steering -------------------------------------------------------------------------------------
# What a failed call leads to. Pure; the order is that of ``docs/graphs.md``.
#
# (1) what a hook says: retry, while there are retries left; fail, abort, continue, skip
# (2) the node's ``on_error``
# (3) the graph's ``on_error: continue``, and a foreach with ``collect_errors``
# (4) the run fails

DEFAULT_RETRIES = 3


class FailureAction(Enum):
    """What is done about a failure.

    AGAIN     the node is worked on once more
    ON_ERROR  the run continues at the node's ``on_error``
    CONTINUE  it is tolerated, noted, and the run continues at ``next``
    SKIP      the same, but nothing is noted
    FAIL, ABORT  the run ends
    """

    AGAIN = "again"
    ON_ERROR = "on_error"
    CONTINUE = "continue"
    SKIP = "skip"
    FAIL = "fail"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Control:
    """What a hook wants done."""

    action: str
    max_retries: int = DEFAULT_RETRIES
    error: str = ""


_SAID = {
    "fail": FailureAction.FAIL,
    "abort": FailureAction.ABORT,
    "continue": FailureAction.CONTINUE,
    "skip": FailureAction.SKIP,
}


def control_of(values: Mapping[str, Any]) -> Control:
    """The control in a hook's answer, whatever that is; without an action it does nothing."""
    most, error = values.get("max_retries"), values.get("error")
    if not isinstance(most, int) or isinstance(most, bool):
        most = DEFAULT_RETRIES
    return Control(
        action=str(values.get("action", "")),
        max_retries=min(most, MAX_RETRIES),
        error=error if isinstance(error, str) else "",
    )


def after_failure(
    node: GraphNode,
    graph: Graph,
    control: Control | None,
    retries: int,
    *,
    is_of_elements: bool,
) -> FailureAction:
    """What is done, ``retries`` having been made of this node by now.

    ``is_of_elements`` tells the calls of a foreach, which it puts up with, from the node's own
    failures: those of ``over``, of its variables, of its edges.
    """
    if control and control.action == "retry" and retries < control.max_retries:
        return FailureAction.AGAIN
    if control and control.action in _SAID:
        return _SAID[control.action]
    if isinstance(node, ReturnNode):
        return FailureAction.FAIL
    if error_target(node):
        return FailureAction.ON_ERROR
    puts_up = is_of_elements and isinstance(node, ForeachNode) and node.collect_errors
    return FailureAction.CONTINUE if puts_up or graph.on_error == "continue" else FailureAction.FAIL


# --- hooks ----------------------------------------------------------------------------------------
# Hooks of a walk: calls and controls that follow its events. See ``docs/graphs.md``.

# Those of the infrastructure watch; they do not steer.
_STEERING_LAYERS = (1, 2)
_NOTHING_SAID: Mapping[str, Any] = {"success": True}


class HookRun:
    """The hooks of one walk, by layer and then in the order of their files."""

    def __init__(
        self, hooks: Sequence[Hook], rules: CallRules, warn: Callable[[str], None]
    ) -> None:
        self._rules, self._warn = rules, warn
        self.is_cancelled = False  # the run was ended while one of them was called
        self._by_event: dict[str, list[Hook]] = {}
        for hook in sorted(hooks, key=lambda hook: hook.layer):
            self._by_event.setdefault(hook.event, []).append(hook)

    def fire(
        self, event: str, context: Mapping[str, Any], document: Mapping[str, Any]
    ) -> Generator[WalkCommand, CallResult, Control | None]:
        """Run every hook of an event whose condition holds; the first that steers counts.

        Conditions see the context, expressions the document as well.
        """
        control: Control | None = None
        for hook in self._by_event.get(event, ()):
            if not self._applies(hook, context):
                continue
            said = yield from self._hook_answer(hook, {**document, **context})
            if control is None and said and hook.layer in _STEERING_LAYERS:
                control = control_of(said)
        return control

    def _applies(self, hook: Hook, context: Mapping[str, Any]) -> bool:
        """Whether its condition holds; one that cannot be judged does not."""
        try:
            return hook.condition is None or holds(hook.condition, context, self._warn)
        except ExpressionError as error:
            self._warn(f"hook of {hook.event}: {error}")
            return False

    def _hook_answer(
        self, hook: Hook, document: Mapping[str, Any]
    ) -> Generator[WalkCommand, CallResult, Mapping[str, Any]]:
        """What a hook says: its control, or the answer of its call; nothing where that failed."""
        if hook.control is not None:
            return hook.control
        if hook.action is None:
            return {}
        try:
            act = act_of_hook(hook, hook.action, document, self._rules, self._warn)
        except RefusedCallError as refusal:
            self._warn(f"hook of {hook.event}: {refusal}")
            return {}
        acted = yield act
        self.is_cancelled = self.is_cancelled or acted.is_cancelled
        if acted.has_failed:
            self._warn(f"hook of {hook.event}: {acted.result.get('error')}")
            return {}
        return {} if acted.result == _NOTHING_SAID else acted.result


# --- results --------------------------------------------------------------------------------------
# What a node sees of an answer, and what kind of failure one is. Pure. See ``docs/graphs.md``.

# What an envelope says about itself and not about what the item gave.
_ABOUT = frozenset({"chain", "metadata", "path", "source", "resolved_env_keys", "trace"})
_RETRYABLE_CODES = {
    "TIMEOUT": "timeout",
    "HTTP_UNREACHABLE": "connection",
    "HTTP_BROKEN": "connection",
}
_STATUS = re.compile(r"\b(?:HTTP|status)\D{0,12}(\d{3})\b", re.IGNORECASE)
_CONNECTION = re.compile(
    r"connection (?:refused|reset|aborted|closed)|temporarily unavailable"
    r"|name or service not known|timed? ?out|unreachable",
    re.IGNORECASE,
)
TOO_MANY, SERVER_ERRORS = 429, range(500, 600)


def unwrapped(envelope: object) -> dict[str, Any]:
    """The values that expressions see as ``result``.

    The tool's own object where there is one; any other value is ``{"result": value}``. A failure
    has ``status: error`` and an ``error``.
    """
    if not isinstance(envelope, Mapping):
        return {} if envelope is None else {"result": envelope}
    own = {name: value for name, value in envelope.items() if name not in _ABOUT}
    data = envelope.get("data")
    if isinstance(data, Mapping):
        result = dict(data)
    elif "data" in envelope:
        result = {} if data is None else {"result": data}
    else:
        result = own
    if envelope.get("status") == "error" or result.get("success") is False:
        result["status"] = "error"
        result["error"] = error_text(result.get("error") or envelope.get("error"))
        # Of Rye's own failure the file that it is about, and what to do.
        for name in ("code", "path", "hint"):
            if name in envelope:
                result.setdefault(name, envelope[name])
    return result


def failed(error: str, code: str) -> dict[str, Any]:
    """The result of a call that was not made."""
    return {"status": "error", "error": error, "code": code}


def error_text(error: object) -> str:
    """An error as text."""
    if isinstance(error, str) and error:
        return error
    return "the call failed and gave no reason" if not error else str(error)


def classified(result: Mapping[str, Any]) -> dict[str, Any]:
    """``{"category", "retryable", "code"}`` of a failed result.

    Time-outs, connections, 429 and 5xx may be tried again; a cancelled call is ``cancelled``;
    everything else is ``permanent``, also all that ends a thread of a model: it has tried what can
    be tried, within its purse.
    """
    code = str(result.get("code", ""))
    if result.get("type") == "thread" and "thread_id" in result:
        return {"category": "permanent", "retryable": False, "code": code}
    if code == "CANCELLED":
        return {"category": "cancelled", "retryable": False, "code": code}
    category = _RETRYABLE_CODES.get(code) or _by_number(result) or _by_words(result)
    return {"category": category or "permanent", "retryable": bool(category), "code": code}


def _by_number(result: Mapping[str, Any]) -> str:
    number = result.get("status_code")
    if not isinstance(number, int) or isinstance(number, bool):
        found = _STATUS.search(str(result.get("error", ""))[:1000])
        number = int(found[1]) if found else 0
    if number == TOO_MANY:
        return "rate_limit"
    return "server" if number in SERVER_ERRORS else ""


def _by_words(result: Mapping[str, Any]) -> str:
    found = _CONNECTION.search(str(result.get("error", ""))[:1000])
    return "connection" if found else ""


# --- node calls -----------------------------------------------------------------------------------
# The calls of one node: one, several in a row, or side by side; again, as ``retry`` says.

Reply: TypeAlias = Any
# A call that was refused is not there, and its result says why.
MadeCall: TypeAlias = tuple[Act | None, CallResult]

NOT_MADE = CallResult(result=failed("not made: an earlier call failed", "NOT_MADE"))
CANCELLED = CallResult(result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True)


def call_once(
    walk: WalkProgress,
    node: ActionNode | ForeachNode,
    document: Mapping[str, Any],
    index: int | None = None,
) -> Generator[WalkCommand, Reply, MadeCall]:
    """One call, and the same again where it fails and the node has retries left."""
    act, acted = None, CANCELLED
    for attempt in range(1 + (node.retry.max if node.retry else 0)):
        if attempt and not (yield _pause(node, attempt)):
            return None, CANCELLED
        try:
            act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
        except RefusedCallError as refusal:
            return None, CallResult(result=failed(str(refusal), refusal.reason))
        acted = yield act
        if acted.is_cancelled or not acted.has_failed or act.forks:
            break
    return act, acted


def one_by_one(
    walk: WalkProgress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[WalkCommand, Reply, list[MadeCall]]:
    """A call for each element; the element is in the state while its call is made."""
    made: list[MadeCall] = []
    before = {node.as_name: walk.state[node.as_name]} if node.as_name in walk.state else {}
    for index, element in enumerate(elements):
        walk.state[node.as_name] = element
        act, acted = yield from call_once(
            walk, node, {**walk.document(), node.as_name: element}, index
        )
        made.append((act, acted))
        if acted.is_cancelled or (node.fail_fast and acted.has_failed):
            break
    walk.state.pop(node.as_name, None)
    walk.state |= before
    return made


def side_by_side(
    walk: WalkProgress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[WalkCommand, Reply, list[MadeCall]]:
    """All calls at once, none of which sees the state; those that failed again, as often."""
    made = [_refused_call(walk, node, index, element) for index, element in enumerate(elements)]
    waiting = [place for place, (act, _) in enumerate(made) if act]
    if node.fail_fast and len(waiting) < len(made):
        return [(None, NOT_MADE if act else acted) for act, acted in made]
    last = node.retry.max if node.retry else 0
    for attempt in range(1 + last):
        if not waiting:
            break
        if attempt and not (yield _pause(node, attempt)):
            return [(None, CANCELLED)]
        answered: Sequence[CallResult] = yield Fan(
            acts=[act for place in waiting if (act := made[place][0])],
            max_concurrency=node.max_concurrency or walk.settings.max_concurrency,
            fail_fast=node.fail_fast and attempt == last,
        )
        for place, acted in zip(waiting, answered, strict=True):
            made[place] = (made[place][0], acted)
        if any(acted.is_cancelled for acted in answered):
            break
        waiting = [
            place
            for place in waiting
            if made[place][1].has_failed and not ((act := made[place][0]) and act.forks)
        ]
    return made


def _refused_call(walk: WalkProgress, node: ForeachNode, index: int, element: object) -> MadeCall:
    document = {**walk.document(), "state": {}, node.as_name: element}
    try:
        act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
    except RefusedCallError as refusal:
        return None, CallResult(result=failed(str(refusal), refusal.reason))
    return act, CANCELLED


def _pause(node: ActionNode | ForeachNode, attempt: int) -> Pause:
    retry = node.retry
    return Pause(retry.delay_s * retry.backoff ** (attempt - 1) if retry else 0.0)


# --- visits ---------------------------------------------------------------------------------------
# Working on one node: its calls, its assignments, and where it leads to.


@dataclass(slots=True)
class Visit:
    """What one visit of a node has come to so far.

    next_node  None ends the graph
    outcome    ends it at once
    again      the node is worked on once more, and this visit does not count
    """

    result: Any = None
    error: str | None = None
    next_node: str | None = None
    calls: list[tuple[Act, CallResult]] = field(default_factory=list)
    outcome: WalkOutcome | None = None
    again: bool = False
    terminated: str = ""
    is_cancelled: bool = False

    @property
    def is_undone(self) -> bool:
        """Whether the visit does not count as a step."""
        return self.again or self.is_cancelled


class Visits:
    """What is done at the nodes of a walk."""

    def __init__(self, walk: WalkProgress, hooks: HookRun) -> None:
        self._walk, self._hooks = walk, hooks

    def visit(self, node: GraphNode) -> Generator[WalkCommand, Reply, Visit]:
        """Work on a node, once."""
        visit = Visit()
        try:
            yield from self._work(node, visit)
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
        return visit

    def _work(self, node: GraphNode, visit: Visit) -> Generator[WalkCommand, Reply, None]:
        missing = [name for name in node.env_requires if name not in self._walk.settings.env_names]
        if missing:
            problem = failed(
                f"Missing environment variables: {', '.join(missing)}", "missing_environment"
            )
            yield from self._fail(node, visit, problem)
            return
        match node:
            case ActionNode():
                yield from self._work_on_action(node, visit)
            case ForeachNode():
                yield from self._work_on_foreach(node, visit)
            case GateNode():
                visit.result = {}
                self._walk.assign(node.assign, {})
                self._choose(node.next, visit)
            case ReturnNode():
                self._work_on_return(node, visit)

    def _work_on_return(self, node: ReturnNode, visit: Visit) -> None:
        document, warn = self._walk.document(), self._walk.warn
        output = fill(node.output, document, warn) if node.has_output else {}
        problem = storage_problem(output)
        if problem:
            raise ExpressionError(str(node.output), f"output: {problem}")
        visit.result = output
        visit.outcome = self._walk.completed(output=output, has_output=node.has_output)

    def _work_on_action(
        self, node: ActionNode, visit: Visit
    ) -> Generator[WalkCommand, Reply, None]:
        act, acted = yield from call_once(self._walk, node, self._walk.document())
        if acted.is_cancelled:
            visit.is_cancelled = True
            return
        visit.calls = [(act, acted)] if act else []
        visit.result = dict(acted.result)
        if acted.has_failed:
            yield from self._fail(node, visit, visit.result)
            return
        self._walk.assign(node.assign, visit.result)
        self._choose(node.next, visit)

    def _work_on_foreach(
        self, node: ForeachNode, visit: Visit
    ) -> Generator[WalkCommand, Reply, None]:
        over = fill(node.over, self._walk.document(), self._walk.warn)
        elements = elements_of(over, node.name, self._walk.warn)
        calls = side_by_side if node.parallel else one_by_one
        made = yield from calls(self._walk, node, elements)
        if any(acted.is_cancelled for _, acted in made):
            visit.is_cancelled = True
            return
        visit.calls = [(act, acted) for act, acted in made if act]
        results = [acted.result for _, acted in made]
        visit.result = {"results": (values := collected(results)), "count": len(values)}
        failure = first_failure(results)
        if node.collect and is_too_large(values):
            problem = (
                f"{node.collect}: expected at most {MAX_SIZE} characters and parts, found more"
            )
            yield from self._fail(node, visit, failed(problem, "too_large"))
            return
        if node.collect:
            self._walk.state[node.collect] = values
        if failure:
            yield from self._fail(node, visit, failure, results)
        else:
            self._choose(node.next, visit)

    # ------------------------------------------------------------------ what follows

    def _choose(self, edges: Sequence[Edge], visit: Visit) -> None:
        """Choose the first edge that holds. Raises ExpressionError."""
        document = {**self._walk.document(), "result": visit.result}
        for edge in edges:
            if edge.when is None or holds(edge.when, document, self._walk.warn):
                visit.next_node = edge.to
                return
        visit.terminated = "dead_end"
        if edges:
            self._walk.warn(f"{self._walk.node}: no edge matched")

    def _fail(
        self,
        node: GraphNode,
        visit: Visit,
        failure: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]] = (),
    ) -> Generator[WalkCommand, Reply, None]:
        """Decide what a failure leads to; ``results`` are all of a foreach."""
        visit.error = str(failure.get("error", ""))
        retries = retries_of(self._walk.state)
        control = yield from self._hooks.fire(
            "error",
            {
                "error": failure,
                "classification": classified(failure),
                "node": node.name,
                "state": self._walk.state,
                "step_count": self._walk.step,
            },
            self._walk.document(),
        )
        if self._hooks.is_cancelled:
            visit.is_cancelled = True
            return
        steering = after_failure(
            node, self._walk.graph, control, retries.get(node.name, 0), is_of_elements=bool(results)
        )
        if steering is FailureAction.AGAIN:
            self._walk.state[RETRIES] = {**retries, node.name: retries.get(node.name, 0) + 1}
            visit.again = True
            return
        self._walk.state[LAST_ERROR] = self._last_error(node, visit.error, results)
        match steering:
            case FailureAction.ON_ERROR if isinstance(node, ActionNode | ForeachNode):
                visit.next_node = node.on_error
            case FailureAction.CONTINUE | FailureAction.SKIP if not isinstance(node, ReturnNode):
                if steering is FailureAction.CONTINUE:
                    self._put_up_with(node, visit.error, results)
                visit.result = visit.result if results else dict(failure)
                self._choose_behind_failure(node, visit)
            case FailureAction.ABORT:
                visit.outcome = self._failure(node, visit.error, "aborted")
            case _:
                error = self._cause(node, visit.error, results)
                ended = next((one for one in results if one.get("status") == "error"), failure)
                visit.outcome = self._failure(node, error, "node_error", ended)

    @staticmethod
    def _cause(node: GraphNode, error: str, results: Sequence[Mapping[str, Any]]) -> str:
        """The error; of a foreach with the element that failed first, and how many did."""
        failed_at = [at for at, one in enumerate(results) if one.get("status") == "error"]
        if not failed_at:
            return error
        others = f" ({len(failed_at)} of {len(results)} calls failed)" if len(results) > 1 else ""
        return f"{node.name}[{failed_at[0]}]: {error}{others}"

    def _failure(
        self, node: GraphNode, error: str, code: str, call: Mapping[str, Any] | None = None
    ) -> WalkOutcome:
        """The end of a run; ``call`` is the result of the call that failed."""
        path, hint = (
            value if isinstance(value := (call or {}).get(name), str) else ""
            for name in ("path", "hint")
        )
        return self._walk.outcome(
            "error", error=error, node=node.name, code=code, path=path, hint=hint
        )

    def _choose_behind_failure(
        self, node: ActionNode | GateNode | ForeachNode, visit: Visit
    ) -> None:
        try:
            self._choose(node.next, visit)
        except ExpressionError as error:  # no retry is left
            visit.error = str(error)
            visit.outcome = self._failure(node, visit.error, "node_error")

    def _last_error(
        self, node: GraphNode, error: str, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        last: dict[str, Any] = {"node": node.name, "error": error}
        failures = [i for i, result in enumerate(results) if result.get("status") == "error"]
        return last | ({"index": failures[0], "failed": len(failures)} if failures else {})

    def _put_up_with(
        self, node: GraphNode, error: str, results: Sequence[Mapping[str, Any]]
    ) -> None:
        entry: dict[str, Any] = {"step": self._walk.step, "node": node.name}
        if not results:
            self._walk.errors.append({**entry, "error": error})
        for index, result in enumerate(results):
            if result.get("status") == "error":
                self._walk.errors.append(
                    {**entry, "index": index, "error": str(result.get("error"))}
                )


# --- walker ---------------------------------------------------------------------------------------

WalkSteps: TypeAlias = Generator[WalkCommand, Reply, WalkOutcome]


class Walk:
    """One walk through a graph. ``hooks`` are those of the graph and of others, else its own."""

    def __init__(
        self,
        graph: Graph,
        position: Position,
        settings: WalkSettings,
        *,
        hooks: Sequence[Hook] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        chosen = graph.hooks if hooks is None else hooks
        self._walk = WalkProgress(graph, position, settings, now)
        self._hooks = HookRun(chosen, settings.rules, self._walk.warn)
        self._visits = Visits(self._walk, self._hooks)

    def run(self, *, is_resumed: bool = False) -> WalkSteps:
        """Walk to the end; see the module."""
        if not is_resumed and not self._walk.settings.single:
            context = {"graph_id": self._walk.graph.graph_id, "state": self._walk.state}
            yield from self._hooks.fire("graph_started", context, self._walk.document())
        while True:
            outcome = yield from self._step()
            if outcome:
                return outcome

    def _step(self) -> Generator[WalkCommand, Reply, WalkOutcome | None]:
        """Take one step; the end of the walk where it is one."""
        walk = self._walk
        if walk.is_over_limit:  # (1)
            return (yield from self._over_limit())
        node = walk.graph.nodes[walk.node or ""]
        goes_on = yield Enter(step=walk.step + 1, node=node.name, type=node.type)  # (2)
        if not goes_on:
            return walk.cancelled()
        walk.step += 1
        visit = yield from self._visits.visit(node)  # (3)
        if visit.is_undone:
            walk.step -= 1
            return walk.cancelled() if visit.is_cancelled else None
        has_failed = visit.outcome is not None and visit.outcome.error is not None
        walk.node = node.name if has_failed else visit.next_node  # (4)
        yield self._node_done(node, visit)  # (5)
        stopped = None if has_failed else (yield from self._after_step(node, visit))  # (6)
        return (yield from self._end_behind(node, visit, stopped or visit.outcome))

    def _end_behind(
        self, node: GraphNode, visit: Visit, outcome: WalkOutcome | None
    ) -> Generator[WalkCommand, Reply, WalkOutcome | None]:
        """The end of the walk, if it is one."""
        if outcome:
            return (yield from self._end(outcome))
        if self._walk.settings.single:
            return self._walk.outcome("stepped", node=node.name, next_node=self._walk.node)
        if self._walk.node is None:
            end = self._walk.completed(output={}, terminated=visit.terminated or "dead_end")
            return (yield from self._end(end))
        return None

    def _after_step(
        self, node: GraphNode, visit: Visit
    ) -> Generator[WalkCommand, Reply, WalkOutcome | None]:
        control = yield from self._hooks.fire(
            "after_step",
            {
                "node": node.name,
                "next_node": self._walk.node,
                "state": self._walk.state,
                "step_count": self._walk.step,
                "result": visit.result,
            },
            self._walk.document(),
        )
        if control and control.action in {"fail", "abort"}:
            error = control.error or f"a hook ended the run after {node.name}"
            return self._walk.outcome("error", error=error, node=node.name, code="ended_by_hook")
        return None

    # ------------------------------------------------------------------ ends

    def _over_limit(self) -> WalkSteps:
        most = self._walk.settings.max_steps
        context = {
            "limit_code": "max_steps_exceeded",
            "current_value": self._walk.steps_taken,
            "current_max": most,
            "state": self._walk.state,
        }
        yield from self._hooks.fire("limit", context, self._walk.document())
        error = f"Max steps exceeded ({most})"
        outcome = self._walk.outcome("error", error=error, code="max_steps_exceeded")
        return (yield from self._end(outcome))

    def _end(self, outcome: WalkOutcome) -> WalkSteps:
        """Run the hooks of the end, and end. A single step is no end of the graph."""
        if self._walk.settings.single:
            return outcome
        context = {
            "graph_id": self._walk.graph.graph_id,
            "state": self._walk.state,
            "steps": self._walk.step,
            "status": outcome.status,
        }
        if outcome.error is not None:
            context["error"] = outcome.error
        yield from self._hooks.fire("graph_completed", context, self._walk.document())
        return outcome

    def _node_done(self, node: GraphNode, visit: Visit) -> NodeDone:
        return NodeDone(
            step=self._walk.step,
            node=node.name,
            type=node.type,
            next_node=self._walk.node,
            state=self._walk.state,
            result=visit.result,
            error=visit.error,
            calls=visit.calls,
            errors=self._walk.errors,
        )


# --- plan -----------------------------------------------------------------------------------------
# The way of a run, as far as it is known before anything is called. Pure.

_END = "(end)"


def planned_path(graph: Graph, inputs: Mapping[str, Any]) -> list[str]:
    """The nodes in the order of a run with these inputs.

    Where a result decides, the last entry names those that may follow: ``big | small``. A way that
    comes to a node again ends with it.
    """
    document = {"state": {**graph.state, INPUTS: inputs}, "inputs": inputs}
    unknown: set[tuple[str, ...]] = {("result",), ("_now",), ("_timestamp",)}
    path = [graph.start]
    while path[-1] in graph.nodes and path[-1] not in path[:-1]:
        node = graph.nodes[path[-1]]
        keys = [*getattr(node, "assign", ())]
        if isinstance(node, ForeachNode) and node.collect:
            keys.append(node.collect)
        unknown |= {("state", key) for key in keys}
        choices = _choices(edges_of(node), document, unknown)
        if not choices:
            break
        path.append(" | ".join(choices))
    return path


def _choices(
    edges: Sequence[Edge], document: Mapping[str, Any], unknown: set[tuple[str, ...]]
) -> list[str]:
    """The nodes that may follow: one where everything that decides is known."""
    may: list[str] = []
    for edge in edges:
        if edge.when is None:
            return list(dict.fromkeys([*may, edge.to]))
        seen = set(references(edge.when))
        is_known = all(len(one) > 1 and not {one[:1], one[:2]} & unknown for one in seen)
        try:
            if is_known and not holds(edge.when, document, lambda _: None):
                continue
        except ExpressionError:
            is_known = False
        may.append(edge.to)
        if is_known:
            return list(dict.fromkeys(may))
    return [*dict.fromkeys(may), _END] if may else []
