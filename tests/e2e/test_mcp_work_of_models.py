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
