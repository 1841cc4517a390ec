"""A model works through the built file's MCP server, with nothing else."""

import sys

import pytest

from tests.support.built import Machine
from tests.support.mcp_server_machine import server

pytestmark = pytest.mark.e2e


def test_what_a_person_decides_names_the_line_that_the_user_runs(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    added = {"action": "add_server", "name": "sdk", "command": [sys.executable, "a b.py"]}
    with server(machine) as client:
        client.initialize()
        manager = client.envelope("execute", item_id="rye/mcp/manager", parameters=added)
        init = client.envelope("execute", item_id="rye/core/init/init")

    line = f"rye mcp add --project={machine.project} -- sdk {sys.executable} 'a b.py'"
    assert (manager["code"], manager["hint"]) == (
        "APPROVAL_REQUIRED",
        f"ask your user to run: {line}",
    )
    assert (init["code"], "ask your user to run: rye init" in init["hint"]) == (
        "APPROVAL_REQUIRED",
        True,
    )


def test_a_background_run_has_no_limit_but_that_of_its_item_or_its_call(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    limits = machine.project / ".ai/config/execution/execution.yaml"
    limits.parent.mkdir(parents=True)
    limits.write_text('version: "1.0.0"\ncategory: execution\ndefaults: {timeout: 1}\n', "utf-8")
    machine.ask("sign", "-q", str(limits))
    slow = {"item_id": "rye/bash/bash", "parameters": {"command": "sleep 1.5; echo done"}}
    with server(machine) as client:
        client.initialize()
        waited = client.envelope("execute", **slow)
        started = client.envelope("execute", **slow, **{"async": True})
        ended = client.envelope("execute", item_id=started["thread_id"], options={"wait_s": 60})
        named = client.envelope("execute", **slow, **{"async": True}, timeout=1)
        cut = client.envelope("execute", item_id=named["thread_id"], options={"wait_s": 60})

    assert waited["code"] == "TIMEOUT"
    assert (started["time_limit"], ended["data"]["stdout"]) == ("none", "done\n")
    assert (named["time_limit"], cut["code"]) == ("1 s", "TIMEOUT")


STEP = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: fails
config: {command: "exit 3"}
"""
GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: one step
permissions: ["rye.execute.tool.mine.*"]
config:
  start: only
  nodes:
    only: {action: {item_id: "tool:mine/step"}, next: done}
    done: {type: return}
"""


def test_an_agent_ends_a_run_by_its_id_and_sees_the_steps_of_a_failed_one(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    folder = machine.project / ".ai/tools/mine"
    folder.mkdir(parents=True)
    for name, text in {"step": STEP, "g": GRAPH}.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    machine.ask("sign", "-q", "tool:mine/step", "tool:mine/g")
    processes = "rye/core/processes"
    slow = {"item_id": "rye/bash/bash", "parameters": {"command": "sleep 60"}, "async": True}
    with server(machine) as client:
        client.initialize()
        named = {"thread_id": client.envelope("execute", **slow)["thread_id"]}
        ended = client.envelope("execute", item_id=f"{processes}/cancel", parameters=named)
        failed = client.envelope("execute", item_id="mine/g")
        run = {"thread_id": failed["next"][0]["arguments"]["resume_thread_id"]}
        steps = client.envelope("execute", item_id=f"{processes}/steps", parameters=run)

    assert (ended["data"]["killed"], ended["data"]["state"]) == (True, "killed")
    assert steps["status"] == "success"
    assert steps["data"]["state"] == "error"
    assert {node["node"] for node in steps["data"]["nodes"]} == {"only", "done"}
