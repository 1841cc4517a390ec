"""Storage of users: their stores, and the removal of what the database does not reference.

Rules: ``docs/sync.md``, Garbage. History is never rewritten: a head keeps all that led to it.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select

from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.shapes import write
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass, field
from rye_services.node.queue.rows import OldExecutions
from rye_services.node.store.heads import Heads, UserSpaceRefs
from rye_services.node.store.objects import DurableStores, KnownItems, StoresOfUsers, Uploads, Usage
from rye_services.node.store.push import PushService
from rye_services.node.store.servers import ServerLease, ServersElsewhere
from rye_services.people.actors import current_actor
from rye_services.people.audit import Audit
from rye_services.process.metrics import Figure
from rye_services.settings import Settings
from rye_services.storage.database import (
    Database,
    accepted_losses,
    project_refs,
    published_manifests,
    stamp,
    sweeps,
    threads,
    user_space_refs,
    users,
)
from rye_services.web.http import StoreThreads
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore
from ryeos.sync.garbage import (
    Gap,
    GarbageRefusedError,
    MarkResult,
    Root,
    RootNeed,
    digests_in,
    mark,
    roots_of_refs,
    sweep,
)
from ryeos.sync.references import ObjectReference

# --- losses ---------------------------------------------------------------------------------------
# Content that is gone for good, as an operator of the node said: `fsck --accept-loss`. Without such
# a row a sweep removes nothing while something that is needed is missing, since what the missing
# object names cannot be known. Page: ``docs/node.md``, Accepted losses.

ACTION = "storage.accept-loss"
"""What the audit calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedLoss:
    """One digest that is gone for good.

    space        ``blob``, ``object``, or ``content`` where it could be either
    root         what named it first, in words
    accepted_at  ISO 8601, UTC
    """

    digest: str
    space: str
    root: str
    accepted_at: str
    accepted_by: str


class AcceptedLosses:
    """The accepted losses of all users. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database, self._audit = database, Audit(database)

    def of(self, user_id: str) -> Mapping[str, AcceptedLoss]:
        """Those of one user, by digest. Raises SQLAlchemyError."""
        columns = accepted_losses.c
        query = select(accepted_losses).where(columns.user_id == user_id).order_by(columns.digest)
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings().all()
        names = AcceptedLoss.__slots__
        return {row["digest"]: AcceptedLoss(**{name: row[name] for name in names}) for row in rows}

    def one(self, user_id: str, digest: str) -> AcceptedLoss | None:
        """The row of one digest; None where it was not accepted. Raises SQLAlchemyError."""
        return self.of(user_id).get(digest)

    def accept(self, user_id: str, losses: Iterable[tuple[str, str, str]]) -> int:
        """Write digest, space and root of each, and an entry of the audit for each; how many."""
        known, count = self.of(user_id), 0
        with self._database.writing(lock=f"losses {user_id}") as connection:
            now = stamp(self._database.now(connection))
            for digest, space, root in losses:
                if digest in known:
                    continue
                row = {"user_id": user_id, "digest": digest, "space": space, "root": root}
                more = {"accepted_at": now, "accepted_by": current_actor().name[:64]}
                connection.execute(insert(accepted_losses).values(**row, **more))
                details = {"user_id": user_id, "space": space, "root": root}
                self._audit.write(connection, ACTION, digest, details)
                count += 1
        return count

    def forget_found(self, user_id: str, store: ContentStore) -> int:
        """Remove the rows of what is in the store again; how many there were."""
        found = [
            digest
            for digest in self.of(user_id)
            if any(store.size(space, digest) is not None for space in ObjectKind)
        ]
        self._remove(user_id, found)
        return len(found)

    def _remove(self, user_id: str, digests: Collection[str]) -> None:
        if not digests:
            return
        columns = accepted_losses.c
        gone = delete(accepted_losses).where(
            columns.user_id == user_id, columns.digest.in_(digests)
        )
        with self._database.writing() as connection:
            connection.execute(gone)


# --- stores of users ------------------------------------------------------------------------------

# Each has a user in it, and names objects in its columns.
_NAMING: tuple[Table, ...] = (project_refs, user_space_refs, threads, published_manifests)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserGarbage:
    """What a collection did for one user, or would do.

    state         ``done``; ``uploading``: nothing was looked at; ``busy``: the same, as a backup or
                  another collection is at work; ``refused``: ``problem`` says why, with paths
                  of the node, ``cause`` without them, ``hint`` what to do
    stored_bytes  what is left
    forgotten     executions that ended longer ago than they are kept
    """

    user_id: str
    state: Literal["done", "uploading", "busy", "refused"]
    removed: int = 0
    freed_bytes: int = 0
    kept: int = 0
    stored_bytes: int = 0
    forgotten: int = 0
    code: str = ""
    problem: str = ""
    cause: str = ""
    hint: str = ""


class ContentMissingError(RyeError):
    """Something that has to be there is not, so nothing is removed. ``gaps`` are all of them."""

    code = "INTEGRITY"

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self.gaps = tuple(gaps)
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        super().__init__(
            f"nothing was removed: {gaps[0].root} leads to {described(gaps[0])}, which is missing"
            f"{more}",
            hint=FSCK_HINT,
        )


class UserUnknownError(RyeError):
    """A store of a user whom the database does not know: all of it would be garbage."""

    code = "WRONG_DATABASE"

    def __init__(self, user_id: str, *, knows_others: bool) -> None:
        self.user_id = user_id
        whom = f"user {user_id}" if knows_others else "any user"
        super().__init__(
            f"nothing was removed: {user_id} has a store, and the database does not know {whom}",
            hint="is this the database of this data folder? the server and the command must have"
            " the same settings; if the database is older than the files, `rye-node.pyz fsck`"
            " says what it lacks, and the user's next push makes them known",
        )


FSCK_HINT = "`rye-node.pyz fsck` names all that is missing, and what brings it back"
LOCK = "storage.lock"
"""Below the data: held by a sweep, and by a backup, which copies what must not go."""

LOCK_WAIT_S = 10.0
_NEARLY = 0.9  # of an interval: servers that count it from different times take turns


@contextmanager
def storage_alone(database: Database, lock: Path) -> Iterator[None]:
    """No other sweep, backup or repair works on the stores meanwhile, on whatever server.

    Raises LockTimeoutError, FileSystemError, SQLAlchemyError.
    """
    with locked(lock, timeout_s=LOCK_WAIT_S), database.alone("storage") as is_alone:
        if not is_alone:
            raise LockTimeoutError(f"{LOCK} of another server", 0.0)
        yield


def described(gap: Gap) -> str:
    """What is missing, in words."""
    space = gap.reference.space
    return f"{'content' if space is None else space.value} {gap.reference.digest}"


def _cause(error: LilluxError) -> str:
    """Why nothing was removed, in words that name no place of the node."""
    if isinstance(error, ContentMissingError | UserUnknownError):
        return str(error)
    what = error.name if isinstance(error, GarbageRefusedError) else "a file of the store"
    return f"nothing was removed: {what} cannot be read"


class Storage:
    """The stores of all users, as a whole. Thread-safe, and so across processes."""

    def __init__(
        self,
        *,
        database: Database,
        stores: StoresOfUsers,
        usage: Usage,
        uploads: Uploads,
        old_executions: OldExecutions,
        clock: Clock,
        grace_s: float,
        lock: Path,
    ) -> None:
        self._database, self._stores, self._usage = database, stores, usage
        self._uploads, self._old_executions = uploads, old_executions
        self._clock, self._grace_s, self._lock = clock, grace_s, lock
        self.losses, self.sweeps = AcceptedLosses(database), Sweeps(database)

    def collect_if_due(self, every_s: float) -> tuple[UserGarbage, ...]:
        """As `collect`, unless another server has done it within so many seconds, or does it now.

        A node of one machine has no others: there it is always due. Raises as `collect`.
        """
        with self._database.alone("periodic sweep") as is_alone:
            if not is_alone or self._was_done_elsewhere(every_s):
                return ()
            return self.collect()

    def _was_done_elsewhere(self, every_s: float) -> bool:
        last = None if self._database.is_sqlite else next(iter(self.sweeps.listed(1)), None)
        if last is None:
            return False
        age_s = self._clock().timestamp() - datetime.fromisoformat(last.started_at).timestamp()
        # One of the future is of a server whose clock is wrong, and says nothing.
        return last.was_whole and 0.0 <= age_s < every_s * _NEARLY

    def collect(self, *, dry_run: bool = False) -> tuple[UserGarbage, ...]:
        """Remove what nothing names, user by user. What is wrong with one does not stop the rest.

        It is recorded, unless it is a dry run. Raises SQLAlchemyError, FileSystemError.
        """
        names, began, began_s = self._stores.users(), stamp(self._clock()), monotonic()
        try:
            with storage_alone(self._database, self._lock):
                found = tuple(self.collect_of(user, dry_run=dry_run) for user in names)
        except LockTimeoutError:
            found = tuple(UserGarbage(user_id=user, state="busy") for user in names)
        if not dry_run:
            self.sweeps.record(began, monotonic() - began_s, found)
        return found

    def collect_of(self, user_id: str, *, dry_run: bool = False) -> UserGarbage:
        """Remove what nothing of a user names. No other process may do so meanwhile.

        1. a user who uploads right now is left alone: what they send is named at the end
        2. the database is asked what it names; one that does not know the user is not theirs
        3. what that leads to stays. If any of it is missing nothing is removed: what it names
           cannot be known
        4. executions that ended long ago are forgotten
        5. what was stored or asked for within the grace stays; the rest goes
        6. what is left is counted, so that an error in the kept number does not live on

        Raises SQLAlchemyError, UserIdError.
        """
        store, old = self._stores.of(user_id), self._old_executions
        if not dry_run and self._uploads.is_going_on(user_id):  # (1)
            return UserGarbage(user_id=user_id, state="uploading")
        try:
            marked = self._mark(user_id, store)  # (2) and (3)
            forgotten = old.count(user_id) if dry_run else old.forget(user_id)  # (4)
            now_s = self._now_s(store)
            found = sweep(  # (5)
                store, marked, now_s=now_s, grace_s=self._grace_s, dry_run=dry_run
            )
            left = self._usage.measure(user_id, store=store)  # (6)
        except LilluxError as error:
            _log.warning("garbage of %s stays: %s", user_id, error)
            return UserGarbage(
                user_id=user_id,
                state="refused",
                code=error.code,
                problem=str(error),
                cause=_cause(error),
                hint=error.hint if isinstance(error, UserUnknownError) else FSCK_HINT,
            )
        _log.info(
            "garbage of %s: %s removed, %s bytes, %s executions",
            *(user_id, found.removed, found.freed_bytes, forgotten),
        )
        return UserGarbage(
            user_id=user_id,
            state="done",
            removed=found.removed,
            freed_bytes=found.freed_bytes,
            kept=found.kept,
            stored_bytes=left,
            forgotten=forgotten,
        )

    def _now_s(self, store: ContentStore) -> float:
        """The time by the clock that says how old a content is: of a bucket, the database's."""
        if store.folder is not None:
            return self._clock().timestamp()
        with self._database.reading() as connection:
            return self._database.now(connection).timestamp()

    def roots(self, user_id: str) -> tuple[Root, ...]:
        """What the rows of a user name. Raises UserUnknownError, SQLAlchemyError."""
        with self._database.reading() as connection:
            if not is_known(connection, user_id):
                knows_others = any(is_known(connection, one) for one in self._stores.users())
                raise UserUnknownError(user_id, knows_others=knows_others)
            return tuple(roots_of_rows(connection, user_id, self._old_executions.are_kept()))

    def _mark(self, user_id: str, store: ContentStore) -> MarkResult:
        marked = mark(store, [*self.roots(user_id), *roots_of_refs(store)])
        accepted = self.losses.of(user_id) if marked.gaps else {}
        gaps = [gap for gap in marked.gaps if gap.reference.digest not in accepted]
        if gaps:
            raise ContentMissingError(gaps)
        return marked


# --- sweeps of the past ---------------------------------------------------------------------------
# Each collection over all stores, by a server, a route, a page or a command: when it began, how
# long it took, what it removed, and which stores it left alone, and why.

_MOST_SWEEPS, _MOST_LEFT_ALONE = 1000, 50
_LONGEST_CAUSE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A collection that is over.

    started_by        a user, ``command:NAME``, or ``node`` for the server itself
    stores            how many there were
    left_alone        the first stores that were not swept: user_id, state, code, problem
    left_alone_count  how many there were of those
    """

    id: int
    started_at: str
    took_s: float
    started_by: str
    stores: int
    removed: int
    freed_bytes: int
    kept: int
    forgotten: int
    left_alone: tuple[Mapping[str, str], ...] = field(default_factory=tuple)
    left_alone_count: int

    @property
    def was_whole(self) -> bool:
        """Whether it did not find another one, or a backup, at work."""
        return not any(one.get("state") == "busy" for one in self.left_alone)

    @property
    def refused(self) -> int:
        """How many of the stores that are named were refused."""
        return sum(one.get("state") == "refused" for one in self.left_alone)

    def as_answer(self) -> dict[str, Any]:
        """The sweep as ``--json`` has it."""
        return write(self)


class Sweeps:
    """The last sweeps, of all servers on this database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, started_at: str, took_s: float, found: Sequence[UserGarbage]) -> None:
        """Write a sweep that is over; old ones go. Raises SQLAlchemyError."""
        left = [one for one in found if one.state != "done"]
        left.sort(key=lambda one: (one.state != "refused", one.user_id))
        named = [
            {
                "user_id": one.user_id,
                "state": one.state,
                "code": one.code,
                "problem": one.cause[:_LONGEST_CAUSE],
            }
            for one in left[:_MOST_LEFT_ALONE]
        ]
        values = {
            "started_at": started_at,
            "took_s": took_s,
            "started_by": current_actor().name[:64],
            "stores": len(found),
            "removed": sum(one.removed for one in found),
            "freed_bytes": sum(one.freed_bytes for one in found),
            "kept": sum(one.kept for one in found),
            "forgotten": sum(one.forgotten for one in found),
            "left_alone": named or None,
            "left_alone_count": len(left),
        }
        newest = select(sweeps.c.id).order_by(sweeps.c.id.desc()).limit(_MOST_SWEEPS)
        with self._database.writing() as connection:
            connection.execute(insert(sweeps).values(**values))
            connection.execute(delete(sweeps).where(sweeps.c.id.not_in(newest)))

    def listed(self, limit: int) -> tuple[Sweep, ...]:
        """The newest first. Raises SQLAlchemyError."""
        query = select(sweeps).order_by(sweeps.c.id.desc()).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings().all()
        return tuple(Sweep(**{**row, "left_alone": tuple(row["left_alone"] or ())}) for row in rows)

    def figures(self) -> Sequence[Figure]:
        """What `Metrics` shows of the last sweep; nothing before the first. Raises as `listed`."""
        last = next(iter(self.listed(1)), None)
        if last is None:
            return ()
        began_s = datetime.fromisoformat(last.started_at).timestamp()
        named = (
            ("timestamp_seconds", "When stores were swept last", began_s + last.took_s),
            ("duration_seconds", "How long the last sweep took", last.took_s),
            ("removed_objects", "Objects that the last sweep removed", last.removed),
            ("freed_bytes", "Bytes that the last sweep freed", last.freed_bytes),
            ("left_alone_stores", "Stores that the last sweep left", last.left_alone_count),
        )
        figures = [Figure(name=f"rye_last_sweep_{a}", words=b, values={"": c}) for a, b, c in named]
        kept = Figure(
            name="rye_stored_objects",
            words="Blobs and objects that the last sweep left",
            values={"": last.kept},
        )
        return (*figures, kept)


# --- roots ----------------------------------------------------------------------------------------
# What the rows of a user name in their store.

_SNAPSHOTS = ("snapshot_hash", "project_manifest_hash", "user_manifest_hash")
_OF_THREADS = (*_SNAPSHOTS, "unmerged_snapshot_hash", "runtime_outputs_bundle_hash")
# What a run has stored itself may name what never was there.
_OF_RUNS = ("execution_snapshot_hash", "result_hash")
_SIDES = ("base", "ours", "theirs")


def is_known(connection: Connection, user_id: str) -> bool:
    """Whether the database knows a user who has something stored."""
    tables = (users.c.id, *(table.c.user_id for table in _NAMING))
    return any(
        connection.execute(select(column).where(column == user_id).limit(1)).first()
        for column in tables
    )


def roots_of_rows(
    connection: Connection, user_id: str, are_kept: ColumnElement[bool]
) -> Iterator[Root]:
    """Everything in the rows of a user that are kept, each once: what it is, and what names it.

    Columns that are there to name content are needed. Any other digest is kept if it is there, as
    it may be a text of the user's. ``are_kept``: of rows of ``threads``.
    """
    for table in _NAMING:
        statement = select(table).where(table.c.user_id == user_id)
        if table is threads:
            statement = statement.where(are_kept)
        for row in connection.execute(statement).mappings():
            yield from _roots_of(table, dict(row))


def _roots_of(table: Table, row: dict[str, Any]) -> Iterator[Root]:
    if table is project_refs:
        name = f"the head of project {row['project_path']!a} ({row['remote_name']})"
        yield from _needed_roots(row, _SNAPSHOTS, name, RootNeed.WHOLE)
    elif table is user_space_refs:
        name = f"the user space ({row['remote_name']})"
        yield from _needed_roots(row, ("user_manifest_hash",), name, RootNeed.WHOLE)
    elif table is published_manifests:
        name = f"the publication {row['kind']}:{row['item_id']}@{row['version']}"
        yield from _needed_roots(row, ("manifest_hash",), name, RootNeed.WHOLE)
    else:
        name = f"the execution {row['thread_id']}"
        yield from _needed_roots(row, _OF_THREADS, name, RootNeed.WHOLE)
        yield from _needed_roots(row, _OF_RUNS, name, RootNeed.ITSELF)
        yield from _sides(row["merge_conflicts"], name)
        yield from (Root(ObjectReference(one, None), name) for one in digests_in(row))


def _needed_roots(
    row: Mapping[str, Any], columns: Iterable[str], name: str, need: RootNeed
) -> Iterator[Root]:
    for column in columns:
        if is_digest(row[column]):
            yield Root(ObjectReference(row[column], ObjectKind.OBJECT), name, need)


def _sides(conflicts: object, name: str) -> Iterator[Root]:
    """The sides of conflicts: of a file its blob, of an item its object."""
    if isinstance(conflicts, dict):
        for conflict in conflicts.values():
            for side in _SIDES:
                digest = conflict.get(side) if isinstance(conflict, dict) else None
                if is_digest(digest):
                    yield Root(ObjectReference(str(digest), None), name, RootNeed.ITSELF)


# --- sync services --------------------------------------------------------------------------------
# What pushes, uploads and executions share: made once at the start of a node.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncServices:
    """The parts of a node that keep what users push."""

    heads: Heads
    user_spaces: UserSpaceRefs
    known_items: KnownItems
    durable: DurableStores
    uploads: Uploads
    usage: Usage
    pushing: PushService
    storage: Storage
    threads: StoreThreads


def open_sync(
    settings: Settings,
    database: Database,
    stores: StoresOfUsers,
    clock: Clock,
    presence: ServerLease,
) -> SyncServices:
    """The parts on the data of a node. Nothing is read or written yet."""
    heads, user_spaces = Heads(database), UserSpaceRefs(database)
    known_items = KnownItems()
    durable = DurableStores(ServersElsewhere() if settings.is_cluster else presence)
    uploads, usage = Uploads(database, clock), Usage(database, clock)
    return SyncServices(
        heads=heads,
        user_spaces=user_spaces,
        known_items=known_items,
        durable=durable,
        uploads=uploads,
        usage=usage,
        pushing=PushService(
            heads=heads,
            user_spaces=user_spaces,
            known=known_items,
            durable=durable,
            clock=clock,
            remote_name=settings.name,
            compatible_versions=settings.compatible_versions,
        ),
        storage=Storage(
            database=database,
            stores=stores,
            usage=usage,
            uploads=uploads,
            old_executions=OldExecutions(database, clock, settings.retain_executions_days),
            clock=clock,
            grace_s=settings.gc_grace_s,
            lock=settings.data_dir / LOCK,
        ),
        threads=StoreThreads(),
    )
