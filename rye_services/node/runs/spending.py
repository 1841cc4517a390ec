"""What threads of models may cost on a day, for each user and each team: a ledger in the database.

The most that a thread may cost is reserved before its execution begins, for all that pay for it:
the user, or the team and the member who started it. Afterwards what it cost takes the place of
that, also where a provider billed more. An execution that tells nothing, or whose server is gone,
stays charged with what was reserved.
"""

import os
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, func, insert, select, update

from lillux.values import dataclass, field
from rye_services.storage.database import Database, thread_spending

KEPT_DAYS = 2
_LOCK = "thread spending"
_MOST = 2**62
"""What a column holds; a price of a provider has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What was reserved for one attempt of an execution: nano-dollars, for each of its owners.

    ``seal_key`` is what the process that asks the models seals its figure with.
    """

    owners: Sequence[str]
    thread_id: str
    attempt: int
    amount: int
    seal_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The ledger. ``daily`` is what each owner may spend on a day, ``most`` what one thread may.

    ``hides_keys``: no tool of a run reads the memory of the process that asks the models.
    """

    database: Database
    daily: int
    most: int
    hides_keys: bool = True

    def reserve(
        self, owners: Sequence[str], thread_id: str, attempt: int, asked: int | None
    ) -> Grant:
        """Reserve what is asked for, as far as it is left for each owner; 0 where nothing is.

        A thread of a model that is free goes on with 0. Raises SQLAlchemyError.
        """
        columns = thread_spending.c
        with self.database.writing(lock=_LOCK) as connection:
            now = self.database.now(connection)
            day, oldest = (f"{one:%Y-%m-%d}" for one in (now, now - timedelta(days=KEPT_DAYS)))
            connection.execute(
                delete(thread_spending).where(columns.owner.in_(owners), columns.day < oldest)
            )
            spent = select(func.coalesce(func.sum(columns.amount), 0))
            left = [
                self.daily
                - int(connection.scalar(spent.where(columns.owner == one, columns.day >= day)) or 0)
                for one in owners
            ]
            wanted = self.most if asked is None else min(asked, self.most)
            grant = Grant(
                owners=tuple(dict.fromkeys(owners)),
                thread_id=thread_id,
                attempt=attempt,
                amount=max(min([wanted, *left]), 0),
                seal_key=os.urandom(32).hex(),
            )
            connection.execute(
                insert(thread_spending),
                [
                    {
                        "owner": one,
                        "thread_id": thread_id,
                        "attempt": attempt,
                        "day": day,
                        "amount": grant.amount,
                    }
                    for one in grant.owners
                ],
            )
        return grant

    def settle(self, grant: Grant, spent: int | None) -> None:
        """Put in what the thread cost; with None, for no figure, what was granted stays charged.

        Where a tool could have sealed the figure, no less than the grant is charged.
        Raises SQLAlchemyError.
        """
        if spent is None:
            return
        charged = min(spent if self.hides_keys else max(spent, grant.amount), _MOST)
        columns = thread_spending.c
        with self.database.writing() as connection:
            connection.execute(
                update(thread_spending)
                .where(
                    columns.owner.in_(grant.owners),
                    columns.thread_id == grant.thread_id,
                    columns.attempt == grant.attempt,
                )
                .values(amount=charged)
            )
