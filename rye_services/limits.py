"""How much a request may send, and how long it may take: checked before anybody looks at it."""

import asyncio
from collections.abc import Iterable

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rye_services.problems import Problem

UNLIMITED_PATHS = frozenset({"/health", "/status"})
"""They read no body, and have to answer whatever is sent."""

MIN_BYTES_PER_S = 8 * 1024
"""A body that comes slower than this, on average, holds a connection for too long."""

_DRAIN_S = 5.0
_TOLD_TWICE = "expected Content-Length or Transfer-Encoding, found both"


class BodyLimits:
    """Refuses bodies over ``max_bytes`` with 413 and those that come too slowly with 408.

    One whose length is told in two ways is refused with 400, on every path: a proxy in front of
    this node may have believed the other one, and where the next request begins depends on it.

    A length that is told in advance is refused before the first byte. What a sender goes on to send
    is read and thrown away for a while, so that the answer reaches them.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, idle_timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _is_told_twice(scope["headers"]):
            await self._refuse(scope, receive, send, 400, _TOLD_TWICE)
            return
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        if _told_length(scope["headers"]) > self._max_bytes:
            await self._refuse(scope, receive, send, 413, _too_large(self._max_bytes))
            return
        body = _CountedBody(receive, self._max_bytes, self._idle_timeout_s)
        await self._app(scope, body.receive, send)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, detail: str
    ) -> None:
        """Answer at once, then read what still comes: a reset would overtake the answer."""
        held: list[Message] = []

        async def hold_the_end(message: Message) -> None:
            if message["type"] == "http.response.body":
                held.append({**message, "body": b"", "more_body": False})
                message = {**message, "more_body": True}
            await send(message)

        answer = JSONResponse({"detail": detail}, status, {"Connection": "close"})
        await answer(scope, receive, hold_the_end)
        if not any(name == b"expect" for name, _ in scope["headers"]):
            await _drain(receive, self._max_bytes)
        for message in held:
            await send(message)


class _CountedBody:
    """The body of one request as it comes in."""

    def __init__(self, receive: Receive, max_bytes: int, idle_timeout_s: float) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s
        self._received = 0
        self._complete = False
        self._started_s: float | None = None

    async def receive(self) -> Message:
        """The next part. Raises Problem: 413, 408."""
        if self._complete:  # from here on it is about whether the sender still listens
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._patience_s())
        except TimeoutError:
            detail = "the body of this request came too slowly"
            raise Problem(408, detail, {"Connection": "close"}) from None
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._received > self._max_bytes:
            if not self._complete:
                await _drain(self._receive, self._max_bytes)
            raise Problem(413, _too_large(self._max_bytes), {"Connection": "close"})
        return message

    def _patience_s(self) -> float:
        now_s = asyncio.get_running_loop().time()
        if self._started_s is None:
            self._started_s = now_s
        allowed_s = self._idle_timeout_s + self._received / MIN_BYTES_PER_S
        return max(0.0, min(self._idle_timeout_s, self._started_s + allowed_s - now_s))


async def _drain(receive: Receive, max_bytes: int) -> None:
    """Throw away what comes, for some seconds and bytes at most."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            while max_bytes > 0:
                message = await receive()
                max_bytes -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _is_told_twice(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}


def _told_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    told = [value for name, value in headers if name == b"content-length"]
    return max((int(value) for value in told if value.isdigit()), default=0)


def _too_large(max_bytes: int) -> str:
    return f"Request body exceeds {max_bytes} bytes"
