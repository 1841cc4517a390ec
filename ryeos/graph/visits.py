"""Working on one node: its calls, its assignments, and where it leads to."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass, field
from ryeos.graph.commands import Act, Acted, Command, Outcome
from ryeos.graph.conditions import holds
from ryeos.graph.expression_errors import ExpressionError
from ryeos.graph.expressions import fill
from ryeos.graph.foreach import collected, elements_of, first_failure
from ryeos.graph.hooks import HookRun
from ryeos.graph.model import ActionNode, Edge, ForeachNode, GateNode, Node, ReturnNode
from ryeos.graph.node_calls import Reply, call_once, one_by_one, side_by_side
from ryeos.graph.progress import LAST_ERROR, RETRIES, Progress, retries_of
from ryeos.graph.results import classified, failed
from ryeos.graph.steering import Steering, after_failure
from ryeos.graph.storable import MAX_SIZE, is_too_large, storage_problem


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
    calls: list[tuple[Act, Acted]] = field(default_factory=list)
    outcome: Outcome | None = None
    again: bool = False
    terminated: str = ""
    is_cancelled: bool = False

    @property
    def is_undone(self) -> bool:
        """Whether the visit does not count as a step."""
        return self.again or self.is_cancelled


class Visits:
    """What is done at the nodes of a walk."""

    def __init__(self, walk: Progress, hooks: HookRun) -> None:
        self._walk, self._hooks = walk, hooks

    def visit(self, node: Node) -> Generator[Command, Reply, Visit]:
        """Work on a node, once."""
        visit = Visit()
        try:
            yield from self._work(node, visit)
        except ExpressionError as error:
            yield from self._fail(node, visit, failed(str(error), error.code))
        return visit

    def _work(self, node: Node, visit: Visit) -> Generator[Command, Reply, None]:
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

    def _work_on_action(self, node: ActionNode, visit: Visit) -> Generator[Command, Reply, None]:
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

    def _work_on_foreach(self, node: ForeachNode, visit: Visit) -> Generator[Command, Reply, None]:
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
        node: Node,
        visit: Visit,
        failure: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]] = (),
    ) -> Generator[Command, Reply, None]:
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
        if steering is Steering.AGAIN:
            self._walk.state[RETRIES] = {**retries, node.name: retries.get(node.name, 0) + 1}
            visit.again = True
            return
        self._walk.state[LAST_ERROR] = self._last_error(node, visit.error, results)
        match steering:
            case Steering.ON_ERROR if isinstance(node, ActionNode | ForeachNode):
                visit.next_node = node.on_error
            case Steering.CONTINUE | Steering.SKIP if not isinstance(node, ReturnNode):
                if steering is Steering.CONTINUE:
                    self._put_up_with(node, visit.error, results)
                visit.result = visit.result if results else dict(failure)
                self._choose_behind_failure(node, visit)
            case Steering.ABORT:
                visit.outcome = self._failure(node, visit.error, "aborted")
            case _:
                visit.outcome = self._failure(node, visit.error, "node_error")

    def _failure(self, node: Node, error: str, code: str) -> Outcome:
        return self._walk.outcome("error", error=error, node=node.name, code=code)

    def _choose_behind_failure(
        self, node: ActionNode | GateNode | ForeachNode, visit: Visit
    ) -> None:
        try:
            self._choose(node.next, visit)
        except ExpressionError as error:  # nothing is left that could be tried
            visit.error = str(error)
            visit.outcome = self._failure(node, visit.error, "node_error")

    def _last_error(
        self, node: Node, error: str, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        last: dict[str, Any] = {"node": node.name, "error": error}
        failures = [i for i, result in enumerate(results) if result.get("status") == "error"]
        return last | ({"index": failures[0], "failed": len(failures)} if failures else {})

    def _put_up_with(self, node: Node, error: str, results: Sequence[Mapping[str, Any]]) -> None:
        entry: dict[str, Any] = {"step": self._walk.step, "node": node.name}
        if not results:
            self._walk.errors.append({**entry, "error": error})
        for index, result in enumerate(results):
            if result.get("status") == "error":
                self._walk.errors.append(
                    {**entry, "index": index, "error": str(result.get("error"))}
                )
