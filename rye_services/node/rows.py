"""Executions in the database: begun, alive for as long as their server says so, ended once.

A row belongs to the server that runs it, by a lease that the server renews. A row whose lease has
run out is nobody's: one that was accepted and not begun may be begun by any server, one that was
begun is over, and never begun again.
"""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    delete,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from lillux.values import dataclass, field
from rye_services.database import Database, stamp, threads
from rye_services.node.redaction import shortened
from ryeos.items.context import Clock

# --- thread rows ----------------------------------------------------------------------------------

RUNNING, COMPLETED, ERROR = "running", "completed", "error"
LEASE_S, HEARTBEAT_S = 60.0, 15.0
LOST = "lost"
LISTED_CHARACTERS = 1000
"""Of an error, and of conflicts, in a list of executions."""

_LOST_WORDS = "the node that ran this execution ended before it was over"
_SHOWN = (
    *("thread_id", "user_id", "item_type", "item_id", "execution_mode", "remote_name"),
    *("project_path", "project_manifest_hash", "user_manifest_hash", "system_version", "state"),
    *("created_at", "started_at", "completed_at", "snapshot_hash", "execution_snapshot_hash"),
    *("runtime_outputs_bundle_hash", "merge_type", "merge_conflicts", "unmerged_snapshot_hash"),
    "merge_conflict_count",
    *("error_message", "error_phase", "result_hash", "hook_id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewThread:
    """An execution that is about to begin.

    job         what another server needs to begin it, None for one that somebody waits for
    envelope    its sealed secrets
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
    job: Mapping[str, Any] | None = None
    envelope: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An accepted execution that is now this server's to begin."""

    thread_id: str
    user_id: str
    item_ref: str
    project_path: str
    hook_id: str | None
    job: Mapping[str, Any]
    envelope: bytes | None = field(default=None, repr=False)


class ThreadRows:
    """The rows of all executions, for the server ``server_id``. Thread-safe.

    ``is_dead`` says of another server whether it is known to have ended.
    """

    def __init__(
        self, database: Database, clock: Clock, server_id: str, is_dead: Callable[[str], bool]
    ) -> None:
        self._database, self._clock = database, clock
        self._server_id, self._is_dead = server_id, is_dead

    def begin(
        self, thread: NewThread, *, together_with: Callable[[Connection], bool] | None = None
    ) -> bool:
        """Write the row; with something else in the same transaction, or neither of them.

        False when that said no. One with a job is not started yet.
        """
        now = self._clock()
        row = {
            "thread_id": thread.thread_id,
            "user_id": thread.user_id,
            "item_type": thread.item_ref.partition(":")[0],
            "item_id": thread.item_ref,
            "execution_mode": "remote",
            "remote_name": thread.remote_name,
            "project_path": thread.project_path,
            "project_manifest_hash": thread.project_manifest_hash,
            "user_manifest_hash": thread.user_manifest_hash,
            "system_version": thread.system_version,
            "state": RUNNING,
            "created_at": stamp(now),
            "started_at": None if thread.job is not None else stamp(now),
            "is_async": thread.job is not None,
            "job": thread.job,
            "job_secrets": thread.envelope,
            "lease_until_s": now.timestamp() + LEASE_S,
            "server_id": self._server_id,
            "hook_id": thread.hook_id,
        }
        with self._database.writing() as connection:
            if together_with is not None and not together_with(connection):
                return False
            connection.execute(insert(threads).values(**row))
        return True

    def claim(self, thread_id: str) -> Pending | None:
        """Begin an accepted execution: it is this server's from now on, or it was somebody's."""
        now = self._clock()
        columns = threads.c
        values = {
            "started_at": stamp(now),
            "server_id": self._server_id,
            "lease_until_s": now.timestamp() + LEASE_S,
            "job": None,
            "job_secrets": None,
        }
        free = or_(columns.server_id == self._server_id, columns.lease_until_s < now.timestamp())
        wanted = and_(
            columns.thread_id == thread_id, columns.state == RUNNING, columns.started_at.is_(None)
        )
        with self._database.writing() as connection:
            row = connection.execute(select(threads).where(wanted, free)).mappings().one_or_none()
            if row is None or row["job"] is None:
                return None
            connection.execute(update(threads).where(columns.thread_id == thread_id).values(values))
        return Pending(
            thread_id=thread_id,
            user_id=row["user_id"],
            item_ref=row["item_id"],
            project_path=row["project_path"],
            hook_id=row["hook_id"],
            job=row["job"],
            envelope=row["job_secrets"],
        )

    def renew(self) -> None:
        """Say that this server is alive, and with it all that it runs."""
        until_s = self._clock().timestamp() + LEASE_S
        mine = and_(threads.c.server_id == self._server_id, threads.c.state == RUNNING)
        with self._database.writing() as connection:
            connection.execute(update(threads).where(mine).values(lease_until_s=until_s))

    def end(self, thread_id: str, state: str, **values: Any) -> bool:  # noqa: ANN401 - columns
        """Write how an execution ended; False when it is no longer this server's."""
        columns = threads.c
        mine = and_(
            columns.thread_id == thread_id,
            columns.server_id == self._server_id,
            columns.state == RUNNING,
        )
        ended = {
            "state": state,
            "completed_at": stamp(self._clock()),
            "job": None,
            "job_secrets": None,
            "lease_until_s": None,
            **values,
        }
        if isinstance(ended.get("error_message"), str):  # a row is outside of every quota
            ended["error_message"] = shortened(ended["error_message"])
        with self._database.writing() as connection:
            return connection.execute(update(threads).where(mine).values(ended)).rowcount == 1

    def take_over(self) -> tuple[str, ...]:
        """See to what servers that ended have left: the ids of what is to be begun now.

        What was begun is marked as lost.
        """
        now = self._clock()
        columns = threads.c
        query = select(
            columns.thread_id, columns.server_id, columns.lease_until_s, columns.started_at
        ).where(columns.state == RUNNING, columns.server_id != self._server_id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        dead = {one for one in {row.server_id for row in rows} if self._is_dead(one)}
        left = [
            row
            for row in rows
            if row.server_id in dead or (row.lease_until_s or 0.0) < now.timestamp()
        ]
        for row in left:
            self._adopt(row.thread_id, row.server_id, was_begun=row.started_at is not None)
        return tuple(row.thread_id for row in left if row.started_at is None)

    def _adopt(self, thread_id: str, server_id: str, *, was_begun: bool) -> None:
        columns = threads.c
        still = and_(
            columns.thread_id == thread_id,
            columns.server_id == server_id,
            columns.state == RUNNING,
            columns.started_at.is_not(None) if was_begun else columns.started_at.is_(None),
        )
        now = self._clock()
        values: dict[str, Any] = {
            "server_id": self._server_id,
            "lease_until_s": now.timestamp() + LEASE_S,
        }
        if was_begun:
            values |= {
                "state": ERROR,
                "completed_at": stamp(now),
                "error_message": _LOST_WORDS,
                "error_phase": LOST,
                "lease_until_s": None,
                "job": None,
                "job_secrets": None,
            }
        with self._database.writing() as connection:
            connection.execute(update(threads).where(still).values(values))

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

    def one(self, user_id: str, thread_id: str) -> dict[str, Any] | None:
        """The row of an execution as its user sees it."""
        columns = threads.c
        query = select(threads).where(columns.user_id == user_id, columns.thread_id == thread_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _shown(row)

    def listed(
        self, user_id: str, remote_name: str, *, limit: int, project_path: str | None = None
    ) -> list[dict[str, Any]]:
        """The executions of a user, the newest first."""
        columns = threads.c
        query = select(threads).where(
            columns.user_id == user_id, columns.remote_name == remote_name
        )
        if project_path is not None:
            query = query.where(columns.project_path == project_path)
        newest = query.order_by(columns.created_at.desc(), columns.thread_id.desc()).limit(limit)
        with self._database.reading() as connection:
            return [_in_a_list(_shown(row)) for row in connection.execute(newest).mappings()]


def _shown(row: RowMapping) -> dict[str, Any]:
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
        self._kept: dict[str, tuple[str, dict[str, Any]]] = {}
        self._lock = Lock()

    def write(self, thread_id: str, state: str, **values: Any) -> bool:  # noqa: ANN401 - columns
        """As `ThreadRows.end`; what the database cannot take now is kept, and counts as written."""
        try:
            return self._rows.end(thread_id, state, **values)
        except SQLAlchemyError as error:
            _log.warning("%s: its end is not in its row yet: %s", thread_id, error)
            with self._lock:
                self._kept[thread_id] = (state, values)
            return True

    def write_kept(self) -> None:
        """Try once more to write what is not in its row yet."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for thread_id, (state, values) in kept.items():
            self.write(thread_id, state, **values)


# --- old executions -------------------------------------------------------------------------------
# Executions that ended long ago: how long their rows are kept, and the removal of the rest.
#
# The row of a run whose change nobody could merge is kept however old it is: what the run made
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
        """Whether a row of ``threads`` is none of them."""
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
        some = select(columns.thread_id).where(old).limit(_AT_ONCE)
        while True:
            with self._database.writing() as connection:
                statement = delete(threads).where(columns.thread_id.in_(some))
                removed = connection.execute(statement).rowcount
            total += removed
            if removed < _AT_ONCE:
                return total
