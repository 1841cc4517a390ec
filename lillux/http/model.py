"""HTTP requests and responses as values, and the checks of a request. Pure."""

import math
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from lillux.errors import ConfigurationError
from lillux.http.errors import InvalidRequestError
from lillux.http.redirects import MAX_REDIRECTS
from lillux.http.retries import Retry
from lillux.http.urls import is_loopback, parse_address, shown
from lillux.patterns import pattern
from lillux.values import dataclass, field

MIB = 1024 * 1024
DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    url                 ``http`` or ``https`` with a host, without user and password
    headers             names in any case; ``Content-Length`` and ``Transfer-Encoding`` are ours
    body                bytes, or None if absent
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


def is_unencrypted(url: str) -> bool:
    """Whether others can read on the way what is sent to an address: http, to another machine.

    Raises ValueError for what is no address.
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


# RFC 9110, 5.6.2 and 5.5.
_TOKEN = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_VALUES = pattern(r"[\x00-\x08\x0a-\x1f\x7f]")
# How long a body is, is said once and by us: two answers are how requests are smuggled.
_OURS = frozenset({"content-length", "transfer-encoding"})


def validate_request(request: HttpRequest) -> None:
    """Raises HttpClientError or ConfigurationError for a request that could never be sent."""
    validate_limits(request)
    parse_address(request.url)
    valid_method(request)
    valid_headers(request)


def valid_method(request: HttpRequest) -> str:
    """The method in upper case. Raises InvalidRequestError."""
    method = request.method.upper()
    if not _TOKEN.fullmatch(method) or method == "CONNECT":
        raise InvalidRequestError(
            shown(request.url), "method", f"expected a method such as GET, got {method[:40]!r}"
        )
    return method


def valid_headers(request: HttpRequest) -> dict[str, str]:
    """The headers as they are sent. Raises InvalidRequestError, which never shows a value."""
    checked: dict[str, str] = {}
    for name, value in request.headers.items():
        field = f"headers.{name[:80]!a}"
        if not _TOKEN.fullmatch(name):
            raise InvalidRequestError(shown(request.url), field, "expected the name of a header")
        if name.lower() in _OURS:
            raise InvalidRequestError(
                shown(request.url), field, "expected no such header: it follows from the body"
            )
        if name.lower() in (known.lower() for known in checked):
            raise InvalidRequestError(shown(request.url), field, "expected it once, found it twice")
        checked[name] = _checked_value(value, field, request)
    return checked


def validate_limits(request: HttpRequest) -> None:
    """Raises ConfigurationError for invalid limits."""
    for name in ("timeout_s", "total_timeout_s", "idle_timeout_s"):
        seconds = getattr(request, name)
        if seconds is not None and not 0 < seconds < math.inf:
            raise ConfigurationError(
                name, f"expected seconds above 0, or none for no limit, got {seconds}"
            )
    if request.retry.max_attempts < 1:
        raise ConfigurationError(
            "retry.max_attempts", f"expected 1 or more, got {request.retry.max_attempts}"
        )


def _checked_value(value: object, field: str, request: HttpRequest) -> str:
    if not isinstance(value, str):
        problem = f"expected text, got {type(value).__name__}"
        raise InvalidRequestError(shown(request.url), field, problem)
    if _FORBIDDEN_IN_VALUES.search(value):
        raise InvalidRequestError(
            shown(request.url), field, "expected text without line breaks and control characters"
        )
    try:
        value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            shown(request.url),
            field,
            f"expected characters of Latin-1, found {error.object[error.start]!a}",
        ) from None
    return value.strip(" \t")
