"""A proxy between a client and a node: stops both at a chosen time, or lies to the client."""

import http.client
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from tests.support.node import Node, Reply

_HOP_BY_HOP = frozenset({"connection", "host", "accept-encoding", "transfer-encoding"})

_OF_THE_CONNECTION = frozenset({"connection", "content-length", "transfer-encoding"})


class Stage(Enum):
    """How far a request has come.

    BEFORE  the client has sent it, the node has not received it
    HALF    the node has half of its body
    AFTER   the node has answered, the client has not received the answer
    """

    BEFORE = auto()
    HALF = auto()
    AFTER = auto()


@dataclass(slots=True)
class _Trap:
    path: str
    stage: Stage
    act: Callable[[], object]


Rewrite = Callable[[str, Reply], Reply]


class Proxy:
    """A node's address that its clients get; lies and faults are set here.

    requests  the paths of all requests, in order
    rewrite   makes of each path and reply what the client gets
    failures  what `rewrite` has raised: the test fails with it
    """

    def __init__(self, node: Node, url: str) -> None:
        self.node, self.url = node, url
        self.requests: list[str] = []
        self.failures: list[Exception] = []
        self.rewrite: Rewrite = lambda _, reply: reply
        self._traps: list[_Trap] = []
        self._lock = Lock()

    def trap(self, path: str, stage: Stage, act: Callable[[], object]) -> None:
        """Have ``act`` called the next time a request to ``path`` comes so far.

        The connection breaks then.
        """
        self._traps.append(_Trap(path, stage, act))

    @property
    def is_trap_left(self) -> bool:
        """Whether a trap was not used yet."""
        return bool(self._traps)

    def caught(self, path: str, stage: Stage) -> Callable[[], object] | None:
        """The action of the matching trap, which is used once."""
        with self._lock:
            for trap in self._traps:
                if (trap.path, trap.stage) == (path, stage):
                    self._traps.remove(trap)
                    return trap.act
        return None


class _Server(ThreadingHTTPServer):
    proxy: Proxy
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of killed clients."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Pass a request on."""
        self._pass_on()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names of http.server

    def _pass_on(self) -> None:
        assert isinstance(self.server, _Server)
        proxy = self.server.proxy
        path = self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        proxy.requests.append(path)
        if act := proxy.caught(path, Stage.BEFORE):
            self._break_off(act)
            return
        if act := proxy.caught(path, Stage.HALF):
            with self._half_sent(headers, body):
                self._break_off(act)
            return
        try:
            reply = proxy.node.ask(self.command, self.path, body, headers=headers)
        except (OSError, http.client.HTTPException):
            self._break_off(lambda: None)
            return
        if act := proxy.caught(path, Stage.AFTER):
            self._break_off(act)
            return
        headers = {k: v for k, v in reply.headers.items() if k != "content-encoding"}
        try:
            rewritten = proxy.rewrite(path, Reply(reply.status, headers, reply.body))
        except Exception as error:
            # The client only sees a connection that breaks, which a test may take for a refusal.
            proxy.failures.append(error)
            raise
        self._answer(rewritten)

    def _break_off(self, act: Callable[[], object]) -> None:
        act()
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _half_sent(self, headers: Mapping[str, str], body: bytes) -> Iterator[None]:
        assert isinstance(self.server, _Server)
        node = self.server.proxy.node
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        start = f"{self.command} {self.path} HTTP/1.1\r\nHost: node\r\n{lines}\r\n".encode()
        with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
            connection.sendall(start + body[: len(body) // 2])
            yield

    def _answer(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            if name not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)


@contextmanager
def proxy_to(node: Node) -> Iterator[Proxy]:
    """A proxy while a block runs."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        proxy = Proxy(node, f"http://127.0.0.1:{server.server_port}")
        server.proxy = proxy
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
        if proxy.failures:
            raise ExceptionGroup("rewriting replies", proxy.failures)
