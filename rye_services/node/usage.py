"""How many bytes each user has stored: a number that is kept, not measured at every request.

Room is reserved before it is used, so the number is never too small. A crash between the two leaves
it too large, until `Usage.measure` counts the files, as every collection of garbage does.
"""

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from lillux.errors import LilluxError
from lillux.store import Store
from lillux.store_files import Space
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.tables import users
from ryeos.items.context import Clock


class QuotaExceededError(LilluxError):
    """No room for more of a user. All sizes in bytes."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, used: int, more: int, limit: int) -> None:
        self.used, self.more, self.limit = used, more, limit
        super().__init__(
            f"storage quota exceeded: {limit} bytes allowed, {used} stored, {more} more sent",
            hint="ask whoever runs the node for a larger quota",
        )


class Usage:
    """The bytes stored of each user. Thread-safe, and so across processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def read(self, user_id: str, *, store: Store) -> int:
        """The bytes of a user; counted when the user is new to the database."""
        used = self._recorded(user_id)
        return self._begin(user_id, store) if used is None else used

    def reserve(self, user_id: str, more: int, *, max_bytes: int, store: Store) -> None:
        """Add bytes about to be stored. Raises QuotaExceededError, having added nothing."""
        if not more:
            return
        used = self.read(user_id, store=store)
        columns = users.c
        statement = (
            update(users)
            .where(columns.id == user_id, columns.stored_bytes + more <= max_bytes)
            .values(stored_bytes=columns.stored_bytes + more)
        )
        with self._database.writing() as connection:
            if connection.execute(statement).rowcount == 1:
                return
        raise QuotaExceededError(used, more, max_bytes)

    def add(self, user_id: str, more: int, *, store: Store) -> int:
        """Add bytes that were stored; a negative number of removed ones. The bytes now."""
        used = self.read(user_id, store=store)
        if more:
            columns = users.c
            statement = (
                update(users)
                .where(columns.id == user_id)
                .values(stored_bytes=columns.stored_bytes + more)
            )
            with self._database.writing() as connection:
                connection.execute(statement)
        return used + more

    def measure(self, user_id: str, *, store: Store) -> int:
        """Count the files and record it; what is added meanwhile stays added. The bytes now."""
        recorded = self._recorded(user_id)
        if recorded is None:
            return self._begin(user_id, store)
        return self.add(user_id, _count(store) - recorded, store=store)

    def _recorded(self, user_id: str) -> int | None:
        statement = select(users.c.stored_bytes).where(users.c.id == user_id)
        with self._database.reading() as connection:
            used = connection.execute(statement).scalar_one_or_none()
        return None if used is None else int(used)

    def _begin(self, user_id: str, store: Store) -> int:
        found = _count(store)
        row = {"id": user_id, "created_at": stamp(self._clock()), "stored_bytes": found}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(users).values(**row))
        except IntegrityError:  # another request was first, and counted the same
            return found
        return found


def _count(store: Store) -> int:
    return sum(stored.size for space in Space for stored in store.stored(space))
