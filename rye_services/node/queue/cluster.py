"""The queue of many machines, in PostgreSQL: the door of Procrastinate and psycopg. Why: ADR 0024.

A job of Procrastinate is a turn of one execution, named by ``queueing_lock``: the id of its thread.
It is deferred in the transaction that writes the row, and removed when the worker that took it is
done. Who has an execution, and how it ended, stands in the row alone.

Fair turns are start-time fair queueing: the turn of an execution is the one behind its user's last,
and not before the turn that is first in the queue now. ``priority`` of a job is made of that turn.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, LiteralString, cast

import psycopg
import psycopg_pool
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from rye_services.node.queue.turns import Defer, QueuedRun, QueueState, full, why_too_many
from rye_services.storage.database import RELEASE_IDLE, Database, node_identity
from ryeos.items.errors import RyeError

TASK = "execution"
HEARTBEAT_S, STALLED_S = 5.0, 20.0
"""How often a worker says that it lives, and when it counts as dead: for jobs that it has taken and
not begun. Once begun an execution has the lease of its row."""

_POLL_S = 1.0
"""How long an execution waits whose notice no worker heard: while one began to listen, or its
connection was away. A statement of the database each time."""

_AGAIN_S = 1.0
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"
_NO_ANSWER = "the queue of executions does not answer"
_TURNS_OF_PRIORITIES = 2
_log = logging.getLogger(__name__)


# --- statements -----------------------------------------------------------------------------------
# Of Procrastinate's tables only what its functions do not offer; all writes are functions.

_COUNTED = text(
    "SELECT count(*) AS waiting, count(*) FILTER (WHERE args->>'user_id' = :user_id) AS mine"
    " FROM procrastinate_jobs WHERE status = 'todo' AND queue_name = :queue"
)
_TURN = text(
    "INSERT INTO queue_turns AS kept (user_id, priority, turn)"
    " SELECT :user_id, :priority, present.turn + 1 FROM (SELECT coalesce("
    "   (SELECT (1 - first.priority) / 2 FROM procrastinate_jobs AS first"
    "     WHERE first.status = 'todo' AND first.queue_name = :queue"
    "     ORDER BY first.priority DESC, first.id LIMIT 1),"
    "   (SELECT max(turn) FROM queue_turns), 0) AS turn) AS present"
    " ON CONFLICT (user_id, priority)"
    " DO UPDATE SET turn = greatest(kept.turn, excluded.turn - 1) + 1"
    " RETURNING turn - 1"
)
_PLACE = text(
    "SELECT count(*) FROM procrastinate_jobs AS one JOIN procrastinate_jobs AS mine"
    " ON one.queue_name = mine.queue_name AND one.status = 'todo'"
    " AND (one.priority > mine.priority OR one.priority = mine.priority AND one.id <= mine.id)"
    " WHERE mine.queueing_lock = :thread_id AND mine.status = 'todo' AND mine.queue_name = :queue"
)
_WITHDRAW = text(
    "SELECT procrastinate_cancel_job_v1(id, false, true) FROM procrastinate_jobs"
    " WHERE queueing_lock = :thread_id AND status = 'todo' AND queue_name = :queue"
)
_WAITS = text(
    "SELECT 1 FROM procrastinate_jobs WHERE queueing_lock = :thread_id AND status = 'todo'"
)
_STATE = text(
    "SELECT (SELECT count(*) FROM threads WHERE state = 'running' AND started_at IS NOT NULL)"
    " AS active, (SELECT coalesce(sum(places), 0) FROM queue_workers"
    " WHERE seen_at_s > extract(epoch FROM now()) - :dead_s) AS places,"
    " (SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo' AND queue_name = :queue)"
    " AS waiting"
)
_SEEN = text(
    "INSERT INTO queue_workers (id, places, seen_at_s)"
    " VALUES (:id, :places, extract(epoch FROM now()))"
    " ON CONFLICT (id) DO UPDATE SET places = excluded.places, seen_at_s = excluded.seen_at_s"
)
_GONE = text("DELETE FROM queue_workers WHERE id = :id")
# A worker that was killed between taking a job and beginning the execution leaves a job that is
# done by no worker; one whose database went away in between may have a job without knowing it.
_STALLED = (
    "FROM procrastinate_jobs AS job LEFT JOIN procrastinate_workers AS worker"
    " ON worker.id = job.worker_id WHERE job.status = 'doing' AND job.queue_name = :queue"
    " AND (worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => :dead_s)"
    "  OR NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = job.queueing_lock"
    "   AND state = 'running' AND started_at IS NOT NULL))"
    " AND NOT EXISTS (SELECT 1 FROM procrastinate_events AS event WHERE event.job_id = job.id"
    "  AND event.at > now() - make_interval(secs => :dead_s))"
)
_END_STALLED = text(f"SELECT procrastinate_finish_job_v1(job.id, 'failed', true) {_STALLED}")
_TURNLESS = text(
    "SELECT thread_id, user_id, coalesce(job->>'awaited', '') = 'true' AS is_awaited"
    " FROM threads WHERE state = 'running' AND started_at IS NULL AND server_id IS NULL"
    " AND is_async AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs AS one"
    "  WHERE one.queueing_lock = threads.thread_id AND one.status IN ('todo', 'doing'))"
)
_FORGET_TURNS = text(
    "DELETE FROM queue_turns WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs"
    " WHERE status = 'todo' AND queue_name = :queue)"
)
_FORGET_WORKERS = text(
    "DELETE FROM queue_workers WHERE seen_at_s < extract(epoch FROM now()) - 3600"
)
_PRUNE = text("SELECT procrastinate_prune_stalled_workers_v1(:dead_s)")


# --- the queue ------------------------------------------------------------------------------------


class ClusterQueue:
    """Executions that wait in PostgreSQL for a place of any worker. See `ExecutionQueue`.

    Thread-safe. ``places`` are those of this process, for `work`; ``server_id`` names it.
    """

    def __init__(self, database: Database, *, server_id: str, places: int, longest: int) -> None:
        self._database, self._server_id = database, server_id
        self._places, self._longest = places, longest
        with database.reading() as connection:
            node = str(connection.scalar(node_identity.select()) or "")
        # Channels are of a whole database, which several nodes may share.
        self._queue, self.channel = f"rye-{node}", f"rye_runs_{node}"
        self._seen = QueueState(active=0, places=0, waiting=0, longest=longest)
        self._worker: _Worker | None = None
        self._is_closed = Event()
        self._task = _declare(App(connector=SyncPsycopgConnector()), _not_here)

    # --- what servers do ---

    @property
    def state(self) -> QueueState:
        """How full it was when `look` was called last."""
        return self._seen

    def look(self) -> None:
        """See how full it is. Raises SQLAlchemyError."""
        values = {"queue": self._queue, "dead_s": STALLED_S}
        with self._database.single_read() as connection:
            row = connection.execute(_STATE, values).one()
        self._seen = QueueState(
            active=row.active, places=row.places, waiting=row.waiting, longest=self._longest
        )

    @contextmanager
    def deferring(self, run: QueuedRun) -> Iterator[Defer]:
        """See `ExecutionQueue`. A table that is locked for long is a refusal too."""
        if self._is_closed.is_set():
            raise full("this node is ending")

        def defer(connection: Connection) -> None:
            connection.execute(text(_LOCK_TIMEOUT))
            self._require_room(connection, run)
            self._insert(connection, run)

        try:
            yield defer
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != psycopg.errors.LockNotAvailable.sqlstate:
                raise
            raise full(_NO_ANSWER) from error
        except ConnectorException as error:
            raise full(_NO_ANSWER) from error

    def put(self, connection: Connection, run: QueuedRun) -> None:
        """Add an execution to the queue, however long, as a part of the caller's transaction."""
        if not connection.scalar(_WAITS, {"thread_id": run.thread_id}):
            self._insert(connection, run)

    def wait_again(self, run: QueuedRun) -> None:
        """See `ExecutionQueue`."""
        with self._database.writing() as connection:
            self.put(connection, run)

    def tell(self, connection: Connection, thread_id: str) -> None:
        """Let every process know that a row is another one, once the transaction is committed."""
        values = {"channel": self.channel, "thread_id": thread_id}
        connection.execute(text("SELECT pg_notify(:channel, :thread_id)"), values)

    def place_of(self, thread_id: str) -> int:
        """See `ExecutionQueue`."""
        with self._database.single_read() as connection:
            return int(connection.scalar(_PLACE, self._one(thread_id)) or 0)

    def withdraw(self, thread_id: str) -> None:
        """See `ExecutionQueue`."""
        with self._database.writing() as connection:
            connection.execute(_WITHDRAW, self._one(thread_id))

    def _one(self, thread_id: str) -> dict[str, str]:
        return {"thread_id": thread_id, "queue": self._queue}

    def _require_room(self, connection: Connection, run: QueuedRun) -> None:
        values = {"queue": self._queue, "user_id": run.user_id}
        counted = connection.execute(_COUNTED, values).one()
        if counted.waiting >= max(1, self._longest):
            raise full(f"all places for executions are taken, and {counted.waiting} wait")
        if problem := why_too_many(run.user_id, counted.mine + 1, self._longest):
            raise full(problem)

    def _insert(self, connection: Connection, run: QueuedRun) -> None:
        values = {"user_id": run.user_id, "priority": run.priority, "queue": self._queue}
        turn = int(connection.scalar(_TURN, values) or 0)
        task = self._task.configure(
            queue=self._queue,
            queueing_lock=run.thread_id,
            priority=run.priority - _TURNS_OF_PRIORITIES * turn,
            connection=connection.connection.driver_connection,
        )
        with suppress(AlreadyEnqueued):
            task.defer(thread_id=run.thread_id, user_id=run.user_id)

    # --- what workers do ---

    def work(self, carry_out: Callable[[str], None]) -> None:
        """See `ExecutionQueue`: in a thread of its own, through every outage of the database."""
        self._worker = _Worker(self._database.conninfo, self._queue, self._places, carry_out)
        self._worker.start()

    def beat(self) -> None:
        """Record that this worker is alive, and how many places it has."""
        values = {"id": self._server_id, "places": self._places}
        if self._worker is not None and not self._is_closed.is_set():
            with self._database.writing() as connection:
                connection.execute(_SEEN, values)

    def close(self) -> None:
        """See `ExecutionQueue`."""
        self._is_closed.set()
        if self._worker is not None:
            self._worker.close()

    def leave(self, timeout_s: float) -> None:
        """Wait until what was taken is given back; places of this worker count no longer."""
        if self._worker is None:
            return
        self._worker.join(timeout_s)
        with suppress(OperationalError), self._database.writing() as connection:
            connection.execute(_GONE, {"id": self._server_id})

    # --- what servers and workers do ---

    def sweep(self) -> None:
        """Recover executions without a turn, which dead workers and lost connections have left.

        (1) Workers that are dead are forgotten, before anything else: a worker that starts forgets
        them too, and its statement locks their rows before their jobs. The other order here would
        be a deadlock. (2) Jobs of dead workers are ended. (3) An execution that waits and has no
        job gets one. (4) Turns that are of no use any more are forgotten. Every process may do
        this; one at a time does. Raises SQLAlchemyError.
        """
        values = {"queue": self._queue, "dead_s": STALLED_S}
        with self._database.writing(lock="queue sweep") as connection:
            connection.execute(text(_LOCK_TIMEOUT))
            connection.execute(_PRUNE, {"dead_s": 2 * STALLED_S})  # (1)
            connection.execute(_FORGET_WORKERS)
            connection.execute(_END_STALLED, values)  # (2)
            for row in connection.execute(_TURNLESS).all():  # (3)
                _log.warning("%s waited without a turn, and has one now", row.thread_id)
                run = QueuedRun(
                    thread_id=row.thread_id, user_id=row.user_id, priority=int(row.is_awaited)
                )
                self._insert(connection, run)
            connection.execute(_FORGET_TURNS, {"queue": self._queue})  # (4)


async def _not_here(_: str) -> None:
    """What a server would carry out: it only defers."""


def _declare(app: App, carry_out: Callable[[str], Any]) -> Any:  # noqa: ANN401 - a task of Procrastinate
    """The one task of an app: to carry out an execution."""

    async def execution(thread_id: str, user_id: str) -> None:  # noqa: ARG001 - to count them
        await carry_out(thread_id)

    return app.task(name=TASK)(execution)


# --- a worker -------------------------------------------------------------------------------------


class _Worker:
    """A worker of Procrastinate in a thread of its own."""

    def __init__(
        self, conninfo: str, queue: str, places: int, carry_out: Callable[[str], None]
    ) -> None:
        self._conninfo, self._queue, self._places = conninfo, queue, places
        self._carry_out = carry_out
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="execution")
        self._thread = Thread(target=self._run, name="queue", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._serving: asyncio.Task[None] | None = None
        self._is_closed = Event()

    def start(self) -> None:
        """Take executions from now on."""
        self._thread.start()

    def close(self) -> None:
        """Take no more; what was taken continues, and a second call changes nothing.

        Procrastinate gives back what it has taken after the first cancellation, and drops that at
        a second one: its job would look as if it were being done until a sweep ends it.
        """
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop)

    def join(self, timeout_s: float) -> None:
        """Wait until what was taken is given back."""
        self._thread.join(timeout_s)

    def _stop(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._serving = self._loop.create_task(self._serve())
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._serving)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        while not self._is_closed.is_set():
            connector = _LastingConnector(
                self._is_closed,
                conninfo=self._conninfo,
                configure=_release_idle,
                min_size=1,
                max_size=4,
                timeout=10.0,
            )
            app = App(connector=connector)
            _declare(app, self._carry_out_in_thread)
            try:
                async with AsyncExitStack() as opened:
                    # Before it is opened: a pool that is cancelled while it connects stays open.
                    opened.push_async_callback(app.close_async)
                    await app.open_async()
                    await app.run_worker_async(
                        queues=[self._queue],
                        concurrency=self._places,
                        fetch_job_polling_interval=_POLL_S,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        update_heartbeat_interval=HEARTBEAT_S,
                        stalled_worker_timeout=2 * STALLED_S,
                    )
            except (ConnectorException, psycopg.Error, psycopg_pool.PoolTimeout) as error:
                _log.warning("the queue of executions does not answer: %s", _cause(error))
                await asyncio.sleep(_AGAIN_S)

    async def _carry_out_in_thread(self, thread_id: str) -> None:
        await self._loop.run_in_executor(self._threads, self._carry_out, thread_id)


async def _release_idle(connection: psycopg.AsyncConnection) -> None:
    """Make ready a connection of the pool: each of its statements is a transaction."""
    await connection.execute(RELEASE_IDLE)
    await connection.commit()


class _LastingConnector(PsycopgConnector):
    """Waits for a database that is away, where Procrastinate would end its worker.

    What is executing continues meanwhile, and its places are taken. Once closing, it waits no more.
    """

    def __init__(self, is_closing: Event, **kwargs: Any) -> None:  # noqa: ANN401 - of the pool
        super().__init__(**kwargs)
        self._is_closing = is_closing

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:  # noqa: ANN401 - as Procrastinate has it
        """See ``BaseConnector`` of Procrastinate."""
        await self._lasting(
            lambda: super(_LastingConnector, self).execute_query_async(query, **arguments)
        )

    async def execute_query_one_async(
        self,
        query: LiteralString,
        **arguments: Any,  # noqa: ANN401 - as Procrastinate has it
    ) -> dict[str, Any]:
        """See ``BaseConnector`` of Procrastinate."""
        ask = super().execute_query_one_async
        return cast("dict[str, Any]", await self._lasting(lambda: ask(query, **arguments)))

    async def execute_query_all_async(
        self,
        query: LiteralString,
        **arguments: Any,  # noqa: ANN401 - as Procrastinate has it
    ) -> list[dict[str, Any]]:
        """See ``BaseConnector`` of Procrastinate."""
        ask = super().execute_query_all_async
        return cast("list[dict[str, Any]]", await self._lasting(lambda: ask(query, **arguments)))

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:  # noqa: ANN401 - as Procrastinate has it
        """See ``BaseConnector`` of Procrastinate."""
        names, listen = tuple(channels), super().listen_notify
        await self._lasting(lambda: listen(on_notification, names))

    async def _lasting(self, ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - as Procrastinate has it
        while True:
            try:
                return await ask()
            except ConnectorException as error:
                if self._is_closing.is_set() or not _is_outage(error.__cause__):
                    raise
                _log.warning("the queue of executions does not answer: %s", _cause(error))
            await asyncio.sleep(_AGAIN_S)


def _is_outage(error: BaseException | None) -> bool:
    """Whether the same may go well a little later."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _cause(error: BaseException) -> str:
    return " ".join(str(error.__cause__ or error).split())[:200]


# --- news -----------------------------------------------------------------------------------------


class News:
    """Notifications between processes: executions that have begun, ended, or are to be ended.

    A connection of its own listens. Who watches is woken for news, and whenever the connection
    comes back, since some may have been missed. Thread-safe.
    """

    def __init__(self, conninfo: str, channel: str, on_news: Callable[[str], None]) -> None:
        self._conninfo, self._channel, self._on_news = conninfo, channel, on_news
        self._watching: dict[str, list[Callable[[], None]]] = {}
        self._lock = Lock()
        self._is_closed = Event()
        self._thread = Thread(target=self._listen, name="news", daemon=True)

    def begin(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._is_closed.set()
        self._wake_all()

    @contextmanager
    def watching(self, thread_id: str, wake: Callable[[], None]) -> Iterator[None]:
        """A block in which a function is called for news of an execution; it must not wait."""
        with self._lock:
            self._watching.setdefault(thread_id, []).append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._watching[thread_id].remove(wake)
                if not self._watching[thread_id]:
                    del self._watching[thread_id]

    def _listen(self) -> None:
        is_known_away = False
        while not self._is_closed.is_set():
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as connection:
                    listen = psycopg.sql.SQL("LISTEN {}").format(
                        psycopg.sql.Identifier(self._channel)
                    )
                    connection.execute(listen)
                    is_known_away = False
                    self._wake_all()
                    self._hear(connection)
            except psycopg.Error as error:
                if not is_known_away:
                    _log.warning("news of executions do not come: %s", _cause(error))
                is_known_away = True
                self._is_closed.wait(_AGAIN_S)

    def _hear(self, connection: "psycopg.Connection[Any]") -> None:
        checked_s = monotonic()
        while not self._is_closed.is_set():
            for one in connection.notifies(timeout=_AGAIN_S):
                self._wake(one.payload)
            if monotonic() - checked_s > HEARTBEAT_S:  # a connection that is cut says nothing
                connection.execute("SELECT 1")
                checked_s = monotonic()

    def _wake(self, thread_id: str) -> None:
        with self._lock:
            wakes = list(self._watching.get(thread_id, ()))
        for wake in wakes:
            wake()
        self._on_news(thread_id)

    def _wake_all(self) -> None:
        with self._lock:
            wakes = [wake for one in self._watching.values() for wake in one]
        for wake in wakes:
            wake()


# --- tables ---------------------------------------------------------------------------------------


def make_queue_tables(database: Database) -> None:
    """Make Procrastinate's tables of this version. Of many that begin at once one makes them.

    Raises RyeError `CONFIG_ERROR`, SQLAlchemyError.
    """
    from importlib.metadata import version

    present = version("procrastinate")
    with database.writing(lock="queue tables") as connection:
        found = _version_of(connection)
        if found == present:
            return
        if _numbers(found) > _numbers(present):
            raise RyeError(
                f"the queue of executions: expected tables of Procrastinate {present} at most,"
                f" found {found}",
                code="CONFIG_ERROR",
                hint="use the rye-node.pyz that made them, or a newer one",
            )
        driver = connection.connection.driver_connection
        for statements in _upgrades(found):
            driver.execute(statements)  # type: ignore[union-attr]
        driver.execute(f"COMMENT ON TABLE procrastinate_jobs IS 'Procrastinate {present}'")  # type: ignore[union-attr]


def _version_of(connection: Connection) -> str:
    """The version that made the tables, ``""`` for none."""
    said = connection.scalar(
        text("SELECT obj_description(to_regclass('procrastinate_jobs'), 'pg_class')")
    )
    return str(said or "").removeprefix("Procrastinate ")


def _upgrades(found: str) -> Iterator[str]:
    """The statements that bring tables of a version to this one."""
    folder = Path(str(resources.files("procrastinate"))) / "sql"
    if not found:
        yield (folder / "schema.sql").read_text("utf-8")
        return
    for path in sorted((folder / "migrations").glob("*.sql")):
        if _numbers(path.name.partition("_")[0]) > _numbers(found):
            yield path.read_text("utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
