"""How far a walk has come, and what it knows on its way: state, errors, warnings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from lillux.values import dataclass
from ryeos.graph.calls import CallRules
from ryeos.graph.commands import Outcome
from ryeos.graph.expression_errors import ExpressionError
from ryeos.graph.expressions import fill
from ryeos.graph.model import Graph
from ryeos.graph.storable import storage_problem

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


def retries_of(state: Mapping[str, Any]) -> dict[str, int]:
    """How often hooks have had each node tried again; what a caller has injected may be odd."""
    known = state.get(RETRIES)
    if not isinstance(known, Mapping):
        return {}
    return {name: n for name, n in known.items() if isinstance(n, int)}


class Progress:
    """One walk's state. ``node`` is the one that is worked on, or comes next; None at an end."""

    def __init__(
        self,
        graph: Graph,
        position: Position,
        settings: Settings,
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
        """Note what is odd and no error, once."""
        self._warnings[text] = None

    def assign(self, assign: Mapping[str, Any], result: Any) -> None:  # noqa: ANN401 - JSON
        """Assign in order; each template sees what was assigned before. Raises ExpressionError."""
        for key, template in assign.items():
            value = fill(template, {**self.document(), "result": result}, self.warn)
            problem = storage_problem(value)
            if problem:
                raise ExpressionError(str(template), f"{key}: {problem}")
            if value is None:
                self.warn(f"{self.node}: {key} is assigned nothing: {template!r:.100} has none")
            self.state[key] = value

    def outcome(self, status: str, **fields: Any) -> Outcome:  # noqa: ANN401 - those of Outcome
        """The end of the walk, as it is now."""
        fields.setdefault("next_node", self.node if status in {"error", "cancelled"} else None)
        return Outcome(
            status=status,
            state=self.state,
            steps=self.step,
            errors=tuple(self.errors),
            warnings=tuple(self._warnings),
            **fields,
        )

    def completed(self, **fields: Any) -> Outcome:  # noqa: ANN401 - those of Outcome
        """The end that is no failure."""
        return self.outcome("completed_with_errors" if self.errors else "completed", **fields)

    def cancelled(self) -> Outcome:
        """The end that somebody from outside wants."""
        return self.outcome(
            "cancelled", error="the run was cancelled", node=self.node, code="cancelled"
        )
