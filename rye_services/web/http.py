"""HTTP of both services: negotiation, compression, limits, problem documents."""

import asyncio
import errno
import json
import logging
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rye_services.logs import current_request
from rye_services.storage.database import TextError, is_away, require_texts
from rye_services.storage.object_storage import ObjectStorageError
from ryeos.items.errors import RyeError

# --- accepted -------------------------------------------------------------------------------------

_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def weight_of(values: Iterable[str], *names: str) -> float:
    """The weight of the first of the names that is listed, from 0 to 1; 0 where none is.

    ``values`` are those of one header, like ``Accept``; ``names`` are in lower case, the most
    precise first. One that is listed twice counts as it is listed first.
    """
    listed: dict[str, float] = {}
    for one in ",".join(values).lower().split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        listed.setdefault(name, _weight(parameters))
    return next((listed[name] for name in names if name in listed), 0.0)


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = (part.strip() for part in parameter.partition("="))
        if name == "q":
            return float(value) if _WEIGHT.fullmatch(value) else 0.0
    return 1.0


# --- compression ----------------------------------------------------------------------------------
# gzip on the wire: of answers for clients that accept it, of requests that were sent so. Long texts
# are compressed in a thread, because other requests must not wait for that.

MIN_PACKED_BYTES = 1000
"""A shorter answer is sent as it is."""

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_LEVEL = 3
_SHORT_BYTES = 16 * 1024
_PLAIN = frozenset({"", "identity"})


class GzippedResponses:
    """Compresses answers of `MIN_PACKED_BYTES` and more for clients that accept gzip."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(
            app,
            minimum_size=MIN_PACKED_BYTES,
            compresslevel=_LEVEL,
            thread_minimum_size=_SHORT_BYTES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # The middleware looks for the word alone, and so takes "gzip;q=0" for a yes.
        accepts = scope["type"] == "http" and _accepts_gzip(Headers(scope=scope))
        await (self._compressing if accepts else self._app)(scope, receive, send)


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
                # In place, since those around this find the route of the request in the scope.
                scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in taken_off]
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
            raise RequestProblem(
                400, f"expected a plain or gzipped body, found {self._encoding[:40]!r}"
            )
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
            raise RequestProblem(400, "the body is not gzip") from None
        self._left -= len(body)
        if self._left < 0:
            raise RequestProblem(413, f"Request body exceeds {self._max_bytes} bytes")
        if self._unpacker.unused_data or (self._complete and not self._unpacker.eof):
            raise RequestProblem(400, "the gzipped body is cut short, or something follows it")
        return body


def _accepts_gzip(headers: Headers) -> bool:
    return weight_of(headers.getlist("accept-encoding"), "gzip") > 0


# --- limits ---------------------------------------------------------------------------------------
# How much a request may send, and how long it may take: checked before a route reads it.

UNLIMITED_PATHS = frozenset({"/live", "/ready", "/health", "/status"})
"""They read no body, and have to answer whatever is sent."""

MIN_BYTES_PER_S = 8 * 1024
"""A body that comes slower than this, on average, holds a connection for too long."""

_DRAIN_S = 5.0
_TWO_LENGTHS = "expected Content-Length or Transfer-Encoding, found both"


class BodyLimits:
    """Refuses bodies over ``max_bytes`` with 413 and those that come too slowly with 408.

    One whose length is given in two ways is refused with 400, on every path: a proxy in front of
    this node may have believed the other one, and where the next request begins depends on it.

    A length given in advance is refused before the first byte. What a sender still sends
    is read and thrown away for a while, so that the answer reaches them.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, idle_timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _has_two_lengths(scope["headers"]):
            await self._refuse(scope, receive, send, 400, _TWO_LENGTHS)
            return
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        if _declared_length(scope["headers"]) > self._max_bytes:
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
            raise RequestProblem(408, detail, {"Connection": "close"}) from None
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._received > self._max_bytes:
            if not self._complete:
                await _drain(self._receive, self._max_bytes)
            raise RequestProblem(413, _too_large(self._max_bytes), {"Connection": "close"})
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


def _has_two_lengths(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}


def _declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    lengths = [value for name, value in headers if name == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit()), default=0)


def _too_large(max_bytes: int) -> str:
    return f"Request body exceeds {max_bytes} bytes"


# --- texts ----------------------------------------------------------------------------------------
# Whether every text of a request is one that a database can hold, before any route looks at it.

CONTENT_PATHS = frozenset({"/objects/put", "/v1/bundle/push"})
"""Their bodies bring the content of files, which is kept as it is, and in no database."""

_FORM = "application/x-www-form-urlencoded"
_ESCAPES = (b"\0", b"\\u0000", b"\\ud", b"\\uD", b"\xed")
"""One of these is in every body with such a text, and in few others: those are looked at."""
_SHORT_BODY_BYTES = 64 * 1024
_MOST_FIELDS = 1000


class SoundTexts:
    """Refuses a request with NUL or half of a surrogate pair in a text: 400, with its place.

    Asked of the path, the query, and bodies that are JSON or forms. What is no JSON at all is for
    the route to refuse.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            require_texts({"path": scope["path"]})
            _require_fields(scope["query_string"])
        except TextError as error:
            await JSONResponse({"detail": str(error)}, 400)(scope, receive, send)
            return
        if scope["path"] not in CONTENT_PATHS:
            receive = _SoundBody(receive, Headers(scope=scope).get("content-type", "")).receive
        await self._app(scope, receive, send)


class _SoundBody:
    """The body of one request, in one piece: every route takes it whole."""

    def __init__(self, receive: Receive, content_type: str) -> None:
        self._receive = receive
        self._is_form = content_type.strip().lower().startswith(_FORM)
        self._complete = False

    async def receive(self) -> Message:
        """The whole body, then whether the sender still listens. Raises Problem: 400."""
        if self._complete:
            return await self._receive()
        pieces: list[bytes] = []
        while not self._complete:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            pieces.append(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        body = b"".join(pieces)
        if len(body) > _SHORT_BODY_BYTES:
            await run_in_threadpool(self._check, body)
        else:
            self._check(body)
        return {"type": "http.request", "body": body, "more_body": False}

    def _check(self, body: bytes) -> None:
        try:
            if self._is_form:
                _require_fields(body)
            elif any(escape in body for escape in _ESCAPES):
                _require_json(body)
        except TextError as error:
            raise RequestProblem(400, str(error)) from error


def _require_json(body: bytes) -> None:
    if b"\0" in body:  # so are UTF-16 and UTF-32, which `json` would take as well
        raise TextError("body", "expected JSON in UTF-8, found a byte that is zero")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    require_texts(value)


def _require_fields(encoded: bytes) -> None:
    if b"%00" not in encoded and b"\0" not in encoded:
        return
    text = encoded.decode("utf-8", "replace")
    try:
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:  # more than any form of ours has
        raise TextError("form", f"expected at most {_MOST_FIELDS} fields") from None
    for name, value in fields:
        require_texts({name: value})


# --- problems -------------------------------------------------------------------------------------
# What a request is refused with, and how every refusal looks: JSON, ``{"detail": ...}``.
#
# An unexpected error is logged under a number, and the caller gets the number, nothing else.

_SHOWN_OF_AN_ERROR = ("type", "loc", "msg")


class RequestProblem(HTTPException):
    """A request that is refused: its status, and what its caller reads."""

    def __init__(self, status: int, detail: Any, headers: dict[str, str] | None = None) -> None:  # noqa: ANN401 - any JSON
        super().__init__(status, detail, headers)


class Unauthorized(RequestProblem):
    """An unknown caller. The text is the same whatever was wrong; ``cause`` is for logs."""

    def __init__(self, cause: str) -> None:
        super().__init__(401, "unauthorized", {"WWW-Authenticate": "Bearer"})
        logging.getLogger(__name__).info("refused a request: %s", cause)


def answer_problems(app: FastAPI) -> None:
    """Make the application answer all refusals in one form."""
    app.add_exception_handler(HTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _wrong_fields)
    app.add_exception_handler(UnicodeEncodeError, _lone_surrogate)
    app.add_exception_handler(TextError, _unsound_text)


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def _wrong_fields(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    # Without what was sent: it may be a secret, and it may be large.
    details = [{key: one[key] for key in _SHOWN_OF_AN_ERROR} for one in error.errors()]
    return JSONResponse({"detail": details}, 422)


async def _lone_surrogate(_: Request, error: Exception) -> JSONResponse:
    """JSON can hold half of a character, which no encoding does: no name, path or text here has."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - what it is registered for
    detail = "expected text that UTF-8 can hold, found half of a surrogate pair"
    return JSONResponse({"detail": {"error": detail}}, 400)


async def _unsound_text(_: Request, error: Exception) -> JSONResponse:
    """What a column refuses: the check of requests could not know of it."""
    return JSONResponse({"detail": str(error)}, 400)


class UnexpectedErrors:
    """The outermost part of the application: whatever else is raised becomes a 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:  # the client has left
            where = ascii(f"{scope['method']} {scope['path'][:200]}")[1:-1]
            logging.getLogger(__name__).info("the caller hung up: %s", where)
        except Exception as error:  # the outermost door of a request
            answer = _answer_of(error, scope)
            if started or scope["type"] != "http":
                raise  # the connection is cut, so that no client takes what there is for the whole
            await answer(scope, receive, send)


def _answer_of(error: Exception, scope: Scope) -> JSONResponse:
    """What is answered to an unexpected error; the log has the whole of it."""
    number, log = os.urandom(4).hex(), logging.getLogger(__name__)
    where = ascii(f"{scope.get('method', '')} {scope.get('path', '')[:200]}")[1:-1]
    if not is_full(error) and is_away(error):  # every request has the same: no traceback for each
        log.warning("error %s at %s: the database is away: %s", number, where, _line_of(error))
        return JSONResponse({"detail": AWAY}, 503, AWAY_HEADERS)
    if is_store_away(error):
        log.warning("error %s at %s: %s", number, where, _line_of(error))
        return JSONResponse({"detail": STORE_AWAY}, 503, AWAY_HEADERS)
    if is_read_only(error):
        log.error("error %s at %s: cannot be written: %s", number, where, _line_of(error))
        return JSONResponse({"detail": READ_ONLY}, 503, AWAY_HEADERS)
    log.error("error %s at %s", number, where, exc_info=error)
    status, what = (507, "no room left on the disk, error") if is_full(error) else _UNKNOWN
    return JSONResponse({"detail": f"{what} {number}: the log of the node says more"}, status)


def _line_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


AWAY, AWAY_HEADERS = "the database does not answer", {"Retry-After": "5"}
STORE_AWAY = "the object storage of the node cannot be used now: try again"
READ_ONLY = "the disk of the node, or its database, can only be read now: nothing was changed"
_UNKNOWN = (500, "internal error")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_OF_POSTGRESQL, _READ_ONLY_OF_POSTGRESQL = "53100", "25006"


def is_store_away(error: BaseException) -> bool:
    """Whether the object storage did not do what it was asked: it may a little later."""
    return any(isinstance(cause, ObjectStorageError) for cause in _causes(error))


def is_full(error: BaseException) -> bool:
    """Whether it came of a full disk, which no caller can help."""
    return any(
        (isinstance(cause, OSError) and cause.errno in _FULL)
        or getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or getattr(cause, "sqlstate", None) == _FULL_OF_POSTGRESQL
        for cause in _causes(error)
    )


def is_read_only(error: BaseException) -> bool:
    """Whether it came of a disk or a database that can only be read, as after an error of a disk.

    PostgreSQL says so of a server that is not, or no longer, the one that is written to.
    """
    return any(
        (isinstance(cause, OSError) and cause.errno == errno.EROFS)
        or getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
        or getattr(cause, "sqlstate", None) == _READ_ONLY_OF_POSTGRESQL
        for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and each that it came of."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


# --- bodies ---------------------------------------------------------------------------------------
# Bodies of requests as values, read where no other request waits for it.
#
# FastAPI would parse a body on the event loop: 50 MiB would keep every other request waiting. The
# schema of a body still appears in the description of the interface: `described`.

Body = TypeVar("Body", bound=BaseModel)


def parse_body(body: bytes, model: type[Body]) -> Body:
    """The value in the bytes of a body. Raises RequestValidationError, answered with 422."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        details = [{**one, "loc": ("body", *one["loc"])} for one in found]
        raise RequestValidationError(details) from error


def described(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says about a route with such a body, for its ``openapi_extra``."""
    # Definitions beside it are moved there by `rye_services.web.openapi`.
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


# --- store threads --------------------------------------------------------------------------------
# Threads for long work on stores: a few of all there are, so that no other request waits.

PLACES = 8
"""Requests at work on stores at a time; the next one waits. Each may hold 200 MB briefly."""

Answer = TypeVar("Answer")


class StoreThreads:
    """Places for work on stores."""

    def __init__(self, places: int = PLACES) -> None:
        self._limiter = CapacityLimiter(places)

    async def answer(
        self, request: Request, model: type[Body], work: Callable[[Body], Answer]
    ) -> Answer:
        """What some work makes of the body of a request, both in one thread.

        Raises RequestValidationError, and what the work raises.
        """
        return await self.answer_bytes(request, lambda body: work(parse_body(body, model)))

    async def answer_bytes(self, request: Request, work: Callable[[bytes], Answer]) -> Answer:
        """What some work makes of the bytes of a body, in a thread. Raises what the work raises."""
        body = await request.body()
        return await to_thread.run_sync(work, body, limiter=self._limiter)


# --- refusals -------------------------------------------------------------------------------------
# What the node refuses because of what was sent: our errors, as answers with status 400.


@contextmanager
def refusals(*kinds: type[RyeError], status: int = 400) -> Iterator[None]:
    """Errors of these kinds are the sender's; their text is safe to show. Raises Problem."""
    try:
        yield
    except kinds as error:
        raise RequestProblem(status, str(error)) from error


# --- addresses ------------------------------------------------------------------------------------


def client_address(request: Request) -> str:
    """Where a request came from, as the log has it: what a trusted proxy says counts."""
    record = current_request()
    if record is not None:
        return record.client
    return request.client.host if request.client else ""
