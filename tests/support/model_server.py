"""A provider of models on loopback that says what a test wrote down, in the dialect openai-chat."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Reply = Callable[[BaseHTTPRequestHandler, Mapping[str, Any]], None]
"""Writes a whole answer to a request, whose body it is given."""


def words(text: str, *, sent: int = 100, answered: int = 10) -> Reply:
    """An answer of text."""
    return streamed([{"content": text}], "stop", sent=sent, answered=answered)


def calls(
    *wanted: tuple[str, Mapping[str, Any] | str], sent: int = 100, answered: int = 10
) -> Reply:
    """An answer that calls tools: each a name with its arguments, or their text."""
    deltas = [
        {
            "tool_calls": [
                {
                    "index": place,
                    "id": f"call_{place}_{name}_{sent}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": given if isinstance(given, str) else json.dumps(dict(given)),
                    },
                }
            ]
        }
        for place, (name, given) in enumerate(wanted)
    ]
    return streamed(deltas, "tool_calls", sent=sent, answered=answered)


def streamed(
    deltas: Sequence[Mapping[str, Any]], reason: str, *, sent: int, answered: int
) -> Reply:
    """A whole stream."""
    usage = {
        "prompt_tokens": sent,
        "completion_tokens": answered,
        "total_tokens": sent + answered,
    }
    chunks: list[Mapping[str, Any]] = [_chunk(delta) for delta in deltas]
    chunks.append(_chunk({}, reason))
    chunks.append({"id": "c", "model": "small", "choices": [], "usage": usage})
    return events([json.dumps(chunk) for chunk in chunks] + ["[DONE]"])


def events(
    data: Sequence[str], *, then: Callable[[BaseHTTPRequestHandler], None] | None = None
) -> Reply:
    """An answer of these events; ``then`` is called after them, and the connection is closed."""

    def reply(handler: BaseHTTPRequestHandler, _body: Mapping[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        for one in data:
            handler.wfile.write(f"data: {one}\n\n".encode())
        handler.wfile.flush()
        if then:
            then(handler)

    return reply


def refused(status: int, document: object, **headers: str) -> Reply:
    """An answer with an error status."""

    def reply(handler: BaseHTTPRequestHandler, _body: Mapping[str, Any]) -> None:
        data = json.dumps(document).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def _chunk(delta: Mapping[str, Any], reason: str | None = None) -> Mapping[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": reason}
    return {"id": "c", "model": "small", "choices": [choice]}


class ModelServer:
    """Gives its replies in order. ``requests`` are the bodies that came, ``headers`` theirs.

    ``always`` is the reply when there is no other left, ``models`` are those that it lists.
    """

    def __init__(self, *replies: Reply, always: Reply | None = None) -> None:
        self.replies, self.always = list(replies), always
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models: list[str] = ["small"]
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(size))
                with outer._lock:
                    outer.requests.append(body)
                    outer.headers.append(dict(self.headers))
                    reply = outer.replies.pop(0) if outer.replies else outer.always
                if reply is None:
                    reply = refused(418, {"error": {"message": "the test has no more replies"}})
                reply(self, body)
                self.close_connection = True

            def do_GET(self) -> None:
                document = {"object": "list", "data": [{"id": one} for one in outer.models]}
                refused(200 if self.path.endswith("/models") else 404, document)(self, {})
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
