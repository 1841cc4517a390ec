"""What the clients of a node and of a registry share: a request, and what a refusal of it means.

Beside `ryeos.remote.transport`, which only carries: here an answer counts, or is an error in the
words of the kind of peer (`ryeos.remote.peers`). A file of its own, as neither client is the other.
"""

import json
from collections.abc import Mapping
from typing import Any

from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.peers import PeerRules
from ryeos.remote.replies import detail_of
from ryeos.remote.transport import (
    MAX_SMALL_REPLY,
    NodeReply,
    QueryPairs,
    Transport,
)

_OK, _ELSEWHERE, _REFUSED = 200, 300, 400


class PeerClient:
    """Asks one peer. ``owner`` is the team that is asked for, "" for the caller's own."""

    def __init__(self, peer: PeerRules, transport: Transport, owner: str = "") -> None:
        self._peer, self._transport, self.owner = peer, transport, owner

    @property
    def name(self) -> str:
        """The user's name for it."""
        return self._transport.name

    def _reply(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        *,
        query: QueryPairs = (),
        timeout_s: float | None = None,
        max_response_bytes: int = MAX_SMALL_REPLY,
        may_repeat: bool = True,
    ) -> NodeReply:
        """A reply that is no refusal. A body of bytes is sent as it is, any other as JSON.

        Raises RemoteError, RemoteReplyError, RemoteUnreachableError.
        """
        reply = self._transport.exchange(
            method,
            path,
            query,
            _json(body) if isinstance(body, Mapping) else body,
            timeout_s=timeout_s,
            max_response_bytes=max_response_bytes,
            may_repeat=may_repeat,
        )
        if _OK <= reply.status < _ELSEWHERE:
            return reply
        if reply.status < _REFUSED and not self._peer.refuses_by_redirect:
            # It leads elsewhere, and nothing is sent there.
            problem = f"expected an answer, found status {reply.status}"
            raise RemoteReplyError(self._what(path), problem, self._peer)
        raise RemoteError(
            reply.status,
            detail_of(reply.body),
            what=self._what(path),
            hint=self._advice(reply.status),
            peer=self._peer,
        )

    def _advice(self, status: int) -> str:  # noqa: ARG002 - of those that know more
        """What to do about a refusal, where that is not what the table of refusals says."""
        return ""

    def _owned(self, query: QueryPairs) -> QueryPairs:
        """The query, with the team that is asked for."""
        return [*query, ("owner", self.owner)] if self.owner else query

    def _what(self, path: str) -> str:
        return f"{self._peer.word} {self.name}: {path}"


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode("ascii")
