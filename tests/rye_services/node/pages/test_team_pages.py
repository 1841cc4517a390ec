import re
from urllib.parse import urlencode

import pytest

from tests.support.node import Node, Reply, User
from tests.support.node_sync import push_tree
from tests.support.teams import TeamOfTests, made_team

pytest_plugins = ("tests.support.node",)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class OnPages:
    """A user who is logged in on the pages of a node."""

    def __init__(self, user: User) -> None:
        self.user, self.node = user, user.node
        key = urlencode({"key": user.token}).encode()
        entered = self.node.ask("POST", "/page/login", key, headers=FORM)
        assert entered.status == 303, entered.body
        self._cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}

    def see(self, address: str) -> Reply:
        """A page."""
        return self.node.ask("GET", address, headers=self._cookie)

    def send(self, address: str, *, token: str | None = None, **fields: str) -> Reply:
        """A form of a page, with the token of the session unless another one is given."""
        found = re.search(r'name="token" value="([^"]+)"', self.see("/").body.decode())
        assert found
        fields["token"] = found[1] if token is None else token
        return self.node.ask(
            "POST", address, urlencode(fields).encode(), headers={**FORM, **self._cookie}
        )

    def do(self, what: str, **fields: str) -> Reply:
        """A form about teams."""
        return self.send("/page/teams/change", do=what, **fields)


@pytest.fixture
def team(shared_node: Node) -> TeamOfTests:
    """A team with a user for each role."""
    return made_team(shared_node)


def test_a_member_sees_the_team_and_an_admin_its_forms(team: TeamOfTests) -> None:
    address = f"/page/team?id={team.name}"

    seen = {role: OnPages(user).see(address) for role, user in team.people.items()}

    assert {role: page.status for role, page in seen.items()} == {
        **dict.fromkeys(("read", "run", "push", "admin"), 200),
        "outsider": 403,
    }
    assert b'value="invite"' in seen["admin"].body
    assert b'value="invite"' not in seen["push"].body
    assert all(user.user_id.encode() in seen["read"].body for user in members_of(team))


def members_of(team: TeamOfTests) -> list[User]:
    return [user for role, user in team.people.items() if role != "outsider"]


def test_an_admin_invites_a_person_who_joins_on_the_page(team: TeamOfTests) -> None:
    admin, newcomer = OnPages(team.people["admin"]), OnPages(team.people["outsider"])

    shown = admin.do("invite", team=team.name, role="read", email="").body.decode()
    invitation = re.search(r"rye_inv_[\w-]+", shown)
    assert invitation
    joined = newcomer.do("join", invitation=invitation[0])

    assert joined.status == 303
    assert newcomer.see(f"/page/team?id={team.name}").status == 200
    assert invitation[0].encode() not in admin.see(f"/page/team?id={team.name}").body


@pytest.mark.parametrize(
    ("what", "fields"),
    [
        ("set-role", {"user": "outsider", "role": "admin"}),
        ("remove", {"user": "admin"}),
        ("invite", {"role": "admin"}),
        ("revoke-invitation", {"id": "x"}),
        ("revoke-token", {"id": "x"}),
    ],
)
def test_actions_of_admins_are_refused_to_other_members(
    team: TeamOfTests, what: str, fields: dict[str, str]
) -> None:
    named = {
        name: team.people[value].user_id if value in team.people and name == "user" else value
        for name, value in fields.items()
    }

    for role in ("push", "outsider"):
        assert OnPages(team.people[role]).do(what, team=team.name, **named).status == 403


def test_a_form_of_another_session_is_refused(team: TeamOfTests) -> None:
    admin = OnPages(team.people["admin"])

    refused = admin.send("/page/teams/change", do="create", team="forged-team", token="x")
    elsewhere = admin.send("/page/look-at", owner=team.name, token="x")

    assert (refused.status, elsewhere.status) == (403, 403)
    assert admin.see("/page/team?id=forged-team").status == 403


def test_the_pages_show_the_projects_of_the_chosen_team(team: TeamOfTests) -> None:
    owner, reader = team.people["push"], OnPages(team.people["read"])
    push_tree(owner, {"a": b"1"})
    body = {"project_path": "ada/project", "to": team.name}
    assert owner.ask("POST", "/projects/move", body).status == 200

    before = reader.see("/").body
    chosen = reader.send("/page/look-at", owner=team.name)
    after = reader.see("/").body
    foreign = OnPages(team.people["outsider"]).send("/page/look-at", owner=team.name)

    assert chosen.status == 303
    assert (b"ada/project" in before, b"ada/project" in after) == (False, True)
    assert foreign.status == 403


def test_a_member_who_left_a_team_sees_their_own_projects_again(team: TeamOfTests) -> None:
    member = OnPages(team.people["read"])
    member.send("/page/look-at", owner=team.name)

    left = member.do("remove", team=team.name, user=team.people["read"].user_id)

    assert left.status == 303
    assert member.see("/").status == 200
    assert member.see(f"/page/team?id={team.name}").status == 403


def test_the_operator_opens_and_closes_people_on_the_page(shared_node: Node) -> None:
    operator, user = OnPages(shared_node.user(scopes=("*",))), shared_node.user()
    push_tree(user, {"a": b"1"})

    closed = operator.send("/page/admin/users/state", user=user.user_id, state="closed")
    refused = user.ask("GET", "/threads").status
    shown = operator.see("/page/admin").body
    operator.send("/page/admin/users/state", user=user.user_id, state="open")

    assert closed.status == 303
    assert refused == 401
    assert b"Let in" in shown
    assert user.ask("GET", "/threads").status == 200
