"""Namespaces: the first segment of an id, and whose it is. First come, and never taken over.

The name of an account is a namespace that nobody else gets. Names that differ by case alone, or by
``-`` and ``_``, are one.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select
from sqlalchemy.exc import IntegrityError

from lillux.values import dataclass
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.registry.names import folded_namespace, is_reserved, namespace_name
from rye_services.registry.tables import accounts, namespaces
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

MAX_NAMESPACES = 20
"""Of one account: claims cost nothing, and nobody else gets what is claimed."""


class NamespaceError(RyeError):
    """A namespace that somebody may not have."""

    code, exit_status = "PERMISSION_DENIED", 4

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(
            f"namespace {name[:80]!a}: {problem}",
            hint="publish below a namespace of your own; your account's name is one",
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """A claimed namespace: its owner is an account, or the fingerprint of a key without one."""

    name: str
    owner: str
    claimed_at: str


class Namespaces:
    """The claimed namespaces. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def claim(
        self,
        name: str,
        owner: str,
        *,
        reserved: bool = False,
        claim: Mapping[str, Any] | None = None,
    ) -> bool:
        """Let an owner have a namespace; False where it was theirs before.

        ``reserved``: the operator gives it, also one that is reserved. Raises RegistryNameError,
        NamespaceError.
        """
        with self._database.writing() as connection:
            return claim_in(
                connection, name, owner, stamp(self._clock()), reserved=reserved, claim=claim
            )

    def owner_of(self, name: str) -> str | None:
        """Whose it is, None for nobody's."""
        return None if (found := self.find(name)) is None else found.owner

    def find(self, name: str) -> Namespace | None:
        """The claimed namespace of this name."""
        wanted = select(namespaces).where(namespaces.c.folded == folded_namespace(name))
        with self._database.reading() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else _namespace(row)

    def of(self, owner: str) -> tuple[Namespace, ...]:
        """Everything that an owner claimed, by name."""
        wanted = select(namespaces).where(namespaces.c.owner == owner).order_by(namespaces.c.name)
        with self._database.reading() as connection:
            return tuple(_namespace(row) for row in connection.execute(wanted))


def claim_in(
    connection: Connection,
    name: str,
    owner: str,
    now: str,
    *,
    reserved: bool = False,
    claim: Mapping[str, Any] | None = None,
) -> bool:
    """As `Namespaces.claim`, in a transaction of the caller's: a failed publication claims none."""
    folded = folded_namespace(namespace_name(name))
    found = connection.execute(select(namespaces).where(namespaces.c.folded == folded)).first()
    if found is not None and found.owner != owner:
        raise NamespaceError(name, "it belongs to somebody else")
    if found is not None and found.name != name:  # else one place would have two spellings
        raise NamespaceError(name, f"it is yours as {found.name}: spell it so")
    if found is not None:
        return False
    if not reserved:
        _check_claimable(connection, name, folded, owner)
    row = {"folded": folded, "name": name, "owner": owner, "claimed_at": now}
    try:
        connection.execute(insert(namespaces).values(**row, claim=claim and dict(claim)))
    except IntegrityError:  # somebody else was first, just now
        raise NamespaceError(name, "it belongs to somebody else") from None
    return True


def _check_claimable(connection: Connection, name: str, folded: str, owner: str) -> None:
    named = connection.scalar(select(accounts.c.name).where(accounts.c.folded == folded))
    if named is not None and named != owner:
        raise NamespaceError(name, "it is the name of another account")
    if is_reserved(name) and named is None:
        raise NamespaceError(name, "it is reserved")
    count = select(func.count()).select_from(namespaces).where(namespaces.c.owner == owner)
    if named is None and (connection.scalar(count) or 0) >= MAX_NAMESPACES:
        raise NamespaceError(name, f"expected at most {MAX_NAMESPACES} of one owner")


def _namespace(row: Row[Any]) -> Namespace:
    return Namespace(row.name, row.owner, row.claimed_at)
