"""A proxy on loopback that leads to named hosts and nowhere else.

A confined program may connect to its port alone (`lillux.seccomp.Reach.PROXY`), and asks it for
hosts by name: by CONNECT, or by a plain request with a whole address. The name is looked up here,
once, and the connection goes to the very address that was looked at: a name that leads to a private
address is refused however often it changes. What is sent is not looked into.
"""

import errno
import os
import re
import secrets
import socket
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lillux.addresses import Ip, is_near, is_public, is_this_machine
from lillux.attempts import Attempt, Hearers
from lillux.http.errors import HttpClientError, InvalidUrlError
from lillux.http.proxies import Proxy, proxy_for
from lillux.http.urls import is_loopback, parse_address
from lillux.values import dataclass, field

_MAX_HEAD = 32 * 1024
_HEAD_S, _CONNECT_S = 30.0, 30.0
_PIECE = 1 << 20
_MAX_RUNNING = 256
_USER = "rye"
_REQUEST = re.compile(r"([A-Z]{1,20}) (\S{1,8000}) HTTP/1\.[01]")
_DROPPED = ("proxy-", "connection:", "host:", "keep-alive:")

ANYWHERE = "*:*"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


Resolve = Callable[..., list[Any]]
"""The same as `socket.getaddrinfo`."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Allowed destinations, in lower case: ``NAME:PORT``, ``*.NAME:PORT``, ``ADDRESS:PORT``.

    ``private`` are private names, addresses and networks that a host may resolve to. `ANYWHERE`
    alone allows everything except this machine and its link. ``is_shared``: the machine does not
    belong to the caller, so loopback and link-local addresses are always refused.
    """

    named: tuple[str, ...]
    private: tuple[str, ...] = ()
    network_env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    is_shared: bool = False

    def names(self, host: str, port: int) -> bool:
        """True if a host and a port are named."""
        return self.named == (ANYWHERE,) or any(fits(one, host, port) for one in self.named)

    def may_reach(self, host: str, ip: Ip) -> bool:
        """True if a host may have this address."""
        if self.is_shared and is_near(ip):
            return False
        if self.named == (ANYWHERE,):
            return not is_near(ip)
        if is_public(ip):
            return True
        if is_loopback(host):
            return is_this_machine(ip)
        return _is_address(host) or any(_is_among(one, host, ip) for one in self.private)


def fits(pattern: str, host: str, port: int) -> bool:
    """True if ``NAME:PORT`` or ``*.NAME:PORT`` names a host and a port."""
    name, _, wanted = pattern.rpartition(":")
    if wanted not in {str(port), "*"}:
        return False
    host = host.strip("[]").rstrip(".").lower()
    if name.startswith("*."):
        return host.endswith(name[1:]) and not _is_address(host)
    return host == name.strip("[]")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return is_loopback(host)
    return True


def _is_among(entry: str, host: str, ip: Ip) -> bool:
    with suppress(ValueError):
        return ip in ip_network(entry, strict=False)
    return entry.rpartition(":")[0] == host or entry == host


class _RefusedError(Exception):
    """A refusal, as an HTTP status and a text."""

    def __init__(self, status: str, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Forwarder:
    """A running proxy; it ends with this process. ``port`` is where it listens."""

    def __init__(self, hosts: Hosts, resolve: Resolve = socket.getaddrinfo) -> None:
        self._hosts, self._resolve = hosts, resolve
        self.hearers = Hearers()
        """Those who hear of each host that is asked for."""
        # Other programs may reach this port too, with a list of hosts of their own, or without one.
        self._password = secrets.token_urlsafe(24)
        pair = b64encode(f"{_USER}:{self._password}".encode()).decode("ascii")
        self._authorization = f"basic {pair}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._serve, name="lillux-forwarder", daemon=True).start()

    def variables(self) -> dict[str, str]:
        """The proxy variables for the environment of a program."""
        url = f"http://{_USER}:{self._password}@127.0.0.1:{self.port}"
        names = (name for name in PROXY_VARIABLES if name != "NO_PROXY")
        said = {spelt: url for name in names for spelt in (name, name.lower())}
        return {**said, "NODE_USE_ENV_PROXY": "1"}

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # no descriptor is left; one will be
                continue
            Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(_HEAD_S)
            try:
                head, rest = _head(client)
                self._forward(client, head, rest)
            except _RefusedError as refused:
                body = f"{refused.text}\n".encode()
                client.sendall(
                    f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                    'Proxy-Authenticate: Basic realm="rye"\r\n'
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )

    def _forward(self, client: socket.socket, head: str, rest: bytes) -> None:
        line, _, fields = head.partition("\r\n")
        request_line = _REQUEST.fullmatch(line)
        if not request_line:
            raise _RefusedError("400 Bad Request", "expected a request to a proxy")
        if not self._is_ours(fields):
            raise _RefusedError(
                "407 Proxy Authentication Required", "expected the name and password"
            )
        method, target = request_line.groups()
        host, port, path = _target(method, target)
        is_named = self._hosts.names(host, port)
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.hearers(Attempt("connect", shown, was_refused=not is_named))
        if not is_named:
            problem = f"{shown}: refused, the item's sandbox.network does not name it"
            raise _RefusedError("403 Forbidden", problem)
        upstream = _upstream(method, host, port, dict(self._hosts.network_env))
        with upstream.connect(self, host, port) as server:
            if method == "CONNECT":
                if upstream.proxy:
                    rest = _ask_upstream(server, upstream.proxy, shown) + rest
                    client.sendall(rest)
                    rest = b""
                else:
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                own = [one for one in fields.split("\r\n") if not _is_dropped(one)]
                own += [f"Host: {shown.removesuffix(':80')}", "Connection: close"]
                if upstream.proxy:
                    path = target
                    own += _authorization(upstream.proxy)
                lines = [f"{method} {path} HTTP/1.1", *filter(None, own), "", ""]
                server.sendall("\r\n".join(lines).encode("latin-1"))
            client.settimeout(None)
            server.settimeout(None)
            if rest:
                server.sendall(rest)
            _move_both(client, server)

    def _is_ours(self, fields: str) -> bool:
        """True if a request contains the secret of this forwarder."""
        for line in fields.split("\r\n"):
            name, _, value = line.partition(":")
            if name.strip().lower() == "proxy-authorization":
                kind, _, pair = value.strip().partition(" ")
                shown = f"{kind.lower()} {pair.strip()}"
                return secrets.compare_digest(shown.encode(), self._authorization.encode())
        return False

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to an address of the host that may be reached."""
        try:
            found = self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _RefusedError("502 Bad Gateway", f"{host}: not found: {error}") from None
        problem = f"{host}: no address"
        for family, kind, protocol, _, place in found:
            ip = ip_address(str(place[0]).partition("%")[0])
            if not self._hosts.may_reach(host, ip):
                self.hearers(Attempt("connect", f"{host}:{port} ({ip})", was_refused=True))
                problem = f"{host}: refused, it is the private address {ip}"
                continue
            server = socket.socket(family, kind, protocol)
            try:
                server.settimeout(_CONNECT_S)
                server.connect(place)
            except OSError as error:
                server.close()
                problem = f"{host}:{port}: {error.strerror or error}"
            else:
                return server
        raise _RefusedError(
            "403 Forbidden" if "refused, " in problem else "502 Bad Gateway", problem
        )


class _Upstream(NamedTuple):
    """The proxy that the user's environment asks for, or None."""

    proxy: Proxy | None

    def connect(self, forwarder: Forwarder, host: str, port: int) -> socket.socket:
        if self.proxy is None:
            return forwarder.connect(host, port)
        place = self.proxy.address
        try:
            return socket.create_connection((place.host, place.port), _CONNECT_S)
        except OSError as error:
            problem = f"proxy {place.shown}: {error.strerror or error}"
            raise _RefusedError("502 Bad Gateway", problem) from None


def _upstream(method: str, host: str, port: int, env: Mapping[str, str]) -> _Upstream:
    scheme = "https" if method == "CONNECT" else "http"
    shown = f"[{host}]" if ":" in host else host
    try:
        proxy = proxy_for(parse_address(f"{scheme}://{shown}:{port}/"), env)
    except HttpClientError as error:
        raise _RefusedError("502 Bad Gateway", str(error)) from None
    if proxy and proxy.address.scheme != "http":
        raise _RefusedError("502 Bad Gateway", f"expected an http proxy: {proxy.address.shown}")
    return _Upstream(proxy)


def _authorization(proxy: Proxy) -> list[str]:
    return [f"Proxy-Authorization: {proxy.authorization}"] if proxy.authorization else []


def _ask_upstream(server: socket.socket, proxy: Proxy, shown: str) -> bytes:
    """Connect through the user's own proxy and return its answer for the client."""
    lines = [f"CONNECT {shown} HTTP/1.1", f"Host: {shown}", *_authorization(proxy), "", ""]
    server.sendall("\r\n".join(lines).encode("latin-1"))
    head, rest = _head(server)
    return f"{head}\r\n\r\n".encode("latin-1") + rest


def _head(source: socket.socket) -> tuple[str, bytes]:
    """The head of a request without its last empty line, and the bytes after the head."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = source.recv(4096)
        if not piece or len(data) > _MAX_HEAD:
            raise _RefusedError("400 Bad Request", "expected the head of a request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def _target(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and path of a request."""
    try:
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            host, port, path = parts.hostname or "", parts.port or 0, ""
        else:
            place = parse_address(target)
            if place.scheme != "http":
                raise _RefusedError("400 Bad Request", "expected http://, or CONNECT")
            host, port = place.host, place.port
            rest = target.partition("://")[2]
            path = "/" + rest.partition("/")[2].partition("#")[0] if "/" in rest else "/"
    except (ValueError, InvalidUrlError) as error:
        raise _RefusedError("400 Bad Request", f"expected a host and a port: {error}") from None
    if not host or not port:
        raise _RefusedError("400 Bad Request", "expected a host and a port")
    return host.strip("[]").rstrip(".").lower(), port, path


def _is_dropped(line: str) -> bool:
    return line.lower().startswith(_DROPPED)


def _move_both(first: socket.socket, second: socket.socket) -> None:
    """Move bytes both ways until both have ended."""
    back = Thread(target=_move, args=(second, first), daemon=True)
    back.start()
    _move(first, second)
    back.join()


def _move(source: socket.socket, sink: socket.socket) -> None:
    try:
        (_splice if hasattr(os, "splice") else _copy)(source, sink)
    except OSError:
        for one in (source, sink):  # so that the other direction ends as well
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
    else:
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _splice(source: socket.socket, sink: socket.socket) -> None:
    """Move bytes in the kernel, through a pipe."""
    reading, writing = os.pipe()
    try:
        with suppress(OSError):
            import fcntl

            fcntl.fcntl(writing, getattr(fcntl, "F_SETPIPE_SZ", 1031), _PIECE)
        while moved := os.splice(source.fileno(), writing, _PIECE):
            while moved:
                moved -= os.splice(reading, sink.fileno(), moved)
    finally:
        os.close(reading)
        os.close(writing)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    buffer = bytearray(_PIECE)
    view = memoryview(buffer)
    while size := source.recv_into(view):
        sink.sendall(view[:size])


_running: dict[Hosts, Forwarder] = {}
_running_lock = Lock()


def forwarder_for(hosts: Hosts) -> Forwarder:
    """The forwarder to these hosts, started now if there is none. Raises OSError."""
    with _running_lock:
        if hosts not in _running:
            if len(_running) >= _MAX_RUNNING:
                raise OSError(errno.EMFILE, f"more than {_MAX_RUNNING} lists of hosts in use")
            _running[hosts] = Forwarder(hosts)
        return _running[hosts]
