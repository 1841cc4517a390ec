"""The head of each project, and the one function that moves it.

A head names a snapshot. It moves by compare-and-swap, one statement in the database, so of any
number of pushes and executions that start from the same head exactly one gets through. What the new
head leads to has to be on the disk before it moves: `rye_services.node.store.objects`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from lillux.canonical_json import compute_integrity
from lillux.shapes import Key, write
from lillux.store_errors import ObjectChangedError, ObjectMissingError, ObjectUnreadableError
from lillux.store_layout import ObjectKind
from lillux.values import dataclass
from rye_services.storage.database import Database, from_row, project_refs, stamp, user_space_refs
from ryeos.sync.contents import ContentStore
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import PUSH, ProjectSnapshot, snapshot_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of one project of one user.

    revision             1 for the first, one more with every move
    user_manifest_hash   the user space that its snapshot was made with, or None
    pushed_at            of the first push or the last move, as ISO 8601 in UTC
    """

    snapshot_hash: str
    revision: Annotated[int, Key("snapshot_revision")]
    project_manifest_hash: str
    user_manifest_hash: str | None
    system_version: str
    pushed_at: Annotated[str, Key("head_updated_at")]


class Heads:
    """The heads of all projects. Thread-safe, and so across processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, user_id: str, remote_name: str, project_path: str) -> Head | None:
        """The head of a project as it is now, None for a project never pushed."""
        statement = select(project_refs).where(_head_row(user_id, remote_name, project_path))
        with self._database.single_read() as connection:
            row = connection.execute(statement).mappings().one_or_none()
        return None if row is None else _head(row)

    def hold(
        self, connection: Connection, user_id: str, remote_name: str, project_path: str
    ) -> bool:
        """Keep a project its owner's to the end of a transaction; False where it is not."""
        row = select(project_refs.c.snapshot_hash).where(
            _head_row(user_id, remote_name, project_path)
        )
        return connection.scalar(row.with_for_update(read=True)) is not None

    def of(self, user_id: str) -> tuple[tuple[str, str, Head], ...]:
        """All heads of a user: the name of the node, the project, the head; sorted."""
        columns = project_refs.c
        statement = select(project_refs).where(columns.user_id == user_id)
        statement = statement.order_by(columns.project_path, columns.remote_name)
        with self._database.reading() as connection:
            rows = connection.execute(statement).mappings().all()
        return tuple((row["remote_name"], row["project_path"], _head(row)) for row in rows)

    def advance(
        self,
        user_id: str,
        remote_name: str,
        project_path: str,
        *,
        expected: Head | None,
        snapshot_hash: str,
        project_manifest_hash: str,
        user_manifest_hash: str | None,
        system_version: str,
        now: datetime,
        first: Callable[[Connection], None] = lambda _: None,
    ) -> Head | None:
        """Move the head from ``expected`` to a snapshot; None when it is no longer there.

        ``first`` is done first in the same transaction, and may raise. ``expected`` None begins
        the project. Nothing else in the node writes heads. The head that comes back is the one that
        was made here: by now others may have moved it on.
        """
        time = stamp(now)
        key = {"user_id": user_id, "remote_name": remote_name, "project_path": project_path}
        revision = expected.revision + 1 if expected else 1
        made = Head(
            snapshot_hash=snapshot_hash,
            revision=revision,
            project_manifest_hash=project_manifest_hash,
            user_manifest_hash=user_manifest_hash,
            system_version=system_version,
            pushed_at=time,
        )
        values = {**write(made), "pushed_at": time}
        if expected is None:
            return made if self._begin({**key, **values}, first) else None
        columns = project_refs.c
        statement = (
            update(project_refs)
            .where(
                _head_row(user_id, remote_name, project_path),
                columns.snapshot_revision == expected.revision,
                columns.snapshot_hash == expected.snapshot_hash,
            )
            .values(**values)
        )
        with self._database.writing() as connection:
            first(connection)
            return made if connection.execute(statement).rowcount == 1 else None

    def _begin(self, row: Mapping[str, Any], first: Callable[[Connection], None]) -> bool:
        statement = insert(project_refs).values(**row)
        try:
            with self._database.writing() as connection:
                first(connection)
                connection.execute(statement)
        except IntegrityError:  # another request began it
            return False
        return True


def _head_row(user_id: str, remote_name: str, project_path: str) -> ColumnElement[bool]:
    columns = project_refs.c
    return and_(
        columns.user_id == user_id,
        columns.remote_name == remote_name,
        columns.project_path == project_path,
    )


def _head(row: RowMapping) -> Head:
    return from_row(Head, row)


# --- user space refs ------------------------------------------------------------------------------
# Which user space of each user is the present one, and the one function that changes that.


@dataclass(frozen=True, slots=True)
class UserSpaceRef:
    """The user space of a user. ``revision``: 1 for the first, one more with every push."""

    user_manifest_hash: str
    revision: int
    pushed_at: str


class UserSpaceRefs:
    """The user spaces of all users. Thread-safe, and so across processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, user_id: str, remote_name: str) -> UserSpaceRef | None:
        """The user space as it is now, None for one never pushed."""
        statement = select(user_space_refs).where(_user_space_row(user_id, remote_name))
        with self._database.single_read() as connection:
            row = connection.execute(statement).mappings().one_or_none()
        if row is None:
            return None
        return UserSpaceRef(row["user_manifest_hash"], row["snapshot_revision"], row["pushed_at"])

    def advance(
        self,
        user_id: str,
        remote_name: str,
        *,
        expected_revision: int | None,
        user_manifest_hash: str,
        now: datetime,
    ) -> UserSpaceRef | None:
        """Put another in the place of a revision; None is "there is none yet".

        What comes back is what was put there, None when it was not as expected.
        """
        revision = 1 if expected_revision is None else expected_revision + 1
        made = UserSpaceRef(user_manifest_hash, revision, stamp(now))
        values = {"user_manifest_hash": user_manifest_hash, "pushed_at": made.pushed_at}
        if expected_revision is None:
            row = {"user_id": user_id, "remote_name": remote_name, **values}
            return made if self._begin(row) else None
        columns = user_space_refs.c
        statement = (
            update(user_space_refs)
            .where(
                _user_space_row(user_id, remote_name),
                columns.snapshot_revision == expected_revision,
            )
            .values(snapshot_revision=revision, **values)
        )
        with self._database.writing() as connection:
            return made if connection.execute(statement).rowcount == 1 else None

    def _begin(self, row: dict[str, str]) -> bool:
        statement = insert(user_space_refs).values(snapshot_revision=1, **row)
        try:
            with self._database.writing() as connection:
                connection.execute(statement)
        except IntegrityError:  # another push was first
            return False
        return True


def _user_space_row(user_id: str, remote_name: str) -> ColumnElement[bool]:
    columns = user_space_refs.c
    return and_(columns.user_id == user_id, columns.remote_name == remote_name)


# --- history --------------------------------------------------------------------------------------
# The snapshots that led to a head: the first parent of each, which is the mainline.


def first_parents(store: ContentStore, snapshot_hash: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each snapshot with its digest, from the given one back.

    Ends at the first one, and at one that is not there or not sound: what lies behind it cannot
    be known. A digest is that of its content, so no chain comes back to itself.
    """
    digest: str | None = snapshot_hash
    while digest:
        try:
            value = store.get_object(digest)
            snapshot = snapshot_of(value, f"project_snapshot {digest}")
        except (ObjectMissingError, ObjectChangedError, ObjectUnreadableError, CasObjectError):
            return
        yield digest, value
        digest = snapshot.parent_hashes[0] if snapshot.parent_hashes else None


# --- lost heads -----------------------------------------------------------------------------------
# A head whose snapshot is gone, or damaged: a failed disk, or files older than the database.

_LOST = "lost"


def is_lost(store: ContentStore, head: Head) -> bool:
    """Whether the snapshot of a head cannot be read."""
    return next(first_parents(store, head.snapshot_hash), None) is None


def made_again(store: ContentStore, head: Head) -> dict[str, Any] | None:
    """The snapshot of a head that a push made, bit for bit; None where that cannot be.

    All of it is in the row of the head, but for its parent: that is the one of the snapshots which
    are there with which the digest is right.
    """
    for parent in (None, *stored_snapshots(store)):
        snapshot = ProjectSnapshot(
            project_manifest_hash=head.project_manifest_hash,
            user_manifest_hash=head.user_manifest_hash,
            parent_hashes=() if parent is None else (parent,),
            source=PUSH,
            timestamp=head.pushed_at,
        ).as_object()
        if compute_integrity(snapshot) == head.snapshot_hash:
            return snapshot
    return None


def keep_loose_ends(store: ContentStore, heads: Collection[str]) -> tuple[str, ...]:
    """Write a ref for each newest snapshot that no other names and that is not one of these heads.

    What is behind a lost head is one: without a ref a sweep would take the history that is left.
    Their digests. Raises FileSystemError.
    """
    found = stored_snapshots(store)
    parents = {parent for snapshot in found.values() for parent in snapshot.parent_hashes}
    loose = tuple(sorted(found.keys() - parents - {*heads}))
    for digest in loose:
        store.write_ref(f"{_LOST}/{digest}", {"hash": digest})
    return loose


def stored_snapshots(store: ContentStore) -> dict[str, ProjectSnapshot]:
    """Every sound snapshot in a store, by digest: each object is read. Raises FileSystemError."""
    found = {}
    for stored in store.stored(ObjectKind.OBJECT):
        try:
            value = store.get_object(stored.digest)
            found[stored.digest] = snapshot_of(value, f"project_snapshot {stored.digest}")
        except (ObjectMissingError, ObjectChangedError, ObjectUnreadableError, CasObjectError):
            continue
    return found


# --- project names --------------------------------------------------------------------------------
# What a project may be called on a node. A name like ``me/project``: opaque, and no path.

MAX_LENGTH = 1024
MAX_BYTES = 2048
"""In UTF-8: PostgreSQL keeps no more in an index, and SQLite should not answer otherwise."""


def valid_project_path(project_path: str) -> str:
    """The name itself. Raises ValueError in the words for a caller."""
    if not project_path:
        raise ValueError("expected the name of a project, found an empty text")
    if len(project_path) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters, found {len(project_path)}")
    if not project_path.isprintable():  # nor half a surrogate pair, which no database holds
        raise ValueError("expected characters that can be printed")
    if (size := len(project_path.encode())) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes in UTF-8, found {size}")
    return project_path
