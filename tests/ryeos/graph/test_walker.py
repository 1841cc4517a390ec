"""Walks: the next step for each type of node and each way that a call can end."""

import pytest

from ryeos.graph.commands import Act, CallResult, Enter, Fan, Pause
from ryeos.graph.progress import Position
from ryeos.graph.reading import read_graph
from ryeos.graph.walk import planned_path
from ryeos.items.yaml import parse_yaml
from tests.support.graph_walks import (
    CANCELLED,
    always,
    bad,
    by_item,
    calling,
    gate,
    graph_of,
    in_turn,
    nodes,
    ok,
    over,
    start_of,
    walked,
)

DONE = {"type": "return"}
TO_B_IF_BIG = [{"to": "b", "when": {"path": "state.n", "op": "gt", "value": 5}}, {"to": "done"}]

# ---------------------------------------------------------------------------- ends of walks


def test_a_return_gives_its_output_with_the_types_of_the_values() -> None:
    graph = nodes("done", done={"type": "return", "output": {"n": "${inputs.n}", "at": "${_now}"}})

    end = walked(graph, inputs={"n": 3}).outcome

    assert (end.status, end.steps, end.has_output) == ("completed", 1, True)
    assert end.output == {"n": 3, "at": "2026-01-02T03:04:05+00:00"}


def test_a_return_without_output_gives_an_empty_one() -> None:
    end = walked(nodes("done", done=DONE)).outcome

    assert (end.output, end.has_output, end.terminated) == ({}, False, "")


def test_a_return_whose_output_has_no_value_fails() -> None:
    end = walked(
        nodes("done", done={"type": "return", "output": "${inputs.x | from_json}"}),
        inputs={"x": "{"},
    ).outcome

    assert (end.status, end.node, end.code) == ("error", "done", "node_error")


def test_a_node_without_next_is_an_end() -> None:
    end = walked(nodes(a=calling(assign={"n": "${result.n}"})), always(ok(n=1))).outcome

    assert (end.status, end.terminated, end.output) == ("completed", "dead_end", {})
    assert (end.state["n"], end.warnings, end.next_node) == (1, (), None)


def test_an_end_that_no_edge_led_on_from_is_reported() -> None:
    end = walked(
        nodes(a=gate([{"to": "done", "when": {"path": "state.x", "op": "exists"}}]), done=DONE)
    ).outcome

    assert (end.status, end.terminated) == ("completed", "dead_end")
    assert end.warnings == ("a: no edge matched",)


def test_every_visit_of_a_node_is_a_step_and_there_are_no_more_than_the_limit() -> None:
    done = walked(nodes(a=gate("b"), b=gate("a")), max_steps=5)

    assert done.path == ["a", "b", "a", "b", "a"]
    end = done.outcome
    assert (end.status, end.steps, end.error) == ("error", 5, "Max steps exceeded (5)")
    assert (end.code, end.next_node) == ("max_steps_exceeded", "b")


def test_a_graph_that_ends_with_its_last_step_is_within_the_limit() -> None:
    end = walked(nodes(a=gate("done"), done=DONE), max_steps=2).outcome

    assert end.status == "completed"


def test_a_resumed_walk_has_a_limit_of_its_own() -> None:
    position = Position(node="b", state={"inputs": {}}, step=5)

    end = walked(nodes(a=gate("b"), b=gate("a")), position=position, max_steps=3).outcome

    assert (end.steps, end.error, end.next_node) == (8, "Max steps exceeded (3)", "a")


# ---------------------------------------------------------------------------- edges, assignments


@pytest.mark.parametrize(("n", "path"), [(6, ["a", "b"]), (5, ["a", "done"])])
def test_the_first_edge_that_holds_is_taken(n: int, path: list[str]) -> None:
    graph = nodes(a=gate(TO_B_IF_BIG, assign={"n": "${inputs.n}"}), b=gate(), done=DONE)

    assert walked(graph, inputs={"n": n}).path == path


def test_edges_see_the_result_of_the_call() -> None:
    edges = [{"to": "b", "when": {"path": "result.n", "value": 2}}, {"to": "done"}]

    assert walked(nodes(a=calling(next=edges), b=gate(), done=DONE), always(ok(n=2))).path[1] == "b"


def test_an_edge_whose_condition_cannot_be_judged_fails_the_node() -> None:
    edges = [
        {"to": "done", "when": {"path": "state.x", "op": "eq", "value": "${inputs.v|from_json}"}}
    ]

    end = walked(nodes(a=gate(edges), done=DONE), inputs={"v": "{"}).outcome

    assert (end.status, end.node, end.code) == ("error", "a", "node_error")


def test_an_edge_that_cannot_be_judged_leads_to_on_error() -> None:
    edges = [
        {"to": "done", "when": {"path": "state.x", "op": "eq", "value": "${inputs.v|from_json}"}}
    ]
    graph = nodes(a=calling(next=edges, on_error="b"), b=gate(), done=DONE)

    assert walked(graph, inputs={"v": "{"}).path == ["a", "b"]


def test_ignored_failures_do_not_make_edges_decidable() -> None:
    edges = [
        {"to": "done", "when": {"path": "state.x", "op": "eq", "value": "${inputs.v|from_json}"}}
    ]
    graph = nodes(a=calling(next=edges), done=DONE, on_error="continue")

    end = walked(graph, always(bad()), inputs={"v": "{"}).outcome

    assert (end.status, end.node) == ("error", "a")


def test_each_assignment_sees_the_ones_before_it() -> None:
    assign = {"one": "${result.n}", "two": "${state.one}!", "one_more": "${state.two}?"}

    state = walked(nodes(a=calling(assign=assign)), always(ok(n=1))).state

    assert state == {"one": 1, "two": "1!", "one_more": "1!?"}


def test_a_null_value_is_assigned_with_a_warning() -> None:
    done = walked(nodes(a=gate(assign={"n": "${state.m}"})))

    assert done.state == {"n": None}
    assert len(done.outcome.warnings) == 1
    assert done.outcome.warnings[0].startswith("a: n is assigned nothing")


def test_an_assignment_without_a_value_fails_the_node() -> None:
    graph = nodes(a=calling(assign={"n": "${result.text | from_json}"}, next="done"), done=DONE)

    end = walked(graph, always(ok(text="{"))).outcome

    assert (end.status, end.node) == ("error", "a")
    assert end.error is not None
    assert end.error.startswith("${result.text | from_json}")


def test_a_state_that_json_cannot_hold_fails_the_node() -> None:
    graph = nodes(a=gate("a", assign={"n": ["${state.n}"]}))

    end = walked(graph, max_steps=1000).outcome

    assert (end.status, end.node, end.code) == ("error", "a", "node_error")
    assert end.error is not None
    assert "levels of nesting" in end.error


def test_a_number_that_json_cannot_hold_is_not_assigned() -> None:
    end = walked(nodes(a=gate(assign={"n": "${inputs.n | float}"})), inputs={"n": "1e999"}).outcome

    assert (end.status, end.node) == ("error", "a")


@pytest.mark.parametrize("whole", ["${state}", {"deep": ["${state}"]}])
def test_a_state_that_is_assigned_to_itself_does_not_hold_itself(whole: object) -> None:
    graph = nodes(a=gate("b", assign={"x": whole}), b=gate(assign={"n": 1}), state={"n": 0})

    before = {"inputs": {}, "n": 0}
    assert walked(graph).state == {
        "x": before if whole == "${state}" else {"deep": [before]},
        "n": 1,
    }


def test_the_graphs_own_state_is_never_changed() -> None:
    graph = nodes(
        a=calling(assign={"list": "${result.list}"}), state={"list": [1], "map": {"a": 1}}
    )

    first = walked(graph, always(ok(list=[2])))
    second = walked(graph, always(bad()))

    assert first.state["list"] == [2]
    assert second.state["list"] == [1]
    assert graph.state == {"list": [1], "map": {"a": 1}}


def test_a_position_is_never_changed() -> None:
    position = Position(node="a", state={"inputs": {}, "list": [1]})

    walked(nodes(a=gate(assign={"list": [2]})), position=position)

    assert position.state == {"inputs": {}, "list": [1]}


# ---------------------------------------------------------------------------- calls


def test_a_call_has_its_params_filled_in_without_null_values() -> None:
    params = {"n": "${inputs.n}", "gone": "${state.x}", "deep": {"a": None, "b": [1, None, 2]}}

    (act,) = walked(nodes(a=calling(params=params)), inputs={"n": 3}).acts

    assert act.params == {"n": 3, "deep": {"b": [1, 2]}}
    assert (act.node, act.primary, act.kind, act.item_id) == ("a", "execute", "tool", "demo/one")


def test_a_call_of_a_bare_id_is_named_before_it_is_judged() -> None:
    action = {"item_id": "demo/${state.which}", "kind": "directive"}
    graph = nodes(a={"action": action}, state={"which": "plan"})

    (act,) = walked(graph, grants=[["rye.execute.directive.demo.plan"]]).acts

    assert (act.reference, act.kind) == ("directive:demo/plan", "directive")


@pytest.mark.parametrize("which", [None, 5, "", "../x"])
def test_a_call_of_no_item_fails_the_node(which: object) -> None:
    graph = nodes(a={"action": {"item_id": "${state.which}"}}, state={"which": which})

    done = walked(graph)

    assert (done.acts, done.outcome.status, done.outcome.node) == ([], "error", "a")


def test_params_that_json_cannot_hold_fail_the_node() -> None:
    done = walked(nodes(a=calling(params={"n": "${inputs.n | float}"})), inputs={"n": "1e999"})

    assert (done.acts, done.outcome.status, done.outcome.node) == ([], "error", "a")


def test_options_of_a_node_for_its_call_are_passed_on() -> None:
    graph = nodes(
        a={
            "action": {"item_id": "tool:demo/one"},
            "timeout": 5,
            "remote": "${state.where}",
            "cache": True,
            "cache_ttl": 9,
            "async": True,
        },
        state={"where": "gpu"},
    )

    (act,) = walked(graph).acts

    assert (act.timeout_s, act.remote, act.caches, act.cache_ttl_s) == (5.0, "gpu", True, 9.0)
    assert act.is_async
    assert act.described() == {
        "primary": "execute",
        "item_id": "tool:demo/one",
        "params": {},
        "remote": "gpu",
    }


def test_a_call_that_fails_ends_the_run() -> None:
    done = walked(nodes(a=calling(next="done", assign={"x": 1}), done=DONE), always(bad("no luck")))

    end = done.outcome
    assert (end.status, end.error, end.node, end.code) == ("error", "no luck", "a", "node_error")
    assert done.state == {"_last_error": {"node": "a", "error": "no luck"}}
    (left,) = done.lefts
    assert (left.error, left.next_node, len(left.calls)) == ("no luck", "a", 1)


def test_on_error_leads_elsewhere_and_counts_as_no_error() -> None:
    graph = nodes(a=calling(next="done", on_error="b", assign={"x": 1}), b=gate("done"), done=DONE)

    done = walked(graph, always(bad("no luck")))

    assert done.path == ["a", "b", "done"]
    assert (done.outcome.status, done.outcome.errors) == ("completed", ())
    assert done.state == {"_last_error": {"node": "a", "error": "no luck"}}
    assert (done.lefts[0].error, done.lefts[0].next_node) == ("no luck", "b")


def test_a_graph_that_continues_notes_the_error_and_its_edges_see_it() -> None:
    edges = [{"to": "b", "when": {"path": "result.status", "value": "error"}}, {"to": "done"}]
    graph = nodes(a=calling(next=edges, assign={"x": 1}), b=gate(), done=DONE, on_error="continue")

    done = walked(graph, always(bad("no luck")))

    assert done.path == ["a", "b"]
    assert done.outcome.status == "completed_with_errors"
    assert done.outcome.errors == ({"step": 1, "node": "a", "error": "no luck"},)
    assert "x" not in done.state


def test_errors_of_the_run_before_are_kept() -> None:
    error = {"step": 1, "node": "z", "error": "old"}
    position = Position(node="done", state={"inputs": {}}, step=1, errors=(error,))

    end = walked(nodes("done", done=DONE), position=position, is_resumed=True).outcome

    assert (end.status, end.errors) == ("completed_with_errors", (error,))


def test_a_node_whose_variables_are_missing_fails() -> None:
    graph = nodes(a=gate("done", env_requires=["KEY", "HOME"]), done=DONE)

    end = walked(graph, env=["HOME"]).outcome

    assert (end.status, end.error) == ("error", "Missing environment variables: KEY")
    assert walked(graph, env=["HOME", "KEY"]).outcome.status == "completed"


# ---------------------------------------------------------------------------- retries of a node


def test_a_node_retries_with_growing_pauses() -> None:
    graph = nodes(a=calling(retry={"max": 3, "backoff": "exponential", "delay": 0.5}))

    done = walked(graph, always(bad()))

    assert [pause.seconds for pause in done.every(Pause)] == [0.5, 1.0, 2.0]
    assert (len(done.acts), done.outcome.status, done.outcome.steps) == (4, "error", 1)


def test_a_node_retries_no_further_once_it_succeeds() -> None:
    graph = nodes(a=calling(retry={"max": 3}, assign={"n": "${result.n}"}))

    done = walked(graph, in_turn(bad(), ok(n=1)))

    assert (len(done.acts), done.state, done.outcome.steps) == (2, {"n": 1}, 1)


def test_a_call_that_is_not_allowed_is_not_tried_again() -> None:
    done = walked(nodes(a=calling(retry={"max": 3})), grants=[["rye.execute.tool.other"]])

    assert done.every(Pause) == []
    assert done.outcome.error == (
        "Permission denied: 'rye.execute.tool.demo.one' not covered by capabilities"
    )


def test_a_run_that_is_ended_in_a_pause_is_cancelled() -> None:
    graph = nodes(a=calling(retry={"max": 3}, next="done"), done=DONE)

    end = walked(graph, always(bad()), pauses=iter([False])).outcome

    assert (end.status, end.node, end.next_node, end.steps) == ("cancelled", "a", "a", 0)


# ---------------------------------------------------------------------------- cancellation


def test_a_run_that_is_ended_between_steps_says_where_it_would_go_on() -> None:
    done = walked(nodes(a=gate("b"), b=gate("done"), done=DONE), enters=iter([True, False]))

    end = done.outcome
    assert [left.node for left in done.lefts] == ["a"]
    assert (end.status, end.steps, end.next_node, end.code) == ("cancelled", 1, "b", "cancelled")
    assert end.error == "the run was cancelled"


def test_a_cancelled_call_leaves_its_node_to_be_worked_on_again() -> None:
    graph = nodes(a=calling(on_error="done", assign={"x": 1}), done=DONE, on_error="continue")

    done = walked(graph, always(CANCELLED))

    end = done.outcome
    assert (end.status, end.steps, end.next_node, end.errors) == ("cancelled", 0, "a", ())
    assert (done.lefts, done.state) == ([], {})


@pytest.mark.parametrize("parallel", [True, False])
def test_a_cancelled_foreach_leaves_no_results(parallel: bool) -> None:  # noqa: FBT001
    graph = nodes(
        a=over([1, 2, 3], parallel=parallel, collect="all", on_error="done"),
        done=DONE,
        state={"item": "mine"},
    )

    done = walked(graph, in_turn(ok(), CANCELLED))

    assert (done.outcome.status, done.outcome.next_node) == ("cancelled", "a")
    assert (done.state, done.lefts) == ({"item": "mine"}, [])
    assert len(done.acts) == (3 if parallel else 2)


# ---------------------------------------------------------------------------- single steps


def test_a_single_step_ends_behind_its_node() -> None:
    done = walked(
        nodes(a=calling(next="done", assign={"n": "${result.n}"}), done=DONE),
        always(ok(n=1)),
        single=True,
    )

    end = done.outcome
    assert (end.status, end.node, end.next_node, end.steps) == ("stepped", "a", "done", 1)
    assert done.state == {"n": 1}


def test_a_single_step_of_a_last_node_has_no_next_one() -> None:
    end = walked(nodes(a=gate()), single=True).outcome

    assert (end.status, end.node, end.next_node) == ("stepped", "a", None)


def test_a_single_step_fires_no_hooks_of_the_whole_run() -> None:
    hooks = [
        {"event": event, "action": {"item_id": f"tool:demo/{event}"}}
        for event in ("graph_started", "after_step", "graph_completed")
    ]
    graph = nodes("done", done=DONE, hooks=hooks)

    assert [act.item_id for act in walked(graph, single=True).acts] == ["demo/after_step"]


def test_a_single_step_that_fails_is_an_error() -> None:
    end = walked(nodes(a=calling(next="done"), done=DONE), always(bad()), single=True).outcome

    assert (end.status, end.node, end.error) == ("error", "a", "broken")


# ---------------------------------------------------------------------------- foreach


@pytest.mark.parametrize(
    ("elements", "seen"),
    [
        ([1, "two", {"three": 3}], [1, "two", {"three": 3}]),
        ("[1, 2]", [1, 2]),
        ({"a": 1, "b": 2}, [{"key": "a", "value": 1}, {"key": "b", "value": 2}]),
        (None, []),
        ("", []),
        ([], []),
    ],
)
@pytest.mark.parametrize("parallel", [True, False])
def test_a_foreach_visits_each_element(
    elements: object,
    seen: list[object],
    parallel: bool,  # noqa: FBT001
) -> None:
    graph = nodes(a=over("${inputs.all}", parallel=parallel, collect="got"))

    done = walked(graph, inputs={"all": elements})

    assert [act.params["n"] for act in done.acts] == seen
    assert [act.index for act in done.acts] == list(range(len(seen)))
    assert (done.state["got"], done.outcome.warnings) == ([ok()] * len(seen), ())


@pytest.mark.parametrize("value", [5, True, "no json", '{"a": 1}'])
def test_a_foreach_over_a_value_that_is_no_list_makes_no_call_and_warns(value: object) -> None:
    done = walked(nodes(a=over("${inputs.all}", collect="got")), inputs={"all": value})

    assert (done.acts, done.state) == ([], {"got": []})
    assert len(done.outcome.warnings) == 1
    assert done.outcome.warnings[0].startswith("a: over: expected a list")


def test_a_foreach_over_an_expression_without_value_fails() -> None:
    end = walked(nodes(a=over("${inputs.x | from_json}")), inputs={"x": "{"}).outcome

    assert (end.status, end.node) == ("error", "a")


def test_a_sequential_foreach_shows_its_element_in_the_state_and_restores_the_old_value() -> None:
    graph = nodes(
        a=over([1, 2], params={"a": "${n}", "b": "${state.n}"}, **{"as": "n"}), state={"n": "mine"}
    )

    done = walked(graph)

    assert [act.params for act in done.acts] == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert done.state == {"n": "mine"}


def test_a_sequential_foreach_leaves_no_element_behind() -> None:
    assert walked(nodes(a=over([1, 2]))).state == {}


def test_the_calls_of_a_parallel_foreach_do_not_see_the_state() -> None:
    graph = nodes(
        a=over(
            [1, 2],
            parallel=True,
            max_concurrency=7,
            params={"n": "${item}", "s": "${state.s}", "i": "${inputs.i}"},
        ),
        state={"s": 1},
    )

    done = walked(graph, inputs={"i": 9}, max_concurrency=2)

    (fan,) = done.every(Fan)
    assert [act.params for act in fan.acts] == [{"n": 1, "i": 9}, {"n": 2, "i": 9}]
    assert (fan.max_concurrency, fan.fail_fast) == (7, False)


def test_a_parallel_foreach_takes_the_concurrency_of_the_run() -> None:
    (fan,) = walked(nodes(a=over([1], parallel=True)), max_concurrency=2).every(Fan)

    assert fan.max_concurrency == 2


def test_a_foreach_collects_threads_where_some_were_started() -> None:
    answers = in_turn(ok(thread_id="t-1"), ok(n=1))

    done = walked(nodes(a=over([1, 2], collect="got")), answers)

    assert done.state == {"got": ["t-1", {"success": True, "n": 1}]}


@pytest.mark.parametrize("parallel", [True, False])
def test_elements_that_fail_are_noted_and_the_run_goes_on(parallel: bool) -> None:  # noqa: FBT001
    loop = over([1, 2, 3], parallel=parallel, collect="got", collect_errors=True, next="done")

    done = walked(nodes(a=loop, done=DONE), in_turn(ok(), bad("second"), bad("third")))

    assert (done.outcome.status, done.path) == ("completed_with_errors", ["a", "done"])
    assert done.outcome.errors == (
        {"step": 1, "node": "a", "index": 1, "error": "second"},
        {"step": 1, "node": "a", "index": 2, "error": "third"},
    )
    assert [result.get("error") for result in done.state["got"]] == [None, "second", "third"]


@pytest.mark.parametrize("parallel", [True, False])
def test_an_element_that_fails_fails_the_run_after_all_calls_were_made(parallel: bool) -> None:  # noqa: FBT001
    loop = over([1, 2, 3], parallel=parallel, collect="got", next="done")

    done = walked(nodes(a=loop, done=DONE), in_turn(ok(), bad("second"), bad("third")))

    assert (done.outcome.status, done.path, len(done.acts)) == ("error", ["a"], 3)
    assert done.outcome.error == "a[1]: second (2 of 3 calls failed)"
    assert len(done.state["got"]) == 3


def test_a_foreach_with_on_error_goes_there_once_all_results_are_collected() -> None:
    graph = nodes(a=over([1, 2, 3], collect="got", on_error="b", next="done"), b=gate(), done=DONE)

    done = walked(graph, in_turn(ok(), bad("second"), bad("third")))

    assert done.path == ["a", "b"]
    assert len(done.state["got"]) == 3
    assert done.state["_last_error"] == {"node": "a", "error": "second", "index": 1, "failed": 2}
    assert done.outcome.status == "completed"


def test_a_sequential_foreach_that_fails_fast_makes_no_further_call() -> None:
    done = walked(
        nodes(a=over([1, 2, 3], fail_fast=True, next="done"), done=DONE),
        in_turn(ok(), bad("second")),
    )

    error = "a[1]: second (1 of 2 calls failed)"
    assert (len(done.acts), done.outcome.status, done.outcome.error) == (2, "error", error)


def test_a_parallel_foreach_that_fails_fast_says_so_to_its_fan() -> None:
    done = walked(nodes(a=over([1, 2], parallel=True, fail_fast=True)), always(bad("both")))

    (fan,) = done.every(Fan)
    error = "a[0]: both (2 of 2 calls failed)"
    assert (fan.fail_fast, done.outcome.status, done.outcome.error) == (True, "error", error)


def test_a_parallel_foreach_fails_fast_with_its_last_attempt() -> None:
    graph = nodes(a=over([1, 2], parallel=True, fail_fast=True, retry={"max": 1}))

    done = walked(graph, always(bad()))

    assert [fan.fail_fast for fan in done.every(Fan)] == [False, True]
    assert done.outcome.status == "error"


def test_a_parallel_foreach_that_fails_fast_makes_no_call_where_one_is_not_allowed() -> None:
    node = over(["one", "two"], parallel=True, fail_fast=True, collect="got")
    node["action"] = {"item_id": "tool:demo/${item}"}

    done = walked(nodes(a=node), grants=[["rye.execute.tool.demo.one"]])

    assert (done.acts, done.outcome.status) == ([], "error")
    assert [result["code"] for result in done.state["got"]] == ["NOT_MADE", "PERMISSION_DENIED"]


def test_elements_that_may_not_be_called_fail_and_the_others_are_called() -> None:
    graph = nodes(
        a={
            "type": "foreach",
            "over": ["one", "two"],
            "parallel": True,
            "collect": "got",
            "action": {"item_id": "tool:demo/${item}"},
        }
    )

    done = walked(graph, grants=[["rye.execute.tool.demo.two"]])

    assert [act.item_id for act in done.acts] == ["demo/two"]
    assert done.state["got"] == [
        {
            "status": "error",
            "error": "Permission denied: 'rye.execute.tool.demo.one' not covered by capabilities",
            "code": "PERMISSION_DENIED",
        },
        {"success": True},
    ]


def test_a_parallel_foreach_retries_only_failed_calls() -> None:
    graph = nodes(
        a=over([1, 2, 3], parallel=True, collect="got", retry={"max": 2, "delay": 1, "backoff": 3})
    )

    done = walked(graph, in_turn(bad(), ok(n=2), bad(), ok(n=1), bad(), ok(n=3)))

    fans = [[act.index for act in fan.acts] for fan in done.every(Fan)]
    assert fans == [[0, 1, 2], [0, 2], [2]]
    assert [pause.seconds for pause in done.every(Pause)] == [1.0, 3.0]
    assert [result["n"] for result in done.state["got"]] == [1, 2, 3]
    assert done.outcome.status == "completed"


def test_a_sequential_foreach_tries_each_call_again() -> None:
    graph = nodes(a=over([1, 2], collect="got", collect_errors=True, retry={"max": 1}))

    done = walked(graph, in_turn(bad(), ok(n=1), bad(), bad()))

    assert [act.index for act in done.acts] == [0, 0, 1, 1]
    assert done.outcome.errors == ({"step": 1, "node": "a", "index": 1, "error": "broken"},)


def test_edges_of_a_foreach_see_how_many_results_there_are() -> None:
    edges = [{"to": "b", "when": {"path": "result.count", "value": 2}}]

    assert walked(nodes(a=over([1, 2], next=edges), b=gate())).path == ["a", "b"]


# ---------------------------------------------------------------------------- events


def test_each_step_is_entered_and_left_with_the_state_behind_it() -> None:
    graph = nodes(
        a=calling(next="b", assign={"n": "${result.n}"}),
        b=gate("done", assign={"m": 2}),
        done={"type": "return", "output": "${state.m}"},
    )

    done = walked(graph, always(ok(n=1)))

    assert [(e.step, e.node, e.type) for e in done.every(Enter)] == [
        (1, "a", "action"),
        (2, "b", "gate"),
        (3, "done", "return"),
    ]
    assert [(left.step, left.node, left.next_node, left.state) for left in done.lefts] == [
        (1, "a", "b", {"inputs": {}, "n": 1}),
        (2, "b", "done", {"inputs": {}, "n": 1, "m": 2}),
        (3, "done", None, {"inputs": {}, "n": 1, "m": 2}),
    ]
    assert done.lefts[2].result == 2


def test_a_step_reports_the_last_attempt_of_each_call() -> None:
    done = walked(nodes(a=over([1, 2], retry={"max": 1})), in_turn(bad(), ok(n=1), ok(n=2)))

    calls = done.lefts[0].calls
    assert [(act.index, acted.result["n"]) for act, acted in calls] == [(0, 1), (1, 2)]


def test_documents_of_expressions_have_no_way_to_the_walk() -> None:
    graph = graph_of(
        {
            "config": {
                "start": "a",
                "nodes": {"a": gate(assign={"x": "${state.__class__}", "y": "${_walk}"})},
            }
        }
    )

    assert walked(graph).state == {"x": None, "y": None}


def test_answers_may_come_from_a_cache() -> None:
    def kept(act: Act) -> CallResult:
        return CallResult(result={"n": act.params["n"]}, cache_hit=True)

    done = walked(nodes(a=over([1, 2], collect="got", cache=True)), kept)

    assert [acted.cache_hit for _, acted in done.lefts[0].calls] == [True, True]
    assert done.state == {"got": [{"n": 1}, {"n": 2}]}


def test_a_walk_may_begin_at_any_node() -> None:
    graph = nodes(a=calling("one", next="b"), b=calling("two"))

    done = walked(graph, by_item(one=bad(), two=ok()), position=start_of(graph, "b"))

    assert (done.path, done.outcome.status) == (["b"], "completed")


# --- the way of a run -----------------------------------------------------------------------------

PLANNED = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: demo
description: Decides twice
permissions: [rye.execute.tool.demo.add]
config:
  start: size
  state: {limit: 3}
  nodes:
    size:
      type: gate
      next:
        - {to: big, when: {path: inputs.n, op: gt, value: "${state.limit}"}}
        - {to: small}
    small: {type: return}
    big:
      action: {item_id: "tool:demo/add", params: {}}
      assign: {sum: "${result.sum}"}
      next:
        - {to: again, when: {path: state.sum, op: gt, value: 10}}
        - {to: small, when: {path: state.sum, op: gt, value: 5}}
    again:
      action: {item_id: "tool:demo/add", params: {}}
      next: big
"""


@pytest.mark.parametrize(
    ("changes", "n", "path"),
    [
        ({}, 1, ["size", "small"]),
        ({}, 7, ["size", "big", "again | small | (end)"]),
        ({"limit: 3": "limit: 30"}, 7, ["size", "small"]),
        ({"start: size": "start: again"}, 1, ["again", "big", "again | small | (end)"]),
        ({"path: state.sum, op: gt, value: 10": "path: result.x, op: exists"}, 7,
         ["size", "big", "again | small | (end)"]),
        ({"        - {to: again, when: {path: state.sum, op: gt, value: 10}}\n": "",
          "{to: small, when: {path: state.sum, op: gt, value: 5}}": "{to: again}"}, 7,
         ["size", "big", "again", "big"]),
    ],
)  # fmt: skip
def test_the_way_of_a_run_is_shown_as_far_as_no_result_decides_it(
    changes: dict[str, str], n: int, path: list[str]
) -> None:
    text = PLANNED
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    reading = read_graph(parse_yaml(text, "graph"), "demo/two")

    assert reading.graph
    assert planned_path(reading.graph, {"n": n}) == path
