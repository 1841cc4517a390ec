"""Requests to the public network: no address of this machine's own surroundings is reached.

A name is resolved here, every address it has is checked, and the connection goes to a checked one:
a second answer of the name server cannot lead elsewhere. Each redirect is checked anew.
Page: ``docs/bundle-tools.md``.
"""

import http
import http.client
import ipaddress
import os
import socket
import ssl
import time
import urllib.request
import zlib
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/web/lib"
__tool_description__ = "Requests that reach no private address unless it is allowed"

SEE_OTHER = 303
REDIRECTS, MAX_REDIRECTS, MAX_URL = {301, 302, SEE_OTHER, 307, 308}, 5, 8_192
PORTS = {"http": 80, "https": 443}
CHUNK = 65_536
HEADERS = {"User-Agent": "rye-web/1.0", "Accept-Encoding": "gzip", "Connection": "close"}
SPACE, DELETE = 32, 127
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Addresses that carry the IPv4 address of a translator: they are judged by that one.
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
DOCUMENTATION = ipaddress.ip_network("3fff::/20")  # which Python before 3.14 takes for public


class Refusal(Exception):  # noqa: N818 - what is answered, not what broke
    """What is answered instead: the problem, and what to do."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem)

    def answer(self) -> dict:
        """As a tool answers."""
        return {"success": False, "error": self.problem} | (
            {"hint": self.hint} if self.hint else {}
        )


class Ask(NamedTuple):
    """A request."""

    method: str
    url: str
    headers: dict
    body: bytes | None


class Place(NamedTuple):
    """Where a request goes; ``host`` as it is on the wire, ``target`` the path and the query."""

    scheme: str
    host: str
    port: int
    target: str


class Reply(NamedTuple):
    """A response; header names in small letters. ``cut``: there was more of the body."""

    url: str
    status: int
    headers: dict
    body: bytes
    cut: bool


class Guard:
    """Which addresses may be reached. ``allowed`` are names, name:port, addresses, networks."""

    def __init__(self, allowed: object = ()) -> None:
        if not isinstance(allowed, (list, tuple)) or not all(isinstance(o, str) for o in allowed):
            raise Refusal("allow_private: expected a list of names, addresses and networks")
        self.names, self.networks = set(), []
        for one in allowed:
            try:
                self.networks.append(ipaddress.ip_network(one, strict=False))
            except ValueError:
                self.names.add(one.lower())

    def addresses(self, host: str, port: int) -> list:
        """Where a host is, each address allowed. Raises Refusal."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Refusal(f"{host}: no such host: {error}") from None
        if {host.lower(), f"{host.lower()}:{port}"} & self.names:
            return found
        for *_, place in found:
            address = ipaddress.ip_address(place[0].partition("%")[0])
            if not is_public(address) and not any(
                address.version == network.version and address in network
                for network in self.networks
            ):
                raise Refusal(
                    f"{host}: {address} is no address of the public network",
                    "a person may allow it in user space: allow_private in"
                    " .ai/config/web/access.yaml",
                )
        return found


def is_public(address: Address) -> bool:
    """Whether an address is in the open network."""
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if inner is None and address.version == TRANSLATED.version and address in TRANSLATED:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is None and getattr(address, "teredo", None):
        inner = address.teredo[1]
    if inner is not None and not is_public(inner):
        return False
    # Unassigned today, but old networks still use them.
    if getattr(address, "is_site_local", False):
        return False
    if address.version == DOCUMENTATION.version and address in DOCUMENTATION:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def request(
    guard: Guard,
    method: str,
    url: str,
    *,
    headers: dict | None = None,
    body: bytes | None = None,
    timeout_s: float,
    max_bytes: int,
    follow: bool = True,
) -> Reply:
    """One request, redirects followed. Raises Refusal."""
    deadline = time.monotonic() + timeout_s
    for _ in range(MAX_REDIRECTS + 1):
        ask = Ask(method, url, headers or {}, body)
        reply = exchange(guard, ask, deadline, max_bytes)
        if not follow or reply.status not in REDIRECTS or "location" not in reply.headers:
            return reply
        url = urljoin(url, reply.headers["location"])
        if reply.status == SEE_OTHER:
            method, body = "GET", None
    raise Refusal(f"{url[:200]}: more than {MAX_REDIRECTS} redirects")


def exchange(guard: Guard, ask: Ask, deadline: float, max_bytes: int) -> Reply:
    """One request and its response, no redirects. Raises Refusal."""
    place = place_of(ask.url)
    try:
        connection = connected(guard, place, deadline)
        try:
            target = ask.url if connection.is_relayed else place.target
            connection.request(ask.method, target, body=ask.body, headers=HEADERS | ask.headers)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            data, cut = read(response, found.get("content-encoding", ""), deadline, max_bytes)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
        what = "time is over" if isinstance(error, TimeoutError) else str(error) or repr(error)
        raise Refusal(f"{ask.url[:200]}: {what}") from None
    return Reply(ask.url, response.status, found, data, cut)


def place_of(url: str) -> Place:
    """What an address says. Raises Refusal."""
    shown = ascii(url[:200])
    if len(url) > MAX_URL:
        raise Refusal(f"url: expected at most {MAX_URL} characters, found {len(url)}")
    if any(ord(mark) <= SPACE or ord(mark) == DELETE for mark in url):
        raise Refusal(f"url: expected none with blanks or control characters, found {shown}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refusal(f"url: {error}: {shown}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise Refusal(f"url: expected http:// or https:// and a host, found {shown}")
    if parts.username is not None or parts.password is not None:
        raise Refusal("url: expected none with a user or a password in it")
    try:
        host = parts.hostname.encode("ascii" if ":" in parts.hostname else "idna").decode("ascii")
    except UnicodeError:
        raise Refusal(f"url: expected the name of a host, found {shown}") from None
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return Place(parts.scheme, host, port or PORTS[parts.scheme], target)


class Connection(http.client.HTTPConnection):
    """A connection whose socket the caller makes."""

    is_relayed = False

    def open_tunnel(self, host: str, port: int) -> None:
        """Ask a proxy for a way to a host."""
        named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        asked = f"CONNECT {named} HTTP/1.1\r\nHost: {named}\r\n\r\n"
        self.sock.sendall(asked.encode("ascii"))
        response = http.client.HTTPResponse(self.sock, method="CONNECT")
        response.begin()
        if response.status != http.HTTPStatus.OK:
            raise Refusal(f"the proxy refuses {named} with status {response.status}")


def connected(guard: Guard, place: Place, deadline: float) -> Connection:
    """A connection to a checked address of a host, or to the proxy of the environment."""
    scheme, host, port, _ = place
    relay = proxy_for(scheme, host)
    # A proxy resolves the name itself; what resolves to a private address here is refused anyway.
    if relay is None or is_known(host, port):
        places = guard.addresses(host, port)
    made = Connection(host, port, timeout=left(deadline))
    made.default_port = PORTS[scheme]  # what the Host header leaves out
    if relay is None:
        made.sock = opened(places, deadline)
    else:
        by = place_of(relay)
        if by.scheme != "http":
            raise Refusal(f"proxy {by.host}: expected http://, found {by.scheme}://")
        made.is_relayed = scheme == "http"
        made.sock = socket.create_connection((by.host, by.port), left(deadline))
        if scheme == "https":
            made.open_tunnel(host, port)
    if scheme == "https":
        context = ssl.create_default_context()
        made.sock = context.wrap_socket(made.sock, server_hostname=host)
    return made


def proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the environment names, None for none."""
    if urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(scheme)


def is_known(host: str, port: int) -> bool:
    """Whether a name means something here, where a proxy would be asked."""
    try:
        socket.getaddrinfo(host, port)
    except (OSError, UnicodeError):
        return False
    return True


def opened(places: list, deadline: float) -> socket.socket:
    """A socket to the first of the addresses that answers."""
    problem = OSError("no address")
    for family, kind, protocol, _, place in places:
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(left(deadline))
            made.connect(place)
        except OSError as error:
            made.close()
            problem = error
        else:
            return made
    raise problem


def left(deadline: float) -> float:
    """Seconds until then. Raises TimeoutError."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def read(
    response: http.client.HTTPResponse, encoding: str, deadline: float, max_bytes: int
) -> tuple:
    """The body, decoded, at most so much of it; whether there was more."""
    squeezed = encoding.strip().lower() in {"gzip", "x-gzip"}
    if not squeezed and encoding.strip().lower() not in {"", "identity"}:
        raise ValueError(f"content-encoding: expected gzip or none, found {encoding[:40]!a}")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if squeezed else None
    parts, room = [], max_bytes + 1
    while room > 0:
        left(deadline)
        data = response.read1(CHUNK)
        if not data:
            break
        data = unpack.decompress(data, room) if unpack else data
        parts.append(data[:room])
        room -= len(data)
    body = b"".join(parts)
    return body[:max_bytes], len(body) > max_bytes


def environment(name: str) -> str:
    """A variable that holds a key. Raises Refusal."""
    value = os.environ.get(name, "")
    if not value:
        raise Refusal(f"{name}: expected a key in this variable, found none")
    return value
