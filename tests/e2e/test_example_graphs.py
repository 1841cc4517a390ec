"""The example graphs of the bundle are valid and work as their pages say, in the built file."""

import json
from typing import Any

import pytest

from tests.support.built import Machine

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

EXAMPLES = ("fan-out", "approval-gate", "retry-and-resume")


@pytest.fixture
def owner(machine: Machine) -> Machine:
    """A user with a key and a project."""
    machine.ask("keys", "generate", "-q")
    machine.ask("init", "--project", "-q")
    return machine


def run_graph(owner: Machine, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The JSON answer of a command about graphs."""
    done = owner.run("graph", *arguments, "--json")
    assert done.returncode == status, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_valid_without_warnings(name: str, machine: Machine) -> None:
    report = run_graph(machine, "validate", f"rye/examples/{name}")

    assert (report["status"], report["errors"], report["warnings"]) == ("success", [], [])


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_drawn(name: str, machine: Machine) -> None:
    drawn = machine.ask("graph", "show", f"rye/examples/{name}", "--mermaid")

    assert drawn.startswith("flowchart ")


def test_fan_out_measures_every_file_in_order(owner: Machine) -> None:
    (owner.project / "one.txt").write_text("a b\nc\n", encoding="utf-8")
    (owner.project / "two.txt").write_text("d e f g\n", encoding="utf-8")

    answer = run_graph(owner, "run", "rye/examples/fan-out", 'files:=["two.txt", "one.txt"]')

    assert answer["data"]["status"] == "completed"
    assert answer["data"]["output"] == {
        "summary": {"files": 2, "failed": 0, "lines": 3, "words": 7, "largest": "two.txt"},
        "measures": [
            {"success": True, "file": "two.txt", "bytes": 8, "lines": 1, "words": 4},
            {"success": True, "file": "one.txt", "bytes": 6, "lines": 2, "words": 3},
        ],
    }


def test_fan_out_goes_on_after_a_missing_file(owner: Machine) -> None:
    (owner.project / "one.txt").write_text("a\n", encoding="utf-8")

    answer = run_graph(owner, "run", "rye/examples/fan-out", 'files:=["none", "one.txt"]')

    data = answer["data"]
    assert data["status"] == "completed_with_errors"
    assert data["output"]["summary"] == {
        "files": 1,
        "failed": 1,
        "lines": 1,
        "words": 1,
        "largest": "one.txt",
    }
    assert data["errors"] == [
        {"step": 1, "node": "measure", "index": 0, "error": "none: No such file or directory"}
    ]


def test_the_approval_gate_waits_for_an_answer(owner: Machine) -> None:
    answer = run_graph(
        owner, "run", "rye/examples/approval-gate", "command=touch ran", "reason=to see", status=1
    )

    data = answer["data"]
    assert data["node"] == "wait"
    assert data["state"]["question"].startswith("May this command run?\n\n    touch ran\n\n")
    assert "Reason: to see." in data["state"]["question"]
    assert not (owner.project / "ran").exists()


@pytest.mark.parametrize(("approved", "runs"), [("true", True), ("false", False)])
def test_the_approval_gate_continues_with_the_answer(
    approved: str, *, runs: bool, owner: Machine
) -> None:
    waiting = run_graph(owner, "run", "rye/examples/approval-gate", "command=touch ran", status=1)
    run_id = waiting["data"]["graph_run_id"]

    answer = run_graph(owner, "resume", run_id, "--override-inputs", f"approved:={approved}")

    assert answer["data"]["output"]["approved"] is runs
    assert (owner.project / "ran").exists() is runs


def test_the_approval_gate_asks_no_question_where_the_answer_is_given(owner: Machine) -> None:
    answer = run_graph(
        owner, "run", "rye/examples/approval-gate", "command=echo done", "approved:=true"
    )

    assert answer["data"]["output"] == {"approved": True, "printed": "done\n"}


def test_retry_and_resume_ends_at_a_missing_file(owner: Machine) -> None:
    answer = run_graph(owner, "run", "rye/examples/retry-and-resume", "file=goods", status=1)

    data = answer["data"]
    assert (data["node"], data["steps"]) == ("receive", 2)
    assert (owner.project / "orders.log").read_text("utf-8") == "ordered goods\n"


def test_retry_and_resume_goes_on_where_it_ended_and_orders_once(owner: Machine) -> None:
    failed = run_graph(owner, "run", "rye/examples/retry-and-resume", "file=goods", status=1)
    (owner.project / "goods").write_text("here\n", encoding="utf-8")

    answer = run_graph(owner, "resume", failed["data"]["graph_run_id"])

    assert answer["data"]["output"] == {
        "content": "here\n",
        "ordered_at": failed["data"]["state"]["ordered_at"],
    }
    assert (owner.project / "orders.log").read_text("utf-8") == "ordered goods\n"
