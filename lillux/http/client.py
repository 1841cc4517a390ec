"""HTTP requests and responses, with retries and limits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lillux.cancellation import Cancellation
from lillux.http.errors import (
    ExchangeCancelledError,
    HttpClientError,
    RedirectError,
    ResponseTooLargeError,
)
from lillux.http.interruption import Interruption
from lillux.http.model import (
    HttpRequest,
    HttpResponse,
    HttpStream,
    valid_headers,
    valid_method,
    validate_limits,
)
from lillux.http.proxies import Proxy, proxy_for
from lillux.http.redirects import STATUSES, OutgoingRequest, redirected
from lillux.http.retries import delay_s, parse_retry_after
from lillux.http.urls import parse_address
from lillux.values import replace

if TYPE_CHECKING:
    from ssl import SSLContext

CHUNK_BYTES = 64 * 1024

Wait = Callable[[float, Cancellation | None], None]
"""Returns after so many seconds, or earlier when cancelled."""


class HttpClient:
    """Sends requests; keeps connections for the next ones. Safe to use from many threads.

    env     HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY; SSL_CERT_FILE, REQUESTS_CA_BUNDLE,
            CURL_CA_BUNDLE. Nothing is read from the process.
    wait    waits between attempts
    now     the time of the day, for ``Retry-After`` with a date
    jitter  from 0 to 1, anew each time
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        user_agent: str = "lillux",
        wait: Wait | None = None,
        now: Callable[[], datetime] | None = None,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self._env = dict(env)
        self._user_agent = user_agent
        self._wait = wait or wait_for
        self._now = now or _now
        self._jitter = jitter or _random
        self._lock = Lock()
        self._context: SSLContext | None = None
        self._pools: dict[tuple[Proxy | None, bool], Any] = {}

    def send(self, request: HttpRequest, cancellation: Cancellation | None = None) -> HttpResponse:
        """The whole response, whatever its status. Raises HttpClientError, ConfigurationError."""
        validate_limits(request)
        started = monotonic()
        for attempt in range(1, request.retry.max_attempts + 1):
            left_s = _remaining_s(request.total_timeout_s, started)
            retry_after_s = None
            try:
                response = self._send_once(
                    request, _shorter(request.timeout_s, left_s), cancellation
                )
            except HttpClientError as error:
                error.attempts = attempt
                if not error.may_pass or attempt == request.retry.max_attempts:
                    raise
                delay = delay_s(request.retry, attempt, self._jitter)
                if not _is_time_for(delay, request.total_timeout_s, started):
                    raise
            else:
                response = replace(
                    response, attempts=attempt, duration_ms=(monotonic() - started) * 1000
                )
                if (
                    response.status not in request.retry.on_status
                    or attempt == request.retry.max_attempts
                ):
                    return response
                retry_after_s = parse_retry_after(
                    response.headers.get("retry-after", ""), self._now()
                )
                delay = delay_s(request.retry, attempt, self._jitter, retry_after_s)
                if not _is_time_for(delay, request.total_timeout_s, started):
                    return response
            self._wait(delay, cancellation)
            if cancellation is not None and cancellation.is_set:
                raise ExchangeCancelledError(parse_address(request.url).shown)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def stream(
        self, request: HttpRequest, cancellation: Cancellation | None = None
    ) -> Iterator[HttpStream]:
        """A response that is read while it arrives; sent once. Raises as `send` does.

        Inside the block the deadline and the cancellation are heard. What is not read of the body
        when it ends is let go.
        """
        validate_limits(request)
        sending = OutgoingRequest(
            address=parse_address(request.url),
            method=valid_method(request),
            headers=self._with_defaults(valid_headers(request)),
            body=request.body,
        )
        interruption = Interruption(sending.address.shown, request.timeout_s)
        with interruption.watching(cancellation):
            response, url = self._follow_redirects(sending, request, interruption)
            headers = {name.lower(): response.headers[name] for name in response.headers}
            try:
                yield HttpStream(
                    status=response.status,
                    reason=response.reason or "",
                    headers=headers,
                    url=url,
                    chunks=_body(response, url, request, interruption),
                )
            finally:
                response.close()

    def close(self) -> None:
        """Close the connections that wait for further requests."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.clear()

    def __enter__(self) -> Self:
        """The client itself; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send_once(
        self, request: HttpRequest, timeout_s: float | None, cancellation: Cancellation | None
    ) -> HttpResponse:
        with self.stream(replace(request, timeout_s=timeout_s), cancellation) as stream:
            return HttpResponse(
                status=stream.status,
                reason=stream.reason,
                headers=stream.headers,
                body=b"".join(stream.chunks()),
                url=stream.url,
                duration_ms=0.0,
            )

    def _with_defaults(self, headers: dict[str, str]) -> dict[str, str]:
        given = {name.lower() for name in headers}
        defaults = {
            "User-Agent": self._user_agent,
            "Accept": "*/*",
            "Accept-Encoding": "gzip, deflate",
        }
        missing = {name: value for name, value in defaults.items() if name.lower() not in given}
        return {**headers, **missing}

    def _follow_redirects(
        self, sending: OutgoingRequest, request: HttpRequest, interruption: Interruption
    ) -> tuple[Any, str]:
        """The response that is no redirect, or the first one if none is to be followed."""
        from lillux.http.connections import finish, open_response

        for _ in range(request.max_redirects + 1):
            proxy = proxy_for(sending.address, self._env)
            response = open_response(
                self._pool(proxy, sending.address.scheme),
                sending,
                interruption,
                proxy,
                request.idle_timeout_s,
            )
            location = response.headers.get("location")
            if response.status not in STATUSES or not location or not request.max_redirects:
                return response, sending.address.shown
            finish(response)
            sending = redirected(sending, response.status, location, request.secret_headers)
        raise RedirectError(
            sending.address.shown, f"expected at most {request.max_redirects} redirects, got more"
        )

    def _pool(self, proxy: Proxy | None, scheme: str) -> Any:  # noqa: ANN401 - of the library
        from lillux.http.connections import pools
        from lillux.http.trust_roots import tls_context

        wants_tls = "https" in {scheme, proxy and proxy.address.scheme}
        with self._lock:
            # (Reading the authorities takes longer than a request on this machine.)
            if wants_tls and self._context is None:
                self._context = tls_context(self._env)
            if (proxy, wants_tls) not in self._pools:
                context = self._context if wants_tls else None
                self._pools[proxy, wants_tls] = pools(proxy, context)
            return self._pools[proxy, wants_tls]


def _body(
    response: Any,  # noqa: ANN401 - a type of the library
    url: str,
    request: HttpRequest,
    interruption: Interruption,
) -> Iterator[bytes]:
    from lillux.http.connections import read_chunks

    left = request.max_response_bytes
    for chunk in read_chunks(response, url, interruption, request.idle_timeout_s, CHUNK_BYTES):
        if left is not None:
            left -= len(chunk)
            if left < 0:
                raise ResponseTooLargeError(url, request.max_response_bytes or 0)
        yield chunk


def wait_for(seconds: float, cancellation: Cancellation | None) -> None:
    """Return after so many seconds, or when cancelled."""
    from contextlib import nullcontext, suppress
    from queue import Empty, SimpleQueue

    woken: SimpleQueue[None] = SimpleQueue()
    with cancellation.waking(lambda: woken.put(None)) if cancellation else nullcontext():
        if cancellation is None or not cancellation.is_set:
            with suppress(Empty):
                woken.get(timeout=seconds)


def _remaining_s(limit_s: float | None, started: float) -> float | None:
    """Rest of a limit, never 0: callers ask `_is_time_for` before."""
    return None if limit_s is None else max(limit_s - (monotonic() - started), 0.001)


def _shorter(one: float | None, other: float | None) -> float | None:
    given = [seconds for seconds in (one, other) if seconds is not None]
    return min(given, default=None)


def _is_time_for(delay: float, limit_s: float | None, started: float) -> bool:
    left = _remaining_s(limit_s, started)
    return left is None or delay < left


def _now() -> datetime:
    return datetime.now(UTC)


def _random() -> float:
    from random import random

    return random()  # noqa: S311 - it spreads waits, nothing depends on it
