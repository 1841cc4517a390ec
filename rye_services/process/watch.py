"""What operators see of a server: ``/live``, ``/ready``, ``/metrics``, and each request.

Logs, figures and health are modules of their own; here they are put around an application.
Page: ``docs/operating.md``; who may read figures: ADR 0002.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from threading import Thread
from time import monotonic
from typing import Any, Literal, Protocol

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lillux.digests import sha256_hex
from lillux.values import dataclass
from rye_services.logs import (
    RequestRecord,
    client_address,
    in_execution,
    in_request,
    is_direct_loopback,
    networks_of,
    request_id_of,
)
from rye_services.people.callers import authenticate, authenticator
from rye_services.people.credentials import METRICS, Principal
from rye_services.process.health import Health, checks_of
from rye_services.process.metrics import Figure, Metrics
from rye_services.settings import Settings
from rye_services.storage.database import Database, users
from rye_services.web.http import AWAY, AWAY_HEADERS, RequestProblem
from rye_services.web.openapi import CALLER, Responses, refuses
from ryeos import __version__

# --- traces ---------------------------------------------------------------------------------------
# Traces of a server for OpenTelemetry, sent where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says.
#
# The door of opentelemetry-sdk, which ``rye-node.pyz`` does not carry: where no endpoint is set, or
# the library is missing, there are no traces and nothing is imported. Page: ``docs/operating.md``.

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_CLOSE_S = 5.0
INSTALL = (
    "pip install --target DIR opentelemetry-sdk opentelemetry-exporter-otlp-proto-http,"
    " and start with PYTHONPATH=DIR"
)
_log = logging.getLogger(__name__)


class Span(Protocol):
    """A piece of work in a trace. ``trace_id`` is 32 hex digits, or empty."""

    trace_id: str

    def note(self, name: str, value: str | int) -> None:
        """Set an attribute of the work."""

    def rename(self, name: str) -> None:
        """Give it the name that is known by now."""

    def fail(self, words: str) -> None:
        """Mark the work as failed."""


class Tracing(Protocol):
    """Where spans go."""

    def span(
        self, name: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Span]:
        """A span while a block runs, below the one that runs already.

        ``headers`` are those of a request: its ``traceparent`` names the caller's span.
        """

    def close(self) -> None:
        """Send what is left, for some seconds at most."""


class _NoSpan:
    trace_id = ""

    def note(self, name: str, value: str | int) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def fail(self, words: str) -> None:
        pass


class NoTracing:
    """Spans that go nowhere."""

    @contextmanager
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> Iterator[Span]:  # noqa: ARG002 - of the protocol
        """A span that keeps nothing."""
        yield _NoSpan()

    def close(self) -> None:
        """Nothing."""


def open_tracing(environ: Mapping[str, str]) -> Tracing:
    """Where the environment wants spans sent. A library that is missing is a warning."""
    if not any(environ.get(name) for name in _ENDPOINTS):
        return NoTracing()
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NoTracing()
    wanted = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "http/protobuf")
    if wanted != "http/protobuf":
        _log.warning("no traces: expected the protocol http/protobuf, found %.40a", wanted)
        return NoTracing()
    try:
        return OpenTelemetryTracing()
    except ImportError as error:
        _log.warning("no traces: %s: %s", error, INSTALL)
        return NoTracing()


class OpenTelemetryTracing:
    """Spans of OpenTelemetry, sent in the background. Raises ImportError without its packages."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        own = Resource({"service.name": "rye-node", "service.version": __version__})
        # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes last, and wins.
        given = Resource.create()
        named = given.attributes.get("service.name", "")
        if str(named).startswith("unknown_service"):
            given = given.merge(own)
        self._provider = TracerProvider(resource=own.merge(given), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("rye_services", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, *, headers: Mapping[str, str] | None = None) -> Iterator[Span]:
        """A span. An error that leaves the block marks it as failed, by the error's class alone."""
        from opentelemetry.trace import SpanKind

        kind = SpanKind.INTERNAL if headers is None else SpanKind.SERVER
        parent = None if headers is None else self._propagator.extract(dict(headers))
        opened = self._tracer.start_as_current_span(
            name, context=parent, kind=kind, record_exception=False, set_status_on_exception=False
        )
        with opened as inner:
            span = _Span(inner)
            try:
                yield span
            except BaseException as error:
                span.fail(type(error).__name__)
                raise

    def close(self) -> None:
        """Send what is left. A collector that does not answer is not waited for."""
        closing = Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)


class _Span:
    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - the library's, imported late
        self._inner = inner
        self.trace_id = f"{inner.get_span_context().trace_id:032x}"

    def note(self, name: str, value: str | int) -> None:
        self._inner.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._inner.update_name(name)

    def fail(self, words: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._inner.set_status(Status(StatusCode.ERROR, words))


# --- watch ----------------------------------------------------------------------------------------

QUIET_PATHS = frozenset({"/live", "/ready", "/health", "/status", "/metrics"})
"""Those who watch a server ask them again and again: they are counted, and not logged or traced."""

_SERVER_ERROR = 500
FAILED = "failed"
FIGURES_WAIT_S = 1.0
_KEY_WAIT_S = 5.0  # for the database to say whether a key counts that was not accepted before
_FIGURES_RECENT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Everything that watches one application."""

    settings: Settings
    metrics: Metrics
    tracing: Tracing
    health: Health

    @contextmanager
    def span(self, name: str) -> Iterator[Span]:
        """A span of the current request or execution while a block runs."""
        with self.tracing.span(name) as span:
            yield span

    @contextmanager
    def execution(self, thread_id: str) -> Iterator["WatchedExecution"]:
        """Watch an execution while a block runs; the block says in which state it ended."""
        began_s, watched = monotonic(), WatchedExecution()
        with in_execution(thread_id), self.tracing.span("execution") as span:
            span.note("rye.thread_id", thread_id)
            try:
                yield watched
            finally:
                took_s = monotonic() - began_s
                span.note("rye.state", watched.state)
                self.metrics.execution_ended(watched.state, took_s)
                words = (thread_id, watched.state, took_s * 1000)
                logging.getLogger("rye_services.executions").info("%s %s %.0f ms", *words)


class WatchedExecution:
    """How an execution ended. `FAILED`, which a block may change, is what the node could not do."""

    state = FAILED


def open_watch(settings: Settings, database: Database, environ: Mapping[str, str]) -> Watch:
    """What watches an application on these data. Spans go where ``environ`` says."""
    metrics, health = Metrics(settings.roles), Health(checks_of(settings, database))
    database.on_error(metrics.database_error)
    metrics.add_live(lambda: _health_figures(health))
    metrics.add_live(lambda: _pool_figures(database))
    metrics.add_read(lambda: _disk_figures(settings))  # first: a database may hang
    metrics.add_read(lambda: _user_figures(database))
    return Watch(settings=settings, metrics=metrics, tracing=open_tracing(environ), health=health)


def _health_figures(health: Health) -> Sequence[Figure]:
    state = health.last
    ready = {name: float(name not in state.problems) for name in state.checks}
    return (
        Figure(
            name="rye_check_ok",
            words="1 where the check of /ready went well",
            values=ready,
            label="check",
        ),
    )


def _pool_figures(database: Database) -> Sequence[Figure]:
    words = "Connections to the database"
    values = database.connections
    return (Figure(name="rye_database_connections", words=words, values=values, label="state"),)


def _disk_figures(settings: Settings) -> Sequence[Figure]:
    folders = {"data": settings.data_dir, "stores": settings.cas_base_path}
    free = {
        name: float(shutil.disk_usage(folder).free)
        for name, folder in folders.items()
        if folder.exists()
    }
    words = "Bytes that are free on the disk of a folder"
    return (Figure(name="rye_disk_free_bytes", words=words, values=free, label="folder"),)


def _user_figures(database: Database) -> Sequence[Figure]:
    with database.reading() as connection:
        total = select(func.count(), func.coalesce(func.sum(users.c.stored_bytes), 0))
        count, stored = connection.execute(total.select_from(users)).one()
    return (
        Figure(name="rye_users", words="Users who have a store", values={"": count}),
        Figure(name="rye_stored_bytes", words="Bytes in all stores", values={"": int(stored)}),
    )


# --- requests -------------------------------------------------------------------------------------


class WatchedRequests:
    """The outermost part of an application: gives each request a number, and counts and logs it."""

    def __init__(self, app: ASGIApp, *, watch: Watch) -> None:
        self._app, self._watch = app, watch
        self._trusted = networks_of(watch.settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = self._record(scope)
        is_quiet = scope["path"] in QUIET_PATHS
        began_s = monotonic()
        self._watch.metrics.request_began()
        try:
            with in_request(record), self._span(scope, is_quiet=is_quiet) as span:
                record.trace_id = span.trace_id
                try:
                    await self._app(scope, receive, _noting(send, record))
                finally:
                    _end(record, scope, began_s)
                    _describe(span, record)
                    if not is_quiet:
                        _log_access(record, scope)
        finally:
            duration_s = record.duration_ms / 1000
            self._watch.metrics.request_ended(
                record.method, record.route, record.status, duration_s
            )

    def _record(self, scope: Scope) -> RequestRecord:
        headers, peer = Headers(scope=scope), (scope.get("client") or ("",))[0]
        return RequestRecord(
            request_id_of(peer, headers, self._trusted),
            client=client_address(peer, headers, self._trusted),
            method=scope["method"],
        )

    def _span(self, scope: Scope, *, is_quiet: bool) -> Any:  # noqa: ANN401 - a context manager
        tracing = NoTracing() if is_quiet else self._watch.tracing
        return tracing.span(scope["method"][:16], headers=Headers(scope=scope))


def _noting(send: Send, record: RequestRecord) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
            MutableHeaders(scope=message)["X-Request-Id"] = record.request_id
        await send(message)

    return noting


def _end(record: RequestRecord, scope: Scope, began_s: float) -> None:
    record.duration_ms = (monotonic() - began_s) * 1000
    record.route = _route(scope)


def _route(scope: Scope) -> str:
    """The template of the route that answered; "" where there is none."""
    if "route" in scope:
        return str(getattr(scope["route"], "path", ""))
    # A route of Starlette's own, like /mcp, names itself nowhere. Without parameters its template
    # is the path.
    is_literal = "endpoint" in scope and not scope.get("path_params")
    return str(scope["path"]) if is_literal else ""


def _describe(span: Span, record: RequestRecord) -> None:
    span.rename(f"{record.method[:16]} {record.route}".rstrip())
    span.note("http.request.method", record.method[:16])
    span.note("http.route", record.route)
    span.note("http.response.status_code", record.status)
    span.note("client.address", record.client)
    span.note("rye.request_id", record.request_id)
    if record.user:
        span.note("user.id", record.user)
    if record.status >= _SERVER_ERROR:
        span.fail(str(record.status))


def _log_access(record: RequestRecord, scope: Scope) -> None:
    """A line for each request: ``POST /push 200 12 ms``. No query, no headers, no body."""
    path = ascii(scope["path"][:200])[1:-1]  # a line break would start another entry
    logging.getLogger("rye_services.access").info(
        "%s %s %s %.0f ms", record.method, path, record.status or "cut", record.duration_ms
    )


# --- routes ---------------------------------------------------------------------------------------


class LiveAnswer(BaseModel):
    """That the process answers."""

    status: Literal["live"]


class ReadyAnswer(BaseModel):
    """Each check with what is wrong, or ``ok``."""

    status: Literal["ready", "not ready", "draining"]
    checks: dict[str, str]


_NOT_READY: Responses = {
    503: {"model": ReadyAnswer, "description": "A check failed, or it is asked to end"}
}


def watch_router(watch: Watch) -> APIRouter:
    """The routes of those who watch a server."""
    routes = APIRouter(tags=["open"])

    @routes.get("/live")
    async def live() -> LiveAnswer:
        """That the process answers, and nothing else: for a supervisor that restarts what hangs."""
        return LiveAnswer(status="live")

    @routes.get("/ready", response_model=ReadyAnswer, responses=_NOT_READY)
    async def ready() -> JSONResponse:
        """Whether database, disk and keys can be used, as of a second ago; 503 where one cannot.

        503 ``draining`` too: the server was asked to end, and ends what is under way.
        """
        state = await watch.health.recent()
        status = "ready" if state.is_ready else "not ready"
        status = "draining" if watch.health.is_draining else status
        answer = {"status": status, "checks": state.shown()}
        return JSONResponse(answer, 200 if status == "ready" else 503)

    if watch.settings.metrics != "closed":
        _add_metrics(routes, watch)
    return routes


@asynccontextmanager
async def watching(watch: Watch) -> AsyncIterator[None]:
    """The looks at the state of a server, and the sending of spans, while it serves."""
    async with watch.health.watching():
        yield
    await run_in_threadpool(watch.tracing.close)


def _add_metrics(routes: APIRouter, watch: Watch) -> None:
    gate = _MetricsGate(watch.settings.metrics)
    reader = _FigureReader(watch.metrics)

    is_open = watch.settings.metrics == "open"
    marked = {} if is_open else {"security": [{CALLER.scheme_name: [METRICS]}]}

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=refuses(503),
        openapi_extra=marked,
    )
    async def metrics(request: Request) -> Response:
        """Figures for Prometheus, for a key of the scope ``node.metrics``."""
        await gate.admit(request)
        await reader.read()
        text, media_type = watch.metrics.text()
        return Response(text, media_type=media_type)


class _FigureReader:
    """Reads figures from the database for a scrape, which does not wait for one that hangs."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._read_at_s = float("-inf")

    async def read(self) -> None:
        """Read them, unless that was done just before or is being done; wait a second at most."""
        if self._task is None or self._task.done():
            if monotonic() - self._read_at_s <= _FIGURES_RECENT_S:
                return
            self._task = asyncio.create_task(run_in_threadpool(self._metrics.read))
        done, _ = await asyncio.wait({self._task}, timeout=FIGURES_WAIT_S)
        if done:
            self._read_at_s = monotonic()


class _MetricsGate:
    """Who may read figures.

    A key that was accepted counts while the database is away, too: that is when the figures are
    needed. It was not revoked meanwhile, as that takes the database.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._accepted = ""

    async def admit(self, request: Request) -> None:
        """Refuse a caller who may not read them. Raises Problem: 401, 403, 503."""
        peer = request.client.host if request.client else ""
        if self._mode == "open":
            return
        if self._mode == "loopback" and is_direct_loopback(peer, request.headers):
            return
        shown = sha256_hex(request.headers.get("authorization", "").encode())
        was_accepted = shown == self._accepted
        try:
            wait_s = FIGURES_WAIT_S if was_accepted else _KEY_WAIT_S
            principal = await _principal(request, wait_s)
            principal.require(METRICS)
        except (SQLAlchemyError, TimeoutError):
            if was_accepted:
                return
            raise RequestProblem(503, AWAY, AWAY_HEADERS) from None
        except RequestProblem:
            self._accepted = "" if was_accepted else self._accepted
            raise
        if principal.kind == "bearer":
            self._accepted = shown


async def _principal(request: Request, wait_s: float) -> Principal:
    """Who asks. Raises Unauthorized, SQLAlchemyError; TimeoutError for a database that hangs."""
    # A thread cannot be cancelled: it is left to end by itself.
    found = asyncio.ensure_future(authenticate(request, authenticator(request).principal))
    done, _ = await asyncio.wait({found}, timeout=wait_s)
    if not done:
        found.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise TimeoutError
    return found.result()
