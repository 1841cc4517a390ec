"""Executions of a node: admission, records, workers, and recovery after a server died."""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any

from sqlalchemy import Connection

import ryeos
from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.files import LockTimeoutError, locked
from lillux.store_files import ObjectMissingError
from rye_services.database import Database
from rye_services.http import RequestProblem, is_full
from rye_services.keys import NodeKeys
from rye_services.node.execution import (
    Basis,
    Engine,
    FinishedExecution,
    Order,
    ProjectNotFoundError,
    PushedRulesError,
)
from rye_services.node.jobs import JobAction
from rye_services.node.objects import QuotaExceededError, UserStores
from rye_services.node.rows import COMPLETED, ERROR, NewThread, Pending, RowEnds, ThreadRows
from rye_services.node.secrets import SecretNotFoundError, Vault
from rye_services.node.storage import SyncServices
from rye_services.node.webhooks import record_delivery
from rye_services.node.worker import WorkerEndedError, WorkerLaunch
from rye_services.node.workspaces import Checkouts
from rye_services.settings import Settings
from ryeos.items.context import Clock
from ryeos.remote.secrets import EnvelopeError
from ryeos.sync.objects import CasObjectError
from ryeos.sync.paths import UnsafeManifestError

# --- presence -------------------------------------------------------------------------------------
# Liveness lock of a server process: held until it ends, however it ends.
#
# With it the executions of a server that was killed are seen to at once, and not when their leases
# have run out. It says something about servers of this machine only.


class ServerLease:
    """This server, as others see it: ``server_id`` is 16 hex digits, new with every start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server_id = os.urandom(8).hex()
        self._held = ExitStack()

    def begin(self) -> None:
        """Hold the lock from now on. Raises FileSystemError."""
        self._held.enter_context(locked(self._path(self.server_id), timeout_s=0))

    def end(self) -> None:
        """Hold it no longer."""
        self._held.close()

    def is_dead(self, server_id: str) -> bool:
        """Whether another server is known to have ended: its lock is there and nobody's."""
        path = self._path(server_id)
        if server_id == self.server_id or not path.is_file():
            return False
        with suppress(LockTimeoutError, LilluxError), locked(path, timeout_s=0):
            return True
        return False

    def forget_others(self) -> None:
        """Remove the locks of servers that have ended, once their executions were seen to."""
        for path in self._folder.glob("*.lock"):
            if self.is_dead(path.stem):
                with suppress(OSError):
                    path.unlink()

    def _path(self, server_id: str) -> Path:
        return self._folder / f"{server_id}.lock"


# --- capacity -------------------------------------------------------------------------------------
# How many executions run, and that no more are let in than there is room for.

_RETRY_AFTER_S = 5


class Capacity:
    """Places for executions. Thread-safe.

    One place is kept for the other users, where there are several places.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._of_one = max(1, places - 1)
        self._taken: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def active(self) -> int:
        """How many places are taken."""
        with self._lock:
            return self._taken.total()

    def take(self, user_id: str) -> None:
        """Take a place, to be given back by whoever ends it. Raises Problem, 503."""
        with self._lock:
            if self._taken.total() >= self.places:
                raise _refusal(f"all {self.places} places for executions are taken")
            if self._taken[user_id] >= self._of_one:
                words = f"user {user_id} has {self._of_one} of {self.places} places for executions"
                raise _refusal(f"{words}, which is all that one user can have")
            self._taken[user_id] += 1

    def give_back(self, user_id: str) -> None:
        """Give one place of a user back."""
        with self._lock:
            self._taken[user_id] -= 1
            if not self._taken[user_id]:
                del self._taken[user_id]


def _refusal(words: str) -> RequestProblem:
    return RequestProblem(503, words, {"Retry-After": str(_RETRY_AFTER_S)})


# --- executions -----------------------------------------------------------------------------------

RETRY_AFTER = {"Retry-After": "5"}
_LAST_GRACE_S = 20.0
_MAX_ITEM_CHARACTERS = 200
_MATERIALIZATION = (ObjectMissingError, CasObjectError, UnsafeManifestError)
_log = logging.getLogger(__name__)


class Executions:
    """The executions that this server runs. Thread-safe; every call may take long."""

    def __init__(
        self, engine: Engine, rows: ThreadRows, capacity: Capacity, presence: ServerLease
    ) -> None:
        self._engine, self._capacity, self._presence = engine, capacity, presence
        self.rows, self._ends = rows, RowEnds(rows)
        self._active, self._is_closed = 0, False
        self._changed = Condition()

    def run(self, order: Order) -> dict[str, Any]:
        """Execute and answer. Raises Problem.

        (1) What it starts from. (2) A place. (3) The row, with the delivery that asked for it.
        (4) The execution; (5) the row says how it ended.
        """
        basis = self._basis(order)  # (1)
        self._enter(order.user_id)  # (2)
        try:
            thread_id = self._begin(order, basis, is_async=False)  # (3)
            return self._carry_out(order, basis, thread_id).answer()  # (4) and (5)
        finally:
            self._leave(order.user_id)

    def accept(self, order: Order) -> dict[str, Any]:
        """Have it executed, by this server or the next one, and answer at once. Raises Problem."""
        basis = self._basis(order)
        self._enter(order.user_id)
        try:
            thread_id = self._begin(order, basis, is_async=True)
            self._in_background(thread_id, order.user_id)
        except BaseException:  # the place is given back, whatever it was
            self._leave(order.user_id)
            raise
        return {
            "status": "accepted",
            "thread_id": thread_id,
            "async": True,
            "message": f"{order.item_ref} runs as {thread_id}: GET /threads/{thread_id}",
        }

    def begin(self) -> None:
        """Let the other servers know that this one lives. Raises FileSystemError."""
        self._presence.begin()

    def beat(self) -> None:
        """Say that this server lives, and see to what others have left behind."""
        self.rows.renew()
        self._ends.write_kept()
        self.rows.take_over()
        self._presence.forget_others()
        for thread_id, user_id in self.rows.not_begun():
            if self._is_closed:
                return
            try:
                self._enter(user_id)
            except RequestProblem:  # no place for this user: with one of the next beats
                continue
            self._in_background(thread_id, user_id)

    def close(self, grace_s: float) -> None:
        """Take nothing any more, wait for what runs, and end what still does after the grace."""
        with self._changed:
            self._is_closed = True
            if not self._changed.wait_for(lambda: not self._active, grace_s):
                _log.warning("ending %s executions", self._active)
                self._engine.cancellation.cancel()
                self._changed.wait_for(lambda: not self._active, _LAST_GRACE_S)
        self._presence.end()

    # --- places -----------------------------------------------------------------------------------

    def _enter(self, user_id: str) -> None:
        with self._changed:
            if self._is_closed:
                raise RequestProblem(503, "this node is ending", RETRY_AFTER)
            self._capacity.take(user_id)
            self._active += 1

    def _leave(self, user_id: str) -> None:
        with self._changed:
            self._active -= 1
            self._capacity.give_back(user_id)
            self._changed.notify_all()

    def _in_background(self, thread_id: str, user_id: str) -> None:
        """Begin an accepted execution, on a place that was taken for it."""
        arguments = (thread_id, user_id)
        Thread(target=self._claimed, args=arguments, name=thread_id, daemon=True).start()

    def _claimed(self, thread_id: str, user_id: str) -> None:
        try:
            pending = self.rows.claim(thread_id)
            if pending is None:  # another thread or server was first
                return
            order = _order_of(pending)
            try:
                basis = self._basis(order)
            except RequestProblem as problem:
                self._failed(thread_id, str(problem.detail), "preparation")
                return
            self._carry_out(order, basis, thread_id)
        except RequestProblem as problem:  # it is in the row
            _log.info("%s: %s", thread_id, problem.detail)
        except Exception:  # noqa: BLE001 - the door of this thread
            _log.exception("%s", thread_id)
        finally:
            self._leave(user_id)

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

    def _carry_out(self, order: Order, basis: Basis, thread_id: str) -> FinishedExecution:
        """Execute and say in the row how it ended. Raises Problem."""
        try:
            executed = self._engine.execute(order, basis, thread_id)
        except _MATERIALIZATION as error:
            self._failed(thread_id, _words(error), "materialization")
            raise _problem(404, _words(error), order, thread_id, "materialization") from error
        except PushedRulesError as error:
            self._failed(thread_id, str(error), "materialization")
            raise _problem(400, str(error), order, thread_id, "materialization") from error
        except QuotaExceededError as error:
            self._failed(thread_id, str(error), "quota")
            raise RequestProblem(507, str(error)) from error
        except WorkerEndedError as error:
            self._failed(thread_id, str(error), "ended")
            raise RequestProblem(503, str(error), RETRY_AFTER) from error
        except BaseException as error:  # the door of an execution: its row must hear of every end
            _log.exception("%s failed", thread_id)
            status, phase = (507, "storage") if is_full(error) else (500, "execution")
            self._failed(thread_id, _words(error), phase)
            raise _problem(status, _words(error), order, thread_id, phase) from error
        state = COMPLETED if executed.is_good else ERROR
        if not self._ends.write(thread_id, state, **executed.row()):
            _log.warning("%s ended, and was taken for lost before", thread_id)
        return executed

    def _failed(self, thread_id: str, message: str, phase: str) -> None:
        self._ends.write(thread_id, ERROR, error_message=message, error_phase=phase)


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
    code = error.code if isinstance(error, LilluxError) else "INTERNAL"
    return f"the execution failed ({code}): the log of the node says more"


def _problem(status: int, words: str, order: Order, thread_id: str, phase: str) -> RequestProblem:
    detail: Mapping[str, Any] = {
        "error": words,
        "thread_id": thread_id,
        "item_id": order.item_ref,
        "phase": phase,
    }
    return RequestProblem(status, detail)


# --- as a part of the node ------------------------------------------------------------------------


def open_executions(
    *,
    settings: Settings,
    database: Database,
    keys: NodeKeys,
    stores: UserStores,
    sync: SyncServices,
    vault: Vault,
    capacity: Capacity,
    bundle: Path,
    clock: Clock,
    environ: Mapping[str, str],
) -> Executions:
    """The executions of a node. Nothing is read or written yet."""
    presence = ServerLease(settings.data_dir / "servers")
    rows = ThreadRows(database, clock, presence.server_id, presence.is_dead)
    engine = Engine(
        settings=settings,
        keys=keys,
        stores=stores,
        sync=sync,
        vault=vault,
        workspaces=Checkouts(settings.data_dir / "workspaces", kept=settings.max_concurrent + 2),
        launch=WorkerLaunch(environ=environ),
        bundle=bundle,
        clock=clock,
        cancellation=Cancellation(),
    )
    return Executions(engine, rows, capacity, presence)
