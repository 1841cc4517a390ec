"""Walking a graph, as a state machine without I/O. The rules are in ``docs/graphs.md``.

`Walk.run` is a generator: it gives commands (`ryeos.graph.commands`) and gets their replies, until
it returns the `Outcome`. For each node:

(1) may another step be taken?   (2) `Enter`   (3) the node's own work, calls included
(4) where to: ``next``, ``on_error``, or nowhere   (5) `Left`   (6) ``after_step`` hooks
"""

from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from ryeos.graph.commands import Command, Enter, Left, Outcome
from ryeos.graph.hooks import HookRun
from ryeos.graph.model import Graph, Hook, Node
from ryeos.graph.node_calls import Reply
from ryeos.graph.progress import Position, Progress, Settings
from ryeos.graph.visits import Visit, Visits

Walking: TypeAlias = Generator[Command, Reply, Outcome]


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
        chosen = graph.hooks if hooks is None else hooks
        self._walk = Progress(graph, position, settings, now)
        self._hooks = HookRun(chosen, settings.rules, self._walk.warn)
        self._visits = Visits(self._walk, self._hooks)

    def run(self, *, is_resumed: bool = False) -> Walking:
        """Walk to the end; see the module."""
        if not is_resumed and not self._walk.settings.single:
            context = {"graph_id": self._walk.graph.graph_id, "state": self._walk.state}
            yield from self._hooks.fire("graph_started", context, self._walk.document())
        while True:
            outcome = yield from self._step()
            if outcome:
                return outcome

    def _step(self) -> Generator[Command, Reply, Outcome | None]:
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
        yield self._left(node, visit)  # (5)
        stopped = None if has_failed else (yield from self._after_step(node, visit))  # (6)
        return (yield from self._end_behind(node, visit, stopped or visit.outcome))

    def _end_behind(
        self, node: Node, visit: Visit, outcome: Outcome | None
    ) -> Generator[Command, Reply, Outcome | None]:
        """The end of the walk, if it is one."""
        if outcome:
            return (yield from self._ended(outcome))
        if self._walk.settings.single:
            return self._walk.outcome("stepped", node=node.name, next_node=self._walk.node)
        if self._walk.node is None:
            end = self._walk.completed(output={}, terminated=visit.terminated or "dead_end")
            return (yield from self._ended(end))
        return None

    def _after_step(self, node: Node, visit: Visit) -> Generator[Command, Reply, Outcome | None]:
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

    def _over_limit(self) -> Walking:
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
        return (yield from self._ended(outcome))

    def _ended(self, outcome: Outcome) -> Walking:
        """Tell the hooks, and end. A single step is no end of the graph."""
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

    def _left(self, node: Node, visit: Visit) -> Left:
        return Left(
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
