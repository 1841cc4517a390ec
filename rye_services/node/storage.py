"""Storage of users: their stores, and the removal of what the database does not reference.

Rules: ``docs/sync.md``, Garbage. History is never rewritten: a head keeps all that led to it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sqlalchemy import Table, select

from lillux.errors import LilluxError
from lillux.store_files import is_digest
from lillux.values import dataclass
from rye_services.database import (
    Database,
    project_refs,
    published_manifests,
    threads,
    user_space_refs,
)
from rye_services.http import StoreThreads
from rye_services.node.heads import Heads, UserSpaceRefs
from rye_services.node.objects import Durable, KnownItems, Uploads, Usage, UserStores
from rye_services.node.push import Pushing
from rye_services.node.rows import OldExecutions
from rye_services.node.servers import ServerLease
from rye_services.settings import Settings
from ryeos.items.context import Clock
from ryeos.sync.garbage import collect_garbage

# Each has a user in it, and names objects in its columns.
_NAMING: tuple[Table, ...] = (project_refs, user_space_refs, threads, published_manifests)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserGarbage:
    """What a collection did for one user, or would do.

    state         ``done``; ``uploading``: nothing was looked at; ``refused``: ``problem`` says why,
                  with paths of the node, ``code`` for everybody
    stored_bytes  what is left
    forgotten     executions that ended longer ago than they are kept
    """

    user_id: str
    state: Literal["done", "uploading", "refused"]
    removed: int = 0
    freed_bytes: int = 0
    kept: int = 0
    stored_bytes: int = 0
    forgotten: int = 0
    code: str = ""
    problem: str = ""


class Storage:
    """The stores of all users, as a whole. Thread-safe, and so across processes."""

    def __init__(
        self,
        *,
        database: Database,
        stores: UserStores,
        usage: Usage,
        uploads: Uploads,
        old_executions: OldExecutions,
        clock: Clock,
        grace_s: float,
    ) -> None:
        self._database, self._stores, self._usage = database, stores, usage
        self._uploads, self._old_executions = uploads, old_executions
        self._clock, self._grace_s = clock, grace_s

    def collect(self, *, dry_run: bool = False) -> tuple[UserGarbage, ...]:
        """Remove what nothing names, user by user. What is wrong with one does not stop the rest.

        Raises SQLAlchemyError.
        """
        return tuple(self.collect_of(user, dry_run=dry_run) for user in self._stores.users())

    def collect_of(self, user_id: str, *, dry_run: bool = False) -> UserGarbage:
        """Remove what nothing of a user names.

        1. whoever uploads right now is left alone: what they send is named at the end
        2. executions that ended long ago are forgotten
        3. the database is asked what it names
        4. what that leads to stays, and what was stored or asked for within the grace; the
           rest goes
        5. what is left is counted, so that an error in the kept number does not live on

        Raises SQLAlchemyError, UserIdError.
        """
        store = self._stores.of(user_id)
        if not dry_run and self._uploads.is_going_on(user_id):  # (1)
            return UserGarbage(user_id=user_id, state="uploading")
        old = self._old_executions
        forgotten = old.count(user_id) if dry_run else old.forget(user_id)  # (2)
        try:
            found = collect_garbage(  # (3) and (4)
                store,
                set(self.roots(user_id)),
                now_s=self._clock().timestamp(),
                grace_s=self._grace_s,
                dry_run=dry_run,
            )
            left = self._usage.measure(user_id, store=store)  # (5)
        except LilluxError as error:
            _log.warning("garbage of %s stays: %s", user_id, error)
            return UserGarbage(
                user_id=user_id,
                state="refused",
                forgotten=forgotten,
                code=error.code,
                problem=str(error),
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

    def roots(self, user_id: str) -> Iterator[str]:
        """Every digest in the rows of a user that are kept: heads, spaces, threads, published."""
        with self._database.reading() as connection:
            for table in _NAMING:
                statement = select(table).where(table.c.user_id == user_id)
                if table is threads:
                    statement = statement.where(self._old_executions.are_kept())
                for row in connection.execute(statement).mappings():
                    yield from _digests_in(dict(row))


def _digests_in(value: object) -> Iterator[str]:
    match value:
        case str() if is_digest(value):
            yield value
        case Mapping():
            for child in value.values():
                yield from _digests_in(child)
        case Sequence() if not isinstance(value, str | bytes):
            for child in value:
                yield from _digests_in(child)


# --- sync services --------------------------------------------------------------------------------
# What pushes, uploads and executions share: made once at the start of a node.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncServices:
    """The parts of a node that keep what users push."""

    heads: Heads
    user_spaces: UserSpaceRefs
    known_items: KnownItems
    durable: Durable
    uploads: Uploads
    usage: Usage
    pushing: Pushing
    storage: Storage
    threads: StoreThreads


def open_sync(
    settings: Settings,
    database: Database,
    stores: UserStores,
    clock: Clock,
    presence: ServerLease,
) -> SyncServices:
    """The parts on the data of a node. Nothing is read or written yet."""
    heads, user_spaces = Heads(database), UserSpaceRefs(database)
    known_items, durable = KnownItems(), Durable(presence)
    uploads, usage = Uploads(database, clock), Usage(database, clock)
    return SyncServices(
        heads=heads,
        user_spaces=user_spaces,
        known_items=known_items,
        durable=durable,
        uploads=uploads,
        usage=usage,
        pushing=Pushing(
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
        ),
        threads=StoreThreads(),
    )
