"""Count of executions that a cluster loses while a random part of it is killed every few seconds.

``python -m benchmarks.kills [COUNT] [SECONDS]`` defers 10,000 by default, with a kill every 5 s,
and prints their ends; its status is 1 if one is lost, or was begun twice and must not
be. Parts are servers, workers, PostgreSQL and, where versitygw is installed, the object storage.
Three of four items are retryable. Each time that a row records the begin of its item, the database
itself counts it.
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
from itertools import count as counter
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from lillux.values import dataclass
from packing.cluster_parts import ClusterError, Part
from packing.cluster_storage import ObjectStorage
from packing.local_cluster import LocalCluster
from rye_services.storage.database import Database, threads
from tests.support.clusters import TestedCluster
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace, publish

COUNT, EVERY_S = 10_000, 5.0
_CLIENTS = 4
_LEASE_S = 4
_LONGEST_S = 4 * 3600.0
_TOOL = "def execute(params, project_path):\n    return {}\n"
_COUNT_BEGINNINGS = """
CREATE TABLE beginnings (thread_id text);
CREATE FUNCTION note_beginning() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN INSERT INTO beginnings VALUES (NEW.thread_id); RETURN NULL; END';
CREATE TRIGGER beginnings AFTER UPDATE ON threads FOR EACH ROW
  WHEN (OLD.preparing AND NOT NEW.preparing AND NEW.started_at IS NOT NULL)
  EXECUTE FUNCTION note_beginning();
"""
_ONCE_EVERY = 4  # of so many items one is not retryable
_ACCEPTED = 202
Action = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The ends of the acknowledged executions.

    ends         how many ended how, by state, or by the phase of an error; ``missing``: no row
    lost         how many were not done, without those that ended with the worker that had begun
                 them and whose item must not be begun again; or are said to be done, and never ran
    interrupted  how many those are, also where the database or the storage was killed under them
    twice        how many were begun more than once, and must not be
    again        how many were begun more than once, as their item allows
    kills        how often each part was killed
    """

    deferred: int
    ends: Mapping[str, int]
    lost: int
    interrupted: int
    twice: int
    again: int
    kills: Mapping[str, int]
    elapsed_s: float

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.deferred} deferred, {self.lost} lost, {self.twice} begun twice;"
            f" {self.interrupted} ended with their worker, {self.again} begun again, as their items"
            f" say, in {self.elapsed_s:.0f} s\nends: {dict(self.ends)}\nkills: {kills}"
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
        return _outcome(accepted, *_ends(cluster), kills, elapsed_s)
    finally:
        cluster.stop()


def _project(folder: Path, cluster: TestedCluster) -> RemoteProject:
    workspace = Workspace(folder / "here", (publish(folder / "bundle"),))
    again = "__retryable__ = True\n"
    workspace.project.signed_tool("again", _TOOL, executor=FUNCTION, extra=again)
    workspace.project.signed_tool("once", _TOOL, executor=FUNCTION)
    database = Database(cluster.environ["DATABASE_URL"])
    with database.writing() as connection:
        connection.execute(text(_COUNT_BEGINNINGS))
    database.close()
    return RemoteProject(workspace, cluster.node.user()).pushed()


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
    """By name: a function that kills a part, and one that starts it again."""
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


def _deferred(project: RemoteProject, count: int) -> dict[str, bool]:
    """The threads of executions that were acknowledged, and whether each is retryable.

    A client without an answer sends a new request: for another execution, as the first may exist.
    """
    accepted, lock, numbers = dict[str, bool](), Lock(), counter()

    def client() -> None:
        while True:
            with lock:
                if len(accepted) >= count:
                    return
                number = next(numbers)
            is_retryable = bool(number % _ONCE_EVERY)
            item = "tool:again" if is_retryable else "tool:once"
            with suppress(OSError, HTTPException):  # the server of this request is dead
                reply = project.ask(item, **{"async": True})
                if reply.status == _ACCEPTED:
                    with lock:
                        accepted[str(reply.json["thread_id"])] = is_retryable

    with ThreadPoolExecutor(_CLIENTS) as pool:
        for one in [pool.submit(client) for _ in range(_CLIENTS)]:
            one.result()
    return dict(islice(accepted.items(), count))


def _wait_for_ends(cluster: LocalCluster) -> None:
    """Wait until no execution waits or runs. Raises ClusterError after some hours."""
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


def _ends(cluster: LocalCluster) -> tuple[dict[str, str], Counter[str]]:
    """The end of each execution: its state, or the phase of an error; the number of its starts."""
    database = Database(cluster.environ["DATABASE_URL"])
    columns = threads.c
    wanted = select(columns.thread_id, columns.state, columns.error_phase)
    try:
        with database.reading() as connection:
            ends = {
                row.thread_id: row.error_phase or row.state for row in connection.execute(wanted)
            }
            begun = connection.scalars(text("SELECT thread_id FROM beginnings"))
            return ends, Counter(begun)
    finally:
        database.close()


def _outcome(
    accepted: Mapping[str, bool],
    ends: Mapping[str, str],
    begun: Mapping[str, int],
    kills: Mapping[str, int],
    elapsed_s: float,
) -> Outcome:
    """The outcome, by the rows and by the effects of the items."""
    lost = interrupted = 0
    for thread_id, is_retryable in accepted.items():
        match ends.get(thread_id):
            case "completed":
                lost += thread_id not in begun
            case "lost" | "database" | "storage" if not is_retryable:
                interrupted += 1
            case _:
                lost += 1
    often = [accepted[one] for one, count in begun.items() if count > 1 and one in accepted]
    again = sum(often)
    return Outcome(
        deferred=len(accepted),
        ends=Counter(ends.get(thread_id, "missing") for thread_id in accepted),
        lost=lost,
        interrupted=interrupted,
        twice=len(often) - again,
        again=again,
        kills=kills,
        elapsed_s=elapsed_s,
    )


def main(arguments: list[str]) -> int:
    """Print the outcome; 1 if an execution is lost, or was begun twice and must not be."""
    count = int(arguments[0]) if arguments else COUNT
    every_s = float(arguments[1]) if arguments[1:] else EVERY_S
    with tempfile.TemporaryDirectory(prefix="rye-kills-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is another user's where this one is root
        outcome = under_kills(Path(folder), count, every_s=every_s)
    print(outcome)
    return 1 if outcome.lost or outcome.twice else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
