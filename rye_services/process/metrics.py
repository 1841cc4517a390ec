"""Figures of a server for Prometheus: what it counts, and the text of ``/metrics``.

The door of prometheus-client. Each application has a registry of its own, so that two of them in
one process do not mix. Labels are bounded: templates of routes, never paths; no user, no item.
Names and meanings: ``docs/operating.md``; why this library: ADR 0002.
"""

import logging
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from time import time
from typing import Any, cast

from sqlalchemy.exc import SQLAlchemyError

from lillux.values import dataclass
from ryeos import __version__

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_EXECUTION_BUCKETS_S = (0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that is read when it is needed.

    label   what distinguishes its values; "" for one value alone, under the key ""
    """

    name: str
    words: str
    values: Mapping[str, float]
    label: str = ""


FigureSource = Callable[[], Sequence[Figure]]


class Metrics:
    """The figures of one application. Thread-safe."""

    def __init__(self, roles: Sequence[str] = ("node",)) -> None:
        from prometheus_client import CollectorRegistry
        from prometheus_client.registry import Collector

        self._registry = CollectorRegistry()
        self._counted = _make_instruments(self._registry)
        # From 0 on: Prometheus sees no increase in a series that begins with 1.
        for state in ("completed", "error", "failed", "cancelled", "interrupted"):
            self._counted.executions.labels(state=state)
        for state in ("done", "uploading", "busy", "refused"):
            self._counted.sweeps.labels(state=state)
        self._sources: list[FigureSource] = []
        self._read: list[FigureSource] = []
        self._kept: dict[int, Sequence[Figure]] = {}
        self._read_at_s = 0.0
        self._reading = Lock()
        self._registry.register(cast("Collector", self))  # it takes whatever can collect
        _describe_process(self._registry, roles)

    # --- what is counted --------------------------------------------------------------------------

    def request_began(self) -> None:
        """Count a request that is under way."""
        self._counted.in_flight.inc()

    def request_ended(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request that was answered; status 0 is a connection that was cut."""
        known = method if method in _METHODS else "other"
        labels = {"method": known, "route": route or "unmatched"}
        self._counted.in_flight.dec()
        self._counted.requests.labels(**labels, status=str(status or "cut")).inc()
        self._counted.request_seconds.labels(**labels).observe(duration_s)

    def execution_ended(self, state: str, duration_s: float) -> None:
        """Count an execution of this server that is over."""
        self._counted.executions.labels(state=state).inc()
        self._counted.execution_seconds.labels(state=state).observe(duration_s)

    def swept(self, state: str, *, removed: int = 0, freed_bytes: int = 0) -> None:
        """Count the sweep of one user's store."""
        self._counted.sweeps.labels(state=state).inc()
        self._counted.swept_objects.inc(removed)
        self._counted.swept_bytes.inc(freed_bytes)

    def database_error(self, kind: str) -> None:
        """Count an error of the database, by the name of its class."""
        self._counted.database_errors.labels(kind=kind).inc()

    # --- what is read -----------------------------------------------------------------------------

    def add_live(self, source: FigureSource) -> None:
        """Read these at each scrape: they wait for nothing."""
        self._sources.append(source)

    def add_read(self, *sources: FigureSource) -> None:
        """Read these in `read`: they may wait for the database."""
        self._read.extend(sources)

    def read(self) -> None:
        """Read what may wait for the database or a disk. What cannot be read stays as it was."""
        with self._reading:
            failed = [
                error for number in range(len(self._read)) if (error := self._kept_of(number))
            ]
            if failed:
                logging.getLogger(__name__).warning("figures: %s", ", ".join(failed))
            else:
                self._read_at_s = time()

    def _kept_of(self, number: int) -> str:
        """Read one source; the class of the error where that cannot be done."""
        try:
            self._kept[number] = self._read[number]()
        except (SQLAlchemyError, OSError) as error:
            return type(error).__name__
        return ""

    def text(self) -> tuple[bytes, str]:
        """All figures in the text format of Prometheus, and its media type."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Any]:
        """What prometheus-client asks a collector for."""
        from prometheus_client.core import GaugeMetricFamily

        live = [figure for source in self._sources for figure in source()]
        kept = [figure for figures in tuple(self._kept.values()) for figure in figures]
        for figure in (*live, *kept, *self._read_figures()):
            labels = [figure.label] if figure.label else []
            family = GaugeMetricFamily(figure.name, figure.words, labels=labels)
            for key, value in sorted(figure.values.items()):
                family.add_metric([key] if figure.label else [], value)
            yield family

    def _read_figures(self) -> Sequence[Figure]:
        return (
            Figure(
                name="rye_figures_read_timestamp_seconds",
                words="When what is read from the database and the disk was read last",
                values={"": self._read_at_s},
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instruments:
    """What is counted where it happens: objects of prometheus-client."""

    requests: Any
    request_seconds: Any
    in_flight: Any
    executions: Any
    execution_seconds: Any
    sweeps: Any
    swept_objects: Any
    swept_bytes: Any
    database_errors: Any


def _make_instruments(registry: Any) -> _Instruments:  # noqa: ANN401 - imported late
    from prometheus_client import Counter, Gauge, Histogram

    def counter(name: str, words: str, *labels: str) -> Counter:
        return Counter(name, words, labels, registry=registry)

    def gauge(name: str, words: str) -> Gauge:
        return Gauge(name, words, registry=registry)

    def seconds(name: str, words: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, words, labels, registry=registry, buckets=buckets)

    by_route = ("method", "route")
    return _Instruments(
        requests=counter("rye_requests", "Requests answered", *by_route, "status"),
        request_seconds=seconds(
            "rye_request_duration_seconds",
            "From the head of a request to the end of its answer",
            _REQUEST_BUCKETS_S,
            *by_route,
        ),
        in_flight=gauge("rye_requests_in_flight", "Requests that are being answered"),
        executions=counter("rye_executions", "Executions of this server that ended", "state"),
        execution_seconds=seconds(
            "rye_execution_duration_seconds",
            "From the start of an execution to its end, without its wait",
            _EXECUTION_BUCKETS_S,
            "state",
        ),
        sweeps=counter("rye_sweeps", "Sweeps of one user's store", "state"),
        swept_objects=counter("rye_swept_objects", "Objects that sweeps removed"),
        swept_bytes=counter("rye_swept_bytes", "Bytes that sweeps freed"),
        database_errors=counter("rye_database_errors", "Errors of the database", "kind"),
    )


def _describe_process(registry: Any, roles: Sequence[str]) -> None:  # noqa: ANN401 - imported late
    from prometheus_client import GCCollector, Info, ProcessCollector

    about = {"version": __version__, "python": platform.python_version(), "roles": ",".join(roles)}
    Info("rye_build", "What is running", registry=registry).info(about)
    ProcessCollector(registry=registry)  # on Linux; elsewhere it has no figures
    GCCollector(registry=registry)
