"""The client of what a user has on a node: account, keys, tokens, teams, projects, webhooks."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ryeos.items.errors import RyeError, UsageError
from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.node import Node
from ryeos.remote.replies import rows_at, text_at
from ryeos.remote.requests import delivery_headers, is_delivery_id
from ryeos.remote.settings import is_team_name
from ryeos.remote.transport import QueryPairs

ROLES = ("read", "run", "push", "admin")
_WORD = re.compile(r"[A-Za-z0-9._:@ -]{1,200}")
_NOT_FOUND, _NO_METHOD = 404, 405


class TeamClient:
    """Asks one node about people and teams. Raises as `Node.ask`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def account(self) -> dict[str, Any]:
        """Who the node takes the caller for, and their teams."""
        found = self._ask("GET", "/account")
        text_at(found, "user_id", self._what("/account"))
        return found

    def begin_sign_in(self, public_key: str, label: str) -> dict[str, Any]:
        """Ask the node to let this key in; the person says yes on a page."""
        body = {"public_key": public_key, "label": label}
        begun = self._ask("POST", "/sign-in/device", body, may_repeat=False)
        for name in ("device_code", "user_code", "verification_url"):
            text_at(begun, name, self._what("/sign-in/device"))
        return begun

    def sign_in_state(self, device_code: str) -> dict[str, Any]:
        """How it is: ``waiting``, ``approved``, ``refused`` or ``over``; and who the person is."""
        found = self._ask("POST", "/sign-in/device/poll", {"device_code": device_code})
        text_at(found, "state", self._what("/sign-in/device/poll"))
        return found

    # --- keys and tokens --------------------------------------------------------------------------

    def keys(self) -> dict[str, Any]:
        """The caller's keys: ``first``, and ``keys``."""
        return self._ask("GET", "/account/keys")

    def add_key(
        self, public_key: str, *, label: str, scopes: list[str] | None, days: int | None
    ) -> dict[str, Any]:
        """Let the caller sign with one more key; as the node lists it."""
        body = {"public_key": public_key, "label": label}
        more = {"scopes": scopes, "expires_in_days": days}
        return self._ask("POST", "/account/keys", {**body, **_without_none(more)})

    def remove_key(self, fingerprint: str) -> None:
        """Revoke a key."""
        self._ask("DELETE", f"/account/keys/{_part('FINGERPRINT', fingerprint)}")

    def tokens(self) -> tuple[dict[str, Any], ...]:
        """The tokens of the owner that the node is asked about, without their texts."""
        path = "/account/tokens"
        return rows_at(self._ask("GET", path), "tokens", self._what(path))

    def add_token(
        self, name: str, *, scopes: list[str] | None, days: int | None, role: str | None
    ) -> dict[str, Any]:
        """A new token; its text is in ``token``, this once."""
        more = _without_none({"scopes": scopes, "expires_in_days": days, "role": role})
        made = self._ask("POST", "/account/tokens", {"name": name, **more}, may_repeat=False)
        text_at(made, "token", self._what("/account/tokens"))
        return made

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token."""
        self._ask("DELETE", f"/account/tokens/{_part('ID', token_id)}")

    # --- teams ------------------------------------------------------------------------------------

    def teams(self) -> tuple[dict[str, Any], ...]:
        """The caller's teams."""
        return rows_at(self._ask("GET", "/teams"), "teams", self._what("/teams"))

    def create(self, team: str, title: str) -> dict[str, Any]:
        """Make a team; as `show`."""
        return self._ask("POST", "/teams", {"name": valid_team(team), "title": title})

    def show(self, team: str) -> dict[str, Any]:
        """A team and its members."""
        path = f"/teams/{valid_team(team)}"
        found = self._ask("GET", path)
        rows_at(found, "members", self._what(path))
        return found

    def close(self, team: str) -> None:
        """Close a team that owns no project."""
        self._ask("DELETE", f"/teams/{valid_team(team)}")

    def set_role(self, team: str, user: str, role: str) -> None:
        """Give a person a role."""
        if role not in ROLES:
            raise UsageError(f"ROLE: expected {', '.join(ROLES)}, found {role[:40]!a}")
        path = f"/teams/{valid_team(team)}/members/{_part('USER', user)}"
        self._ask("PUT", path, {"role": role})

    def remove(self, team: str, user: str) -> dict[str, Any]:
        """End a membership; ``cancelled`` are the runs that were ended with it."""
        path = f"/teams/{valid_team(team)}/members/{_part('USER', user)}"
        return self._ask("DELETE", path)

    def invite(
        self, team: str, *, role: str | None, email: str | None, days: int | None
    ) -> dict[str, Any]:
        """A new invitation; its text is in ``invitation``, this once."""
        path = f"/teams/{valid_team(team)}/invitations"
        body = _without_none({"role": role, "email": email, "expires_in_days": days})
        made = self._ask("POST", path, body, may_repeat=False)
        text_at(made, "invitation", self._what(path))
        return made

    def invitations(self, team: str) -> tuple[dict[str, Any], ...]:
        """The invitations into a team, without their texts."""
        path = f"/teams/{valid_team(team)}/invitations"
        return rows_at(self._ask("GET", path), "invitations", self._what(path))

    def revoke(self, team: str, invitation_id: str) -> None:
        """Revoke an invitation."""
        path = f"/teams/{valid_team(team)}/invitations/{_part('ID', invitation_id)}"
        self._ask("DELETE", path)

    def join(self, invitation: str) -> dict[str, Any]:
        """Become a member by an invitation; ``team_id`` and ``role``."""
        return self._ask("POST", "/invitations/accept", {"invitation": invitation})

    # --- projects ---------------------------------------------------------------------------------

    def projects(self) -> tuple[dict[str, Any], ...]:
        """The projects of the owner that the node is asked about."""
        return rows_at(self._ask("GET", "/projects"), "projects", self._what("/projects"))

    def move(self, project_path: str, to: str, new_path: str) -> dict[str, Any]:
        """Give a project of that owner to another one."""
        body = {"project_path": project_path, "to": to, "new_path": new_path}
        return self._ask("POST", "/projects/move", body, may_repeat=False)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        may_repeat: bool = True,
    ) -> dict[str, Any]:
        try:
            return self._node.ask(method, path, body, may_repeat=may_repeat)
        except RemoteError as error:
            if error.status in {_NOT_FOUND, _NO_METHOD} and error.detail == "Not Found":
                raise RyeError(
                    f"remote {self._node.name}: this node knows no teams",
                    code="REMOTE_REFUSED",
                    hint="it is of an older version: its operator brings it up to date",
                ) from error
            raise

    def _what(self, path: str) -> str:
        return f"remote {self._node.name}: {path}"


def valid_team(team: str) -> str:
    """The name of a team, without an @ before it. Raises UsageError."""
    bare = team.removeprefix("@")
    if not is_team_name(bare):
        raise UsageError(
            f"TEAM: expected a name of a-z, 0-9, - and _, found {team[:80]!a}", hint="like acme"
        )
    return bare


def _part(what: str, text: str) -> str:
    """A text as one part of an address. Raises UsageError."""
    if not _WORD.fullmatch(text) or text in {".", ".."}:
        raise UsageError(f"{what}: expected letters, digits and . _ : @ -, found {text[:80]!a}")
    return quote(text, safe=":")


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# --- webhooks -------------------------------------------------------------------------------------
# Webhooks of a node: addresses that run one item for callers with the hook's secret.

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
            if error.status == _NOT_FOUND:
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
