"""The primitive ``http_client``: a tool that is one request, without any program.

What a config may say, how it is filled and what comes back is in ``docs/http.md``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

from lillux.errors import LilluxError
from lillux.http.client import HttpClient
from lillux.http.model import HttpClientError, HttpRequest, HttpResponse, HttpStream, check_request
from lillux.process.cancellation import Cancellation
from lillux.sse import EventParser
from lillux.templating import Names
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.errors import SpecError
from ryeos.executor.calls import Call, Materials, OnStderr, Services, network_env
from ryeos.executor.http_config import OWN_KEYS, HttpPlan, filled, http_plan
from ryeos.executor.http_results import is_success, parsed_body, status_error
from ryeos.executor.http_sinks import (
    NullSink,
    ReturnSink,
    Sink,
    StreamConfig,
    StreamDestination,
    check_destinations,
    close_all,
    open_sinks,
    stream_config,
)
from ryeos.executor.limits import checked_limit
from ryeos.executor.results import MappedResult
from ryeos.executor.template_names import engine_values, template_names

DEFAULT_TIMEOUT_S = 30
USER_AGENT = f"rye/{__version__}"
_MODES = ("sync", "stream")
_EVENT_STREAM = "text/event-stream"

__all__ = [
    "HttpClientPrimitive",
    "HttpResult",
    "NullSink",
    "ReturnSink",
    "StreamConfig",
    "StreamDestination",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResult:
    """What a request gave: the shape of direct library use.

    status_code          0 when there was no response
    body                 see `ryeos.executor.http_results`; the kept events of a stream
    stream_destinations  the names of the sinks' classes
    """

    success: bool
    status_code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    duration_ms: int = 0
    error: str | None = None
    stream_events_count: int | None = None
    stream_destinations: tuple[str, ...] | None = None


class HttpClientPrimitive:
    """Sends a request. See `ryeos.executor.calls.Primitive`, and `execute` for use without a chain.

    process_env  for ``${VARIABLE}``, proxies and authorities, without a chain
    """

    def __init__(self, process_env: Mapping[str, str] | None = None) -> None:
        self._process_env = dict(process_env or {})

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The call that ``config.protocol`` asks for. Raises SpecError, HttpClientError."""
        match materials.config.get("protocol", "http"):
            case "http":
                return self._request_call(materials, services)
            case "mcp":
                from ryeos.executor.mcp_call import mcp_http_call

                return mcp_http_call(materials, services)
            case other:
                raise SpecError("config.protocol", f"expected http or mcp, got {other!r}")

    def _request_call(self, materials: Materials, services: Services) -> "HttpCall":
        names = template_names(materials, engine_values(materials))
        schema = materials.chain.tool.spec.config_schema or {}
        own = replace(names, hidden=OWN_KEYS)
        mode = _mode(filled(materials.config.get("mode", "sync"), "config.mode", own))
        plan = http_plan(
            materials.config,
            names,
            optional=frozenset(schema.get("properties") or ()),
            timeout_s=materials.timeout_s,
            total_timeout_s=materials.caller_timeout_s,
        )
        check_request(plan.request)
        project_path = Path(materials.anchor.names["project_path"])
        stream = None
        if mode == "stream":
            stream = stream_config(filled(materials.config.get("stream"), "config.stream", own))
            check_destinations(stream, project_path)
        return HttpCall(
            plan=plan,
            stream=stream,
            project_path=project_path,
            network_env=network_env(materials, services),
        )

    def execute(
        self, config: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> HttpResult:
        """Send a request without a chain.

        ``params`` fill ``{name}``; ``mode`` is ``sync`` or ``stream``, ``__sinks`` a list of sinks
        for the events of a stream. What could not be sent is a result with ``status_code`` 0.
        Raises ValueError for another mode.
        """
        given = dict(params or {})
        mode = given.pop("mode", "sync")
        sinks = tuple(given.pop("__sinks", None) or ())
        if mode not in _MODES:
            raise ValueError(f"Unknown mode: {mode}")
        with _closing(sinks):
            try:
                request = self._request(config, given)
                with HttpClient(self._process_env, user_agent=USER_AGENT) as client:
                    if mode == "sync":
                        return _sent(client, request, None).result
                    return _streamed(client, request, sinks or (ReturnSink(),), None).result
            except HttpClientError as error:
                return _transport_failure(error).result
            except LilluxError as error:
                return HttpResult(
                    success=False, status_code=0, body=None, error=f"Unexpected error: {error}"
                )

    def _request(self, config: Mapping[str, Any], params: Mapping[str, Any]) -> HttpRequest:
        timeout_s = checked_limit("config.timeout", config.get("timeout", DEFAULT_TIMEOUT_S))
        names = Names(variables=self._process_env, opaque=params)
        return http_plan(config, names, timeout_s=timeout_s).request


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request and where its events go. See `ryeos.executor.calls.Call`.

    stream       None for a response that is read as a whole
    network_env  names proxies and certificate authorities
    """

    plan: HttpPlan
    stream: StreamConfig | None
    project_path: Path
    network_env: Mapping[str, str] = field(repr=False)

    def describe(self) -> dict[str, Any]:
        """The request, its limit, and where events would go; secrets are masked."""
        shown: dict[str, Any] = {"request": dict(self.plan.description)}
        if self.stream:
            shown["stream"] = [sink.type for sink in self.stream.destinations] or ["return"]
        return shown | self._warnings()

    def run(
        self,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,  # noqa: ARG002 - there is no program that would write
    ) -> MappedResult:
        """Send it. A request that came to nothing is a result, as a program's failure is."""
        request = self.plan.request
        with HttpClient(self.network_env, user_agent=USER_AGENT) as client:
            sinks = open_sinks(self.stream, self.project_path) if self.stream else ()
            with _closing(sinks):
                try:
                    if self.stream is None:
                        ending = _sent(client, request, cancellation)
                    else:
                        ending = _streamed(client, request, sinks, cancellation)
                except HttpClientError as error:
                    ending = _transport_failure(error)
        return self._mapped(ending, sinks)

    def _mapped(self, ending: "_Ending", sinks: Sequence[Sink]) -> MappedResult:
        result = ending.result
        metadata: dict[str, Any] = self._warnings()
        if ending.attempts > 1:
            metadata["attempts"] = ending.attempts
        if result.stream_events_count is not None:
            dropped = sum(sink.dropped for sink in sinks if isinstance(sink, ReturnSink))
            metadata["stream"] = {
                "events": result.stream_events_count,
                "destinations": list(result.stream_destinations or ()),
                "dropped": dropped,
            }
        return MappedResult(
            success=result.success,
            data={
                "status_code": result.status_code,
                "body": result.body,
                "headers": dict(result.headers),
            },
            error=result.error,
            code="" if result.success else ending.code,
            metadata=metadata,
        )

    def _warnings(self) -> dict[str, Any]:
        return {"warnings": list(self.plan.warnings)} if self.plan.warnings else {}


def _mode(value: object) -> str:
    if value not in _MODES:
        raise SpecError("config.mode", f"expected {' or '.join(_MODES)}, got {value!r}")
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """A result, the code of a failure, and how often it took."""

    result: HttpResult
    code: str = "EXECUTION_FAILED"
    attempts: int = 1


def _sent(client: HttpClient, request: HttpRequest, cancellation: Cancellation | None) -> _Ending:
    response = client.send(request, cancellation)
    return _Ending(result=_result(response), attempts=response.attempts)


def _result(response: HttpResponse) -> HttpResult:
    return HttpResult(
        success=is_success(response.status),
        status_code=response.status,
        body=parsed_body(response.body, response.headers),
        headers=response.headers,
        duration_ms=ceil(response.duration_ms),
        error=status_error(response.status, response.reason),
    )


def _transport_failure(error: HttpClientError) -> _Ending:
    times = "attempt" if error.attempts == 1 else "attempts"
    words = f"Request failed after {error.attempts} {times}: {error}"
    result = HttpResult(success=False, status_code=0, body=None, error=words)
    return _Ending(result=result, code=error.code, attempts=error.attempts)


def _streamed(
    client: HttpClient,
    request: HttpRequest,
    sinks: Sequence[Sink],
    cancellation: Cancellation | None,
) -> _Ending:
    """The events of a response go to the sinks; another response is taken as a whole."""
    started = monotonic()
    with client.stream(_asking_for_events(request), cancellation) as stream:
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_success(stream.status) or kind != _EVENT_STREAM:
            return _Ending(result=replace(_whole(stream, started), stream_events_count=0))
        count, broken = _pump(stream, sinks)
    kept = next((sink for sink in sinks if isinstance(sink, ReturnSink)), None)
    result = HttpResult(
        success=broken is None,
        status_code=stream.status,
        body=kept.get_events() if kept else None,
        headers=stream.headers,
        duration_ms=ceil((monotonic() - started) * 1000),
        error=f"the stream ended early: {broken}" if broken else None,
        stream_events_count=count,
        stream_destinations=tuple(type(sink).__name__ for sink in sinks),
    )
    return _Ending(result=result, code=broken.code if broken else "")


def _pump(stream: HttpStream, sinks: Sequence[Sink]) -> tuple[int, LilluxError | None]:
    """How many events went to the sinks, and what ended the stream before its end."""
    parser = EventParser()
    count = 0
    try:
        for chunk in stream.chunks():
            for event in parser.feed(chunk):
                if event.data:
                    count += 1
                    for sink in sinks:
                        sink.write(event.data)
    except LilluxError as error:
        return count, error
    return count, None


def _whole(stream: HttpStream, started: float) -> HttpResult:
    body = b"".join(stream.chunks())
    return _result(
        HttpResponse(
            status=stream.status,
            reason=stream.reason,
            headers=stream.headers,
            body=body,
            url=stream.url,
            duration_ms=(monotonic() - started) * 1000,
        )
    )


def _asking_for_events(request: HttpRequest) -> HttpRequest:
    if "accept" in {name.lower() for name in request.headers}:
        return request
    return replace(request, headers={**request.headers, "Accept": _EVENT_STREAM})


@contextmanager
def _closing(sinks: Sequence[Sink]) -> Iterator[None]:
    try:
        yield
    finally:
        close_all(tuple(sinks))
