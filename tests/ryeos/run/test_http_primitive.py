"""HTTP tools: from a signed YAML file to a real server and back."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.run.engine import PrimitiveExecutor
from ryeos.run.http import HttpClientPrimitive, HttpResult
from ryeos.run.http_sinks import ReturnSink
from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.certificates import authority_file, context_for
from tests.support.http_servers import Exchange, Server, closed_port, proxy
from tests.support.workspace import Workspace

HTTP_CLIENT = "rye/core/primitives/http_client"
SECRET = "s3cr3t-value"


def tool(workspace: Workspace, config: dict[str, Any], **header: Any) -> None:  # noqa: ANN401
    """A signed tool ``api`` of the project with this config."""
    body = f"config: {json.dumps(config)}\n"
    body += "".join(f"{name}: {json.dumps(value)}\n" for name, value in header.items())
    workspace.project.signed_yaml("api", body, executor=HTTP_CLIENT)


def run(workspace: Workspace, **params: Any) -> ExecutionResult:  # noqa: ANN401 - JSON
    return workspace.run("api", params=params)


def echo(exchange: Exchange) -> None:
    seen = exchange.seen
    answer = {"method": seen.method, "target": seen.target, "body": seen.body.decode()}
    exchange.answer(200, json.dumps(answer).encode(), Content_Type="application/json")


@pytest.fixture
def secretive(workspace: Workspace) -> Workspace:
    """A workspace with a secret in its environment."""
    workspace.env["API_TOKEN"] = SECRET
    return workspace


# --- a request and its result


def test_a_request_tool_needs_no_program(workspace: Workspace) -> None:
    with Server(echo) as server:
        tool(workspace, {"url": f"{server.url}/users/{{id}}", "query": {"full": True}})
        result = run(workspace, id="7")

    assert (result.success, result.error) == (True, None)
    assert result.data["status_code"] == 200
    assert result.data["body"] == {"method": "GET", "target": "/users/7?full=true", "body": ""}
    assert result.data["headers"]["content-type"] == "application/json"
    assert server.requests[0].headers["user-agent"].startswith("rye/")
    assert [element["item_id"] for element in result.chain] == ["api", HTTP_CLIENT]


@pytest.mark.parametrize("method", ["POST", "put", "PATCH", "DELETE"])
def test_a_body_is_json_with_the_types_of_parameters(workspace: Workspace, method: str) -> None:
    body = {"n": "{n}", "list": ["{n}", "x{n}"], "text": "{text}", "fixed": None}
    with Server(echo) as server:
        tool(workspace, {"method": method, "url": server.url, "body": body})
        run(workspace, n=7, text="{n} ${HOME}")

    seen = server.requests[0]
    assert seen.method == method.upper()
    assert seen.headers["content-type"] == "application/json"
    assert json.loads(seen.body) == {
        "n": 7,
        "list": [7, "x7"],
        "text": "{n} ${HOME}",
        "fixed": None,
    }


def test_a_text_body_is_sent_unchanged(workspace: Workspace) -> None:
    with Server(echo) as server:
        headers = {"Content-Type": "text/csv"}
        config = {"method": "POST", "url": server.url, "headers": headers, "body": "a,{b}\n"}
        tool(workspace, config)
        run(workspace, b="ü")

    assert server.requests[0].body == "a,ü\n".encode()
    assert server.requests[0].headers["content-type"] == "text/csv"


def test_a_parameter_cannot_leave_its_place_in_an_address(workspace: Workspace) -> None:
    with Server(echo) as server:
        tool(workspace, {"url": f"{server.url}/u/{{id}}/x?q={{q}}", "query": {"r": "{q}"}})
        run(workspace, id="../a?b#c%2f", q="1&admin=true ü")

    assert server.requests[0].target == (
        "/u/..%2Fa%3Fb%23c%252f/x?q=1%26admin%3Dtrue%20%C3%BC&r=1%26admin%3Dtrue%20%C3%BC"
    )


@pytest.mark.parametrize("value", [".", ".."])
def test_a_parameter_cannot_add_parent_segments(workspace: Workspace, value: str) -> None:
    tool(workspace, {"url": "http://127.0.0.1:9/u/{id}/x"})

    assert run(workspace, id=value).error == ("config.url: expected a path without . and .. in it")


def test_lists_of_a_query_are_repeated_and_nulls_left_out(workspace: Workspace) -> None:
    with Server(echo) as server:
        tool(workspace, {"url": f"{server.url}/?a=1#top", "params": {"b": "{b}", "c": "{c}"}})
        run(workspace, b=[1, "x y"], c=None)

    assert server.requests[0].target == "/?a=1&b=1&b=x%20y"


def test_optional_parameters_leave_their_entries_out(workspace: Workspace) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    config = {"query": {"a": "{a}", "b": "{b}"}, "body": {"a": "{a}", "x": [{"b": "{b}"}]}}
    with Server(echo) as server:
        tool(workspace, {"url": server.url, "method": "POST", **config}, config_schema=schema)
        run(workspace, a="1")

    assert server.requests[0].target == "/?a=1"
    assert json.loads(server.requests[0].body) == {"a": "1", "x": [{}]}


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"url": "http://h/{name}"}, "config.url"),
        ({"url": "http://h", "query": {"q": "{name}"}}, "config.query.q"),
        ({"url": "http://h", "headers": {"X": "a {name}"}}, "config.headers.X"),
        ({"url": "http://h", "body": {"a": [{"b": "{name}"}]}}, "config.body"),
        ({"url": "http://h", "auth": {"type": "bearer", "token": "{name}"}}, "config.auth.token"),
    ],
)
def test_a_missing_parameter_is_named(
    workspace: Workspace, config: dict[str, Any], where: str
) -> None:
    tool(workspace, config)
    result = run(workspace)

    assert result.error == f"{where}: expected the parameter 'name', which was not given"
    assert result.failure is not None
    assert result.failure.hint == "give it: name=..."


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({}, "config.url: expected an address, got none"),
        ({"url": 7}, "config.url: expected an address, got none"),
        ({"url": "http://h", "headers": []}, "config.headers: expected a mapping, got list"),
        ({"url": "http://h", "auth": {"type": "x"}}, "config.auth.type: expected bearer or"),
        ({"url": "http://h", "retry": 3}, "config.retry: expected a mapping, got integer"),
        ({"url": "http://h", "retry": {"max_attempts": 0}}, "config.retry.max_attempts: expect"),
        ({"url": "http://h", "retry": {"backoff": "x"}}, "config.retry.backoff: expected expo"),
        ({"url": "http://h", "retry": {"on_status": 5}}, "config.retry.on_status: expected a"),
        ({"url": "http://h", "mode": "x"}, "config.mode: expected sync or stream, got 'x'"),
        ({"url": "http://h", "method": "BREW"}, "config.method: expected one of GET, POST"),
        ({"url": "http://h", "max_response_bytes": 0}, "config.max_response_bytes: expected a"),
        ({"url": "ftp://h"}, "ftp://h: expected http:// or https://, got ftp"),
        ({"url": "http://u:p@h/"}, "http://h/: expected no user and password in an address"),
        (
            {"url": "http://h", "mode": "stream", "stream": {"destinations": [{"type": "x"}]}},
            "config.stream.destinations[0].type: expected return, file or null, got 'x'",
        ),
        (
            {"url": "http://h", "mode": "stream", "stream": {"transport": "websocket"}},
            "config.stream.transport: expected sse, got 'websocket'",
        ),
    ],
)
def test_a_wrong_config_is_an_error_before_anything_is_sent(
    workspace: Workspace, config: dict[str, Any], error: str
) -> None:
    tool(workspace, config)
    result = run(workspace)

    assert result.error is not None
    assert result.error.startswith(error)
    assert result.failure is not None
    assert result.failure.exit_status == 6


# --- responses


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/json", b"[1, null]", [1, None]),
        ("text/plain", b'{"a": 1}', {"a": 1}),
        ("text/plain; charset=latin-1", b"\xfc", "ü"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b"1e999", "1e999"),
        ("", b"", ""),
        ("", "wörter".encode(), "wörter"),
        (
            "image/png",
            b"\x89PNG\0",
            {"encoding": "base64", "content_type": "image/png", "data": "iVBORwA="},
        ),
    ],
)
def test_a_body_becomes_a_json_value(
    workspace: Workspace, content_type: str, body: bytes, value: object
) -> None:
    with Server(lambda e: e.answer(200, body, Content_Type=content_type)) as server:
        tool(workspace, {"url": server.url})

        assert run(workspace).data["body"] == value


def test_a_status_from_400_on_is_a_failed_tool(workspace: Workspace) -> None:
    with Server(lambda e: e.answer(404, b'{"why": "no"}')) as server:
        tool(workspace, {"url": server.url})
        result = run(workspace)

    assert (result.success, result.failure) == (False, None)
    assert result.error == "HTTP 404: Not Found"
    assert (result.data["status_code"], result.data["body"]) == (404, {"why": "no"})
    assert result.metadata["error_code"] == "EXECUTION_FAILED"


def test_a_server_out_of_reach_is_a_failed_tool(workspace: Workspace) -> None:
    url = f"http://127.0.0.1:{closed_port()}/"
    tool(workspace, {"url": url})
    result = run(workspace)

    assert result.error == (
        f"Request failed after 1 attempt: {url}: no connection: Connection refused"
    )
    assert result.data == {"status_code": 0, "body": None, "headers": {}}
    assert result.metadata["error_code"] == "HTTP_UNREACHABLE"


def test_the_tools_timeout_bounds_it(workspace: Workspace) -> None:
    with Server(lambda e: e.wait(60)) as server:
        tool(workspace, {"url": server.url, "timeout": 0.2})
        result = run(workspace)

    assert result.error is not None
    assert "no whole response within 0.2 seconds" in result.error
    assert result.metadata["error_code"] == "TIMEOUT"


def test_the_callers_timeout_bounds_all_attempts(workspace: Workspace) -> None:
    with Server(lambda e: e.answer(503, b"", Retry_After="30")) as server:
        retry = {"max_attempts": 3, "on_status": [503]}
        tool(workspace, {"url": server.url, "retry": retry})
        result = workspace.run("api", timeout_s=5)

    assert (result.error, len(server.requests)) == ("HTTP 503: Service Unavailable", 1)


def test_attempts_are_made_again_and_reported(workspace: Workspace) -> None:
    statuses = [429, 503, 200]
    with Server(lambda e: e.answer(statuses.pop(0), b"", Retry_After="0")) as server:
        tool(workspace, {"url": server.url, "retry": {"max_attempts": 3, "on_status": [429, 503]}})
        result = run(workspace)

    assert (result.success, result.metadata["attempts"]) == (True, 3)


def test_a_cancellation_ends_it(workspace: Workspace) -> None:
    cancellation = Cancellation()

    def hang(exchange: Exchange) -> None:
        threading.Timer(0.05, cancellation.cancel).start()
        exchange.wait(60)

    with Server(hang) as server:
        tool(workspace, {"url": server.url})
        result = workspace.rye().executor.execute(
            ExecutionRequest(item_id="api", parameters={}), cancellation=cancellation
        )

    assert result.metadata["error_code"] == "CANCELLED"


def test_a_body_above_the_cap_is_a_failed_tool(workspace: Workspace) -> None:
    with Server(lambda e: e.answer(200, b"x" * 101)) as server:
        tool(workspace, {"url": server.url, "max_response_bytes": 100})
        result = run(workspace)

    assert result.error is not None
    assert "expected a body of at most 100 bytes, got more" in result.error
    assert result.metadata["error_code"] == "RESOURCE_EXCEEDED"


# --- secrets

BEARER = {"type": "bearer", "token": "${API_TOKEN}"}
API_KEY = {"type": "api_key", "key": "${API_TOKEN}"}


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        (BEARER, "authorization", f"Bearer {SECRET}"),
        (API_KEY, "x-api-key", SECRET),
        ({**API_KEY, "header": "X-Other"}, "x-other", SECRET),
    ],
)
def test_authorization_is_sent_and_never_shown(
    secretive: Workspace, auth: dict[str, str], name: str, value: str
) -> None:
    with Server(lambda e: e.answer(500, b"")) as server:
        config = {"url": server.url, "auth": auth, "query": {"k": "${API_TOKEN}"}}
        tool(secretive, config | {"method": "POST", "body": {"t": "${API_TOKEN}"}})
        result = secretive.run("api", trace=True)
        dry = secretive.run("api", dry_run=True, trace=True)

    assert server.requests[0].headers[name] == value
    assert server.requests[0].target == f"/?k={SECRET}"
    for shown in (repr(result), repr(dry)):
        assert SECRET not in shown
    request = dry.metadata["request"]
    assert {key.lower(): one for key, one in request["headers"].items()}[name] == "***"
    assert request["url"] == f"{server.url}?k=***"
    assert request["body"] == {"t": "***"}


@pytest.mark.parametrize("auth", [BEARER, API_KEY, {"type": "bearer", "token": "${X:-}"}])
@pytest.mark.parametrize("env", [{}, {"API_TOKEN": ""}])
def test_a_missing_secret_is_an_error_and_no_empty_one_is_sent(
    workspace: Workspace, auth: dict[str, str], env: dict[str, str]
) -> None:
    workspace.env.update(env)
    with Server(echo) as server:
        tool(workspace, {"url": server.url, "auth": auth})
        result = run(workspace)

    assert result.error is not None
    assert result.error.endswith("_TOKEN, which is not set") or "X, which is" in result.error
    assert server.requests == []


def test_a_secret_header_without_its_variable_is_an_error(workspace: Workspace) -> None:
    tool(workspace, {"url": "http://h", "headers": {"Authorization": "Basic ${API_TOKEN}"}})

    assert run(workspace).error == (
        "config.headers.Authorization: expected the environment variable API_TOKEN,"
        " which is not set"
    )


@pytest.mark.parametrize("url", ["{target}", "http://{target}/x", "http://h.{target}/"])
def test_secrets_go_to_no_server_that_a_caller_chooses(secretive: Workspace, url: str) -> None:
    with Server(echo) as server:
        tool(secretive, {"url": url, "auth": BEARER})
        result = run(secretive, target=server.url)

    assert result.error == (
        "config.url: expected a server that the caller does not choose,"
        " because secrets are sent to it"
    )
    assert server.requests == []


def test_without_secrets_a_caller_may_choose_the_whole_address(workspace: Workspace) -> None:
    with Server(echo) as server:
        tool(workspace, {"url": "{url}"})

        assert run(workspace, url=f"{server.url}/a?b=c").data["body"]["target"] == "/a?b=c"


def test_secrets_over_plain_http_to_other_hosts_give_a_warning(
    secretive: Workspace,
) -> None:
    tool(secretive, {"url": "http://name.invalid/", "auth": BEARER})

    [warning] = secretive.run("api", dry_run=True).metadata["warnings"]

    assert warning == (
        "secrets (authorization) go to name.invalid over http, where others can read them:"
        " use https"
    )


def test_secrets_do_not_follow_a_redirect_to_another_server(
    secretive: Workspace,
) -> None:
    with Server(echo) as other, Server(lambda e: e.answer(302, b"", Location=other.url)) as server:
        headers = {"X-Mine": "${API_TOKEN}"}
        auth = {**API_KEY, "header": "X-Other"}
        tool(secretive, {"url": server.url, "headers": headers, "auth": auth})
        run(secretive)

    assert server.requests[0].headers["x-mine"] == SECRET
    assert SECRET not in repr(other.requests)


def test_proxies_and_authorities_come_from_the_process_and_signed_items_only(
    workspace: Workspace, tmp_path: Path
) -> None:
    with Server(echo) as server, proxy() as between:
        (workspace.project_path / ".env").write_text(f"HTTP_PROXY={between.url}\n", "utf-8")
        tool(workspace, {"url": server.url})
        assert run(workspace).success
        assert between.lines == []

        tool(workspace, {"url": server.url}, env_config={"env": {"HTTP_PROXY": between.url}})
        assert workspace.run("api", use_lockfile=False).success
        assert len(between.lines) == 1


def test_a_server_with_tls_is_trusted_by_a_named_authority(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.env["SSL_CERT_FILE"] = str(authority_file(tmp_path))
    with Server(echo, context_for("localhost")) as server:
        tool(workspace, {"url": server.url})

        assert run(workspace).success


# --- streams


def events(*data: str) -> Callable[[Exchange], None]:
    def reply(exchange: Exchange) -> None:
        exchange.begin(200, Content_Type="text/event-stream; charset=utf-8")
        for one in data:
            exchange.write(f": note\nevent: e\ndata: {one}\n\n".encode())

    return reply


def stream(workspace: Workspace, url: str, *destinations: dict[str, Any], **more: object) -> None:
    tool(
        workspace,
        {"url": url, "mode": "stream", "stream": {"destinations": [*destinations]}, **more},
    )


def test_the_events_of_a_stream_are_the_body(workspace: Workspace) -> None:
    with Server(events("1", "", '{"a":2}')) as server:
        tool(workspace, {"url": server.url, "mode": "stream"})
        result = run(workspace)

    assert result.data["body"] == ["1", '{"a":2}']
    assert result.metadata["stream"] == {
        "events": 2,
        "destinations": ["ReturnSink"],
        "dropped": 0,
    }
    assert server.requests[0].headers["accept"] == "text/event-stream"


def test_events_go_to_every_sink(workspace: Workspace) -> None:
    with Server(events("1", "two", '{"a": 3}')) as server:
        stream(
            workspace,
            server.url,
            {"type": "return", "max_size": 1},
            {"type": "file", "path": "logs/{name}.jsonl"},
            {"type": "file", "path": "logs/raw.txt", "format": "raw"},
            {"type": "null"},
        )
        result = run(workspace, name="a")
        again = run(workspace, name="a")

    logs = workspace.project_path / "logs"
    assert (result.data["body"], again.success) == (["1"], True)
    assert result.metadata["stream"]["dropped"] == 2
    assert (logs / "a.jsonl").read_text("utf-8") == '1\n"two"\n{"a": 3}\n' * 2
    assert (logs / "raw.txt").read_text("utf-8") == '1\ntwo\n{"a": 3}\n' * 2


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "link/x", ".ai/tools/x", "{up}/x"])
def test_a_file_of_events_stays_in_the_project(workspace: Workspace, path: str) -> None:
    (workspace.project_path / "link").symlink_to("..")
    with Server(events("1")) as server:
        stream(workspace, server.url, {"type": "file", "path": path})
        result = run(workspace, up="..")

    assert result.error is not None
    assert result.error.startswith("config.stream.destinations[0].path: expected a file ")
    assert server.requests == []


def test_a_signed_tool_may_write_outside_the_project(workspace: Workspace, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "x.txt"
    with Server(events("1")) as server:
        stream(
            workspace,
            server.url,
            {"type": "file", "path": str(target), "format": "raw", "outside_project": True},
        )
        run(workspace)

    assert target.read_text("utf-8") == "1\n"


def test_a_broken_stream_keeps_earlier_events(workspace: Workspace) -> None:
    def broken(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Content-Type", "text/event-stream")
        exchange.send_header("Content-Length", "1000")
        exchange.end_headers()
        exchange.write(b"data: 1\n\ndata: 2")
        exchange.reset()

    with Server(broken) as server:
        tool(workspace, {"url": server.url, "mode": "stream"})
        result = run(workspace)

    assert (result.success, result.data["body"]) == (False, ["1"])
    assert result.error is not None
    assert result.error.startswith("the stream ended early: ")
    assert result.metadata["error_code"] == "HTTP_BROKEN"


def test_an_endless_stream_is_ended_by_the_timeout(workspace: Workspace) -> None:
    def endless(exchange: Exchange) -> None:
        events("1")(exchange)
        exchange.wait(60)

    with Server(endless) as server:
        tool(workspace, {"url": server.url, "mode": "stream", "timeout": 0.3})
        result = run(workspace)

    assert (result.data["body"], result.metadata["error_code"]) == (["1"], "TIMEOUT")


def test_an_answer_that_is_not_a_stream_is_read_whole(workspace: Workspace) -> None:
    with Server(lambda e: e.answer(401, b'{"error": "who?"}')) as server:
        tool(workspace, {"url": server.url, "mode": "stream"})
        result = run(workspace)

    assert (result.error, result.data["body"]) == ("HTTP 401: Unauthorized", {"error": "who?"})
    assert result.metadata["stream"]["events"] == 0


# --- direct use


def test_the_primitive_has_one_id() -> None:
    assert PrimitiveExecutor.PRIMITIVE_MAP[HTTP_CLIENT] is HttpClientPrimitive
    assert len(PrimitiveExecutor.PRIMITIVE_MAP) == len(list(PrimitiveExecutor.PRIMITIVE_MAP))


def test_direct_use_gives_a_result() -> None:
    primitive = HttpClientPrimitive({"API_TOKEN": SECRET})
    with Server(echo) as server:
        config = {"url": f"{server.url}/{{a}}", "auth": BEARER}
        result = primitive.execute(config, {"a": "b"})

    assert (result.success, result.status_code, result.body["target"]) == (True, 200, "/b")
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_direct_use_raises_for_an_unknown_mode_only() -> None:
    with pytest.raises(ValueError, match=r"^Unknown mode: x$"):
        HttpClientPrimitive().execute({"url": "http://h"}, {"mode": "x"})

    assert HttpClientPrimitive().execute({}) == HttpResult(
        success=False,
        status_code=0,
        body=None,
        error="Unexpected error: config.url: expected an address, got none",
    )


def test_direct_use_gives_events_to_sinks_and_closes_them() -> None:
    class Sink:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def write(self, event: str) -> None:
            self.seen.append(event)

        def close(self) -> None:
            self.seen.append("closed")

    own, kept = Sink(), ReturnSink(max_size=1)
    with Server(events("1", "2")) as server:
        params = {"mode": "stream", "__sinks": [own, kept]}
        result = HttpClientPrimitive().execute({"url": server.url}, params)

    assert own.seen == ["1", "2", "closed"]
    assert (kept.get_events(), kept.dropped, result.body) == (["1"], 1, ["1"])
    assert result.stream_events_count == 2
    assert result.stream_destinations == ("Sink", "ReturnSink")
