"""Webhooks of a node: addresses that run one item for callers with a secret."""

import json
import re
from collections.abc import Mapping
from typing import Any

from ryeos.items.errors import RyeError, UsageError
from ryeos.remote.account import NOT_FOUND
from ryeos.remote.deliveries import delivery_headers, is_delivery_id
from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.node import Node
from ryeos.remote.replies import rows_at
from ryeos.remote.transport import QueryPairs

PATH = "/webhook-bindings"
_HOOK_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class DeliveryCredentials:
    """What a delivery shows instead of a key: see `ryeos.remote.node.Credentials`.

    Sent again, it has the same id and a new time: the node runs it once.
    """

    depends_on_time = True
    sender = ""

    def __init__(self, secret: str, delivery_id: str) -> None:
        if not is_delivery_id(delivery_id):
            raise UsageError("the id of a delivery: expected 1 to 200 visible ASCII characters")
        self._secret, self._delivery_id = secret, delivery_id

    def headers(
        self,
        method: str,  # noqa: ARG002 - the seam
        path: str,  # noqa: ARG002
        query: QueryPairs,  # noqa: ARG002
        body: bytes,
        *,
        audience: str,  # noqa: ARG002
        now_s: int,
    ) -> dict[str, str]:
        """The three headers of ``docs/remote.md``."""
        headers = delivery_headers(
            self._secret, body=body, now_s=now_s, delivery_id=self._delivery_id
        )
        return dict(headers)


class WebhookClient:
    """The webhooks that a user has on one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def create(
        self,
        item_ref: str,
        project_path: str,
        *,
        description: str = "",
        vault_keys: tuple[str, ...] = (),
        secret_envelope: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A new webhook, with ``hook_id`` and ``hmac_secret``, which is never shown again."""
        body: dict[str, Any] = {"item_id": item_ref, "project_path": project_path}
        body |= {"description": description} if description else {}
        body |= {"vault_keys": list(vault_keys)} if vault_keys else {}
        body |= {"secret_envelope": dict(secret_envelope)} if secret_envelope else {}
        made = self._node.ask("POST", PATH, body, may_repeat=False)
        for key in ("hook_id", "hmac_secret"):
            if not isinstance(made.get(key), str):
                raise RemoteReplyError(f"remote {self._node.name}: {PATH}", f"expected {key}")
        return made

    def list(self) -> tuple[dict[str, Any], ...]:
        """Every webhook, the newest first; revoked ones too."""
        what = f"remote {self._node.name}: {PATH}"
        return rows_at(self._node.ask("GET", PATH), "bindings", what)

    def revoke(self, hook_id: str) -> None:
        """End a webhook. Raises RyeError `ITEM_NOT_FOUND`."""
        if not _HOOK_ID.fullmatch(hook_id):
            raise RyeError(
                f"webhook {hook_id[:80]!a}: not found on remote {self._node.name}",
                code="ITEM_NOT_FOUND",
                hint="see those that are: rye remote webhooks list",
            )
        try:
            self._node.ask("DELETE", f"{PATH}/{hook_id}")
        except RemoteError as error:
            if error.status == NOT_FOUND:
                raise RyeError(
                    f"webhook {hook_id[:80]!a}: not found on remote {self._node.name}",
                    code="ITEM_NOT_FOUND",
                    hint="see those that are: rye remote webhooks list",
                ) from None
            raise


def deliver(
    node: Node, hook_id: str, parameters: Mapping[str, Any], *, delivery_id: str
) -> dict[str, Any]:
    """Run what a webhook runs; ``node`` shows `DeliveryCredentials`. The node's answer.

    ``detail`` in it says that this delivery was run before, and is not run again.
    """
    # Signatures are of whole seconds and count once: without its id in the body, a second delivery
    # in the same second would be the first one again.
    body: dict[str, Any] = {"hook_id": hook_id, "delivery_id": delivery_id}
    body |= {"parameters": dict(parameters)} if parameters else {}
    return node.ask("POST", "/execute", json.dumps(body, separators=(",", ":")).encode("ascii"))
