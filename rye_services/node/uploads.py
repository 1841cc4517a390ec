"""Who is uploading right now: no garbage of theirs is collected, however long an upload takes.

A row for each user, renewed by what an upload consists of and gone with the push that ends it. One
that is given up ends by itself.
"""

from threading import Lock

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from rye_services.database import Database
from rye_services.tables import uploads_in_flight
from ryeos.items.context import Clock

LEASE_S = 900.0
_RENEWED_AFTER_S = 60.0


class Uploads:
    """The uploads in flight of all users. Thread-safe, and so across processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._renewed: dict[str, float] = {}  # so that most requests write nothing
        self._lock = Lock()

    def renew(self, user_id: str) -> None:
        """Say that a user is uploading."""
        now_s = self._clock().timestamp()
        with self._lock:
            if now_s - self._renewed.get(user_id, 0.0) < _RENEWED_AFTER_S:
                return
            self._renewed[user_id] = now_s
        if not self._extend(user_id, now_s):
            self._begin(user_id, now_s)

    def end(self, user_id: str) -> None:
        """Say that the upload is complete and something names it."""
        with self._lock:
            known = self._renewed.pop(user_id, None)
        if known is None:
            return
        with self._database.writing() as connection:
            connection.execute(delete(uploads_in_flight).where(uploads_in_flight.c.id == user_id))

    def is_going_on(self, user_id: str) -> bool:
        """Whether the user is uploading, as far as anybody knows."""
        until = uploads_in_flight.c.lease_until_s
        statement = select(until).where(uploads_in_flight.c.user_id == user_id)
        now_s = self._clock().timestamp()
        with self._database.reading() as connection:
            return any(until_s > now_s for until_s in connection.execute(statement).scalars())

    def _extend(self, user_id: str, now_s: float) -> bool:
        statement = (
            update(uploads_in_flight)
            .where(uploads_in_flight.c.id == user_id)
            .values(lease_until_s=now_s + LEASE_S)
        )
        with self._database.writing() as connection:
            return bool(connection.execute(statement).rowcount == 1)

    def _begin(self, user_id: str, now_s: float) -> None:
        row = {
            "id": user_id,
            "user_id": user_id,
            "started_at_s": now_s,
            "lease_until_s": now_s + LEASE_S,
        }
        try:
            with self._database.writing() as connection:
                connection.execute(insert(uploads_in_flight).values(**row))
        except IntegrityError:  # another request of the same upload was first
            return
