"""Beginnings of runs: inputs, options, single steps, and refusals."""

from typing import Any

import pytest

from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionRequest
from tests.support.graph_runs import GraphGround

ECHO = """
config_schema:
  type: object
  properties:
    name: {type: string, default: ada}
    count: {type: integer, minimum: 1}
    mode: {enum: [fast, slow]}
config:
  start: say
  state: {seen: [], n: 0}
  nodes:
    say:
      action: {item_id: "tool:demo/echo", params: {name: "${inputs.name}", n: "${inputs.count}"}}
      assign: {said: "${result.name}", n: "${result.n}"}
      next: done
    done: {type: return, output: {said: "${state.said}", n: "${state.n}", seen: "${state.seen}"}}
"""
PLAIN = """
config:
  start: a
  max_steps: 10
  nodes:
    a: {type: gate, assign: {x: "${inputs.x}"}, next: b}
    b: {type: gate, assign: {y: "${state.x}"}, next: done}
    done: {type: return, output: {x: "${state.x}", y: "${state.y}", inputs: "${inputs}"}}
"""


def test_inputs_get_the_defaults_of_the_schema(ground: GraphGround) -> None:
    ground.graph("demo/say", ECHO)

    assert ground.output("demo/say", count=2) == {"said": "ada", "n": 2, "seen": []}


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"count": 0}, "/count: expected at least 1, found integer 0"),
        ({"mode": "odd"}, '/mode: expected one of "fast", "slow", found string "odd"'),
        ({"name": None}, "/name: expected string, found null"),
    ],
)
def test_inputs_are_judged_by_the_whole_schema(
    inputs: dict[str, Any], problem: str, ground: GraphGround
) -> None:
    ground.graph("demo/say", ECHO)

    assert ground.refusal("demo/say", inputs) == f"Input validation failed: {problem}"


def test_an_input_may_have_the_name_of_an_option(ground: GraphGround) -> None:
    schema = "config_schema: {type: object, properties: {node: {type: string}, depth: {}}}"
    ground.graph("demo/plain", schema + PLAIN)

    data = ground.run("demo/plain", {"node": "nowhere", "depth": "deep", "x": 1})

    assert data["output"]["inputs"] == {"node": "nowhere", "depth": "deep", "x": 1}


def test_options_are_no_inputs(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)

    data = ground.run(
        "demo/plain",
        {
            "x": 1,
            "max_steps": 5,
            "max_concurrency": 2,
            "graph_run_id": "mine-1",
            "depth": 3,
            "limits": {"depth": 2},
            "capabilities": ["rye.*"],
            "async": False,
            "force": False,
            "timeout": 50,
        },
    )

    assert data["output"]["inputs"] == {"x": 1}
    assert data["graph_run_id"] == "mine-1"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_steps": 0}, "max_steps: expected a whole number above 0, got int"),
        ({"max_steps": True}, "max_steps: expected a whole number above 0, got bool"),
        ({"max_concurrency": "2"}, "max_concurrency: expected a whole number above 0, got str"),
        ({"resume": "yes"}, "resume: expected true or false, got str"),
        ({"graph_run_id": 7}, "graph_run_id: expected the id of a run, got int"),
        ({"node": ["a"]}, "node: expected the name of a node, got list"),
        ({"inject_state": [1]}, "inject_state: expected a mapping, got list"),
        ({"inject_state": {"inputs": 5}}, "inject_state.inputs: expected a mapping, got integer"),
        ({"capabilities": "rye.*"}, "capabilities: expected a list of texts, got str"),
        ({"capabilities": [1]}, "capabilities: expected a list of texts, got list"),
        ({"depth": -1}, "depth: expected a whole number from 0 up, got int"),
        ({"limits": {"depth": 0.5}}, "limits.depth: expected a whole number from 0 up, got number"),
        ({"validate": 1}, "validate: expected true or false, got int"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused(
    options: dict[str, Any], problem: str, ground: GraphGround
) -> None:
    ground.graph("demo/plain", PLAIN)

    assert problem in ground.refusal("demo/plain", options)
    assert ground.runs() == []


def test_two_runs_of_one_process_share_no_state(ground: GraphGround) -> None:
    ground.graph("demo/say", ECHO)
    first = ground.run("demo/say", {"count": 2, "result": "both"})

    second = ground.run("demo/say", {"count": 3})

    assert (first["output"]["n"], second["output"]["n"]) == (2, 3)
    assert first["graph_run_id"] != second["graph_run_id"]


def test_a_graph_with_problems_reports_all_of_them(ground: GraphGround) -> None:
    ground.graph(
        "demo/wrong", "config: {start: a, max_steps: 0, nodes: {a: {type: gate, next: nowhere}}}"
    )

    refused = ground.answer("demo/wrong")

    assert refused.exit_status == 6
    assert refused.envelope["code"] == "VALIDATION_FAILED"
    assert refused.envelope["error"].startswith("Graph validation failed: ")
    assert "config.max_steps" in refused.envelope["error"]
    assert "there is no node 'nowhere'" in refused.envelope["error"]


def test_validate_reports_problems_and_runs_nothing(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)
    ground.graph("demo/wrong", "config: {start: a, nodes: {a: {type: gate, next: nowhere}}}")

    fine = ground.run("demo/plain", {"validate": True})
    wrong = ground.run("demo/wrong", {"validate": True})

    assert fine == {"success": True, "errors": [], "warnings": fine["warnings"], "node_count": 3}
    assert (wrong["success"], len(wrong["errors"])) == (False, 1)
    assert wrong["errors"][0]["path"] == "config.nodes.a.next"
    assert ground.runs() == []


def test_variables_that_the_graph_requires_must_be_set(ground: GraphGround) -> None:
    ground.graph("demo/plain", "env_requires: [DEMO_KEY, PATH]\n" + PLAIN)

    assert ground.refusal("demo/plain") == "Missing environment variables: DEMO_KEY"
    ground.workspace.env["DEMO_KEY"] = "1"
    assert ground.run("demo/plain", {"x": 1}, rye=ground.fresh())["success"]


def test_a_node_without_its_variables_fails(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN.replace("b: {", "b: {env_requires: DEMO_KEY, "))

    data = ground.run("demo/plain", {"x": 1})

    assert (data["node"], data["error"]) == ("b", "Missing environment variables: DEMO_KEY")


def test_one_node_is_worked_on_alone(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)

    data = ground.run("demo/plain", {"node": "b", "inject_state": {"x": 5}, "graph_run_id": "r-1"})

    assert data == {
        "success": True,
        "state": {"x": 5, "y": 5, "inputs": {}},
        "executed_node": "b",
        "next_node": "done",
        "step_count": 1,
        "graph_run_id": "r-1-step",
    }
    assert ground.runs() == ["r-1-step"]
    assert ground.thread("r-1-step").status == "completed"


def test_one_node_of_an_earlier_run_is_worked_on_with_its_state(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)
    run_id = ground.run("demo/plain", {"x": 1})["graph_run_id"]

    data = ground.run(
        "demo/plain", {"node": "b", "resume_run_id": run_id, "inject_state": {"x": 9}}
    )

    assert data["state"] == {"x": 9, "y": 9, "inputs": {"x": 1}}
    assert data["graph_run_id"].endswith("-step")
    assert ground.thread(run_id).status == "completed"


def test_a_missing_node_is_refused(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)

    refused = ground.answer("demo/plain", {"node": "dome"})

    assert refused.envelope["error"] == "Target node 'dome' not found in graph"
    assert refused.envelope["hint"] == "did you mean done?"
    assert ground.runs() == []


def test_a_run_id_is_taken_once(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)
    ground.run("demo/plain", {"x": 1, "graph_run_id": "mine-1"})

    assert "mine-1" in ground.refusal("demo/plain", {"x": 2, "graph_run_id": "mine-1"})
    assert ground.thread("mine-1").status == "completed"


def test_a_failed_run_is_not_begun_again_under_its_id(ground: GraphGround) -> None:
    ground.graph("demo/stop", "config: {start: a, max_steps: 1, nodes: {a: {type: gate, next: a}}}")
    ground.run("demo/stop", {"graph_run_id": "mine-1"})

    refused = ground.refusal("demo/stop", {"graph_run_id": "mine-1"})

    assert refused == "run mine-1 exists already"
    thread = ground.thread("mine-1")
    assert (thread.status, thread.error) == ("error", "Max steps exceeded (1)")


@pytest.mark.parametrize("run_id", ["../x", "a/../../b", "con/nul", "x" * 500])
def test_an_id_that_is_no_name_of_a_folder_is_refused(run_id: str, ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)

    envelope = ground.answer("demo/plain", {"graph_run_id": run_id}).envelope

    assert envelope["status"] == "error"
    assert ground.runs() == []


def test_limits_come_from_the_configuration_where_no_other_source_sets_them(
    ground: GraphGround,
) -> None:
    ground.graph("demo/loop", "config: {start: a, nodes: {a: {type: gate, next: a}}}")
    ground.workspace.project.signed(
        "config/execution/execution.yaml",
        'version: "1.0.0"\ncategory: execution\ndefaults: {max_steps: 7}\n',
    )

    assert ground.run("demo/loop", rye=ground.fresh())["error"] == "Max steps exceeded (7)"


@pytest.mark.parametrize(
    ("shape", "names"),
    [("output", {"output"}), ("state", {"state"}), ("both", {"output", "state"})],
)
def test_a_graph_answers_with_its_output(shape: str, names: set[str], ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN.replace("max_steps: 10", f"result: {shape}"))

    data = ground.run("demo/plain", {"x": 1})

    assert data.keys() & {"output", "state"} == names


def test_a_graph_that_returns_no_output_answers_its_state(ground: GraphGround) -> None:
    ground.graph("demo/bare", "config: {start: done, state: {n: 1}, nodes: {done: {type: return}}}")

    data = ground.run("demo/bare")

    assert (data["output"], data["state"]) == ({}, {"n": 1, "inputs": {}})


def test_a_dead_end_is_a_completion_that_is_reported(ground: GraphGround) -> None:
    ground.graph("demo/end", "config: {start: a, nodes: {a: {type: gate, assign: {n: 1}}}}")

    data = ground.run("demo/end")

    assert (data["success"], data["status"], data["terminated"]) == (True, "completed", "dead_end")
    assert (data["output"], data["state"]) == ({}, {"n": 1, "inputs": {}})


def test_a_dry_run_describes_the_graph_and_begins_no_run(ground: GraphGround) -> None:
    ground.graph("demo/plain", PLAIN)
    request = ExecutionRequest(item_id="demo/plain", dry_run=True, use_lockfile=False)

    envelope = ground.rye.execute(Reference(Kind.TOOL, "demo/plain"), request).envelope

    assert envelope["status"] == "validation_passed"
    assert ground.runs() == []


def test_a_graph_that_was_changed_after_it_was_signed_does_not_run(ground: GraphGround) -> None:
    path = ground.graph("demo/plain", PLAIN)
    path.write_text(path.read_text("utf-8").replace("max_steps: 10", "max_steps: 99"), "utf-8")

    assert ground.answer("demo/plain").envelope["code"] == "INTEGRITY"
    assert ground.runs() == []
