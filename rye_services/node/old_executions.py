"""Executions that ended long ago: how long their rows are kept, and the removal of the rest.

The row of a run whose change nobody could merge is kept however old it is: what the run made
hangs on it. Rules: ``docs/sync.md``, Garbage.
"""

from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, false, func, not_, select

from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.node.thread_rows import RUNNING
from rye_services.tables import threads
from ryeos.items.context import Clock

_AT_ONCE = 500
"""Rows of one transaction: nothing else is written meanwhile."""


class OldExecutions:
    """The executions of all users that ended more than so many days ago; 0 days are for ever."""

    def __init__(self, database: Database, clock: Clock, retain_days: int) -> None:
        self._database, self._clock, self._retain_days = database, clock, retain_days

    def are_old(self) -> ColumnElement[bool]:
        """Whether a row of ``threads`` is one of them, as of now."""
        if not self._retain_days:
            return false()
        columns = threads.c
        return and_(
            columns.state != RUNNING,
            columns.completed_at < stamp(self._clock() - timedelta(days=self._retain_days)),
            columns.unmerged_snapshot_hash.is_(None),
        )

    def are_kept(self) -> ColumnElement[bool]:
        """Whether a row of ``threads`` is none of them."""
        return not_(func.coalesce(self.are_old(), false()))

    def count(self, user_id: str) -> int:
        """How many there are of a user. Raises SQLAlchemyError."""
        query = select(func.count()).where(threads.c.user_id == user_id, self.are_old())
        with self._database.reading() as connection:
            return int(connection.scalar(query) or 0)

    def forget(self, user_id: str) -> int:
        """Remove those of a user, some at a time; how many there were. Raises SQLAlchemyError."""
        columns, total = threads.c, 0
        old = and_(columns.user_id == user_id, self.are_old())
        some = select(columns.thread_id).where(old).limit(_AT_ONCE)
        while True:
            with self._database.writing() as connection:
                statement = delete(threads).where(columns.thread_id.in_(some))
                removed = connection.execute(statement).rowcount
            total += removed
            if removed < _AT_ONCE:
                return total
