"""Whether a cluster loses executions while a random part of it is killed every few seconds.

``python -m benchmarks.kills [COUNT] [SECONDS]`` defers 10,000 unless told otherwise, with a kill
every 5 s, and prints what became of them; its status is 1 where one is lost. Parts are servers,
workers, PostgreSQL and, where versitygw is installed, the object storage.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from lillux.values import dataclass
from packing.local_cluster import ClusterError, LocalCluster, ObjectStorage, Part
from rye_services.database import Database, threads
from tests.support.clusters import TestedCluster
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace, publish

COUNT, EVERY_S = 10_000, 5.0
_CLIENTS = 4
_LEASE_S = 4
_LONGEST_S = 4 * 3600.0
_NOOP = "def execute(params, project_path):\n    return {}\n"
_ACCEPTED = 202
Action = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the executions that were acknowledged.

    ends     how many ended how, by state, or by the phase of an error; ``missing``: no row
    again    how many were begun more than once, as their item allows
    kills    how often each part was killed
    """

    deferred: int
    ends: Mapping[str, int]
    again: int
    kills: Mapping[str, int]
    elapsed_s: float

    @property
    def given_up(self) -> int:
        """How many rows say that they were lost with a worker, before it had read their item."""
        return self.ends.get("lost", 0)

    @property
    def lost(self) -> int:
        """How many were neither done, nor are said to be lost."""
        return self.deferred - self.ends.get("completed", 0) - self.given_up

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.deferred} deferred, {self.lost} lost, {self.given_up} given up,"
            f" {self.again} begun again, in {self.elapsed_s:.0f} s\n"
            f"ends: {dict(self.ends)}\nkills: {kills}"
        )


def under_kills(
    folder: Path, count: int, *, every_s: float = EVERY_S, seed: int = 1, workers: int = 2
) -> Outcome:
    """Defer executions to a cluster of three servers, and wait for their ends, under kills."""
    storage = ObjectStorage(folder / "cluster" / "s3") if ObjectStorage.program() else None
    cluster = TestedCluster(
        folder / "cluster",
        servers=3,
        workers=workers,
        storage=storage,
        settings={
            "RYE_NODE_EXECUTION_LEASE_S": str(_LEASE_S),
            "RYE_NODE_MAX_QUEUED": str(4 * count),  # one user may have half of it
        },
    )
    try:
        cluster.start()
        project = _project(folder, cluster)
        started = perf_counter()
        with _killing(cluster, every_s, seed) as kills:
            accepted = _deferred(project, count)
            _wait_for_ends(cluster)
            elapsed_s = perf_counter() - started
        ends, again = _counted(cluster, accepted)
    finally:
        cluster.stop()
    return Outcome(deferred=count, ends=ends, again=again, kills=kills, elapsed_s=elapsed_s)


def _project(folder: Path, cluster: TestedCluster) -> RemoteProject:
    workspace = Workspace(folder / "here", (publish(folder / "bundle"),))
    workspace.project.signed_tool("noop", _NOOP, executor=FUNCTION, extra="__retryable__ = True\n")
    return RemoteProject(workspace, cluster.node.user()).pushed()


# --- kills ----------------------------------------------------------------------------------------


@contextmanager
def _killing(cluster: LocalCluster, every_s: float, seed: int) -> Iterator[Counter[str]]:
    """A block during which parts are killed and started again; how often each was."""
    kills: Counter[str] = Counter()
    is_over, failures = Event(), list[BaseException]()
    parts = _killable(cluster)
    chance = random.Random(seed)  # noqa: S311 - which part dies

    def kill() -> None:
        while not is_over.wait(every_s):
            name = chance.choice(sorted(parts))
            end, start = parts[name]
            try:
                end()
                start()
            except BaseException as error:  # noqa: BLE001 - raised by the main thread
                failures.append(error)
                return
            kills[name] += 1

    thread = Thread(target=kill, name="kills")
    thread.start()
    try:
        yield kills
    finally:
        is_over.set()
        thread.join()
    if failures:
        raise failures[0]


def _killable(cluster: LocalCluster) -> dict[str, tuple[Action, Action]]:
    """By name: what kills a part, and what starts it again."""
    parts: dict[str, tuple[Action, Action]] = {
        part.name: (part.kill, partial(_begin_again, part)) for part in cluster.parts
    }
    if cluster.postgresql is not None:
        parts["postgresql"] = (cluster.postgresql.crash, cluster.postgresql.start)
    if cluster.storage is not None:
        parts["s3"] = (cluster.storage.stop, cluster.storage.start)
    return parts


def _begin_again(part: Part) -> None:
    part.start()
    part.wait_until_ready()


# --- executions -----------------------------------------------------------------------------------


def _deferred(project: RemoteProject, count: int) -> list[str]:
    """The threads of executions that were acknowledged; who gets no answer asks again."""
    accepted, lock = list[str](), Lock()

    def client() -> None:
        while True:
            with lock:
                if len(accepted) >= count:
                    return
            with suppress(OSError, HTTPException):  # the part that was asked is dead
                reply = project.ask("tool:noop", **{"async": True})
                if reply.status == _ACCEPTED:
                    with lock:
                        accepted.append(str(reply.json["thread_id"]))

    with ThreadPoolExecutor(_CLIENTS) as pool:
        for one in [pool.submit(client) for _ in range(_CLIENTS)]:
            one.result()
    return accepted[:count]


def _wait_for_ends(cluster: LocalCluster) -> None:
    """Wait until nothing waits and nothing runs. Raises ClusterError after some hours."""
    database = Database(cluster.environ["DATABASE_URL"])
    left = select(func.count()).where(threads.c.state == "running")
    until_s, pause = perf_counter() + _LONGEST_S, Event()
    try:
        while perf_counter() < until_s:
            with suppress(SQLAlchemyError), database.reading() as connection:  # it is being killed
                if not connection.scalar(left):
                    return
            pause.wait(0.5)
    finally:
        database.close()
    raise ClusterError(f"executions do not end within {_LONGEST_S:g} s")


def _counted(cluster: LocalCluster, accepted: list[str]) -> tuple[dict[str, int], int]:
    """The states of executions, and how many were begun more than once."""
    database = Database(cluster.environ["DATABASE_URL"])
    columns = threads.c
    try:
        with database.reading() as connection:
            rows = {
                row.thread_id: row
                for row in connection.execute(
                    select(columns.thread_id, columns.state, columns.attempt, columns.error_phase)
                )
            }
    finally:
        database.close()
    ends = Counter(
        (rows[one].error_phase or rows[one].state) if one in rows else "missing" for one in accepted
    )
    return dict(ends), sum(one in rows and rows[one].attempt > 1 for one in accepted)


def main(arguments: list[str]) -> int:
    """Print what became of them; 1 where one is lost."""
    count = int(arguments[0]) if arguments else COUNT
    every_s = float(arguments[1]) if arguments[1:] else EVERY_S
    with tempfile.TemporaryDirectory(prefix="rye-kills-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is another user's where this one is root
        outcome = under_kills(Path(folder), count, every_s=every_s)
    print(outcome)
    return 1 if outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
