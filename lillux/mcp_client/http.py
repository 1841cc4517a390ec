"""One call over HTTP: a POST for every message, answered with JSON or with a stream of events.

(1) the session's messages are posted, one after the other; 404 for a session that the server has
    forgotten begins a new one, once
(2) a server that takes no POST at its address is one of 2024-11-05: `lillux.mcp_client.http_sse`
(3) a session of the older era is deleted at the end
"""

from lillux.http_client import HttpClient, HttpStream
from lillux.jsonrpc import (
    INTERNAL_ERROR,
    Failure,
    Incoming,
    Message,
    Request,
    Result,
    encode,
    parse_messages,
)
from lillux.mcp_client.endings import raise_unless_answered
from lillux.mcp_client.errors import McpAuthError, McpProtocolError
from lillux.mcp_client.http_headers import message_headers, usable_session_id
from lillux.mcp_client.http_line import HttpServer, Line, OnText
from lillux.mcp_client.listing import ToolListing
from lillux.mcp_client.session import Answer, ClientInfo, ClientSession, State, ToolCall, Turn
from lillux.mcp_client.versions import Wanted
from lillux.process import Cancellation
from lillux.sse import EventParser

_MAX_RESUMPTIONS = 20
_DEFAULT_RETRY_MS = 500
_REFUSED_TO_TAKE = range(400, 500)
_AUTH = (401, 403)


def call_over_http(
    client: HttpClient,
    server: HttpServer,
    call: ToolCall | ToolListing,
    info: ClientInfo,
    wanted: Wanted,
    *,
    cancellation: Cancellation | None = None,
    on_text: OnText | None = None,
) -> Answer:
    """Call one tool, or list all. ``on_text`` gets progress and log messages as lines.

    Raises McpClientError, HttpClientError, ConfigurationError.
    """
    line = Line(client, server, cancellation, on_text)
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
            from lillux.mcp_client.http_sse import call_over_events

            session = ClientSession(call, info, wanted.legacy_only)
            call_over_events(line, session, session_refusal=exchange.refusal)
        return raise_unless_answered(session.outcome, server.name)


class _ForgottenSession(Exception):  # noqa: N818 - it never leaves this module
    """The server no longer knows the session."""


class _Exchange:
    """One conversation by POST."""

    def __init__(self, line: Line, session: ClientSession) -> None:
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
            self._post(self._unsent.pop(0))
        if self._session.outcome is None:
            raise McpProtocolError(self._line.server.name, "it took a request and never answered")

    def say_goodbye(self) -> None:
        """Delete the session, if there is one."""
        if self._session_id:
            self._line.goodbye(self._session_headers())

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
        """A status that is none of success, with a JSON-RPC error in its body or without."""
        state = self._session.state
        found = [m for m in parse_messages(self._line.body(stream)) if isinstance(m, Failure)]
        if found:
            failure = found[0]
            answer = Failure(request.id, failure.code, failure.message, failure.data)
            self._follow(self._session.receive(answer))
            return
        problem = f"HTTP {stream.status} {stream.reason}".rstrip()
        self._follow(self._session.refused(INTERNAL_ERROR, problem))
        if state is State.INITIALIZING and stream.status in _REFUSED_TO_TAKE:
            self.takes_no_post, self.refusal = True, problem

    def _take_answer(self, request: Request, stream: HttpStream) -> EventParser | None:
        """Follow what the response says; how to go on listening if it has no answer."""
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
                    if _is_answer(message, request):
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
                self._post(message)  # the server waits for it before it goes on
            else:
                self._unsent.append(message)


def _is_answer(message: Incoming, request: Request) -> bool:
    return isinstance(message, Result | Failure) and message.id == request.id
