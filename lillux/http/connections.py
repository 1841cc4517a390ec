"""Connection pools of urllib3 that an `Interruption` can end. The door of urllib3.

urllib3 keeps connections, speaks to proxies and checks certificates. Redirects, retries and limits
are ours: its own look at single reads, not at the whole.
"""

import logging
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    DecodeError,
    HTTPError,
    NewConnectionError,
    SSLError,
)
from urllib3.exceptions import ProxyError as Urllib3ProxyError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError

from lillux.http.errors import (
    BrokenConnectionError,
    ExchangeTimeoutError,
    HttpClientError,
    ProxyError,
    TlsError,
    UndecodableBodyError,
    UnreachableError,
)
from lillux.http.interruption import Interruption, LiveSocket
from lillux.http.proxies import Proxy
from lillux.http.redirects import OutgoingRequest

MAX_POOLS = 20
MAX_IDLE_CONNECTIONS = 10
_LONGEST_REASON = 300
_SMALL_BODY_BYTES = 64 * 1024

# Its notes hold whole addresses, with what is secret in them.
logging.getLogger("urllib3").setLevel(logging.ERROR)


class _CurrentExchange(threading.local):
    """The exchange of this thread: urllib3 makes connections and does not say for whom."""

    interruption: Interruption | None = None


_current = _CurrentExchange()


class _Connection(HTTPConnection):
    """A connection that the exchange of its thread can end."""

    _live: LiveSocket | None = None

    def _new_conn(self) -> Any:  # noqa: ANN401 - a socket, which the stubs call otherwise
        interruption = _current.interruption
        if interruption is None:
            raise NewConnectionError(self, "a connection outside of any exchange")
        try:
            connected = interruption.dial(self.host, self.port, self.socket_options or ())
        except OSError as error:
            raise NewConnectionError(self, error.strerror or str(error)) from error
        connected.settimeout(self.timeout)
        self._live = LiveSocket(connected)
        interruption.follow(self._live)
        return connected

    def request(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - passed on as it is
        if self._live is not None and _current.interruption is not None:
            _current.interruption.follow(self._live)
        super().request(*arguments, **named)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._live is not None:
                self._live.discard()
                self._live = None


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def pools(proxy: Proxy | None, context: ssl.SSLContext | None) -> PoolManager:
    """Connections that go straight to servers, or through a proxy; without TLS for no context."""
    shared: dict[str, Any] = {
        "num_pools": MAX_POOLS,
        "maxsize": MAX_IDLE_CONNECTIONS,
        "ssl_context": context,
    }
    if proxy is None:
        manager = PoolManager(**shared)
    else:
        headers = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
        manager = ProxyManager(
            proxy.address.text, proxy_headers=headers, proxy_ssl_context=context, **shared
        )
    manager.pool_classes_by_scheme = (
        {"http": _Pool, "https": _TlsPool} if context else {"http": _Pool}
    )
    return manager


def open_response(
    manager: PoolManager,
    sending: OutgoingRequest,
    interruption: Interruption,
    proxy: Proxy | None,
    idle_timeout_s: float | None,
) -> BaseHTTPResponse:
    """The response as far as its headers. Raises HttpClientError."""
    with _translated(sending.address.shown, interruption, proxy, idle_timeout_s):
        _current.interruption = interruption
        try:
            return manager.urlopen(
                sending.method,
                sending.address.text,
                headers=dict(sending.headers),
                body=sending.body,
                timeout=Timeout(connect=idle_timeout_s, read=idle_timeout_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        finally:
            _current.interruption = None


def read_chunks(
    response: BaseHTTPResponse,
    url: str,
    interruption: Interruption,
    idle_timeout_s: float | None,
    chunk_bytes: int,
) -> Iterator[bytes]:
    """The decoded body, piece by piece as it arrives. Raises HttpClientError."""
    while True:
        with _translated(url, interruption, None, idle_timeout_s, response.headers):
            chunk = response.read1(chunk_bytes)
        # (A connection that was shut down looks like one that came to its end.)
        interruption.check()
        if not chunk:
            return
        yield chunk


def finish(response: BaseHTTPResponse) -> None:
    """Release a response that will not be read; a connection with little left on it is kept."""
    left = getattr(response, "length_remaining", None)
    if left is not None and left <= _SMALL_BODY_BYTES:
        response.drain_conn()
    response.close()


@contextmanager
def _translated(
    url: str,
    interruption: Interruption,
    proxy: Proxy | None,
    idle_timeout_s: float | None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[None]:
    try:
        yield
    except (HTTPError, OSError, ValueError) as error:
        interruption.check()
        raise _translation(error, url, proxy, idle_timeout_s, headers or {}) from error


def _translation(
    error: Exception,
    url: str,
    proxy: Proxy | None,
    idle_timeout_s: float | None,
    headers: Mapping[str, str],
) -> HttpClientError:
    match error:
        case Urllib3ProxyError():
            shown = proxy.address.shown if proxy else "unknown"
            return ProxyError(url, shown, _reason(error.original_error))
        case SSLError():
            return TlsError(url, _reason(error))
        case NewConnectionError():
            return UnreachableError(url, _reason(error))
        case Urllib3TimeoutError():
            return ExchangeTimeoutError(url, idle_timeout_s or 0)
        case DecodeError():
            return UndecodableBodyError(url, headers.get("content-encoding", ""))
    return BrokenConnectionError(url, _reason(error))


def _reason(error: BaseException) -> str:
    """Text of the innermost error: those around it repeat it with more brackets."""
    if isinstance(error, NewConnectionError) and error.__cause__:
        error = error.__cause__
    while True:
        inner = [part for part in error.args if isinstance(part, BaseException)]
        if not inner:
            break
        error = inner[0]
    text = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return str(text or type(error).__name__)[:_LONGEST_REASON]
