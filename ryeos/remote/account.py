"""The client of what a user has on a node: account, keys, tokens, teams, projects."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ryeos.items.errors import RyeError, UsageError
from ryeos.remote.errors import RemoteError
from ryeos.remote.node import Node
from ryeos.remote.remote_values import is_team_name
from ryeos.remote.replies import rows_at, text_at

ROLES = ("read", "run", "push", "admin")
_WORD = re.compile(r"[A-Za-z0-9._:@ -]{1,200}")
NOT_FOUND, _NO_METHOD = 404, 405


class TeamClient:
    """Asks one node about people and teams. Raises as `Node.ask`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def account(self) -> dict[str, Any]:
        """The node's name for the caller, and their teams."""
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
        """Its state: ``waiting``, ``approved``, ``refused`` or ``over``; and who the person is."""
        found = self._ask("POST", "/sign-in/device/poll", {"device_code": device_code})
        text_at(found, "state", self._what("/sign-in/device/poll"))
        return found

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
            if error.status in {NOT_FOUND, _NO_METHOD} and error.detail == "Not Found":
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
