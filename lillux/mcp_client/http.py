"""MCP call over HTTP: a POST for every message, answered with JSON or an event stream.

(1) the session's messages are posted, one after the other; 404 for a session that the server has
    forgotten begins a new one, once
(2) a server that takes no POST at its address is one of 2024-11-05: `http_events`
(3) a session, which only revisions up to 2025-11-25 have, is deleted at the end
What the headers of a POST say about the message in it. Pure.

From 2026-07-28 on a server may route and refuse by headers alone, so method, name and revision
stand there as well, and the arguments that the tool's schema marks with ``x-mcp-header``.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient
from lillux.http.errors import ExchangeTimeoutError
from lillux.http.model import HttpStream
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
from lillux.mcp_client.errors import McpAuthError, McpProtocolError, raise_unless_answered
from lillux.mcp_client.http_events import call_over_events
from lillux.mcp_client.http_line import HttpLine, HttpServer, OnText
from lillux.mcp_client.session import (
    ClientInfo,
    ClientSession,
    SessionState,
    ToolAnswer,
    ToolCall,
    ToolListing,
    Turn,
    answered_id,
)
from lillux.mcp_client.versions import MODERN, VERSION_KEY, AllowedVersions
from lillux.sse import EventParser

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
