"""The node's ``/mcp``, over HTTP; what executes is a stand-in that says which request it got."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from lillux.signing import generate_keypair
from rye_services.node.mcp import PATHS, RouteCall, mcp_router
from rye_services.node.mcp_server import sessions_of
from rye_services.node.services import NodeServices, open_services
from rye_services.people.credentials import Principal
from rye_services.settings import read_settings
from rye_services.web.http import RequestProblem
from ryeos.items.refs import Space
from tests.support.node import Node, Reply
from tests.support.workspace import ROOT

MODERN, HANDSHAKE = "2026-07-28", "2025-06-18"


def answer(principal: Principal, call: RouteCall) -> Mapping[str, Any]:
    """The answer of a route: the status of the tool, or a refusal."""
    if call.body["project_path"] == "unknown":
        raise RequestProblem(404, "project not found: 'unknown'")
    failed = call.body.get("item_id") == "tool:fails"
    request = {"route": call.route, "body": dict(call.body), "user": principal.user_id}
    return {"status": "error" if failed else "success", "request": request}


class Endpoint:
    """A served application with nothing but ``/mcp``."""

    def __init__(self, services: NodeServices, url: str) -> None:
        self.services, self.url = services, url
        pair = generate_keypair()
        key = services.authorized_keys.authorize(
            pair.public_pem, label="a test's", scopes=["remote:execute"], via="command"
        )
        self.user_id = key.fingerprint
        self.token, _ = services.api_keys.create(self.user_id, name="a", scopes=("remote:execute",))
        self.poor, _ = services.api_keys.create(self.user_id, name="b", scopes=("remote:push",))

    def ask(self, body: object, path: str = "/mcp/", **headers: str) -> Reply:
        node = Node(Path())
        node.port = int(self.url.rpartition(":")[2])
        sent = {"Accept": "application/json, text/event-stream", **headers}
        return node.ask("POST", path, body, headers=sent)

    def rpc(self, method: str, params: object = None, **headers: str) -> dict[str, Any]:
        reply = self.ask(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}},
            **{"MCP-Protocol-Version": HANDSHAKE, **headers},
        )
        assert reply.status == 200, reply.body
        assert reply.headers["content-type"] == "application/json"
        found: dict[str, Any] = reply.json
        return found

    def call(self, name: str, arguments: object, token: str | None = "") -> dict[str, Any]:
        bearer = {"Authorization": f"Bearer {token or self.token}"} if token is not None else {}
        params = {"name": name, "arguments": arguments}
        found: dict[str, Any] = self.rpc("tools/call", params, **bearer)["result"]
        return found


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, bundle: Space) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("mcp")
    services = open_services(read_settings({}, {}, folder), bundle.base)
    app = FastAPI()
    limit = services.settings.max_request_bytes
    app.include_router(
        mcp_router(lambda: sessions_of(services.authenticator, answer, max_request_bytes=limit))
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Endpoint(services, f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()


def test_the_sdk_is_loaded_for_the_first_message_and_not_at_start() -> None:
    code = "import sys, rye_services.node.application; print('mcp' in sys.modules)"

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", cwd=ROOT
    )

    assert ended.stdout == "False\n"


def test_a_client_that_sends_initialize_gets_no_session(endpoint: Endpoint) -> None:
    params = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }

    result = endpoint.rpc("initialize", params)["result"]

    assert result["serverInfo"]["name"] == "rye-node"
    assert result["protocolVersion"] == HANDSHAKE


def test_three_tools_are_listed(endpoint: Endpoint) -> None:
    tools = endpoint.rpc("tools/list")["result"]["tools"]

    assert [tool["name"] for tool in tools] == ["execute", "fetch", "sign"]
    assert tools[0]["inputSchema"]["required"] == ["item_id", "project_path"]


def test_a_call_is_the_request_of_its_caller(endpoint: Endpoint) -> None:
    arguments = {"item_id": "a/b", "item_type": "directive", "project_path": "p", "async": True}

    result = endpoint.call("execute", arguments)

    request = {
        "route": "execute",
        "body": {**arguments, "item_id": "directive:a/b"},
        "user": endpoint.user_id,
    }
    assert result["structuredContent"] == {"status": "success", "request": request}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False


def test_a_bare_id_to_execute_is_a_tool(endpoint: Endpoint) -> None:
    result = endpoint.call("execute", {"item_id": "a/b", "project_path": "p"})

    assert result["structuredContent"]["request"]["body"]["item_id"] == "tool:a/b"


@pytest.mark.parametrize(
    ("name", "arguments", "route"),
    [
        ("fetch", {"project_path": "p", "query": "words", "limit": 3}, "fetch"),
        ("sign", {"project_path": "p", "item_id": "tool:a/*"}, "sign"),
    ],
)
def test_the_other_tools_are_their_routes(
    endpoint: Endpoint, name: str, arguments: dict[str, object], route: str
) -> None:
    request = endpoint.call(name, arguments)["structuredContent"]["request"]

    assert request["route"] == route
    assert request["body"].items() >= arguments.items()


def test_a_tool_that_failed_is_an_error_with_its_result(endpoint: Endpoint) -> None:
    result = endpoint.call("execute", {"item_id": "tool:fails", "project_path": "p"})

    assert result["isError"] is True
    assert result["structuredContent"]["request"]["route"] == "execute"


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text"),
    [
        ("execute", {"item_id": "tool:a", "project_path": "unknown"}, "HTTP_404", "not found"),
        ("execute", {"item_id": "tool:a"}, "INVALID_PARAMS", "project_path"),
        ("execute", {"item_id": "tool:a", "project_path": "p", "dry_run": True}, "INVALID_PARAMS",
         "dry run"),
        ("execute", {"item_id": "tool:a", "projcet_path": "p"}, "INVALID_PARAMS", "projcet_path"),
        ("shell", {}, "TOOL_NOT_FOUND", "execute, fetch, sign"),
    ],
)  # fmt: skip
def test_a_refusal_is_an_error_result_with_its_reason(
    endpoint: Endpoint, name: str, arguments: dict[str, object], code: str, text: str
) -> None:
    result = endpoint.call(name, arguments)

    assert result["isError"] is True
    assert result["structuredContent"]["code"] == code
    assert text in result["structuredContent"]["error"]


def test_each_call_is_authenticated(endpoint: Endpoint) -> None:
    arguments = {"item_id": "tool:a", "project_path": "p"}

    codes = [
        endpoint.call("execute", arguments, token)["structuredContent"]["code"]
        for token in (None, "rye_sk_wrong", endpoint.poor)
    ]

    assert codes == ["HTTP_401", "HTTP_401", "HTTP_403"]


def test_a_client_of_the_stateless_revision_is_answered(endpoint: Endpoint) -> None:
    arguments = {"item_id": "tool:a", "project_path": "p"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    found = endpoint.rpc(
        "tools/call",
        {"name": "execute", "arguments": arguments, "_meta": meta},
        **{
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "execute",
            "Authorization": f"Bearer {endpoint.token}",
        },
    )

    assert found["result"]["structuredContent"]["status"] == "success"


def test_both_spellings_of_the_address_are_the_endpoint(endpoint: Endpoint) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    answers = {endpoint.ask(body, path).body for path in PATHS}

    assert len(answers) == 1


def test_get_and_delete_are_answered_with_405(endpoint: Endpoint) -> None:
    node = Node(Path())
    node.port = int(endpoint.url.rpartition(":")[2])

    for method in ("GET", "DELETE"):
        reply = node.ask(method, "/mcp")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"name": "execute", "arguments": []}, "arguments: expected an object, found list"),
        ({"name": "execute", "arguments": "x"}, "arguments: expected an object, found string"),
        ({"name": 5}, "name: expected the name of a tool"),
        ({}, "name: expected the name of a tool"),
    ],
)
def test_a_call_of_another_form_is_reported_in_plain_words(
    endpoint: Endpoint, params: object, problem: str
) -> None:
    assert endpoint.rpc("tools/call", params)["error"] == {"code": -32602, "message": problem}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "expected a message of JSON-RPC, found no JSON"),
        (b"[]", "expected a message of JSON-RPC, found list"),
        (b"{}", 'jsonrpc: expected "2.0"'),
        (b'{"jsonrpc": "2.0"}', "method: expected a string"),
        (
            b'{"jsonrpc": "2.0", "id": [], "method": "a"}',
            "id: expected a string or a number, found list",
        ),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "a", "params": []}',
            "params: expected an object, found list",
        ),
    ],
)
def test_an_invalid_message_is_reported_in_plain_words(
    endpoint: Endpoint, body: bytes, problem: str
) -> None:
    reply = endpoint.ask(body)

    assert (reply.status, reply.json["error"]["message"]) == (400, problem)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff"])
def test_the_endpoint_survives_any_invalid_message(endpoint: Endpoint, body: bytes) -> None:
    assert 400 <= endpoint.ask(body).status < 500
    assert "result" in endpoint.rpc("tools/list")
