"""The periodic sweep of a cluster: one of three servers does it; referenced content stays."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from time import time

import pytest
from sqlalchemy import update

from packing.cluster_storage import ObjectStorage
from rye_services.node.storage import Sweep, Sweeps
from rye_services.storage.database import Database, stored_contents
from ryeos.sync.entries import ContentEntry, encode
from tests.support.clusters import TestedCluster, running_cluster
from tests.support.endings import wait_until
from tests.support.programs import unavailable
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.heavy,
]
SWEEPS, EVERY_S, AT_ONCE = 8, 1.0, 6
AGE_S = 7200.0
GARBAGE = b"stored, and named by nothing"


@pytest.fixture(params=["folders", "s3"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestedCluster]:
    if request.param == "s3" and ObjectStorage.program() is None:
        unavailable("versitygw is neither in build/programs nor on the PATH")
    storage = ObjectStorage(tmp_path / "c" / "s3") if request.param == "s3" else None
    settings = {"RYE_NODE_GC_INTERVAL_S": f"{EVERY_S:g}", "RYE_NODE_GC_GRACE_S": "60"}
    with running_cluster(tmp_path / "c", workers=1, settings=settings, storage=storage) as running:
        yield running


def make_old(cluster: TestedCluster) -> None:
    """Make all objects older than any grace period: only references keep them."""
    database = Database(cluster.environ["DATABASE_URL"])
    with database.writing() as connection:
        used_at_s = stored_contents.c.used_at_s - AGE_S
        connection.execute(update(stored_contents).values(used_at_s=used_at_s))
    database.close()
    old_s = time() - AGE_S
    for folder in (cluster.folder / "shared" / "cas", cluster.folder / "s3"):
        for path in folder.rglob("*"):
            if path.is_file():
                os.utime(path, (old_s, old_s))


def sweeps(cluster: TestedCluster) -> list[Sweep]:
    """The sweeps by servers, the oldest first."""
    database = Database(cluster.environ["DATABASE_URL"])
    found = [one for one in Sweeps(database).listed(1000) if one.started_by == "node"]
    database.close()
    return found[::-1]


def present(project: RemoteProject, *digests: str) -> list[str]:
    """The digests that are stored and undamaged."""
    reply = project.user.ask("POST", "/objects/has", {"hashes": list(digests), "verify": True})
    return sorted(reply.json["present"])


def test_one_server_at_a_time_sweeps_and_keeps_referenced_objects(
    cluster: TestedCluster, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, cluster.node.user())
    made = project.execute("tool:write", parameters={"path": "src/made.txt", "text": "made\n"})
    entry = ContentEntry(sha256(GARBAGE).hexdigest(), "blob", GARBAGE)
    project.user.ask("POST", "/objects/put", {"entries": [encode(entry)]})
    project.head = str(made["snapshot_hash"])
    project.write("src/pushed.txt", "pushed\n")
    project.push()  # which ends the upload
    make_old(cluster)
    tree = project.tree()
    pushed = [project.head, tree.manifest_hash, *tree.item_sources, *tree.blobs]
    named = sorted({*pushed, *made["new_object_hashes"]})
    before = len(sweeps(cluster))

    wait_until(lambda: len(sweeps(cluster)) >= before + SWEEPS, 60)
    found = sweeps(cluster)
    owner = cluster.node.owner
    with ThreadPoolExecutor(AT_ONCE) as pool:  # beside the periodic one
        replies = list(pool.map(lambda _: owner.ask("POST", "/gc"), range(AT_ONCE)))

    starts = [datetime.fromisoformat(one.started_at).timestamp() for one in found]
    assert all(later - earlier >= 0.9 * EVERY_S for earlier, later in pairwise(starts))
    assert sum(one.removed for one in found[before:]) >= 1
    assert [one.left_alone for one in found[before:]] == [()] * len(found[before:])
    assert {reply.status for reply in replies} == {200}
    assert present(project, *named) == named
    assert present(project, entry.digest) == []
    assert project.execute("tool:echo")["status"] == "success"
