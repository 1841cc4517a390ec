"""A cluster whose parts are replaced or killed while executions go on: none is lost or doubled."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest

from benchmarks.kills import under_kills
from packing.cluster_parts import Part
from packing.cluster_storage import ObjectStorage
from tests.support.clusters import TestedCluster, running_cluster
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace, publish

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.heavy,
]
CLIENTS, DEFERRED, KILLED = 3, 15, 40
PLACES = 4  # of both workers
SLOW = """
import time
from pathlib import Path

def execute(params, project_path):
    time.sleep(0.5)
    with Path(project_path, params["path"]).open("a") as file:
        file.write("once\\n")
    return {}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestedCluster]:
    storage = ObjectStorage(tmp_path / "c" / "s3") if ObjectStorage.program() else None
    settings = {
        "RYE_NODE_SHUTDOWN_TIMEOUT_S": "30",
        "RYE_NODE_QUEUE_WAIT_S": "60",
        # No process of this upgrade dies: a lease that ends is one that a loaded machine kept late.
        "RYE_NODE_EXECUTION_LEASE_S": "60",
    }
    with running_cluster(tmp_path / "c", servers=2, settings=settings, storage=storage) as running:
        yield running


def replace(cluster: TestedCluster, part: Part) -> int | None:
    """End a process as a rolling upgrade does, and have a new one in its place.

    Load balancers leave a server out before it gets the signal to end (``preStop`` of the chart):
    else a connection that it has not accepted yet is cut.
    """
    ports = [one.port for one in cluster.servers]
    cluster.proxy.send_to([port for port in ports if port != part.port])
    status = part.end()
    part.start()
    part.wait_until_ready()
    cluster.proxy.send_to(ports)
    return status


def test_a_rolling_upgrade_runs_each_execution_exactly_once(
    cluster: TestedCluster, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "here", (publish(tmp_path / "bundle"),))
    workspace.project.signed_tool("slow", SLOW, executor=FUNCTION)
    project = RemoteProject.with_tools(workspace, cluster.node.user())
    numbers, is_over = count(), Event()
    statuses, threads = Counter[int](), dict[str, str]()

    def client(number: int) -> None:
        is_async = number == 0  # the others wait, and so are slow
        for _ in range(DEFERRED) if is_async else count():
            if is_over.is_set():
                return
            path = f"src/made{next(numbers)}.txt"
            reply = project.ask("tool:slow", parameters={"path": path}, **{"async": is_async})
            statuses[reply.status] += 1
            assert reply.status in {200, 202}, reply.body
            threads[path] = str(reply.json["thread_id"])

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        ends = [replace(cluster, part) for part in cluster.parts]
        is_over.set()
        for one in clients:
            one.result(120)
    rows = {path: project.ended(thread) for path, thread in threads.items()}

    assert set(ends) == {0}
    assert Counter(row["state"] for row in rows.values()) == {"completed": len(threads)}
    assert {row["attempt"] for row in rows.values()} == {1}
    files = project.manifest().files
    made = {path for path in files if path.startswith("src/made")}
    kept = {path for path, row in rows.items() if row.get("merge_conflicts")}
    assert made | kept == set(threads)
    assert len({files[path] for path in made}) == 1
    assert project.text(made.pop()) == "once\n"
    assert len(threads) == sum(statuses.values()) > len(cluster.parts)


def test_executions_survive_random_kills_and_begin_once() -> None:
    with TemporaryDirectory(prefix="rye-kills-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is another user's where this one is root

        outcome = under_kills(Path(folder), KILLED, every_s=2.0)

    kills = sum(outcome.kills.values())
    assert (outcome.lost, outcome.twice) == (0, 0), outcome
    assert outcome.interrupted <= PLACES * kills, outcome  # their items must not run again
    assert kills > 1
