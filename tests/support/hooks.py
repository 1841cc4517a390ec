"""A webhook on a node, and a program that delivers to it."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass, field
from ryeos.remote.deliveries import delivery_headers
from tests.support.node import Reply, User


@dataclass(frozen=True, slots=True)
class Hook:
    """A binding of a user, with the id and the secret that its sender has."""

    user: User
    hook_id: str
    secret: str = field(repr=False)

    def body(self, **fields: Any) -> bytes:  # noqa: ANN401 - JSON
        """The body of a delivery."""
        return json.dumps({"hook_id": self.hook_id, **fields}).encode()

    def headers(
        self, body: bytes, *, delivery_id: str = "", now_s: float | None = None
    ) -> Mapping[str, str]:
        """The headers that sign a body; a new delivery unless its id is given."""
        return delivery_headers(
            self.secret,
            body=body,
            now_s=time.time() if now_s is None else now_s,
            delivery_id=delivery_id or os.urandom(16).hex(),
        )

    def deliver(
        self,
        *,
        delivery_id: str = "",
        is_async: bool = False,
        **fields: Any,  # noqa: ANN401 - JSON
    ) -> Reply:
        """Send a delivery."""
        body = self.body(**fields, **({"async": True} if is_async else {}))
        headers = self.headers(body, delivery_id=delivery_id)
        return self.user.node.ask("POST", "/execute", body, headers=headers)


def bind(user: User, item_id: str, project_path: str, **fields: Any) -> Hook:  # noqa: ANN401 - JSON
    """A new binding of the user."""
    body = {"item_id": item_id, "project_path": project_path, **fields}
    reply = user.ask("POST", "/webhook-bindings", body)
    assert reply.status == 200, reply.json
    return Hook(user, reply.json["hook_id"], reply.json["hmac_secret"])
