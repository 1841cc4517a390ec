"""The primitive ``http_client``: a tool that is one HTTP request.

What a config may say, how it is filled and what comes back is in ``docs/http.md``.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.http.client import HttpClient
from lillux.http.errors import HttpClientError
from lillux.http.model import HttpRequest, HttpResponse, HttpStream, validate_request
from lillux.http.urls import parse_address
from lillux.sse import EventParser
from lillux.templating import Names
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.errors import SpecError
from ryeos.run.calls import Call, Materials, OnStderr, Services, network_env
from ryeos.run.command import engine_values, template_names
from ryeos.run.http_config import OWN_KEYS, HttpPlan, filled, http_plan
from ryeos.run.http_sinks import (
    EventSink,
    ReturnSink,
    StreamConfig,
    close_all,
    open_sinks,
    stream_config,
    validate_destinations,
    written_files,
)
from ryeos.run.limits import valid_limit
from ryeos.run.outcomes import MappedResult, json_or

if TYPE_CHECKING:
    from ryeos.run.confinement import CallRights


DEFAULT_TIMEOUT_S = 30
USER_AGENT = f"rye/{__version__}"
_MODES = ("sync", "stream")
_EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResult:
    """The result of a request: the shape of direct library use.

    status_code          0 when there was no response
    body                 see `parsed_body`; of a stream the events that were kept
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
    """Sends a request. See `ryeos.run.calls.Primitive`, and `execute` for use without a chain.

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
                from ryeos.run.mcp import mcp_http_call

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
        validate_request(plan.request)
        place = parse_address(plan.request.url)
        materials.rights.require_host(place.host, place.port)
        project_path = Path(materials.anchor.names["project_path"])
        stream = None
        if mode == "stream":
            stream = stream_config(filled(materials.config.get("stream"), "config.stream", own))
            validate_destinations(stream, project_path)
            for path in written_files(stream, project_path):
                materials.rights.require_writable(path)
        return HttpCall(
            plan=plan,
            stream=stream,
            project_path=project_path,
            network_env=network_env(materials, services),
            rights=materials.rights,
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
                        return _send(client, request, None).result
                    return _streamed(client, request, sinks or (ReturnSink(),), None).result
            except HttpClientError as error:
                return _transport_failure(error).result
            except LilluxError as error:
                return HttpResult(
                    success=False, status_code=0, body=None, error=f"Unexpected error: {error}"
                )

    def _request(self, config: Mapping[str, Any], params: Mapping[str, Any]) -> HttpRequest:
        timeout_s = valid_limit("config.timeout", config.get("timeout", DEFAULT_TIMEOUT_S))
        names = Names(variables=self._process_env, opaque=params)
        return http_plan(config, names, timeout_s=timeout_s).request


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request and where its events go. See `ryeos.run.calls.Call`.

    stream       None for a response that is read as a whole
    network_env  names proxies and certificate authorities
    """

    plan: HttpPlan
    stream: StreamConfig | None
    project_path: Path
    network_env: Mapping[str, str] = field(repr=False)
    rights: "CallRights"

    @property
    def program(self) -> str:
        """Empty: no program is started."""
        return ""

    @property
    def confinement(self) -> None:
        """None: no program is started."""
        return

    def describe(self) -> dict[str, Any]:
        """The request, its limit, and where events would go; secrets are masked."""
        shown: dict[str, Any] = {"request": dict(self.plan.description)}
        if self.stream:
            shown["stream"] = [sink.type for sink in self.stream.destinations] or ["return"]
        return shown | {"sandbox": self.rights.describe()} | self._warnings()

    def run(
        self,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,  # noqa: ARG002 - there is no program that would write
    ) -> MappedResult:
        """Send it. A request that failed is a result, as a program's failure is."""
        request = self.plan.request
        with HttpClient(self.rights.own_network(self.network_env), user_agent=USER_AGENT) as client:
            sinks = open_sinks(self.stream, self.project_path) if self.stream else ()
            with _closing(sinks):
                try:
                    if self.stream is None:
                        ending = _send(client, request, cancellation)
                    else:
                        ending = _streamed(client, request, sinks, cancellation)
                except HttpClientError as error:
                    ending = _transport_failure(error)
        return self._mapped(ending, sinks)

    def _mapped(self, ending: "_HttpEnding", sinks: Sequence[EventSink]) -> MappedResult:
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
class _HttpEnding:
    """A result, the code of a failure, and the number of attempts."""

    result: HttpResult
    code: str = "EXECUTION_FAILED"
    attempts: int = 1


def _send(
    client: HttpClient, request: HttpRequest, cancellation: Cancellation | None
) -> _HttpEnding:
    response = client.send(request, cancellation)
    return _HttpEnding(result=_result(response), attempts=response.attempts)


def _result(response: HttpResponse) -> HttpResult:
    return HttpResult(
        success=is_success(response.status),
        status_code=response.status,
        body=parsed_body(response.body, response.headers),
        headers=response.headers,
        duration_ms=ceil(response.duration_ms),
        error=status_error(response.status, response.reason),
    )


def _transport_failure(error: HttpClientError) -> _HttpEnding:
    times = "attempt" if error.attempts == 1 else "attempts"
    words = f"Request failed after {error.attempts} {times}: {error}"
    result = HttpResult(success=False, status_code=0, body=None, error=words)
    return _HttpEnding(result=result, code=error.code, attempts=error.attempts)


def _streamed(
    client: HttpClient,
    request: HttpRequest,
    sinks: Sequence[EventSink],
    cancellation: Cancellation | None,
) -> _HttpEnding:
    """The events of a response go to the sinks; another response is taken as a whole."""
    started = monotonic()
    with client.stream(_accepting_events(request), cancellation) as stream:
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_success(stream.status) or kind != _EVENT_STREAM:
            return _HttpEnding(result=replace(_whole(stream, started), stream_events_count=0))
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
    return _HttpEnding(result=result, code=broken.code if broken else "")


def _pump(stream: HttpStream, sinks: Sequence[EventSink]) -> tuple[int, LilluxError | None]:
    """The number of events that went to the sinks, and what ended the stream before its end."""
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


def _accepting_events(request: HttpRequest) -> HttpRequest:
    if "accept" in {name.lower() for name in request.headers}:
        return request
    return replace(request, headers={**request.headers, "Accept": _EVENT_STREAM})


@contextmanager
def _closing(sinks: Sequence[EventSink]) -> Iterator[None]:
    try:
        yield
    finally:
        close_all(tuple(sinks))


# From a response to a result. Pure.
#
# A body is what its JSON means, whatever its type is called; else text; else, when it is neither,
# ``{"encoding": "base64", "content_type": ..., "data": ...}``.

_TEXT_ENDINGS = ("json", "xml", "/javascript", "/x-www-form-urlencoded")


def parsed_body(body: bytes, headers: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON passes through
    """The body as a JSON value."""
    content_type = headers.get("content-type", "")
    text = _text(body, content_type)
    if text is not None:
        return json_or(text, text)
    data = b64encode(body).decode("ascii")
    return {"encoding": "base64", "content_type": content_type, "data": data}


def is_success(status: int) -> bool:
    """True if a status counts as success: it is one, or says where to look."""
    return 200 <= status < 400  # noqa: PLR2004 - the classes of statuses


def status_error(status: int, reason: str) -> str | None:
    """The problem that the status names; None for nothing."""
    return None if is_success(status) else f"HTTP {status}: {reason or 'no reason given'}"


def _text(body: bytes, content_type: str) -> str | None:
    """The body as text; None for one that is something else."""
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    charset = _charset(parameters)
    if charset or kind.startswith("text/") or kind.endswith(_TEXT_ENDINGS):
        try:
            return body.decode(charset or "utf-8", "replace")
        except LookupError:
            return body.decode("utf-8", "replace")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""
