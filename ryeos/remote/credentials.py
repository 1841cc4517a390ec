"""What shows a node who asks: an API key, or a signature over each request."""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlencode

from ryeos.remote.remotes import RemoteConfig
from ryeos.remote.transport import Query
from ryeos.signing_key import SigningKey


class Credentials(Protocol):
    """Makes the headers of one attempt at a request."""

    @property
    def depends_on_time(self) -> bool:
        """Whether a wrong clock makes them worthless."""

    def headers(
        self, method: str, path: str, query: Query, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """Headers for the node ``audience`` (``fp:...``), new ones each time."""


class BearerCredentials:
    """An API key, which the node knows by its digest."""

    depends_on_time = False

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def headers(
        self,
        method: str,  # noqa: ARG002 - the seam
        path: str,  # noqa: ARG002
        query: Query,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        *,
        audience: str,  # noqa: ARG002
        now_s: int,  # noqa: ARG002
    ) -> dict[str, str]:
        """The key itself."""
        return {"Authorization": f"Bearer {self._api_key}"}


class SignedCredentials:
    """The user's signing key; what is signed is for one request and one node."""

    depends_on_time = True

    def __init__(self, key: SigningKey) -> None:
        self._key = key

    def headers(
        self, method: str, path: str, query: Query, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """The four headers of ``docs/remote-wire.md``."""
        from ryeos.remote.signed_requests import new_nonce, sign_request

        return sign_request(
            self._key,
            method=method,
            path=path,
            query=urlencode(query),
            body=body,
            audience=audience,
            now_s=now_s,
            nonce=new_nonce(),
        )


def credentials_for(remote: RemoteConfig, key: Callable[[], SigningKey]) -> Credentials:
    """The API key where one is configured and set, else the user's signing key.

    ``key`` reads that one, and raises what it raises.
    """
    return BearerCredentials(remote.api_key) if remote.api_key else SignedCredentials(key())
