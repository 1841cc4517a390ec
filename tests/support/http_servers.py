"""Real servers on loopback: a scripted web server, with or without TLS, and a proxy."""

import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as a server saw it; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[["Exchange"], None]


class Exchange(BaseHTTPRequestHandler):
    """One request on its way: its data, and ways to answer."""

    protocol_version = "HTTP/1.1"
    server: "Server"
    seen: Seen

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """A whole response; ``content_type=...`` is written with a hyphen."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status: int = 200, **headers: str) -> None:
        """The head of a response that ends with its connection."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def write(self, data: bytes) -> bool:
        """Send a part of the body; false if the client has gone."""
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True
            return False
        return True

    def wait(self, seconds: float | None = None) -> None:
        """Until the server stops, or the time is over."""
        self.server.stopping.wait(seconds)
        self.close_connection = True

    def reset(self) -> None:
        """End the connection in the middle."""
        self.wfile.flush()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - standard error is not ours
        """Nothing."""

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen = Seen(self.command, self.path, headers, self.rfile.read(length))
        self.server.requests.append(self.seen)
        self.server.reply(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = handle_any  # noqa: N815


class Server(ThreadingHTTPServer):
    """Answers on loopback in separate threads, until its ``with`` ends."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, reply: Answer, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.reply = reply
        self.requests: list[Seen] = []
        self.failures: list[Exception] = []
        self.stopping = threading.Event()
        self._context = context
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        scheme = "https" if self._context else "http"
        return f"{scheme}://{'localhost' if self._context else '127.0.0.1'}:{self.server_port}"

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """With TLS, which is begun in the thread of the connection."""
        if self._context is None:
            super().finish_request(request, client_address)
            return
        with suppress(OSError), self._context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """Keep errors of this server; many tests have clients that disconnect."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.failures.append(error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        if error is None and self.failures:
            # The client only saw a connection that broke, which a test may take for a refusal.
            raise ExceptionGroup("answering requests", self.failures)


def closed_port() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@dataclass(slots=True)
class Proxy:
    """A proxy that forwards: absolute addresses, and tunnels by CONNECT."""

    port: int
    lines: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def proxy(*, refuse: bool = False) -> Iterator[Proxy]:
    """A proxy on loopback; with ``refuse`` it refuses every request with 407."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        state = Proxy(listening.getsockname()[1])
        thread = threading.Thread(target=_accept, args=(listening, state, refuse), daemon=True)
        thread.start()
        try:
            yield state
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listening: socket.socket, state: Proxy, refuse: bool) -> None:  # noqa: FBT001
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_forward, args=(client, state, refuse), daemon=True).start()


def _forward(client: socket.socket, state: Proxy, refuse: bool) -> None:  # noqa: FBT001
    with ExitStack() as opened:
        opened.enter_context(client)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        line, *headers = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        state.lines.append(line)
        state.authorizations += [h for h in headers if h.lower().startswith("proxy-auth")]
        if refuse:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        method, target, _ = line.split(" ")
        parts = urlsplit(target if "://" in target else f"//{target}")
        try:
            server = socket.create_connection((parts.hostname, parts.port or 80))
        except OSError:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        opened.enter_context(server)
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            server.sendall(head.replace(target.encode(), parts.path.encode(), 1))
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
