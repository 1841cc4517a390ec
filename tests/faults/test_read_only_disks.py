"""A read-only disk of a node, as a kernel leaves it after an error of the disk."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rye_services.web.http import READ_ONLY
from tests.support.databases import KINDS, database_url
from tests.support.endings import wait_until
from tests.support.node import Node, run_command, running_node
from tests.support.node_sync import put, tree
from tests.support.programs import require_program
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import PLAIN_ENV, Workspace

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux"),
    pytest.mark.heavy,
]
Remount = Callable[[str], None]


@contextmanager
def disk(folder: Path) -> Iterator[Remount]:
    """A file system of its own; the yielded function mounts it anew, ``ro`` or ``rw``."""
    mount, umount = require_program("mount"), require_program("umount")
    folder.mkdir()
    argv = [str(mount), "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(folder)]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting needs a privilege: {done.stderr.decode().strip()}")

    def remount(how: str) -> None:
        subprocess.run([str(mount), "-o", f"remount,{how}", str(folder)], check=True)

    try:
        yield remount
    finally:
        subprocess.run([str(umount), "-l", str(folder)], check=True)


@pytest.fixture(params=KINDS)
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Node, Remount]]:
    """A node whose stores lie on a disk of their own."""
    with disk(tmp_path / "stores") as remount:
        environ = {
            "RYE_NODE_DATABASE_URL": database_url(tmp_path / "node", request.param),
            "RYE_NODE_CAS_BASE_PATH": str(tmp_path / "stores" / "cas"),
        }
        with running_node(tmp_path / "node", environ=environ) as node:
            yield node, remount


def test_reads_work_and_writes_are_refused_until_the_disk_can_be_written(
    served: tuple[Node, Remount], workspace: Workspace
) -> None:
    node, remount = served
    project = RemoteProject.with_tools(workspace, node.user())
    user, head = project.user, project.head

    remount("ro")
    wait_until(lambda: node.ask("GET", "/ready").status == 503)

    ready = node.ask("GET", "/ready").json
    assert ready["checks"]["database"] == "ok"
    assert "read-only" in ready["checks"]["disk"].lower(), ready
    sent = tree({"src/new.txt": b"new"})
    refused = put(user, sent.entries)
    assert (refused.status, refused.json) == (503, {"detail": READ_ONLY})
    assert refused.headers["retry-after"] == "5"
    ran = project.ask("tool:write", parameters={"path": "src/x.txt", "text": "new\n"})
    assert (ran.status, ran.json["detail"]["error"]) == (503, READ_ONLY)
    assert [one["_hash"] for one in project.history()] == [head]
    assert project.text("src/x.txt") == "one\ntwo\nthree\n"
    assert str(node.data) not in refused.body.decode()

    remount("rw")
    wait_until(lambda: node.ask("GET", "/ready").status == 200)
    assert put(user, sent.entries).status == 200
    project.execute("tool:write", parameters={"path": "src/x.txt", "text": "new\n"})
    assert project.text("src/x.txt") == "new\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_on_a_disk_that_can_only_be_read_does_not_start_and_says_why(
    tmp_path: Path, kind: str
) -> None:
    with disk(tmp_path / "disk") as remount:
        data = tmp_path / "disk" / "node"
        environ = {**PLAIN_ENV, "RYE_NODE_DATABASE_URL": database_url(tmp_path / "db", kind)}
        if kind == "sqlite":
            environ = dict(PLAIN_ENV)
        with running_node(data, environ=environ) as node:
            node.end()
        remount("ro")

        def said(*words: str) -> tuple[int, str]:
            ended = run_command(*words, "--data", str(data), environ=environ)
            return ended.returncode, ended.stderr

        status, words = said("serve", "--port", "0")
        assert (status, f"data folder: {data}: cannot be written to" in words) == (6, True), words
        status, words = said("gc")
        assert status != 0
        assert ("read-only file system" if kind == "postgresql" else "has to be writable") in words
        status, words = said("keys", "list")
        assert status == (0 if kind == "postgresql" else 6)
        assert kind == "postgresql" or "has to be writable" in words
        remount("rw")
        with running_node(data, environ=environ) as node:
            assert node.ask("GET", "/ready").status == 200
