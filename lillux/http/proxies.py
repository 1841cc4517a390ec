"""Chooses the proxy of a request from the usual environment variables. Pure.

The lower-case name of a variable wins over the upper-case one. What is asked of NO_PROXY is what
curl does: names with their subdomains, addresses, networks, ``*``, each perhaps with a port.
"""

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from lillux.http.errors import InvalidUrlError, ProxyError
from lillux.http.urls import Address, parse_address, shown
from lillux.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy, and the value of ``Proxy-Authorization`` for it, if it wants any."""

    address: Address
    authorization: str = field(default="", repr=False)


def proxy_for(address: Address, env: Mapping[str, str]) -> Proxy | None:
    """The proxy for an address, or None. Raises ProxyError for one we cannot use."""
    # A web server hands the header "Proxy:" of a request to its scripts as HTTP_PROXY.
    upper = () if address.scheme == "http" and "REQUEST_METHOD" in env else ("HTTP_PROXY",)
    own = ("http_proxy", *upper) if address.scheme == "http" else ("https_proxy", "HTTPS_PROXY")
    value = next((env[name] for name in (*own, "all_proxy", "ALL_PROXY") if env.get(name)), "")
    if not value or _is_exempt(address, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return _parse_proxy(value, address)


def _parse_proxy(value: str, address: Address) -> Proxy:
    url = value if "://" in value else f"http://{value}"
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    userinfo, _, site = authority.rpartition("@")
    if scheme.lower() not in {"http", "https"}:
        raise ProxyError(
            address.shown, shown(url), f"expected an http or https proxy, got {scheme[:20]}"
        )
    try:
        parsed = parse_address(f"{scheme.lower()}://{site}")
    except InvalidUrlError as error:
        raise ProxyError(address.shown, shown(url), error.problem) from None
    return Proxy(address=parsed, authorization=_basic(userinfo))


def _basic(userinfo: str) -> str:
    if not userinfo:
        return ""
    user, _, password = userinfo.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode("utf-8", "surrogateescape")
    return f"Basic {b64encode(pair).decode('ascii')}"


def _is_exempt(address: Address, exceptions: str) -> bool:
    entries = (entry.strip().lower() for entry in exceptions.split(","))
    return any(_matches(entry, address) for entry in entries if entry)


def _matches(entry: str, address: Address) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _is_in_network(entry, address.host)
    host, port = _host_and_port(entry)
    if port is not None and port != address.port:
        return False
    host = host.lstrip(".").removeprefix("*.").rstrip(".")
    name = address.host.rstrip(".")
    return bool(host) and (name == host or (name.endswith(f".{host}") and not _is_ip(name)))


def _host_and_port(entry: str) -> tuple[str, int | None]:
    if (entry.count(":") > 1) is not entry.startswith("["):
        return entry, None  # an IPv6 address, or a bracket too many
    try:
        parts = urlsplit(f"//{entry}")
        host, port = parts.hostname or "", parts.port
    except ValueError:  # no port, or no host: the text as it stands, which may be no host's name
        return entry, None
    return host, port


def _is_in_network(entry: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
