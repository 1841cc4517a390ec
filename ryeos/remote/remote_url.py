"""The address of a node: one spelling, nothing secret in it. Pure."""

from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

_SCHEMES = ("https", "http")
_MAX_CHARACTERS = 2048


def normal_url(text: str) -> str:
    """The one spelling of a node's address: lower case up to the path, no slash at the end.

    Raises ValueError that says what is wrong with it.
    """
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_CHARACTERS or " " in text:
        raise ValueError("expected a URL of visible ASCII characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"expected a URL: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected a URL that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected no user or password in it: name a variable with key_env")
    if parts.query or parts.fragment:
        raise ValueError("expected nothing behind the path")
    if parts.netloc.endswith(":") or port == 0:
        raise ValueError("expected a port from 1 to 65535")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def is_loopback(url: str) -> bool:
    """Whether a normal address is one of this machine itself, so that nothing leaves it."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def netloc_of(url: str) -> str:
    """Host and port of a normal address."""
    return urlsplit(url).netloc
