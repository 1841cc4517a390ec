"""The three examples of the documentation, run with real tools."""

from lillux.cancellation import Cancellation
from ryeos.graph.runner import StepEvent
from tests.ryeos.graph.test_worked_examples import FAN, RETRY, ROUTE
from tests.support.graph_runs import GraphGround

DEMO = '["rye.execute.tool.demo.*"]'


def test_a_gate_routes_and_the_output_keeps_its_types(ground: GraphGround) -> None:
    ground.graph("demo/route", ROUTE, permissions=DEMO)

    big = ground.run("demo/route", {"a": 7, "b": 5})
    small = ground.run("demo/route", {"a": 1, "b": 2})

    assert {name: big[name] for name in ("success", "status", "steps", "output")} == {
        "success": True,
        "status": "completed",
        "steps": 4,
        "output": {"label": "big", "total": 12, "note": "sum=12/10"},
    }
    assert big.keys() == {"success", "status", "steps", "output", "graph_run_id"}
    assert small["output"] == {"label": "small", "total": 3, "note": "sum=3/10"}
    assert ground.thread(big["graph_run_id"]).status == "completed"


def test_inputs_are_checked_before_the_run_is_recorded(ground: GraphGround) -> None:
    ground.graph("demo/route", ROUTE, permissions=DEMO)

    missing = ground.refusal("demo/route", {"a": 1})
    wrong = ground.refusal("demo/route", {"a": "7", "b": 5})

    assert missing == "Input validation failed: missing required input: 'b'"
    assert wrong == 'Input validation failed: /a: expected integer, found string "7"'
    assert ground.runs() == []


def test_a_run_takes_no_more_steps_than_it_may(ground: GraphGround) -> None:
    ground.graph("demo/route", ROUTE, permissions=DEMO)

    data = ground.run("demo/route", {"a": 7, "b": 5, "max_steps": 3})

    assert (data["success"], data["status"], data["error"]) == (
        False,
        "error",
        "Max steps exceeded (3)",
    )
    assert data["errors"] == [
        {"code": "max_steps_exceeded", "message": "Max steps exceeded (3)"},
    ]
    assert ground.thread(data["graph_run_id"]).status == "error"


def test_a_fan_out_with_an_error_edge_and_an_ignored_error(ground: GraphGround) -> None:
    ground.graph("demo/fan", FAN, permissions=DEMO)

    data = ground.run("demo/fan", {"nums": [3, -2, 4]})

    assert (data["success"], data["status"], data["steps"]) == (True, "completed_with_errors", 5)
    assert data["output"] == {"first": 9, "count": 3, "why": "negative: -7"}
    assert data["errors_suppressed"] == 2
    assert data["errors"] == [
        {"step": 1, "node": "fan", "index": 1, "error": "negative: -2"},
        {"step": 4, "node": "soft", "error": "negative: -1"},
    ]
    assert ground.thread(data["graph_run_id"]).status == "completed_with_errors"
    assert ground.output("demo/fan", nums="[5]") == {"first": 25, "count": 1, "why": "negative: -7"}


def test_a_failed_run_is_resumed_once_its_cause_is_fixed(ground: GraphGround) -> None:
    ground.graph("demo/retry", RETRY, permissions=DEMO)

    failed = ground.run("demo/retry", {"base": 4})
    run_id = failed["graph_run_id"]

    assert (ground.project / "attempts").read_text("utf-8") == "xxx"
    assert (failed["success"], failed["error"], failed["node"]) == (False, "flag missing", "work")
    assert failed["state"] == {
        "inputs": {"base": 4},
        "seed": 5,
        "_retries": {"work": 2},
        "_last_error": {"node": "work", "error": "flag missing"},
    }
    assert ground.thread(run_id).status == "error"
    assert ground.thread(run_id).error == "flag missing"

    (ground.project / "flag").touch()
    resumed = ground.run("demo/retry", {"resume": True, "graph_run_id": run_id}, rye=ground.fresh())

    assert (resumed["status"], resumed["steps"]) == ("completed", 4)
    assert resumed["output"] == {"seed": 5, "ok": True, "base": 4}
    assert resumed["graph_run_id"] == run_id
    assert (ground.project / "attempts").read_text("utf-8") == "xxxx"
    assert ground.thread(run_id).status == "completed"
    assert ground.thread(run_id).error is None
    started = [
        event["payload"]["node"]
        for event in ground.transcript(run_id)
        if event["event_type"] == "step_started"
    ]
    assert started.count("prep") == 1


def test_a_completed_or_unknown_run_is_not_resumed(ground: GraphGround) -> None:
    ground.graph("demo/route", ROUTE, permissions=DEMO)
    run_id = ground.run("demo/route", {"a": 7, "b": 5})["graph_run_id"]

    again = ground.refusal("demo/route", {"resume_run_id": run_id})
    unknown = ground.refusal("demo/route", {"resume_run_id": "demo-route-1-abcd"})

    assert "already completed" in again
    assert unknown.startswith("Cannot resume: state not found: demo-route-1-abcd")
    assert ground.thread(run_id).status == "completed"


def test_a_run_is_cancelled_while_its_tool_runs_and_resumed(ground: GraphGround) -> None:
    ground.graph("demo/retry", RETRY.replace("demo/needs_flag", "demo/hold"), permissions=DEMO)
    cancellation = Cancellation()
    ground.workspace.project.signed_yaml("demo/hold", 'config: {command: "sleep 600"}')

    class Listener(list[StepEvent]):
        def append(self, event: StepEvent) -> None:
            if event.node == "work":
                cancellation.cancel()

    ground.events = Listener()
    data = ground.run("demo/retry", {"base": 4}, cancellation=cancellation)

    run_id = data["graph_run_id"]
    assert (data["success"], data["status"], data["steps"]) == (False, "cancelled", 1)
    assert data["errors"] == [
        {"code": "cancelled", "message": "the run was cancelled", "node": "work"}
    ]
    assert ground.thread(run_id).status == "cancelled"

    ground.workspace.project.signed_yaml("demo/hold", 'config: {command: "echo {}"}')
    resumed = ground.run("demo/retry", {"resume_run_id": run_id}, rye=ground.fresh())
    assert (resumed["status"], resumed["steps"]) == ("completed", 3)


def test_a_graph_without_permissions_runs_only_for_callers_that_have_some(
    ground: GraphGround,
) -> None:
    ground.graph("demo/route", ROUTE, permissions=None)

    refused = ground.refusal("demo/route", {"a": 7, "b": 5})
    nothing = ground.run("demo/route", {"a": 7, "b": 5, "capabilities": []})
    allowed = ground.run(
        "demo/route", {"a": 7, "b": 5, "capabilities": ["rye.execute.tool.demo.add"]}
    )

    assert refused == "demo/route: graph must declare 'permissions'"
    assert nothing["error"] == "Permission denied: no capabilities"
    assert allowed["output"]["total"] == 12
