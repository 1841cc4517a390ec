"""Serves a node until it is stopped: its socket and signals."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from time import monotonic
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from lillux.values import dataclass
from rye_services.people.callers import Authenticator
from rye_services.process.watch import Watch, WatchedRequests, watch_router, watching
from rye_services.settings import Settings
from rye_services.storage.database import is_away
from rye_services.web.http import (
    UNLIMITED_PATHS,
    BodyLimits,
    GzippedRequests,
    GzippedResponses,
    SoundTexts,
    UnexpectedErrors,
    answer_problems,
)
from rye_services.web.openapi import describe
from rye_services.web.page import PageHeaders
from ryeos import __version__
from ryeos.items.errors import RyeError

# --- serving --------------------------------------------------------------------------------------

_KEEP_ALIVE_S = 30
_BACKLOG = 1024
ENDING_S = 10
"""How long what was made to end, after ``shutdown_timeout_s``, may take to say so."""

_SWITCH_S = 0.001
"""How long a thread may keep the event loop waiting: a fifth of what Python sets."""

_LOOK_AGAIN_S = 0.1
_ASKS_TO_END = ("SIGINT", "SIGTERM")


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that takes connections, and the address that reaches it from here."""

    socket: socket.socket
    url: str


def listen(host: str, port: int) -> Listener:
    """Take connections. Raises RyeError `CONFIG_ERROR`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        named = error.errno is not None and not isinstance(error, socket.gaierror)
        problem = os.strerror(error.errno) if named else error.strerror or str(error)  # type: ignore[arg-type]
        raise RyeError(
            f"address {host}:{port}: {problem.lower()}",
            code="CONFIG_ERROR",
            hint="choose another one with --host and --port; port 0 takes any that is free",
        ) from None
    bound = opened.getsockname()
    name = f"[{bound[0]}]" if family == socket.AF_INET6 else bound[0]
    return Listener(opened, f"http://{name}:{bound[1]}")


def serve(app: FastAPI, listener: Listener, settings: Settings, ready: Callable[[], None]) -> None:
    """Serve until a signal asks to end; requests under way may end first.

    ``ready`` is called once connections are answered. A second signal ends at once.
    """
    sys.setswitchinterval(_SWITCH_S)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_timeout_s + ENDING_S,
    )
    _Server(config, ready, app.state.on_shutdown).run([listener.socket])


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready and ends with status 0 when it was asked to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        on_shutdown: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__(config)
        self._ready, self._on_shutdown = ready, on_shutdown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        # Modules, routes and tables stay until the end: no request waits while garbage is looked
        # for among them.
        gc.collect()
        gc.freeze()
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in the server's own way; they are not raised again afterwards."""
        numbers = [getattr(signal, name) for name in _ASKS_TO_END if hasattr(signal, name)]
        before = {number: signal.signal(number, self._end) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the requests under way end, unless a second signal comes.

        Until they have, others are answered too: ``/ready`` says that it is draining.
        """
        logging.getLogger(__name__).info("asked to end")
        for hear in self._on_shutdown:
            hear()
        await self._let_end(set(self.server_state.tasks))
        await super().shutdown(sockets)

    async def _let_end(self, under_way: "set[asyncio.Task[None]]") -> None:
        left_s = float(self.config.timeout_graceful_shutdown or 0)
        ends_at_s = monotonic() + left_s
        while under_way and not self.force_exit and monotonic() < ends_at_s - ENDING_S:
            _, under_way = await asyncio.wait(under_way, timeout=_LOOK_AGAIN_S)
        # One time is for both: what uvicorn itself may wait is what is left of it.
        left_s = ends_at_s - monotonic()
        self.config.timeout_graceful_shutdown = max(1, round(left_s))

    def _end(self, _: int, __: FrameType | None) -> None:
        # Nothing is logged from here: the signal may have come in the middle of a line.
        self.force_exit = self.should_exit
        self.should_exit = True


# --- assembly -------------------------------------------------------------------------------------
# An application out of parts, behind the limits that hold for all of them.


@dataclass(frozen=True, slots=True)
class ServerPart:
    """A part of the server: its routes, and what it does between requests.

    on_shutdown  is called once when the server is to end, while requests under way continue
    """

    routers: tuple[APIRouter, ...]
    background: tuple[Callable[[], AbstractAsyncContextManager[None]], ...]
    on_shutdown: Callable[[], None] = lambda: None


def assemble(
    title: str,
    settings: Settings,
    authenticator: Authenticator,
    watch: Watch,
    parts: Sequence[ServerPart],
) -> FastAPI:
    """The application of these parts. Where two have a route, it is that of the first."""
    background = (partial(watching, watch),)
    watched = ServerPart((watch_router(watch),), background, watch.health.drain)
    parts = (watched, *parts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for running in (one for part in parts for one in part.background):
                await stack.enter_async_context(running())
            yield

    # The pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,  # a field with a default may be missing in an answer
    )
    app.state.authenticator = authenticator
    app.state.on_shutdown = tuple(part.on_shutdown for part in parts)
    answer_problems(app)
    describe(app, unlimited_paths=UNLIMITED_PATHS)
    for router in (one for part in parts for one in part.routers):
        app.include_router(router)
    # The last one added is the outermost.
    app.add_middleware(SoundTexts)
    app.add_middleware(GzippedRequests, max_bytes=settings.max_request_bytes)
    app.add_middleware(
        BodyLimits,
        max_bytes=settings.max_request_bytes,
        idle_timeout_s=settings.body_idle_timeout_s,
    )
    app.add_middleware(GzippedResponses)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(PageHeaders)
    app.add_middleware(WatchedRequests, watch=watch)
    return app


# --- patient protocol -----------------------------------------------------------------------------
# HTTP/1.1 as uvicorn serves it, patient for a while with a client that sends no whole request.


class PatientProtocol(H11Protocol):
    """A connection that is closed when the head of a request does not come to its end.

    Between requests uvicorn's own timeout for idle connections holds, and while a body comes that
    of `rye_services.web.http`.
    """

    head_timeout_s = 30.0  # from the connection, or from the first byte on

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn narrows asyncio's
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # An answer goes out in two pieces; asyncio leaves Nagle's algorithm on for sockets that it
        # has not made itself, and the second piece would wait 40 ms for the other side's word.
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; wait for the rest of a head."""
        super().data_received(data)
        if self._is_busy():
            self._wait_no_longer()
        else:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Wait for the rest of a head that began to come before the answer was out."""
        super().on_response_complete()
        if not self._is_busy() and self.conn.trailing_data[0]:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self._is_busy():
            self.transport.close()

    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first
        return cycle is not None and not cycle.response_complete


# --- periodic -------------------------------------------------------------------------------------
# Work that is done again and again while the node serves.


@asynccontextmanager
async def every(seconds: float, work: Callable[[], object]) -> AsyncIterator[None]:
    """Do the work in a thread, now and then every so many seconds. What it raises is logged."""

    async def repeat() -> None:
        while True:
            try:
                await run_in_threadpool(work)
            except Exception as error:  # a door: the next time may go well
                name, log = getattr(work, "__qualname__", work), logging.getLogger(__name__)
                if is_away(error):  # once in a second perhaps: a line says as much as a traceback
                    log.warning("%s: the database does not answer", name)
                else:
                    log.exception("%s", name)
            await asyncio.sleep(seconds)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
