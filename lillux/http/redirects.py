"""Redirects: the request that follows one. Pure."""

from collections.abc import Mapping

from lillux.http.errors import InvalidUrlError, RedirectError
from lillux.http.urls import Address, joined, parse_address
from lillux.values import dataclass, field

MAX_REDIRECTS = 5

STATUSES = frozenset({301, 302, 303, 307, 308})
SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "cookie2", "proxy-authorization", "x-api-key", "api-key"}
)
_OF_THE_BODY = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """Request to one address."""

    address: Address
    method: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


def redirected(
    sending: OutgoingRequest, status: int, location: str, secret_headers: frozenset[str]
) -> OutgoingRequest:
    """The next request. Raises RedirectError for where we do not go.

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
