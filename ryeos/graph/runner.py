"""Carries out a walk: makes calls in parallel, uses cached results, records each step.

(1) a command of the walk   (2) carried out   (3) its reply   ... until the walk has an outcome
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from threading import Event, Lock, Thread
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

from lillux.cancellation import Cancellation
from lillux.values import dataclass
from ryeos.graph.call_results import failed, unwrapped
from ryeos.graph.commands import Act, CallResult, Enter, Fan, NodeDone, Pause, WalkOutcome
from ryeos.graph.node_calls import NOT_MADE
from ryeos.graph.storable_values import storage_problem
from ryeos.graph.walk import Walk

# Several calls in parallel: each thread takes the next free call.

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], items: Sequence[T], most: int, on_done: Callable[[R], None]
) -> list[R]:
    """The results of ``work`` for each item, in their order, at most ``most`` at once.

    ``on_done`` hears of each result as it comes, from one thread at a time. Raises the first
    exception that one of them raised, once all have ended.
    """
    results: dict[int, R] = {}
    problems: list[BaseException] = []
    places, lock = count(), Lock()

    def serve() -> None:
        while not problems:
            with lock:
                place = next(places)
            if place >= len(items):
                return
            try:
                result = work(items[place])
                with lock:
                    results[place] = result
                    on_done(result)
            except BaseException as problem:  # noqa: BLE001 - raised again where it is heard
                problems.append(problem)

    threads = [
        Thread(target=serve, name="rye-graph", daemon=True)
        for _ in range(min(most, len(items)) - 1)
    ]
    for thread in threads:
        thread.start()
    serve()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return [results[place] for place in range(len(items))]


# What ends a run from outside: its caller, its time, and a file that a user puts there.

LOOK_S = 0.5


class RunEnd:
    """The end of a run. As a context it watches; ``cancellation`` ends whatever the run does.

    caller            ends the run when it is set
    timeout_s         how long the run may take; None for no limit
    is_end_requested  whether a user wants it ended; called every half second
    """

    def __init__(
        self,
        caller: Cancellation | None,
        timeout_s: float | None,
        is_end_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cancellation = Cancellation()
        self.has_timed_out = False
        self._caller, self._timeout_s, self._is_end_requested = caller, timeout_s, is_end_requested
        self._over = Event()
        self._stack = ExitStack()

    @property
    def goes_on(self) -> bool:
        """True if another step may be taken."""
        return not self.cancellation.is_set

    def pause(self, seconds: float) -> bool:
        """Wait, unless the run is ended meanwhile; whether it continues."""
        woken = Event()
        with self.cancellation.waking(woken.set):
            if self.goes_on and seconds > 0:
                woken.wait(seconds)
        return self.goes_on

    def __enter__(self) -> Self:
        if self._caller:
            self._stack.enter_context(self._caller.waking(self.cancellation.cancel))
            if self._caller.is_set:
                self.cancellation.cancel()
        Thread(target=self._watch, name="rye-graph-end", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._stack.close()

    def _watch(self) -> None:
        ends_at = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not self._over.wait(self._next_look(ends_at)):
            if ends_at is not None and time.monotonic() >= ends_at:
                self.has_timed_out = True
            elif not self._is_end_requested():
                continue
            self.cancellation.cancel()
            return

    def _next_look(self, ends_at: float | None) -> float:
        if ends_at is None:
            return LOOK_S
        return max(0.0, min(LOOK_S, ends_at - time.monotonic()))


class Calls(Protocol):
    """Makes calls. Both methods may be called from several threads at once."""

    def make(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        """The envelope of the answer, also of a failure."""

    def integrity(self, act: Act) -> str | None:
        """A digest of everything that the call would run; None where nothing can be kept."""


class ResultCache(Protocol):
    """Results that are used again."""

    def find(self, act: Act, integrity: str) -> Mapping[str, Any] | None:
        """The kept result of the same call, None without one."""

    def keep(self, act: Act, integrity: str, result: Mapping[str, Any]) -> None:
        """Keep a result that is no error."""


class Records(Protocol):
    """The record of a run. See `ryeos.graph.recording`."""

    def node_entered(self, step: Enter) -> None:
        """A node is being worked on."""

    def node_done(self, step: NodeDone, elapsed_s: float) -> None:
        """A node is done with: from here on it is not worked on again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent:
    """A run as a person sees it while it runs.

    what   ``started``, ``progress`` (of a foreach: ``done`` of ``total`` calls, 0 where they are
           not counted) or ``finished``
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


class GraphRunner:
    """Carries out one walk."""

    def __init__(
        self,
        calls: Calls,
        records: Records,
        end: RunEnd,
        *,
        keeping: ResultCache | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self._calls, self._records, self._end, self._keeping = calls, records, end, keeping
        self._on_step = on_step or _ignore_step
        self._entered: Enter | None = None
        self._entered_at = 0.0

    def run(self, walk: Walk, *, is_resumed: bool = False) -> WalkOutcome:
        """Walk to the end. Raises what recording it raises."""
        walking = walk.run(is_resumed=is_resumed)
        reply: Any = None
        while True:
            try:
                command = walking.send(reply)  # (1)
            except StopIteration as stop:
                outcome: WalkOutcome = stop.value
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
                case NodeDone():
                    self._leave(command)
                    reply = None

    def _enter(self, step: Enter) -> bool:
        if not self._end.goes_on:
            return False
        self._entered, self._entered_at = step, perf_counter()
        self._records.node_entered(step)
        self._on_step(StepEvent(what="started", step=step.step, node=step.node, type=step.type))
        return True

    def _leave(self, step: NodeDone) -> None:
        elapsed_s = perf_counter() - self._entered_at
        self._records.node_done(step, elapsed_s)
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

    def _make(self, act: Act, cancellation: Cancellation) -> CallResult:
        if cancellation.is_set:
            return CallResult(
                result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True
            )
        started = perf_counter()
        integrity = self._calls.integrity(act) if act.caches and self._keeping else None
        if integrity is not None and self._keeping:
            kept = self._keeping.find(act, integrity)
            if kept is not None:
                return CallResult(result=kept, elapsed_s=perf_counter() - started, cache_hit=True)
        envelope = self._calls.make(act, cancellation)
        result = _storable(unwrapped(envelope))
        is_error = result.get("status") == "error"
        if integrity is not None and self._keeping and not is_error:
            self._keeping.keep(act, integrity, result)
        return CallResult(
            result=result,
            elapsed_s=perf_counter() - started,
            is_cancelled=is_error and cancellation.is_set,
            log=_printed(envelope),
        )

    def _fan_out(self, fan: Fan) -> Sequence[CallResult]:
        """All calls of a fan. One that fails fast ends those that run, and the rest is not made."""
        group = Cancellation()
        made: list[CallResult] = []
        entered = self._entered

        def make(act: Act) -> CallResult:
            if group.is_set and self._end.goes_on:
                return NOT_MADE
            acted = self._make(act, group)
            if acted.is_cancelled and self._end.goes_on:  # by another of the group
                return CallResult(result=NOT_MADE.result, elapsed_s=acted.elapsed_s)
            if fan.fail_fast and acted.has_failed:
                group.cancel()
            return acted

        def done(acted: CallResult) -> None:
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


def _printed(envelope: Mapping[str, Any]) -> str:
    """The output of a tool beside its result, as far as its answer tells."""
    metadata = envelope.get("metadata")
    text = metadata.get("stderr") if isinstance(metadata, Mapping) else None
    return text if isinstance(text, str) else ""


def _ignore_step(_: StepEvent) -> None:
    """Ignore the steps."""
