"""The progress of a walk: its state, errors and warnings, and its settings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from lillux.values import dataclass
from ryeos.graph.calls import CallRules
from ryeos.graph.commands import WalkOutcome
from ryeos.graph.expressions import ExpressionError, fill
from ryeos.graph.model import Graph
from ryeos.graph.storable_values import storage_problem

LAST_ERROR, RETRIES, INPUTS = "_last_error", "_retries", "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position where a walk begins: at the start, or where an earlier one ended.

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
    """The settings of a walk besides its graph.

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
    """The retries of each node that hooks asked for; what a caller has injected may be odd."""
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
        """The number of steps of this walk, apart from those of the run before."""
        return self.step - self._first_step

    @property
    def is_over_limit(self) -> bool:
        """True if no further step may be taken."""
        return self.steps_taken >= self.settings.max_steps

    def document(self) -> dict[str, Any]:
        """The document that expressions see."""
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
