"""MCP clients that execute on a real node: the official SDK, and one message with a signature."""

import os

import anyio
import pytest

from lillux.canonical_json import canonical_json
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")

ECHO = "def execute(params, project_path):\n    return {'said': params}\n"
FUNCTION = "rye/core/runtimes/python/function"


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    workspace.project.signed_tool("echo", ECHO, executor=FUNCTION)
    return RemoteProject(workspace, shared_node.user()).pushed()


def test_the_official_client_executes_with_an_api_key(project: RemoteProject) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def call() -> object:
        url = f"{project.user.node.url}/mcp"
        async with (
            httpx2.AsyncClient(headers=project.user.bearer, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            arguments = {
                "item_id": "tool:echo",
                "project_path": project.name,
                "parameters": {"n": 1},
            }
            called = await client.call_tool("execute", arguments)
            return called.structured_content

    answer = anyio.run(call)

    assert isinstance(answer, dict)
    assert answer["status"] == "success", answer
    assert answer["result"]["data"] == {"said": {"n": 1}}
    assert project.thread(answer["thread_id"])["state"] == "completed"


def test_a_signed_request_executes_once(project: RemoteProject) -> None:
    user = project.user
    arguments = {"item_id": "echo", "item_type": "tool", "project_path": project.name}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "execute", "arguments": arguments},
    }
    body = canonical_json(message)
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
        **user.signed_headers("POST", "/mcp/", body),
    }

    first = user.node.ask("POST", "/mcp/", body, headers=headers).json["result"]
    again = user.node.ask("POST", "/mcp/", body, headers=headers).json["result"]

    assert first["structuredContent"]["status"] == "success"
    assert again["structuredContent"]["code"] == "HTTP_401"


def test_items_are_found_and_signed_over_mcp(project: RemoteProject) -> None:
    def call(name: str, **arguments: str) -> dict[str, object]:
        params = {"name": name, "arguments": {"project_path": project.name, **arguments}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
        }
        reply = project.user.ask("POST", "/mcp", message, auth="bearer", headers=headers)
        found: dict[str, object] = reply.json["result"]
        return found

    found = call("fetch", query="echo")
    signed = call("sign", item_id="tool:echo")

    assert found["isError"] is False, found
    assert signed["isError"] is False, signed
