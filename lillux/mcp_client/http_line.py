"""Requests to one MCP server over HTTP, whichever transport they belong to."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from threading import Timer
from time import monotonic
from typing import Any

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient, wait_for
from lillux.http.errors import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    ResponseTooLargeError,
)
from lillux.http.model import HttpRequest, HttpStream
from lillux.mcp_client.errors import (
    McpAnswerTooLargeError,
    McpCancelledError,
    McpProtocolError,
    McpTimeoutError,
)
from lillux.mcp_client.session import Turn
from lillux.mcp_client.versions import PROBE_S, START_HINT, START_S
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
    """Common part of requests to one server: limits, headers, and words for failures."""

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
        """Seconds that the answer to what is posted now may take."""
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
