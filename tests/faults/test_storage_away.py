"""A node whose stores are in a bucket: the storage goes away, lies, or belongs to another."""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from time import time
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select, update

from lillux.digests import sha256_hex
from rye_services.node.store.bucket_store import BucketStores
from rye_services.node.store.packs import MemoryPacks
from rye_services.node.store.stores import MARKER, open_stores
from rye_services.process.data_folder import make_data, open_database
from rye_services.settings import Settings, read_settings
from rye_services.storage.database import (
    Database,
    node_identity,
    stored_contents,
    uploads_in_flight,
    users,
)
from ryeos.items.errors import RyeError
from ryeos.sync.entries import ContentEntry, encode
from ryeos.sync.garbage import collect_garbage
from tests.support.databases import KINDS, database_url
from tests.support.endings import wait_until
from tests.support.node import CHECKOUT_COMMAND, Node, run_command, running_node
from tests.support.node_sync import push, push_tree, put, tree
from tests.support.object_storage import SECRET, bucket_of, versity
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
    """A node, its storage, and the proxy between them."""

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
            environ["RYE_NODE_MAX_REQUEST_BYTES"] = "300 MiB"
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
def test_clients_of_a_storage_that_is_away_have_to_retry(place: Place, fault: Fault) -> None:
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
    )  # it names missing content
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
    """The status and the error of a command."""
    ended = run_command(*words, environ=environ)
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


def stored(node: Node) -> tuple[int, int]:
    """How many bytes are counted for all users, and how many contents have a row."""
    database = Database(node.settings.database_url)
    try:
        with database.reading() as connection:
            counted = connection.scalar(select(func.coalesce(func.sum(users.c.stored_bytes), 0)))
            rows = connection.scalar(select(func.count()).select_from(stored_contents))
    finally:
        database.close()
    return int(counted or 0), int(rows or 0)


def left_in(folder: Path) -> list[str]:
    """The files of a storage that hold something."""
    files = [one for one in folder.rglob("*") if one.is_file()]
    return sorted(f"{one.relative_to(folder).as_posix()}" for one in files if one.stat().st_size)


@pytest.mark.parametrize("fault", [Fault.TORN, Fault.UNSAID])
def test_an_upload_of_32_mib_that_breaks_off_is_not_counted_and_leaves_no_content(
    place: Place, tmp_path: Path, fault: Fault
) -> None:
    user, data = place.node.user(), b"0123456789abcdef" * (32 * 65536)
    entry = encode(ContentEntry(sha256_hex(data), "blob", data))
    before = stored(place.node)
    place.proxy.fail(fault, "PUT", "/packs/")

    reply = user.ask("POST", "/objects/put", {"entries": [entry]}, timeout_s=120)

    place.proxy.lift()
    assert reply.status == 503
    assert stored(place.node) == before
    database = Database(place.node.settings.database_url)
    store = BucketStores(bucket_of(place.environ, tmp_path), database, MemoryPacks(1024))
    collect_garbage(store.of(user.user_id), [], now_s=time() + 7200, grace_s=3600)
    database.close()
    assert left_in(tmp_path / "s3") == ["bucket/nodes/one/node.json"]  # and no parts of an upload
    assert user.ask("POST", "/objects/put", {"entries": [entry]}, timeout_s=120).status == 200


def test_a_node_that_is_killed_in_an_upload_leaves_no_counted_content(
    place: Place, tmp_path: Path
) -> None:
    user, data = place.node.user(), b"0123456789abcdef" * (32 * 65536)
    entry = encode(ContentEntry(sha256_hex(data), "blob", data))
    before = stored(place.node)
    place.proxy.fail(Fault.LATE, "PUT", "/packs/")

    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(user.ask, "POST", "/objects/put", {"entries": [entry]})
        wait_until(lambda: place.proxy.requests["PUT"] > 0, 60)
        place.node.kill()
        with pytest.raises(OSError, match=r"."):
            upload.result(60)
    place.proxy.lift()
    place.node.start()
    database = Database(place.node.settings.database_url)
    with database.writing() as connection:  # a quarter of an hour later
        connection.execute(update(uploads_in_flight).values(lease_until_s=0.0))
    database.close()
    assert place.node.owner.ask("POST", "/gc").status == 200  # or the next periodic sweep

    assert stored(place.node) == before
    database = Database(place.node.settings.database_url)
    store = BucketStores(bucket_of(place.environ, tmp_path), database, MemoryPacks(1024))
    collect_garbage(store.of(user.user_id), [], now_s=time() + 7200, grace_s=3600)
    database.close()
    assert left_in(tmp_path / "s3") == ["bucket/nodes/one/node.json"]


# --- two nodes at one bucket ----------------------------------------------------------------------


def test_of_nodes_that_begin_at_one_bucket_at_the_same_time_one_owns_it(tmp_path: Path) -> None:
    with versity(tmp_path / "s3", "bucket") as environ:
        for number in range(5):
            prefix = {"RYE_NODE_STORE": f"s3://bucket/nodes/{number}"}
            settings = [
                read_settings({"data_dir": str(data)}, {**environ, **prefix}, data)
                for data in (tmp_path / f"{number}-{each}" for each in range(8))
            ]
            databases = [open_database(make_data(one), make=True) for one in settings]
            together = Barrier(len(settings))

            def begin(one: Settings, database: Database, together: Barrier = together) -> bool:
                together.wait()
                try:
                    open_stores(one, database, environ, make=True, is_server=True)
                except RyeError as error:
                    if error.code != "WRONG_STORE":
                        raise
                    return False
                return True

            with ThreadPoolExecutor(len(settings)) as pool:
                won = list(pool.map(begin, settings, databases))

            owner = bucket_of({**environ, **prefix}, tmp_path).get(MARKER) or b""
            ids = [_node_id(database) for database in databases]
            for database in databases:
                database.close()
            assert won.count(True) == 1
            assert json.loads(owner)["node"] == ids[won.index(True)]


def test_of_two_servers_that_start_at_one_bucket_at_once_one_serves(tmp_path: Path) -> None:
    with versity(tmp_path / "s3", "bucket") as environ:
        servers = [
            subprocess.Popen(
                [*CHECKOUT_COMMAND, "serve", "--port", "0", "--data", str(tmp_path / name)],
                env={**PLAIN_ENV, **environ, "HOME": str(tmp_path)},
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
            for name in ("one", "other")
        ]
        try:
            with ThreadPoolExecutor(2) as pool:
                said = list(pool.map(_until_ready_or_ended, servers))
        finally:
            for server in servers:
                server.terminate()
            statuses = [server.wait(60) for server in servers]
            for server in servers:
                assert server.stderr is not None
                server.stderr.close()

    assert sorted(statuses) == [0, 6]
    assert "ready on http" in said[statuses.index(0)]
    assert "store: expected the files of node" in said[statuses.index(6)]


def _until_ready_or_ended(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        if "ready on http" in line:
            break
    return said


def _node_id(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.scalar(select(node_identity.c.id)))


def test_a_bucket_that_has_files_of_unknown_users_is_refused(place: Place, tmp_path: Path) -> None:
    environ = {k: v for k, v in place.environ.items() if k != "RYE_NODE_DATABASE_URL"}
    push_tree(place.node.user(), {"a.txt": b"a"})
    (marker,) = (tmp_path / "s3").rglob("node.json")
    marker.unlink()

    status, words = said(environ, "init", "--data", str(tmp_path / "other"))

    assert (status, "expected an empty folder of a bucket" in words) == (6, True), words
