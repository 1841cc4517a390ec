"""The tools that look at background runs, run by the built file."""

import json
from typing import Any

import pytest

from tests.support.built import Machine

PROCESSES, TELEMETRY = "rye/core/processes", "rye/core/telemetry/telemetry"
BASH = "rye/bash/bash"


def call(machine: Machine, tool: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The envelope of a run."""
    ended = machine.run("run", tool, "--params", json.dumps(parameters), "--json")
    envelope: dict[str, Any] = json.loads(ended.stdout)
    return envelope


def start(machine: Machine, command: str) -> str:
    """The id of a background run."""
    started = machine.run("run", BASH, f"command={command}", "--async", "--json")
    thread_id: str = json.loads(started.stdout)["thread_id"]
    return thread_id


@pytest.fixture
def project(machine: Machine) -> Machine:
    """A machine with a project and a key."""
    (machine.project / ".ai").mkdir()
    machine.run("keys", "generate")
    return machine


@pytest.mark.heavy
def test_a_background_run_is_listed_shown_and_ended(project: Machine) -> None:
    thread_id = start(project, "echo begun >&2; sleep 600")
    listed = call(project, f"{PROCESSES}/list", active=True)["data"]["threads"]
    ended = call(project, f"{PROCESSES}/cancel", thread_id=thread_id, grace=5)["data"]
    shown = call(project, f"{PROCESSES}/status", thread_id=thread_id, log_chars=5)["data"]
    left = call(project, f"{PROCESSES}/list", active=True)["data"]["threads"]

    # The tool that looks is no background run itself.
    assert [row.pop("seconds") >= 0 for row in listed] == [True]
    short = f"run{thread_id[-5:]}"
    assert listed == [{"thread_id": short, "item_id": f"tool:{BASH}", "state": "running"}]
    assert ended == {"success": True, "killed": True, "thread_id": short, "state": "killed"}
    assert (shown["thread_id"], shown["state"]) == (thread_id, "killed")
    assert left == []


def test_a_finished_run_shows_only_its_output(project: Machine) -> None:
    thread_id = start(project, "echo hi; echo no >&2; exit 3")

    shown = call(project, f"{PROCESSES}/status", thread_id=thread_id[-4:], wait_s=60)["data"]

    assert shown.pop("seconds") > 0
    assert shown == {
        "success": True,
        "thread_id": thread_id[-4:],
        "item_id": f"tool:{BASH}",
        "state": "error",
        "return_code": 3,
        "stdout": "hi\n",
        "stderr": "no\n",
        "error": "no",
    }


def test_a_running_run_shows_its_output_so_far(project: Machine) -> None:
    thread_id = start(project, "echo begun >&2; echo printed; sleep 600")

    shown = call(project, f"{PROCESSES}/status", thread_id=thread_id, wait_s=1)["data"]
    call(project, f"{PROCESSES}/cancel", thread_id=thread_id)

    assert (shown["state"], shown["seconds"] >= 1) == ("running", True)
    assert sorted(shown["log"].splitlines()) == ["begun", "printed"]


@pytest.mark.heavy
def test_the_steps_of_a_graph_are_reported(project: Machine) -> None:
    params = json.dumps({"files": [".ai"]})
    project.run("run", "rye/examples/fan-out", "--params", params, "--json")
    thread_id = call(project, f"{PROCESSES}/list")["data"]["threads"][0]["thread_id"]

    data = call(project, f"{PROCESSES}/steps", thread_id=thread_id)["data"]

    assert data["graph"] == "tool:rye/examples/fan-out"
    assert {node["node"] for node in data["nodes"]} == {"measure", "summarize", "done"}
    assert data["state"] == "completed_with_errors"


@pytest.mark.parametrize("tool", ["status", "cancel", "steps"])
@pytest.mark.parametrize("thread_id", ["nonsense", "--all", "--help"])
def test_a_missing_run_is_reported(project: Machine, tool: str, thread_id: str) -> None:
    envelope = call(project, f"{PROCESSES}/{tool}", thread_id=thread_id)

    assert envelope["code"] == "THREAD_NOT_FOUND"
    assert thread_id in envelope["error"]


def test_steps_are_of_graphs_only(project: Machine) -> None:
    thread_id = start(project, "true")

    envelope = call(project, f"{PROCESSES}/steps", thread_id=thread_id)

    assert envelope["status"] == "error"
    assert "graph" in envelope["error"]


def test_runs_are_counted(project: Machine) -> None:
    for command in ("true", "true", "exit 3"):
        project.run("threads", "wait", start(project, command))

    data = call(project, TELEMETRY, days=1)["data"]
    none = call(project, TELEMETRY, item="tool:shop/")["data"]

    assert data["total"] == 3
    assert data["by_status"] == {"completed": 2, "error": 1}
    assert sum(data["by_day"].values()) == 3
    [bash] = data["items"]
    assert (bash["item"], bash["runs"], bash["failed"]) == (BASH, 3, 1)
    assert 0 <= bash["seconds"]["median"] <= bash["seconds"]["p95"] <= bash["seconds"]["longest"]
    [failure] = data["failures"]
    assert "code 3" in failure["error"]
    assert (none["total"], none["items"]) == (0, [])


def test_without_runs_the_counts_are_zero(project: Machine) -> None:
    data = call(project, TELEMETRY)["data"]

    assert (data["total"], data["by_status"], data["failures"]) == (0, {}, [])
