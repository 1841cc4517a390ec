"""Runs of graphs inside ``rye.pyz mcp``: reported by step, ended without the server, resumed."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.endings import wait_until
from tests.support.graph_machine import STEPS, Gate, GraphMachine, a_line
from tests.support.mcp_client import McpClient, envelope_of, is_running
from tests.support.mcp_server_machine import children, server

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

LINE = "tool:t/line"
INPUTS = {"who": "ann"}
PROGRESS = "notifications/progress"
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": TASKS,
}


@pytest.fixture
def graphs(machine: Machine) -> GraphMachine:
    """A machine with a line of ten nodes."""
    made = GraphMachine(machine)
    made.graph("line", a_line())
    return made


@pytest.fixture
def client(graphs: GraphMachine) -> Iterator[McpClient]:
    """A client of a server in the project."""
    with server(graphs.machine) as client:
        client.initialize()
        yield client


def test_each_step_is_reported_with_a_higher_number(
    graphs: GraphMachine, client: McpClient
) -> None:
    gates = [Gate(graphs, word) for word in ("n2", "n5", "n8")]
    call = client.start_tool("execute", {"progressToken": "p"}, item_id=LINE, parameters=INPUTS)
    for gate in gates:
        gate.await_call()
        gate.open()
    envelope = envelope_of(client.result(call))

    reported = client.notifications(PROGRESS)
    numbers = [one["progress"] for one in reported]
    assert envelope["data"]["who"] == "ann"
    assert len(reported) >= 2
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == STEPS
    assert {one["progressToken"] for one in reported} == {"p"}
    assert reported[0]["message"] == "n1: started"


@pytest.mark.parametrize("parallel", [False, True])
def test_a_foreach_reports_its_calls(
    parallel: object, graphs: GraphMachine, client: McpClient
) -> None:
    graphs.command("nap", "sleep 0.15")
    fan = {
        "type": "foreach",
        "over": [1, 2, 3, 4],
        "parallel": parallel,
        "max_concurrency": 1,
        "action": {"item_id": "tool:t/nap"},
    }
    graphs.graph("fan", {"start": "fan", "nodes": {"fan": fan}})

    call = client.start_tool("execute", {"progressToken": 7}, item_id="tool:t/fan")
    client.result(call)

    reported = client.notifications(PROGRESS)
    numbers = [one["progress"] for one in reported]
    messages = [one["message"] for one in reported]
    assert numbers == sorted(set(numbers))
    assert [text for text in messages if text.startswith("fan: 1")], messages
    assert [text for text in messages if text.startswith("fan: 3")], messages


def test_a_cancelled_call_ends_the_run_and_its_child(
    graphs: GraphMachine, client: McpClient
) -> None:
    gate = Gate(graphs, "n3")
    call = client.start_tool("execute", item_id=LINE, parameters=INPUTS)
    gate.await_call()
    (child,) = _tools(client)

    client.cancel(call)

    wait_until(lambda: not is_running(child))
    (run_id,) = graphs.runs()
    wait_until(lambda: _status(graphs, run_id) == "cancelled")
    assert client.answers(call) == []
    gate.remove()
    resumed = client.envelope("execute", resume_thread_id=run_id)
    assert resumed["data"]["who"] == "ann"
    assert graphs.log == [f"n{number}" for number in range(1, STEPS)]


def _tools(client: McpClient) -> list[int]:
    """The tools that a server runs: its child processes without its own workers."""
    return children(client.process.pid)


def _status(graphs: GraphMachine, run_id: str) -> str:
    status: str = graphs.run_json("threads", "show", run_id)[1]["thread"]["status"]
    return status


def test_a_run_in_a_server_is_ended_and_the_server_is_not(
    graphs: GraphMachine, client: McpClient
) -> None:
    gate = Gate(graphs, "n3")
    call = client.start_tool("execute", item_id=LINE, parameters=INPUTS)
    gate.await_call()
    (child,) = _tools(client)
    (run_id,) = graphs.runs()

    status, killed = graphs.run_json("threads", "kill", run_id)

    assert (status, killed["killed"], killed["thread"]["status"]) == (0, True, "cancelled")
    assert not is_running(child)
    envelope = envelope_of(client.result(call))
    assert (envelope["status"], envelope["code"]) == ("error", "CANCELLED")
    gate.remove()
    assert client.envelope("execute", resume_thread_id=run_id)["status"] == "success"
    assert graphs.run_json("threads", "kill", run_id)[1]["killed"] is False


def test_other_runs_of_the_same_server_go_on(graphs: GraphMachine, client: McpClient) -> None:
    gates = [Gate(graphs, "n3"), Gate(graphs, "n4")]
    first = client.start_tool("execute", item_id=LINE, parameters=INPUTS)
    gates[0].await_call()
    (ended,) = graphs.runs()
    gates[0].remove()
    second = client.start_tool("execute", item_id=LINE, parameters=INPUTS)
    gates[1].await_call()

    graphs.run_json("threads", "kill", ended)
    gates[1].open()

    assert envelope_of(client.result(first))["code"] == "CANCELLED"
    assert envelope_of(client.result(second))["status"] == "success"


def test_a_run_whose_server_is_killed_goes_on_in_another(graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n3")
    with server(graphs.machine) as first:
        first.initialize()
        first.start_tool("execute", item_id=LINE, parameters=INPUTS)
        gate.await_call()
        first.process.kill()
    gate.remove()
    (run_id,) = graphs.runs()

    with server(graphs.machine) as second:
        second.initialize()
        envelope = second.envelope("execute", resume_thread_id=run_id)

    assert envelope["data"]["who"] == "ann"
    assert graphs.log == [f"n{number}" for number in range(1, STEPS)]


def test_a_thread_that_is_no_run_of_a_graph_is_not_resumed(
    graphs: GraphMachine, client: McpClient
) -> None:
    started = client.envelope(
        "execute", item_id="tool:t/note", parameters={"word": "x"}, **{"async": True}
    )
    graphs.run_json("threads", "wait", started["thread_id"])

    refused = client.envelope("execute", resume_thread_id=started["thread_id"])
    unknown = client.envelope("execute", resume_thread_id="nothing")

    assert refused["code"] == "UNSUPPORTED"
    assert refused["error"].endswith("is not a graph: only runs of graphs can be resumed")
    assert unknown["code"] == "THREAD_NOT_FOUND"


def test_a_resumed_run_is_of_the_item_that_is_named(
    graphs: GraphMachine, client: McpClient
) -> None:
    graphs.graph("other", a_line())
    run_id = client.envelope("execute", item_id=LINE, verbose=True)["data"]["graph_run_id"]

    refused = client.envelope("execute", item_id="tool:t/other", resume_thread_id=run_id)
    completed = client.envelope("execute", item_id=LINE, resume_thread_id=run_id)

    assert refused["code"] == "INVALID_PARAMS"
    assert "already completed" in completed["error"]


def test_a_resumed_run_is_given_no_inputs_unless_they_are_laid_over_its_own(
    client: McpClient,
) -> None:
    run_id = client.envelope("execute", item_id=LINE, verbose=True)["data"]["graph_run_id"]

    ignored = client.envelope("execute", resume_thread_id=run_id, parameters={"who": "bob"})
    laid_over = client.envelope(
        "execute", resume_thread_id=run_id, parameters={"who": "bob", "override_inputs": True}
    )

    assert ignored["error"] == "parameters: a resumed run keeps its inputs, found who"
    assert "already completed" in laid_over["error"]  # it was found


def test_a_graph_in_the_background_is_a_task(graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n3")
    with server(graphs.machine) as client:
        called = client.result(
            client.start_tool("execute", MODERN, item_id=LINE, **{"async": True}, parameters=INPUTS)
        )
        gate.await_call()
        (run_id,) = graphs.runs()
        task_id = called["taskId"]
        working = _task(client, task_id)
        gate.open()
        graphs.run_json("threads", "wait", run_id)
        completed = _task(client, task_id)

    assert (called["resultType"], working["status"]) == ("task", "working")
    assert completed["status"] == "completed"
    assert completed["result"]["structuredContent"]["data"]["who"] == "ann"
    assert graphs.runs() == [run_id]


def _task(client: McpClient, task_id: str) -> dict[str, Any]:
    return client.result(client.send("tasks/get", {"_meta": MODERN, "taskId": task_id}))


def test_a_graph_is_found_by_its_description(graphs: GraphMachine, client: McpClient) -> None:
    graphs.graph("found", a_line(), description="waters the orchids")

    hits = client.envelope("search", query="orchids")["results"]
    text = client.envelope("help", topic="graphs")["content"]
    about = client.envelope("help", topic="item:tool:t/found")["content"]

    assert [hit["id"] for hit in hits] == ["t/found"]
    assert "Permissions:" in text
    assert "resume_thread_id" in text
    assert "t/found" in about
