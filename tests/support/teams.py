"""Teams of a node for tests: people with roles, and requests about a team's property."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from rye_services.people.credentials import EVERYTHING
from tests.support.node import Node, Reply, User

ROLES = ("read", "run", "push", "admin")


@dataclass(frozen=True, slots=True)
class TeamOfTests:
    """A team with a user for each role; the user ``outsider`` is not a member."""

    name: str
    people: Mapping[str, User]

    def ask(self, role: str, method: str, target: str, body: object = None) -> Reply:
        """Send a request about the team's property, as the user with this role."""
        return self.people[role].ask(method, self.of(target), body)

    def of(self, target: str) -> str:
        """An address with the team as owner."""
        return f"{target}{'&' if '?' in target else '?'}owner={quote(self.name)}"


def person(node: Node) -> User:
    """A user whose own key may do everything."""
    return node.user(scopes=(EVERYTHING,))


def made_team(node: Node, *, roles: tuple[str, ...] = ROLES) -> TeamOfTests:
    """A new team with an admin, and a user for each other role."""
    name = f"team-{secrets.token_hex(5)}"
    people = {role: person(node) for role in {*roles, "admin", "outsider"}}
    admin = people["admin"]
    reply = admin.ask("POST", "/teams", {"name": name})
    assert reply.status == 200, reply.json
    for role in set(roles) - {"admin"}:
        path = f"/teams/{name}/members/{people[role].user_id}"
        reply = admin.ask("PUT", path, {"role": role})
        assert reply.status == 200, reply.json
    return TeamOfTests(name, people)
