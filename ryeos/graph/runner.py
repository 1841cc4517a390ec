"""Carrying out a walk: calls are made, kept results used, and every step written down.

(1) a command of the walk   (2) carried out   (3) its reply   ... until the walk has an outcome
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal, Protocol

from lillux.process.cancellation import Cancellation
from lillux.values import dataclass
from ryeos.graph.commands import Act, Acted, Enter, Fan, Left, Outcome, Pause
from ryeos.graph.deadline import RunEnd
from ryeos.graph.fan import side_by_side
from ryeos.graph.node_calls import NOT_MADE
from ryeos.graph.results import failed, unwrapped
from ryeos.graph.storable import storage_problem
from ryeos.graph.walker import Walk


class Calls(Protocol):
    """Makes calls. Both methods may be called from several threads at once."""

    def make(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        """The envelope of the answer, also of a failure."""

    def integrity(self, act: Act) -> str | None:
        """A digest of everything that the call would run; None where nothing can be kept."""


class Keeping(Protocol):
    """Results that are used again. See `ryeos.graph.kept_results`."""

    def find(self, act: Act, integrity: str) -> Mapping[str, Any] | None:
        """The kept result of the same call, None without one."""

    def keep(self, act: Act, integrity: str, result: Mapping[str, Any]) -> None:
        """Keep a result that is no error."""


class Records(Protocol):
    """Where a run is written down. See `ryeos.graph.recording`."""

    def entered(self, step: Enter) -> None:
        """A node is being worked on."""

    def left(self, step: Left, elapsed_s: float) -> None:
        """A node is done with: from here on it is not worked on again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent:
    """What a person is told of a run while it goes on.

    what   ``started``, ``progress`` (of a foreach: ``done`` of ``total`` calls, 0 where nobody has
           counted them) or ``finished``
    """

    what: Literal["started", "progress", "finished"]
    step: int
    node: str
    type: str
    elapsed_s: float = 0.0
    error: str | None = None
    next_node: str | None = None
    cache_hit: bool = False
    done: int = 0
    total: int = 0


OnStep = Callable[[StepEvent], None]


class Runner:
    """Carries out one walk."""

    def __init__(
        self,
        calls: Calls,
        records: Records,
        end: RunEnd,
        *,
        keeping: Keeping | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self._calls, self._records, self._end, self._keeping = calls, records, end, keeping
        self._on_step = on_step or _nobody_listens
        self._entered: Enter | None = None
        self._entered_at = 0.0

    def run(self, walk: Walk, *, is_resumed: bool = False) -> Outcome:
        """Walk to the end. Raises what writing it down raises."""
        walking = walk.run(is_resumed=is_resumed)
        reply: Any = None
        while True:
            try:
                command = walking.send(reply)  # (1)
            except StopIteration as stop:
                outcome: Outcome = stop.value
                return outcome
            match command:  # (2)
                case Act():
                    reply = self._make(command, self._end.cancellation)
                    if command.index is not None and self._entered:
                        self._tell_of_calls(self._entered, command.index + 1, 0)
                case Fan():
                    reply = self._fan_out(command)
                case Pause(seconds):
                    reply = self._end.pause(seconds)
                case Enter():
                    reply = self._enter(command)
                case Left():
                    self._leave(command)
                    reply = None

    # ------------------------------------------------------------------ steps

    def _enter(self, step: Enter) -> bool:
        if not self._end.goes_on:
            return False
        self._entered, self._entered_at = step, perf_counter()
        self._records.entered(step)
        self._on_step(StepEvent(what="started", step=step.step, node=step.node, type=step.type))
        return True

    def _leave(self, step: Left) -> None:
        elapsed_s = perf_counter() - self._entered_at
        self._records.left(step, elapsed_s)
        event = StepEvent(
            what="finished",
            step=step.step,
            node=step.node,
            type=step.type,
            elapsed_s=elapsed_s,
            error=step.error,
            next_node=step.next_node,
            cache_hit=bool(step.calls) and all(acted.cache_hit for _, acted in step.calls),
        )
        self._on_step(event)

    # ------------------------------------------------------------------ calls

    def _make(self, act: Act, cancellation: Cancellation) -> Acted:
        if cancellation.is_set:
            return Acted(result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True)
        started = perf_counter()
        integrity = self._calls.integrity(act) if act.caches and self._keeping else None
        if integrity is not None and self._keeping:
            kept = self._keeping.find(act, integrity)
            if kept is not None:
                return Acted(result=kept, elapsed_s=perf_counter() - started, cache_hit=True)
        result = _storable(unwrapped(self._calls.make(act, cancellation)))
        is_error = result.get("status") == "error"
        if integrity is not None and self._keeping and not is_error:
            self._keeping.keep(act, integrity, result)
        return Acted(
            result=result,
            elapsed_s=perf_counter() - started,
            is_cancelled=is_error and cancellation.is_set,
        )

    def _fan_out(self, fan: Fan) -> Sequence[Acted]:
        """All calls of a fan. One that fails fast ends those that run, and the rest is not made."""
        group = Cancellation()
        made: list[Acted] = []
        entered = self._entered

        def make(act: Act) -> Acted:
            if group.is_set and self._end.goes_on:
                return NOT_MADE
            acted = self._make(act, group)
            if acted.is_cancelled and self._end.goes_on:  # by another of the group
                return Acted(result=NOT_MADE.result, elapsed_s=acted.elapsed_s)
            if fan.fail_fast and acted.has_failed:
                group.cancel()
            return acted

        def done(acted: Acted) -> None:
            made.append(acted)
            if entered:
                self._tell_of_calls(entered, len(made), len(fan.acts))

        with self._end.cancellation.waking(group.cancel):
            if not self._end.goes_on:
                group.cancel()
            return side_by_side(make, fan.acts, fan.max_concurrency, done)

    def _tell_of_calls(self, entered: Enter, done: int, total: int) -> None:
        event = StepEvent(
            what="progress",
            step=entered.step,
            node=entered.node,
            type=entered.type,
            done=done,
            total=total,
        )
        self._on_step(event)


def _storable(result: dict[str, Any]) -> dict[str, Any]:
    problem = storage_problem(result)
    return failed(f"the result cannot be kept: {problem}", "INVALID_RESULT") if problem else result


def _nobody_listens(_: StepEvent) -> None:
    """Nobody wants to hear of steps."""
