"""Executions in the database: begun, alive for as long as their server says so, ended once.

A row belongs to the server that runs it, by a lease that the server renews. A row whose lease has
run out has no server. An execution that was accepted is *taken* by a server, which prepares it, and
is *begun* when its item runs: `ThreadRows.mark_begun` is committed before the first process of the
item is started. What was not begun may be taken again by any server; what was begun is over, and
begun again only where its item says ``retryable``.
"""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    case,
    delete,
    false,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from rye_services.node.queue.turns import QueuedRun
from rye_services.node.worker.jobs import RecordedInputs, read_given
from rye_services.node.worker.redaction import shortened
from rye_services.people.audit import Audit
from rye_services.storage.database import Database, stamp, storable, thread_logs, threads
from ryeos.items.context import Clock

# --- thread rows ----------------------------------------------------------------------------------

RUNNING, COMPLETED, ERROR, CANCELLED = "running", "completed", "error", "cancelled"
LEASE_S, HEARTBEAT_S = 60.0, 15.0
LOST, INTERRUPTED = "lost", "interrupted"
QUEUED = "queued"
"""Of `ThreadRows.counted`: accepted and not begun. The column ``state`` has no such value."""
LISTED_CHARACTERS = 1000
"""Of an error, and of conflicts, in a list of executions."""

FIRST_ATTEMPT = 1
MOST_ATTEMPTS = 10
"""How often an execution is taken: one that ends its server each time must not end all of them."""

_LOST_WORDS = "the node that ran this execution ended before it was over"
_TOO_OFTEN_WORDS = f"{_LOST_WORDS}, {MOST_ATTEMPTS} times"
_SHOWN = (
    *("thread_id", "user_id", "item_type", "item_id", "execution_mode", "remote_name"),
    *("project_path", "project_manifest_hash", "user_manifest_hash", "system_version", "state"),
    *("created_at", "started_at", "completed_at", "snapshot_hash", "execution_snapshot_hash"),
    *("runtime_outputs_bundle_hash", "merge_type", "merge_conflicts", "unmerged_snapshot_hash"),
    "merge_conflict_count",
    *("error_message", "error_phase", "result_hash", "hook_id"),
    *("attempt", "retryable", "cancelled_by", "warnings", "log_bytes", "started_by"),
)
_SHOWN_COLUMNS = select(*(threads.c[name] for name in _SHOWN))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewThread:
    """An execution that is about to begin.

    job         what another server needs to begin it, None for one that a request waits for
    envelope    its sealed secrets
    given       what is kept of its parameters, where that is known by now
    started_by  the member who asks, where the user is a team
    """

    thread_id: str
    user_id: str
    item_ref: str
    remote_name: str
    project_path: str
    project_manifest_hash: str
    user_manifest_hash: str | None
    system_version: str
    hook_id: str | None = None
    started_by: str | None = None
    job: Mapping[str, Any] | None = None
    envelope: bytes | None = field(default=None, repr=False)
    given: RecordedInputs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExecution:
    """An accepted execution that is now this server's to begin."""

    thread_id: str
    user_id: str
    item_ref: str
    project_path: str
    hook_id: str | None
    job: Mapping[str, Any]
    attempt: int
    started_by: str | None = None
    envelope: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an execution is."""

    state: str
    is_begun: bool


class ExecutionLostError(LilluxError):
    """An execution is no longer this server's: another server has taken it over or ended it."""

    code, exit_status = "CANCELLED", 130

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        super().__init__(
            f"{thread_id} was taken for lost by another server, or cancelled",
            hint="nothing that it changed was taken; execute it again",
        )


class SharedQueue(Protocol):
    """The queue of many machines, as rows of executions know it."""

    def put(self, connection: Connection, run: QueuedRun) -> None:
        """Add an execution to the queue, as a part of the caller's transaction."""
        ...

    def tell(self, connection: Connection, thread_id: str) -> None:
        """Let every process know that a row is another one, once the transaction is committed."""
        ...


class ThreadRows:
    """The rows of all executions, for the server ``server_id``. Thread-safe.

    ``is_dead`` says of another server whether it is known to have ended. Leases are by the clock of
    the database: servers whose own clocks are apart do not take each other's executions.
    With a ``shared`` queue what waits belongs to no server.
    """

    def __init__(
        self,
        database: Database,
        server_id: str,
        is_dead: Callable[[str], bool],
        *,
        shared: SharedQueue | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        self._database = database
        self._audit = Audit(database)
        self._server_id, self._is_dead = server_id, is_dead
        self._shared, self._lease_s = shared, lease_s

    def begin(
        self, thread: NewThread, *, together_with: Callable[[Connection], bool] | None = None
    ) -> bool:
        """Write the row; with something else in the same transaction, or neither of them.

        False when that said no. One with a job is not started yet.
        """
        row: dict[str, Any] = {
            "thread_id": thread.thread_id,
            "user_id": thread.user_id,
            "started_by": thread.started_by,
            "item_type": thread.item_ref.partition(":")[0],
            "item_id": thread.item_ref,
            "execution_mode": "remote",
            "remote_name": thread.remote_name,
            "project_path": thread.project_path,
            "project_manifest_hash": thread.project_manifest_hash,
            "user_manifest_hash": thread.user_manifest_hash,
            "system_version": thread.system_version,
            "state": RUNNING,
            "is_async": thread.job is not None,
            "job": thread.job,
            "job_secrets": thread.envelope,
            "server_id": self._server_id,
            "hook_id": thread.hook_id,
            "attempt": FIRST_ATTEMPT if thread.job is None else 0,
            "given": None if thread.given is None else thread.given.dump(),
        }
        with self._database.writing() as connection:
            if together_with is not None and not together_with(connection):
                return False
            now = self._database.now(connection)
            row["created_at"] = stamp(now)
            row["started_at"] = None if thread.job is not None else stamp(now)
            row["lease_until_s"] = now.timestamp() + self._lease_s
            if self._shared is not None and thread.job is not None:
                row |= {"server_id": None, "lease_until_s": None}
            connection.execute(insert(threads).values(**row))
        return True

    def claim(self, thread_id: str) -> PendingExecution | None:
        """Take an accepted execution: it is this server's from now on, or it was another's.

        One statement decides and writes: of two that try at once, the second finds it taken. It is
        not begun before `mark_begun`.
        """
        columns = threads.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            mine = columns.server_id == self._server_id
            statement = (
                update(threads)
                .where(
                    columns.thread_id == thread_id,
                    columns.state == RUNNING,
                    columns.started_at.is_(None),
                    columns.cancelled_by.is_(None),
                    columns.is_async,
                    or_(
                        mine,
                        columns.server_id.is_(None),
                        columns.lease_until_s < now.timestamp(),
                    ),
                )
                .values(
                    started_at=stamp(now),
                    server_id=self._server_id,
                    lease_until_s=now.timestamp() + self._lease_s,
                    attempt=columns.attempt + 1,
                    preparing=True,
                )
                .returning(threads)
            )
            row = connection.execute(statement).mappings().one_or_none()
            if row is not None:
                self._tell(connection, thread_id)
        if row is None:
            return None
        return PendingExecution(
            thread_id=thread_id,
            user_id=row["user_id"],
            item_ref=row["item_id"],
            project_path=row["project_path"],
            hook_id=row["hook_id"],
            job=row["job"],
            attempt=row["attempt"],
            started_by=row["started_by"],
            envelope=row["job_secrets"],
        )

    def hold(self, connection: Connection, thread_id: str, attempt: int) -> None:
        """Be sure, to the end of a transaction, that an attempt is still this server's.

        Its lease begins anew, so that no server takes it for lost before that transaction is over.
        Raises ExecutionLostError.
        """
        until_s = self._database.now(connection).timestamp() + self._lease_s
        held = update(threads).where(self._is_mine(thread_id, attempt))
        if connection.execute(held.values(lease_until_s=until_s)).rowcount != 1:
            raise ExecutionLostError(thread_id)

    def _tell(self, connection: Connection, thread_id: str) -> None:
        if self._shared is not None:
            self._shared.tell(connection, thread_id)

    def _is_mine(self, thread_id: str, attempt: int) -> ColumnElement[bool]:
        return and_(
            threads.c.thread_id == thread_id,
            threads.c.server_id == self._server_id,
            threads.c.attempt == attempt,
            threads.c.state == RUNNING,
        )

    def mark_begun(
        self, thread_id: str, attempt: int, *, retryable: bool, given: RecordedInputs | None
    ) -> bool:
        """Note, before its item runs, that it begins; only a retryable one is begun again then.

        ``given`` is what is kept of its parameters, None for no more than is kept already. False
        where a user wants to end it. Raises ExecutionLostError, SQLAlchemyError; it must not run
        then.
        """
        values: dict[str, Any] = {"preparing": False, "retryable": retryable}
        if given is not None:
            values["given"] = storable(given.dump())
        mine = update(threads).where(self._is_mine(thread_id, attempt)).values(values)
        with self._database.single_write() as connection:
            row = connection.execute(mine.returning(threads.c.cancelled_by)).one_or_none()
        if row is None:
            raise ExecutionLostError(thread_id)
        return row.cancelled_by is None

    def put_back(self, thread_id: str, attempt: int) -> bool:
        """Put an execution back into the queue; False for one that may not, or is another's."""
        columns = threads.c
        mine = and_(self._is_mine(thread_id, attempt), _may_run_again())
        with self._database.writing() as connection:
            statement = update(threads).where(mine, columns.cancelled_by.is_(None))
            again = statement.values(self._waiting()).returning(columns.user_id)
            user_id = connection.scalar(again)
            if user_id is not None and self._shared is not None:
                self._shared.put(connection, QueuedRun(thread_id=thread_id, user_id=user_id))
        return user_id is not None

    def _waiting(self) -> dict[str, Any]:
        """The columns of a row that waits again."""
        no_one = {} if self._shared is None else {"server_id": None, "lease_until_s": None}
        return {"started_at": None, "preparing": False, **no_one}

    def cancel(self, user_id: str, thread_id: str, by: str) -> str | None:
        """Ask for the end of an execution of a user: its state then; None for none of theirs.

        One that was not begun is over at once; the server that runs it ends any other.
        """
        columns = threads.c
        theirs = and_(columns.user_id == user_id, columns.thread_id == thread_id)
        is_waiting = and_(theirs, columns.state == RUNNING, columns.started_at.is_(None))
        with self._database.writing() as connection:
            over = _ended_columns(CANCELLED, self._database.now(connection))
            said = {"error_message": "cancelled before it began", "error_phase": CANCELLED}
            waited = connection.execute(
                update(threads).where(is_waiting).values(cancelled_by=by, **over, **said)
            )
            runs = and_(theirs, columns.state == RUNNING, columns.cancelled_by.is_(None))
            ran = connection.execute(update(threads).where(runs).values(cancelled_by=by))
            if waited.rowcount + ran.rowcount:
                details = {"user_id": user_id}
                self._audit.write(connection, "executions.cancel", thread_id, details)
                self._tell(connection, thread_id)
            found = connection.scalar(select(columns.state).where(theirs))
        return None if found is None else str(found)

    def cancel_of(self, started_by: str, by: str, *, user_id: str = "") -> tuple[str, ...]:
        """Ask for the end of all that a user has started, of one owner or of any: their ids."""
        columns = threads.c
        theirs = or_(
            columns.started_by == started_by,
            and_(columns.started_by.is_(None), columns.user_id == started_by),
        )
        query = select(columns.thread_id, columns.user_id).where(theirs, columns.state == RUNNING)
        if user_id:
            query = query.where(columns.user_id == user_id)
        with self._database.reading() as connection:
            found = connection.execute(query).all()
        for row in found:
            self.cancel(row.user_id, row.thread_id, by)
        return tuple(row.thread_id for row in found)

    def to_be_ended(self) -> tuple[str, ...]:
        """Executions that this server runs, and that a user wants to end."""
        columns = threads.c
        query = select(columns.thread_id).where(
            columns.server_id == self._server_id,
            columns.state == RUNNING,
            columns.cancelled_by.is_not(None),
        )
        with self._database.reading() as connection:
            return tuple(connection.scalars(query))

    def renew(self) -> None:
        """Record that this server is alive, and with it all that it runs."""
        mine = and_(threads.c.server_id == self._server_id, threads.c.state == RUNNING)
        until_s = self._database.now_s + self._lease_s
        with self._database.single_write() as connection:
            connection.execute(update(threads).where(mine).values(lease_until_s=until_s))

    def end(
        self,
        thread_id: str,
        attempt: int,
        state: str,
        **values: Any,  # noqa: ANN401 - columns
    ) -> bool:
        """Write how an attempt ended; False when it is no longer this server's."""
        if isinstance(values.get("error_message"), str):  # a row is outside of every quota
            values["error_message"] = shortened(values["error_message"])
        with self._database.writing() as connection:
            # Whatever a tool says, it has ended: what no database holds is replaced.
            ended = {**_ended_columns(state, self._database.now(connection)), **storable(values)}
            mine = update(threads).where(self._is_mine(thread_id, attempt))
            is_written = connection.execute(mine.values(ended)).rowcount == 1
            self._tell(connection, thread_id)
        return is_written

    def take_over(self) -> tuple[str, ...]:
        """Recover executions of servers that ended; the ids of those that are to be begun now.

        What was begun is marked as lost, or waits again where its item allows that.
        """
        columns = threads.c
        query = select(
            columns.thread_id,
            columns.server_id,
            columns.lease_until_s,
            (columns.started_at.is_(None) | _may_run_again()).label("again"),
        ).where(columns.state == RUNNING, columns.server_id != self._server_id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            now_s = self._database.now(connection).timestamp()
        dead = {one for one in {row.server_id for row in rows} if self._is_dead(one)}
        left = [row for row in rows if row.server_id in dead or (row.lease_until_s or 0.0) < now_s]
        return tuple(
            row.thread_id
            for row in left
            if self._adopt(
                row.thread_id, row.server_id, is_dead=row.server_id in dead, again=row.again
            )
            and row.again
        )

    def _adopt(self, thread_id: str, server_id: str, *, is_dead: bool, again: bool) -> bool:
        """Take one over from a server that is dead, or has not renewed its lease by now.

        It waits ``again``; else it is over, cancelled where a user wanted that, or lost.
        """
        columns = threads.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            # Its server may have begun it meanwhile: unless that is this one, which knows better.
            is_own = server_id == self._server_id
            may_wait = true() if is_own else columns.started_at.is_(None) | _may_run_again()
            still = and_(
                columns.thread_id == thread_id,
                columns.server_id == server_id,
                columns.state == RUNNING,
                true() if is_dead else columns.lease_until_s < now.timestamp(),
                may_wait if again else columns.started_at.is_not(None),
            )
            values: dict[str, Any] = {"server_id": self._server_id}
            if again:
                until_s = now.timestamp() + self._lease_s
                values |= {"lease_until_s": until_s, **self._waiting()}
            else:
                values |= _ended_columns(ERROR, now) | _end_of_lost()
            adopted = update(threads).where(still).values(values).returning(columns.user_id)
            user_id = connection.scalar(adopted)
            if user_id is None:
                return False
            if again and self._shared is not None:
                self._shared.put(connection, QueuedRun(thread_id=thread_id, user_id=user_id))
            self._tell(connection, thread_id)
        return True

    def begun(self) -> dict[str, bool]:
        """What this server has begun and not ended, and whether each may wait to begin again."""
        columns = threads.c
        mine = and_(
            columns.server_id == self._server_id,
            columns.state == RUNNING,
            columns.started_at.is_not(None),
        )
        query = select(columns.thread_id, _may_run_again()).where(mine)
        with self._database.reading() as connection:
            return {thread_id: bool(again) for thread_id, again in connection.execute(query)}

    def let_go(self, thread_id: str, *, again: bool) -> None:
        """Treat one that this server has begun, and does not run, as that of a server that died."""
        self._adopt(thread_id, self._server_id, is_dead=True, again=again)

    def not_begun(self) -> tuple[tuple[str, str], ...]:
        """Accepted executions of this server that wait for a place, each with its user.

        The oldest is the first.
        """
        columns = threads.c
        mine = and_(
            columns.server_id == self._server_id,
            columns.state == RUNNING,
            columns.started_at.is_(None),
        )
        query = select(columns.thread_id, columns.user_id).where(mine).order_by(columns.created_at)
        with self._database.reading() as connection:
            return tuple((row.thread_id, row.user_id) for row in connection.execute(query))

    def counted(self) -> dict[str, int]:
        """How many executions there are in each state; those that wait to begin as `QUEUED`."""
        columns = threads.c
        waiting = and_(columns.state == RUNNING, columns.started_at.is_(None))
        by_state = select(columns.state, func.count()).group_by(columns.state)
        with self._database.reading() as connection:
            found = {state: int(count) for state, count in connection.execute(by_state)}
            query = select(func.count()).select_from(threads).where(waiting)
            queued = int(connection.scalar(query) or 0)
        found[RUNNING] = found.get(RUNNING, 0) - queued
        return {**found, QUEUED: queued}

    def one(self, user_id: str, thread_id: str) -> dict[str, Any] | None:
        """The row of an execution as its user sees it."""
        columns = threads.c
        wanted = _SHOWN_COLUMNS.add_columns(columns.given)
        query = wanted.where(columns.user_id == user_id, columns.thread_id == thread_id)
        with self._database.single_read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else {**_shown_columns(row), **_given_columns(row["given"])}

    def progress(self, thread_id: str) -> Progress | None:
        """How far an execution is; None for an unknown one."""
        columns = threads.c
        query = select(columns.state, columns.started_at).where(columns.thread_id == thread_id)
        with self._database.single_read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return Progress(row.state, is_begun=row.started_at is not None)

    def take_answer(self, thread_id: str) -> Mapping[str, Any] | None:
        """What the process that ran an execution keeps for its caller: once, then None."""
        columns = threads.c
        mine = columns.thread_id == thread_id
        with self._database.writing() as connection:
            found = connection.scalar(select(columns.answer).where(mine))
            if found is not None:
                connection.execute(update(threads).where(mine).values(answer=None))
        return found if isinstance(found, dict) else None

    def listed(
        self, user_id: str, remote_name: str, *, limit: int, project_path: str | None = None
    ) -> list[dict[str, Any]]:
        """The executions of a user, the newest first."""
        columns = threads.c
        query = _SHOWN_COLUMNS.where(columns.user_id == user_id, columns.remote_name == remote_name)
        if project_path is not None:
            query = query.where(columns.project_path == project_path)
        newest = query.order_by(columns.created_at.desc(), columns.thread_id.desc()).limit(limit)
        with self._database.single_read() as connection:
            return [
                _in_a_list(_shown_columns(row)) for row in connection.execute(newest).mappings()
            ]


def _may_run_again() -> ColumnElement[bool]:
    """Whether one that a server has taken may wait again when that server is gone.

    It was not begun, or its item is retryable; and it was not cancelled, nor taken too often.
    """
    columns = threads.c
    return and_(
        columns.is_async,
        columns.preparing | columns.retryable,
        columns.cancelled_by.is_(None),
        columns.attempt < MOST_ATTEMPTS,
    )


def _end_of_lost() -> dict[str, Any]:
    """The columns of one that is over with its server."""
    columns = threads.c
    is_cancelled = columns.cancelled_by.is_not(None)
    words = case(
        (is_cancelled, literal("cancelled by ").concat(columns.cancelled_by)),
        (columns.attempt >= MOST_ATTEMPTS, _TOO_OFTEN_WORDS),
        else_=_LOST_WORDS,
    )
    return {
        "state": case((is_cancelled, CANCELLED), else_=ERROR),
        "error_message": words,
        "error_phase": case((is_cancelled, CANCELLED), else_=LOST),
    }


def _ended_columns(state: str, now: datetime) -> dict[str, Any]:
    """The columns of every execution that is over."""
    return {
        "state": state,
        "completed_at": stamp(now),
        "job": None,
        "job_secrets": None,
        "lease_until_s": None,
    }


def _given_columns(value: object) -> dict[str, Any]:
    """The parameters as one execution shows them: null where they are not known, or too large."""
    given = read_given(value)
    if given is None:
        return {"parameters": None, "parameters_left_out": []}
    return {"parameters": given.parameters, "parameters_left_out": list(given.left_out)}


def _shown_columns(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in _SHOWN}


def _in_a_list(row: dict[str, Any]) -> dict[str, Any]:
    """A row as lists show it: what may be long is cut, and whole where one execution is asked for.

    Of conflicts those stay that are short enough together, the first ones by path.
    """
    conflicts, left = row["merge_conflicts"], LISTED_CHARACTERS
    if isinstance(conflicts, dict):
        kept = {}
        for path, sides in sorted(conflicts.items()):
            left -= len(path) + len(json.dumps(sides))
            if left < 0:
                break
            kept[path] = sides
        row = {**row, "merge_conflicts": kept}
    return {**row, "error_message": cut(row["error_message"] or "") or None}


def cut(text: str, most: int = LISTED_CHARACTERS) -> str:
    """A text of at most so many characters; a longer one ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# --- row ends -------------------------------------------------------------------------------------
# How executions ended, written into their rows: at once, or as soon as the database takes it.
#
# A disk that is full does not stop an execution from ending, only its row from saying so. Until the
# row is written the execution counts as one that runs, and is this server's.

_log = logging.getLogger(__name__)


class RowEnds:
    """The ends of executions of this server. Thread-safe."""

    def __init__(self, rows: ThreadRows) -> None:
        self._rows = rows
        self._kept: dict[str, tuple[int, str, dict[str, Any]]] = {}
        self._lock = Lock()

    def write(
        self,
        thread_id: str,
        attempt: int,
        state: str,
        **values: Any,  # noqa: ANN401 - columns
    ) -> bool:
        """As `ThreadRows.end`; what the database cannot take now is kept, and counts as written."""
        try:
            return self._rows.end(thread_id, attempt, state, **values)
        except SQLAlchemyError as error:
            _log.warning("%s: its end is not in its row yet: %s", thread_id, error)
            with self._lock:
                self._kept[thread_id] = (attempt, state, values)
            return True

    @property
    def kept(self) -> frozenset[str]:
        """The executions whose ends are not in their rows yet."""
        with self._lock:
            return frozenset(self._kept)

    def write_kept(self) -> None:
        """Try once more to write what is not in its row yet."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for thread_id, (attempt, state, values) in kept.items():
            self.write(thread_id, attempt, state, **values)


# --- old executions -------------------------------------------------------------------------------
# Executions that ended long ago: how long their rows are kept, and the removal of the rest.
#
# The row of a run whose change could not be merged is kept however old it is: what the run made
# hangs on it. Rules: ``docs/sync.md``, Garbage.

_AT_ONCE = 500
"""Rows of one transaction: nothing else is written meanwhile."""


class OldExecutions:
    """The executions of all users that ended more than so many days ago; 0 days are for ever."""

    def __init__(self, database: Database, clock: Clock, retain_days: int) -> None:
        self._database, self._clock, self._retain_days = database, clock, retain_days

    def are_old(self) -> ColumnElement[bool]:
        """Whether a row of ``threads`` is one of them, as of now."""
        if not self._retain_days:
            return false()
        columns = threads.c
        return and_(
            columns.state != RUNNING,
            columns.completed_at < stamp(self._clock() - timedelta(days=self._retain_days)),
            columns.unmerged_snapshot_hash.is_(None),
        )

    def are_kept(self) -> ColumnElement[bool]:
        """Whether a row of ``threads`` is not one of them."""
        return not_(func.coalesce(self.are_old(), false()))

    def count(self, user_id: str) -> int:
        """How many there are of a user. Raises SQLAlchemyError."""
        query = select(func.count()).where(threads.c.user_id == user_id, self.are_old())
        with self._database.reading() as connection:
            return int(connection.scalar(query) or 0)

    def forget(self, user_id: str) -> int:
        """Remove those of a user, some at a time; how many there were. Raises SQLAlchemyError."""
        columns, total = threads.c, 0
        old = and_(columns.user_id == user_id, self.are_old())
        query = select(columns.thread_id).where(old).limit(_AT_ONCE)
        while True:
            with self._database.writing() as connection:
                some = connection.scalars(query).all()
                connection.execute(delete(thread_logs).where(thread_logs.c.thread_id.in_(some)))
                connection.execute(delete(threads).where(columns.thread_id.in_(some)))
            total += len(some)
            if len(some) < _AT_ONCE:
                return total
