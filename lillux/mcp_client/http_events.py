"""MCP call over the transport of 2024-11-05: a stream of events, and POSTs.

(1) GET the address; the first event, ``endpoint``, says where messages go: on the same host
(2) every other event is a message; answers to what is posted come here and nowhere else
"""

from urllib.parse import urljoin, urlsplit

from lillux.jsonrpc import encode, parse_messages
from lillux.mcp_client.errors import McpAuthError, McpProtocolError
from lillux.mcp_client.http_line import HttpLine, StepLimit, refused_twice
from lillux.mcp_client.session import ClientSession, Turn

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
