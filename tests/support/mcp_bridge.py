"""A server on standard input and output, offered over streamable HTTP on loopback.

The official conformance suite speaks HTTP only. What the suite requires of HTTP itself (statuses,
headers, sessions) is done here; everything else is the server's.

(1) a request of the modern revision goes to one process that all such requests share
(2) ``initialize`` starts a process of its own: the session that its answer names in a header
(3) ids and progress tokens are replaced on the way in, since clients of one process know
    only their own, and restored on the way out
(4) a request is answered as JSON if only its answer is sent, else as a stream of events
"""

import json
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from tests.support.built import ROOT

MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
HEADER_MISMATCH = -32020
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# What the modern revision says of errors over HTTP; every other answer is 200.
STATUSES = dict.fromkeys((-32700, -32600, -32602, -32020, -32021, -32022), 400) | {-32601: 404}

Json = dict[str, Any]
Command = Sequence[str | Path]


@dataclass(slots=True)
class Exchange:
    """A request that is being answered. ``arrived`` ends with None."""

    id: object
    token: object
    arrived: SimpleQueue[Json | None] = field(default_factory=SimpleQueue)


@dataclass(frozen=True, slots=True)
class Place:
    """The command of a server, and a change of each request before it is passed on."""

    cwd: Path = ROOT
    environ: Mapping[str, str] | None = None
    translated: Callable[[Json], Json] = lambda request: request


class Conversation:
    """One process of the server."""

    def __init__(self, command: Command, place: Place) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=place.cwd,
            env=place.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._exchanges: dict[int, Exchange] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, request: Json) -> tuple[int, Exchange]:
        """Pass on a request, under a number of ours."""
        params = request.get("params", {})
        meta = params.get("_meta", {})
        exchange = Exchange(request["id"], meta.get("progressToken"))
        with self._lock:
            number = next(self._numbers)
            self._exchanges[number] = exchange
        if "progressToken" in meta:
            params = {**params, "_meta": {**meta, "progressToken": number}}
        self.send({**request, "id": number, "params": params})
        return number, exchange

    def send(self, message: Json) -> None:
        """Pass on a message as it is."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def cancel(self, number: int) -> None:
        """Give a request up, if its answer is not there yet."""
        with self._lock:
            is_open = self._exchanges.pop(number, None) is not None
        if is_open:
            params = {"requestId": number}
            self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def close(self) -> None:
        """End the process in the way a client does."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._deliver(json.loads(line))
        with self._lock:
            left = tuple(self._exchanges.values())
        for exchange in left:
            exchange.arrived.put(None)

    def _deliver(self, message: Json) -> None:
        if "method" in message:
            exchange = self._addressee(message)
            if exchange:
                exchange.arrived.put(message)
            return
        with self._lock:
            answered = self._exchanges.pop(message.get("id") or 0, None)
        if answered:
            _restore(message.get("result", {}), answered)
            answered.arrived.put({**message, "id": answered.id})
            answered.arrived.put(None)

    def _addressee(self, message: Json) -> Exchange | None:
        """The exchange of a notification or a question; the newest if it names none."""
        params = message.get("params", {})
        number = params.get("_meta", {}).get(SUBSCRIPTION_KEY)
        if message["method"] == "notifications/progress":
            number = params["progressToken"]
        with self._lock:
            if number is None:
                return next(reversed(self._exchanges.values()), None)
            exchange = self._exchanges.get(number)
        if exchange:
            _restore(params, exchange)
        return exchange


def _restore(body: Json, exchange: Exchange) -> None:
    meta = body.get("_meta", {})
    if SUBSCRIPTION_KEY in meta:
        meta[SUBSCRIPTION_KEY] = exchange.id
    if "progressToken" in body:
        body["progressToken"] = exchange.token


class Bridge(ThreadingHTTPServer):
    """All conversations, by the session that names them; the shared one has no name."""

    daemon_threads = True

    def __init__(self, command: Command, place: Place) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._command, self._place = command, place
        self._conversations = {"": Conversation(command, place)}

    def session(self) -> str:
        """A new conversation."""
        name = uuid.uuid4().hex
        self._conversations[name] = Conversation(self._command, self._place)
        return name

    def translated(self, request: Json) -> Json:
        """A request as the server is to get it."""
        return self._place.translated(request)

    def conversation(self, name: str) -> Conversation | None:
        """The one of that name, if it has not ended."""
        return self._conversations.get(name)

    def end(self, name: str) -> bool:
        """End a conversation; whether there was one."""
        conversation = self._conversations.pop(name, None)
        if conversation:
            conversation.close()
        return conversation is not None

    def end_all(self) -> None:
        """End every conversation."""
        for name in tuple(self._conversations):
            self.end(name)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bridge

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name above us
        """Log nothing."""

    def do_GET(self) -> None:
        """Refuse: every message belongs to a request."""
        self._answer(405)

    def do_DELETE(self) -> None:
        """The end of a session."""
        self._answer(200 if self.server.end(self._session) else 404)

    def do_POST(self) -> None:
        """One message of the client."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_local():
            return self._answer(403)
        message: Json = json.loads(body)
        if "method" in message and "id" in message:
            return self._request(message)
        conversation = self.server.conversation(self._session)
        if conversation is None:
            return self._answer(404)
        conversation.send(message)
        return self._answer(202)

    @property
    def _session(self) -> str:
        return self.headers.get("Mcp-Session-Id", "")

    def _is_local(self) -> bool:
        """Whether the request is of a local client; a page of another site is refused."""
        origin = urlsplit(self.headers.get("Origin", "http://localhost")).hostname
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return {origin, host} <= LOOPBACK

    def _request(self, message: Json) -> None:
        meta = message.get("params", {}).get("_meta", {})
        version = self.headers.get("MCP-Protocol-Version")
        tagged = meta.get(VERSION_KEY)
        if tagged is not None and tagged != version:
            error = {"code": HEADER_MISMATCH, "message": "header and _meta name other revisions"}
            return self._json({"jsonrpc": "2.0", "id": message["id"], "error": error}, STATUSES)
        is_modern = version == MODERN or tagged is not None
        headers = {}
        name = "" if is_modern else self._session
        if message["method"] == "initialize" and not is_modern:
            name = self.server.session()
            headers["Mcp-Session-Id"] = name
        conversation = self.server.conversation(name) if name or is_modern else None
        if conversation is None:
            return self._answer(404 if name else 400)
        number, exchange = conversation.begin(self.server.translated(message))
        first = exchange.arrived.get()
        if first is None:
            return self._answer(502)
        if "method" not in first:
            return self._json(first, STATUSES if is_modern else {}, headers)
        self._stream(first, exchange)
        return conversation.cancel(number)

    def _stream(self, first: Json, exchange: Exchange) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        message: Json | None = first
        with suppress(OSError):  # the client is gone
            while message is not None:
                self.wfile.write(b"event: message\ndata: %s\n\n" % json.dumps(message).encode())
                self.wfile.flush()
                message = exchange.arrived.get()

    def _json(
        self, message: Json, statuses: Mapping[int, int], headers: Mapping[str, str] | None = None
    ) -> None:
        status = statuses.get(message.get("error", {}).get("code"), 200)
        headers = {**(headers or {}), "Content-Type": "application/json"}
        self._answer(status, json.dumps(message).encode(), headers)

    def _answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def bridged(command: Command, place: Place | None = None) -> Iterator[str]:
    """The address of a server that is started by a command, while a block runs."""
    with Bridge(command, place or Place()) as bridge:
        thread = threading.Thread(target=bridge.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bridge.server_port}/mcp"
        finally:
            bridge.shutdown()
            thread.join()
            bridge.end_all()
