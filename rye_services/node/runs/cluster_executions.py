"""Executions on many machines: servers let them in and wait for answers, workers carry them out.

Both speak through the database alone: the row of an execution, its turn in the queue
(`rye_services.node.queue.cluster`), and news of rows that have changed.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from time import monotonic
from typing import Any

from sqlalchemy import select, update
from starlette.concurrency import run_in_threadpool

from lillux.values import replace
from rye_services.node.queue.cluster import ClusterQueue, News, make_queue_tables
from rye_services.node.queue.logs import RunLogs
from rye_services.node.queue.rows import CANCELLED, RUNNING, Progress, ThreadRows
from rye_services.node.queue.turns import AWAITED, LATER, QueuedRun, QueueState
from rye_services.node.runs.execution import Engine, Order
from rye_services.node.runs.executions import (
    RETRY_AFTER,
    Admission,
    Runs,
    accepted,
    figure,
    kept_answer,
    kept_figure,
    new_thread_id,
)
from rye_services.node.store.objects import StoresOfUsers
from rye_services.node.store.servers import ServerLease
from rye_services.process.keys import NodeKeys
from rye_services.process.metrics import Figure
from rye_services.process.watch import Watch
from rye_services.settings import Settings
from rye_services.storage.database import Database, node_identity
from rye_services.web.http import RequestProblem
from ryeos.items.errors import RyeError
from ryeos.remote.identity import encode_public_key

_BEATS_OF_A_LEASE = 6
_LOOK_AGAIN_S = 2.0  # news may be lost with their connection
_SPARE_S = 30.0  # of an answer, for what comes after the time limit of an item
_ENDING_S = 5.0


class ClusterParts:
    """What a process of a cluster has: rows, queue and news. Thread-safe.

    Makes the tables of the queue where there are none. Raises RyeError.
    """

    def __init__(self, settings: Settings, database: Database, server_id: str) -> None:
        if database.is_sqlite:
            raise RyeError(
                "queue: cluster: expected a database of PostgreSQL, found SQLite",
                code="CONFIG_ERROR",
                hint="set DATABASE_URL=postgresql+psycopg://user@host/rye, or queue: local",
            )
        make_queue_tables(database)
        lease_s = float(settings.execution_lease_s)
        self.beat_s = lease_s / _BEATS_OF_A_LEASE
        self.queue = ClusterQueue(
            database,
            server_id=server_id,
            places=settings.max_concurrent,
            longest=settings.max_queued,
        )
        # Whether another process has ended is said by its lease: its locks are on other machines.
        self.rows = ThreadRows(
            database, server_id, lambda _: False, shared=self.queue, lease_s=lease_s
        )
        self.logs = RunLogs(database)
        self._conninfo = database.conninfo

    def news(self, on_news: Callable[[str], None]) -> News:
        """News of executions, for a function. It does not listen yet."""
        return News(self._conninfo, self.queue.channel, on_news)


def require_keys_of_the_node(database: Database, keys: NodeKeys) -> None:
    """Refuse keys that are not those of the other processes of a cluster.

    Each process makes keys of its own where none are mounted, and then clients would meet another
    node with every request. New keys of a rotation are known by what the former ones said.
    Raises RyeError, `CONFIG_ERROR`.
    """
    own = encode_public_key(keys.signing.public_pem)
    former = {one.get("signing_key") for one in keys.previous}
    with database.writing(lock="node key") as connection:
        known = connection.scalar(select(node_identity.c.public_key))
        if known == own:
            return
        if known is not None and known not in former:
            raise RyeError(
                f"signing keys: expected the pair of {known}, which the other servers have,"
                f" found that of {own}",
                code="CONFIG_ERROR",
                hint="mount the same keys for each server and worker: SIGNING_KEY_DIR=DIR",
            )
        connection.execute(update(node_identity).values(public_key=own))


# --- servers --------------------------------------------------------------------------------------


class ClusterExecutions:
    """Executions that workers carry out. See `ExecutionService`."""

    def __init__(
        self,
        engine: Engine,
        parts: ClusterParts,
        *,
        stores: StoresOfUsers,
        presence: ServerLease,
    ) -> None:
        self._admission = Admission(engine, parts.rows)
        self.rows, self.logs, self.beat_s = parts.rows, parts.logs, parts.beat_s
        self._queue, self._news = parts.queue, parts.news(lambda _: None)
        self._stores, self._presence = stores, presence
        self._runs_s = float(engine.settings.worker_timeout_s) + _SPARE_S
        self._ends_at_s = float("inf")

    @property
    def queue_state(self) -> QueueState:
        """How full the queue was a second ago."""
        return self._queue.state

    async def answer(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        if order.is_async:
            return await run_in_threadpool(self.accept, order)
        thread_id = await run_in_threadpool(self._defer, order, AWAITED)
        woken, loop, patience = asyncio.Event(), asyncio.get_running_loop(), self._patience()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(woken.set)

        with self._news.watching(thread_id, wake):
            while True:
                woken.clear()
                progress = await run_in_threadpool(self.rows.progress, thread_id)
                if (left_s := patience.left_s(progress)) <= 0:
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), min(left_s, _LOOK_AGAIN_S))
        return await run_in_threadpool(self._answer, order, thread_id)

    def run(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        thread_id, woken, patience = self._defer(order, AWAITED), Event(), self._patience()
        with self._news.watching(thread_id, woken.set):
            while True:
                woken.clear()
                if (left_s := patience.left_s(self.rows.progress(thread_id))) <= 0:
                    break
                woken.wait(min(left_s, _LOOK_AGAIN_S))
        return self._answer(order, thread_id)

    def accept(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        thread_id = self._defer(order, AWAITED if order.is_awaited else LATER)
        return accepted(order, thread_id, self._queue.place_of(thread_id))

    def take_answer(self, user_id: str, thread_id: str) -> dict[str, Any]:
        """See `ExecutionService`."""
        return kept_answer(self.rows, self._stores, user_id, thread_id)

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """See `ExecutionService`: the worker learns of it by the news of its row."""
        state = self.rows.cancel(user_id, thread_id, by)
        if state == CANCELLED:
            self._queue.withdraw(thread_id)
        return state

    def begin(self) -> None:
        """See `ExecutionService`."""
        self._presence.begin()
        self._news.begin()

    def beat(self) -> None:
        """Recover executions of dead workers, and read how full the queue is."""
        self.rows.take_over()
        self._queue.sweep()
        self._presence.forget_others()

    def listen(self) -> None:
        """See how full the queue is."""
        self._queue.look()

    def drain(self, grace_s: float) -> None:
        """Answer callers that still wait after the grace with 202: another server knows the rest.

        What is asked for meanwhile is deferred as ever: workers carry it out, not this process.
        """
        self._ends_at_s = min(self._ends_at_s, monotonic() + grace_s)

    def close(self, grace_s: float) -> None:
        """See `ExecutionService`."""
        self.drain(grace_s)
        self._queue.close()
        self._news.close()
        self._presence.end()

    def figures(self) -> Sequence[Figure]:
        """See `ExecutionService`."""
        state = self._queue.state
        return (
            figure("rye_cluster_executions_running", "Executions that run, anywhere", state.active),
            figure("rye_cluster_execution_places", "Places of all workers", state.places),
            figure("rye_cluster_executions_queued", "Executions that wait", state.waiting),
            kept_figure(self.rows),
        )

    def _patience(self) -> "_Patience":
        return _Patience(self._admission.wait_s, self._runs_s, lambda: self._ends_at_s)

    def _defer(self, order: Order, priority: int) -> str:
        """Add an execution to the queue: the id of its thread. Raises RequestProblem."""
        thread_id = new_thread_id(order.item_ref)
        basis = self._admission.basis(order)
        run = QueuedRun(thread_id=thread_id, user_id=order.user_id, priority=priority)
        waited = replace(order, is_awaited=priority == AWAITED)
        with self._queue.deferring(run) as defer:
            self._admission.write_row(
                thread_id, order, basis, job=waited.job(), together_with=defer
            )
        return thread_id

    def _answer(self, order: Order, thread_id: str) -> dict[str, Any]:
        """The answer to a caller that has waited. Raises RequestProblem."""
        row = self.rows.one(order.user_id, thread_id)
        if row is not None and row["state"] == RUNNING:
            return accepted(order, thread_id, self._queue.place_of(thread_id))
        if row is None:
            detail = {"error": "it is forgotten", "thread_id": thread_id}
            raise RequestProblem(503, detail, RETRY_AFTER)
        return kept_answer(self.rows, self._stores, order.user_id, thread_id)


class _Patience:
    """How long who waits for an answer keeps waiting: for a place, then for the end."""

    def __init__(self, wait_s: float, runs_s: float, ends_at_s: Callable[[], float]) -> None:
        self._until_s, self._runs_s, self._ends_at_s = monotonic() + wait_s, runs_s, ends_at_s
        self._is_begun = False

    def left_s(self, progress: Progress | None) -> float:
        """How much longer; 0 or less for no longer."""
        if progress is None or progress.state != RUNNING:
            return 0.0
        if progress.is_begun and not self._is_begun:
            self._is_begun, self._until_s = True, monotonic() + self._runs_s
        return min(self._until_s, self._ends_at_s()) - monotonic()


# --- workers --------------------------------------------------------------------------------------


class ClusterWorker:
    """Carries out what waits in the queue of a cluster, until it is asked to end. Thread-safe."""

    def __init__(
        self, engine: Engine, parts: ClusterParts, *, presence: ServerLease, watch: Watch
    ) -> None:
        admission = Admission(engine, parts.rows)
        self.rows, self.logs, self.beat_s = parts.rows, parts.logs, parts.beat_s
        self._runs = Runs(engine, admission, parts.rows, parts.logs, presence=presence, watch=watch)
        self._queue, self._news = parts.queue, parts.news(self._runs.hear)
        self._places = engine.settings.max_concurrent

    @property
    def queue_state(self) -> QueueState:
        """How many run here; what waits is for servers to say."""
        return replace(self._queue.state, active=self._runs.count, places=self._places)

    async def answer(self, order: Order) -> dict[str, Any]:
        """A worker has no callers. Raises RequestProblem."""
        return self.accept(order)

    def run(self, order: Order) -> dict[str, Any]:
        """A worker has no callers. Raises RequestProblem."""
        return self.accept(order)

    def accept(self, order: Order) -> dict[str, Any]:
        """A worker has no callers. Raises RequestProblem."""
        raise RequestProblem(503, f"{order.item_ref}: this is a worker, ask a server", RETRY_AFTER)

    def take_answer(self, user_id: str, thread_id: str) -> dict[str, Any]:  # noqa: ARG002 - the seam
        """A worker has no callers. Raises RequestProblem."""
        raise RequestProblem(503, f"{thread_id}: this is a worker, ask a server", RETRY_AFTER)

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """End an execution of a user: its state, None for none of theirs."""
        state = self.rows.cancel(user_id, thread_id, by)
        self._runs.end(thread_id)
        return state

    def begin(self) -> None:
        """Take executions from now on."""
        self._runs.begin()
        self._news.begin()
        self._queue.work(self._runs.claimed)

    def beat(self) -> None:
        """Record that this worker is alive, and take care of what ended workers left behind."""
        self._runs.beat()
        self._queue.beat()
        self._queue.sweep()

    def listen(self) -> None:
        """Store the output of programs, and end what a user wants to end."""
        self._runs.listen()

    def drain(self, grace_s: float) -> None:
        """Take nothing new; what still runs after the grace is ended then."""
        self._queue.close()
        self._runs.drain(grace_s)

    def close(self, grace_s: float) -> None:
        """Wait for the end of what runs."""
        self.drain(grace_s)
        self._runs.close()
        self._queue.leave(_ENDING_S)
        self._news.close()

    def figures(self) -> Sequence[Figure]:
        """What runs here. Raises nothing."""
        return (
            figure(
                "rye_executions_running", "Executions that run on this worker", self._runs.count
            ),
            figure("rye_execution_places", "Executions that may run at a time here", self._places),
        )
