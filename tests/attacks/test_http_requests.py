"""A caller, a server or unsigned files of a project attack a tool that sends one request."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lillux.templating import Names
from ryeos.run.http_config import http_plan
from tests.support.http_servers import Exchange, Server
from tests.support.workspace import Workspace

HTTP_CLIENT = "rye/core/primitives/http_client"


def tool(workspace: Workspace, config: dict[str, Any]) -> None:
    body = f"config: {json.dumps(config)}\n"
    workspace.project.signed_yaml("api", body, executor=HTTP_CLIENT)


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nX-Admin: 1", "a\rX-Admin: 1", "a\0"])
@pytest.mark.parametrize("place", ["headers", "token", "name"])
def test_a_parameter_cannot_add_a_header(workspace: Workspace, value: str, place: str) -> None:
    with Server(lambda e: e.answer()) as server:
        auth = {"type": "bearer", "token": "{v}"} if place == "token" else None
        if place == "name":
            auth = {"type": "api_key", "key": "k", "header": value}
        headers = {"X-Value": "{v}"} if place == "headers" else {}
        tool(workspace, {"url": server.url, "headers": headers, "auth": auth})
        result = workspace.run("api", params={"v": value})

    assert not result.success
    assert result.failure is not None
    assert result.failure.code in {"HTTP_INVALID_REQUEST", "CONFIG_ERROR"}
    assert "\n" not in str(result.error)
    assert server.requests == []


def test_a_parameter_cannot_begin_a_second_request(workspace: Workspace) -> None:
    value = "x HTTP/1.1\r\nHost: a\r\n\r\nDELETE /all HTTP/1.1\r\nHost: a\r\n\r\n"
    with Server(lambda e: e.answer()) as server:
        tool(workspace, {"url": f"{server.url}/{{v}}", "query": {"{v}": "{v}", "q": "{v}"}})
        workspace.run("api", params={"v": value})

    assert [seen.method for seen in server.requests] == ["GET"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1), st.text())
def test_no_parameter_changes_the_server_or_the_shape_of_an_address(one: str, two: str) -> None:
    names = Names(variables={}, opaque={"one": one, "two": two})
    config = {"url": "https://api.example/a/{one}x/b?q={two}", "query": {"r": "{one}"}}

    url = http_plan(config, names, timeout_s=1).request.url

    site, _, target = url.removeprefix("https://").partition("/")
    path, _, query = target.partition("?")
    assert site == "api.example"
    assert path.count("/") == 2
    assert query.count("&") == 1
    assert "#" not in url


def test_a_parameter_is_never_read_as_a_template(workspace: Workspace) -> None:
    workspace.env["API_TOKEN"] = "s3cr3t"
    with Server(lambda e: e.answer(200, e.seen.body)) as server:
        body = {"a": "{a}", "b": "<{a}>"}
        tool(workspace, {"method": "POST", "url": server.url, "body": body})
        result = workspace.run("api", params={"a": "${API_TOKEN} {b} {project_path}"})

    assert result.data["body"] == {
        "a": "${API_TOKEN} {b} {project_path}",
        "b": "<${API_TOKEN} {b} {project_path}>",
    }


@pytest.mark.parametrize("name", ["url", "auth", "headers", "proxy", "tool_path", "env"])
def test_a_parameter_replaces_no_part_of_a_signed_config(workspace: Workspace, name: str) -> None:
    with Server(lambda e: e.answer()) as server:
        tool(workspace, {"url": f"{server.url}/fixed"})
        workspace.run("api", params={name: {"X": "http://name.invalid"}})

    assert [seen.target for seen in server.requests] == ["/fixed"]


def test_the_env_file_of_a_project_cannot_listen_in(workspace: Workspace) -> None:
    workspace.env["API_TOKEN"] = "s3cr3t"
    with Server(lambda e: e.answer()) as server, Server(lambda e: e.answer()) as thief:
        names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
        dotenv = "".join(f"{name}={thief.url}\n" for name in names)
        (workspace.project_path / ".env").write_text(dotenv, "utf-8")
        tool(workspace, {"url": server.url, "auth": {"type": "bearer", "token": "${API_TOKEN}"}})
        workspace.run("api")

    assert (len(server.requests), thief.requests) == (1, [])


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "//\\evil"])
def test_a_server_cannot_send_us_to_no_web_server(workspace: Workspace, location: str) -> None:
    with Server(lambda e: e.answer(302, b"", Location=location)) as server:
        tool(workspace, {"url": server.url})
        result = workspace.run("api")

    assert result.metadata["error_code"] == "HTTP_REDIRECT"


def test_endless_headers_end(workspace: Workspace) -> None:
    def endless(exchange: Exchange) -> None:
        exchange.write(b"HTTP/1.1 200 OK\r\n")
        while exchange.write(b"X: " + b"y" * 1000 + b"\r\n"):
            pass

    with Server(endless) as server:
        tool(workspace, {"url": server.url})
        result = workspace.run("api")

    assert result.metadata["error_code"] == "HTTP_BROKEN"
    assert result.error is not None
    assert "more than 100 headers" in result.error


def test_an_event_without_end_ends(workspace: Workspace) -> None:
    def endless(exchange: Exchange) -> None:
        exchange.begin(200, Content_Type="text/event-stream")
        while exchange.write(b"data: " + b"x" * 60_000):
            pass

    with Server(endless) as server:
        tool(workspace, {"url": server.url, "mode": "stream"})
        result = workspace.run("api")

    assert result.metadata["error_code"] == "RESOURCE_EXCEEDED"
