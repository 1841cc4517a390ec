"""What is asked and what came back."""

from collections.abc import Iterator, Mapping
from enum import Enum

from lillux.values import dataclass, field

MIB = 1024 * 1024
DEFAULT_TIMEOUT_S = 30.0
MAX_REDIRECTS = 5


class Backoff(Enum):
    """How the waits between attempts grow."""

    EXPONENTIAL = "exponential"
    """1, 2, 4, 8 ... seconds."""
    LINEAR = "linear"
    """A second each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a request is sent again: after transport failures, and after these statuses.

    max_attempts  1 for never again
    on_status     statuses such as 429 or 503; their ``Retry-After`` is followed
    max_delay_s   no wait is longer, whatever a server asks for
    """

    max_attempts: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    on_status: tuple[int, ...] = ()
    max_delay_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    url                 ``http`` or ``https`` with a host, without user and password
    headers             names in any case; ``Content-Length`` and ``Transfer-Encoding`` are ours
    body                bytes, or None for none
    timeout_s           for one attempt from the first look-up of a name to the last byte, redirects
                        included; None for no limit
    total_timeout_s     for all attempts and the waits between them
    idle_timeout_s      the longest silence
    max_response_bytes  of the decoded body; None for no cap, for streams without end
    secret_headers      names, besides the well-known ones, of headers for no other host
    """

    method: str = "GET"
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    total_timeout_s: float | None = None
    idle_timeout_s: float | None = None
    max_response_bytes: int | None = 50 * MIB
    max_redirects: int = MAX_REDIRECTS
    secret_headers: frozenset[str] = frozenset()
    retry: Retry = field(default_factory=Retry)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A whole response.

    headers      by lower-case name; several of one name are joined by ``", "``
    body         decoded: gzip and deflate are undone
    url          where it came from, after redirects, as it may be shown
    duration_ms  of all attempts, with the waits
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str
    attempts: int = 1
    duration_ms: float


class HttpStream:
    """A response whose body arrives while it is read: ``status``, ``headers``, ..., and `chunks`.

    The shapes are those of `HttpResponse`. It is valid inside the ``with`` that gave it.
    """

    __slots__ = ("_chunks", "headers", "reason", "status", "url")

    def __init__(
        self,
        *,
        status: int,
        reason: str,
        headers: Mapping[str, str],
        url: str,
        chunks: Iterator[bytes],
    ) -> None:
        self.status, self.reason, self.headers = status, reason, headers
        self.url, self._chunks = url, chunks

    def chunks(self) -> Iterator[bytes]:
        """The decoded body, each piece as soon as it is there. Raises HttpClientError."""
        return self._chunks
