"""Which user space of each user is the present one, and the one function that changes that."""

from datetime import datetime

from sqlalchemy import ColumnElement, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from lillux.values import dataclass
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.tables import user_space_refs


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
        statement = select(user_space_refs).where(_key(user_id, remote_name))
        with self._database.reading() as connection:
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
            .where(_key(user_id, remote_name), columns.snapshot_revision == expected_revision)
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


def _key(user_id: str, remote_name: str) -> ColumnElement[bool]:
    columns = user_space_refs.c
    return and_(columns.user_id == user_id, columns.remote_name == remote_name)
