"""One MCP call over HTTP: a POST for every message, answered with JSON or an event stream.

(1) the session's messages are posted, one after the other; 404 for a session that the server has
    forgotten begins a new one, once
(2) a server that takes no POST at its address is one of 2024-11-05: `_Channel`
(3) a session, which only revisions up to 2025-11-25 have, is deleted at the end
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from threading import Timer
from time import monotonic
from typing import Any
from urllib.parse import urljoin, urlsplit

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient, wait_for
from lillux.http.model import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    HttpRequest,
    HttpStream,
    ResponseTooLargeError,
)
from lillux.jsonrpc import (
    INTERNAL_ERROR,
    Failure,
    Incoming,
    Message,
    Notification,
    Request,
    Result,
    encode,
    parse_messages,
)
from lillux.mcp_client.session import (
    ClientInfo,
    ClientSession,
    McpAnswerTooLargeError,
    McpAuthError,
    McpCancelledError,
    McpProtocolError,
    McpTimeoutError,
    SessionState,
    ToolAnswer,
    ToolCall,
    ToolListing,
    Turn,
    answered_id,
    raise_unless_answered,
)
from lillux.mcp_client.versions import (
    MODERN,
    PROBE_S,
    START_HINT,
    START_S,
    VERSION_KEY,
    AllowedVersions,
)
from lillux.process.conversation import remaining_s
from lillux.sse import EventParser, EventTooLargeError
from lillux.values import dataclass, field

# --- http headers ---------------------------------------------------------------------------------
# What the headers of a POST say about the message in it. Pure.
#
# From 2026-07-28 on a server may route and refuse by headers alone, so method, name and revision
# stand there as well, and the arguments that the tool's schema marks with ``x-mcp-header``.

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}")
_DEPTH = 20


def message_headers(
    message: Message, *, version: str, session_id: str, schema: Mapping[str, Any] | None
) -> dict[str, str]:
    """The headers for one message.

    version     the negotiated one, ``""`` before that
    session_id  of revisions up to 2025-11-25, ``""`` if absent
    schema      of the tool's arguments
    """
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if isinstance(message, Request) and _is_modern(message):
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message.method}
        name = message.params.get("name")
        if isinstance(name, str):
            headers["Mcp-Name"] = header_value(name)
            headers |= dict(_argument_headers(schema or {}, message.params.get("arguments")))
        return headers
    if version:
        headers["MCP-Protocol-Version"] = version
    if session_id:
        headers["Mcp-Session-Id"] = session_id
    return headers


def header_value(text: str) -> str:
    """The text, wrapped in base64 unless a header carries it unchanged."""
    if _PLAIN.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def usable_session_id(text: str) -> str:
    """The id if it has the shape that one must have, else ``""``."""
    return text if _SESSION_ID.fullmatch(text) else ""


def _is_modern(message: Request | Notification) -> bool:
    meta = message.params.get("_meta")
    return isinstance(meta, Mapping) and meta.get(VERSION_KEY) == MODERN


def _argument_headers(schema: object, value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """A header for every marked property that has a value, through objects inside objects."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not isinstance(value, Mapping) or depth > _DEPTH:
        return
    for name, part in properties.items():
        given = value.get(name)
        if given is None or not isinstance(part, Mapping):
            continue
        marked = part.get("x-mcp-header")
        if isinstance(marked, str) and _HEADER_NAME.fullmatch(marked):
            match given:
                case bool():
                    yield f"Mcp-Param-{marked}", "true" if given else "false"
                case str() | int():
                    yield f"Mcp-Param-{marked}", header_value(str(given))
        yield from _argument_headers(part, given, depth + 1)


# --- http line ------------------------------------------------------------------------------------
# What requests to one MCP server over HTTP have in common, whichever transport they belong to.

OnText = Callable[[bytes], None]

GOODBYE_S = 2.0
_ENVELOPE_BYTES = 64 * 1024
_SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """An address to talk to.

    headers      of every request; never shown, and none follows a redirect to another host
    name         how messages call it
    schema       of the tool's arguments, for those that headers repeat
    timeout_s    of the whole call; None for no limit
    start_s      of every request but the call of the tool
    probe_s      of the probe, which a server may leave without an answer
    on_ignored_probe  called when it did and was waited for
    max_message_bytes  of one message
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str
    schema: Mapping[str, Any] | None = None
    timeout_s: float | None
    max_message_bytes: int
    start_s: float = START_S
    probe_s: float = PROBE_S
    on_ignored_probe: Callable[[], None] | None = None


class HttpLine:
    """What requests to one server have in common: limits, headers, and words for failures."""

    def __init__(
        self,
        client: HttpClient,
        server: HttpServer,
        cancellation: Cancellation | None,
        on_text: OnText | None,
    ) -> None:
        self.client, self.server = client, server
        self._cancellation = cancellation
        self._on_text = on_text
        self._deadline = None if server.timeout_s is None else monotonic() + server.timeout_s
        self.max_bytes = server.max_message_bytes + _ENVELOPE_BYTES
        self.stage, self.is_step = "start of the conversation", True
        self.is_probe = False

    @contextmanager
    def stream(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        cancellation: Cancellation | None = None,
    ) -> Iterator[HttpStream]:
        """The response, as long as the whole call may take, and until it is cancelled."""
        left_s = self._limit_s() if method == "POST" else remaining_s(self._deadline)
        request = HttpRequest(
            method=method,
            url=url,
            headers={**self.server.headers, **headers},
            body=body,
            timeout_s=None if left_s is None else max(left_s, _SHORTEST_S),
            max_response_bytes=None,
            secret_headers=frozenset(self.server.headers),
        )
        with self.client.stream(request, cancellation or self._cancellation) as stream:
            yield stream

    @contextmanager
    def limited_steps(self) -> Iterator["StepLimit"]:
        """A limit for what is awaited in a stream of events that stays open from step to step.

        Raises McpTimeoutError for a step that takes longer than one may.
        """
        limit = StepLimit(self.server.start_s)
        outer = self._cancellation
        with outer.waking(limit.cancellation.cancel) if outer else nullcontext():
            if outer and outer.is_set:
                limit.cancellation.cancel()
            try:
                yield limit
            except ExchangeCancelledError as error:
                if not limit.is_over:
                    raise
                start_s = self.server.start_s
                name = self.server.name
                raise McpTimeoutError(name, self.stage, start_s, hint=START_HINT) from error
            finally:
                limit.stop()

    def _limit_s(self) -> float | None:
        """How long the answer to what is posted now may take."""
        left_s, server = remaining_s(self._deadline), self.server
        if not self.is_step:
            return left_s
        step_s = server.probe_s if self.is_probe else server.start_s
        return step_s if left_s is None else min(left_s, step_s)

    def goodbye(self, headers: Mapping[str, str]) -> None:
        """End a session; whether that works is the server's own business."""
        request = HttpRequest(
            method="DELETE",
            url=self.server.url,
            headers={**self.server.headers, **headers},
            timeout_s=GOODBYE_S,
            max_response_bytes=_ENVELOPE_BYTES,
            secret_headers=frozenset(self.server.headers),
        )
        with suppress(HttpClientError):
            self.client.send(request)

    def body(self, stream: HttpStream) -> bytes:
        """The whole body. Raises McpAnswerTooLargeError."""
        body = bytearray()
        for chunk in stream.chunks():
            body += chunk
            if len(body) > self.max_bytes:
                raise McpAnswerTooLargeError(self.server.name, self.server.max_message_bytes)
        return bytes(body)

    def parser(self) -> EventParser:
        """A reader of events within the limits."""
        return EventParser(max_event_bytes=self.max_bytes)

    def tell(self, turn: Turn) -> None:
        """Hand the notices of a turn on."""
        for notice in turn.notices:
            if self._on_text is not None:
                self._on_text(f"{notice}\n".encode("utf-8", "replace"))

    def wait(self, milliseconds: int) -> None:
        """Wait, but not longer than the call may take."""
        left_s = remaining_s(self._deadline)
        seconds = milliseconds / 1000
        wait_for(seconds if left_s is None else min(seconds, left_s), self._cancellation)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Failures of HTTP as those of this client, where it has words of its own."""
        try:
            yield
        except ExchangeTimeoutError as error:
            whole_s, start_s = self.server.timeout_s, self.server.start_s
            is_step = self.is_step and (whole_s is None or whole_s > start_s)
            timeout_s = start_s if is_step else whole_s or 0
            hint = START_HINT if is_step else ""
            raise McpTimeoutError(self.server.name, self.stage, timeout_s, hint=hint) from error
        except ExchangeCancelledError as error:
            raise McpCancelledError(self.server.name) from error
        except (EventTooLargeError, ResponseTooLargeError) as error:
            limit = self.server.max_message_bytes
            raise McpAnswerTooLargeError(self.server.name, limit) from error


class StepLimit:
    """Cancels what waits for a step that takes too long. Begins when it is made."""

    def __init__(self, step_s: float) -> None:
        self.cancellation, self.is_over = Cancellation(), False
        self._step_s = step_s
        self._timer: Timer | None = None
        self.restart()

    def restart(self) -> None:
        """The next step begins."""
        self.stop()
        self._timer = Timer(self._step_s, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Whatever is awaited now may take as long as the whole call."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.is_over = True
        self.cancellation.cancel()


def refused_twice(server: str, post: str, get: str) -> McpProtocolError:
    """Neither of the two transports over HTTP is there."""
    return McpProtocolError(
        server,
        f"it takes neither a POST ({post}) nor a stream of events ({get})",
        hint="is this the address of an MCP server, often one that ends in /mcp or /sse?",
    )


# --- http -----------------------------------------------------------------------------------------

_MAX_RESUMPTIONS = 20
_DEFAULT_RETRY_MS = 500
_REFUSED_TO_TAKE = range(400, 500)
_AUTH = (401, 403)


def call_over_http(
    client: HttpClient,
    server: HttpServer,
    call: ToolCall | ToolListing,
    info: ClientInfo,
    wanted: AllowedVersions,
    *,
    cancellation: Cancellation | None = None,
    on_text: OnText | None = None,
) -> ToolAnswer:
    """Call one tool, or list all. ``on_text`` gets progress and log messages as lines.

    Raises McpClientError, HttpClientError, ConfigurationError.
    """
    line = HttpLine(client, server, cancellation, on_text)
    with line.explained():
        for begins in (1, 2):
            session = ClientSession(call, info, wanted)
            exchange = _Exchange(line, session)
            try:
                exchange.run()  # (1)
                break
            except _ForgottenSession as error:
                if begins == 2:  # noqa: PLR2004 - once is enough
                    raise McpProtocolError(server.name, "it forgets its session") from error
            finally:
                exchange.say_goodbye()  # (3)
        if exchange.takes_no_post:  # (2)
            session = ClientSession(call, info, wanted.legacy_only)
            call_over_events(line, session, session_refusal=exchange.refusal)
        return raise_unless_answered(session.outcome, server.name)


class _ForgottenSession(Exception):  # noqa: N818 - it never leaves this module
    """The server no longer knows the session."""


class _Exchange:
    """One conversation by POST."""

    def __init__(self, line: HttpLine, session: ClientSession) -> None:
        self._line, self._session = line, session
        self._session_id = ""
        self._unsent: list[Message] = []
        self.takes_no_post = False
        self.refusal = ""

    def run(self) -> None:
        """Post until there is an outcome, or the server turns out to be of another kind."""
        self._unsent.extend(self._session.start().send)
        while self._unsent and self._session.outcome is None:
            self._line.stage = self._session.stage
            self._line.is_step = not self._session.awaits_tool
            self._line.is_probe = self._session.state is SessionState.PROBING
            if self._line.is_probe:
                self._probe(self._unsent.pop(0))
            else:
                self._post(self._unsent.pop(0))
        if self._session.outcome is None:
            raise McpProtocolError(self._line.server.name, "it took a request and never answered")

    def say_goodbye(self) -> None:
        """Delete the session, if there is one."""
        if self._session_id:
            self._line.goodbye(self._session_headers())

    def _probe(self, message: Message) -> None:
        """Post the probe, which a server that does not know it may leave without an answer."""
        try:
            self._post(message)
        except ExchangeTimeoutError:
            if self._line.server.on_ignored_probe:
                self._line.server.on_ignored_probe()
        if self._session.state is SessionState.PROBING:
            self._follow(self._session.refused(INTERNAL_ERROR, "no answer"))

    def _post(self, message: Message) -> None:
        headers = message_headers(
            message,
            version=self._session.version,
            session_id=self._session_id,
            schema=self._line.server.schema,
        )
        url = self._line.server.url
        with self._line.stream("POST", url, headers, encode(message)) as stream:
            if stream.status in _AUTH:
                raise McpAuthError(self._line.server.name, stream.status)
            if stream.status == 404 and self._session_id and isinstance(message, Request):  # noqa: PLR2004
                self._session_id = ""
                raise _ForgottenSession
            if not isinstance(message, Request):
                return
            if not 200 <= stream.status < 300:  # noqa: PLR2004 - success
                self._take_refusal(message, stream)
                return
            if message.method == "initialize":
                given = stream.headers.get("mcp-session-id", "")
                self._session_id = usable_session_id(given)
            resumption = self._take_answer(message, stream)
        if resumption is not None:
            self._resume(message, resumption)

    def _take_refusal(self, request: Request, stream: HttpStream) -> None:
        """A status other than success, with a JSON-RPC error in its body or without."""
        state = self._session.state
        found = [m for m in parse_messages(self._line.body(stream)) if isinstance(m, Failure)]
        if found:
            failure = found[0]
            answer = Failure(request.id, failure.code, failure.message, failure.data)
            self._follow(self._session.receive(answer))
            return
        problem = f"HTTP {stream.status} {stream.reason}".rstrip()
        self._follow(self._session.refused(INTERNAL_ERROR, problem))
        if state is SessionState.INITIALIZING and stream.status in _REFUSED_TO_TAKE:
            self.takes_no_post, self.refusal = True, problem

    def _take_answer(self, request: Request, stream: HttpStream) -> EventParser | None:
        """Follow what the response says; how to keep listening if it has no answer."""
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            parser = self._line.parser()
            is_answered = self._listen(request, stream, parser)
            return None if is_answered else parser
        for message in parse_messages(self._line.body(stream)):
            self._follow(self._session.receive(message))
        return None

    def _listen(self, request: Request, stream: HttpStream, parser: EventParser) -> bool:
        """Follow events until the answer is among them."""
        for chunk in stream.chunks():
            for event in parser.feed(chunk):
                if event.event != "message":
                    continue
                for message in parse_messages(event.data.encode("utf-8", "replace")):
                    self._follow(self._session.receive(message))
                    if self._session.outcome or _is_answer(message, request):
                        return True
        return False

    def _resume(self, request: Request, parser: EventParser) -> None:
        """A server may let go of the connection and have the rest asked for."""
        for _ in range(_MAX_RESUMPTIONS):
            if not parser.last_event_id or self._session.is_modern:
                return
            retry_ms = parser.retry_ms
            self._line.wait(_DEFAULT_RETRY_MS if retry_ms is None else retry_ms)
            headers = self._session_headers() | {
                "Accept": "text/event-stream",
                "Last-Event-ID": parser.last_event_id,
            }
            with self._line.stream("GET", self._line.server.url, headers) as stream:
                if stream.status != 200:  # noqa: PLR2004 - it has nothing more to say
                    return
                parser.begin_again()
                if self._listen(request, stream, parser):
                    return

    def _session_headers(self) -> dict[str, str]:
        headers = {"Mcp-Session-Id": self._session_id} if self._session_id else {}
        version = self._session.version
        return {**headers, "MCP-Protocol-Version": version} if version else headers

    def _follow(self, turn: Turn) -> None:
        self._line.tell(turn)
        for message in turn.send:
            if isinstance(message, Result | Failure):
                self._post(message)  # the server waits for it before it continues
            else:
                self._unsent.append(message)


def _is_answer(message: Incoming, request: Request) -> bool:
    if not isinstance(message, Result | Failure) or message.id is None:
        return False
    return answered_id(message.id) == request.id


# --- http sse -------------------------------------------------------------------------------------
# The transport of 2024-11-05: one stream of events to listen to, which names where to post.
#
# (1) GET the address; the first event, ``endpoint``, says where messages go: on the same host
# (2) every other event is a message; answers to what is posted come here and nowhere else

_POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def call_over_events(line: HttpLine, session: ClientSession, *, session_refusal: str) -> None:
    """Hold the session's conversation. ``session_refusal`` is what a POST had been answered."""
    headers = {"Accept": "text/event-stream"}
    name = line.server.name
    with (
        line.limited_steps() as limit,
        line.stream(
            "GET", line.server.url, headers, cancellation=limit.cancellation
        ) as stream,  # (1)
    ):
        if stream.status in (401, 403):
            raise McpAuthError(name, stream.status)
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if stream.status != 200 or kind != "text/event-stream":  # noqa: PLR2004 - success
            raise refused_twice(name, session_refusal, f"HTTP {stream.status}")
        channel = _Channel(line, session, limit)
        parser = line.parser()
        for chunk in stream.chunks():
            for event in parser.feed(chunk):
                channel.take(event.event, event.data)  # (2)
                if session.outcome is not None:
                    return
    raise McpProtocolError(name, "its stream of events ended before it answered")


class _Channel:
    """Posts what the session says in answer to events."""

    def __init__(self, line: HttpLine, session: ClientSession, limit: StepLimit) -> None:
        self._line, self._session, self._limit = line, session, limit
        self._endpoint, self._step = "", session.step
        line.stage, line.is_step = "start of the conversation", True

    def take(self, event: str, data: str) -> None:
        if event == "endpoint" and not self._endpoint:
            self._endpoint = self._checked_endpoint(data)
            self._follow(self._session.start())
        elif event == "message" and self._endpoint:
            for message in parse_messages(data.encode("utf-8", "replace")):
                self._follow(self._session.receive(message))

    def _checked_endpoint(self, data: str) -> str:
        base = self._line.server.url
        try:
            endpoint = urljoin(base, data.strip())
            same = urlsplit(endpoint)[:2] == urlsplit(base)[:2]
        except ValueError:
            same = False
        if not same:
            raise McpProtocolError(
                self._line.server.name, "expected an endpoint on its own host, found another"
            )
        return endpoint

    def _follow(self, turn: Turn) -> None:
        self._line.tell(turn)
        step = self._session.step
        self._line.stage, self._line.is_step = self._session.stage, not self._session.awaits_tool
        if self._session.awaits_tool:
            self._limit.stop()
        elif turn.send and step != self._step:
            self._limit.restart()
        self._step = step
        for message in turn.send:
            with self._line.stream("POST", self._endpoint, _POST_HEADERS, encode(message)) as taken:
                if not 200 <= taken.status < 300:  # noqa: PLR2004 - success
                    raise McpProtocolError(
                        self._line.server.name, f"HTTP {taken.status} for a message"
                    )
