"""Content that is gone for good, as an operator of the node said: `fsck --accept-loss`.

A file of its own because sweeps, backups, fsck, histories and pages all ask it. Without such a row
a sweep removes nothing while something that is needed is missing, since what the missing object
names cannot be known. Page: ``docs/node.md``, Losses that stay.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import delete, insert, select

from lillux.store_files import ObjectKind
from lillux.values import dataclass
from rye_services.audit import Audit, current_actor
from rye_services.database import Database, accepted_losses, stamp
from ryeos.sync.objects import ContentStore

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
