"""A proxy between a node and its object storage, which answers late, wrong, partly, or not.

Requests pass as they come, `Host` included, since it is part of what is signed. A fault is for
requests of one method, as many as are wanted.
"""

import http.client
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import NamedTuple

EVER = 1_000_000
_OF_THE_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


class Fault(Enum):
    """The fault of a request.

    LATE      no answer until the fault is lifted
    CUT       the storage does not get it, and the connection breaks
    TORN      the storage gets half of what is sent, and both connections break
    UNSAID    the storage does it, and the connection breaks instead of an answer
    HALF      an answer of which the second half does not come
    SHORT     half of an answer, with a matching length
    WRONG     an answer with changed bytes
    OTHER     the bytes of another answer
    PAGE      200, and a page of some proxy
    BUSY      503, the answer of S3 under load
    FULL      507, the answer of versitygw on a full disk
    DENIED    403
    """

    LATE = "late"
    CUT = "cut"
    TORN = "torn"
    UNSAID = "unsaid"
    HALF = "half"
    SHORT = "short"
    WRONG = "wrong"
    OTHER = "other"
    PAGE = "page"
    BUSY = "busy"
    FULL = "full"
    DENIED = "denied"


_SAYS = {
    Fault.BUSY: (503, b"<Error><Code>SlowDown</Code><Message>secret-text</Message></Error>"),
    Fault.FULL: (
        507,
        b"<Error><Code>XAdminStorageFull</Code><Message>secret-text</Message></Error>",
    ),
    Fault.DENIED: (403, b"<Error><Code>AccessDenied</Code><Message>secret-text</Message></Error>"),
    Fault.PAGE: (200, b"<html><body>secret-text: please sign in</body></html>"),
}
_BEFORE = frozenset({Fault.LATE, Fault.CUT, *_SAYS})


class Reply(NamedTuple):
    """An answer of the storage."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(slots=True)
class _Trap:
    fault: Fault
    method: str
    part: str
    left: int


class StorageProxy:
    """The address of a storage as a node knows it. ``requests`` counts requests by method."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.requests: Counter[str] = Counter()
        self.other = b"the bytes of another file"
        self._traps: list[_Trap] = []
        self._lock, self._lifted = Lock(), Event()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def fail(self, fault: Fault, method: str, part: str = "", times: int = EVER) -> None:
        """Have requests of a method, whose address has a part, fail so many times."""
        with self._lock:
            self._lifted.clear()
            self._traps = [_Trap(fault, method, part, times)]
            self.requests.clear()

    def lift(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._traps = []
            self._lifted.set()

    def caught(self, method: str, path: str) -> Fault | None:
        """The fault of this request, if any."""
        with self._lock:
            self.requests[method] += 1
            for trap in self._traps:
                if trap.method == method and trap.part in path and trap.left > 0:
                    trap.left -= 1
                    return trap.fault
        return None

    def wait_until_lifted(self) -> None:
        """Hold a request."""
        self._lifted.wait(60)


class _Server(ThreadingHTTPServer):
    proxy: StorageProxy
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Pass a request on, or not."""
        assert isinstance(self.server, _Server)
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = proxy.caught(self.command, self.path)
        if fault in _BEFORE:
            self._answer_itself(proxy, fault)
            return
        if fault is Fault.TORN:
            self._pass_half_on(proxy.target, body)
            self._break_off()
            return
        reply = self._passed_on(proxy.target, body)
        if fault is Fault.UNSAID:
            self._break_off()
        elif fault is Fault.HALF:
            self._answer(reply, sent=len(reply.body) // 2)
            self._break_off()
        else:
            self._answer(_CHANGES[fault](proxy, reply) if fault else reply)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - names of http.server

    def _answer_itself(self, proxy: StorageProxy, fault: Fault) -> None:
        if fault is Fault.LATE:
            proxy.wait_until_lifted()
        if fault in (Fault.LATE, Fault.CUT):
            self._break_off()
            return
        status, body = _SAYS[fault]
        self._answer(Reply(status, [("Content-Type", "application/xml")], body))

    def _passed_on(self, port: int, body: bytes) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            self._send(connection, body)
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def _pass_half_on(self, port: int, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            self._send(connection, body[: len(body) // 2])
        finally:
            connection.close()

    def _send(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "connection":
                connection.putheader(name, value)
        connection.endheaders(body)

    def _answer(self, reply: Reply, sent: int | None = None) -> None:
        with suppress(OSError):
            self.send_response_only(reply.status)
            length = str(len(reply.body))
            for name, value in reply.headers:
                if self.command == "HEAD" and name.lower() == "content-length":
                    length = value
                if name.lower() not in _OF_THE_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(reply.body if sent is None else reply.body[:sent])

    def _break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _plain(reply: Reply, body: bytes) -> Reply:
    """The reply with other bytes, without headers that would reveal the change."""
    kept = [one for one in reply.headers if "checksum" not in one[0].lower()]
    return Reply(reply.status, kept, body)


_CHANGES: dict[Fault, Callable[[StorageProxy, Reply], Reply]] = {
    Fault.SHORT: lambda _, reply: _plain(reply, reply.body[: len(reply.body) // 2]),
    Fault.WRONG: lambda _, reply: _plain(reply, bytes(one ^ 1 for one in reply.body)),
    Fault.OTHER: lambda proxy, reply: _plain(reply, proxy.other),
}


@contextmanager
def storage_proxy(target: int) -> Iterator[StorageProxy]:
    """A proxy to a storage on a port of this machine, while a block runs."""
    proxy = StorageProxy(target)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy, proxy.port = proxy, server.server_address[1]
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.lift()
        server.shutdown()
        server.server_close()
