"""``rye-node.pyz migrate --to s3://``: the stores of a node move to a bucket, or stay."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.databases import KINDS, database_url
from tests.support.node import User, run_command, running_node
from tests.support.node_sync import push_tree
from tests.support.object_storage import versity
from tests.support.remote_projects import TEXT, RemoteProject
from tests.support.storage_proxy import Fault, StorageProxy, storage_proxy
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]


@dataclass(slots=True)
class Place:
    """A node with folders that is stopped, and a storage behind a proxy."""

    data: Path
    environ: dict[str, str]
    proxy: StorageProxy
    url: str

    def say(self, *words: str, data: Path | None = None) -> tuple[int, dict[str, Any]]:
        """The status and the answer of a command."""
        folder = str(data or self.data)
        ended = run_command(*words, "--json", "--data", folder, environ=self.environ)
        return ended.returncode, json.loads(ended.stdout)

    def move(self, url: str = "") -> tuple[int, dict[str, Any]]:
        """Move its stores."""
        return self.say("migrate", "--to", url or self.url)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    data = tmp_path / "node"
    data.mkdir()
    with versity(tmp_path / "s3", "bucket") as environ:
        url = environ.pop("RYE_NODE_STORE")
        port = urlsplit(environ["RYE_NODE_STORE_ENDPOINT"]).port
        assert port
        with storage_proxy(port) as proxy:
            environ["RYE_NODE_STORE_ENDPOINT"] = proxy.url
            environ["RYE_NODE_DATABASE_URL"] = database_url(data, request.param)
            yield Place(data, environ, proxy, url)


def used(place: Place, workspace: Workspace) -> tuple[RemoteProject, User]:
    """A project on the node, which is stopped."""
    with running_node(place.data, environ=place.environ) as node:
        user = node.user()
        project = RemoteProject.with_tools(workspace, user)
        project.execute("tool:write", parameters={"path": "src/y.txt", "text": "made\n"})
        node.end()
    return project, user


def test_the_bucket_gets_all_objects_and_the_node_uses_it(
    place: Place, workspace: Workspace
) -> None:
    project, user = used(place, workspace)

    status, answer = place.move()

    assert (status, answer["store"]) == (0, place.url), answer
    assert answer["copied"] > 5
    for folder in place.data.glob("cas/*"):
        folder.rename(place.data / f"was-{folder.name}")
    assert place.say("fsck")[0] == 0
    with running_node(place.data, environ=place.environ) as node:
        project.user = replace(user, node=node)
        assert (project.text("src/y.txt"), project.text("src/x.txt")) == ("made\n", TEXT)
        project.execute("tool:write", parameters={"path": "src/z.txt", "text": "more\n"})
        assert project.text("src/z.txt") == "more\n"
        node.end()
    assert place.move()[0] == 1  # it has no folders any more


@pytest.mark.parametrize("again", ["the same", "another"])
def test_an_interrupted_copy_keeps_the_folders_and_can_be_continued(
    place: Place, workspace: Workspace, again: str
) -> None:
    project, user = used(place, workspace)
    with running_node(place.data, environ=place.environ) as node:
        other = node.user()
        push_tree(other, {"a.txt": b"a"})
        node.end()
    last = max(user.user_id, other.user_id)
    place.proxy.fail(Fault.FULL, "PUT", f"/users/{last}/packs/")
    refused, answer = place.move()
    with running_node(place.data, environ=place.environ) as node:
        project.user = replace(user, node=node)
        assert project.text("src/y.txt") == "made\n"
        node.end()
    place.proxy.lift()

    status, moved = place.move(place.url if again == "the same" else f"{place.url}-2")

    assert (refused, answer["code"]) == (6, "STORE_UNAVAILABLE")
    assert "no space left" in answer["error"]
    assert status == 0
    assert bool(moved["kept"]) is (again == "the same")  # rows of another bucket say nothing
    assert place.say("fsck")[0] == 0
    with running_node(place.data, environ=place.environ) as node:
        project.user = replace(user, node=node)
        assert project.text("src/y.txt") == "made\n"


def test_a_damaged_object_stops_the_copy_with_a_hint(place: Place, workspace: Workspace) -> None:
    project, user = used(place, workspace)
    hit = 0
    for path in place.data.rglob("*"):
        if path.is_file() and "objects" in path.parts and TEXT.encode() in path.read_bytes():
            path.chmod(0o600)
            path.write_bytes(path.read_bytes().replace(TEXT.encode(), TEXT.upper().encode()))
            hit += 1

    status, answer = place.move()

    assert hit == 1
    assert (status, "cannot be copied" in answer["error"]) == (1, True), answer
    assert "rye-node.pyz fsck" in answer["hint"]
    with running_node(place.data, environ=place.environ) as node:
        project.user = replace(user, node=node)
        assert project.text("src/y.txt") == "made\n"


def test_a_used_bucket_a_running_node_and_a_plain_word_are_refused(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    used(place, workspace)
    (tmp_path / "s3" / "bucket" / "taken" / "users" / "ada").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "taken" / "users" / "ada" / "x").write_bytes(b"x")

    taken = place.move("s3://bucket/taken")
    wrong = place.move("s3://B")
    with running_node(place.data, environ=place.environ):
        serving = place.move()

    assert (taken[0], taken[1]["code"]) == (6, "WRONG_STORE"), taken
    assert (wrong[0], "expected s3://BUCKET" in wrong[1]["error"]) == (6, True), wrong
    assert (serving[0], serving[1]["code"]) == (1, "CONFLICT")
    assert place.move()[0] == 0


@pytest.mark.parametrize("place", KINDS[:1], indirect=True)
def test_a_backup_is_restored_into_a_separate_bucket_only(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    project, user = used(place, workspace)
    assert place.move()[0] == 0
    assert place.say("backup", str(tmp_path / "backup"))[0] == 0
    restored = tmp_path / "restored"
    place.environ["RYE_NODE_DATABASE_URL"] = f"sqlite:///{restored / 'node.db'}"
    place.say("restore", str(tmp_path / "backup"), data=restored)

    same = place.say("migrate", "--to", place.url, data=restored)
    other = place.say("migrate", "--to", f"{place.url}-2", data=restored)

    assert (same[0], same[1]["code"]) == (6, "WRONG_STORE"), same
    assert other[0] == 0, other
    with running_node(restored, environ=place.environ) as node:
        project.user = replace(user, node=node)
        assert project.text("src/y.txt") == "made\n"
