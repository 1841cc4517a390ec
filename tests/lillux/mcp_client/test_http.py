"""Calls over HTTP, of servers of the official SDK and of servers that behave oddly."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Queue
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient
from lillux.http.errors import HttpClientError, InvalidRequestError
from lillux.mcp_client.errors import (
    McpAnswerTooLargeError,
    McpAuthError,
    McpCancelledError,
    McpProtocolError,
    McpRefusedError,
    McpTimeoutError,
)
from lillux.mcp_client.http import call_over_http
from lillux.mcp_client.http_line import HttpServer
from lillux.mcp_client.session import ClientInfo, ToolAnswer, ToolCall
from lillux.mcp_client.versions import LEGACY, MODERN, NEWEST_LEGACY, wanted
from tests.support.http_servers import Exchange, Server
from tests.support.mcp_servers import sdk_over_http

JSON = "application/json"
EVENTS = "text/event-stream"


def ask(
    url: str,
    tool: str = "t",
    *,
    version: str = "auto",
    arguments: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - of `HttpServer` and `call_over_http`
) -> ToolAnswer:
    options = {name: settings.pop(name) for name in ("cancellation", "on_text") & settings.keys()}
    server = HttpServer(
        url=url, name="odd", **{"timeout_s": 30, "max_message_bytes": 100_000, **settings}
    )
    call = ToolCall(tool, arguments or {})
    with HttpClient({}) as client:
        return call_over_http(
            client, server, call, ClientInfo("rye", "1"), wanted(version), **options
        )


# --- servers written with the official SDK


@pytest.fixture(scope="module", params=["stream", "json", "stateless", "sse"])
def sdk(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    with sdk_over_http(request.param) as url:
        yield request.param, url


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["auto", "legacy", *LEGACY])
def test_a_server_of_the_sdk_is_called_over_each_transport(
    sdk: tuple[str, str], version: str
) -> None:
    kind, url = sdk

    answer = ask(url, "add", version=version, arguments={"a": 2, "b": 3})

    spoken = {"auto": NEWEST_LEGACY if kind == "sse" else MODERN, "legacy": NEWEST_LEGACY}
    assert answer.result["content"][0]["text"] == "5"
    assert answer.version == spoken.get(version, version)


@pytest.mark.heavy
def test_progress_of_the_sdk_is_reported_as_a_line() -> None:
    lines: list[bytes] = []

    with sdk_over_http("stream") as url:
        ask(url, "progress", on_text=lines.append)

    assert lines == [b"progress 1/2 half of it\n"]


# --- scripted servers


class Script:
    """An MCP server in parts that a test replaces; keeps its requests."""

    def __init__(self, revisions: str = "legacy") -> None:
        self.revisions = revisions
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []
        self.on: dict[str, Callable[[Exchange, Any], None]] = {}

    def __call__(self, exchange: Exchange) -> None:
        seen = exchange.seen
        message = json.loads(seen.body) if seen.body else {}
        method = str(message.get("method", "an answer")) if seen.method == "POST" else ""
        self.requests.append((seen.method, method, seen.headers))
        handler = self.on.get(f"{seen.method} {method}".strip()) or self.on.get(seen.method)
        if handler:
            handler(exchange, message)
        else:
            self.usual(exchange, message)

    def usual(self, exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        match message.get("method"):
            case "server/discover" if self.revisions == "legacy":
                exchange.answer(400, b"Bad Request: no session")
            case "server/discover":
                reply(exchange, message, {"supportedVersions": [MODERN]})
            case "initialize":
                result = {"protocolVersion": message["params"]["protocolVersion"]}
                reply(exchange, message, result, mcp_session_id="session-1")
            case "tools/call":
                reply(exchange, message, content("called"))
            case _:
                exchange.answer(202 if exchange.seen.method == "POST" else 200)

    def methods(self) -> list[str]:
        return [method or http for http, method, _ in self.requests]

    def headers(self, method: str) -> Mapping[str, str]:
        return next(headers for http, name, headers in self.requests if method in (name, http))


def content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def rpc(message: Any, result: Mapping[str, Any]) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def reply(exchange: Exchange, message: Any, result: Mapping[str, Any], **headers: str) -> None:  # noqa: ANN401
    exchange.answer(200, rpc(message, result), content_type=JSON, **headers)


def event(data: bytes, name: str = "message", number: str = "") -> bytes:
    head = f"event: {name}\n" + (f"id: {number}\n" if number else "")
    return head.encode() + b"data: " + data + b"\n\n"


@contextmanager
def serving(script: Script) -> Iterator[str]:
    with Server(script) as server:
        yield f"{server.url}/mcp"


def text_of(answer: ToolAnswer) -> str:
    return str(answer.result["content"][0]["text"])


def test_a_session_of_an_older_revision_is_kept_and_deleted() -> None:
    script = Script()

    with serving(script) as url:
        answer = ask(url)

    assert (text_of(answer), answer.version) == ("called", NEWEST_LEGACY)
    assert script.methods() == [
        *("server/discover", "initialize", "notifications/initialized", "tools/call", "DELETE")
    ]
    for method in ("notifications/initialized", "tools/call", "DELETE"):
        headers = script.headers(method)
        assert headers["mcp-session-id"] == "session-1"
        assert headers["mcp-protocol-version"] == NEWEST_LEGACY
    assert "mcp-protocol-version" not in script.headers("initialize")


def test_headers_of_the_modern_revision_repeat_the_message() -> None:
    script = Script("modern")
    schema = {
        "properties": {
            "city": {"type": "string", "x-mcp-header": "City"},
            "deep": {"properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "bad": {"type": "string", "x-mcp-header": "no\r\nheader"},
            "unsaid": {"type": "string", "x-mcp-header": "Unsaid"},
        }
    }
    arguments = {"city": "Zürich\r\nX: y", "deep": {"on": True}, "bad": "x"}

    with serving(script) as url:
        ask(url, "a tool", arguments=arguments, schema=schema)

    assert script.methods() == ["server/discover", "tools/call"]
    headers = script.headers("tools/call")
    assert headers["mcp-protocol-version"] == MODERN
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"] == "a tool"
    assert headers["mcp-param-city"] == "=?base64?WsO8cmljaA0KWDogeQ==?="
    assert headers["mcp-param-on"] == "true"
    assert headers["accept"] == f"{JSON}, {EVENTS}"
    assert not {"mcp-session-id", "x", "mcp-param-unsaid"} & headers.keys()


def test_a_forgotten_session_is_begun_again_once() -> None:
    script = Script()

    def forget_once(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        del script.on["POST tools/call"]
        exchange.answer(404, message["method"].encode())

    script.on["POST tools/call"] = forget_once

    with serving(script) as url:
        assert text_of(ask(url)) == "called"

    assert script.methods().count("initialize") == 2


def test_a_server_that_always_forgets_is_given_up() -> None:
    script = Script()
    script.on["POST tools/call"] = lambda exchange, _: exchange.answer(404)

    with serving(script) as url, pytest.raises(McpProtocolError) as error:
        ask(url)

    assert str(error.value) == "MCP server odd: it forgets its session"


def test_events_before_the_answer_are_followed_while_the_stream_is_open() -> None:
    script = Script()
    lines: list[bytes] = []
    answered = threading.Event()

    def stream(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        progress = {"progressToken": 3, "progress": 7}
        exchange.write(b": a comment\n\n" + event(b"{]"))
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        exchange.write(event(json.dumps(notification).encode()))
        exchange.write(event(b'{"jsonrpc": "2.0", "id": "p", "method": "ping"}'))
        assert answered.wait(20)
        exchange.write(event(rpc(message, content("at last"))))

    def take(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        assert message == {"jsonrpc": "2.0", "id": "p", "result": {}}
        answered.set()
        exchange.answer(202)

    script.on = {"POST tools/call": stream, "POST an answer": take}

    with serving(script) as url:
        assert text_of(ask(url, on_text=lines.append)) == "at last"
    assert lines[-1] == b"progress 7\n"


def test_a_stream_that_was_let_go_is_taken_up_again() -> None:
    script = Script()
    sent: list[Any] = []

    def let_go(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        sent.append(message)
        exchange.begin(content_type=EVENTS)
        exchange.write(b"retry: 1\n" + event(b"", number="e-1"))

    def go_on(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(event(rpc(sent[0], content("resumed"))))

    script.on = {"POST tools/call": let_go, "GET": go_on}

    with serving(script) as url:
        assert text_of(ask(url)) == "resumed"
    assert script.headers("GET")["last-event-id"] == "e-1"


def test_a_stream_is_resumed_behind_the_last_whole_event() -> None:
    script = Script()
    sent: list[Any] = []

    def let_go(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        sent.append(message)
        exchange.begin(content_type=EVENTS)
        half = event(rpc(message, content("whole")), number="e-2").rstrip(b"\n")[:-9]
        exchange.write(b"retry: 1\n" + event(b"", number="e-1") + half)

    def go_on(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(b"\xef\xbb\xbf" + event(rpc(sent[0], content("whole")), number="e-2"))

    script.on = {"POST tools/call": let_go, "GET": go_on}

    with serving(script) as url:
        assert text_of(ask(url)) == "whole"
    assert script.headers("GET")["last-event-id"] == "e-1"


def waits(over: threading.Event) -> None:
    """A handler that answers nothing until the test is over."""
    over.wait(20)


def test_a_server_that_takes_the_probe_without_an_answer_is_called_in_the_older_way() -> None:
    script = Script()
    script.on = {"POST server/discover": lambda exchange, _: exchange.answer(202)}

    with serving(script) as url:
        assert ask(url).version == NEWEST_LEGACY


def test_a_server_that_keeps_silent_at_the_probe_is_waited_for_once() -> None:
    script, silent = Script(), list[bool]()
    over = threading.Event()
    script.on = {"POST server/discover": lambda _exchange, _: waits(over)}

    with serving(script) as url:
        answer = ask(url, probe_s=0.2, on_ignored_probe=lambda: silent.append(True))
        over.set()

    assert (answer.version, silent) == (NEWEST_LEGACY, [True])


def test_a_server_that_never_begins_is_given_up_long_before_the_limit_of_a_call() -> None:
    script, over = Script(), threading.Event()
    script.on = {"POST": lambda _exchange, _: waits(over)}

    with serving(script) as url, pytest.raises(McpTimeoutError) as error:
        ask(url, timeout_s=300, probe_s=0.1, start_s=0.3)
    over.set()

    assert error.value.timeout_s == 0.3


@pytest.mark.parametrize("events", [b": here\n\n", b"event: endpoint\ndata: /messages\n\n"])
def test_an_old_server_whose_events_say_nothing_is_given_up_long_before_the_limit_of_a_call(
    events: bytes,
) -> None:
    script = Script()

    def listen(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(events)
        exchange.wait()

    def take(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.answer(202 if exchange.path == "/messages" else 405)

    script.on = {"POST": take, "GET": listen}

    with serving(script) as url, pytest.raises(McpTimeoutError) as error:
        ask(url, timeout_s=300, start_s=0.5)

    assert (error.value.stage, error.value.timeout_s) == ("start of the conversation", 0.5)


def test_an_old_server_may_take_its_time_for_the_tool_alone() -> None:
    script, said = Script(), Queue[bytes]()

    def listen(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(b"event: endpoint\ndata: /messages\n\n")
        for _count in range(2):
            exchange.write(said.get())

    def take(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        exchange.answer(202 if exchange.path == "/messages" else 405)
        if exchange.path == "/messages" and message["method"] == "initialize":
            begun = {"protocolVersion": "2024-11-05", "capabilities": {}}
            said.put(event(rpc(message, {**begun, "serverInfo": {"name": "s", "version": "1"}})))
        if exchange.path == "/messages" and message["method"] == "tools/call":
            exchange.wait(1)
            said.put(event(rpc(message, content("late"))))

    script.on = {"POST": take, "GET": listen}

    with serving(script) as url:
        assert text_of(ask(url, start_s=0.5)) == "late"


def test_an_answer_whose_id_is_text_is_the_answer() -> None:
    script = Script()

    def answer(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(event(rpc({**message, "id": str(message["id"])}, content("taken"))))

    script.on = {"POST tools/call": answer}

    with serving(script) as url:
        assert text_of(ask(url)) == "taken"


def test_a_stream_that_ends_without_an_answer_is_reported() -> None:
    script = Script()

    def end(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)

    script.on = {"POST tools/call": end}

    with serving(script) as url, pytest.raises(McpProtocolError) as error:
        ask(url)

    assert str(error.value) == "MCP server odd: it took a request and never answered"


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_reported_and_not_tried_in_other_ways(status: int) -> None:
    script = Script()
    script.on = {"POST": lambda exchange, _: exchange.answer(status)}

    with serving(script) as url, pytest.raises(McpAuthError) as error:
        ask(url)

    assert (error.value.code, error.value.status) == ("AUTH_FAILED", status)
    assert script.methods() == ["server/discover"]


def test_an_error_in_the_body_of_a_refusal_is_the_answer() -> None:
    script = Script("modern")
    failure = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "headers"}}
    body = json.dumps(failure).encode()
    script.on = {"POST tools/call": lambda e, _: e.answer(400, body, content_type=JSON)}

    with serving(script) as url, pytest.raises(McpRefusedError) as error:
        ask(url)

    assert str(error.value) == "MCP server odd: headers (-32020)"


def test_an_answer_that_is_too_large_is_refused() -> None:
    script = Script("modern")
    script.on = {"POST tools/call": lambda e, m: reply(e, m, content("x" * 300_000))}

    with serving(script) as url, pytest.raises(McpAnswerTooLargeError):
        ask(url)


def test_an_event_without_end_is_refused() -> None:
    script = Script("modern")

    def flood(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(b"data: ")
        while exchange.write(b"x" * 65536):
            pass

    script.on = {"POST tools/call": flood}

    with serving(script) as url, pytest.raises(McpAnswerTooLargeError):
        ask(url)


def test_a_server_that_never_answers_is_left_in_time() -> None:
    script = Script("modern")
    script.on = {"POST tools/call": lambda exchange, _: exchange.wait()}

    with serving(script) as url, pytest.raises(McpTimeoutError) as error:
        ask(url, timeout_s=0.5)

    assert str(error.value) == "MCP server odd: tools/call: no answer within 0.5 seconds"


def test_an_endless_slow_stream_is_left_in_time() -> None:
    script = Script("modern")

    def drip(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        while exchange.write(b": still here\n\n"):
            exchange.server.stopping.wait(0.01)

    script.on = {"POST tools/call": drip}

    with serving(script) as url, pytest.raises(McpTimeoutError):
        ask(url, timeout_s=0.5)


def test_a_cancellation_is_noticed_while_the_server_is_silent() -> None:
    script, cancellation = Script("modern"), Cancellation()

    def cancel(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        cancellation.cancel()
        exchange.wait()

    script.on = {"POST tools/call": cancel}

    with serving(script) as url, pytest.raises(McpCancelledError):
        ask(url, cancellation=cancellation)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
def test_a_header_cannot_begin_another(value: str) -> None:
    script = Script()

    with serving(script) as url, pytest.raises(InvalidRequestError):
        ask(url, headers={"X-Key": value})

    assert script.requests == []


def test_an_invalid_session_id_is_not_sent_back() -> None:
    script = Script()

    def initialize(exchange: Exchange, message: Any) -> None:  # noqa: ANN401 - JSON
        result = {"protocolVersion": NEWEST_LEGACY}
        reply(exchange, message, result, mcp_session_id="with blank")

    script.on = {"POST initialize": initialize}

    with serving(script) as url:
        ask(url)

    assert "mcp-session-id" not in script.headers("tools/call")


# --- the transport of 2024-11-05


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9/x", "//evil.example/x", "ftp:x", "http://["]
)
def test_an_endpoint_on_another_host_is_refused(endpoint: str) -> None:
    script = Script()

    def events(exchange: Exchange, _: Any) -> None:  # noqa: ANN401 - JSON
        exchange.begin(content_type=EVENTS)
        exchange.write(event(endpoint.encode(), "endpoint"))

    script.on = {"GET": events, "POST": lambda exchange, _: exchange.answer(405)}

    with serving(script) as url, pytest.raises(McpProtocolError) as error:
        ask(url)

    assert "expected an endpoint on its own host" in str(error.value)


def test_an_address_of_no_mcp_server_is_reported() -> None:
    script = Script()
    script.on = {
        "GET": lambda exchange, _: exchange.answer(200, b"<html>", content_type="text/html"),
        "POST": lambda exchange, _: exchange.answer(404),
    }

    with serving(script) as url, pytest.raises(McpProtocolError) as error:
        ask(url)

    assert str(error.value) == (
        "MCP server odd: it takes neither a POST (HTTP 404 Not Found)"
        " nor a stream of events (HTTP 200)"
    )


def test_a_server_that_is_broken_is_reported_with_its_status() -> None:
    script = Script()
    script.on = {"POST": lambda exchange, _: exchange.answer(502)}

    with serving(script) as url, pytest.raises(McpRefusedError) as error:
        ask(url)

    assert "HTTP 502 Bad Gateway" in str(error.value)


def test_no_server_at_all_is_an_error_of_http() -> None:
    with pytest.raises(HttpClientError):
        ask("http://127.0.0.1:9/mcp")
