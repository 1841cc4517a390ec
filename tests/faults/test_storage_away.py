"""A node whose stores are in a bucket: the storage goes away, lies, or belongs to another."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.databases import KINDS, database_url
from tests.support.endings import wait_until
from tests.support.node import CHECKOUT_COMMAND, Node, running_node
from tests.support.node_sync import push, push_tree, put, tree
from tests.support.object_storage import SECRET, versity
from tests.support.remote_projects import FUNCTION, TEXT, WRITE, RemoteProject
from tests.support.storage_proxy import Fault, StorageProxy, storage_proxy
from tests.support.workspace import PLAIN_ENV, Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]
AWAY = {"detail": "the object storage of the node cannot be used now: try again"}


@dataclass(slots=True)
class Place:
    """A node, its storage, and what stands between them."""

    node: Node
    proxy: StorageProxy
    environ: dict[str, str]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """On SQLite, and on PostgreSQL as a cluster has it."""
    (tmp_path / "database").mkdir()
    with versity(tmp_path / "s3", "bucket") as environ:
        port = urlsplit(environ["RYE_NODE_STORE_ENDPOINT"]).port
        assert port
        with storage_proxy(port) as proxy:
            environ["RYE_NODE_STORE_ENDPOINT"] = proxy.url
            environ["RYE_NODE_METRICS"] = "open"
            environ["RYE_NODE_DATABASE_URL"] = database_url(tmp_path / "database", request.param)
            with running_node(tmp_path / "node", environ=environ) as node:
                yield Place(node, proxy, environ)


def figure(node: Node, start: str) -> float:
    """A figure of the node, 0 for one that is not there."""
    lines = node.ask("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


def test_a_project_is_pushed_executed_and_read_again_as_from_a_disk(
    place: Place, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, place.node.user())
    project.execute("tool:write", parameters={"path": "src/y.txt", "text": "made\n"})
    place.node.restart()

    assert project.text("src/y.txt") == "made\n"
    assert project.execute("tool:echo", parameters={"text": "hi"})["status"] == "success"
    assert figure(place.node, "rye_store_requests") > 0
    assert place.node.owner.ask("POST", "/gc").json["users"][0]["state"] == "done"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.UNSAID, Fault.BUSY, Fault.FULL])
def test_clients_of_a_storage_that_is_away_have_to_come_again(place: Place, fault: Fault) -> None:
    users = [place.node.user() for _ in range(4)]
    sent = [tree({"a.txt": f"{number}".encode() * 999}) for number in range(4)]
    before = push_tree(users[0], {"old.txt": b"old"})
    place.proxy.fail(fault, "PUT")

    with ThreadPoolExecutor(4) as pool:
        replies = list(
            pool.map(lambda one: put(one[0], one[1].entries), zip(users, sent, strict=True))
        )

    assert [(one.status, one.json) for one in replies] == [(503, AWAY)] * 4
    assert {one.headers["retry-after"] for one in replies} == {"5"}
    assert push(users[1], sent[1].manifest_hash).status in (
        400,
        409,
        422,
    )  # it names what is not there
    assert figure(place.node, "rye_store_errors") >= 4
    place.proxy.lift()
    for user, one in zip(users[1:], sent[1:], strict=True):
        assert put(user, one.entries).status == 200
        assert push(user, one.manifest_hash).status == 200
    assert put(users[0], sent[0].entries).status == 200
    assert push(users[0], sent[0].manifest_hash, before).status == 200
    assert not any(SECRET in line or "secret-text" in line for line in place.node.log)


def test_ready_says_that_the_storage_is_away_and_that_it_is_back(place: Place) -> None:
    wait_until(lambda: place.node.ask("GET", "/ready").status == 200)
    place.proxy.fail(Fault.DENIED, "GET")

    wait_until(lambda: place.node.ask("GET", "/ready").status == 503, 30)
    said = place.node.ask("GET", "/ready").json["checks"]["store"]
    place.proxy.lift()
    wait_until(lambda: place.node.ask("GET", "/ready").status == 200, 30)

    assert said == "access is denied (AccessDenied)"


def test_a_run_whose_change_cannot_be_stored_leaves_head_where_it_was(
    place: Place, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, place.node.user())
    place.proxy.fail(Fault.UNSAID, "PUT")

    reply = project.ask("tool:write", parameters={"path": "src/x.txt", "text": "new\n"})
    place.proxy.lift()

    assert reply.status == 503, reply.json
    assert reply.headers["retry-after"] == "5"
    assert reply.json["detail"]["error"] == (
        f"{AWAY['detail']}; nothing that the run changed was taken"
    )
    assert project.text("src/x.txt") == TEXT
    project.execute("tool:write", parameters={"path": "src/x.txt", "text": "new\n"})
    assert project.text("src/x.txt") == "new\n"


def test_a_retryable_run_whose_change_cannot_be_stored_runs_again(
    place: Place, workspace: Workspace
) -> None:
    retryable = "__retryable__ = True\n"
    workspace.project.signed_tool("again", WRITE, executor=FUNCTION, extra=retryable)
    project = RemoteProject.with_tools(workspace, place.node.user())
    place.proxy.fail(Fault.UNSAID, "PUT")

    written = {"path": "src/x.txt", "text": "new\n"}
    reply = project.ask("tool:again", parameters=written, **{"async": True})
    thread_id = reply.json["thread_id"]
    wait_until(lambda: project.thread(thread_id)["attempt"] > 1, 60)
    place.proxy.lift()
    wait_until(lambda: project.thread(thread_id)["state"] != "running", 60)

    assert project.thread(thread_id)["state"] == "completed"
    assert project.text("src/x.txt") == "new\n"


def said(environ: dict[str, str], *words: str) -> tuple[int, str]:
    """The status of a command, and what it says of an error."""
    ended = subprocess.run(
        [*CHECKOUT_COMMAND, *words],
        env={**PLAIN_ENV, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stderr


def test_another_node_is_refused_at_the_same_bucket_and_one_beside_it_is_not(
    place: Place, tmp_path: Path
) -> None:
    environ = {k: v for k, v in place.environ.items() if k != "RYE_NODE_DATABASE_URL"}
    same = place.environ["RYE_NODE_STORE"]

    status, words = said(environ, "init", "--data", str(tmp_path / "other"))
    beside = said(environ, "init", "--data", str(tmp_path / "third"), "--store", f"{same}-2")

    assert status == 6
    assert "store: expected the files of node" in words
    assert f"at {same}" in words
    assert beside[0] == 0, beside[1]


def test_a_bucket_that_has_files_of_unknown_users_is_refused(place: Place, tmp_path: Path) -> None:
    environ = {k: v for k, v in place.environ.items() if k != "RYE_NODE_DATABASE_URL"}
    push_tree(place.node.user(), {"a.txt": b"a"})
    (marker,) = (tmp_path / "s3").rglob("node.json")
    marker.unlink()

    status, words = said(environ, "init", "--data", str(tmp_path / "other"))

    assert (status, "expected an empty folder of a bucket" in words) == (6, True), words
