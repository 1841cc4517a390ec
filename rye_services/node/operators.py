"""What the operator of a node sees: users, their quotas, and the executions of all.

It is for the command line of the node (`rye_services.operations.operator_commands`): no route shows
a user anything of another one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select, true, update

from lillux.shapes import write
from lillux.values import dataclass
from rye_services.node.queue.rows import RUNNING
from rye_services.people.audit import Audit
from rye_services.people.credentials import AuthorizedKey, ensure_user, valid_user_id
from rye_services.people.people import PersonMissingError
from rye_services.storage.database import (
    Database,
    api_keys,
    project_refs,
    request_nonces,
    stamp,
    threads,
    users,
)
from ryeos.items.errors import RyeError, UsageError

# --- users ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUser:
    """A user who has a key, a store or executions.

    quota_bytes  what was set for them; None for the setting of the node
    last_seen    of what was noted of them, the newest: ISO 8601, UTC; "" for nothing at all
    """

    id: str
    created_at: str = ""
    stored_bytes: int = 0
    quota_bytes: int | None = None
    heads: int = 0
    executions: int = 0
    running: int = 0
    last_seen: str = ""

    def as_answer(self, default_bytes: int) -> dict[str, Any]:
        """The user as ``--json`` shows them; ``allowed_bytes`` is what counts."""
        own = self.quota_bytes
        return {**write(self), "allowed_bytes": default_bytes if own is None else own}


class Users:
    """The users of a node. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> tuple[KnownUser, ...]:
        """All users, by id."""
        found: dict[str, dict[str, Any]] = defaultdict(lambda: {"seen": []})
        with self._database.reading() as connection:
            for row in connection.execute(select(users)).mappings():
                own = {name: row[name] for name in ("created_at", "stored_bytes", "quota_bytes")}
                found[row["id"]] |= own
            head = project_refs.c
            for user, count, moved in connection.execute(
                select(head.user_id, func.count(), func.max(head.head_updated_at)).group_by(
                    head.user_id
                )
            ):
                found[user] |= {"heads": count}
                found[user]["seen"].append(moved)
            ran = threads.c
            is_running = func.count(ran.thread_id).filter(ran.state == RUNNING)
            for user, count, running, last in connection.execute(
                select(ran.user_id, func.count(), is_running, func.max(ran.created_at)).group_by(
                    ran.user_id
                )
            ):
                found[user] |= {"executions": count, "running": running}
                found[user]["seen"].append(last)
            key = api_keys.c
            for user, used in connection.execute(
                select(key.user_id, func.max(key.last_used_at)).group_by(key.user_id)
            ):
                found[user]["seen"].append(used)
            nonce = request_nonces.c
            for user, seen_s in connection.execute(
                select(nonce.fingerprint, func.max(nonce.seen_at_s)).group_by(nonce.fingerprint)
            ):
                if user in found:  # sessions of pages are kept there too
                    found[user]["seen"].append(stamp(datetime.fromtimestamp(seen_s, UTC)))
        return tuple(_known_user(user, found[user]) for user in sorted(found))

    def one(self, user_id: str) -> KnownUser:
        """A user. Raises PersonMissingError."""
        for user in self.all():
            if user.id == user_id:
                return user
        raise PersonMissingError(user_id)

    def meant(self, typed: str, keys: Iterable[AuthorizedKey]) -> KnownUser:
        """The user whom an operator means: by id, the beginning of one, or the label of a key.

        A key that may sign requests is a user, also one that was never here. Raises
        PersonMissingError, and UsageError where it is the beginning of several.
        """
        known = {one.id: one for one in self.all()}
        labels: dict[str, list[str]] = defaultdict(list)
        for key in keys:
            known.setdefault(key.fingerprint, KnownUser(id=key.fingerprint))
            labels[key.label].append(key.fingerprint)
        user_id = typed.removeprefix("fp:")
        if user_id in known:
            return known[user_id]
        found = labels.get(typed) or _beginning(user_id, known)
        if not found:
            raise PersonMissingError(user_id)
        return known[the_only(typed, "user", found)]

    def set_quota(self, user_id: str, quota_bytes: int | None, *, has_key: bool) -> None:
        """How much a user may store from now on; None: as the setting says.

        ``has_key``: they have an authorised key, and need not have been here before.
        Raises PersonMissingError, UserIdError.
        """
        valid_user_id(user_id)
        audit = Audit(self._database)
        with self._database.writing() as connection:
            if has_key:
                ensure_user(connection, user_id, stamp(self._database.now(connection)))
            before = select(users.c.quota_bytes).where(users.c.id == user_id).with_for_update()
            row = connection.execute(before).first()
            if row is None:
                raise PersonMissingError(user_id)
            change = update(users).where(users.c.id == user_id)
            connection.execute(change.values(quota_bytes=quota_bytes))
            details = {"before": row.quota_bytes, "bytes": quota_bytes}
            audit.write(connection, "quota.set", user_id, details)


def _beginning(typed: str, known: Iterable[str]) -> list[str]:
    return [one for one in known if typed and one.startswith(typed)]


def the_only(typed: str, what: str, found: Sequence[str]) -> str:
    """What is meant by a text of several that it may mean. Raises UsageError for more than one."""
    if len(found) == 1:
        return found[0]
    several = ", ".join(found[:_MOST_NAMED])
    raise UsageError(f"{what} {typed[:80]!a}: expected one, it may be any of {several}")


_MOST_NAMED = 5


def _known_user(user_id: str, found: Mapping[str, Any]) -> KnownUser:
    values = {name: value for name, value in found.items() if name != "seen"}
    return KnownUser(id=user_id, last_seen=max(filter(None, found["seen"]), default=""), **values)


# --- jobs -----------------------------------------------------------------------------------------

WAITING = "waiting"
"""The state of an execution that was accepted and not begun; its row says running."""

_SHOWN = ("thread_id", "user_id", "item_id", "project_path", "created_at", "started_at")
_ALSO_SHOWN = ("completed_at", "attempt", "cancelled_by", "error_message", "log_bytes")


class Jobs:
    """The executions of all users. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listed(self, *, user_id: str = "", state: str = "", limit: int) -> list[dict[str, Any]]:
        """Executions, the newest first; an empty text is any."""
        columns = threads.c
        shown = [columns[name] for name in (*_SHOWN, "state", *_ALSO_SHOWN)]
        query = select(*shown).where(_is_in(state))
        if user_id:
            query = query.where(columns.user_id == user_id)
        newest = query.order_by(columns.created_at.desc(), columns.thread_id.desc()).limit(limit)
        with self._database.reading() as connection:
            return [_job(dict(row)) for row in connection.execute(newest).mappings()]

    def one(self, thread_id: str) -> dict[str, Any]:
        """One execution, by its id or the beginning of it.

        Raises RyeError `ITEM_NOT_FOUND`, and UsageError for the beginning of several.
        """
        columns = threads.c
        shown = [columns[name] for name in (*_SHOWN, "state", *_ALSO_SHOWN)]
        begins = columns.thread_id.startswith(thread_id, autoescape=True)
        with self._database.reading() as connection:
            one = select(*shown).where(columns.thread_id == thread_id)
            row = connection.execute(one).mappings().first()
            if row is None and thread_id:
                found = connection.execute(select(*shown).where(begins).limit(_MOST_NAMED))
                rows = {str(one["thread_id"]): one for one in found.mappings()}
                row = rows[the_only(thread_id, "execution", list(rows))] if rows else None
        if row is None:
            raise RyeError(
                f"execution {thread_id[:300]!a}: expected one of this node, found none",
                code="ITEM_NOT_FOUND",
                hint="list them with: rye-node.pyz jobs list",
            )
        return _job(dict(row))


def _is_in(state: str) -> ColumnElement[bool]:
    if not state:
        return true()
    if state == WAITING:
        return and_(threads.c.state == RUNNING, threads.c.started_at.is_(None))
    if state == RUNNING:
        return and_(threads.c.state == RUNNING, threads.c.started_at.is_not(None))
    return threads.c.state == state


def _job(row: dict[str, Any]) -> dict[str, Any]:
    is_waiting = row["state"] == RUNNING and row["started_at"] is None
    return {**row, "state": WAITING if is_waiting else row["state"]}
