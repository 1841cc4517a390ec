"""The common contract of execution queues: in memory and in PostgreSQL."""

import gc
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Condition

import pytest
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import Connection, insert, select, text, update

from rye_services.node.queue.cluster import ClusterQueue, make_queue_tables
from rye_services.node.queue.turns import (
    AWAITED,
    LATER,
    ExecutionQueue,
    LocalQueue,
    Queue,
    QueuedRun,
)
from rye_services.storage.database import Database, node_identity, stamp, threads
from rye_services.web.http import RequestProblem
from ryeos.items.errors import RyeError
from tests.support.databases import made_database
from tests.support.endings import wait_until
from tests.support.errors import coded

WAIT_S = 20.0


class Hands:
    """A worker function that holds each execution until the test releases it."""

    def __init__(self, *, holds: bool = True) -> None:
        self.taken: list[str] = []
        self._holds, self._let_go = holds, set[str]()
        self._changed = Condition()

    def carry_out(self, thread_id: str) -> None:
        with self._changed:
            self.taken.append(thread_id)
            self._changed.notify_all()
            if self._holds:
                assert self._changed.wait_for(lambda: thread_id in self._let_go, WAIT_S)

    def let_go(self, thread_id: str) -> None:
        with self._changed:
            self._let_go.add(thread_id)
            self._changed.notify_all()

    def let_go_of_all(self) -> None:
        with self._changed:
            self._holds = False
            self._let_go.update(self.taken)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[str]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= count, WAIT_S), self.taken
            return list(self.taken)


class Case:
    """A queue with its database, and the `Hands` that carry its executions out."""

    def __init__(self, database: Database, make: Callable[..., ExecutionQueue]) -> None:
        self.database, self._make = database, make
        self.hands = Hands()
        self.made: list[ExecutionQueue] = []

    def queue(self, places: int = 1, longest: int = 100) -> ExecutionQueue:
        self.made.append(self._make(places, longest))
        return self.made[-1]

    def defer(
        self, queue: ExecutionQueue, name: str, user: str = "ada", priority: int = LATER
    ) -> None:
        """Have an execution wait, as a server does: with its row, in one transaction."""
        run = QueuedRun(thread_id=name, user_id=user, priority=priority)
        with queue.deferring(run) as defer, self.database.writing() as connection:
            write_row(connection, run)
            defer(connection)


def write_row(connection: Connection, run: QueuedRun) -> None:
    """A row that waits."""
    connection.execute(
        insert(threads).values(
            thread_id=run.thread_id,
            user_id=run.user_id,
            item_type="tool",
            item_id="tool:echo",
            remote_name="default",
            project_path="p",
            state="running",
            created_at="2026-11-24T00:00:00.000000+00:00",
            is_async=True,
            job={"action": "execute"},
        )
    )


def made_cluster_database(folder: Path) -> Database:
    """A database on PostgreSQL that belongs to a node, with the tables of the queue."""
    database = made_database(folder, kind="postgresql")
    with database.writing() as connection:
        now = stamp(database.now(connection))
        connection.execute(node_identity.insert().values(id="0" * 32, created_at=now))
    make_queue_tables(database)
    return database


@pytest.fixture(params=["local", "cluster"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    """A queue of either kind."""
    if request.param == "local":
        made = Case(
            made_database(tmp_path), lambda places, longest: LocalQueue(Queue(places, longest))
        )
    else:
        database = made_cluster_database(tmp_path)
        made = Case(
            database,
            lambda places, longest: ClusterQueue(
                database, server_id="s", places=places, longest=longest
            ),
        )
    yield made
    made.hands.let_go_of_all()
    for queue in made.made:
        queue.close()
        if isinstance(queue, ClusterQueue):
            queue.leave(WAIT_S)


def test_an_execution_is_started_once_by_its_id(case: Case) -> None:
    queue = case.queue(places=2)
    queue.work(case.hands.carry_out)

    case.defer(queue, "a")
    case.hands.wait_for(1)
    case.defer(queue, "b", "bob")

    assert case.hands.wait_for(2) == ["a", "b"]


def test_an_execution_whose_transaction_was_rolled_back_is_never_started(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    run = QueuedRun(thread_id="undone", user_id="ada")

    with (
        suppress(ZeroDivisionError),
        queue.deferring(run) as defer,
        case.database.writing() as connection,
    ):
        write_row(connection, run)
        defer(connection)
        raise ZeroDivisionError
    case.defer(queue, "kept")

    assert case.hands.wait_for(1) == ["kept"]
    with case.database.reading() as connection:
        assert connection.scalars(select(threads.c.thread_id)).all() == ["kept"]


def test_no_more_executions_start_than_there_are_places(case: Case) -> None:
    queue = case.queue(places=2)
    queue.work(case.hands.carry_out)
    for name, user in (("a", "ada"), ("b", "bob"), ("c", "eve")):
        case.defer(queue, name, user)

    assert sorted(case.hands.wait_for(2)) == ["a", "b"]
    case.hands.let_go("a")
    assert sorted(case.hands.wait_for(3)) == ["a", "b", "c"]


def test_a_single_execution_does_not_wait_for_all_of_another_user(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    for number in range(5):
        case.defer(queue, f"ada{number}")
    case.hands.wait_for(1)
    case.defer(queue, "bob", "bob")
    case.hands.let_go_of_all()

    assert case.hands.wait_for(6).index("bob") <= 2
    assert [one for one in case.hands.taken if one != "bob"] == [f"ada{n}" for n in range(5)]


def test_past_use_of_the_queue_does_not_delay_a_user(case: Case) -> None:
    queue = case.queue()
    hands = Hands(holds=False)
    queue.work(hands.carry_out)
    for number in range(10):
        case.defer(queue, f"before{number}", "ada")
        hands.wait_for(number + 1)
    held = QueuedRun(thread_id="held", user_id="eve")
    hands._holds = True
    case.defer(queue, held.thread_id, held.user_id)
    hands.wait_for(11)

    for number in range(3):
        case.defer(queue, f"bob{number}", "bob")
    case.defer(queue, "ada", "ada")
    hands.let_go_of_all()

    assert hands.wait_for(15)[11:].index("ada") <= 1


def test_an_execution_with_a_waiting_caller_goes_before_others_of_its_user(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)

    case.defer(queue, "later1")
    case.defer(queue, "later2")
    case.defer(queue, "awaited", priority=AWAITED)
    case.hands.let_go_of_all()

    assert case.hands.wait_for(4) == ["running", "awaited", "later1", "later2"]


def test_the_queue_place_of_a_waiting_execution_is_known(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)
    for name in ("first", "second"):
        case.defer(queue, name)

    assert [queue.place_of(name) for name in ("first", "second", "unknown")] == [1, 2, 0]


def test_a_withdrawn_execution_is_not_started(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)
    for name in ("withdrawn", "kept"):
        case.defer(queue, name)

    queue.withdraw("withdrawn")
    queue.withdraw("unknown")
    case.hands.let_go_of_all()

    assert case.hands.wait_for(2) == ["running", "kept"]


def test_a_queue_has_a_bound_and_one_user_half_of_it(case: Case) -> None:
    queue = case.queue(longest=4)
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)
    case.defer(queue, "a1")
    case.defer(queue, "a2")

    with pytest.raises(RequestProblem, match="2 executions of user ada wait") as refused:
        case.defer(queue, "a3")
    case.defer(queue, "b1", "bob")
    case.defer(queue, "b2", "bob")
    with pytest.raises(RequestProblem, match="and 4 wait"):
        case.defer(queue, "e1", "eve")

    assert refused.value.status_code == 503
    assert refused.value.headers == {"Retry-After": "5"}
    with case.database.reading() as connection:
        found = connection.scalars(select(threads.c.thread_id)).all()
    assert sorted(found) == ["a1", "a2", "b1", "b2", "running"]


def test_an_execution_that_returns_to_the_queue_is_admitted_and_waits_once(case: Case) -> None:
    queue = case.queue(longest=1)
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)
    case.defer(queue, "waits")
    again = QueuedRun(thread_id="again", user_id="ada")
    with case.database.writing() as connection:
        write_row(connection, again)

    for _ in range(2):
        queue.wait_again(again)
        queue.wait_again(QueuedRun(thread_id="waits", user_id="ada"))
    case.hands.let_go_of_all()
    case.hands.wait_for(3)
    case.defer(queue, "last", "bob")

    assert case.hands.wait_for(4) == ["running", "waits", "again", "last"]


def test_a_closed_queue_starts_and_accepts_no_execution(case: Case) -> None:
    queue = case.queue()
    queue.work(case.hands.carry_out)
    case.defer(queue, "running")
    case.hands.wait_for(1)
    case.defer(queue, "waits")

    queue.close()
    case.hands.let_go_of_all()

    with pytest.raises(RequestProblem, match="this node is ending"):
        case.defer(queue, "refused")
    if isinstance(queue, ClusterQueue):
        queue.leave(WAIT_S)
    assert case.hands.taken == ["running"]


# --- many machines --------------------------------------------------------------------------------


def queue_of_a_dead_worker(cluster: Case, database: Database) -> ClusterQueue:
    """A queue with one execution, taken a minute ago by a worker that was killed at once."""
    queue = cluster.queue()
    assert isinstance(queue, ClusterQueue)
    cluster.defer(queue, "taken")
    with database.writing() as connection:
        fetch = "SELECT procrastinate_fetch_job_v2(NULL, procrastinate_register_worker_v1())"
        connection.execute(text(fetch))
        old = "UPDATE procrastinate_events SET at = at - interval '1 minute'"
        connection.execute(text(old))
        dead = "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'"
        connection.execute(text(dead))
    return queue


def waits_for_a_lock(database: Database) -> bool:
    """Whether a transaction waits for another one."""
    with database.reading() as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        return bool(connection.scalar(text(waiting)))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return made_cluster_database(tmp_path)


@pytest.fixture
def cluster(database: Database) -> Iterator[Case]:
    """A queue in PostgreSQL, of which there may be several."""
    made = Case(
        database,
        lambda places, longest: ClusterQueue(
            database, server_id=f"s{places}", places=places, longest=longest
        ),
    )
    yield made
    made.hands.let_go_of_all()
    for queue in made.made:
        queue.close()
        assert isinstance(queue, ClusterQueue)
        queue.leave(WAIT_S)


def test_two_workers_share_the_queue_and_start_each_execution_once(cluster: Case) -> None:
    server, *workers = (cluster.queue(places=2) for _ in range(3))
    hands = Hands(holds=False)
    for number in range(20):
        cluster.defer(server, f"t{number}", "ada" if number % 2 else "bob")

    for worker in workers:
        worker.work(hands.carry_out)

    assert sorted(hands.wait_for(20)) == sorted(f"t{n}" for n in range(20))


def test_executions_left_by_a_closed_worker_are_taken_by_another(cluster: Case) -> None:
    first, second = cluster.queue(), cluster.queue()
    first.work(cluster.hands.carry_out)
    cluster.defer(first, "a")
    cluster.hands.wait_for(1)
    cluster.defer(first, "b")

    first.close()
    cluster.hands.let_go("a")
    second.work(cluster.hands.carry_out)

    assert cluster.hands.wait_for(2) == ["a", "b"]


def test_a_worker_that_is_closed_twice_returns_its_turn(
    cluster: Case, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "procrastinate")
    queue = cluster.queue()
    assert isinstance(queue, ClusterQueue)
    queue.work(cluster.hands.carry_out)
    cluster.defer(queue, "a")
    cluster.hands.wait_for(1)

    queue.close()
    wait_until(lambda: "Waiting for job to finish" in caplog.text)
    queue.close()  # as a drain, and the end after it
    cluster.hands.let_go("a")
    queue.leave(WAIT_S)

    with database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM procrastinate_jobs")) == 0


def test_a_locked_table_of_the_queue_is_refused_in_time(
    cluster: Case, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rye_services.node.queue.cluster._LOCK_TIMEOUT", "SET LOCAL lock_timeout = '50ms'"
    )
    queue = cluster.queue()

    with database.writing() as holder:
        holder.execute(text("LOCK TABLE procrastinate_jobs IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(RequestProblem, match="does not answer") as refused:
            cluster.defer(queue, "a")
    cluster.defer(queue, "b")

    assert refused.value.status_code == 503
    with database.reading() as connection:
        assert connection.scalars(select(threads.c.thread_id)).all() == ["b"]


def test_a_worker_sets_an_idle_timeout_on_its_connections(
    cluster: Case, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rye_services.node.queue.cluster.RELEASE_IDLE", "SET application_name = 'releases'"
    )
    connections = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'releases'")
    queue = cluster.queue()
    queue.work(cluster.hands.carry_out)
    cluster.defer(queue, "a")
    cluster.hands.wait_for(1)

    with database.single_read() as connection:
        assert connection.scalar(connections) >= 1


def test_an_execution_without_a_turn_gets_one_from_the_sweep(
    cluster: Case, database: Database
) -> None:
    queue = cluster.queue()
    assert isinstance(queue, ClusterQueue)
    with database.writing() as connection:
        write_row(connection, QueuedRun(thread_id="lost", user_id="ada"))
    queue.sweep()
    queue.sweep()
    queue.work(cluster.hands.carry_out)

    assert cluster.hands.wait_for(1) == ["lost"]
    assert queue.place_of("lost") == 0


def test_a_job_of_a_worker_that_died_before_its_begin_is_taken_by_another(
    cluster: Case, database: Database
) -> None:
    queue = queue_of_a_dead_worker(cluster, database)
    queue.work(cluster.hands.carry_out)
    queue.sweep()

    assert cluster.hands.wait_for(1) == ["taken"]


def test_a_sweep_and_a_worker_that_starts_may_forget_one_dead_worker_at_a_time(
    cluster: Case, database: Database
) -> None:
    queue = queue_of_a_dead_worker(cluster, database)
    # A worker that starts deletes the row of the dead one, and then takes its name from its jobs.
    with ThreadPoolExecutor(1) as another:
        with database.writing() as starting:
            starting.execute(text("SELECT 1 FROM procrastinate_workers FOR UPDATE"))
            sweep = another.submit(queue.sweep)
            wait_until(lambda: waits_for_a_lock(database))
            starting.execute(text("DELETE FROM procrastinate_workers"))
        sweep.result(WAIT_S)
    queue.work(cluster.hands.carry_out)

    assert cluster.hands.wait_for(1) == ["taken"]


def test_the_sweep_leaves_running_executions_alone(cluster: Case, database: Database) -> None:
    queue = cluster.queue(places=2)
    assert isinstance(queue, ClusterQueue)
    queue.work(cluster.hands.carry_out)
    cluster.defer(queue, "running")
    cluster.hands.wait_for(1)
    with database.writing() as connection:
        connection.execute(update(threads).values(started_at="now", server_id="s2"))
        old = "UPDATE procrastinate_events SET at = at - interval '1 minute'"
        connection.execute(text(old))
    queue.sweep()
    cluster.defer(queue, "next")

    assert cluster.hands.wait_for(2) == ["running", "next"]


def test_the_state_of_a_queue_counts_all_workers(cluster: Case, database: Database) -> None:
    first, second = cluster.queue(places=2), cluster.queue(places=3)
    assert isinstance(first, ClusterQueue)
    assert isinstance(second, ClusterQueue)
    cluster.defer(first, "a")
    for worker in (first, second):
        worker.work(cluster.hands.carry_out)
        worker.beat()
    cluster.hands.wait_for(1)
    wait_until(lambda: first.place_of("a") == 0)
    first.look()

    assert (first.state.places, first.state.waiting, first.state.longest) == (5, 0, 100)


def test_tables_of_a_newer_queue_are_refused(database: Database) -> None:

    with database.writing() as connection:
        connection.execute(text("COMMENT ON TABLE procrastinate_jobs IS 'Procrastinate 99.0.0'"))

    with pytest.raises(RyeError, match=r"found 99\.0\.0", check=coded("CONFIG_ERROR")):
        make_queue_tables(database)


def test_a_worker_that_is_closed_while_it_connects_leaves_no_pool_open(
    cluster: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue, names = cluster.queue(), set[object]()
    assert isinstance(queue, ClusterQueue)
    connecting = logging.Handler()  # the pool logs its name before it waits for a connection
    logger = logging.getLogger("psycopg.pool")
    caplog.set_level("INFO", logger.name)
    monkeypatch.setattr(logger, "handlers", [connecting])

    def close(record: logging.LogRecord) -> None:
        if str(record.msg).startswith("waiting for pool"):
            names.update([*(record.args or ())])
            queue.close()

    monkeypatch.setattr(connecting, "emit", close)
    queue.work(cluster.hands.carry_out)
    queue.leave(WAIT_S)

    pools = [one for one in gc.get_objects() if isinstance(one, AsyncConnectionPool)]
    assert names
    assert all(one.closed for one in pools if one.name in names)
