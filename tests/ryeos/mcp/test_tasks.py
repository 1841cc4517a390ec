"""Background runs as tasks, by real runners of this checkout."""

import os
from typing import Any

import pytest

from ryeos.mcp.revisions import TASKS_EXTENSION
from tests.support.background_runs import Holding, ended, holding, program_of, started
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace

__all__ = ["holding"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")

BASH = "tool:rye/bash/bash"
TASKS: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}


def conversation(workspace: Workspace, **changes: Any) -> Conversation:  # noqa: ANN401 - see there
    changes.setdefault("capabilities", TASKS)
    return Conversation(workspace.rye(), program=lambda _: program_of(workspace), **changes)


def execute(client: Conversation, command: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    parameters = {"command": command}
    arguments = {"item_id": BASH, "parameters": parameters, "async": True, **arguments}
    return client.result("tools/call", name="execute", arguments=arguments)


def thread_of(task_id: str) -> str:
    """The thread that a task is."""
    return task_id.rpartition(".")[0]


def test_a_background_run_is_a_task_with_the_result_of_the_tool(workspace: Workspace) -> None:
    client = conversation(workspace)

    task = execute(client, "echo out")
    thread = ended(workspace, thread_of(task["taskId"]))
    done = client.result("tasks/get", taskId=task["taskId"])

    assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
    assert task["createdAt"] == thread.created_at
    assert task["pollIntervalMs"] == 2000
    assert (done["resultType"], done["status"]) == ("complete", "completed")
    assert done["result"]["structuredContent"]["data"]["stdout"] == "out\n"
    assert done["result"]["isError"] is False


def test_a_tool_that_fails_is_a_task_that_completed_with_an_error(workspace: Workspace) -> None:
    client = conversation(workspace)
    task_id = execute(client, "echo no >&2; exit 3")["taskId"]
    ended(workspace, thread_of(task_id))

    done = client.result("tasks/get", taskId=task_id)

    assert (done["status"], done["statusMessage"]) == ("completed", "no")
    assert done["result"]["isError"] is True
    assert done["result"]["structuredContent"]["data"]["return_code"] == 3


def test_a_large_result_is_kept_once_however_often_it_is_requested(workspace: Workspace) -> None:
    client = conversation(workspace)
    task_id = execute(client, "head -c 300000 /dev/zero | tr '\\0' x")["taskId"]
    ended(workspace, thread_of(task_id))

    first, second = (client.result("tasks/get", taskId=task_id)["result"] for _ in range(2))

    assert first["content"][1] == second["content"][1]
    assert first["content"][1]["type"] == "resource_link"
    read = client.result("resources/read", uri=first["content"][1]["uri"])
    assert read["contents"][0]["text"].count("x") >= 300000


def test_a_cancelled_task_ends_with_all_it_started(workspace: Workspace, holding: Holding) -> None:
    client = conversation(workspace)
    task_id = execute(client, holding.script)["taskId"]
    holding.await_ready()
    before = client.result("tasks/get", taskId=task_id)

    acknowledged = client.result("tasks/cancel", taskId=task_id)

    assert before["status"] == "working"
    assert set(acknowledged) == {"resultType", "_meta"}
    assert client.result("tasks/get", taskId=task_id)["status"] == "cancelled"
    holding.await_end()


def test_an_update_is_acknowledged(workspace: Workspace) -> None:
    client = conversation(workspace)
    task_id = execute(client, "true")["taskId"]

    acknowledged = client.result("tasks/update", taskId=task_id, inputResponses={"x": {}})

    assert set(acknowledged) == {"resultType", "_meta"}
    ended(workspace, thread_of(task_id))


@pytest.mark.parametrize(
    "changes", [{"capabilities": {}}, {"version": "2025-11-25", "capabilities": TASKS}]
)
def test_a_client_without_the_extension_gets_a_thread(
    changes: dict[str, Any], workspace: Workspace
) -> None:
    result = execute(conversation(workspace, **changes), "true")

    assert result.get("resultType") in {None, "complete"}
    assert result["structuredContent"]["status"] == "running"
    threads = workspace.rye().threads
    ended(workspace, threads.find(result["structuredContent"]["thread_id"]))


def test_an_immediate_answer_is_no_task(workspace: Workspace) -> None:
    result = execute(conversation(workspace), "echo out", **{"async": False})

    assert result["structuredContent"]["data"]["stdout"] == "out\n"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize("task_id", ["no/such", "", "../../x", "registry.db", 5, None])
def test_an_unknown_task_is_a_wrong_parameter(
    method: str, task_id: object, workspace: Workspace
) -> None:
    ended(workspace, started(workspace, BASH, command="true"))

    error = conversation(workspace).error(method, taskId=task_id)

    assert error["code"] == -32602


def test_tasks_are_for_clients_with_the_extension(workspace: Workspace) -> None:
    error = conversation(workspace, capabilities={}).error("tasks/get", taskId="x")
    legacy = conversation(workspace, version="2025-11-25").error("tasks/get", taskId="x")

    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": TASKS})
    assert legacy["code"] == -32601


@pytest.mark.parametrize("code", ["", ".", ".0123456789abcdef0123456789abcdef", ".é"])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
def test_a_thread_id_does_not_reveal_the_task_id(
    method: str, code: str, workspace: Workspace
) -> None:
    client = conversation(workspace)
    thread_id = thread_of(execute(client, "true")["taskId"])
    ended(workspace, thread_id)

    error = client.error(method, taskId=f"{thread_id}{code}")

    assert (error["code"], error["message"]) == (-32602, f"unknown task: {thread_id}{code}")


def test_a_task_id_has_128_bits_that_only_the_user_can_make(workspace: Workspace) -> None:
    first, second = (execute(conversation(workspace), "true")["taskId"] for _ in range(2))
    for task_id in (first, second):
        ended(workspace, thread_of(task_id))

    codes = {task_id.rpartition(".")[2] for task_id in (first, second)}

    assert [len(bytes.fromhex(code)) for code in codes] == [16, 16]
    later = conversation(workspace)
    assert later.result("tasks/get", taskId=first)["taskId"] == first
