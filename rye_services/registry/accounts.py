"""Accounts: who publishes. Each has a name, API keys, and perhaps keys that it signs with.

An account's name is its user id for API keys, and what provenance says: ``rye-registry@NAME``.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.registry.names import folded_namespace, is_reserved, namespace_name
from rye_services.registry.tables import account_keys, accounts, namespaces
from rye_services.users import check_user_id, ensure_user
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

MAX_ACCOUNT_KEYS = 50
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class AccountError(RyeError):
    """An account that cannot be made, or changed so."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, name: str, problem: str, *, hint: str = "") -> None:
        self.name, self.problem = name, problem
        super().__init__(
            f"account {name[:80]!a}: {problem}",
            hint=hint or "list them with: rye-node.pyz accounts list",
        )


class AccountMissingError(RyeError):
    """No account has this name, or it was closed."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"account {name[:80]!a}: expected one that is open, found none",
            hint="whoever runs the registry makes one: rye-node.pyz accounts add NAME",
        )


class AccountQuotaError(RyeError):
    """No room for more of an account. All sizes in bytes."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, used: int, more: int, limit: int) -> None:
        self.used, self.more, self.limit = used, more, limit
        super().__init__(
            f"storage quota exceeded: {limit} bytes allowed, {used} stored, {more} more sent",
            hint="ask whoever runs the registry for a larger quota",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of an account. ``disabled_at`` None: it is open."""

    name: str
    created_at: str
    disabled_at: str | None
    stored_bytes: int


class Accounts:
    """The accounts in the database. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def add(self, name: str, *, reserved: bool = False) -> Account:
        """A new account. ``reserved``: also under a name that only the operator gives away.

        Raises RegistryNameError, AccountError.
        """
        namespace_name(check_user_id(name), "account")
        if _FINGERPRINT.fullmatch(name):
            raise AccountError(name, "looks like the fingerprint of a key", hint="choose a word")
        if is_reserved(name) and not reserved:
            raise AccountError(name, "this name is reserved", hint="choose another one")
        folded, now = folded_namespace(name), stamp(self._clock())
        try:
            with self._database.writing() as connection:
                owner = connection.scalar(
                    select(namespaces.c.owner).where(namespaces.c.folded == folded)
                )
                if owner not in {None, name}:
                    raise AccountError(name, f"a namespace of this name belongs to {owner}")
                ensure_user(connection, name, now)
                row = {"name": name, "folded": folded, "created_at": now, "stored_bytes": 0}
                connection.execute(insert(accounts).values(**row))
        except IntegrityError:
            raise AccountError(name, "there is one with this name, or one too like it") from None
        return Account(name=name, created_at=now, disabled_at=None, stored_bytes=0)

    def all(self) -> tuple[Account, ...]:
        """Every account, by name, closed ones too."""
        with self._database.reading() as connection:
            rows = connection.execute(select(accounts).order_by(accounts.c.name))
            return tuple(_account(row) for row in rows)

    def open_account(self, name: str) -> Account:
        """The account of this name. Raises AccountMissingError, also for a closed one."""
        with self._database.reading() as connection:
            row = connection.execute(select(accounts).where(accounts.c.name == name)).first()
        if row is None or row.disabled_at:
            raise AccountMissingError(name)
        return _account(row)

    def disable(self, name: str) -> None:
        """Let an account publish no longer; what it published stays. Raises AccountMissingError."""
        self._mark(name, stamp(self._clock()))

    def enable(self, name: str) -> None:
        """Open an account again. Raises AccountMissingError."""
        self._mark(name, None)

    def name_of(self, user_id: str) -> str:
        """The account behind a caller: the one that a fingerprint is a key of, or the id itself."""
        if not _FINGERPRINT.fullmatch(user_id):
            return user_id
        with self._database.reading() as connection:
            found = connection.scalar(
                select(account_keys.c.account).where(account_keys.c.fingerprint == user_id)
            )
        return user_id if found is None else str(found)

    def keys_of(self, name: str) -> Mapping[str, bytes]:
        """The PEMs of the keys that an account signs with, by fingerprint."""
        wanted = select(account_keys).where(account_keys.c.account == name)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(account_keys.c.created_at))
            return {row.fingerprint: row.public_pem.encode() for row in rows}

    def add_key(self, name: str, public_pem: bytes) -> str:
        """Let an account sign with a key; its fingerprint. The same once more changes nothing.

        Raises PemError, AccountMissingError, AccountError for a key of another account.
        """
        self.open_account(name)
        pem = canonical_public_pem(public_pem)
        fingerprint = compute_key_fingerprint(pem)
        with self._database.writing() as connection:
            known = select(account_keys.c.account).where(account_keys.c.fingerprint == fingerprint)
            owner = connection.scalar(known)
            if owner is not None and owner != name:
                raise AccountError(name, f"the key {fingerprint} belongs to another account")
            if owner is None:
                _check_room_for_key(connection, name)
                row = {"fingerprint": fingerprint, "account": name, "public_pem": pem.decode()}
                now = stamp(self._clock())
                connection.execute(insert(account_keys).values(**row, created_at=now))
        return fingerprint

    def remove_key(self, name: str, fingerprint: str) -> bool:
        """Let an account sign with a key no longer; whether it was one of its own."""
        columns = account_keys.c
        gone = account_keys.delete().where(
            columns.account == name, columns.fingerprint == fingerprint
        )
        with self._database.writing() as connection:
            return bool(connection.execute(gone).rowcount)

    def _mark(self, name: str, disabled_at: str | None) -> None:
        change = update(accounts).where(accounts.c.name == name).values(disabled_at=disabled_at)
        with self._database.writing() as connection:
            if not connection.execute(change).rowcount:
                raise AccountMissingError(name)


def reserve(connection: Connection, name: str, more: int, *, max_bytes: int) -> None:
    """Count bytes of an account; fewer with a negative number. Raises AccountQuotaError."""
    columns = accounts.c
    change = update(accounts).where(columns.name == name)
    if more > 0:
        change = change.where(columns.stored_bytes + more <= max_bytes)
    changed = connection.execute(change.values(stored_bytes=columns.stored_bytes + more)).rowcount
    if more > 0 and not changed:
        raise AccountQuotaError(_stored_bytes(connection, name), more, max_bytes)


def check_room(connection: Connection, name: str, more: int, *, max_bytes: int) -> None:
    """Raises AccountQuotaError where `reserve` would, as long as nothing else is published."""
    used = _stored_bytes(connection, name)
    if used + more > max_bytes:
        raise AccountQuotaError(used, more, max_bytes)


def _stored_bytes(connection: Connection, name: str) -> int:
    return int(
        connection.scalar(select(accounts.c.stored_bytes).where(accounts.c.name == name)) or 0
    )


def _check_room_for_key(connection: Connection, name: str) -> None:
    wanted = select(account_keys.c.fingerprint).where(account_keys.c.account == name)
    if len(connection.execute(wanted).all()) >= MAX_ACCOUNT_KEYS:
        raise AccountError(name, f"expected at most {MAX_ACCOUNT_KEYS} keys", hint="remove one")


def _account(row: Row[Any]) -> Account:
    return Account(
        name=row.name,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        stored_bytes=row.stored_bytes,
    )
