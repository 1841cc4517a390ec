"""What carries requests to a node and its replies back: the seam of everything that asks a node.

Two implementations: `ryeos.remote.http_transport.HttpTransport`, and a node in memory for tests.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from lillux.values import dataclass, field

MIB = 1024 * 1024
MAX_SMALL_REPLY = 4 * MIB
"""Of a reply that holds no content: heads, lists of names, rows."""

Query: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a node answered. ``headers`` are by lower-case name, the body is decoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """What the body is, in lower case and without parameters; ``""`` where nobody says."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Transport(Protocol):
    """Carries one request at a time; may be used from several threads."""

    @property
    def name(self) -> str:
        """The name of the remote, for messages."""

    @property
    def netloc(self) -> str:
        """Host and port of the node, for its pin."""

    def exchange(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> Reply:
        """The reply, whatever its status.

        path        begins with a slash; no query, no character that needs escaping
        body        JSON, or None for none
        timeout_s   of one attempt, None for what is configured
        may_repeat  whether asking twice does no more than asking once
        Raises RemoteUnreachableError, ReplyTooLargeError.
        """

    def identify(self, fingerprint: str) -> None:
        """Requests carry credentials from now on: the node is known to be this one."""
