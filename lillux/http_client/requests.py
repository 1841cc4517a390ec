"""What of a request can be sent. Pure."""

import math
import re

from lillux.errors import ConfigurationError
from lillux.http_client.addresses import parse_address, shown
from lillux.http_client.errors import InvalidRequestError
from lillux.http_client.model import HttpRequest

# RFC 9110, 5.6.2 and 5.5.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_VALUES = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# How long a body is, is said once and by us: two answers are how requests are smuggled.
_OURS = frozenset({"content-length", "transfer-encoding"})


def check_request(request: HttpRequest) -> None:
    """Raises HttpClientError or ConfigurationError for a request that could never be sent."""
    check_limits(request)
    parse_address(request.url)
    checked_method(request)
    checked_headers(request)


def checked_method(request: HttpRequest) -> str:
    """The method in upper case. Raises InvalidRequestError."""
    method = request.method.upper()
    if not _TOKEN.fullmatch(method) or method == "CONNECT":
        raise InvalidRequestError(
            shown(request.url), "method", f"expected a method such as GET, got {method[:40]!r}"
        )
    return method


def checked_headers(request: HttpRequest) -> dict[str, str]:
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


def check_limits(request: HttpRequest) -> None:
    """Raises ConfigurationError for limits that are none."""
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
