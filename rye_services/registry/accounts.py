"""Accounts of publishers: names, API keys, signing keys, quotas.

An account's name is its user id for API keys, and what provenance says: ``rye-registry@NAME``.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from sqlalchemy import Connection, Row, func, insert, select, update

from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass
from rye_services.names import folded_namespace, is_reserved, namespace_name
from rye_services.people.audit import Audit
from rye_services.people.callers import Owner, authenticate, authenticator, owner_caller
from rye_services.people.credentials import (
    REGISTRY_READ,
    REGISTRY_WRITE,
    Principal,
    Role,
    ensure_user,
    valid_user_id,
)
from rye_services.process.keys import NodeKeys
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database, from_row, hold, stamp, users
from rye_services.storage.registry_tables import account_keys, accounts, namespaces
from rye_services.web.openapi import OPTIONAL_CALLER
from ryeos.items.context import Clock, utc_now
from ryeos.remote.identity import decode_public_key
from ryeos.remote.signed_documents import verify_document

MAX_ACCOUNT_KEYS = 50
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def _account_error(name: str, problem: str, *, hint: str = "") -> RefusedError:
    """The error of an account that cannot be made, or changed so."""
    hint = hint or "list them with: rye-node.pyz accounts list"
    return RefusedError(f"account {name[:80]!a}: {problem}", code="CONFLICT", hint=hint)


def _account_missing(name: str) -> RefusedError:
    """The error of a name that no account has, or a closed one: a caller without one is refused."""
    return RefusedError(
        f"account {name[:80]!a}: expected one that is open, found none",
        code="ITEM_NOT_FOUND",
        hint="the operator of the registry makes one: rye-node.pyz accounts add NAME",
        status=403,
    )


def _quota_error(used: int, more: int, limit: int) -> RefusedError:
    """The error of an account that has no room for more. All sizes in bytes."""
    return RefusedError(
        f"storage quota exceeded: {limit} bytes allowed, {used} stored, {more} more sent",
        code="RESOURCE_EXCEEDED",
        hint="ask the operator of the registry for a larger quota",
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
        self._audit = Audit(database)

    def add(self, name: str, *, reserved: bool = False) -> Account:
        """A new account. ``reserved``: also under a name that only the operator gives away.

        Raises RegistryNameError, RefusedError `CONFLICT`.
        """
        namespace_name(valid_user_id(name), "account")
        if _FINGERPRINT.fullmatch(name):
            raise _account_error(name, "looks like the fingerprint of a key", hint="choose a word")
        if is_reserved(name) and not reserved:
            raise _account_error(name, "this name is reserved", hint="choose another one")
        folded, now = folded_namespace(name), stamp(self._clock())
        with self._database.writing(lock=name_lock(name)) as connection:
            owner = connection.scalar(
                select(namespaces.c.owner).where(namespaces.c.folded == folded)
            )
            if owner not in {None, name}:
                raise _account_error(name, f"a namespace of this name belongs to {owner}")
            alike = select(accounts.c.name).where(accounts.c.folded == folded)
            if connection.scalar(alike) is not None:
                raise _account_error(name, "there is one with this name, or one too like it")
            _require_no_other_user(connection, name, folded)
            ensure_user(connection, name, now)
            row = {"name": name, "folded": folded, "created_at": now, "stored_bytes": 0}
            connection.execute(insert(accounts).values(**row))
            self._audit.write(connection, "accounts.add", name)
        return Account(name=name, created_at=now, disabled_at=None, stored_bytes=0)

    def all(self) -> tuple[Account, ...]:
        """Every account, by name, closed ones too."""
        with self._database.reading() as connection:
            rows = connection.execute(select(accounts).order_by(accounts.c.name))
            return tuple(_account(row) for row in rows)

    def find(self, name: str) -> Account | None:
        """The account of this name, closed ones too."""
        with self._database.reading() as connection:
            row = connection.execute(select(accounts).where(accounts.c.name == name)).first()
        return None if row is None else _account(row)

    def open_account(self, name: str) -> Account:
        """The account of this name. Raises RefusedError, also for a closed one."""
        found = self.find(name)
        if found is None or found.disabled_at:
            raise _account_missing(name)
        return found

    def disable(self, name: str) -> None:
        """Close an account; what it published stays. Raises RefusedError `ITEM_NOT_FOUND`."""
        self._mark(name, stamp(self._clock()), "accounts.disable")

    def enable(self, name: str) -> None:
        """Open an account again. Raises RefusedError `ITEM_NOT_FOUND`."""
        self._mark(name, None, "accounts.enable")

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

    def key_dates(self, name: str) -> Mapping[str, str]:
        """When each key of an account was registered, by fingerprint."""
        wanted = select(account_keys).where(account_keys.c.account == name)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(account_keys.c.created_at))
            return {row.fingerprint: row.created_at for row in rows}

    def add_key(self, name: str, public_pem: bytes) -> str:
        """Let an account sign with a key; its fingerprint. The same once more changes nothing.

        Raises PemError, RefusedError `ITEM_NOT_FOUND`, `CONFLICT` for a key of another account.
        """
        self.open_account(name)
        pem = canonical_public_pem(public_pem)
        fingerprint = compute_key_fingerprint(pem)
        with self._database.writing(lock=f"signing key {fingerprint}") as connection:
            hold(connection, owner_lock(name))
            known = select(account_keys.c.account).where(account_keys.c.fingerprint == fingerprint)
            owner = connection.scalar(known)
            if owner is not None and owner != name:
                raise _account_error(name, f"the key {fingerprint} belongs to another account")
            if owner is None:
                _require_room_for_key(connection, name)
                row = {"fingerprint": fingerprint, "account": name, "public_pem": pem.decode()}
                now = stamp(self._clock())
                connection.execute(insert(account_keys).values(**row, created_at=now))
                details = {"fingerprint": fingerprint}
                self._audit.write(connection, "accounts.add-key", name, details)
        return fingerprint

    def remove_key(self, name: str, fingerprint: str) -> bool:
        """Remove a key that an account signs with; whether it was one of its own."""
        columns = account_keys.c
        gone = account_keys.delete().where(
            columns.account == name, columns.fingerprint == fingerprint
        )
        with self._database.writing() as connection:
            was_theirs = bool(connection.execute(gone).rowcount)
            if was_theirs:
                details = {"fingerprint": fingerprint}
                self._audit.write(connection, "accounts.remove-key", name, details)
        return was_theirs

    def _mark(self, name: str, disabled_at: str | None, action: str) -> None:
        change = update(accounts).where(accounts.c.name == name).values(disabled_at=disabled_at)
        with self._database.writing() as connection:
            if not connection.execute(change).rowcount:
                raise _account_missing(name)
            self._audit.write(connection, action, name)


def _require_no_other_user(connection: Connection, name: str, folded: str) -> None:
    """Raises RefusedError where a person or a team has a name like it; one of the same name has it.

    So a team publishes: under an account of its name, which the operator makes.
    """
    alike = func.replace(func.lower(users.c.id), "_", "-") == folded
    found = connection.scalar(select(users.c.id).where(alike, users.c.id != name).limit(1))
    if found is not None:
        raise _account_error(name, f"{found} is a user of this node, or a team, and too like it")


def reserve(connection: Connection, name: str, more: int, *, max_bytes: int) -> None:
    """Count bytes of an account; fewer with a negative number. Raises RefusedError."""
    columns = accounts.c
    change = update(accounts).where(columns.name == name)
    if more > 0:
        max_bytes = allowed_bytes(connection, name, max_bytes)
        change = change.where(columns.stored_bytes + more <= max_bytes)
    changed = connection.execute(change.values(stored_bytes=columns.stored_bytes + more)).rowcount
    if more > 0 and not changed:
        raise _quota_error(_stored_bytes(connection, name), more, max_bytes)


def require_room(connection: Connection, name: str, more: int, *, max_bytes: int) -> None:
    """Raises RefusedError where `reserve` would, as long as nothing else is published."""
    used, max_bytes = _stored_bytes(connection, name), allowed_bytes(connection, name, max_bytes)
    if used + more > max_bytes:
        raise _quota_error(used, more, max_bytes)


def allowed_bytes(connection: Connection, name: str, default: int) -> int:
    """How much an account may store: the quota of its user, where one was set."""
    own = connection.scalar(select(users.c.quota_bytes).where(users.c.id == name))
    return default if own is None else int(own)


def _stored_bytes(connection: Connection, name: str) -> int:
    return int(
        connection.scalar(select(accounts.c.stored_bytes).where(accounts.c.name == name)) or 0
    )


def _require_room_for_key(connection: Connection, name: str) -> None:
    wanted = select(account_keys.c.fingerprint).where(account_keys.c.account == name)
    if len(connection.execute(wanted).all()) >= MAX_ACCOUNT_KEYS:
        raise _account_error(name, f"expected at most {MAX_ACCOUNT_KEYS} keys", hint="remove one")


def _account(row: Row[Any]) -> Account:
    return from_row(Account, row)


# --- namespaces -----------------------------------------------------------------------------------
# Namespaces: the first segment of an id, and whose it is. First come, and never taken over.
#
# The name of an account is a namespace that no other account gets. Names that differ by case, or
# by ``-`` and ``_``, are one.

MAX_NAMESPACES = 20
"""Of one account: claims cost nothing, and no other account gets what is claimed."""


def namespace_error(name: str, problem: str) -> RefusedError:
    """The error of a namespace that an account may not have."""
    return RefusedError(
        f"namespace {name[:80]!a}: {problem}",
        code="PERMISSION_DENIED",
        hint="publish below a namespace of your own; your account's name is one",
    )


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace and whose it is."""

    name: str
    owner: str  # an account, or the fingerprint of a key without one
    claimed_at: str


class Namespaces:
    """The claimed namespaces. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._audit = Audit(database)

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
        RefusedError `PERMISSION_DENIED`.
        """
        with self._database.writing(lock=name_lock(name)) as connection:
            is_new = claim_in(
                connection, name, owner, stamp(self._clock()), reserved=reserved, claim=claim
            )
            if is_new:
                action = "accounts.grant" if reserved else "namespaces.claim"
                self._audit.write(connection, action, name, {"owner": owner})
        return is_new

    def owner_of(self, name: str) -> str | None:
        """Whose it is, None where it is free."""
        return None if (found := self.find(name)) is None else found.owner

    def find(self, name: str) -> NamespaceFacts | None:
        """The claimed namespace of this name."""
        wanted = select(namespaces).where(namespaces.c.folded == folded_namespace(name))
        with self._database.reading() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else _namespace(row)

    def of(self, owner: str) -> tuple[NamespaceFacts, ...]:
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
    """As `Namespaces.claim`, in a transaction of the caller's: a failed publication claims none.

    The caller has the `name_lock` of the name.
    """
    folded = folded_namespace(namespace_name(name))
    found = connection.execute(select(namespaces).where(namespaces.c.folded == folded)).first()
    if found is not None and found.owner != owner:
        raise namespace_error(name, "it belongs to another account")
    if found is not None and found.name != name:  # else one place would have two spellings
        raise namespace_error(name, f"it is yours as {found.name}: spell it so")
    if found is not None:
        return False
    hold(connection, owner_lock(owner))
    if not reserved:
        _require_claimable(connection, name, folded, owner)
    row = {"folded": folded, "name": name, "owner": owner, "claimed_at": now}
    connection.execute(insert(namespaces).values(**row, claim=claim and dict(claim)))
    return True


def name_lock(name: str) -> str:
    """What one transaction has at a time that decides about a name, and about all below it.

    Of an account, a namespace or a bundle: each looks whether there is another one of its name.
    """
    return f"registry name {folded_namespace(name)}"


def owner_lock(owner: str) -> str:
    """What one transaction has at a time that counts what an account has of something."""
    return f"registry owner {owner}"


def _require_claimable(connection: Connection, name: str, folded: str, owner: str) -> None:
    named = connection.scalar(select(accounts.c.name).where(accounts.c.folded == folded))
    if named is not None and named != owner:
        raise namespace_error(name, "it is the name of another account")
    if is_reserved(name) and named is None:
        raise namespace_error(name, "it is reserved")
    count = select(func.count()).select_from(namespaces).where(namespaces.c.owner == owner)
    if named is None and (connection.scalar(count) or 0) >= MAX_NAMESPACES:
        raise namespace_error(name, f"expected at most {MAX_NAMESPACES} of one owner")


def _namespace(row: Row[Any]) -> NamespaceFacts:
    return from_row(NamespaceFacts, row)


# --- key claims -----------------------------------------------------------------------------------
# That the owner of an account has a key as well: a document that the key signed for this registry.
#
# Without one, any account could have the key of another counted as theirs.

KIND = "registry-key/v1"


def claimed_key(document: Mapping[str, object], *, account: str, keys: NodeKeys) -> bytes:
    """The PEM of the key that a document claims for an account, and that signed it.

    Raises RefusedError `INVALID_PARAMS`, IdentityError for an invalid key, SignedDocumentError.
    """
    expected = {"kind": KIND, "account": account, "registry": keys.node_id}
    for field, value in expected.items():
        if document.get(field) != value:
            raise RefusedError(
                f"claim: {field}: expected {value}, found another",
                hint="sign a new one with the key that it is about",
            )
    pem = decode_public_key(document.get("public_key"))
    verify_document(document, pem)
    return pem


# --- callers --------------------------------------------------------------------------------------
# Who asks a registry: an unknown caller is fine for what is public, but not a key that is wrong.

_SHOW_WHO = frozenset({"authorization", "x-rye-signature", "x-webhook-timestamp"})


def optional_caller(scope: str) -> Any:  # noqa: ANN401 - what FastAPI takes for a dependency
    """The dependency on a caller who may be unknown; a key that is shown has to be for this."""

    async def principal(
        request: Request,
        _: Annotated[None, Security(OPTIONAL_CALLER, scopes=[scope])],
        owner: Owner = None,
    ) -> Principal | None:
        if not _SHOW_WHO & {name.lower() for name in request.headers}:
            return None
        doors = authenticator(request)
        return await authenticate(
            request, lambda facts: doors.owner(facts, scope, owner, Role.READ)
        )

    return Depends(principal)


async def _read(request: Request) -> bytes:
    return await request.body()


AnyCaller = Annotated[Principal | None, optional_caller(REGISTRY_READ)]
Reader = Annotated[Principal, owner_caller(REGISTRY_READ, Role.READ)]
Writer = Annotated[Principal, owner_caller(REGISTRY_WRITE, Role.PUSH)]
Keeper = Annotated[Principal, owner_caller(REGISTRY_WRITE, Role.ADMIN)]
"""Who says what an account signs with, and which names it has; of a team an admin."""

Sent = Annotated[bytes, Depends(_read)]
"""A body, to be parsed in the thread of the route: the event loop must not wait for that."""
