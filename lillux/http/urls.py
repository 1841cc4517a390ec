"""Addresses of HTTP (URLs), read and shown. Pure.

An address is shown without user, password and query, which may hold secrets.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from urllib.parse import urljoin, urlsplit

from lillux.http.errors import InvalidUrlError
from lillux.patterns import pattern
from lillux.values import dataclass

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
        """Common part of addresses of one server."""
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
    """Address that a redirect at ``base`` leads to."""
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
