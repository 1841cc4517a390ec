"""A cluster on one machine, against a single node and against a smaller cluster.

Left out without PostgreSQL; the rows of object storage without versitygw.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from time import perf_counter

from sqlalchemy import func, select

from benchmarks.load import RATE
from benchmarks.remote import Machine, settle
from benchmarks.timing import Figure, elapsed_ms, medians
from packing.cluster_parts import ClusterError
from packing.cluster_storage import ObjectStorage, postgresql_programs
from rye_services.storage.database import Database, threads
from tests.support.clusters import TestedCluster
from tests.support.node import Node
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import PLAIN_ENV, ROOT, Workspace, publish

RUNS, WARM_UPS = 40, 6
WAITS, WAIT_S = 32, 0.5
PUSHES = 3
LOAD_S = 20
_NOOP = "def execute(params, project_path):\n    return {}\n"
_WAIT = """
import time

def execute(params, project_path):
    time.sleep(params["s"])
    return {}
"""
_PEER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
import asyncio

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\\r")[0]
            await reader.readexactly(int(length or 0))
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}")
    except (OSError, asyncio.IncompleteReadError):
        writer.close()

async def main():
    await (await asyncio.start_server(serve, sock=listener)).serve_forever()

asyncio.run(main())
"""


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for the queue, for two workers, for the object storage, and for many requests."""
    try:
        postgresql_programs()
    except ClusterError:
        return
    if sys.platform != "linux":
        return
    folder = scratch / "cluster"
    folder.mkdir()
    for one in (scratch, folder):
        one.chmod(0o755)  # PostgreSQL is another user's where this one is root
    workspace = Workspace(folder / "here", (publish(folder / "bundle"),))
    workspace.project.signed_tool("noop", _NOOP, executor=FUNCTION)
    workspace.project.signed_tool("wait", _WAIT, executor=FUNCTION)
    with _running(folder / "disk", servers=1, workers=2) as disk:
        yield from _queue(workspace, folder, disk)
        yield _workers(workspace, disk)
        if ObjectStorage.program() is None:
            return
        storage = ObjectStorage(folder / "s3" / "s3")
        with _running(folder / "s3", servers=3, workers=1, storage=storage) as s3:
            yield _pushes(folder, pyz, disk, s3)
            yield _requests(workspace, s3)


@contextmanager
def _running(
    folder: Path, *, servers: int, workers: int, storage: ObjectStorage | None = None
) -> Iterator[TestedCluster]:
    cluster = TestedCluster(folder, servers=servers, workers=workers, storage=storage)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _server(cluster: TestedCluster) -> Node:
    """The first server, without the proxy before it."""
    node = cluster.node
    node.port = cluster.servers[0].port
    return node


def _queue(workspace: Workspace, folder: Path, cluster: TestedCluster) -> Iterator[Figure]:
    """A caller waits for a tool that does nothing: through the queue, and on one node."""
    single = Node(folder / "single")
    single.start()
    try:
        here = RemoteProject(workspace, single.user()).pushed()
        there = RemoteProject(workspace, _server(cluster).user()).pushed()
        contenders: dict[str, Callable[[], object]] = {
            "there": lambda: there.execute("tool:noop"),
            "here": lambda: here.execute("tool:noop"),
        }
        for _ in range(WARM_UPS):
            for run in contenders.values():
                run()
        found = medians(contenders, RUNS)
    finally:
        single.end()
    yield Figure(
        "cluster, an execution through the queue",
        found["there"],
        "on one node",
        found["here"],
        "at most +60 ms",
    )


def _workers(workspace: Workspace, cluster: TestedCluster) -> Figure:
    """Executions of half a second that end in a second, by the number of workers.

    They only wait: two cores cannot show the gain of a second worker that computes.
    """
    project = RemoteProject(workspace, _server(cluster).user()).pushed()
    _, second = cluster.workers
    for _ in range(2 * WARM_UPS):
        project.execute("tool:noop")
    rates: dict[int, float] = {2: _rate(project, cluster)}
    second.end()
    rates[1] = _rate(project, cluster)
    second.start()
    second.wait_until_ready()
    name = f"cluster, executions of {WAIT_S:g} s, by 2 workers"
    return Figure(name, rates[2], "by 1 worker", rates[1], "at least 1.7", "/s")


def _rate(project: RemoteProject, cluster: TestedCluster) -> float:
    database = Database(cluster.environ["DATABASE_URL"])
    left = select(func.count()).where(threads.c.state == "running")
    pause, started = Event(), perf_counter()
    try:
        for _ in range(WAITS):
            reply = project.ask("tool:wait", parameters={"s": WAIT_S}, **{"async": True})
            if reply.status != 202:  # noqa: PLR2004 - accepted
                raise RuntimeError(f"an execution is not accepted: {reply.status} {reply.body!r}")
        while True:
            with database.reading() as connection:
                if not connection.scalar(left):
                    return WAITS / (perf_counter() - started)
            pause.wait(0.02)
    finally:
        database.close()


def _pushes(folder: Path, pyz: Path, disk: TestedCluster, s3: TestedCluster) -> Figure:
    """The first push of 10,000 files to object storage and to the disk, by a new user each time."""
    times: dict[str, list[float]] = {"disk": [], "s3": []}
    for number in range(PUSHES):
        machine = Machine(folder / f"pushing{number}", pyz)
        machine.write_project()
        nodes = [("disk", _server(disk)), ("s3", _server(s3))]
        for name, node in nodes[:: 1 if number % 2 else -1]:
            machine.use(node)
            settle()
            times[name].append(elapsed_ms(lambda: machine.remote("push")))  # noqa: B023 - called at once
    found = {name: statistics.median(values) for name, values in times.items()}
    name = "cluster, push of 10,000 files to S3"
    return Figure(name, found["s3"], "to the disk", found["disk"], "at most 2.0")


def _requests(workspace: Workspace, cluster: TestedCluster) -> Figure:
    """The p99 of requests to the cluster, and to an idle process that answers at once."""
    project = RemoteProject(workspace, cluster.node.user()).pushed()
    for _ in range(WARM_UPS):
        project.execute("tool:noop")
    token = project.user.token
    peer = subprocess.Popen(
        [sys.executable, "-I", "-c", _PEER], stdout=subprocess.PIPE, encoding="utf-8"
    )
    with ExitStack() as stack:
        stack.callback(peer.wait)
        stack.callback(peer.kill)
        assert peer.stdout is not None  # noqa: S101 - it is a pipe
        idle = [f"http://127.0.0.1:{peer.stdout.readline().strip()}"]
        urls = [one.url for one in cluster.servers]
        _loaded(urls, token, 3)
        measured, floor = _loaded(urls, token, LOAD_S), _loaded(idle, token, LOAD_S)
    name = f"cluster, 99 of 100 answers at {RATE:g} requests a second"
    return Figure(name, measured, "an idle process", floor, "at most 100 ms")


def _loaded(urls: Sequence[str], token: str, seconds: float) -> float:
    """The p99 in milliseconds."""
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", *urls, "--seconds", str(seconds)],
        cwd=ROOT,
        env={**PLAIN_ENV, "RYE_TOKEN": token},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"load: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return float(json.loads(ended.stdout)["all"]["p99"])
