"""Ways around a role: each route that acts for a team, used by each role and by an outsider."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.errors import coded
from tests.support.node import Node, Reply
from tests.support.node_sync import PROJECT, tree
from tests.support.teams import ROLES, TeamOfTests, made_team

pytest_plugins = ("tests.support.node",)

ROUTES = {
    "POST /objects/has": "push",
    "POST /objects/put": "push",
    "POST /objects/get": "read",
    "POST /push": "push",
    "POST /push/user-space": "push",
    "GET /user-space": "push",
    "GET /history": "read",
    "POST /execute": "run",
    "POST /fetch": "run",
    "POST /sign": "push",
    "GET /threads": "read",
    "GET /threads/{thread_id}": "read",
    "POST /threads/{thread_id}/cancel": "run",
    "POST /threads/{thread_id}/answer": "run",
    "GET /threads/{thread_id}/log": "read",
    "POST /secrets": "admin",
    "GET /secrets": "run",
    "DELETE /secrets/{name}": "admin",
    "POST /vault/set": "admin",
    "GET /vault/list": "run",
    "POST /vault/delete": "admin",
    "POST /webhook-bindings": "admin",
    "GET /webhook-bindings": "read",
    "DELETE /webhook-bindings/{hook_id}": "admin",
    "GET /account/tokens": "admin",
    "POST /account/tokens": "admin",
    "DELETE /account/tokens/{token_id}": "admin",
    "GET /projects": "read",
    "POST /projects/move": "admin",
}
"""Each route that takes an owner, and the role that it needs."""

OF_TEAMS = {
    "GET /teams/{team}": "read",
    "DELETE /teams/{team}": "admin",
    "PUT /teams/{team}/members/{user_id}": "admin",
    "DELETE /teams/{team}/members/{user_id}": "admin",
    "GET /teams/{team}/invitations": "admin",
    "POST /teams/{team}/invitations": "admin",
    "DELETE /teams/{team}/invitations/{invitation_id}": "admin",
}
"""Each route that has a team in its path."""

BODIES: dict[str, Any] = {
    "POST /objects/has": {"hashes": []},
    "POST /objects/put": {"entries": []},
    "POST /objects/get": {"hashes": []},
    "POST /push": {"project_path": "none", "project_manifest_hash": "0" * 64},
    "POST /push/user-space": {"user_manifest_hash": "0" * 64},
    "POST /execute": {"item_id": "tool:none", "project_path": "none"},
    "POST /fetch": {"project_path": "none", "query": "x"},
    "POST /sign": {"project_path": "none", "item_id": "tool:none"},
    "POST /secrets": {"secrets": []},
    "POST /vault/set": {"name": "X", "envelope": {}},
    "POST /vault/delete": {"name": "X"},
    "POST /webhook-bindings": {"item_id": "tool:none", "project_path": ""},
    "POST /account/tokens": {"name": "x", "scopes": ["nothing"]},
    "PUT /teams/{team}/members/{user_id}": {"role": "read"},
    "POST /teams/{team}/invitations": {"role": "read", "expires_in_days": 1},
}


@pytest.fixture(scope="module")
def team(shared_node: Node) -> TeamOfTests:
    """A team with a user for each role, for all cases: none of them changes its members."""
    return made_team(shared_node)


@pytest.fixture(scope="module")
def document(shared_node: Node) -> dict[str, Any]:
    """The node's description of its routes."""
    return dict(shared_node.ask("GET", "/openapi.json").json)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def reply_to(team: TeamOfTests, role: str, route: str) -> Reply:
    method, _, path = route.partition(" ")
    target = path.replace("{team}", team.name)
    target = re.sub(r"\{\w+\}", "none", target)
    target += "?project_path=none" if path == "/history" else ""
    body = BODIES.get(route)
    if path == "/projects/move":
        body = {"project_path": "none", "to": team.name}
    return team.ask(role, method, target, body)


def test_the_tables_of_this_test_have_every_route_that_acts_for_a_team(
    document: dict[str, Any],
) -> None:
    with_owner = {
        name: operation.get("x-rye-role")
        for name, operation in operations(document)
        if any(one["name"] == "owner" for one in operation.get("parameters", ()))
    }
    of_teams = {name for name, _ in operations(document) if "{team}" in name}

    assert with_owner == ROUTES
    assert of_teams == set(OF_TEAMS)


@pytest.mark.parametrize("route", [*ROUTES, *OF_TEAMS])
def test_a_route_is_for_its_role_and_those_above_it(team: TeamOfTests, route: str) -> None:
    needed = {**ROUTES, **OF_TEAMS}[route]
    may = ROLES[ROLES.index(needed) :]
    if route == "DELETE /teams/{team}":
        may = ()  # it would be gone for the other cases

    for role in (*(one for one in ROLES if one not in may), "outsider"):
        if route == "DELETE /teams/{team}" and role == "admin":
            continue
        assert reply_to(team, role, route).status == 403, role
    for role in may:
        assert reply_to(team, role, route).status not in {401, 403}, role


@pytest.mark.parametrize(
    "owner", ["", "%00", "..%2F..", "NO-SUCH", "x" * 65, "rye", "a%20b", "%F0%9F%98%80"]
)
def test_an_owner_that_is_no_team_of_the_caller_is_never_acted_for(
    team: TeamOfTests, owner: str
) -> None:
    outsider = team.people["outsider"]

    reply = outsider.ask("GET", f"/projects?owner={owner}")

    if owner:
        assert reply.status in {400, 403, 422}
    else:
        assert reply.json == {"owner": outsider.user_id, "projects": []}


def test_one_person_does_not_act_for_another(team: TeamOfTests) -> None:
    victim, outsider = team.people["push"], team.people["outsider"]

    assert outsider.ask("GET", f"/projects?owner={victim.user_id}").status == 403


def test_an_owner_that_a_proxy_puts_in_makes_the_signature_wrong(
    team: TeamOfTests,
) -> None:
    member = team.people["push"]
    headers = member.signed_headers("GET", "/projects")

    reply = member.node.ask("GET", team.of("/projects"), headers=headers)

    assert reply.status == 401


def test_two_owners_in_one_request_act_for_one_of_which_the_caller_is_a_member(
    team: TeamOfTests,
) -> None:
    reply = team.people["outsider"].ask("GET", f"/projects?owner=&owner={team.name}", auth="bearer")
    mcp = team.people["outsider"].ask(
        "POST",
        f"/mcp?owner=&owner={team.name}",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "execute",
                "arguments": {"item_id": "tool:none", "project_path": PROJECT},
            },
        },
        auth="bearer",
        headers={"Accept": "application/json, text/event-stream"},
    )

    assert reply.status == 403
    assert "is no member of a team" in mcp.body.decode()


def test_a_key_for_less_is_not_for_more_in_a_team(team: TeamOfTests, shared_node: Node) -> None:
    narrow = shared_node.user(scopes=("remote:threads",))
    path = f"/teams/{team.name}/members/{narrow.user_id}"
    assert team.people["admin"].ask("PUT", path, {"role": "admin"}).status == 200
    sent = tree({"a": b"1"})

    replies = [
        narrow.ask("POST", team.of("/objects/put"), {"entries": list(sent.entries)}),
        narrow.ask("PUT", path, {"role": "admin"}),
        narrow.ask("POST", team.of("/account/tokens"), {"name": "x"}),
        narrow.ask("POST", team.of("/projects/move"), {"project_path": "a", "to": "b"}),
    ]

    assert [reply.status for reply in replies] == [403] * 4
    assert narrow.ask("GET", team.of("/threads")).status == 200
    team.people["admin"].ask("DELETE", path)


def test_a_token_of_a_team_makes_no_token_without_a_role(team: TeamOfTests) -> None:
    from rye_services.people.credentials import ApiKeys
    from rye_services.refusal import RefusedError
    from rye_services.storage.database import Database

    database = Database(team.people["admin"].node.settings.database_url)
    keys = ApiKeys(database)

    with pytest.raises(RefusedError, match="a token of a team has a role", check=coded("CONFLICT")):
        keys.create_named(team.name, name="x", scopes=("remote:*",))
    _, of_operator = keys.create(team.name, name="x", scopes=("remote:*",))
    database.close()

    assert of_operator.role == "push"
