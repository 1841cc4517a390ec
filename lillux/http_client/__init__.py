"""HTTP: requests sent, responses read, with limits that hold. The door of urllib3.

What `HttpClient` guarantees:

- ``timeout_s`` bounds an attempt from the look-up of the name to the last byte, however slowly
  bytes drip; a `Cancellation` ends it within moments, whatever it waits for.
- No body grows beyond ``max_response_bytes``, counted after it was decoded.
- Certificates and names are checked, always.
- Authorization, cookies and keys do not follow a redirect to another server, and no redirect leads
  from https to http.
- Nothing that a request holds can begin a second one: control characters are refused.
- Addresses in messages have no query; no header and no body is in any message.
"""

from lillux.http_client.addresses import Address, is_loopback, parse_address, shown
from lillux.http_client.client import HttpClient
from lillux.http_client.errors import (
    BrokenConnectionError,
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    InvalidRequestError,
    InvalidUrlError,
    ProxyError,
    RedirectError,
    ResponseTooLargeError,
    TlsError,
    UndecodableBodyError,
    UnreachableError,
)
from lillux.http_client.model import MIB, Backoff, HttpRequest, HttpResponse, HttpStream, Retry
from lillux.http_client.redirects import SECRET_HEADERS
from lillux.http_client.requests import check_request

__all__ = [
    "MIB",
    "SECRET_HEADERS",
    "Address",
    "Backoff",
    "BrokenConnectionError",
    "ExchangeCancelledError",
    "ExchangeTimeoutError",
    "HttpClient",
    "HttpClientError",
    "HttpRequest",
    "HttpResponse",
    "HttpStream",
    "InvalidRequestError",
    "InvalidUrlError",
    "ProxyError",
    "RedirectError",
    "ResponseTooLargeError",
    "Retry",
    "TlsError",
    "UndecodableBodyError",
    "UnreachableError",
    "check_request",
    "is_loopback",
    "parse_address",
    "shown",
]
