"""A key that was let in without a word pushes and runs: nothing that concerns others is open to it.

Every route of the OpenAPI document is asked, so that a new one cannot be forgotten.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from rye_services.people.credentials import DEFAULT_SCOPES, allows
from tests.support.node import Node, User

# What concerns the node, other users and teams, as a person would list it.
_OWN = ("GET /account", "GET /teams", "GET /teams/{team}")  # who they are, and where they belong
_CLOSED = ("/admin/", "/gc", "/metrics", "/account", "/teams", "/projects/move")


@pytest.fixture
def person(shared_node: Node) -> User:
    """A user whose key got what `keys add` gives."""
    return shared_node.user(scopes=DEFAULT_SCOPES)


def _routes(node: Node) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in node.ask("GET", "/openapi.json").json["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _asked(person: User, method: str, path: str) -> int:
    target = path.replace("{", "").replace("}", "")
    body: dict[str, Any] | None = None if method in {"GET", "DELETE"} else {}
    return person.ask(method, target, body).status


def test_a_default_key_is_refused_by_each_route_that_is_not_for_pushing_and_running(
    person: User,
) -> None:
    scopes = frozenset(DEFAULT_SCOPES)
    foreign = [
        (method, path)
        for method, path, operation in _routes(person.node)
        if not all(allows(scopes, one) for one in operation.get("x-rye-scopes", ()))
    ]

    answers = {(method, path): _asked(person, method, path) for method, path in foreign}

    assert {one for _, one in foreign} >= {"/admin/authorized-keys", "/admin/audit", "/gc"}
    assert {route: status for route, status in answers.items() if status != 403} == {}


def test_each_route_about_the_node_other_users_and_teams_is_closed_to_a_default_key(
    person: User,
) -> None:
    about_others = [
        (method, path)
        for method, path, _ in _routes(person.node)
        if path.startswith(_CLOSED) and f"{method} {path}" not in _OWN
    ]

    answers = {(method, path): _asked(person, method, path) for method, path in about_others}

    assert len(about_others) > 10
    assert {route: status for route, status in answers.items() if status != 403} == {}
