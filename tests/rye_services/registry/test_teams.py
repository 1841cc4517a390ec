"""A team publishes under an account of its name: its members by their role, and by its tokens."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from rye_services.people.credentials import ApiKeys, Role
from rye_services.people.teams import Teams
from rye_services.registry.accounts import Accounts
from tests.support.node import Reply
from tests.support.registry import Registry, item_text, registry_database

pytest_plugins = ("tests.support.registry",)


@dataclass(frozen=True, slots=True)
class Publishing:
    """A team with an account, and the API key of a member for each role."""

    registry: Registry
    team: str
    tokens: Mapping[str, str]

    def push(self, role: str, *, as_team: bool = True) -> Reply:
        """Publish a tool below the namespace of the team."""
        item_id = f"{self.team}/text/t{secrets.token_hex(3)}"
        body = {
            "item_type": "tool",
            "item_id": item_id,
            "version": "1.0.0",
            "content": item_text("tool", item_id),
        }
        return self.ask(role, "POST", "/v1/push", body, as_team=as_team)

    def ask(
        self, role: str, method: str, target: str, body: object = None, *, as_team: bool = True
    ) -> Reply:
        """Send a request with the key of a member, or with the team's token."""
        query = f"?owner={self.team}" if as_team else ""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        return self.registry.node.ask(method, f"{target}{query}", body, headers=headers)


@pytest.fixture
def publishing(shared_registry: Registry) -> Publishing:
    """A new team with an account, a member for each role, and a token of its own."""
    database = registry_database(shared_registry)
    keys, teams, accounts = ApiKeys(database), Teams(database), Accounts(database)
    scopes, name = ("registry:read", "registry:write"), f"team-{secrets.token_hex(4)}"
    people = {role.value: f"{role.value}-{secrets.token_hex(4)}" for role in Role}
    tokens = {role: keys.create(one, name="x", scopes=scopes)[0] for role, one in people.items()}
    teams.add(name, people["admin"])
    for role, one in people.items():
        teams.set_role(name, one, Role(role), by="command:test")
    accounts.add(name)
    tokens["token"] = keys.create_named(
        name, name="ci", scopes=scopes, role=Role.PUSH, created_by=people["push"]
    )[0]
    database.close()
    return Publishing(shared_registry, name, tokens)


def test_members_publish_by_their_role(publishing: Publishing) -> None:
    found = {role: publishing.push(role).status for role in ("read", "run", "push", "admin")}

    assert found == {"read": 403, "run": 403, "push": 200, "admin": 200}


def test_a_member_does_not_publish_to_the_team_under_their_own_name(publishing: Publishing) -> None:
    assert publishing.push("push", as_team=False).status == 403


def test_a_token_of_a_team_publishes_and_creates_no_key(publishing: Publishing) -> None:
    published = publishing.push("token", as_team=False)
    key = publishing.ask("token", "POST", "/v1/api-keys", {"name": "more"}, as_team=False)

    assert published.status == 200, published.json
    assert key.status == 403


def test_only_admins_manage_keys_and_namespaces_of_a_team(publishing: Publishing) -> None:
    new = {"name": f"{publishing.team}-more"}

    assert publishing.ask("push", "POST", "/v1/namespaces", new).status == 403
    assert publishing.ask("push", "DELETE", "/v1/signing-keys/0123456789abcdef").status == 403
    assert publishing.ask("admin", "POST", "/v1/namespaces", new).status == 200
    assert publishing.ask("read", "GET", "/v1/account").json["name"] == publishing.team
