"""Executions of a node: admission, records, workers, and recovery after a server died."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Condition, Timer
from time import monotonic
from typing import Any, Protocol, cast

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

import ryeos
from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.landlock import landlock_version
from lillux.store_errors import ObjectMissingError
from lillux.uids import UidsInUseError
from lillux.values import dataclass, replace
from rye_services.node.queue.logs import RunLogs
from rye_services.node.queue.rows import (
    CANCELLED,
    COMPLETED,
    ERROR,
    FIRST_ATTEMPT,
    HEARTBEAT_S,
    INTERRUPTED,
    MOST_ATTEMPTS,
    RUNNING,
    ExecutionLostError,
    NewThread,
    PendingExecution,
    RowEnds,
    ThreadRows,
)
from rye_services.node.queue.turns import (
    AWAITED,
    LATER,
    Defer,
    LocalQueue,
    Queue,
    QueuedRun,
    QueueState,
    Turn,
)
from rye_services.node.runs.execution import (
    Attempt,
    Basis,
    Engine,
    FinishedExecution,
    Order,
    ProjectNotFoundError,
    PushedRulesError,
)
from rye_services.node.runs.spending import Spending
from rye_services.node.secrets import (
    SEALED_PARAMETERS,
    SealedRowError,
    SecretNotFoundError,
    Vault,
    open_parameters,
    seal_parameters,
)
from rye_services.node.storage import SyncServices
from rye_services.node.store.objects import QuotaExceededError, StoresOfUsers
from rye_services.node.store.servers import ServerLease
from rye_services.node.webhooks import record_delivery
from rye_services.node.worker import jobs
from rye_services.node.worker.isolation import Isolation, WantedUids
from rye_services.node.worker.jobs import JobAction, RecordedInputs
from rye_services.node.worker.process import Go, WorkerEndedError, WorkerLaunch
from rye_services.node.worker.workspaces import Checkouts
from rye_services.people.teams import RoleError, TeamSpaces
from rye_services.process.keys import NodeKeys
from rye_services.process.metrics import Figure
from rye_services.process.server import ENDING_S
from rye_services.process.watch import FAILED, Watch
from rye_services.refusal import RefusedError
from rye_services.settings import Settings
from rye_services.storage.database import Database, is_away
from rye_services.web.http import (
    READ_ONLY,
    STORE_AWAY,
    RequestProblem,
    is_full,
    is_read_only,
    is_store_away,
)
from ryeos.items.context import Clock
from ryeos.items.errors import http_status_of
from ryeos.remote.envelopes import EnvelopeError
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.paths import UnsafeManifestError

# --- executions -----------------------------------------------------------------------------------

RETRY_AFTER = {"Retry-After": "5"}
_MAX_ITEM_CHARACTERS = 200
_OK, _NOT_NOW, _NO_ROOM = 200, 503, 507
_STATES = {400: ERROR, 404: ERROR, 409: CANCELLED, 503: INTERRUPTED}
_MATERIALIZATION = (ObjectMissingError, CasObjectError, UnsafeManifestError)
_log = logging.getLogger(__name__)


class ExecutionService(Protocol):
    """Executes the items of requests: on this machine, or by workers. Thread-safe."""

    rows: ThreadRows
    logs: RunLogs
    beat_s: float

    @property
    def queue_state(self) -> QueueState:
        """How full the queue is."""
        ...

    async def answer(self, order: Order) -> dict[str, Any]:
        """Execute and answer; accepted for later where no place is free in time.

        Who waits takes no thread meanwhile, as there are few. Raises RequestProblem.
        """
        ...

    def run(self, order: Order) -> dict[str, Any]:
        """As `answer`, for a thread that may wait."""
        ...

    def accept(self, order: Order) -> dict[str, Any]:
        """Accept it for later, and answer at once. Raises RequestProblem."""
        ...

    def take_answer(self, user_id: str, thread_id: str) -> dict[str, Any]:
        """The answer of an execution that was awaited, once. Raises RequestProblem."""
        ...

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """End an execution of a user, wherever it runs: its state, None for none of theirs."""
        ...

    def begin(self) -> None:
        """Let the other servers know that this one lives. Raises FileSystemError."""
        ...

    def beat(self) -> None:
        """Record that this server is alive, and take care of what ended servers left behind."""
        ...

    def listen(self) -> None:
        """Store the output of programs, and end what a user wants to end on another server."""
        ...

    def drain(self, grace_s: float) -> None:
        """Begin nothing new; what still runs after the grace is ended then."""
        ...

    def close(self, grace_s: float) -> None:
        """Take nothing new, and wait for the end of what runs."""
        ...

    def figures(self) -> Sequence[Figure]:
        """What runs, what waits, and how many executions are remembered. Raises SQLAlchemyError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingExecution:
    """An execution that was asked for, and waits for its place."""

    order: Order
    basis: Basis
    turn: Turn


class Executions:
    """Executions on the places of this process. See `ExecutionService`; every call may take long.

    An execution whose caller waits gets its row when it has a place; one that is accepted has its
    row first, and waits in the queue.
    """

    def __init__(self, runs: "Runs", admission: "Admission", queue: LocalQueue) -> None:
        self._runs, self._admission, self._queue = runs, admission, queue
        self.beat_s = HEARTBEAT_S
        self.rows, self.logs = runs.rows, runs.logs
        queue.work(runs.claimed)

    @property
    def queue_state(self) -> QueueState:
        """How full the queue is."""
        return self._queue.state

    async def answer(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        if order.is_async:
            return await run_in_threadpool(self.accept, order)
        waiting = await run_in_threadpool(self._ask, order)
        try:
            has_place = await waiting.turn.come(self._admission.wait_s)
        except BaseException:  # the node ends, or the caller is gone
            self._queue.places.leave(waiting.turn)
            raise
        return await run_in_threadpool(self._go_on, waiting, has_place=has_place)

    def run(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        waiting = self._ask(order)
        return self._go_on(waiting, has_place=waiting.turn.wait(self._admission.wait_s))

    def accept(self, order: Order) -> dict[str, Any]:
        """See `ExecutionService`."""
        return self._accept(self._ask(order, AWAITED if order.is_awaited else LATER))

    def take_answer(self, user_id: str, thread_id: str) -> dict[str, Any]:
        """See `ExecutionService`."""
        return kept_answer(self.rows, self._runs.stores, user_id, thread_id)

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """See `ExecutionService`."""
        state = self.rows.cancel(user_id, thread_id, by)
        if state == CANCELLED:
            self._queue.withdraw(thread_id)
        elif state == RUNNING:
            self._runs.end(thread_id)
        return state

    def begin(self) -> None:
        """See `ExecutionService`."""
        self._runs.begin()

    def beat(self) -> None:
        """See `ExecutionService`."""
        self._runs.beat()
        if self._runs.is_ending:
            return
        for thread_id, user_id in self.rows.not_begun():
            self._queue.wait_again(QueuedRun(thread_id=thread_id, user_id=user_id))

    def listen(self) -> None:
        """See `ExecutionService`."""
        self._runs.listen()

    def drain(self, grace_s: float) -> None:
        """See `ExecutionService`."""
        self._queue.close()
        self._runs.drain(grace_s)

    def close(self, grace_s: float) -> None:
        """See `ExecutionService`."""
        self.drain(grace_s)
        self._runs.close()

    def figures(self) -> Sequence[Figure]:
        """See `ExecutionService`."""
        state = self._queue.state
        return (
            figure("rye_executions_running", "Executions that run on this server", state.active),
            figure("rye_execution_places", "Executions that may run at a time here", state.places),
            figure("rye_executions_queued", "Executions that wait here for a place", state.waiting),
            figure("rye_execution_queue_places", "Executions that may wait here", state.longest),
            kept_figure(self.rows),
        )

    def _ask(self, order: Order, priority: int = AWAITED) -> WaitingExecution:
        """What it starts from, and a turn. Raises RequestProblem: also 503, the queue is full."""
        basis = self._admission.basis(order)
        self._admission.require_model(order, basis)
        turn = self._queue.places.enter(order.user_id, priority=priority)
        return WaitingExecution(order=order, basis=basis, turn=turn)

    def _go_on(self, waiting: WaitingExecution, *, has_place: bool) -> dict[str, Any]:
        """Execute on the place, and answer; without one it is accepted for later.

        (1) The row, with the delivery that asked for it. (2) The execution; (3) the row says how it
        ended. (4) The place is given back. Raises RequestProblem.
        """
        order, basis, turn = waiting.order, waiting.basis, waiting.turn
        if not has_place:
            return self._accept(waiting)
        try:
            thread_id = new_thread_id(order.item_ref)
            self._admission.write_row(thread_id, order, basis, job=None)  # (1)
            return self._runs.carry_out(order, basis, thread_id, FIRST_ATTEMPT).answer()  # (2), (3)
        finally:
            self._queue.places.leave(turn)  # (4)

    def _accept(self, waiting: WaitingExecution) -> dict[str, Any]:
        order, thread_id = waiting.order, new_thread_id(waiting.order.item_ref)
        run = QueuedRun(thread_id=thread_id, user_id=order.user_id)
        with self._queue.deferring(run, waiting.turn) as defer:
            self._admission.write_row(
                thread_id, order, waiting.basis, job=order.job(), together_with=defer
            )
        return accepted(order, thread_id, self._queue.place_of(thread_id))


def accepted(order: Order, thread_id: str, place: int) -> dict[str, Any]:
    """The answer about an execution that was accepted; ``place`` is 0 where it does not wait."""
    when = f"is number {place} of those that wait" if place else "runs"
    return {
        "status": "accepted",
        "thread_id": thread_id,
        "async": True,
        "queue_place": place,
        "message": f"{order.item_ref} {when} as {thread_id}: GET /threads/{thread_id}",
    }


def kept_answer(
    rows: ThreadRows, stores: StoresOfUsers, user_id: str, thread_id: str
) -> dict[str, Any]:
    """The answer of an execution that has ended, kept for its caller: given once.

    Raises RequestProblem: what the request would have been answered.
    """
    row = rows.one(user_id, thread_id)
    if row is None:
        raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
    if row["state"] == RUNNING:
        raise RequestProblem(409, {"error": f"{thread_id} has not ended", "thread_id": thread_id})
    kept = rows.take_answer(thread_id)
    if kept is None:
        # It did not end by itself, so that there is none; or it was taken before.
        is_over = row["state"] in {CANCELLED, ERROR} and row["result_hash"] is None
        status = (409 if row["state"] == CANCELLED else 503) if is_over else 404
        words = row["error_message"] if is_over else f"no answer is kept of {thread_id}"
        detail = {"error": words, "thread_id": thread_id}
        raise RequestProblem(status, detail, RETRY_AFTER if status == _NOT_NOW else None)
    if kept["status"] != _OK:
        headers = RETRY_AFTER if kept["status"] == _NOT_NOW else None
        raise RequestProblem(kept["status"], kept["answer"], headers)
    stored = stores.of(user_id).get_object(row["result_hash"])
    return {**kept["answer"], "result": stored["result"]}


def kept_figure(rows: ThreadRows) -> Figure:
    """How many executions are remembered. Raises SQLAlchemyError."""
    return Figure(
        name="rye_executions_kept",
        words="Executions that are remembered, of all servers on this database",
        values=rows.counted(),
        label="state",
    )


# --- runs -----------------------------------------------------------------------------------------


class Runs:
    """The executions that run in this process: begun, watched, ended once. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        admission: "Admission",
        rows: ThreadRows,
        logs: RunLogs,
        *,
        presence: ServerLease,
        watch: Watch,
    ) -> None:
        self._engine, self._admission, self._presence = engine, admission, presence
        self.rows, self.logs, self._ends = rows, logs, RowEnds(rows)
        self.stores = engine.stores
        self._watch = watch
        # By thread: what ends those that run. Also of those that are being begun.
        self._running: dict[str, Cancellation] = {}
        self._claiming: set[str] = set()
        # Those of them that may wait again: their items do not run yet, or are retryable.
        self._repeatable: set[str] = set()
        self._to_put_back: set[str] = set()  # as soon as the database is there again
        self._changed = Condition()
        self._adrift: set[str] = set()
        self._ends_at_s: float | None = None

    @property
    def is_ending(self) -> bool:
        """Whether nothing is begun any more."""
        with self._changed:
            return self._ends_at_s is not None

    @property
    def count(self) -> int:
        """How many run."""
        with self._changed:
            return len(self._running)

    def begin(self) -> None:
        """Let the other servers know that this one lives. Raises FileSystemError."""
        self._presence.begin()

    def beat(self) -> None:
        """Record that this server is alive, and take care of what ended servers left behind."""
        self.rows.renew()
        self._ends.write_kept()
        self.rows.take_over()
        self._presence.forget_others()
        self._let_go_of_what_is_adrift()

    def _let_go_of_what_is_adrift(self) -> None:
        """Give up rows that say begun, and that nothing here runs: at the second look at them.

        So they are left where the database went away in the middle of a beginning or of an end;
        this server, being alive, would renew their leases for ever.
        """
        begun = self.rows.begun()
        with self._changed:
            self._to_put_back &= begun.keys()
            known = {*self._running, *self._claiming, *self._ends.kept}
        adrift = begun.keys() - known
        for thread_id in adrift & self._adrift:
            _log.warning("%s: its row says that it runs here, and it does not", thread_id)
            self.rows.let_go(thread_id, again=begun[thread_id] or thread_id in self._to_put_back)
        self._adrift = adrift

    def listen(self) -> None:
        """Store the output of programs, and end what a user wants to end on another server."""
        with self._changed:
            if not self._running:
                return
        self.logs.write()
        for thread_id in self.rows.to_be_ended():
            self.end(thread_id)

    def end(self, thread_id: str) -> None:
        """Ask an execution to end, where it runs here."""
        with self._changed:
            running = self._running.get(thread_id)
        if running is not None:
            running.cancel()

    def hear(self, thread_id: str) -> None:
        """Look whether a user wants to end an execution, where it runs here."""
        with self._changed:
            is_here = thread_id in self._running
        if is_here and thread_id in self.rows.to_be_ended():
            self.end(thread_id)

    def drain(self, grace_s: float) -> None:
        """Begin nothing new; what still runs after the grace is ended then."""
        with self._changed:
            if self._ends_at_s is not None:
                return
            self._ends_at_s = monotonic() + grace_s
        timer = Timer(grace_s, self._end_all)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Wait for the end of what runs, after `drain`."""
        with self._changed:
            left_s = max(0.0, (self._ends_at_s or 0.0) - monotonic()) + ENDING_S
            self._changed.wait_for(lambda: not self._running, left_s)
        self._engine.workers.close()
        self._presence.end()

    def _end_all(self) -> None:
        with self._changed:
            running = dict(self._running)
        if running:
            _log.warning("ending %s executions", len(running))
        for cancellation in running.values():
            cancellation.cancel()

    def claimed(self, thread_id: str) -> None:
        """Execute what was accepted, unless it was begun or cancelled meanwhile. Raises nothing."""
        with self._changed:
            self._claiming.add(thread_id)
        try:
            pending = self.rows.claim(thread_id)
            if pending is None:  # another server was first, or it was cancelled
                return
            order = _order_of(pending)
            try:
                order = replace(order, parameters=self._admission.parameters_of(pending))
                basis = self._admission.basis(order)
            except RequestProblem as problem:
                self._end_failed(order, thread_id, pending.attempt, "preparation", problem)
                return
            self.carry_out(order, basis, thread_id, pending.attempt)
        except RequestProblem as problem:  # it is in the row
            _log.info("%s: %s", thread_id, problem.detail)
        except Exception:  # noqa: BLE001 - the door of this thread
            _log.exception("%s", thread_id)
        finally:
            with self._changed:
                self._claiming.discard(thread_id)

    # --- steps ------------------------------------------------------------------------------------

    def carry_out(
        self, order: Order, basis: Basis, thread_id: str, number: int
    ) -> FinishedExecution:
        """Execute and say in the row how it ended. Raises Problem."""
        cancellation = Cancellation()
        attempt = Attempt(
            thread_id=thread_id,
            number=number,
            cancellation=cancellation,
            hold=partial(self.rows.hold, thread_id=thread_id, attempt=number),
            listen=partial(self._listener, order, thread_id, number),
        )
        with self._changed:
            self._running[thread_id] = cancellation
            self._repeatable.add(thread_id)
        try:
            with self._watch.execution(thread_id) as watched:
                try:
                    executed = self._execute_once(order, basis, attempt)
                except RequestProblem as problem:
                    watched.state = _state_of(problem)
                    raise
                watched.state = COMPLETED if executed.is_good else ERROR
                return executed
        finally:
            with self._changed:
                del self._running[thread_id]
                self._repeatable.discard(thread_id)
                self._changed.notify_all()

    def _listener(
        self, order: Order, thread_id: str, number: int, mask: Callable[[str], str], go: Go
    ) -> Callable[[bytes], None]:
        """What hears the worker of an attempt, and has it begin once the row says that it does."""

        def begin(*, retryable: bool, given: RecordedInputs | None) -> None:
            # Who runs what a caller waits for here is not asked for a mark: no one takes it again.
            if order.is_async or retryable or given is not None:
                wanted = self.rows.mark_begun(thread_id, number, retryable=retryable, given=given)
            else:
                wanted = True
            if not retryable:
                with self._changed:
                    self._repeatable.discard(thread_id)
            if wanted:
                go()
            else:
                self.end(thread_id)

        facts = _FactsCollector(order, mask, begin)
        return self.logs.open(thread_id, number, mask, facts.take).hear

    def _execute_once(self, order: Order, basis: Basis, attempt: Attempt) -> FinishedExecution:
        thread_id, number = attempt.thread_id, attempt.number
        try:
            try:
                executed = self._engine.execute(order, basis, attempt)
            finally:
                # Before the row says that it is over: who follows the log reads until then.
                self.logs.close(thread_id)
        except _MATERIALIZATION as error:
            problem = _problem(404, _words(error), order, thread_id, "materialization")
            raise self._end_failed(order, thread_id, number, "materialization", problem) from error
        except PushedRulesError as error:
            problem = _problem(
                http_status_of(error), str(error), order, thread_id, "materialization"
            )
            raise self._end_failed(order, thread_id, number, "materialization", problem) from error
        except QuotaExceededError as error:
            problem = RequestProblem(http_status_of(error), str(error))
            raise self._end_failed(order, thread_id, number, "quota", problem) from error
        except WorkerEndedError as error:
            raise self._end_interrupted(order, attempt, str(error)) from error
        except ExecutionLostError as error:  # its row is another's to write
            raise RequestProblem(503, str(error), RETRY_AFTER) from error
        except BaseException as error:  # the door of an execution: its row must hear of every end
            _log.exception("%s failed", thread_id)
            status, phase = _status_of(error)
            problem = _problem(status, _words(error), order, thread_id, phase)
            if status != _NOT_NOW or not self._waits_again(order, attempt):
                self._end_failed(order, thread_id, number, phase, problem)
            raise problem from error
        state = COMPLETED if executed.is_good else ERROR
        kept = _kept(order, 200, {**executed.answer(), "result": None})  # which is in the store
        if not self._ends.write(thread_id, number, state, **executed.row(), **kept):
            _log.warning("%s ended, and was taken for lost before", thread_id)
        return executed

    def _waits_again(self, order: Order, attempt: Attempt) -> bool:
        """Whether an execution that an outage ended waits again: if not begun, or retryable."""
        thread_id, number = attempt.thread_id, attempt.number
        with self._changed:
            may_wait = thread_id in self._repeatable
        if not (may_wait and order.is_async and number < MOST_ATTEMPTS):
            return False
        try:
            return self.rows.put_back(thread_id, number)
        except SQLAlchemyError:  # the database is away: the row is let go once it is back
            with self._changed:
                self._to_put_back.add(thread_id)
            return True

    def _end_interrupted(self, order: Order, attempt: Attempt, words: str) -> RequestProblem:
        """What is answered for an execution that was made to end, once its row says so.

        A user cancelled it; or the node ends, and it waits for the next one where it may.
        """
        thread_id, number = attempt.thread_id, attempt.number
        row = self.rows.one(order.user_id, thread_id) or {}
        if row.get("cancelled_by"):
            message = f"cancelled by {row['cancelled_by']}"
            problem = _problem(409, message, order, thread_id, CANCELLED)
            said = {"error_message": message, "error_phase": CANCELLED}
            kept = _kept(order, problem.status_code, problem.detail)
            self._ends.write(thread_id, number, CANCELLED, **said, **kept)
            return problem
        problem = RequestProblem(503, words, RETRY_AFTER)
        if not self.rows.put_back(thread_id, number):
            self._end_failed(order, thread_id, number, INTERRUPTED, problem)
        return problem

    def _end_failed(
        self, order: Order, thread_id: str, number: int, phase: str, problem: RequestProblem
    ) -> RequestProblem:
        """The problem of an execution, once its row says so."""
        detail = problem.detail
        message = str(detail["error"] if isinstance(detail, Mapping) else detail)
        kept = _kept(order, problem.status_code, detail)
        said = {"error_message": message, "error_phase": phase}
        self._ends.write(thread_id, number, ERROR, **said, **kept)
        return problem


class _FactsCollector:
    """What a worker reports of its item until it is to begin; ``begin`` gets all of it, once.

    Later reports come from what runs, and say nothing about it that counts.
    """

    def __init__(
        self, order: Order, mask: Callable[[str], str], begin: Callable[..., None]
    ) -> None:
        self._order, self._mask, self._begin = order, mask, begin
        self._retryable, self._given = False, cast("RecordedInputs | None", None)
        self._is_begun = False

    def take(self, fact: str, text: str) -> None:
        """Take one. Raises what ``begin`` raises."""
        if self._is_begun:
            return
        match fact:
            case jobs.RETRYABLE:
                self._retryable = True
            case jobs.CONFIDENTIAL if self._order.parameters:  # else it is in the row already
                names = _names_in(text, self._order.parameters)
                self._given = self._order.recorded_inputs(names, self._mask)
            case jobs.BEGIN:
                self._is_begun = True
                self._begin(retryable=self._retryable, given=self._given)


def _kept(order: Order, status: int, answer: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The column of an answer, where a request waits for it on another machine."""
    return {"answer": {"status": status, "answer": answer}} if order.is_awaited else {}


class Admission:
    """What has to be right before an execution waits or begins. Thread-safe."""

    def __init__(self, engine: Engine, rows: ThreadRows) -> None:
        self._engine, self._rows = engine, rows

    @property
    def wait_s(self) -> float:
        """How long a request that waits for an answer waits for a place."""
        return float(self._engine.settings.queue_wait_s)

    def basis(self, order: Order) -> Basis:
        """What an order starts from. Raises RequestProblem."""
        try:
            return self._engine.basis(order)
        except (ProjectNotFoundError, SecretNotFoundError, EnvelopeError, RoleError) as error:
            raise RequestProblem(http_status_of(error), str(error)) from error

    def require_model(self, order: Order, basis: Basis) -> None:
        """Refuse a model that no thread here could ask. Raises RequestProblem."""
        try:
            self._engine.require_model(order, basis)
        except RefusedError as error:
            said = {"error": str(error), "code": error.code, "item_id": order.item_ref}
            raise RequestProblem(http_status_of(error), said) from error

    def parameters_of(self, pending: PendingExecution) -> Mapping[str, Any]:
        """What an accepted execution was given. Raises RequestProblem."""
        private = self._engine.keys.box_private
        try:
            return open_parameters(pending.job, private, pending.user_id, pending.thread_id)
        except SealedRowError as error:
            _log.warning("%s", error)
            words = "its parameters do not open with the keys of this node: execute it again"
            raise RequestProblem(500, words) from error

    def write_row(
        self,
        thread_id: str,
        order: Order,
        basis: Basis,
        *,
        job: Mapping[str, Any] | None,
        together_with: Defer = lambda _: None,
    ) -> None:
        """Write the row of an execution, with the delivery that asks for it, and something else.

        With a ``job`` it is begun by the worker that got it. Raises RequestProblem: 200 for a
        delivery that was recorded before, 404 for a project that was moved; nothing is written.
        """
        envelope = None if order.envelope is None else json.dumps(dict(order.envelope)).encode()
        if job is not None:
            public = self._engine.keys.box_public
            sealed = seal_parameters(order.parameters, public, order.user_id, thread_id)
            job = {**job, SEALED_PARAMETERS: sealed}
        thread = NewThread(
            thread_id=thread_id,
            user_id=order.user_id,
            started_by=order.started_by or None,
            item_ref=order.item_ref,
            remote_name=self._engine.settings.name,
            project_path=order.project_path,
            project_manifest_hash=basis.head.project_manifest_hash,
            user_manifest_hash=basis.user_manifest_hash,
            system_version=ryeos.__version__,
            hook_id=order.hook_id or None,
            job=job,
            envelope=envelope if job is not None else None,
            given=None if order.parameters else order.recorded_inputs((), str),
        )

        def with_row(connection: Connection) -> bool:
            if not self._engine.hold_head(connection, order):  # it has another owner by now
                raise RequestProblem(404, str(ProjectNotFoundError(order.project_path)))
            if order.hook_id and not self._record_delivery(connection, order):
                return False
            together_with(connection)
            return True

        if not self._rows.begin(thread, together_with=with_row):
            raise RequestProblem(200, "Already processed")

    def _record_delivery(self, connection: Connection, order: Order) -> bool:
        return record_delivery(
            connection,
            order.hook_id,
            order.delivery_id,
            signed_once=order.signed_once,
            now_s=self._engine.clock().timestamp(),
        )


def new_thread_id(item_ref: str) -> str:
    """``rye-remote-tool:a-b-1795240720578-0a1b2c``: two never have the same."""
    name = item_ref.replace("/", "-")[:_MAX_ITEM_CHARACTERS]
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one in "._:-") else "-" for one in name
    )
    return f"rye-remote-{plain}-{time.time_ns() // 1_000_000}-{os.urandom(3).hex()}"


def _order_of(pending: PendingExecution) -> Order:
    """What an accepted execution asks for, without its parameters."""
    job = pending.job
    keys = job["vault_keys"]
    return Order(
        user_id=pending.user_id,
        project_path=pending.project_path,
        action=JobAction(job["action"]),
        item_ref=pending.item_ref,
        is_async=True,
        is_awaited=bool(job.get("awaited")),
        vault_keys=None if keys is None else tuple(keys),
        envelope=None if pending.envelope is None else json.loads(pending.envelope),
        hook_id=pending.hook_id or "",
        started_by=pending.started_by or "",
        may_change=bool(job.get("may_change", True)),
        agent=job.get("agent"),
    )


def _names_in(text: str, parameters: Mapping[str, Any]) -> Collection[str]:
    """The names of parameters in a report of a worker; all of them for one of another form."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    return {str(name) for name in names} if isinstance(names, list) else parameters.keys()


def _is_out_of_uids(error: BaseException) -> bool:
    return isinstance(error, UidsInUseError)


_OF_THE_NODE: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (is_full, "no room is left on the disk of the node: nothing that the run changed was taken"),
    (is_read_only, READ_ONLY),
    (is_store_away, f"{STORE_AWAY}; nothing that the run changed was taken"),
    (_is_out_of_uids, "every user id of run_uids is in use on its machine: ask again later"),
    (is_away, "the database went away: look at HEAD before you execute it again"),
)


def _words(error: BaseException) -> str:
    """The error as its caller reads it: nothing that may name a place of the server."""
    plain = (CasObjectError, ProjectNotFoundError)
    if isinstance(error, ObjectMissingError):
        return f"{error.space} {error.digest} is not in your store: push the project again"
    if isinstance(error, UnsafeManifestError):
        return f"the manifest has a path that cannot be written here: {error.path!a}"
    if isinstance(error, plain):
        return str(error)
    for is_so, words in _OF_THE_NODE:
        if is_so(error):
            return words
    code = error.code if isinstance(error, LilluxError) else "INTERNAL"
    return f"the execution failed ({code}): the log of the node says more"


def _status_of(error: BaseException) -> tuple[int, str]:
    """The status that is answered for an error, and the phase that the row says."""
    if is_full(error):
        return _NO_ROOM, "storage"
    if is_read_only(error) or is_store_away(error):
        return _NOT_NOW, "storage"
    if _is_out_of_uids(error):
        return _NOT_NOW, "preparation"
    return (_NOT_NOW, "database") if is_away(error) else (500, "execution")


def _state_of(problem: RequestProblem) -> str:
    """How an execution ended that is answered so: ``failed`` is what the node could not do."""
    is_quota = problem.status_code == _NO_ROOM and isinstance(problem.detail, str)
    return ERROR if is_quota else _STATES.get(problem.status_code, FAILED)


def figure(name: str, words: str, value: int) -> Figure:
    """A figure of one value."""
    return Figure(name=name, words=words, values={"": value})


def _problem(status: int, words: str, order: Order, thread_id: str, phase: str) -> RequestProblem:
    detail: Mapping[str, Any] = {
        "error": words,
        "thread_id": thread_id,
        "item_id": order.item_ref,
        "phase": phase,
    }
    return RequestProblem(status, detail, RETRY_AFTER if status == _NOT_NOW else None)


# --- as a part of the node ------------------------------------------------------------------------


def open_engine(
    *,
    settings: Settings,
    database: Database,
    keys: NodeKeys,
    stores: StoresOfUsers,
    sync: SyncServices,
    vault: Vault,
    team_spaces: TeamSpaces,
    bundle: Path,
    clock: Clock,
    environ: Mapping[str, str],
    runs_here: bool,
) -> Engine:
    """What executes on this machine, if it ``runs_here``. Nothing is read or written yet."""
    launch = WorkerLaunch(environ=environ)
    root, places = settings.data_dir / "workspaces", settings.max_concurrent
    wanted = WantedUids(numbers=settings.run_uids, root=root, needed=(bundle,))
    isolation = launch.isolation(wanted) if runs_here else Isolation()
    if runs_here:
        isolation.log()
    return Engine(
        settings=settings,
        keys=keys,
        stores=stores,
        sync=sync,
        vault=vault,
        teams=team_spaces.teams,
        team_spaces=team_spaces,
        workspaces=Checkouts(
            root, kept=places + 2, uids=isolation.leases(wait_s=settings.queue_wait_s)
        ),
        launch=launch,
        workers=launch.fork_server(),
        bundle=bundle,
        clock=clock,
        spending=Spending(
            database=database,
            daily=settings.daily_spend,
            most=settings.thread_spend,
            hides_keys=sys.platform != "linux" or landlock_version() > 0,
        ),
        isolation=isolation,
    )


def open_executions(
    engine: Engine, database: Database, presence: ServerLease, watch: Watch
) -> Executions:
    """The executions of a node that is one process. Nothing is read or written yet."""
    rows = ThreadRows(database, presence.server_id, presence.is_dead)
    admission = Admission(engine, rows)
    runs = Runs(engine, admission, rows, RunLogs(database), presence=presence, watch=watch)
    places = Queue(engine.settings.max_concurrent, engine.settings.max_queued)
    return Executions(runs, admission, LocalQueue(places))
