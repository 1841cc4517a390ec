"""Walking a graph, as a state machine without I/O. The rules are in ``docs/graphs.md``.

`Walk.run` is a generator: it gives commands (`ryeos.graph.commands`) and gets their replies, until
it returns the `Outcome`. For each node:

(1) may another step be taken?    (2) `Enter`    (3) the node's own work, calls included
(4) where to: ``next``, ``on_error``, once more, or nowhere    (5) `Left`    (6) ``after_step`` hooks
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, TypeAlias

from lillux.values import dataclass, field
from ryeos.graph.calls import CallRules, RefusedCallError, act_of
from ryeos.graph.commands import Act, Acted, Command, Enter, Fan, Left, Outcome, Pause
from ryeos.graph.conditions import holds
from ryeos.graph.errors import ExpressionError
from ryeos.graph.expressions import fill
from ryeos.graph.foreach import collected, elements_of, first_failure
from ryeos.graph.hooks import HookRun
from ryeos.graph.model import (
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    Graph,
    Hook,
    Node,
    ReturnNode,
)
from ryeos.graph.results import classified, failed
from ryeos.graph.steering import Steering, after_failure

Reply: TypeAlias = Any
Walking: TypeAlias = Generator[Command, Reply, Outcome]
LAST_ERROR, RETRIES, INPUTS = "_last_error", "_retries", "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a walk begins: at the start, or where an earlier one ended.

    state   with the run's inputs under ``inputs``; copied, never changed
    step    how many steps were taken before
    errors  those that were put up with before
    """

    node: str
    state: Mapping[str, Any]
    step: int = 0
    errors: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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


@dataclass(slots=True)
class _Visit:
    """What one visit of a node has come to so far.

    next_node  None ends the graph
    outcome    ends it at once
    again      the node is worked on once more, and this visit does not count
    """

    result: Any = None
    error: str | None = None
    next_node: str | None = None
    calls: list[tuple[Act, Acted]] = field(default_factory=list)
    outcome: Outcome | None = None
    again: bool = False
    terminated: str = ""


class Walk:
    """One walk through a graph. ``hooks`` are those of the graph and of others, else its own."""

    def __init__(
        self,
        graph: Graph,
        position: Position,
        settings: Settings,
        *,
        hooks: Sequence[Hook] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._graph, self._settings, self._now = graph, settings, now
        self._state: dict[str, Any] = deepcopy(dict(position.state))
        self._node: str | None = position.node
        self._step = self._first_step = position.step
        self._errors: list[Mapping[str, Any]] = list(position.errors)
        self._warnings: dict[str, None] = {}
        self._hooks = HookRun(graph.hooks if hooks is None else hooks, settings.rules, self._warn)

    def run(self, *, is_resumed: bool = False) -> Walking:
        """Walk to the end; see the module."""
        if not is_resumed and not self._settings.single:
            context = {"graph_id": self._graph.graph_id, "state": self._state}
            yield from self._hooks.fire("graph_started", context, self._document())
        while self._node is not None:
            if self._step - self._first_step >= self._settings.max_steps:  # (1)
                return (yield from self._over_limit())
            node = self._graph.nodes[self._node]
            goes_on = yield Enter(step=self._step + 1, node=node.name, type=node.type)  # (2)
            if not goes_on:
                return self._cancelled()
            self._step += 1
            visit = yield from self._visit(node)  # (3)
            if visit.outcome and visit.outcome.status == "cancelled":
                self._step -= 1  # it was not taken
                return self._cancelled()
            if visit.again:
                self._step -= 1
                continue
            has_failed = visit.outcome is not None and visit.outcome.status == "error"
            self._node = node.name if has_failed else visit.next_node  # (4)
            yield self._left(node, visit)  # (5)
            if not has_failed:
                ended = yield from self._after_step(node, visit)  # (6)
                visit.outcome = ended or visit.outcome
            if visit.outcome:
                return (yield from self._ended(visit.outcome))
            if self._settings.single:
                return self._outcome("stepped", node=node.name, next_node=self._node)
            if self._node is None:
                return (yield from self._ended(self._dead_end(visit)))
        return self._dead_end(_Visit())

    # ------------------------------------------------------------------ nodes

    def _visit(self, node: Node) -> Generator[Command, Reply, _Visit]:
        missing = [name for name in node.env_requires if name not in self._settings.env_names]
        if missing:
            problem = failed(f"Missing environment variables: {missing}", "missing_environment")
            visit = _Visit(result=problem)
            yield from self._fail(node, visit, problem)
            return visit
        match node:
            case ActionNode():
                return (yield from self._visit_action(node))
            case ForeachNode():
                return (yield from self._visit_foreach(node))
            case GateNode():
                return (yield from self._visit_gate(node))
            case ReturnNode():
                return (yield from self._visit_return(node))

    def _visit_gate(self, node: GateNode) -> Generator[Command, Reply, _Visit]:
        visit = _Visit(result={})
        try:
            self._assign(node.assign, {})
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
            return visit
        self._follow(node.next, visit)
        return visit

    def _visit_return(self, node: ReturnNode) -> Generator[Command, Reply, _Visit]:
        visit = _Visit()
        try:
            output = fill(node.output, self._document(), self._warn) if node.has_output else {}
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
            return visit
        visit.result = output
        visit.outcome = self._outcome(
            "completed_with_errors" if self._errors else "completed",
            output=output,
            has_output=node.has_output,
        )
        return visit

    def _visit_action(self, node: ActionNode) -> Generator[Command, Reply, _Visit]:
        visit = _Visit()
        acted = yield from self._call(node, self._document(), None)
        if acted.is_cancelled:
            visit.outcome = self._cancelled()
            return visit
        visit.calls, visit.result = self._calls_made, dict(acted.result)
        if acted.has_failed:
            yield from self._fail(node, visit, visit.result)
            return visit
        try:
            self._assign(node.assign, visit.result)
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
            return visit
        self._follow(node.next, visit)
        return visit

    def _visit_foreach(self, node: ForeachNode) -> Generator[Command, Reply, _Visit]:
        visit = _Visit()
        try:
            over = fill(node.over, self._document(), self._warn)
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
            return visit
        elements = elements_of(over, node.name, self._warn)
        made = (
            (yield from self._fan_out(node, elements))
            if node.parallel
            else (yield from self._one_by_one(node, elements))
        )
        if any(acted.is_cancelled for _, acted in made):
            visit.outcome = self._cancelled()
            return visit
        visit.calls = [(act, acted) for act, acted in made if act]
        results = [acted.result for _, acted in made]
        visit.result = {"results": (values := collected(results)), "count": len(values)}
        if node.collect:
            self._state[node.collect] = values
        failure = first_failure(results)
        if failure:
            yield from self._fail(node, visit, failure, results)
        else:
            self._follow(node.next, visit)
        return visit

    # ------------------------------------------------------------------ calls

    def _call(
        self, node: ActionNode | ForeachNode, document: Mapping[str, Any], index: int | None
    ) -> Generator[Command, Reply, Acted]:
        """The node's call, made again as its ``retry`` says; kept in ``_calls_made``."""
        self._calls_made: list[tuple[Act, Acted]] = []
        attempts = 1 + (node.retry.max if node.retry else 0)
        for attempt in range(attempts):
            if attempt and node.retry and not (yield _pause(node, attempt)):
                return _CANCELLED
            try:
                act = act_of(node, document, self._settings.rules, index=index, warn=self._warn)
            except RefusedCallError as refusal:
                return Acted(result=failed(str(refusal), refusal.code))
            acted: Acted = yield act
            self._calls_made = [(act, acted)]
            if acted.is_cancelled or not acted.has_failed:
                break
        return acted

    def _one_by_one(
        self, node: ForeachNode, elements: Sequence[Any]
    ) -> Generator[Command, Reply, list[tuple[Act | None, Acted]]]:
        made: list[tuple[Act | None, Acted]] = []
        before = {node.as_name: self._state[node.as_name]} if node.as_name in self._state else {}
        for index, element in enumerate(elements):
            self._state[node.as_name] = element
            document = {**self._document(), node.as_name: element}
            acted = yield from self._call(node, document, index)
            made.append((self._calls_made[0][0] if self._calls_made else None, acted))
            if acted.is_cancelled or (node.fail_fast and acted.has_failed):
                break
        self._state.pop(node.as_name, None)
        self._state |= before
        return made

    def _fan_out(
        self, node: ForeachNode, elements: Sequence[Any]
    ) -> Generator[Command, Reply, list[tuple[Act | None, Acted]]]:
        """All calls, side by side; those that failed once more, as ``retry`` says."""
        made: list[tuple[Act | None, Acted]] = []
        for index, element in enumerate(elements):
            base = {**self._document(), "state": {}}
            document = {**base, node.as_name: element}
            try:
                act = act_of(node, document, self._settings.rules, index=index, warn=self._warn)
            except RefusedCallError as refusal:
                made.append((None, Acted(result=failed(str(refusal), refusal.code))))
            else:
                made.append((act, _CANCELLED))
        waiting = [place for place, (act, _) in enumerate(made) if act]
        for attempt in range(1 + (node.retry.max if node.retry else 0)):
            if attempt and not (yield _pause(node, attempt)):
                return [(None, _CANCELLED)]
            acts = [act for place in waiting if (act := made[place][0])]
            answered: Sequence[Acted] = (
                (
                    yield Fan(
                        acts=acts,
                        max_concurrency=node.max_concurrency or self._settings.max_concurrency,
                        fail_fast=node.fail_fast and not node.retry,
                    )
                )
                if acts
                else ()
            )
            for place, acted in zip(waiting, answered, strict=True):
                made[place] = (made[place][0], acted)
            if any(acted.is_cancelled for acted in answered):
                break
            waiting = [place for place in waiting if made[place][1].has_failed]
            if not waiting:
                break
        return made

    # ------------------------------------------------------------------ what follows

    def _assign(self, assign: Mapping[str, Any], result: Any) -> None:  # noqa: ANN401 - JSON
        """Assign in order; each template sees what was assigned before. Raises ExpressionError."""
        for key, template in assign.items():
            value = fill(template, {**self._document(), "result": result}, self._warn)
            if value is None:
                self._warn(f"{self._node}: {key} is assigned nothing: {template!r:.100} has none")
            self._state[key] = value

    def _follow(self, edges: Sequence[Edge], visit: _Visit) -> None:
        """Choose the first edge that holds."""
        document = {**self._document(), "result": visit.result}
        for edge in edges:
            if edge.when is None or holds(edge.when, document, self._warn):
                visit.next_node = edge.to
                return
        visit.terminated = "dead_end"
        if edges:
            self._warn(f"{self._node}: no edge matched")

    def _fail(
        self,
        node: Node,
        visit: _Visit,
        failure: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]] = (),
    ) -> Generator[Command, Reply, None]:
        """Decide what a failure leads to; ``results`` are all of a foreach."""
        visit.error = str(failure.get("error", ""))
        retries = dict(self._state.get(RETRIES) or {})
        control = yield from self._hooks.fire(
            "error",
            {
                "error": failure,
                "classification": classified(failure),
                "node": node.name,
                "state": self._state,
                "step_count": self._step,
            },
            self._document(),
        )
        steering = after_failure(node, self._graph, control, retries.get(node.name, 0))
        if steering is Steering.AGAIN:
            self._state[RETRIES] = {**retries, node.name: retries.get(node.name, 0) + 1}
            visit.again = True
            return
        self._state[LAST_ERROR] = self._last_error(node, visit.error, results)
        match steering:
            case Steering.ON_ERROR if isinstance(node, ActionNode | ForeachNode):
                visit.next_node = node.on_error
            case Steering.CONTINUE | Steering.SKIP if not isinstance(node, ReturnNode):
                if steering is Steering.CONTINUE:
                    self._put_up_with(node, visit.error, results)
                visit.result = visit.result if results else dict(failure)
                self._follow(node.next, visit)
            case Steering.ABORT:
                visit.outcome = self._outcome(
                    "error", error=visit.error, node=node.name, code="aborted"
                )
            case _:
                visit.outcome = self._outcome(
                    "error", error=visit.error, node=node.name, code="node_error"
                )

    def _last_error(
        self, node: Node, error: str, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        last: dict[str, Any] = {"node": node.name, "error": error}
        failures = [i for i, result in enumerate(results) if result.get("status") == "error"]
        return last | ({"index": failures[0], "failed": len(failures)} if failures else {})

    def _put_up_with(
        self, node: Node, error: str, results: Sequence[Mapping[str, Any]]
    ) -> None:
        entry: dict[str, Any] = {"step": self._step, "node": node.name}
        if not results:
            self._errors.append({**entry, "error": error})
        for index, result in enumerate(results):
            if result.get("status") == "error":
                self._errors.append({**entry, "index": index, "error": str(result.get("error"))})

    def _after_step(
        self, node: Node, visit: _Visit
    ) -> Generator[Command, Reply, Outcome | None]:
        control = yield from self._hooks.fire(
            "after_step",
            {
                "node": node.name,
                "next_node": self._node,
                "state": self._state,
                "step_count": self._step,
                "result": visit.result,
            },
            self._document(),
        )
        if control and control.action in {"fail", "abort"}:
            error = control.error or f"a hook ended the run after {node.name}"
            return self._outcome("error", error=error, node=node.name, code="ended_by_hook")
        return None

    # ------------------------------------------------------------------ ends

    def _over_limit(self) -> Walking:
        most = self._settings.max_steps
        context = {
            "limit_code": "max_steps_exceeded",
            "current_value": self._step - self._first_step,
            "current_max": most,
            "state": self._state,
        }
        yield from self._hooks.fire("limit", context, self._document())
        error = f"Max steps exceeded ({most})"
        outcome = self._outcome("error", error=error, code="max_steps_exceeded")
        return (yield from self._ended(outcome))

    def _ended(self, outcome: Outcome) -> Walking:
        """Tell the hooks, and end."""
        context = {
            "graph_id": self._graph.graph_id,
            "state": self._state,
            "steps": self._step,
            "status": outcome.status,
        }
        if outcome.error is not None:
            context["error"] = outcome.error
        yield from self._hooks.fire("graph_completed", context, self._document())
        return outcome

    def _dead_end(self, visit: _Visit) -> Outcome:
        status = "completed_with_errors" if self._errors else "completed"
        return self._outcome(status, output={}, terminated=visit.terminated or "dead_end")

    def _cancelled(self) -> Outcome:
        return self._outcome(
            "cancelled", error="the run was cancelled", node=self._node, code="cancelled"
        )

    def _outcome(self, status: str, **fields: Any) -> Outcome:  # noqa: ANN401 - those of Outcome
        fields.setdefault("next_node", self._node if status in {"error", "cancelled"} else None)
        return Outcome(
            status=status,
            state=self._state,
            steps=self._step,
            errors=tuple(self._errors),
            warnings=tuple(self._warnings),
            **fields,
        )

    def _left(self, node: Node, visit: _Visit) -> Left:
        return Left(
            step=self._step,
            node=node.name,
            type=node.type,
            next_node=self._node,
            state=self._state,
            result=visit.result,
            error=visit.error,
            calls=visit.calls,
            errors=tuple(self._errors),
        )

    # ------------------------------------------------------------------ what expressions see

    def _document(self) -> dict[str, Any]:
        now = self._now()
        return {
            "state": self._state,
            "inputs": self._state.get(INPUTS) or {},
            "_now": now.isoformat(),
            "_timestamp": int(now.timestamp() * 1000),
        }

    def _warn(self, text: str) -> None:
        self._warnings[text] = None


_CANCELLED = Acted(result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True)


def _pause(node: ActionNode | ForeachNode, attempt: int) -> Pause:
    retry = node.retry
    return Pause(retry.delay_s * retry.backoff ** (attempt - 1) if retry else 0.0)
