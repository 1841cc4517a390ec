"""The tool ``rye/mcp/manager``, with servers of the official SDK."""

import sys

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused, rye
from tests.support.mcp_server_machine import server
from tests.support.mcp_servers import SDK_SERVER, sdk_over_http

pytestmark = pytest.mark.e2e
MANAGER = "rye/mcp/manager"
COMMAND = [sys.executable, "-I", str(SDK_SERVER), "stdio"]


@pytest.mark.heavy
def test_an_agent_adds_a_server_and_calls_its_tools(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    added = call(machine, MANAGER, action="add_server", name="sdk", command=COMMAND)
    found = call(machine, MANAGER, action="discover", name="sdk", only=["add"])
    ran = rye(machine, "run", "mcp/sdk/add", "a:=2", "b:=3")
    again = call(machine, MANAGER, action="refresh", name="sdk", only=["add"], prune=True)
    listed = call(machine, MANAGER, **example(machine, MANAGER))
    removed = call(machine, MANAGER, action="remove_server", name="sdk")

    assert added["signed_by"] == found["signed_by"]
    assert [(tool["ref"], tool["state"]) for tool in found["tools"]] == [
        ("tool:mcp/sdk/add", "added")
    ]
    assert ran["data"]["structuredContent"] == {"result": 5}
    assert again["counts"]["unchanged"] == 1
    assert [server["name"] for server in listed["servers"]] == ["sdk"]
    assert removed["removed"] == ["tool:mcp/sdk/add", "tool:mcp/servers/sdk"]


def test_an_agent_asks_its_user_to_remove_a_server(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    call(machine, MANAGER, action="add_server", name="sdk", command=COMMAND)
    item = machine.project / ".ai/tools/mcp/servers/sdk.yaml"
    gone = {"action": "remove_server", "name": "sdk"}
    with server(machine) as client:
        client.initialize()
        answer = client.envelope("execute", item_id=MANAGER, parameters=gone)

    assert (answer["code"], item.exists()) == ("APPROVAL_REQUIRED", True)
    assert answer["hint"] == (
        f"ask your user to run: rye mcp remove --project={machine.project} -- sdk"
    )
    assert call(machine, MANAGER, **gone)["removed"] == ["tool:mcp/servers/sdk"]


@pytest.mark.heavy
def test_a_server_at_an_address_is_added(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    with sdk_over_http("json") as url:
        call(machine, MANAGER, action="add_server", name="web", url=url, headers={"X-A": "HOME"})
        found = call(machine, MANAGER, action="discover", name="web", dry_run=True)

    assert found["counts"]["added"] == 8
    assert not (machine.project / ".ai/tools/mcp/web").exists()


def test_a_failure_is_an_answer(machine: Machine) -> None:
    assert (
        call(machine, MANAGER, action="discover")["error"] == "discover: expected name, found none"
    )
    lacking = call(machine, MANAGER, action="add_server", name="a", command=COMMAND)
    assert lacking["code"] == "NO_SIGNING_KEY"
    machine.ask("keys", "generate", "-q")
    assert call(machine, MANAGER, action="discover", name="--only")["success"] is False
    secret = call(machine, MANAGER, action="add_server", name="a", url="http://a", bearer="sk-1")
    assert "name of a variable" in secret["error"]
    assert "action" in refused(machine, MANAGER, action="add")
