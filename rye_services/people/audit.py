"""The audit of a node: who changed what may be done on it, when, and from where.

A row is written in the transaction of its change, so that neither is there without the other; what
is a file is changed inside of the transaction of its row. Who acts is known at the doors (requests,
commands) and written far below them, so a context variable carries it. Rows are never changed but
for the count of repetitions, and are removed by age alone. Page: ``docs/node.md``, Audit.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import isfinite
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from lillux.shapes import write
from lillux.values import dataclass
from rye_services.people.actors import NODE, Actor, current_actor
from rye_services.storage.database import Database, audit, stamp

UNKNOWN_CALLER = "nobody"
"""Who acts when it is not known who it is: a log-in that failed."""

MANY = "*"
"""The target of a row that stands for many, once one actor has had too many rows of an hour."""

MOST_AN_HOUR = 500
"""Rows of one actor, and of one action by an unknown caller: what follows only counts up."""

MOST_LISTED = 1000
_MOST_TEXT, _MOST_PARTS, _DEEPEST = 300, 50, 3
_MOST_DETAILS = 8 * 1024
_SPAN = timedelta(hours=1)
_OPERATORS = "command:"


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change of what may be done."""

    shape_name = "AuditEntryAnswer"
    id: int
    at: str  # ISO 8601, UTC, by the clock of the database
    actor: str
    address: str
    action: str  # like ``keys.add``: what was changed, a full stop, and how
    target: str  # what it was changed of
    details: Mapping[str, Any] | None  # further facts, none of them a secret

    def as_answer(self) -> dict[str, Any]:
        """The entry as JSON has it."""
        return write(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries a caller wants to see; an empty text is any.

    action        the whole one, or its first part: ``keys``
    since, until  times as `stamp` writes them; until is not part of it
    before        an id: only older entries
    """

    action: str = ""
    actor: str = ""
    since: str = ""
    until: str = ""
    before: int = 0


class Audit:
    """The audit in a database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self,
        connection: Connection,
        action: str,
        target: str = "",
        details: Mapping[str, Any] | None = None,
        *,
        actor: Actor | None = None,
        count: int = 1,
    ) -> None:
        """Record a change in its own transaction; by whom, where `act_as` names no actor.

        Of a user who has had many rows of the hour, only the count of the last one grows.
        """
        by = actor or current_actor()
        now = self._database.now(connection)
        facts = {"key": by.key} if by.key else {}
        row: dict[str, Any] = {
            "at": stamp(now),
            "actor": plain(by.name, 64),
            "address": plain(by.address, 64),
            "action": plain(action, 40),
            "target": plain(target, _MOST_TEXT),
            "details": _plain_details({**facts, **(details or {})}) or None,
        }
        if self._is_too_much(connection, row, now):
            self._count_up(connection, row, now, count)
            return
        if count > 1:
            row["details"] = {**(row["details"] or {}), "count": count}
        connection.execute(insert(audit).values(**row))

    def note(self, action: str, target: str = "", details: Mapping[str, Any] | None = None) -> None:
        """As `write`, in a transaction of its own: for what the database itself does not hold."""
        with self.change(action, target, details):
            pass

    @contextmanager
    def change(
        self, action: str, target: str = "", details: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """A block that changes files: its row is taken back where the block raises."""
        with self._database.writing() as connection:
            self.write(connection, action, target, details)
            yield

    def entries(self, wanted: AuditFilter, *, limit: int) -> tuple[AuditEntry, ...]:
        """The entries that are wanted, the newest first, at most so many."""
        columns = audit.c
        query = select(audit)
        if wanted.action:
            name = plain(wanted.action, 40)
            query = query.where(
                (columns.action == name) | columns.action.startswith(f"{name}.", autoescape=True)
            )
        if wanted.actor:
            query = query.where(columns.actor == plain(wanted.actor, 64))
        if wanted.since:
            query = query.where(columns.at >= wanted.since)
        if wanted.until:
            query = query.where(columns.at < wanted.until)
        if wanted.before:
            query = query.where(columns.id < wanted.before)
        newest = query.order_by(columns.id.desc()).limit(max(0, min(limit, MOST_LISTED)))
        with self._database.reading() as connection:
            return tuple(AuditEntry(**row) for row in connection.execute(newest).mappings())

    def forget_old(self, retain_days: int) -> int:
        """Remove what is older than so many days, 0 for nothing; how many there were."""
        if not retain_days:
            return 0
        with self._database.writing() as connection:
            oldest = stamp(self._database.now(connection) - timedelta(days=retain_days))
            return connection.execute(delete(audit).where(audit.c.at < oldest)).rowcount

    def _is_too_much(self, connection: Connection, row: Mapping[str, Any], now: datetime) -> bool:
        if row["actor"] == NODE or row["actor"].startswith(_OPERATORS):
            return False  # a user who can write the node's files needs no table to fill its disk
        recent = select(func.count()).where(
            audit.c.actor == row["actor"], audit.c.at >= stamp(now - _SPAN)
        )
        return (connection.scalar(recent) or 0) >= MOST_AN_HOUR

    def _count_up(
        self, connection: Connection, row: Mapping[str, Any], now: datetime, count: int
    ) -> None:
        """Add to the row that stands for many, which is made when there is none of this hour."""
        columns = audit.c
        same = select(columns.id, columns.details).where(
            columns.actor == row["actor"],
            columns.action == row["action"],
            columns.target == MANY,
            columns.at >= stamp(now - _SPAN),
        )
        found = connection.execute(same.limit(1).with_for_update()).first()
        if found is None:
            many = {**row, "target": MANY, "details": {"count": count}}
            connection.execute(insert(audit).values(**many))
            return
        total = int((found.details or {}).get("count", 0)) + count
        changed = update(audit).where(columns.id == found.id)
        connection.execute(changed.values(details={"count": total}))


def plain(text: str, most: int = _MOST_TEXT) -> str:
    """A text that every database takes, cut: no NUL, no half of a character."""
    cut = text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return cut.encode("utf-8", "replace").decode()


def _plain_details(value: Mapping[str, Any]) -> dict[str, Any]:
    details = {
        plain(str(name), 64): _plain_value(one, _DEEPEST)
        for name, one in list(value.items())[:_MOST_PARTS]
    }
    return details if len(json.dumps(details)) <= _MOST_DETAILS else {"cut": True}


def _plain_value(value: object, deep: int) -> object:
    """A value of JSON, small: of long texts and lists the beginning."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else plain(hex(value))
    if isinstance(value, Mapping) and deep:
        pairs = list(value.items())[:_MOST_PARTS]
        return {plain(str(name), 64): _plain_value(one, deep - 1) for name, one in pairs}
    if isinstance(value, list | tuple) and deep:
        return [_plain_value(one, deep - 1) for one in value[:_MOST_PARTS]]
    return plain(value if isinstance(value, str) else type(value).__name__)


# --- failed log-ins -------------------------------------------------------------------------------
# Any caller may try to log in: what is written of it is bounded in rows (`MOST_AN_HOUR`) and in how
# often it is written at all.

FAILED_LOG_IN = "log-in.failed"
_WRITTEN_EVERY_S = 10.0
_MOST_ADDRESSES = 100


class FailedLogIns:
    """Counts log-ins that failed, by address, and writes them now and then. Thread-safe."""

    def __init__(self, audit_of_node: Audit, database: Database) -> None:
        self._audit, self._database = audit_of_node, database
        self._counts: dict[str, int] = {}
        self._written_s = -_WRITTEN_EVERY_S
        self._lock = Lock()

    def note(self, address: str) -> None:
        """Count one; the first one is written at once, others some seconds later."""
        with self._lock:
            known = address in self._counts or len(self._counts) < _MOST_ADDRESSES
            name = address if known else ""
            self._counts[name] = self._counts.get(name, 0) + 1
            if monotonic() - self._written_s < _WRITTEN_EVERY_S:
                return
            self._written_s = monotonic()
        self.write()

    def write(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            counts, self._counts = self._counts, {}
        if not counts:
            return
        with self._database.writing() as connection:
            for address, count in counts.items():
                actor = Actor(UNKNOWN_CALLER, address)
                self._audit.write(connection, FAILED_LOG_IN, "page", actor=actor, count=count)
