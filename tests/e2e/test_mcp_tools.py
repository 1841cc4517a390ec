"""The built file calls tools of MCP servers, in an empty home."""

import json
import sys

import pytest

from tests.support.built import Machine
from tests.support.mcp_servers import ODD_SERVER, SDK_SERVER, sdk_over_http

pytestmark = pytest.mark.e2e

SERVER = """\
version: "1.0.0"
tool_type: mcp_server
executor_id: null
category: mcp/servers
description: test server
config: {config}
"""
TOOL = """\
version: "1.0.0"
tool_type: mcp
executor_id: rye/core/runtimes/mcp/{runtime}
category: mcp/test
description: test tool
config: {{server: mcp/servers/test, tool_name: add}}
input_schema:
  type: object
  required: [a, b]
  properties: {{a: {{type: integer}}, b: {{type: integer}}}}
"""


def given(machine: Machine, config: dict[str, object], runtime: str = "stdio") -> None:
    """A signed server item and a signed tool of it."""
    tools = machine.project / ".ai" / "tools" / "mcp"
    for name, text in {
        "servers/test": SERVER.format(config=json.dumps(config)),
        "test/add": TOOL.format(runtime=runtime),
    }.items():
        path = tools / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    machine.ask("keys", "generate", "-q")
    machine.ask("sign", "-q", "tool:mcp/servers/test", "tool:mcp/test/add")


@pytest.mark.heavy
def test_a_server_is_started_and_called(machine: Machine) -> None:
    given(machine, {"command": sys.executable, "args": ["-I", str(SDK_SERVER), "stdio"]})

    ended = machine.run("run", "mcp/test/add", "a:=2", "b:=3", "--json")

    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["data"]["structuredContent"]) == (0, {"result": 5})
    assert answer["metadata"]["protocol_version"] == "2026-07-28"


@pytest.mark.heavy
def test_a_server_at_an_address_is_called(machine: Machine) -> None:
    with sdk_over_http("stream") as url:
        given(machine, {"transport": "http", "url": url}, "http")

        answer = json.loads(machine.ask("run", "mcp/test/add", "a:=2", "b:=3", "--json"))

    assert answer["data"]["structuredContent"] == {"result": 5}


def test_a_server_that_crashes_is_a_failed_tool(machine: Machine) -> None:
    given(machine, {"command": sys.executable, "args": ["-I", "-S", str(ODD_SERVER), "crashes"]})

    ended = machine.run("run", "mcp/test/add", "a:=2", "b:=3", "--json")

    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["status"]) == (1, "error")
    assert "it exited with code 1 before it answered" in answer["error"]


def test_a_server_that_was_changed_is_not_started(machine: Machine) -> None:
    given(machine, {"command": "true"})
    path = machine.project / ".ai" / "tools" / "mcp" / "servers" / "test.yaml"
    path.write_text(path.read_text("utf-8").replace("true", "touch"), encoding="utf-8")

    ended = machine.run("run", "mcp/test/add", "a:=2", "b:=3")

    assert ended.returncode == 4
    assert "servers/test.yaml" in ended.stderr
