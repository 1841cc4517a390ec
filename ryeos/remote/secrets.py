"""The user's secrets on a node: set, list, delete. They are never read back.

A secret travels sealed to the node's own key, on top of whatever carries it. Nodes of an older kind
know no sealed ones: those are sent plain, where the connection itself is encrypted or goes nowhere.
"""

from collections.abc import Mapping
from typing import Any

from lillux.http.model import is_unencrypted
from ryeos.items.errors import RyeError
from ryeos.remote.envelopes import FOR_VAULT, seal_secrets
from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.node import Node
from ryeos.remote.replies import rows_at
from ryeos.remote.secret_names import is_variable_name, require_safe, valid_secrets

_NOT_FOUND = 404
_NO_ROUTE = "Not Found"
"""A node's words on an address that it does not know; on a missing secret it says more."""


def secret_missing_error(name: str, keeper: str, *, flag: str = "") -> RyeError:
    """``keeper`` keeps no secret of this name: ``remote NAME``, or the user's own store."""
    return RyeError(
        f"secret {name[:80]!a}: not kept by {keeper}",
        code="ITEM_NOT_FOUND",
        hint=f"see those that are: rye remote secrets list{flag}",
    )


class NodeVault:
    """The secrets that one node keeps for this user. ``url`` is the node's normal address."""

    def __init__(self, node: Node, url: str) -> None:
        self._node, self._url = node, url

    def set(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Keep secrets, each one by itself; their names.

        Raises SecretNameError and SecretValuesError before anything is sent, RyeError
        `REMOTE_INSECURE`, RemoteError.
        """
        for name in values:
            require_safe(name)
        checked = valid_secrets(values)
        for name, value in checked.items():
            self._set(name, value)
        return tuple(checked)

    def seal(self, name: str, value: str, purpose: str = "") -> dict[str, Any]:
        """The envelope that holds one secret, which only this node opens; nothing is sent.

        Raises SecretNameError, SecretValuesError, RemoteError.
        """
        require_safe(name)
        values = valid_secrets({name: value})
        box_public = self._node.verify().box_public
        return seal_secrets(values, box_public, user=self._node.sealed_for, purpose=purpose)

    def names(self) -> tuple[str, ...]:
        """The names of the secrets, sorted."""
        try:
            reply = self._node.ask("GET", "/vault/list")
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            rows = rows_at(self._node.ask("GET", "/secrets"), "secrets", self._what("/secrets"))
            return _names([row.get("name") for row in rows], self._what("/secrets"))
        return _names(reply.get("names"), self._what("/vault/list"))

    def delete(self, name: str) -> None:
        """Forget a secret. Raises RyeError `ITEM_NOT_FOUND`, RemoteError."""
        if not is_variable_name(name):
            raise secret_missing_error(name, f"remote {self._node.name}")
        try:
            self._delete(name)
        except RemoteError as error:
            if error.status == _NOT_FOUND:
                raise secret_missing_error(name, f"remote {self._node.name}") from None
            raise

    def _set(self, name: str, value: str) -> None:
        envelope = self.seal(name, value, FOR_VAULT)
        try:
            self._node.ask("POST", "/vault/set", {"name": name, "envelope": envelope})
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            if is_unencrypted(self._url):
                raise RyeError(
                    f"remote {self._node.name}: it takes no sealed secrets, and they are not sent"
                    " over plain http:"
                    f" {self._url}",
                    code="REMOTE_INSECURE",
                    hint="use https for this node",
                ) from None
            self._node.ask("POST", "/secrets", {"secrets": [{"name": name, "value": value}]})

    def _delete(self, name: str) -> None:
        try:
            self._node.ask("POST", "/vault/delete", {"name": name})
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            self._node.ask("DELETE", f"/secrets/{name}")

    def _what(self, path: str) -> str:
        return f"remote {self._node.name}: {path}"


def _is_unknown_route(error: RemoteError) -> bool:
    return error.status == _NOT_FOUND and error.detail == _NO_ROUTE


def _names(found: object, what: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RemoteReplyError(what, "expected a list of names")
    return tuple(sorted(found))
