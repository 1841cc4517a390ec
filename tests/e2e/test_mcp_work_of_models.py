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
