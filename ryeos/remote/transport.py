"""What carries requests to a node or a registry, and its replies back.

Two implementations: `HttpTransport`, and a node in memory for tests.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlencode, urlsplit

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient, Wait, wait_for
from lillux.http.errors import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    ResponseTooLargeError,
    TlsError,
    UnreachableError,
)
from lillux.http.model import HttpRequest
from lillux.http.retries import Retry, delay_s, parse_retry_after
from lillux.http.urls import is_loopback
from lillux.values import dataclass, field
from ryeos.remote.errors import (
    RemoteTimeoutError,
    RemoteUnreachableError,
    ReplyTooLargeError,
)
from ryeos.remote.peers import NODE, PeerRules
from ryeos.remote.settings import RemoteConfig
from ryeos.sync.framed_entries import MEDIA_TYPE, START
from ryeos.trust.signing_key import SigningKey

if TYPE_CHECKING:
    from datetime import datetime

    from lillux.http.model import HttpResponse


MIB = 1024 * 1024
MAX_SMALL_REPLY = 4 * MIB
"""Of a reply that holds no content: heads, lists of names, rows."""

QueryPairs: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NodeReply:
    """A node's reply. ``headers`` are by lower-case name, the body is decoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The body's type, in lower case and without parameters; ``""`` where no header says."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Transport(Protocol):
    """Carries one request at a time; may be used from several threads."""

    @property
    def name(self) -> str:
        """The name of the remote, for messages."""

    @property
    def netloc(self) -> str:
        """Host and port of the node, for its pin."""

    @property
    def sender(self) -> str:
        """The caller that requests show, in the node's words; ``""`` where only the node knows."""

    def exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> NodeReply:
        """The reply, whatever its status.

        path        begins with a slash; no query, no character that needs escaping
        body        JSON, or None if absent
        timeout_s   of one attempt, None for what is configured
        may_repeat  whether asking twice does no more than asking once
        Raises RemoteUnreachableError, ReplyTooLargeError.
        """

    def identify(self, fingerprint: str) -> None:
        """Requests carry credentials from now on: the node is known to be this one."""

    def outlive_cancellation(self) -> None:
        """Later requests pass, though what ends requests was set."""


class Credentials(Protocol):
    """Makes the headers of one attempt at a request."""

    @property
    def depends_on_time(self) -> bool:
        """True if a wrong clock makes them worthless."""

    @property
    def sender(self) -> str:
        """The caller that they show, in the node's words; ``""`` where only the node knows."""

    def headers(
        self, method: str, path: str, query: QueryPairs, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """Headers for the node ``audience`` (``fp:...``), new ones each time."""


class BearerCredentials:
    """An API key, which the node knows by its digest."""

    depends_on_time = False
    sender = ""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def headers(
        self,
        method: str,  # noqa: ARG002 - the seam
        path: str,  # noqa: ARG002
        query: QueryPairs,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        *,
        audience: str,  # noqa: ARG002
        now_s: int,  # noqa: ARG002
    ) -> dict[str, str]:
        """The key itself."""
        return {"Authorization": f"Bearer {self._api_key}"}


class SignedCredentials:
    """The user's signing key; what is signed is for one request and one node."""

    depends_on_time = True

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.sender = key.fingerprint

    def headers(
        self, method: str, path: str, query: QueryPairs, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """The four headers of ``docs/remote.md``."""
        from ryeos.remote.requests import new_nonce, sign_request

        return sign_request(
            self._key,
            method=method,
            path=path,
            query=urlencode(query),
            body=body,
            audience=audience,
            now_s=now_s,
            nonce=new_nonce(),
        )


def credentials_for(remote: RemoteConfig, key: Callable[[], SigningKey]) -> Credentials:
    """The API key where one is configured and set, else the user's signing key.

    ``key`` reads that one, and raises what it raises.
    """
    return BearerCredentials(remote.api_key) if remote.api_key else SignedCredentials(key())


ATTEMPTS = 4
MAX_SKEW_S = 240
"""A clock that is wrong by this much makes signatures worthless: a node takes 300 s."""
_RETRY = Retry(max_attempts=ATTEMPTS, max_delay_s=20.0)
_BUSY = (429, 503)
_GATEWAY = (502, 504)
_UNAUTHORIZED = 401
_ACCEPTED = f"{MEDIA_TYPE}, application/json;q=0.9"


class HttpTransport:
    """See `Transport`. Connections are kept for the next requests.

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
        peer: PeerRules = NODE,
    ) -> None:
        self._peer = peer
        self._remote, self._credentials, self._client = remote, credentials, client
        self._cancellation, self._now, self._wait = cancellation, now, wait
        self._jitter = jitter
        # Packing takes longer there than it saves.
        self._is_near = is_loopback(urlsplit(remote.url).hostname or "")
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

    @property
    def sender(self) -> str:
        """The caller that the credentials show."""
        return self._credentials.sender

    def outlive_cancellation(self) -> None:
        """See the seam."""
        self._cancellation = None

    def identify(self, fingerprint: str) -> None:
        """Credentials are for this node only: no other can use what it is sent."""
        self._audience = f"fp:{fingerprint}"

    def exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> NodeReply:
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
                    raise self._error_for_caller(error, path) from error
                self._pause(delay_s(_RETRY, attempt, self._jitter), path)
                continue
            if reply.status == _UNAUTHORIZED and not has_new_clock and self._take_clock(reply):
                has_new_clock = True
                continue
            busy = reply.status in _BUSY or (reply.status in _GATEWAY and may_repeat)
            if not busy or is_last:
                return NodeReply(reply.status, reply.headers, reply.body)
            wait_s = parse_retry_after(reply.headers.get("retry-after", ""), _utc_time(self._now()))
            self._pause(delay_s(_RETRY, attempt, self._jitter, wait_s), path)

    def _send(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
    ) -> "HttpResponse":
        headers = {"Accept": _ACCEPTED}
        if self._is_near:
            headers["Accept-Encoding"] = "identity"
        if body is not None:
            # (No JSON begins like that.)
            headers["Content-Type"] = MEDIA_TYPE if body.startswith(START) else "application/json"
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
        """True if the node's clock is another than the one that was signed with; it is now ours."""
        if not (self._audience and self._credentials.depends_on_time):
            return False
        node_time_s = _date(reply.headers.get("date", ""))
        if node_time_s is None or abs(node_time_s - self._now() - self._ahead_s) <= MAX_SKEW_S:
            return False
        self._ahead_s = node_time_s - self._now()
        return True

    def _pause(self, seconds: float, path: str) -> None:
        self._wait(seconds, self._cancellation)
        if self._cancellation is not None and self._cancellation.is_set:
            raise ExchangeCancelledError(f"{self._remote.url}{path}")

    def _error_for_caller(self, error: HttpClientError, path: str) -> Exception:
        """The error for callers. A cancelled request stays one."""
        if isinstance(error, ExchangeCancelledError):
            return error
        if isinstance(error, ResponseTooLargeError):
            return ReplyTooLargeError(
                f"{self._peer.word} {self.name}: {path}", error.problem, self._peer
            )
        problem = f"{error.url}: {error.problem}"
        if isinstance(error, ExchangeTimeoutError):
            return RemoteTimeoutError(self.name, problem, error.timeout_s, peer=self._peer)
        hint = error.hint if isinstance(error, TlsError) else ""
        return RemoteUnreachableError(self.name, problem, hint=hint, peer=self._peer)


def _utc_time(now_s: float) -> "datetime":
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_s, UTC)


def _date(text: str) -> float | None:
    """The seconds since the epoch that an HTTP date means."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
