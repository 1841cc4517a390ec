"""Executions of a node: admission, records, workers, and recovery after a server died."""

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Condition, Thread, Timer
from time import monotonic
from typing import Any

from sqlalchemy import Connection

import ryeos
from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.store_files import ObjectMissingError
from lillux.values import dataclass
from rye_services.database import Database, is_away
from rye_services.http import RequestProblem, is_full
from rye_services.keys import NodeKeys
from rye_services.metrics import Figure
from rye_services.node.execution import (
    Attempt,
    Basis,
    Engine,
    FinishedExecution,
    Order,
    ProjectNotFoundError,
    PushedRulesError,
)
from rye_services.node.jobs import JobAction
from rye_services.node.objects import QuotaExceededError, UserStores
from rye_services.node.queue import Queue, Turn
from rye_services.node.rows import (
    CANCELLED,
    COMPLETED,
    ERROR,
    FIRST_ATTEMPT,
    INTERRUPTED,
    RUNNING,
    ExecutionLostError,
    NewThread,
    Pending,
    RowEnds,
    ThreadRows,
)
from rye_services.node.run_logs import RunLogs
from rye_services.node.secrets import SecretNotFoundError, Vault
from rye_services.node.servers import ServerLease
from rye_services.node.storage import SyncServices
from rye_services.node.webhooks import record_delivery
from rye_services.node.worker import WorkerEndedError, WorkerLaunch
from rye_services.node.workspaces import Checkouts
from rye_services.server import ENDING_S
from rye_services.settings import Settings
from rye_services.watch import FAILED, Watch
from ryeos.items.context import Clock
from ryeos.remote.secrets import EnvelopeError
from ryeos.sync.objects import CasObjectError
from ryeos.sync.paths import UnsafeManifestError

# --- executions -----------------------------------------------------------------------------------

RETRY_AFTER = {"Retry-After": "5"}
_MAX_ITEM_CHARACTERS = 200
_NOT_NOW, _NO_ROOM = 503, 507
_STATES = {400: ERROR, 404: ERROR, 409: CANCELLED, 503: INTERRUPTED}
_MATERIALIZATION = (ObjectMissingError, CasObjectError, UnsafeManifestError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An execution that was asked for, and waits for its place."""

    order: Order
    basis: Basis
    turn: Turn


class Executions:
    """The executions that this server runs. Thread-safe; every call may take long."""

    def __init__(
        self,
        engine: Engine,
        rows: ThreadRows,
        queue: Queue,
        presence: ServerLease,
        logs: RunLogs,
        *,
        watch: Watch,
    ) -> None:
        self._engine, self.queue, self._presence = engine, queue, presence
        self.rows, self.logs, self._ends = rows, logs, RowEnds(rows)
        self._watch = watch
        # By thread: what ends those that run; the turns of accepted ones that wait.
        self._running: dict[str, Cancellation] = {}
        self._accepted: dict[str, Turn] = {}
        self._changed = Condition()
        self._adrift: set[str] = set()
        self._ends_at_s: float | None = None

    def run(self, order: Order) -> dict[str, Any]:
        """Execute and answer; accepted for later where no place is free in time. Raises Problem."""
        waiting = self.ask(order)
        return self.go_on(waiting, has_place=waiting.turn.wait(self.wait_s))

    @property
    def wait_s(self) -> float:
        """How long somebody who waits for an answer waits for a place."""
        return float(self._engine.settings.queue_wait_s)

    def ask(self, order: Order) -> Waiting:
        """What it starts from, and a turn. Raises RequestProblem: also 503, the queue is full."""
        basis = self._basis(order)
        return Waiting(order=order, basis=basis, turn=self.queue.enter(order.user_id))

    def go_on(self, waiting: Waiting, *, has_place: bool) -> dict[str, Any]:
        """Execute on the place, and answer; without one it is accepted for later.

        (1) The row, with the delivery that asked for it. (2) The execution; (3) the row says how it
        ended. (4) The place is given back. Raises RequestProblem.
        """
        order, basis, turn = waiting.order, waiting.basis, waiting.turn
        if not has_place:
            return self._accept(waiting)
        try:
            thread_id = self._begin(order, basis, is_async=False)  # (1)
            return self._carry_out(order, basis, thread_id, FIRST_ATTEMPT).answer()  # (2) and (3)
        finally:
            self.queue.leave(turn)  # (4)

    def accept(self, order: Order) -> dict[str, Any]:
        """Have it executed, by this server or the next one, and answer at once. Raises Problem."""
        return self._accept(self.ask(order))

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """End an execution of a user, wherever it runs: its state, None for none of theirs."""
        state = self.rows.cancel(user_id, thread_id, by)
        with self._changed:
            turn, running = self._accepted.pop(thread_id, None), self._running.get(thread_id)
        if turn is not None and state == CANCELLED:
            self.queue.leave(turn)
        if running is not None and state == RUNNING:
            running.cancel()
        return state

    # --- the life of a server ---------------------------------------------------------------------

    def begin(self) -> None:
        """Let the other servers know that this one lives. Raises FileSystemError."""
        self._presence.begin()

    def beat(self) -> None:
        """Say that this server lives, and see to what others have left behind."""
        self.rows.renew()
        self._ends.write_kept()
        self.rows.take_over()
        self._presence.forget_others()
        self._let_go_of_what_is_adrift()
        for thread_id, user_id in self.rows.not_begun():
            with self._changed:
                is_known = thread_id in self._accepted or self._ends_at_s is not None
            if not is_known:
                self._wait_in_background(thread_id, self.queue.enter(user_id, is_known=True))

    def _let_go_of_what_is_adrift(self) -> None:
        """Give up rows that say begun, and that nothing here runs: at the second look at them.

        So they are left where the database went away in the middle of a beginning or of an end;
        this server, being alive, would renew their leases for ever.
        """
        begun = self.rows.begun()
        with self._changed:
            known = {*self._running, *self._accepted, *self._ends.kept}
        adrift = begun.keys() - known
        for thread_id in adrift & self._adrift:
            _log.warning("%s: its row says that it runs here, and it does not", thread_id)
            self.rows.let_go(thread_id, again=begun[thread_id])
        self._adrift = adrift

    def listen(self) -> None:
        """Write down what programs said, and end what somebody wants to end on another server."""
        with self._changed:
            if not self._running:
                return
        self.logs.write()
        for thread_id in self.rows.to_be_ended():
            with self._changed:
                running = self._running.get(thread_id)
            if running is not None:
                running.cancel()

    def drain(self, grace_s: float) -> None:
        """Begin nothing any more; what still runs after the grace is ended then."""
        with self._changed:
            if self._ends_at_s is not None:
                return
            self._ends_at_s = monotonic() + grace_s
        self.queue.close()
        timer = Timer(grace_s, self._end_all)
        timer.daemon = True
        timer.start()

    def close(self, grace_s: float) -> None:
        """Take nothing any more, and wait for the end of what runs."""
        self.drain(grace_s)
        with self._changed:
            left_s = max(0.0, (self._ends_at_s or 0.0) - monotonic()) + ENDING_S
            self._changed.wait_for(lambda: not self._running, left_s)
        self._engine.workers.close()
        self._presence.end()

    def figures(self) -> Sequence[Figure]:
        """What runs, what waits, and how many executions are remembered, by state.

        Raises SQLAlchemyError.
        """
        queue = self.queue
        return (
            _figure("rye_executions_running", "Executions that run on this server", queue.active),
            _figure("rye_execution_places", "Executions that may run at a time here", queue.places),
            _figure(
                "rye_executions_queued", "Executions that wait here for a place", queue.waiting
            ),
            _figure("rye_execution_queue_places", "Executions that may wait here", queue.longest),
            Figure(
                name="rye_executions_kept",
                words="Executions that are remembered, of all servers on this database",
                values=self.rows.counted(),
                label="state",
            ),
        )

    def _end_all(self) -> None:
        with self._changed:
            running = dict(self._running)
        if running:
            _log.warning("ending %s executions", len(running))
        for cancellation in running.values():
            cancellation.cancel()

    # --- accepted for later -----------------------------------------------------------------------

    def _accept(self, waiting: Waiting) -> dict[str, Any]:
        order, turn = waiting.order, waiting.turn
        try:
            thread_id = self._begin(order, waiting.basis, is_async=True)
        except BaseException:  # the turn is given back, whatever it was
            self.queue.leave(turn)
            raise
        place = self.queue.place_of(turn)
        self._wait_in_background(thread_id, turn)
        when = f"is number {place} of those that wait" if place else "runs"
        return {
            "status": "accepted",
            "thread_id": thread_id,
            "async": True,
            "queue_place": place,
            "message": f"{order.item_ref} {when} as {thread_id}: GET /threads/{thread_id}",
        }

    def _wait_in_background(self, thread_id: str, turn: Turn) -> None:
        """Begin an accepted execution once its turn has come."""
        with self._changed:
            self._accepted[thread_id] = turn

        # With the context of the request that asks for it: the log names that request.
        context = copy_context()

        def come(place: "Future[None]") -> None:
            if place.exception() is not None:  # its row stays, for the next server
                return
            run = partial(context.run, self._claimed, thread_id, turn)
            Thread(target=run, name=thread_id, daemon=True).start()

        turn.place.add_done_callback(come)

    def _claimed(self, thread_id: str, turn: Turn) -> None:
        try:
            pending = self.rows.claim(thread_id)
            if pending is None:  # another server was first, or it was cancelled
                return
            order = _order_of(pending)
            try:
                basis = self._basis(order)
            except RequestProblem as problem:
                self._failed(thread_id, pending.attempt, str(problem.detail), "preparation")
                return
            self._carry_out(order, basis, thread_id, pending.attempt)
        except RequestProblem as problem:  # it is in the row
            _log.info("%s: %s", thread_id, problem.detail)
        except Exception:  # noqa: BLE001 - the door of this thread
            _log.exception("%s", thread_id)
        finally:
            with self._changed:
                self._accepted.pop(thread_id, None)
            self.queue.leave(turn)

    # --- steps ------------------------------------------------------------------------------------

    def _basis(self, order: Order) -> Basis:
        try:
            return self._engine.basis(order)
        except (ProjectNotFoundError, SecretNotFoundError) as error:
            raise RequestProblem(404, str(error)) from error
        except EnvelopeError as error:
            raise RequestProblem(400, str(error)) from error

    def _begin(self, order: Order, basis: Basis, *, is_async: bool) -> str:
        thread_id = new_thread_id(order.item_ref)
        envelope = None if order.envelope is None else json.dumps(dict(order.envelope)).encode()
        thread = NewThread(
            thread_id=thread_id,
            user_id=order.user_id,
            item_ref=order.item_ref,
            remote_name=self._engine.settings.name,
            project_path=order.project_path,
            project_manifest_hash=basis.head.project_manifest_hash,
            user_manifest_hash=basis.user_manifest_hash,
            system_version=ryeos.__version__,
            hook_id=order.hook_id or None,
            job=order.job() if is_async else None,
            envelope=envelope if is_async else None,
        )

        def delivered(connection: Connection) -> bool:
            now_s = self._engine.clock().timestamp()
            return record_delivery(
                connection,
                order.hook_id,
                order.delivery_id,
                signed_once=order.signed_once,
                now_s=now_s,
            )

        if not self.rows.begin(thread, together_with=delivered if order.hook_id else None):
            raise RequestProblem(200, "Already processed")
        return thread_id

    def _carry_out(
        self, order: Order, basis: Basis, thread_id: str, number: int
    ) -> FinishedExecution:
        """Execute and say in the row how it ended. Raises Problem."""
        cancellation = Cancellation()
        attempt = Attempt(
            thread_id=thread_id,
            number=number,
            cancellation=cancellation,
            hold=partial(self.rows.hold, thread_id=thread_id, attempt=number),
            listen=lambda mask: (
                self.logs.open(
                    thread_id, mask, partial(self.rows.mark_retryable, thread_id, number)
                ).hear
            ),
        )
        with self._changed:
            self._running[thread_id] = cancellation
        try:
            with self._watch.execution(thread_id) as watched:
                try:
                    executed = self._executed(order, basis, attempt)
                except RequestProblem as problem:
                    watched.state = _state_of(problem)
                    raise
                watched.state = COMPLETED if executed.is_good else ERROR
                return executed
        finally:
            self.logs.close(thread_id)
            with self._changed:
                del self._running[thread_id]
                self._changed.notify_all()

    def _executed(self, order: Order, basis: Basis, attempt: Attempt) -> FinishedExecution:
        thread_id, number = attempt.thread_id, attempt.number
        try:
            executed = self._engine.execute(order, basis, attempt)
        except _MATERIALIZATION as error:
            self._failed(thread_id, number, _words(error), "materialization")
            raise _problem(404, _words(error), order, thread_id, "materialization") from error
        except PushedRulesError as error:
            self._failed(thread_id, number, str(error), "materialization")
            raise _problem(400, str(error), order, thread_id, "materialization") from error
        except QuotaExceededError as error:
            self._failed(thread_id, number, str(error), "quota")
            raise RequestProblem(507, str(error)) from error
        except WorkerEndedError as error:
            raise self._interrupted(order, attempt, str(error)) from error
        except ExecutionLostError as error:  # its row is another's to write
            raise RequestProblem(503, str(error), RETRY_AFTER) from error
        except BaseException as error:  # the door of an execution: its row must hear of every end
            _log.exception("%s failed", thread_id)
            status, phase = _status_of(error)
            self._failed(thread_id, number, _words(error), phase)
            raise _problem(status, _words(error), order, thread_id, phase) from error
        state = COMPLETED if executed.is_good else ERROR
        if not self._ends.write(thread_id, number, state, **executed.row()):
            _log.warning("%s ended, and was taken for lost before", thread_id)
        return executed

    def _interrupted(self, order: Order, attempt: Attempt, words: str) -> RequestProblem:
        """What is answered for an execution that was made to end, once its row says so.

        Somebody cancelled it; or the node ends, and it waits for the next one where it may.
        """
        thread_id, number = attempt.thread_id, attempt.number
        row = self.rows.one(order.user_id, thread_id) or {}
        if row.get("cancelled_by"):
            message = f"cancelled by {row['cancelled_by']}"
            self._ends.write(
                thread_id, number, CANCELLED, error_message=message, error_phase=CANCELLED
            )
            return _problem(409, message, order, thread_id, CANCELLED)
        if not self.rows.put_back(thread_id, number):
            self._failed(thread_id, number, words, INTERRUPTED)
        return RequestProblem(503, words, RETRY_AFTER)

    def _failed(self, thread_id: str, number: int, message: str, phase: str) -> None:
        self._ends.write(thread_id, number, ERROR, error_message=message, error_phase=phase)


def new_thread_id(item_ref: str) -> str:
    """``rye-remote-tool:a-b-1795240720578-0a1b2c``: two never have the same."""
    name = item_ref.replace("/", "-")[:_MAX_ITEM_CHARACTERS]
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one in "._:-") else "-" for one in name
    )
    return f"rye-remote-{plain}-{time.time_ns() // 1_000_000}-{os.urandom(3).hex()}"


def _order_of(pending: Pending) -> Order:
    job = pending.job
    keys = job["vault_keys"]
    return Order(
        user_id=pending.user_id,
        project_path=pending.project_path,
        action=JobAction(job["action"]),
        item_ref=pending.item_ref,
        parameters=job["parameters"],
        is_async=True,
        vault_keys=None if keys is None else tuple(keys),
        envelope=None if pending.envelope is None else json.loads(pending.envelope),
        hook_id=pending.hook_id or "",
    )


def _words(error: BaseException) -> str:
    """What a caller is told: nothing that may name a place of the server."""
    told = (CasObjectError, ProjectNotFoundError)
    if isinstance(error, ObjectMissingError):
        return f"{error.space} {error.digest} is not in your store: push the project again"
    if isinstance(error, UnsafeManifestError):
        return f"the manifest has a path that cannot be written here: {error.path!a}"
    if isinstance(error, told):
        return str(error)
    if is_full(error):
        return "no room is left on the disk of the node: nothing that the run changed was taken"
    if is_away(error):
        return "the database went away: look at HEAD before you execute it again"
    code = error.code if isinstance(error, LilluxError) else "INTERNAL"
    return f"the execution failed ({code}): the log of the node says more"


def _status_of(error: BaseException) -> tuple[int, str]:
    """The status that is answered for an error, and the phase that the row says."""
    if is_full(error):
        return _NO_ROOM, "storage"
    return (_NOT_NOW, "database") if is_away(error) else (500, "execution")


def _state_of(problem: RequestProblem) -> str:
    """How an execution ended that is answered so: ``failed`` is what the node could not do."""
    is_quota = problem.status_code == _NO_ROOM and isinstance(problem.detail, str)
    return ERROR if is_quota else _STATES.get(problem.status_code, FAILED)


def _figure(name: str, words: str, value: int) -> Figure:
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


def open_executions(
    *,
    settings: Settings,
    database: Database,
    keys: NodeKeys,
    stores: UserStores,
    sync: SyncServices,
    vault: Vault,
    queue: Queue,
    bundle: Path,
    clock: Clock,
    environ: Mapping[str, str],
    presence: ServerLease,
    watch: Watch,
) -> Executions:
    """The executions of a node. Nothing is read or written yet."""
    rows = ThreadRows(database, presence.server_id, presence.is_dead)
    launch = WorkerLaunch(environ=environ)
    engine = Engine(
        settings=settings,
        keys=keys,
        stores=stores,
        sync=sync,
        vault=vault,
        workspaces=Checkouts(settings.data_dir / "workspaces", kept=settings.max_concurrent + 2),
        launch=launch,
        workers=launch.fork_server(),
        bundle=bundle,
        clock=clock,
    )
    return Executions(engine, rows, queue, presence, RunLogs(database), watch=watch)
