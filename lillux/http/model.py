"""HTTP requests, responses and failures as values.

Addresses are shown without user, password and query, which may hold secrets.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import ClassVar
from urllib.parse import urljoin, urlsplit

from lillux.errors import ConfigurationError, LilluxError
from lillux.patterns import pattern
from lillux.values import dataclass, field

# --- errors ---------------------------------------------------------------------------------------


class HttpClientError(LilluxError):
    """An exchange that gave no response. ``url`` is the address as it may be shown.

    ``attempts`` says how often it was tried; ``may_pass`` whether trying again makes sense.
    """

    code, exit_status = "HTTP_BROKEN", 7
    may_pass: ClassVar[bool] = False
    attempts = 1

    def __init__(self, url: str, problem: str, *, hint: str = "") -> None:
        self.url, self.problem = url, problem
        super().__init__(f"{url}: {problem}", hint=hint)


class InvalidUrlError(HttpClientError):
    """An address that names no web server."""

    code, exit_status = "HTTP_INVALID_REQUEST", 6


class InvalidRequestError(HttpClientError):
    """A method or a header that cannot be sent. ``field`` names it, like ``headers.Accept``."""

    code, exit_status = "HTTP_INVALID_REQUEST", 6

    def __init__(self, url: str, field: str, problem: str) -> None:
        self.field = field
        super().__init__(url, f"{field}: {problem}")


class UnreachableError(HttpClientError):
    """No connection: unknown name, refused, no route. ``reason`` is what the system said."""

    code = "HTTP_UNREACHABLE"
    may_pass = True

    def __init__(self, url: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            url, f"no connection: {reason}", hint="is the address right, and the server running?"
        )


class BrokenConnectionError(HttpClientError):
    """The connection ended, or spoke another language, before the response was whole."""

    may_pass = True

    def __init__(self, url: str, reason: str) -> None:
        self.reason = reason
        super().__init__(url, f"connection broken: {reason}")


class TlsError(HttpClientError):
    """There is no connection that could be trusted. ``reason`` is what OpenSSL said."""

    code = "HTTP_TLS"

    def __init__(self, url: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            url,
            f"no trusted connection: {reason}",
            hint="SSL_CERT_FILE names a file of certificate authorities to trust instead",
        )


class ProxyError(HttpClientError):
    """The proxy is wrong, out of reach, or refuses. ``proxy`` is its address."""

    code = "HTTP_PROXY"
    may_pass = True

    def __init__(self, url: str, proxy: str, reason: str) -> None:
        self.proxy, self.reason = proxy, reason
        super().__init__(
            url,
            f"proxy {proxy}: {reason}",
            hint="HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name proxies, NO_PROXY exceptions",
        )


class ExchangeTimeoutError(HttpClientError):
    """The response was not whole in time."""

    code, exit_status = "TIMEOUT", 124
    may_pass = True

    def __init__(self, url: str, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(url, f"no whole response within {timeout_s:g} seconds")


class ExchangeCancelledError(HttpClientError):
    """The caller asked for the end."""

    code, exit_status = "CANCELLED", 130

    def __init__(self, url: str) -> None:
        super().__init__(url, "the request was cancelled")


class ResponseTooLargeError(HttpClientError):
    """The body, decoded, is larger than allowed."""

    code = "RESOURCE_EXCEEDED"

    def __init__(self, url: str, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(url, f"expected a body of at most {max_bytes} bytes, got more")


class UndecodableBodyError(HttpClientError):
    """The body is not in the encoding that the response states."""

    def __init__(self, url: str, encoding: str) -> None:
        self.encoding = encoding
        super().__init__(url, f"the body is not in its content-encoding {encoding[:80]!r}")


class RedirectError(HttpClientError):
    """A redirect that is not followed: one too many, to nowhere, or away from TLS."""

    code = "HTTP_REDIRECT"


# --- model ----------------------------------------------------------------------------------------
# What is asked and what came back.

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


# --- addresses ------------------------------------------------------------------------------------
# Addresses: which are taken, and how they are shown. Pure.

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL_CHARACTERS = 64 * 1024
_LONGEST_SHOWN = 200
_MAX_HOST_CHARACTERS = 253
_MAX_PORT = 65535

_UNSAFE = pattern(r"[\x00-\x20\x7f\\]")
_LONE_PERCENT = pattern(r"%(?![0-9A-Fa-f]{2})")
_HOST_NAME = pattern(
    r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?"
)
_LOOKS_LIKE_A_NUMBER = pattern(r"(?:[0-9]+|0x[0-9a-f]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address taken apart.

    host    lower case, ASCII (names of other alphabets are written as ``xn--``); an IPv6 address
            without its brackets
    target  path and query, as a request line has them but for characters to be percent-encoded
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What two addresses of one server share."""
        return self.scheme, self.host, self.port

    @property
    def text(self) -> str:
        """The whole address, without a fragment."""
        return f"{self._site}{self.target}"

    @property
    def shown(self) -> str:
        """The address without its query, for messages."""
        path, mark, _ = self.target.partition("?")
        return f"{self._site}{path}{'?...' if mark else ''}"[:_LONGEST_SHOWN]

    @property
    def _site(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def parse_address(url: str) -> Address:
    """An address, checked. Raises InvalidUrlError."""
    if len(url) > MAX_URL_CHARACTERS:
        raise InvalidUrlError(
            shown(url), f"expected at most {MAX_URL_CHARACTERS} characters, found {len(url)}"
        )
    unsafe = _UNSAFE.search(url)
    if unsafe:
        raise InvalidUrlError(shown(url), f"expected no {unsafe.group()!r} in an address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidUrlError(shown(url), str(error)[:_LONGEST_SHOWN]) from error
    if parts.scheme not in DEFAULT_PORTS:
        raise InvalidUrlError(
            shown(url), f"expected http:// or https://, got {parts.scheme[:20] or 'no scheme'}"
        )
    if "@" in parts.netloc:
        raise InvalidUrlError(
            shown(url),
            "expected no user and password in an address",
            hint="addresses are logged; send an Authorization header instead",
        )
    return Address(
        scheme=parts.scheme,
        host=_host(parts.hostname or "", is_bracketed="[" in parts.netloc, url=url),
        port=DEFAULT_PORTS[parts.scheme] if port is None else _port(port, url),
        # (Beside a lone % others would be encoded a second time.)
        target=_LONE_PERCENT.sub(
            "%25", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        ),
    )


def joined(base: Address, location: str) -> str:
    """Where a redirect leads that was met at ``base``."""
    return urljoin(base.text, location.strip(" \t"))


def shown(url: str) -> str:
    """An address that may be no address at all, without what may be secret in it."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "", url
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    authority = authority.rpartition("@")[2]
    return ascii(f"{scheme}{mark}{authority}{slash}{path}"[:_LONGEST_SHOWN])[1:-1] or "no address"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine whoever resolves its name.

    ``localhost`` itself and addresses of loopback: a resolver may send names below ``localhost``
    anywhere, and not every system takes an IPv6 address that carries one of IPv4 for loopback.
    """
    if host == "localhost":
        return True
    try:
        ip = ip_address(host)
    except ValueError:
        return False
    return ip.is_loopback and not (isinstance(ip, IPv6Address) and ip.ipv4_mapped)


def is_unencrypted(url: str) -> bool:
    """Whether others can read on the way what is sent to an address: http, to another machine.

    Raises ValueError for what is no address.
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def _port(port: int, url: str) -> int:
    if not 0 < port <= _MAX_PORT:
        raise InvalidUrlError(shown(url), f"expected a port from 1 to {_MAX_PORT}, got {port}")
    return port


def _host(host: str, *, is_bracketed: bool, url: str) -> str:
    if not host:
        raise InvalidUrlError(shown(url), "expected a host, got none")
    if is_bracketed:
        return _ipv6(host, url)
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise InvalidUrlError(shown(url), f"expected a host name, got {host[:80]!a}") from error
    name = name.lower()
    if len(name) > _MAX_HOST_CHARACTERS or not _HOST_NAME.fullmatch(name):
        raise InvalidUrlError(shown(url), f"expected a host name, got {host[:80]!a}")
    if _LOOKS_LIKE_A_NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2]):
        return _ipv4(name, url)
    return name


def _ipv4(name: str, url: str) -> str:
    """Four numbers. Shorter and other forms mean one machine here and another one there."""
    try:
        return str(IPv4Address(name))
    except AddressValueError as error:
        raise InvalidUrlError(
            shown(url), f"expected four numbers as in 127.0.0.1, got {name[:80]}"
        ) from error


def _ipv6(host: str, url: str) -> str:
    try:
        address = IPv6Address(host)
    except AddressValueError as error:
        raise InvalidUrlError(shown(url), f"expected an IPv6 address, got {host[:80]}") from error
    if address.scope_id:
        raise InvalidUrlError(shown(url), "expected an IPv6 address without a zone")
    return str(address)


# --- redirects ------------------------------------------------------------------------------------
# Where a redirect leads, and what goes along. Pure.

STATUSES = frozenset({301, 302, 303, 307, 308})
SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "cookie2", "proxy-authorization", "x-api-key", "api-key"}
)
_OF_THE_BODY = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """What is sent to one address."""

    address: Address
    method: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


def redirected(
    sending: OutgoingRequest, status: int, location: str, secret_headers: frozenset[str]
) -> OutgoingRequest:
    """What is sent next. Raises RedirectError for where we do not go.

    A 303, and a 301 or 302 to a POST, become a GET without body, as browsers have it. Secret
    headers, and those whose names say so, stay with the server they were meant for, or the same
    one over TLS.
    """
    from lillux.secret_names import says_secret

    here = sending.address
    try:
        there = parse_address(joined(here, location))
    except (InvalidUrlError, ValueError) as error:
        problem = error.problem if isinstance(error, InvalidUrlError) else str(error)[:200]
        raise RedirectError(here.shown, f"redirects to no address: {problem}") from error
    if (here.scheme, there.scheme) == ("https", "http"):
        raise RedirectError(
            here.shown, f"redirects from https to {there.shown}, where others could read along"
        )
    dropped, is_same = {"host"}, _is_same_server(here, there)
    if not is_same:
        dropped |= SECRET_HEADERS | {name.lower() for name in secret_headers}
    method, body = sending.method, sending.body
    if (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST"):  # noqa: PLR2004
        method, body = "GET", None
        dropped |= _OF_THE_BODY
    kept = {
        name: value
        for name, value in sending.headers.items()
        if name.lower() not in dropped and (is_same or not says_secret(name))
    }
    return OutgoingRequest(address=there, method=method, headers=kept, body=body)


def _is_same_server(here: Address, there: Address) -> bool:
    upgraded = (here.host, "http", 80, "https", 443) == (
        *(there.host, here.scheme, here.port),
        *(there.scheme, there.port),
    )
    return here.origin == there.origin or upgraded


# --- requests -------------------------------------------------------------------------------------
# What of a request can be sent. Pure.

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


# --- retries --------------------------------------------------------------------------------------
# How long to wait before the next attempt. Pure.

MAX_JITTER = 0.25
_SECONDS = pattern(r"[0-9]{1,10}")
_LARGEST_EXPONENT = 30


def delay_s(
    retry: Retry, attempt: int, jitter: Callable[[], float], retry_after_s: float | None = None
) -> float:
    """Seconds to wait after attempt number ``attempt`` (from 1 on), ``jitter`` from 0 to 1.

    What a server asks for is what is waited; else up to a quarter more than the backoff says, so
    that many callers do not come back together.
    """
    if retry_after_s is not None:
        return min(retry_after_s, retry.max_delay_s)
    doubled = retry.backoff is Backoff.EXPONENTIAL
    delay = 2.0 ** min(attempt - 1, _LARGEST_EXPONENT) if doubled else 1.0
    return min(delay * (1 + MAX_JITTER * jitter()), retry.max_delay_s)


def parse_retry_after(value: str, now: datetime) -> float | None:
    """The seconds that a ``Retry-After`` means: a number or an HTTP date; None for neither."""
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        retry_time = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    if retry_time.tzinfo is None:  # "-0000": the time of Greenwich, local zone unknown
        retry_time = retry_time.replace(tzinfo=UTC)
    return max((retry_time - now).total_seconds(), 0.0)
