"""How often something was pulled: counted in memory, written now and then.

A pull must not wait for a disk because it is counted; a server that is killed forgets the last few.
"""

from collections import Counter
from threading import Lock

from sqlalchemy import Column, Table, bindparam, update

from rye_services.database import Database


class Downloads:
    """The counts of the rows of one table, which has a ``download_count``. Thread-safe."""

    def __init__(self, database: Database, table: Table, key: Column[int] | Column[str]) -> None:
        self._database, self._table, self._key = database, table, key
        self._counted: Counter[int | str] = Counter()
        self._lock = Lock()

    def note(self, row: int | str) -> None:
        """Something was pulled."""
        with self._lock:
            self._counted[row] += 1

    def since(self, row: int | str) -> int:
        """How often since the last writing: to be added to what the row says."""
        with self._lock:
            return self._counted[row]

    def write(self) -> None:
        """Write what was counted."""
        with self._lock:
            counted, self._counted = self._counted, Counter()
        if not counted:
            return
        columns = self._table.c
        change = (
            update(self._table)
            .where(self._key == bindparam("row"))
            .values(download_count=columns.download_count + bindparam("more"))
        )
        with self._database.writing() as connection:
            connection.execute(change, [{"row": row, "more": n} for row, n in counted.items()])
