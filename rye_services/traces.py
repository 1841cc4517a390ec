"""Traces of a server for OpenTelemetry, sent where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says.

The door of opentelemetry-sdk, which ``rye-node.pyz`` does not carry: where no endpoint is set, or
the library is missing, there are no traces and nothing is imported. Page: ``docs/operating.md``.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Thread
from typing import Any, Protocol

from ryeos import __version__

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
        """Say something about the work."""

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
