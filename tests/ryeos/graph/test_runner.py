"""The runner: commands carried out by a double of the caller of tools."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Barrier, Event, Lock
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.graph.commands import Act, Enter, NodeDone, WalkOutcome
from ryeos.graph.model import Graph
from ryeos.graph.runner import GraphRunner, RunEnd, StepEvent, side_by_side
from ryeos.graph.walk import Walk
from tests.support.graph_walks import bad, calling, gate, nodes, ok, over, settings, start_of

PATIENCE_S = 30.0
DONE = {"type": "return"}


class Double:
    """Answers calls by a function, and counts how many are made at once."""

    def __init__(self, answer: Callable[[Act, Cancellation], object]) -> None:
        self._answer, self._lock = answer, Lock()
        self.now = self.most = 0
        self.made: list[Act] = []

    def make(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        with self._lock:
            self.made.append(act)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return {"status": "success", "data": self._answer(act, cancellation)}
        finally:
            with self._lock:
                self.now -= 1

    def integrity(self, act: Act) -> str | None:
        return None if act.item_id == "demo/graph" else "digest"


class Written:
    """The steps that a run records."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def node_entered(self, step: Enter) -> None:
        self.lines.append(f"entered {step.node}")

    def node_done(self, step: NodeDone, elapsed_s: float) -> None:
        assert elapsed_s >= 0
        self.lines.append(f"left {step.node}")


class Kept:
    """Results that are used again, by item and params."""

    def __init__(self) -> None:
        self.results: dict[str, Mapping[str, Any]] = {}

    def find(self, act: Act, integrity: str) -> Mapping[str, Any] | None:
        assert integrity == "digest"
        return self.results.get(str(act.described()))

    def keep(self, act: Act, integrity: str, result: Mapping[str, Any]) -> None:
        assert integrity == "digest"
        self.results[str(act.described())] = result


def ran(
    graph: Graph,
    double: Double,
    *,
    end: RunEnd | None = None,
    kept: Kept | None = None,
    events: list[StepEvent] | None = None,
    records: Written | None = None,
    most: int = 4,
) -> WalkOutcome:
    walk = Walk(graph, start_of(graph), settings(max_concurrency=most))
    heard = [] if events is None else events
    with end or RunEnd(None, None) as watched:
        runner = GraphRunner(
            double, records or Written(), watched, keeping=kept, on_step=heard.append
        )
        return runner.run(walk)


def answering(data: object) -> Double:
    return Double(lambda _act, _cancellation: data)


def test_steps_are_recorded_in_order() -> None:
    records = Written()

    outcome = ran(nodes(a=gate("done"), done=DONE), answering(ok()), records=records)

    assert outcome.status == "completed"
    assert records.lines == ["entered a", "left a", "entered done", "left done"]


def test_each_step_is_reported() -> None:
    events: list[StepEvent] = []

    ran(nodes(a=calling(next="done"), done=DONE), answering(bad("no luck")), events=events)

    assert [(e.what, e.step, e.node, e.type, e.error, e.next_node) for e in events] == [
        ("started", 1, "a", "action", None, None),
        ("finished", 1, "a", "action", "no luck", "a"),
    ]


@pytest.mark.parametrize("parallel", [True, False])
def test_the_progress_of_a_foreach_is_reported(parallel: bool) -> None:  # noqa: FBT001
    events: list[StepEvent] = []

    ran(nodes(a=over([1, 2, 3], parallel=parallel)), answering(ok()), events=events)

    progress = [(e.done, e.total) for e in events if e.what == "progress"]
    assert progress == [(n, 3 if parallel else 0) for n in (1, 2, 3)]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_as_many_calls_are_made_at_once_as_may_be_and_no_more(most: int) -> None:
    together = Barrier(most)

    def answer(act: Act, _: Cancellation) -> object:
        together.wait(PATIENCE_S)  # only as many as may be, all at the same time, get past here
        return ok(n=act.params["n"])

    double = Double(answer)

    outcome = ran(nodes(a=over(list(range(10)), parallel=True, collect="got")), double, most=most)

    assert double.most == most
    assert [result["n"] for result in outcome.state["got"]] == list(range(10))


def test_results_are_in_the_order_of_the_elements_whichever_comes_first() -> None:
    second_is_done = Event()

    def answer(act: Act, _: Cancellation) -> object:
        if act.params["n"] == 1:
            second_is_done.wait(PATIENCE_S)
        else:
            second_is_done.set()
        return ok(n=act.params["n"])

    outcome = ran(nodes(a=over([1, 2], parallel=True, collect="got")), Double(answer))

    assert [result["n"] for result in outcome.state["got"]] == [1, 2]


def test_the_first_failure_of_a_fan_that_fails_fast_ends_the_others() -> None:
    runs = Event()

    def answer(act: Act, cancellation: Cancellation) -> object:
        if act.params["n"] == "fails":
            runs.wait(PATIENCE_S)
            return bad("no luck")
        ended = Event()
        with cancellation.waking(ended.set):
            runs.set()
            assert cancellation.is_set or ended.wait(PATIENCE_S)
        return bad("ended")

    graph = nodes(a=over(["waits", "fails", "never"], parallel=True, fail_fast=True, collect="got"))
    double = Double(answer)

    outcome = ran(graph, double, most=2)

    assert (outcome.status, outcome.node) == ("error", "a")
    assert len(double.made) == 2
    assert [result["error"] for result in outcome.state["got"]] == [
        "not made: an earlier call failed",
        "no luck",
        "not made: an earlier call failed",
    ]


@pytest.mark.parametrize("parallel", [True, False])
def test_a_run_that_is_ended_in_a_foreach_is_cancelled(parallel: bool) -> None:  # noqa: FBT001
    caller = Cancellation()

    def answer(_act: Act, cancellation: Cancellation) -> object:
        caller.cancel()
        assert cancellation.is_set
        return bad("ended")

    double = Double(answer)
    end = RunEnd(caller, None)

    outcome = ran(nodes(a=over([1, 2, 3], parallel=parallel)), double, end=end, most=1)

    assert (outcome.status, outcome.steps, len(double.made)) == ("cancelled", 0, 1)


def test_a_call_that_succeeds_although_the_run_is_ended_counts() -> None:
    caller = Cancellation()

    def answer(_act: Act, _cancellation: Cancellation) -> object:
        caller.cancel()
        return ok(n=1)

    graph = nodes(a=calling(assign={"n": "${result.n}"}, next="done"), done=DONE)

    outcome = ran(graph, Double(answer), end=RunEnd(caller, None))

    assert (outcome.status, outcome.steps, outcome.next_node) == ("cancelled", 1, "done")
    assert outcome.state["n"] == 1


def test_a_pause_ends_with_the_run() -> None:
    caller = Cancellation()

    def answer(_act: Act, _cancellation: Cancellation) -> object:
        Timer(caller).start()
        return bad()

    graph = nodes(a=calling(retry={"max": 1, "delay": 3600}))

    outcome = ran(graph, Double(answer), end=RunEnd(caller, None))

    assert outcome.status == "cancelled"


class Timer:
    """Cancels from another thread."""

    def __init__(self, cancellation: Cancellation) -> None:
        self._cancellation = cancellation

    def start(self) -> None:
        from threading import Thread

        Thread(target=self._cancellation.cancel).start()


def test_a_result_that_json_cannot_hold_is_a_failure() -> None:
    outcome = ran(nodes(a=calling()), answering(ok(n=float("nan"))))

    assert outcome.error == "the result cannot be kept: expected a finite number, found NaN"


def test_kept_results_are_used_and_made_once() -> None:
    kept, double = Kept(), answering(ok(n=1))
    graph = nodes(
        a=calling(cache=True, next="b"),
        b=calling(cache=True, next="c"),
        c=calling(next="d"),
        d=calling("graph", cache=True),
    )
    events: list[StepEvent] = []

    ran(graph, double, kept=kept, events=events)

    assert [act.node for act in double.made] == ["a", "c", "d"]
    assert [e.cache_hit for e in events if e.what == "finished"] == [False, True, False, False]


def test_failures_are_not_kept() -> None:
    kept = Kept()

    ran(nodes(a=calling(cache=True)), answering(bad()), kept=kept)

    assert kept.results == {}


def test_an_exception_of_a_test_double_is_not_hidden() -> None:
    def answer(_act: Act, _cancellation: Cancellation) -> object:
        raise ZeroDivisionError

    for parallel in (True, False):
        with pytest.raises(ZeroDivisionError):
            ran(nodes(a=over([1, 2], parallel=parallel)), Double(answer))


# ---------------------------------------------------------------------------- side by side


@pytest.mark.parametrize("most", [1, 2, 100])
def test_work_is_done_for_each_item(most: int) -> None:
    heard: list[int] = []

    results = side_by_side(lambda n: n * n, range(50), most, heard.append)

    assert results == [n * n for n in range(50)]
    assert sorted(heard) == results


def test_no_items_give_no_results() -> None:
    assert side_by_side(lambda n: n, [], 3, lambda _: None) == []


# ---------------------------------------------------------------- runs that are ended from outside


@contextmanager
def watching(end: RunEnd) -> Iterator[Event]:
    """An event that is set when the run is to end."""
    ended = Event()
    with end.cancellation.waking(ended.set), end:
        yield ended


def test_a_run_ends_when_its_time_is_over() -> None:
    end = RunEnd(None, 0.01)

    with watching(end) as ended:
        assert ended.wait(PATIENCE_S)

    assert end.has_timed_out
    assert not end.goes_on


def test_a_run_ends_when_a_user_cancels_it() -> None:
    cancelled = Event()
    end = RunEnd(None, None, cancelled.is_set)

    with watching(end) as ended:
        cancelled.set()
        assert ended.wait(PATIENCE_S)

    assert not end.has_timed_out


def test_a_run_whose_caller_has_gone_does_not_begin() -> None:
    caller = Cancellation()
    caller.cancel()

    with RunEnd(caller, None) as end:
        assert not end.goes_on
        assert not end.pause(3600)


def test_a_pause_of_zero_seconds_returns() -> None:
    with RunEnd(None, None) as end:
        assert end.pause(0)
