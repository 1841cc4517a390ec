"""The state machine that walks a graph, without I/O. Rules: ``docs/graphs.md``.

`Walk.run` is a generator: it gives commands (`ryeos.graph.commands`) and gets their replies, until
it returns the `Outcome`. For each node:

(1) may another step be taken?   (2) `Enter`   (3) the node's own work, calls included
(4) where to: ``next``, ``on_error``, or nowhere   (5) `NodeDone`   (6) ``after_step`` hooks
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from lillux.values import dataclass, field
from ryeos.graph.call_results import classified, failed
from ryeos.graph.commands import Act, CallResult, Enter, NodeDone, WalkCommand, WalkOutcome
from ryeos.graph.conditions import holds, references
from ryeos.graph.expressions import ExpressionError, fill
from ryeos.graph.failures import FailureAction, after_failure
from ryeos.graph.hook_run import HookRun
from ryeos.graph.model import (
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    Graph,
    GraphNode,
    Hook,
    ReturnNode,
    edges_of,
)
from ryeos.graph.node_calls import (
    Reply,
    call_once,
    collected,
    elements_of,
    first_failure,
    one_by_one,
    side_by_side,
)
from ryeos.graph.progress import (
    INPUTS,
    LAST_ERROR,
    RETRIES,
    Position,
    WalkProgress,
    WalkSettings,
    retries_of,
)
from ryeos.graph.storable_values import MAX_SIZE, is_too_large, storage_problem

# Working on one node: its calls, its assignments, and where it leads to.


@dataclass(slots=True)
class Visit:
    """The results of one visit of a node so far.

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
        """True if the visit does not count as a step."""
        return self.again or self.is_cancelled


class Visits:
    """The work at the nodes of a walk."""

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
                    self._tolerate_failure(node, visit.error, results)
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

    def _tolerate_failure(
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
