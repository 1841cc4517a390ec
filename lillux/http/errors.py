"""Errors of HTTP exchanges.

Addresses are shown without user, password and query, which may hold secrets.
"""

from typing import ClassVar

from lillux.errors import LilluxError


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
