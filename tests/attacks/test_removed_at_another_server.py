"""A key, token or member that one server of a cluster removed is refused by all others."""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from packing.local_cluster import COMMAND
from rye_services.people.credentials import EVERYTHING
from ryeos.remote.identity import encode_public_key
from tests.support.clusters import TestedCluster, running_cluster
from tests.support.endings import wait_until
from tests.support.node import Node, User
from tests.support.remote_projects import RemoteProject, waiting_in
from tests.support.teams import TeamOfTests, made_team
from tests.support.workspace import PLAIN_ENV, Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.heavy,
]
KEYS = "/admin/authorized-keys"
WAIT = "echo > $TMPDIR/here; while ! [ -e $TMPDIR/go ]; do sleep 0.02; done"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestedCluster]:
    folder = tmp_path_factory.mktemp("r") / "cluster"
    with running_cluster(folder, servers=2, workers=1) as running:
        yield running


def server(cluster: TestedCluster, number: int) -> Node:
    """One server, past the proxy."""
    node = Node(cluster.folder / f"server{number}", environ=cluster.environ)
    node.port = cluster.servers[number].port
    return node


def at(user: User, node: Node) -> User:
    """The same user, with requests to this server."""
    return User(node, user.keypair, user.token)


def stand(user: User, *nodes: Node) -> list[int]:
    """The status of each server's answer to a signed request."""
    return [at(user, node).ask("GET", "/threads").status for node in nodes]


def test_servers_share_no_folder_of_settings(cluster: TestedCluster) -> None:
    assert "NODE_CONFIG_DIR" not in cluster.environ
    assert not list(cluster.folder.rglob("authorized_keys"))


def test_a_key_that_one_server_revokes_is_refused_by_the_other_at_once(
    cluster: TestedCluster,
) -> None:
    first, second = server(cluster, 0), server(cluster, 1)
    operator = first.user(scopes=(EVERYTHING,))
    for a, b in ((first, second), (second, first)) * 5:
        user = User(a, generate_keypair(), "")
        key = {"public_key": encode_public_key(user.keypair.public_pem), "scopes": ["remote:*"]}
        assert at(operator, a).ask("POST", KEYS, key).status == 200
        assert stand(user, b, a) == [200, 200]

        assert at(operator, a).ask("DELETE", f"{KEYS}/fp:{user.user_id}").status == 200

        assert stand(user, b, a) == [401, 401]


def test_a_command_on_any_machine_counts_at_once(cluster: TestedCluster, tmp_path: Path) -> None:
    def command(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, "keys", *words, "--data", str(tmp_path / "operator"), "--json"],
            env={**PLAIN_ENV, **cluster.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    nodes = server(cluster, 0), server(cluster, 1)
    user = User(nodes[0], generate_keypair(), "")

    added = command("add", encode_public_key(user.keypair.public_pem))
    assert added.returncode == 0, added.stdout
    let_in = stand(user, *nodes)
    listed = json.loads(command("list").stdout)["keys"]
    revoked = command("revoke", f"fp:{user.user_id}")

    assert revoked.returncode == 0, revoked.stdout
    assert let_in == [200, 200]
    assert f"fp:{user.user_id}" in [one["fingerprint"] for one in listed]
    assert stand(user, *nodes) == [401, 401]


def test_a_further_key_or_an_api_key_that_one_server_removes_is_refused_by_the_other(
    cluster: TestedCluster,
) -> None:
    first, second = server(cluster, 0), server(cluster, 1)
    user, desk = first.user(scopes=(EVERYTHING,)), generate_keypair()
    added = user.ask("POST", "/account/keys", {"public_key": encode_public_key(desk.public_pem)})
    assert added.status == 200, added.json
    made = user.ask("POST", "/account/tokens", {"name": "ci", "scopes": ["remote:*"]})
    assert made.status == 200, made.json
    machine = User(second, desk, made.json["token"])
    assert machine.ask("GET", "/threads").status == 200
    assert machine.ask("GET", "/threads", auth="bearer").status == 200

    user.ask("DELETE", f"/account/keys/{compute_key_fingerprint(desk.public_pem)}")
    user.ask("DELETE", f"/account/tokens/{made.json['id']}")

    assert machine.ask("GET", "/threads").status == 401
    assert machine.ask("GET", "/threads", auth="bearer").status == 401


# --- in the middle of a run -----------------------------------------------------------------------


class TeamProject(RemoteProject):
    """A project of a team, whose scripts wait in the folder of a worker."""

    folder: Path

    def waiting(self) -> list[Path]:
        places = self.folder.glob("worker*/workspaces")
        return [here for place in places for here in waiting_in(place)]


@pytest.fixture
def team(cluster: TestedCluster) -> TeamOfTests:
    return made_team(server(cluster, 0))


@pytest.fixture
def project(cluster: TestedCluster, team: TeamOfTests, workspace: Workspace) -> TeamProject:
    pusher = team.people["push"]
    made = TeamProject.with_tools(workspace, pusher)
    assert isinstance(made, TeamProject)
    made.folder = cluster.folder
    key = {"public_key": encode_public_key(workspace.keypair.public_pem)}
    assert pusher.ask("POST", "/account/keys", key).status == 200
    moved = pusher.ask("POST", "/projects/move", {"project_path": made.name, "to": team.name})
    assert moved.status == 200, moved.json
    return made


def begun(project: TeamProject, team: TeamOfTests, who: str, script: str) -> str:
    """Have a worker carry a script out for a member; the thread's id, once it waits there."""
    before = set(project.waiting())
    user = team.people[who]
    envelope = project.envelope(SCRIPT=f"{script}; {WAIT}; {script}")
    body = {"item_id": "tool:sh", "project_path": project.name, "async": True}
    reply = user.ask("POST", team.of("/execute"), {**body, "secret_envelope": envelope})
    assert reply.status == 202, reply.json
    wait_until(lambda: bool(set(project.waiting()) - before), 30)
    return str(reply.json["thread_id"])


def test_runs_of_a_member_whom_one_server_removes_are_ended(
    cluster: TestedCluster, team: TeamOfTests, project: TeamProject
) -> None:
    second, gone, admin = server(cluster, 1), team.people["push"], team.people["admin"]
    thread_id = begun(project, team, "push", "echo late > src/late.txt")
    history = admin.ask("GET", team.of(f"/history?project_path={project.name}")).json

    removed = at(admin, second).ask("DELETE", f"/teams/{team.name}/members/{gone.user_id}")

    assert removed.json["cancelled"] == [thread_id]
    for node in (server(cluster, 0), second):
        assert at(gone, node).ask("GET", team.of("/threads")).status == 403
    one = team.of(f"/threads/{thread_id}")
    wait_until(lambda: admin.ask("GET", one).json["state"] == "cancelled", 30)
    assert admin.ask("GET", one).json["cancelled_by"] == admin.user_id
    assert admin.ask("GET", team.of(f"/history?project_path={project.name}")).json == history


def test_a_removed_member_follows_no_log_any_longer(
    cluster: TestedCluster, team: TeamOfTests, project: TeamProject
) -> None:
    second, admin, gone = server(cluster, 1), team.people["admin"], team.people["read"]
    thread_id = begun(project, team, "push", "echo first")
    target = team.of(f"/threads/{thread_id}/log?follow=true")
    closing = _Followed(at(gone, server(cluster, 0)), target)
    staying = _Followed(at(admin, second), target)

    with ThreadPoolExecutor(2) as pool:
        until_end = pool.submit(closing.rest)
        others = pool.submit(staying.rest)
        began_s = monotonic()
        removed = at(admin, second).ask("DELETE", f"/teams/{team.name}/members/{gone.user_id}")
        assert removed.status == 200, removed.json
        text = until_end.result(20)
        took_s = monotonic() - began_s
        assert not others.done()
        project.release()
        end = others.result(60)

    assert "first" in closing.first
    assert "event: end" not in text
    assert took_s < 10  # two seconds on a machine that does nothing else
    assert "event: end" in end


class _Followed:
    """A log that is followed: ``first`` is its first event."""

    def __init__(self, user: User, target: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", user.node.port, timeout=60)
        self._connection.request("GET", target, headers=user.signed_headers("GET", target))
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self.first = ""
        while "first" not in self.first:
            self.first += self._response.readline().decode()

    def rest(self) -> str:
        """The text up to its end by the server."""
        try:
            return self._response.read().decode()
        finally:
            self._connection.close()
