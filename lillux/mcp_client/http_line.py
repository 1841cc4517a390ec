"""What requests to one MCP server over HTTP have in common, whichever transport they belong to."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from lillux.http_client import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClient,
    HttpClientError,
    HttpRequest,
    HttpStream,
    ResponseTooLargeError,
)
from lillux.http_client.client import wait_for
from lillux.mcp_client.errors import (
    McpAnswerTooLargeError,
    McpCancelledError,
    McpProtocolError,
    McpTimeoutError,
)
from lillux.mcp_client.session import Turn
from lillux.process import Cancellation
from lillux.process.conversation import remaining_s
from lillux.sse import EventParser, EventTooLargeError
from lillux.values import dataclass, field

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
    max_message_bytes  of one message
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str
    schema: Mapping[str, Any] | None = None
    timeout_s: float | None
    max_message_bytes: int


class Line:
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
        self.stage = "start of the conversation"

    @contextmanager
    def stream(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Iterator[HttpStream]:
        """The response, as long as the whole call may take."""
        left_s = remaining_s(self._deadline)
        request = HttpRequest(
            method=method,
            url=url,
            headers={**self.server.headers, **headers},
            body=body,
            timeout_s=None if left_s is None else max(left_s, _SHORTEST_S),
            max_response_bytes=None,
            secret_headers=frozenset(self.server.headers),
        )
        with self.client.stream(request, self._cancellation) as stream:
            yield stream

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
            timeout_s = self.server.timeout_s or 0
            raise McpTimeoutError(self.server.name, self.stage, timeout_s) from error
        except ExchangeCancelledError as error:
            raise McpCancelledError(self.server.name) from error
        except (EventTooLargeError, ResponseTooLargeError) as error:
            limit = self.server.max_message_bytes
            raise McpAnswerTooLargeError(self.server.name, limit) from error


def refused_twice(server: str, post: str, get: str) -> McpProtocolError:
    """Neither of the two transports over HTTP is there."""
    return McpProtocolError(
        server,
        f"it takes neither a POST ({post}) nor a stream of events ({get})",
        hint="is this the address of an MCP server, often one that ends in /mcp or /sse?",
    )
