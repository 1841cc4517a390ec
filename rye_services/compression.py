"""gzip on the wire: of answers for who accepts it, of requests for who cannot do without.

Long texts are packed and unpacked in a thread: other requests must not wait for that.
"""

import zlib
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rye_services.accepted import weight_of
from rye_services.problems import Problem

MIN_PACKED_BYTES = 1000
"""A shorter answer is sent as it is."""

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_LEVEL = 3
_SHORT_BYTES = 16 * 1024
_STREAMED = "text/event-stream"
_PLAIN = frozenset({"", "identity"})


class GzippedResponses:
    """Packs answers of 1000 bytes and more for clients that accept gzip."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _accepts_gzip(Headers(scope=scope)):
            send = _PackedAnswer(send).send
        await self._app(scope, receive, send)


class _PackedAnswer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._packer: Any = None  # zlib does not say what its compressors are

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # goes out with the first part, which says how long it is
        elif message["type"] == "http.response.body":
            await self._send_body(message)
        else:
            await self._send(message)

    async def _send_body(self, message: Message) -> None:
        more = message.get("more_body", False)
        if self._start:
            headers = MutableHeaders(raw=self._start["headers"])
            if _is_worth_it(headers, message):
                self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
                headers["Content-Encoding"] = "gzip"
                headers.add_vary_header("Accept-Encoding")
                del headers["Content-Length"]
            start, self._start = self._start, {}
            await self._send(start)
        if self._packer is not None:
            message = {**message, "body": await self._packed(message.get("body", b""), more=more)}
        await self._send(message)

    async def _packed(self, data: bytes, *, more: bool) -> bytes:
        def pack() -> bytes:
            packed: bytes = self._packer.compress(data)
            # What is there goes out now: somebody may be waiting for exactly this part.
            mode = zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
            return packed + bytes(self._packer.flush(mode))

        return pack() if len(data) <= _SHORT_BYTES else await run_in_threadpool(pack)


class GzippedRequests:
    """Unpacks bodies that are sent with ``Content-Encoding: gzip``, to ``max_bytes`` at most.

    A signature of such a request is over what was unpacked. Any other encoding is refused.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            encoding = Headers(scope=scope).get("content-encoding", "").strip().lower()
            if encoding not in _PLAIN:
                receive = _UnpackedBody(receive, self._max_bytes, encoding).receive
                taken_off = {b"content-encoding", b"content-length"}
                headers = [pair for pair in scope["headers"] if pair[0] not in taken_off]
                scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)


class _UnpackedBody:
    def __init__(self, receive: Receive, max_bytes: int, encoding: str) -> None:
        self._receive = receive
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._encoding = encoding
        self._unpacker = zlib.decompressobj(_GZIP_FORMAT)
        self._complete = False

    async def receive(self) -> Message:
        """The next part, unpacked. Raises Problem: 400, 413."""
        if self._encoding != "gzip":
            raise Problem(400, f"expected a plain or gzipped body, found {self._encoding[:40]!r}")
        message = await self._receive()
        if self._complete or message["type"] != "http.request":
            return message
        self._complete = not message.get("more_body", False)
        body = await run_in_threadpool(self._unpacked, message.get("body", b""))
        return {**message, "body": body}

    def _unpacked(self, data: bytes) -> bytes:
        try:
            body = self._unpacker.decompress(data, self._left + 1)
        except zlib.error:
            raise Problem(400, "the body is not gzip") from None
        self._left -= len(body)
        if self._left < 0:
            raise Problem(413, f"Request body exceeds {self._max_bytes} bytes")
        if self._unpacker.unused_data or (self._complete and not self._unpacker.eof):
            raise Problem(400, "the gzipped body is cut short, or something follows it")
        return body


def _accepts_gzip(headers: Headers) -> bool:
    return weight_of(headers.getlist("accept-encoding"), "gzip", "*") > 0


def _is_worth_it(headers: MutableHeaders, message: Message) -> bool:
    if "content-encoding" in headers or headers.get("content-type", "").startswith(_STREAMED):
        return False
    more = message.get("more_body", False)
    return len(message.get("body", b"")) >= MIN_PACKED_BYTES or bool(more)
