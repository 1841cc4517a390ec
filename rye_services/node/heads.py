"""Where the head of each project is, and the one function that moves it.

A head names a snapshot. It moves by compare-and-swap, one statement in the database, so of any
number of pushes and executions that start from the same head exactly one gets through. What the new
head leads to has to be on the disk before it moves: `rye_services.node.durable`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from lillux.values import dataclass
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.tables import project_refs


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of one project of one user.

    revision             1 for the first, one more with every move
    user_manifest_hash   the user space that its snapshot was made with, None for none
    pushed_at            of the first push or the last move, as ISO 8601 in UTC
    """

    snapshot_hash: str
    revision: int
    project_manifest_hash: str
    user_manifest_hash: str | None
    system_version: str
    pushed_at: str


class Heads:
    """The heads of all projects. Thread-safe, and so across processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, user_id: str, remote_name: str, project_path: str) -> Head | None:
        """The head of a project as it is now, None for a project never pushed."""
        statement = select(project_refs).where(_key(user_id, remote_name, project_path))
        with self._database.reading() as connection:
            row = connection.execute(statement).mappings().one_or_none()
        return None if row is None else _head(row)

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
    ) -> Head | None:
        """Move the head from ``expected`` to a snapshot; None when it is no longer there.

        ``expected`` None begins the project. Nothing else in the node writes heads. The head that
        comes back is the one that was made here: by now others may have moved it on.
        """
        moment = stamp(now)
        values = {
            "snapshot_hash": snapshot_hash,
            "project_manifest_hash": project_manifest_hash,
            "user_manifest_hash": user_manifest_hash,
            "system_version": system_version,
            "pushed_at": moment,
            "head_updated_at": moment,
        }
        key = {"user_id": user_id, "remote_name": remote_name, "project_path": project_path}
        revision = expected.revision + 1 if expected else 1
        made = Head(
            snapshot_hash=snapshot_hash,
            revision=revision,
            project_manifest_hash=project_manifest_hash,
            user_manifest_hash=user_manifest_hash,
            system_version=system_version,
            pushed_at=moment,
        )
        if expected is None:
            return made if self._begin({**key, **values, "snapshot_revision": revision}) else None
        columns = project_refs.c
        statement = (
            update(project_refs)
            .where(
                _key(user_id, remote_name, project_path),
                columns.snapshot_revision == expected.revision,
                columns.snapshot_hash == expected.snapshot_hash,
            )
            .values(snapshot_revision=revision, **values)
        )
        with self._database.writing() as connection:
            return made if connection.execute(statement).rowcount == 1 else None

    def _begin(self, row: Mapping[str, Any]) -> bool:
        statement = insert(project_refs).values(**row)
        try:
            with self._database.writing() as connection:
                connection.execute(statement)
        except IntegrityError:  # somebody else began it
            return False
        return True


def _key(user_id: str, remote_name: str, project_path: str) -> ColumnElement[bool]:
    columns = project_refs.c
    return and_(
        columns.user_id == user_id,
        columns.remote_name == remote_name,
        columns.project_path == project_path,
    )


def _head(row: RowMapping) -> Head:
    return Head(
        snapshot_hash=row["snapshot_hash"],
        revision=row["snapshot_revision"],
        project_manifest_hash=row["project_manifest_hash"],
        user_manifest_hash=row["user_manifest_hash"],
        system_version=row["system_version"],
        pushed_at=row["head_updated_at"],
    )
