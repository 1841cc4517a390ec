import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lillux.signing import generate_keypair
from ryeos.remote.envelopes import FOR_VAULT, seal_secrets
from ryeos.remote.identity import encode_public_key
from tests.support.node import Node, Reply, User
from tests.support.node_sync import PROJECT, push_tree, tree
from tests.support.remote_projects import RemoteProject
from tests.support.teams import TeamOfTests, made_team, person
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
FILES = {"src/x.py": b"x = 1\n"}


@pytest.fixture
def team(shared_node: Node) -> TeamOfTests:
    """A team with a user for each role."""
    return made_team(shared_node)


class OnTeam:
    """A user whose requests are about a team's property; it is used like a `User`."""

    def __init__(self, user: User, team: str) -> None:
        self._user, self._team = user, team
        self.node, self.user_id = user.node, team

    def ask(self, method: str, target: str, body: object = None) -> Reply:
        """Send a request about the team's property."""
        mark = "&" if "?" in target else "?"
        return self._user.ask(method, f"{target}{mark}owner={self._team}", body)


def on_team(team: TeamOfTests, role: str) -> Any:  # noqa: ANN401 - in the place of a `User`
    return OnTeam(team.people[role], team.name)


def push_as(team: TeamOfTests, role: str, contents: dict[str, bytes]) -> Reply:
    sent = tree(contents)
    put = team.ask(role, "POST", "/objects/put", {"entries": list(sent.entries)})
    if put.status != 200:
        return put
    body = {
        "project_path": PROJECT,
        "project_manifest_hash": sent.manifest_hash,
        "expected_snapshot_hash": None,
    }
    return team.ask(role, "POST", "/push", body)


# --- keys -----------------------------------------------------------------------------------------


def second_key(user: User, **more: object) -> User:
    pair = generate_keypair()
    body = {"public_key": encode_public_key(pair.public_pem), "label": "laptop", **more}
    reply = user.ask("POST", "/account/keys", body)
    assert reply.status == 200, reply.json
    return replace(user, keypair=pair)


def test_a_new_key_of_a_person_sees_the_same_projects(shared_node: Node) -> None:
    first = person(shared_node)
    snapshot = push_tree(first, FILES)

    second = second_key(first)

    assert second.user_id != first.user_id
    found = second.ask("GET", "/projects").json
    assert found["owner"] == first.user_id
    assert [one["snapshot_hash"] for one in found["projects"]] == [snapshot]
    assert second.ask("GET", "/account").json["user_id"] == first.user_id


def test_a_removed_key_is_not_valid(shared_node: Node) -> None:
    first = person(shared_node)
    second = second_key(first)

    removed = first.ask("DELETE", f"/account/keys/fp:{second.user_id}")

    assert removed.answer == (200, {"deleted": f"fp:{second.user_id}"})
    assert second.ask("GET", "/account").status == 401
    assert first.ask("GET", "/account/keys").json["keys"] == []


def test_a_new_key_gets_no_more_scopes_than_the_key_that_adds_it(shared_node: Node) -> None:
    first = shared_node.user(scopes=("remote:*", "account:manage"))
    second = second_key(first)

    pair = generate_keypair()
    body = {"public_key": encode_public_key(pair.public_pem), "scopes": ["*"]}
    refused = second.ask("POST", "/account/keys", body)

    assert second.ask("GET", "/account").json["scopes"] == ["account:manage", "remote:*"]
    assert refused.answer == (403, {"detail": "this key lacks the scope *"})


def test_the_key_of_another_user_is_not_added(shared_node: Node) -> None:
    first, other = person(shared_node), person(shared_node)
    taken = second_key(other)
    push_tree(other, FILES)

    def add(user: User) -> Reply:
        body = {"public_key": encode_public_key(user.keypair.public_pem)}
        return first.ask("POST", "/account/keys", body)

    assert add(taken).status == 409
    assert "it is the key of another user" in add(taken).json["detail"]
    assert "it has projects, secrets or webhooks of its own" in add(other).json["detail"]


def test_only_one_of_several_people_can_add_the_same_key(shared_node: Node) -> None:
    people = [person(shared_node) for _ in range(4)]
    body = {"public_key": encode_public_key(generate_keypair().public_pem)}

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda one: one.ask("POST", "/account/keys", body).status, people))

    assert sorted(replies) == [200, 409, 409, 409]


def test_a_secret_sealed_with_a_second_key_belongs_to_the_same_person(shared_node: Node) -> None:
    first = person(shared_node)
    second = second_key(first)
    sealed = seal_secrets(
        {"TOKEN": "x"}, shared_node.keys.box_public, user=second.user_id, purpose=FOR_VAULT
    )

    reply = second.ask("POST", "/vault/set", {"name": "TOKEN", "envelope": sealed})

    assert reply.answer == (200, {"stored": "TOKEN"})
    assert first.ask("GET", "/vault/list").json == {"names": ["TOKEN"]}


# --- members --------------------------------------------------------------------------------------


def test_members_share_the_projects_of_a_team(team: TeamOfTests) -> None:
    pushed = push_as(team, "push", FILES)

    seen = team.ask("read", "GET", f"/history?project_path={PROJECT}")

    assert seen.json["head"] == pushed.json["snapshot_hash"]
    assert team.people["read"].ask("GET", f"/history?project_path={PROJECT}").status == 404


def test_a_refusal_names_the_required_role(team: TeamOfTests) -> None:
    reply = push_as(team, "run", FILES)

    who = team.people["run"].user_id
    words = f"team {team.name}: this needs the role push, and {who} has the role run"
    assert reply.status == 403
    assert reply.json["detail"].startswith(words)


def test_a_missing_team_is_refused_like_a_foreign_one(team: TeamOfTests) -> None:
    outsider = team.people["outsider"]

    of_others = outsider.ask("GET", team.of("/projects"))
    of_none = outsider.ask("GET", "/projects?owner=no-such-team")

    assert (of_others.status, of_none.status) == (403, 403)
    details = [reply.json["detail"] for reply in (of_others, of_none)]
    assert details[0].replace(team.name, "T") == details[1].replace("no-such-team", "T")


def test_the_last_admin_cannot_leave(team: TeamOfTests) -> None:
    admin = team.people["admin"]
    path = f"/teams/{team.name}/members/{admin.user_id}"

    lowered, left = admin.ask("PUT", path, {"role": "push"}), admin.ask("DELETE", path)

    assert (lowered.status, left.status) == (409, 409)
    assert f"{admin.user_id} is its last admin" in left.json["detail"]


def test_only_one_of_two_last_admins_can_leave(team: TeamOfTests) -> None:
    admins = [team.people["admin"], team.people["push"]]
    path = f"/teams/{team.name}/members"
    assert admins[0].ask("PUT", f"{path}/{admins[1].user_id}", {"role": "admin"}).status == 200

    with ThreadPoolExecutor(2) as pool:
        left = list(pool.map(lambda one: one.ask("DELETE", f"{path}/{one.user_id}").status, admins))

    assert sorted(left) == [200, 409]


def test_a_removed_member_has_no_access(team: TeamOfTests) -> None:
    gone = team.people["push"]

    removed = team.people["admin"].ask("DELETE", f"/teams/{team.name}/members/{gone.user_id}")

    assert removed.status == 200
    assert team.ask("push", "GET", "/projects").status == 403


def test_a_name_that_looks_like_one_that_is_taken_is_refused(team: TeamOfTests) -> None:
    admin, alike = team.people["admin"], team.name.replace("-", "_")

    replies = {
        name: admin.ask("POST", "/teams", {"name": name}).status
        for name in (alike, "rye", "../x", "Team", "0123456789abcdef", "con")
    }

    assert replies == {
        alike: 409,
        "rye": 409,
        "../x": 400,
        "Team": 400,
        "0123456789abcdef": 409,
        "con": 400,
    }


def test_a_team_with_projects_is_not_closed(team: TeamOfTests) -> None:
    push_as(team, "push", FILES)

    reply = team.people["admin"].ask("DELETE", f"/teams/{team.name}")

    assert reply.status == 409
    assert f"it owns the project {PROJECT!a}" in reply.json["detail"]


# --- invitations ----------------------------------------------------------------------------------


def invited(team: TeamOfTests, **more: object) -> dict[str, Any]:
    reply = team.people["admin"].ask("POST", f"/teams/{team.name}/invitations", more)
    assert reply.status == 200, reply.json
    return dict(reply.json)


def accept(user: User, text: str) -> Reply:
    return user.ask("POST", "/invitations/accept", {"invitation": text})


def test_an_invitation_admits_one_person_once(team: TeamOfTests) -> None:
    text = invited(team, role="push")["invitation"]
    newcomer, late = person(team.people["admin"].node), team.people["outsider"]

    joined, again = accept(newcomer, text), accept(late, text)

    assert joined.json == {"team_id": team.name, "role": "push"}
    assert again.status == 403
    assert again.json["detail"].startswith("invitation: it was used before, or revoked")


def test_only_one_of_many_simultaneous_acceptances_succeeds(team: TeamOfTests) -> None:
    text = invited(team)["invitation"]
    people = [person(team.people["admin"].node) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda one: accept(one, text).status, people))

    assert sorted(replies) == [200, 403, 403, 403]


def test_a_revoked_invitation_and_one_for_another_address_are_refused(
    team: TeamOfTests,
) -> None:
    revoked, addressed = invited(team), invited(team, email="Ada@Example.org")
    admin, path = team.people["admin"], f"/teams/{team.name}/invitations"
    assert admin.ask("DELETE", f"{path}/{revoked['id']}").status == 200

    replies = [accept(team.people["outsider"], one["invitation"]) for one in (revoked, addressed)]

    assert [reply.status for reply in replies] == [403, 403]
    assert "another e-mail address" in replies[1].json["detail"]
    assert addressed["email"] == "ada@example.org"


def test_an_invitation_of_a_former_admin_is_refused(
    team: TeamOfTests,
) -> None:
    path = f"/teams/{team.name}"
    admin, other = team.people["admin"], team.people["push"]
    admin.ask("PUT", f"{path}/members/{other.user_id}", {"role": "admin"})
    text = other.ask("POST", f"{path}/invitations", {"role": "admin"}).json["invitation"]
    admin.ask("PUT", f"{path}/members/{other.user_id}", {"role": "read"})

    reply = accept(team.people["outsider"], text)

    assert reply.status == 403
    assert "no longer an admin" in reply.json["detail"]


# --- tokens ---------------------------------------------------------------------------------------


def new_token(team: TeamOfTests, maker: str, **more: object) -> Reply:
    return team.ask(maker, "POST", "/account/tokens", {"name": "ci", **more})


def with_token(node: Node, text: str, target: str, method: str = "GET") -> Reply:
    return node.ask(method, target, headers={"Authorization": f"Bearer {text}"})


def test_a_token_of_a_team_is_for_that_team_alone(team: TeamOfTests, shared_node: Node) -> None:
    push_as(team, "push", FILES)
    text = new_token(team, "admin", role="read").json["token"]

    own = with_token(shared_node, text, "/projects")
    other = with_token(shared_node, text, "/projects?owner=another")

    assert [one["project_path"] for one in own.json["projects"]] == [PROJECT]
    assert other.answer == (403, {"detail": f"this token is for the team {team.name} alone"})
    assert with_token(shared_node, text, "/account/keys").status == 403


def test_a_token_has_no_more_rights_than_its_maker(team: TeamOfTests, shared_node: Node) -> None:
    path = f"/teams/{team.name}/members"
    admin, maker = team.people["admin"], team.people["push"]
    admin.ask("PUT", f"{path}/{maker.user_id}", {"role": "admin"})
    text = new_token(team, "push", role="push").json["token"]
    body = f"/history?project_path={PROJECT}"

    before = with_token(shared_node, text, "/objects/has", "POST").status
    admin.ask("PUT", f"{path}/{maker.user_id}", {"role": "read"})
    lowered = with_token(shared_node, text, "/objects/has", "POST").status
    admin.ask("DELETE", f"{path}/{maker.user_id}")
    gone = with_token(shared_node, text, body).status

    assert (before, lowered, gone) == (422, 403, 401)


def test_a_token_of_a_team_cannot_use_personal_scopes(team: TeamOfTests) -> None:
    replies = [new_token(team, "admin", scopes=[scope]) for scope in ("*", "account:manage")]

    assert [reply.status for reply in replies] == [400, 400]


def test_a_token_is_shown_once_and_can_be_revoked(shared_node: Node) -> None:
    user = person(shared_node)
    made = user.ask("POST", "/account/tokens", {"name": "ci", "expires_in_days": 1}).json
    assert with_token(shared_node, made["token"], "/threads").status == 200

    listed = user.ask("GET", "/account/tokens").json["tokens"]
    revoked = user.ask("DELETE", f"/account/tokens/{made['id']}")

    assert made["token"] not in str(listed)
    assert made["id"] in {one["id"] for one in listed}
    assert revoked.status == 200
    assert with_token(shared_node, made["token"], "/threads").status == 401
    assert person(shared_node).ask("DELETE", f"/account/tokens/{made['id']}").status == 404


# --- moves ----------------------------------------------------------------------------------------


def test_a_project_moves_to_a_team_with_its_history(team: TeamOfTests) -> None:
    owner = team.people["push"]
    first = push_tree(owner, FILES)
    second = push_tree(owner, {"src/x.py": b"x = 2\n"}, first)

    moved = owner.ask("POST", "/projects/move", {"project_path": PROJECT, "to": team.name})

    assert moved.json["new_owner"] == team.name
    history = team.ask("read", "GET", f"/history?project_path={PROJECT}").json
    assert [one["_hash"] for one in history["snapshots"]] == [second, first]
    assert history["revision"] == 2
    assert owner.ask("GET", f"/history?project_path={PROJECT}").status == 404
    wanted = {"hashes": [tree(FILES).digests[0]]}
    assert len(team.ask("read", "POST", "/objects/get", wanted).json["entries"]) == 1


def test_a_project_moves_back_by_an_admin_alone(team: TeamOfTests) -> None:
    push_as(team, "push", FILES)

    def take(role: str) -> Reply:
        body = {"project_path": PROJECT, "to": team.people[role].user_id}
        return team.ask(role, "POST", "/projects/move", body)

    assert take("push").status == 403
    assert take("admin").json["new_owner"] == team.people["admin"].user_id
    assert team.ask("read", "GET", "/projects").json["projects"] == []


def test_a_project_does_not_move_to_an_owner_with_a_project_of_that_name(team: TeamOfTests) -> None:
    push_as(team, "push", FILES)
    owner = team.people["push"]
    push_tree(owner, {"a": b"1"})

    body = {"project_path": PROJECT, "to": team.name}
    taken = owner.ask("POST", "/projects/move", body)
    renamed = owner.ask("POST", "/projects/move", {**body, "new_path": "ada/other"})

    assert taken.status == 409
    assert "has a project" in taken.json["detail"]
    assert renamed.json["new_path"] == "ada/other"


def test_moving_a_project_needs_the_push_role_in_the_team(team: TeamOfTests) -> None:
    for role in ("run", "outsider"):
        owner = team.people[role]
        push_tree(owner, FILES)

        reply = owner.ask("POST", "/projects/move", {"project_path": PROJECT, "to": team.name})

        assert reply.status == 403


def test_a_move_within_the_quota_of_the_new_owner(team: TeamOfTests, shared_node: Node) -> None:
    owner = team.people["push"]
    push_tree(owner, {"a": os.urandom(4000)})
    set_quota(shared_node, team.name, 1000)

    reply = owner.ask("POST", "/projects/move", {"project_path": PROJECT, "to": team.name})

    assert reply.status == 507
    assert "1000 bytes allowed" in reply.json["detail"]
    assert owner.ask("GET", f"/history?project_path={PROJECT}").status == 200


def set_quota(node: Node, user_id: str, quota: int) -> None:
    from rye_services.node.operators import Users
    from rye_services.storage.database import Database

    database = Database(node.settings.database_url)
    Users(database).set_quota(user_id, quota, has_key=False)
    database.close()


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def project(team: TeamOfTests, workspace: Workspace) -> RemoteProject:
    """A project of a team with tools: ``echo``, ``write``, ``sh``; its user may push.

    They signed the tools with a further key of theirs, that of the workspace.
    """
    remote = RemoteProject.with_tools(workspace, team.people["push"])
    key = {"public_key": encode_public_key(workspace.keypair.public_pem)}
    assert team.people["push"].ask("POST", "/account/keys", key).status == 200
    reply = team.people["push"].ask(
        "POST", "/projects/move", {"project_path": remote.name, "to": team.name}
    )
    assert reply.status == 200, reply.json
    remote.user = on_team(team, "push")
    return remote


def test_items_signed_by_a_pusher_run_until_the_pusher_leaves(
    team: TeamOfTests, project: RemoteProject
) -> None:
    admin, signer = team.people["admin"], team.people["push"]
    project.user = on_team(team, "run")
    assert project.execute("tool:echo", parameters={"text": "x"})["merge_type"] == "no-op"

    admin.ask("DELETE", f"/teams/{team.name}/members/{signer.user_id}")

    answer = project.ask("tool:echo").json
    assert answer["result"]["code"] == "UNTRUSTED_KEY"


WRITE = {"path": "src/new.txt", "text": "made"}


def test_changes_of_a_run_by_a_runner_are_kept_unmerged(
    team: TeamOfTests, project: RemoteProject
) -> None:
    project.user = on_team(team, "run")

    answer = project.execute("tool:write", parameters=WRITE)

    assert answer["merge_type"] == "refused"
    assert answer["snapshot_hash"] == project.head
    row = project.thread(answer["thread_id"])
    assert row["started_by"] == team.people["run"].user_id
    assert row["unmerged_snapshot_hash"] == answer["unmerged_snapshot"]
    assert [one["_hash"] for one in project.history()] == [project.head]
    project.user = on_team(team, "push")
    assert project.execute("tool:write", parameters=WRITE)["merge_type"] == "fast-forward"


def test_a_runner_cannot_sign_and_cancels_only_own_runs(
    team: TeamOfTests, project: RemoteProject
) -> None:
    thread_id = project.begun("true")
    sign = {"project_path": project.name, "item_id": "tool:echo"}

    assert team.ask("run", "POST", "/sign", sign).status == 403
    assert team.ask("run", "POST", f"/threads/{thread_id}/cancel").status == 403
    assert team.ask("admin", "POST", f"/threads/{thread_id}/cancel").status == 200
    assert project.ended(thread_id)["state"] == "cancelled"


def test_runs_of_a_removed_member_are_cancelled_without_changes(
    team: TeamOfTests, project: RemoteProject
) -> None:
    gone = team.people["push"]
    thread_id = project.begun("echo late > src/late.txt")

    removed = team.people["admin"].ask("DELETE", f"/teams/{team.name}/members/{gone.user_id}")

    project.user = on_team(team, "admin")
    assert removed.json["cancelled"] == [thread_id]
    row = project.ended(thread_id)
    assert (row["state"], row["cancelled_by"]) == ("cancelled", team.people["admin"].user_id)
    assert [one["_hash"] for one in project.history()] == [project.head]


def test_a_run_whose_member_became_a_reader_is_not_merged(
    team: TeamOfTests, project: RemoteProject
) -> None:
    thread_id = project.begun("echo late > src/late.txt")
    path = f"/teams/{team.name}/members/{team.people['push'].user_id}"

    assert team.people["admin"].ask("PUT", path, {"role": "read"}).status == 200
    project.release()

    project.user = on_team(team, "admin")
    row = project.ended(thread_id)
    assert (row["state"], row["merge_type"]) == ("completed", "refused")
    assert [one["_hash"] for one in project.history()] == [project.head]


def test_a_project_does_not_move_while_something_runs_on_it(
    team: TeamOfTests, project: RemoteProject
) -> None:
    thread_id = project.begun("true")
    body = {"project_path": project.name, "to": team.people["admin"].user_id}

    running = team.ask("admin", "POST", "/projects/move", body)
    project.release()
    project.ended(thread_id)
    ended = team.ask("admin", "POST", "/projects/move", body)

    assert running.status == 409
    assert thread_id in running.json["detail"]
    assert ended.status == 200


def test_a_team_has_no_user_space(team: TeamOfTests) -> None:
    body = {"user_manifest_hash": "0" * 64, "expected_revision": None}

    reply = team.ask("admin", "POST", "/push/user-space", body)

    assert reply.status == 409
    assert "a team has no user space" in reply.json["detail"]
