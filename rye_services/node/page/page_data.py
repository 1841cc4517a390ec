"""What the page shows of one user, read from the database and the user's store. Writes nothing."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, select

from lillux.errors import LilluxError
from lillux.store import Store
from lillux.store_files import Space
from rye_services.node.page.lanes import newest_first
from rye_services.node.page.model import (
    Absence,
    Conflict,
    Execution,
    History,
    Project,
    Side,
    Snapshot,
    Storage,
    Thread,
)
from rye_services.node.services import NodeServices
from rye_services.node.thread_rows import cut
from rye_services.tables import project_refs, threads, users

MOST_EXECUTIONS = 50
MOST_PROJECTS = 200
MOST_SNAPSHOTS = 200
LARGEST_SHOWN_BYTES = 200_000
MOST_SHOWN_CHARACTERS = 2_000_000
"""Of all conflicts of a page together; the sides of later ones are too long."""

_MOST_CONFLICTS = 1_000
_LONGEST_FIELD = 10_000
_LISTED = (
    "thread_id",
    "item_id",
    "project_path",
    "state",
    "created_at",
    "completed_at",
    "merge_conflicts",
    "merge_conflict_count",
    "error_message",
)
_ROW = (
    "thread_id",
    "state",
    "project_path",
    "execution_mode",
    "created_at",
    "completed_at",
    "system_version",
    "merge_type",
    "snapshot_hash",
    "unmerged_snapshot_hash",
    "execution_snapshot_hash",
    "runtime_outputs_bundle_hash",
    "error_phase",
    "error_message",
)


class PageData:
    """What one user may see."""

    def __init__(self, services: NodeServices, user_id: str) -> None:
        self._services, self._user_id = services, user_id

    @property
    def _store(self) -> Store:
        return self._services.stores.of(self._user_id)

    def storage(self) -> Storage:
        """Bytes stored and allowed."""
        query = select(users.c.stored_bytes).where(users.c.id == self._user_id)
        with self._services.database.reading() as connection:
            used = connection.scalar(query) or 0
        return Storage(used, self._services.settings.max_user_storage_bytes)

    def executions(self) -> tuple[Execution, ...]:
        """The newest executions."""
        columns = threads.c
        query = select(*(columns[name] for name in _LISTED)).where(
            columns.user_id == self._user_id, columns.remote_name == self._services.settings.name
        )
        query = query.order_by(columns.created_at.desc(), columns.thread_id).limit(MOST_EXECUTIONS)
        with self._services.database.reading() as connection:
            return tuple(_execution(row) for row in connection.execute(query))

    def projects(self) -> tuple[Project, ...]:
        """The projects with a HEAD, those that moved last first."""
        columns = project_refs.c
        query = self._heads().order_by(columns.head_updated_at.desc()).limit(MOST_PROJECTS)
        with self._services.database.reading() as connection:
            return tuple(_project(row) for row in connection.execute(query))

    def history(self, project_path: str) -> History | None:
        """The snapshots that lead to HEAD, merged ones too; None for a project that is not there.

        Snapshots that the store does not hold any more are left out: the rest is still true.
        """
        query = self._heads().where(project_refs.c.project_path == project_path)
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        project = _project(row)
        found, is_cut = self._ancestors(project.snapshot_hash)
        return History(project=project, snapshots=newest_first(found), is_cut=is_cut)

    def thread(self, thread_id: str) -> Thread | None:
        """An execution and its conflicts; None for one that is not this user's."""
        columns = threads.c
        query = select(threads).where(
            columns.thread_id == thread_id, columns.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        values = row._mapping  # noqa: SLF001 - the public name of a row's columns
        fields = {
            name.replace("_", " "): cut(str(values[name]), _LONGEST_FIELD)
            for name in _ROW
            if values[name]
        }
        conflicts, left = list[Conflict](), MOST_SHOWN_CHARACTERS
        for path, sides in _conflicts(row.merge_conflicts).items():
            conflict = self._conflict(path, sides, left)
            conflicts.append(conflict)
            left -= _characters(conflict)
        return Thread(execution=_execution(row), fields=fields, conflicts=tuple(conflicts))

    def _heads(self) -> Any:  # noqa: ANN401 - a select of SQLAlchemy
        columns = project_refs.c
        return select(project_refs).where(
            columns.user_id == self._user_id, columns.remote_name == self._services.settings.name
        )

    def _ancestors(self, head: str) -> tuple[dict[str, Snapshot], bool]:
        """The snapshots above HEAD, breadth first, so that what is cut off is the oldest."""
        store, found, waiting = self._store, dict[str, Snapshot](), [head]
        while waiting and len(found) < MOST_SNAPSHOTS:
            digest = waiting.pop(0)
            snapshot = _snapshot(store, digest) if digest not in found else None
            if snapshot is not None:
                found[digest] = snapshot
                waiting.extend(snapshot.parents)
        return found, any(digest not in found for digest in waiting)

    def _conflict(self, path: str, sides: Mapping[str, Any], left: int) -> Conflict:
        """With the texts of its sides, as long as ``left`` more characters may be shown."""
        most = min(LARGEST_SHOWN_BYTES, left)
        return Conflict(
            path=cut(path, _LONGEST_FIELD),
            kind=cut(str(sides.get("type", ""))),
            base=self._side(sides.get("base"), most),
            ours=self._side(sides.get("ours"), most),
            theirs=self._side(sides.get("theirs"), most),
        )

    def _side(self, digest: object, most: int) -> Side:
        if not isinstance(digest, str) or not digest:
            return Side(None, Absence.DELETED)
        store = self._store
        try:
            blob = _blob_of(store, digest)
            if (store.size(Space.BLOB, blob) or 0) > most:
                return Side(digest, Absence.TOO_LONG)
            data = store.get_blob(blob)
        except LilluxError:
            return Side(digest, Absence.LOST)
        try:
            return Side(digest, data.decode() if b"\0" not in data else Absence.BINARY)
        except UnicodeDecodeError:
            return Side(digest, Absence.BINARY)


def _blob_of(store: Store, digest: str) -> str:
    """The blob of an item, or the digest itself: a file is its blob."""
    if not store.has_object(digest):
        return digest
    value = store.get_object(digest)
    is_item = isinstance(value, dict) and value.get("kind") == "item_source"
    return str(value["content_blob_hash"]) if is_item else digest


def _characters(conflict: Conflict) -> int:
    sides = (conflict.base, conflict.ours, conflict.theirs)
    return sum(len(side.content) for side in sides)


def _snapshot(store: Store, digest: str) -> Snapshot | None:
    try:
        value = store.get_object(digest)
    except LilluxError:
        return None
    if not isinstance(value, dict) or value.get("kind") != "project_snapshot":
        return None
    metadata = value.get("metadata")
    thread_id = metadata.get("thread_id", "") if isinstance(metadata, dict) else ""
    return Snapshot(
        digest=digest,
        parents=tuple(str(parent) for parent in value.get("parent_hashes", ())),
        source=cut(str(value.get("source", ""))),
        detail=cut(str(value.get("source_detail", ""))),
        timestamp=cut(str(value.get("timestamp", ""))),
        thread_id=cut(str(thread_id)),
    )


def _conflicts(record: object) -> dict[str, Mapping[str, Any]]:
    """Path to sides; a record may instead say that all retries were used up."""
    if not isinstance(record, dict):
        return {}
    sides = {path: each for path, each in record.items() if isinstance(each, dict)}
    return dict(sorted(sides.items())[:_MOST_CONFLICTS])


def _execution(row: Row[Any]) -> Execution:
    return Execution(
        thread_id=row.thread_id,
        item_id=row.item_id,
        project_path=row.project_path,
        state=row.state,
        created_at=row.created_at,
        completed_at=row.completed_at or "",
        conflicts=row.merge_conflict_count or len(_conflicts(row.merge_conflicts)),
        error=cut(row.error_message or ""),
    )


def _project(row: Row[Any]) -> Project:
    return Project(
        project_path=row.project_path,
        snapshot_hash=row.snapshot_hash,
        revision=row.snapshot_revision,
        moved_at=row.head_updated_at,
    )
