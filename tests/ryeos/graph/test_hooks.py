"""Hooks: when they run, their data, and which of them steers."""

from typing import Any

import pytest

from ryeos.graph.call_results import failed
from ryeos.graph.commands import CallResult
from ryeos.graph.hooks import watching_hooks
from ryeos.graph.model import Graph
from ryeos.graph.progress import Position
from tests.support.graph_walks import (
    Answering,
    Walked,
    always,
    bad,
    by_item,
    calling,
    gate,
    in_turn,
    nodes,
    ok,
    over,
    walked,
)

DONE = {"type": "return"}


def hook(event: str, item: str = "", **keys: Any) -> dict[str, Any]:  # noqa: ANN401 - of a file
    params = keys.pop("params", {})
    action = keys.pop("action", {"item_id": f"tool:demo/{item}", "params": params})
    return {"event": event, "action": action, **keys}


def failing(*hooks: dict[str, Any], **keys: Any) -> Graph:  # noqa: ANN401 - of a file
    return nodes(a=calling(next="done"), done=DONE, hooks=list(hooks), **keys)


def steered(said: object, graph: Graph | None = None) -> Walked:
    """A walk whose only node fails, and whose hook's call gives this answer."""
    graph = graph or failing(hook("error", "judge"))
    return walked(graph, by_item(one=bad("no luck"), judge=said))


def test_the_events_of_a_whole_run_are_reported_in_order() -> None:
    events = ("graph_started", "after_step", "graph_completed")
    hooks = [hook(event, event, params={"seen": "${state.n}"}) for event in events]
    graph = nodes(a=gate("done", assign={"n": 1}), done=DONE, hooks=hooks)

    done = walked(graph)

    assert [(act.item_id, act.node, dict(act.params)) for act in done.acts] == [
        ("demo/graph_started", "hook:graph_started", {}),
        ("demo/after_step", "hook:after_step", {"seen": 1}),
        ("demo/after_step", "hook:after_step", {"seen": 1}),
        ("demo/graph_completed", "hook:graph_completed", {"seen": 1}),
    ]


def test_the_start_is_reported_once() -> None:
    position = Position(node="done", state={"inputs": {}})
    graph = nodes("done", done=DONE, hooks=[hook("graph_started", "x")])

    assert walked(graph, position=position, is_resumed=True).acts == []


@pytest.mark.parametrize(
    ("event", "params", "seen"),
    [
        ("graph_started", {"i": "${graph_id}", "s": "${state.inputs.x}"}, {"i": "demo/x", "s": 7}),
        (
            "after_step",
            {"n": "${node}", "t": "${next_node}", "c": "${step_count}", "r": "${result.n}"},
            {"n": "a", "t": "done", "c": 1, "r": 1},
        ),
        ("graph_completed", {"n": "${steps}", "s": "${status}"}, {"n": 2, "s": "completed"}),
    ],
)
def test_a_hook_sees_the_data_of_its_event(
    event: str, params: dict[str, str], seen: dict[str, object]
) -> None:
    graph = nodes(a=calling(next="done"), done=DONE, hooks=[hook(event, "hook", params=params)])

    done = walked(graph, by_item(one=ok(n=1), hook=ok()), inputs={"x": 7})

    assert next(act for act in done.acts if act.item_id == "demo/hook").params == seen


def test_a_hook_of_an_error_sees_its_kind() -> None:
    params = {
        "e": "${error.error}",
        "c": "${classification.category}",
        "n": "${node}",
        "s": "${step_count}",
        "again": "${classification.retryable}",
    }
    graph = failing(hook("error", "judge", params=params))

    done = walked(graph, by_item(one=bad("connection refused"), judge=ok()))

    assert done.acts[1].params == {
        "e": "connection refused",
        "c": "connection",
        "n": "a",
        "s": 1,
        "again": True,
    }


def test_the_end_of_a_failed_run_is_reported_with_its_error() -> None:
    graph = failing(hook("graph_completed", "end", params={"e": "${error}", "s": "${status}"}))

    done = walked(graph, by_item(one=bad("no luck"), end=ok()))

    assert done.acts[-1].params == {"e": "no luck", "s": "error"}


def test_the_limit_is_reported_before_the_end() -> None:
    params = {"code": "${limit_code}", "value": "${current_value}", "max": "${current_max}"}
    hooks = [hook("limit", "limit", params=params), hook("graph_completed", "end")]

    done = walked(nodes(a=gate("a"), hooks=hooks), max_steps=2)

    assert [act.item_id for act in done.acts] == ["demo/limit", "demo/end"]
    assert done.acts[0].params == {"code": "max_steps_exceeded", "value": 2, "max": 2}


@pytest.mark.parametrize(("wanted", "calls"), [("no luck", 1), ("other", 0)])
def test_a_hook_runs_when_its_condition_holds(wanted: str, calls: int) -> None:
    condition = {"path": "error.error", "op": "contains", "value": wanted}

    done = steered(ok(), failing(hook("error", "judge", condition=condition)))

    assert len(done.acts) == 1 + calls


def test_a_hook_whose_condition_cannot_be_judged_does_not_run_and_is_reported() -> None:
    condition = {"path": "node", "op": "eq", "value": "${error.error | from_json}"}

    done = steered(ok(), failing(hook("error", "judge", condition=condition)))

    assert len(done.acts) == 1
    assert done.outcome.error == "no luck"
    assert done.outcome.warnings[0].startswith("hook of error: ")


@pytest.mark.parametrize(
    "action",
    ["retry", {"retry": True}, {"action": "retry"}, {"action": "retry", "max_retries": 3}],
)
def test_the_word_retry_has_the_node_tried_again_three_times(action: object) -> None:
    done = walked(failing(hook("error", action=action)), always(bad()))

    assert (len(done.acts), done.outcome.steps, done.state["_retries"]) == (4, 1, {"a": 3})
    assert [left.step for left in done.lefts] == [1]


def test_a_retry_that_helps_leaves_no_error() -> None:
    done = walked(failing(hook("error", action="retry")), in_turn(bad(), ok()))

    assert (done.outcome.status, done.outcome.steps) == ("completed", 2)
    assert done.state == {"_retries": {"a": 1}}


def test_retries_of_a_loop_are_counted_over_the_whole_run() -> None:
    graph = nodes(a=calling(next="a"), hooks=[hook("error", action="retry")])

    done = walked(graph, in_turn(bad(), ok(), bad(), ok(), bad(), ok(), bad()), max_steps=9)

    assert (done.outcome.status, len(done.acts)) == ("error", 7)


def test_a_foreach_is_tried_again_as_a_whole() -> None:
    graph = nodes(
        a=over([1, 2], parallel=True, collect="got"), hooks=[hook("error", action="retry")]
    )

    done = walked(graph, in_turn(ok(), bad(), ok(n=1), ok(n=2)))

    assert [result["n"] for result in done.state["got"]] == [1, 2]
    assert done.outcome.status == "completed"


@pytest.mark.parametrize(
    ("said", "attempts"),
    [
        (ok(action="retry", max_retries=1), 2),
        (ok(action="retry"), 4),
        (ok(action="retry", max_retries=True), 4),
        (ok(action="retry", max_retries="9"), 4),
        (ok(action="retry", max_retries=-1), 1),
        (ok(action="retry", max_retries=10**9), 101),
    ],
)
def test_a_call_of_a_hook_may_say_how_often(said: object, attempts: int) -> None:
    done = steered(said)

    assert [act.item_id for act in done.acts].count("demo/one") == attempts
    assert (done.outcome.status, done.outcome.error) == ("error", "no luck")


@pytest.mark.parametrize("node", [calling(next="done", on_error="done"), calling(next="done")])
@pytest.mark.parametrize(("word", "code"), [("fail", "node_error"), ("abort", "aborted")])
def test_a_hook_may_end_the_run(word: str, code: str, node: dict[str, Any]) -> None:
    graph = nodes(a=node, done=DONE, hooks=[hook("error", action=word)], on_error="continue")

    end = walked(graph, always(bad("no luck"))).outcome

    assert (end.status, end.code, end.error, end.next_node) == ("error", code, "no luck", "a")


@pytest.mark.parametrize(("word", "errors"), [("continue", 1), ("skip", 0)])
def test_a_hook_may_have_the_run_go_on(word: str, errors: int) -> None:
    done = walked(failing(hook("error", action=word)), always(bad()))

    assert (done.path, len(done.outcome.errors)) == (["a", "done"], errors)
    assert done.outcome.status == ("completed_with_errors" if errors else "completed")


@pytest.mark.parametrize(
    "said", [ok(), {}, bad("the hook broke"), ok(action="dance"), ok(text="hm")]
)
def test_a_hook_without_a_control_changes_nothing(said: object) -> None:
    assert steered(said).outcome.error == "no luck"


def test_a_hook_that_fails_is_reported() -> None:
    assert steered(bad("the hook broke")).outcome.warnings == ("hook of error: the hook broke",)


def test_a_hook_that_may_not_be_called_is_reported() -> None:
    graph = failing(hook("error", "judge"))

    done = walked(graph, always(bad()), grants=[["rye.execute.tool.demo.one"]])

    assert len(done.acts) == 1
    (warning,) = done.outcome.warnings
    assert warning.startswith("hook of error: Permission denied: 'rye.execute.tool.demo.judge'")


def test_the_tools_that_steer_a_run_may_always_be_called() -> None:
    item = {"item_id": "tool:rye/agent/threads/internal/control", "params": {"action": "skip"}}
    graph = failing(hook("error", action=item))

    done = walked(graph, in_turn(bad(), ok(action="skip")), grants=[["rye.execute.tool.demo.*"]])

    assert (done.path, done.outcome.status) == (["a", "done"], "completed")


def test_hooks_run_by_layer_and_the_first_control_steers() -> None:
    graph = failing(
        hook("error", "three", layer=3),
        hook("error", "two", layer=2),
        hook("error", "first"),
        hook("error", "second"),
    )
    answers = by_item(
        one=bad(),
        three=ok(action="fail"),
        two=ok(action="fail"),
        first=ok(),
        second=ok(action="skip"),
    )

    done = walked(graph, answers)

    assert [act.item_id for act in done.acts[1:]] == [
        "demo/first",
        "demo/second",
        "demo/two",
        "demo/three",
    ]
    assert done.outcome.status == "completed"


def test_hooks_of_the_infrastructure_run_last_and_do_not_steer() -> None:
    watching = watching_hooks(
        [
            {"event": "error", "action": "skip", "layer": 1},
            {"event": "error", "action": {"item_id": "tool:demo/watch"}},
            {"event": "context_limit_reached", "action": "skip"},
            {"event": "error"},
            "nonsense",
        ]
    )
    graph = failing(hook("error", "judge"))

    done = walked(
        graph,
        by_item(one=bad("no luck"), judge=ok(), watch=ok(action="skip")),
        hooks=(*watching, *graph.hooks),
    )

    assert [act.item_id for act in done.acts] == ["demo/one", "demo/judge", "demo/watch"]
    assert done.outcome.error == "no luck"


@pytest.mark.parametrize("word", ["fail", "abort"])
def test_a_hook_may_end_the_run_behind_a_step(word: str) -> None:
    condition = {"path": "state.n", "value": 1}
    graph = nodes(
        a=gate("b", assign={"n": 1}),
        b=gate("done"),
        done=DONE,
        hooks=[hook("after_step", action=word, condition=condition)],
    )

    done = walked(graph)

    end = done.outcome
    assert (done.path, end.status, end.code, end.node) == (["a"], "error", "ended_by_hook", "a")
    assert (end.error, end.next_node) == ("a hook ended the run after a", "b")


def test_the_control_of_a_hook_behind_a_step_may_be_the_error() -> None:
    graph = nodes(a=gate("done"), done=DONE, hooks=[hook("after_step", "judge")])

    end = walked(graph, always(ok(action="fail", error="too hot"))).outcome

    assert (end.status, end.error) == ("error", "too hot")


@pytest.mark.parametrize("word", ["retry", "continue", "skip"])
def test_other_controls_have_no_effect_behind_a_step(word: str) -> None:
    graph = nodes(a=gate("done"), done=DONE, hooks=[hook("after_step", action=word)])

    assert walked(graph).path == ["a", "done"]


def test_a_cancelled_call_is_no_error_for_hooks() -> None:
    acted = CallResult(result=failed("ended", "CANCELLED"), is_cancelled=True)

    done = walked(failing(hook("error", "judge")), always(acted))

    assert (len(done.acts), done.outcome.status) == (1, "cancelled")


def test_a_run_that_is_cancelled_while_a_hook_is_called_is_cancelled() -> None:
    acted = CallResult(result=failed("ended", "CANCELLED"), is_cancelled=True)

    done = walked(failing(hook("error", "judge")), in_turn(bad("no luck"), acted))

    end = done.outcome
    assert (end.status, end.node, end.next_node, end.steps) == ("cancelled", "a", "a", 0)
    assert done.lefts == []


@pytest.mark.parametrize("retries", ["odd", 5, [1], {"a": "many"}, None])
def test_forged_counts_of_retries_do_no_harm(retries: object) -> None:
    position = Position(node="a", state={"inputs": {}, "_retries": retries})

    done = walked(failing(hook("error", action="retry")), always(bad()), position=position)

    assert (len(done.acts), done.outcome.status) == (4, "error")


def test_hooks_of_other_events_do_not_run() -> None:
    answers: Answering = always(ok())

    assert len(walked(failing(hook("error", "judge"), hook("limit", "x")), answers).acts) == 1
