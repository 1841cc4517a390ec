"""One call of a model over HTTP: bytes out, an answer in, or why there is none.

What matters to the purse is which of two it was: nothing was charged (no connection, a refusal with
a status), or the outcome is not known (bytes of an answer came, and then no end). Redirects are not
followed: they would choose who reads the prompt.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.http.client import HttpClient
from lillux.http.errors import (
    BrokenConnectionError,
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
)
from lillux.http.model import HttpRequest, HttpStream
from lillux.http.retries import parse_retry_after
from lillux.redaction import Redaction
from lillux.sse import EventParser
from lillux.values import dataclass
from ryeos.agent.dialects import load
from ryeos.agent.dialects.wire import MAX_EVENT_BYTES, MAX_STREAM_BYTES
from ryeos.agent.messages import Answer, Piece, Request
from ryeos.agent.provider_errors import (
    MAX_BODY_BYTES,
    CutError,
    ProviderError,
    RetryRules,
)
from ryeos.agent.schemas import SchemaRules
from ryeos.agent.usage import UsageRules

if TYPE_CHECKING:
    from ryeos.agent.dialects import DialectModule

_SHORTEST_IN_ANSWERS = 16
IDLE_S = 120.0
"""A provider that is silent for longer does not answer any more."""
_OK = 200
_EVENT_STREAM = "text/event-stream"
Follow = Callable[[Piece], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Why a call has no answer.

    may_be_charged  bytes of an answer came, or may have: the reservation stays charged
    retry_after_s   how long the provider wants to be left alone, None for no wish
    wait_s          before the next try, where the thread has less time than that; else None
    partial         the text that came
    """

    error: LilluxError
    is_retryable: bool
    may_be_charged: bool = False
    retry_after_s: float | None = None
    wait_s: float | None = None
    partial: str = ""
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint to ask, from what a thread froze of a provider."""

    url: str
    headers: Mapping[str, str]
    dialect: "DialectModule"
    usage: UsageRules
    schema: SchemaRules
    retry: RetryRules


def endpoint_of(frozen: Mapping[str, Any], rules: "Callable[[Mapping[str, Any]], Any]") -> Endpoint:
    """The endpoint of a frozen provider; ``rules`` reads its three tables over the dialect's."""
    dialect = load(frozen["dialect"])
    usage, schema, retry = rules(frozen)
    return Endpoint(
        url=f"{frozen['base_url']}{dialect.PATH}",
        headers=frozen["headers"],
        dialect=dialect,
        usage=usage,
        schema=schema,
        retry=retry,
    )


class Exchange:
    """Calls models, over connections that are kept. ``key`` gives the credential of a provider."""

    def __init__(self, client: HttpClient, key: Callable[[Mapping[str, Any]], str]) -> None:
        self._client, self._key = client, key

    def body(self, endpoint: Endpoint, request: Request) -> bytes:
        """The bytes that would be sent."""
        return endpoint.dialect.body(request, endpoint.schema)

    def ask(
        self,
        endpoint: Endpoint,
        frozen: Mapping[str, Any],
        body: bytes,
        *,
        left_s: float,
        follow: Follow,
        cancellation: Cancellation,
    ) -> Answer | Unanswered:
        """Send a request once. Raises RyeError for a credential that cannot be had."""
        key = self._key(frozen)
        hidden = Redaction({"key": key} if key else {})
        # A provider may say the key again. A short one could be any word of an answer.
        reading = _Reading(
            endpoint, follow, hidden if len(key) >= _SHORTEST_IN_ANSWERS else Redaction({})
        )
        request = HttpRequest(
            method="POST",
            url=endpoint.url,
            headers={**endpoint.dialect.headers(key), **endpoint.headers},
            body=body,
            timeout_s=left_s,
            idle_timeout_s=min(IDLE_S, left_s),
            max_response_bytes=MAX_STREAM_BYTES,
            max_redirects=0,
            secret_headers=frozenset({"x-api-key", "api-key"}),
        )
        try:
            with self._client.stream(request, cancellation) as stream:
                if stream.status != _OK:
                    return _refused(endpoint, stream, hidden)
                return reading.answer(stream)
        except ProviderError as error:
            return Unanswered(
                error=error,
                is_retryable=error.is_retryable,
                may_be_charged=reading.has_begun,
                partial=reading.text,
            )
        except HttpClientError as error:
            return _broken(error, reading)


class _Reading:
    """The answer as it arrives."""

    def __init__(self, endpoint: Endpoint, follow: Follow, hidden: Redaction) -> None:
        self._stream = endpoint.dialect.Stream(endpoint.usage, endpoint.retry)
        self._follow, self._hidden = follow, hidden
        self._parts: list[str] = []
        self.has_begun = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def answer(self, stream: HttpStream) -> Answer:
        """Raises ProviderError, HttpClientError."""
        self.has_begun = True  # a status 200 may be charged
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _EVENT_STREAM:
            raise ProviderError(
                "PROVIDER_INVALID",
                f"answer of the provider: expected {_EVENT_STREAM}, found {kind[:80] or 'no type'}",
                hint="look whether dialect and base_url of the provider belong together",
            )
        parser = EventParser(max_event_bytes=MAX_EVENT_BYTES)
        for chunk in stream.chunks():
            try:
                events = parser.feed(chunk)
            except LilluxError as error:
                raise ProviderError("PROVIDER_INVALID", str(error)) from error
            for event in events:
                for piece in self._stream.feed(event.event, self._hidden.text(event.data)):
                    if piece.kind == "text":
                        self._parts.append(piece.text)
                    self._follow(piece)
        return self._stream.answer()


def _refused(endpoint: Endpoint, stream: HttpStream, hidden: Redaction) -> Unanswered:
    """A status that is no answer: nothing was charged."""
    body = bytearray()
    for chunk in stream.chunks():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            break
    error = endpoint.dialect.error_of(stream.status, hidden.data(bytes(body)), endpoint.retry)
    wish = parse_retry_after(stream.headers.get("retry-after", ""), datetime.now(UTC))
    return Unanswered(error=error, is_retryable=error.is_retryable, retry_after_s=wish)


def _broken(error: HttpClientError, reading: _Reading) -> Unanswered:
    """The failure of the connection. A request may have arrived although no byte came back."""
    if isinstance(error, ExchangeCancelledError):
        return Unanswered(
            error=error,
            is_retryable=False,
            may_be_charged=True,
            partial=reading.text,
            is_cancelled=True,
        )
    is_sent = isinstance(error, BrokenConnectionError | ExchangeTimeoutError)
    cut: LilluxError = error
    if reading.has_begun:
        cut = CutError("the end of the answer", 0)
        cut.__cause__ = error
    return Unanswered(
        error=cut,
        is_retryable=error.may_pass or reading.has_begun,
        may_be_charged=reading.has_begun or is_sent,
        partial=reading.text,
    )
