"""Requests to a node over HTTP. Each attempt is signed anew, so that none is taken for a replay."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from lillux.http.client import HttpClient, Wait, wait_for
from lillux.http.model import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    HttpRequest,
    ResponseTooLargeError,
    Retry,
    TlsError,
    UnreachableError,
    delay_s,
    parse_retry_after,
)
from lillux.process.cancellation import Cancellation
from ryeos.cas.framed_entries import MEDIA_TYPE
from ryeos.remote.credentials import Credentials
from ryeos.remote.errors import RemoteTimeoutError, RemoteUnreachableError, ReplyTooLargeError
from ryeos.remote.remote_url import is_loopback
from ryeos.remote.remotes import RemoteConfig
from ryeos.remote.transport import Query, Reply

if TYPE_CHECKING:
    from datetime import datetime

    from lillux.http.model import HttpResponse

ATTEMPTS = 4
MAX_SKEW_S = 240
"""A clock that is wrong by this much makes signatures worthless: a node takes 300 s."""
_RETRY = Retry(max_attempts=ATTEMPTS, max_delay_s=20.0)
_BUSY = (429, 503)
_GATEWAY = (502, 504)
_UNAUTHORIZED = 401
_ACCEPTED = f"{MEDIA_TYPE}, application/json;q=0.9"


class HttpTransport:
    """See `ryeos.remote.transport.Transport`. Connections are kept for the next requests.

    now, wait, jitter   the clock, waiting, and chance from 0 to 1; passed for tests
    """

    def __init__(
        self,
        remote: RemoteConfig,
        credentials: Credentials,
        client: HttpClient,
        *,
        cancellation: Cancellation | None = None,
        now: Callable[[], float] = time.time,
        wait: Wait = wait_for,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._remote, self._credentials, self._client = remote, credentials, client
        self._cancellation, self._now, self._wait = cancellation, now, wait
        self._jitter = jitter
        self._is_near = is_loopback(remote.url)  # packing takes longer there than it saves
        self._audience = ""
        self._ahead_s = 0.0

    @property
    def name(self) -> str:
        """The name of the remote."""
        return self._remote.name

    @property
    def netloc(self) -> str:
        """Host and port, as the address has them."""
        return urlsplit(self._remote.url).netloc

    def identify(self, fingerprint: str) -> None:
        """Credentials are for this node only: no other can use what it is sent."""
        self._audience = f"fp:{fingerprint}"

    def exchange(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> Reply:
        """See the seam. Tried up to `ATTEMPTS` times where that may help and can do no harm."""
        attempt, has_new_clock = 0, False
        while True:
            attempt += 1
            is_last = attempt >= ATTEMPTS
            try:
                reply = self._send(
                    method,
                    path,
                    query,
                    body,
                    timeout_s=timeout_s,
                    max_response_bytes=max_response_bytes,
                )
            except HttpClientError as error:
                was_sent = not isinstance(error, UnreachableError)
                if is_last or not error.may_pass or (was_sent and not may_repeat):
                    raise self._refused(error, path) from error
                self._pause(delay_s(_RETRY, attempt, self._jitter), path)
                continue
            if reply.status == _UNAUTHORIZED and not has_new_clock and self._take_clock(reply):
                has_new_clock = True
                continue
            busy = reply.status in _BUSY or (reply.status in _GATEWAY and may_repeat)
            if not busy or is_last:
                return Reply(reply.status, reply.headers, reply.body)
            asked = parse_retry_after(reply.headers.get("retry-after", ""), _moment(self._now()))
            self._pause(delay_s(_RETRY, attempt, self._jitter, asked), path)

    def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
    ) -> "HttpResponse":
        headers = {"Accept": _ACCEPTED}
        if self._is_near:
            headers["Accept-Encoding"] = "identity"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._audience:
            headers |= self._credentials.headers(
                method,
                path,
                query,
                body or b"",
                audience=self._audience,
                now_s=int(self._now() + self._ahead_s),
            )
        request = HttpRequest(
            method=method,
            url=f"{self._remote.url.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else ""),
            headers=headers,
            body=body,
            timeout_s=self._remote.timeout_s if timeout_s is None else timeout_s,
            max_response_bytes=max_response_bytes,
            max_redirects=0,  # what was signed is for this address
        )
        return self._client.send(request, self._cancellation)

    def _take_clock(self, reply: "HttpResponse") -> bool:
        """Whether the node's clock is another than the one that was signed with; it is now ours."""
        if not (self._audience and self._credentials.depends_on_time):
            return False
        moment = _date(reply.headers.get("date", ""))
        if moment is None or abs(moment - self._now() - self._ahead_s) <= MAX_SKEW_S:
            return False
        self._ahead_s = moment - self._now()
        return True

    def _pause(self, seconds: float, path: str) -> None:
        self._wait(seconds, self._cancellation)
        if self._cancellation is not None and self._cancellation.is_set:
            raise ExchangeCancelledError(f"{self._remote.url}{path}")

    def _refused(self, error: HttpClientError, path: str) -> Exception:
        """What callers are told. A cancelled request stays one."""
        if isinstance(error, ExchangeCancelledError):
            return error
        if isinstance(error, ResponseTooLargeError):
            return ReplyTooLargeError(f"remote {self.name}: {path}", error.problem)
        problem = f"{error.url}: {error.problem}"
        if isinstance(error, ExchangeTimeoutError):
            return RemoteTimeoutError(self.name, problem, error.timeout_s)
        hint = error.hint if isinstance(error, TlsError) else ""
        return RemoteUnreachableError(self.name, problem, hint=hint)


def _moment(now_s: float) -> "datetime":
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_s, UTC)


def _date(text: str) -> float | None:
    """The seconds since the epoch that an HTTP date means."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
