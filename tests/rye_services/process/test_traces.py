"""Traces: the spans that a collector gets, and that there are none by default."""

import logging
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Self

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rye_services.process.watch import NoTracing, OpenTelemetryTracing, open_tracing
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """A collector of OTLP over HTTP, on loopback. ``spans`` are the received ones, with `facts`."""

    def __init__(self) -> None:
        self._lock, self._spans = Lock(), list[Any]()
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:  # noqa: ANN401 - of http.server
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        with self._lock:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.services |= set(facts(resource.resource).values())
                for scope in resource.scope_spans:
                    self._spans.extend(scope.spans)

    def named(self, name: str) -> list[Any]:
        with self._lock:
            return [span for span in self._spans if span.name == name]

    def wait_for(self, name: str) -> Any:  # noqa: ANN401 - of protobuf
        wait_until(lambda: bool(self.named(name)))
        return self.named(name)[0]


def facts(described: Any) -> dict[str, str]:  # noqa: ANN401 - of protobuf
    """The attributes of a span or a resource, as texts."""
    values = {one.key: one.value for one in described.attributes}
    return {
        key: str(getattr(value, str(value.WhichOneof("value")))) for key, value in values.items()
    }


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Node]:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with running_node(tmp_path_factory.mktemp("traced") / "node", environ=environ) as running:
        yield running


def test_a_request_is_a_span_below_that_of_its_caller(node: Node, collector: Collector) -> None:
    user = node.user()
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}

    reply = user.ask("GET", "/threads/nothing?secret=hunter2", headers=headers)

    span = collector.wait_for("GET /threads/{thread_id}")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, CALLER)
    assert facts(span) == {
        "http.request.method": "GET",
        "http.route": "/threads/{thread_id}",
        "http.response.status_code": "404",
        "client.address": "127.0.0.1",
        "rye.request_id": reply.headers["x-request-id"],
        "user.id": user.user_id,
    }
    assert "rye-node" in collector.services


def test_pushes_executions_and_sweeps_are_spans_of_their_requests(
    node: Node, collector: Collector, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, node.user())
    project.execute("tool:echo")
    node.owner.ask("POST", "/gc?dry_run=true")

    for name, route in (("push", "POST /push"), ("execution", "POST /execute")):
        parents = {span.span_id for span in (collector.wait_for(route), *collector.named(route))}
        collector.wait_for(name)
        assert {span.parent_span_id for span in collector.named(name)} & parents
    wait_until(lambda: any(span.parent_span_id for span in collector.named("sweep")))
    assert facts(collector.wait_for("execution"))["rye.state"] == "completed"


def test_health_and_metrics_requests_make_no_spans(node: Node, collector: Collector) -> None:
    for path in ("/health", "/live", "/ready", "/metrics"):
        node.ask("GET", path)
    node.ask("GET", "/public-key")

    collector.wait_for("GET /public-key")
    assert collector.named("GET /health") == collector.named("GET /live") == []


def test_a_traceparent_of_another_form_begins_a_new_trace(node: Node, collector: Collector) -> None:
    node.ask("GET", "/openapi.json", headers={"traceparent": "00-x-\xff'; DROP TABLE-01"})

    span = collector.wait_for("GET /openapi.json")
    assert span.parent_span_id == b""
    assert len(span.trace_id) == 16


@pytest.mark.heavy
def test_a_missing_collector_blocks_no_request(tmp_path: Path) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with running_node(tmp_path / "node", environ=environ) as node:
        assert node.ask("GET", "/public-key").status == 200

        assert node.end() == 0


def test_without_an_endpoint_traces_are_disabled() -> None:
    assert isinstance(open_tracing({}), NoTracing)
    disabled = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}
    assert isinstance(open_tracing(disabled), NoTracing)


def test_a_library_that_is_missing_is_a_warning_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with caplog.at_level(logging.WARNING):
        made = open_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:hunter2@x"})

    assert isinstance(made, NoTracing)
    assert "pip install --target DIR opentelemetry-sdk" in caplog.text
    assert "hunter2" not in caplog.text


def test_an_unsupported_protocol_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    with caplog.at_level(logging.WARNING):
        made = open_tracing(wanted)

    assert isinstance(made, NoTracing)
    assert "no traces: expected the protocol http/protobuf, found 'grpc'" in caplog.text


@pytest.mark.parametrize("tracing", ["none", "library"])
def test_an_error_leaves_a_span_as_it_came(
    tracing: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    opened = NoTracing() if tracing == "none" else OpenTelemetryTracing()

    def fail() -> None:
        with opened.span("sweep") as span:
            ids.append(span.trace_id)
            raise ZeroDivisionError

    ids: list[str] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    opened.close()

    assert [len(one) for one in ids] == [0 if tracing == "none" else 32]
