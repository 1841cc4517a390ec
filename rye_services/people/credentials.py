"""API keys: random texts that stand for a user; only their hashes are stored."""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from sqlalchemy import Connection, Row, RowMapping, and_, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from lillux.digests import sha256_hex
from lillux.fields import is_text
from lillux.shapes import Form, Key, write
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, replace
from rye_services.people.actors import current_actor
from rye_services.people.audit import Audit
from rye_services.refusal import RefusedError
from rye_services.storage.database import (
    Database,
    api_keys,
    authorized_keys,
    from_row,
    request_nonces,
    stamp,
    users,
)
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.remote.identity import IdentityError, decode_public_key, encode_public_key
from ryeos.remote.requests import NONCE_S

# --- api keys -------------------------------------------------------------------------------------

PREFIX = "rye_sk_"
MAX_NAMED_KEYS = 100
"""That a user makes for themselves; those of the command line are not refused."""

_RANDOM_BYTES = 32
_SHOWN_CHARACTERS = 8
_LONGEST_TOKEN = 200
_USE_NOTED_EVERY = timedelta(minutes=1)


class ApiKeyMissingError(RyeError):
    """No API key has this id or prefix, or more than one has."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(
            f"API key {key_id[:80]!r}: expected the id of one, found none",
            hint="list them with: rye-node.pyz api-keys list",
        )


def _api_key_error(name: str, problem: str) -> RefusedError:
    """The error of a key that cannot be made, or revoked, because of another one."""
    return RefusedError(
        f"API key {name[:80]!a}: {problem}", code="CONFLICT", hint="choose another name"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is known of an API key.

    id          16 hex digits
    user_id     the person, or the team, that it stands for
    key_prefix  the first 8 characters of the secret part, so that people know it again
    scopes      None: everything its user may do
    role        of a token of a team: what it may there, and no more than who made it
    created_by  of a token of a team: the member who made it; None for the operator
    """

    id: str
    user_id: str
    name: str
    key_prefix: str
    scopes: tuple[str, ...] | None
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
    role: str | None = None
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class FoundApiKey:
    """A key that counts, and the state of its user: None where no row is of them."""

    key: ApiKey
    user_state: str | None


_KEY_AND_STATE = (
    select(api_keys, users.c.state.label("user_state"))
    .select_from(api_keys.outerjoin(users, users.c.id == api_keys.c.user_id))
    .where(api_keys.c.key_hash == bindparam("key_hash"))
)


class ApiKeys:
    """The API keys in the database. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._audit = Audit(database)

    def create(
        self,
        user_id: str,
        *,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None = None,
    ) -> tuple[str, ApiKey]:
        """A new key of a user: its text, which cannot be found out again, and what is kept.

        One of a team may do what its members with the role push may.
        Raises UserIdError, RefusedError `INVALID_PARAMS`.
        """
        token, key = self._new_key(user_id, name, scopes, expires_after)
        with self._database.writing() as connection:
            kind = connection.scalar(select(users.c.kind).where(users.c.id == user_id))
            if kind == "team":  # without a role it would stand for the owner itself
                key = replace(key, role=Role.PUSH.value)
            self._insert(connection, token, key)
        return token, key

    def create_named(
        self,
        user_id: str,
        *,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None = None,
        role: "Role | None" = None,
        created_by: str | None = None,
    ) -> tuple[str, ApiKey]:
        """As `create`, for a user who knows keys by their names, or for a token of a team.

        Raises RefusedError `CONFLICT` too.
        """
        token, key = self._new_key(user_id, name, scopes, expires_after)
        key = replace(key, role=role and role.value, created_by=created_by)
        with self._database.writing(lock=_lock(user_id)) as connection:
            kind = connection.scalar(select(users.c.kind).where(users.c.id == user_id))
            if kind == "team" and role is None:  # it would stand for the owner itself
                raise _api_key_error(name, "a token of a team has a role: rye remote tokens")
            if any(_counts(one, self._clock()) for one in _keys_named(connection, user_id, name)):
                raise _api_key_error(name, "there is one with this name")
            if _count_unrevoked(connection, user_id) >= MAX_NAMED_KEYS:
                raise RefusedError(
                    f"API keys: expected at most {MAX_NAMED_KEYS} of a user",
                    code="CONFLICT",
                    hint="revoke one",
                )
            self._insert(connection, token, key)
        return token, key

    def of(self, user_id: str) -> tuple[ApiKey, ...]:
        """Every key of a user, revoked ones too, the newest first."""
        columns = api_keys.c
        wanted = select(api_keys).where(columns.user_id == user_id)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(columns.created_at.desc()))
            return tuple(_api_key_of(row) for row in rows)

    def revoke_named(self, user_id: str, name: str) -> ApiKey:
        """Revoke a user's key of this name.

        Raises ApiKeyMissingError, RefusedError `CONFLICT` for one that was revoked before.
        """
        with self._database.writing(lock=_lock(user_id)) as connection:
            found = _keys_named(connection, user_id, name)
            live = [key for key in found if not key.revoked_at]
            if not found:
                raise ApiKeyMissingError(name)
            if not live:
                raise _api_key_error(name, "it was revoked before")
            change = api_keys.update().where(api_keys.c.id.in_([key.id for key in live]))
            connection.execute(change.values(revoked_at=stamp(self._clock())))
            for key in live:
                self._audit.write(connection, "api-keys.revoke", key.id, _audited(key))
        return live[0]

    def find(self, token: str) -> FoundApiKey | None:
        """The key that counts now for a text; None for any other text.

        Each request asks the database, in one statement: a key that was just revoked, on any
        server, is refused at once.
        """
        if not token.startswith(PREFIX) or len(token) > _LONGEST_TOKEN:
            return None
        key_hash = sha256_hex(token.encode("utf-8", "surrogateescape"))
        with self._database.single_read() as connection:
            row = connection.execute(_KEY_AND_STATE, {"key_hash": key_hash}).first()
        if row is None or not hmac.compare_digest(row.key_hash, key_hash):
            return None
        key, now = _api_key_of(row), self._clock()
        if not _counts(key, now):
            return None
        self._note_use(key, now)
        return FoundApiKey(key, row.user_state)

    def valid_key(self, key_id: str) -> ApiKey | None:
        """The key of this id, where it counts now."""
        with self._database.single_read() as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).first()
        key = None if row is None else _api_key_of(row)
        return key if key is not None and _counts(key, self._clock()) else None

    def all(self) -> tuple[ApiKey, ...]:
        """Every key, revoked ones too, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at.desc()))
            return tuple(_api_key_of(row) for row in rows)

    def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key, named by its id or its prefix. Raises ApiKeyMissingError."""
        named = (api_keys.c.id == key_id) | (api_keys.c.key_prefix == key_id)
        with self._database.writing() as connection:
            rows = connection.execute(select(api_keys).where(named)).all()
            if len(rows) != 1:
                raise ApiKeyMissingError(key_id)
            key = _api_key_of(rows[0])
            if not key.revoked_at:
                change = api_keys.update().where(api_keys.c.id == key.id)
                connection.execute(change.values(revoked_at=stamp(self._clock())))
                self._audit.write(connection, "api-keys.revoke", key.id, _audited(key))
        return key

    def _insert(self, connection: Connection, token: str, key: ApiKey) -> None:
        ensure_user(connection, key.user_id, key.created_at)
        row = {"key_hash": sha256_hex(token.encode()), **write(key)}
        connection.execute(api_keys.insert().values(**row))
        expires = {"expires_at": key.expires_at} if key.expires_at else {}
        scopes = None if key.scopes is None else list(key.scopes)
        details = {**_audited(key), "scopes": scopes, **expires}
        self._audit.write(connection, "api-keys.create", key.id, details)

    def _new_key(
        self,
        user_id: str,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None,
    ) -> tuple[str, ApiKey]:
        valid_user_id(user_id)
        secret, now = secrets.token_urlsafe(_RANDOM_BYTES), self._clock()
        key = ApiKey(
            id=secrets.token_hex(8),
            user_id=user_id,
            name=name,
            key_prefix=secret[:_SHOWN_CHARACTERS],
            scopes=None if scopes is None else valid_scopes(scopes),
            created_at=stamp(now),
            expires_at=stamp(now + expires_after) if expires_after is not None else None,
        )
        return f"{PREFIX}{secret}", key

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        """Keep when a key was used last, to the minute: not every request has to write."""
        last = datetime.fromisoformat(key.last_used_at) if key.last_used_at else None
        if last is None or now - last > _USE_NOTED_EVERY:
            with self._database.single_write() as connection:
                change = api_keys.update().where(api_keys.c.id == key.id)
                connection.execute(change.values(last_used_at=stamp(now)))


def _lock(user_id: str) -> str:
    """What one transaction has at a time that decides by the keys that a user has."""
    return f"API keys of {user_id}"


def _count_unrevoked(connection: Connection, user_id: str) -> int:
    columns = api_keys.c
    live = and_(columns.user_id == user_id, columns.revoked_at.is_(None))
    return int(connection.scalar(select(func.count()).select_from(api_keys).where(live)) or 0)


def _audited(key: ApiKey) -> dict[str, Any]:
    role = {"role": key.role} if key.role else {}
    return {"user_id": key.user_id, "name": key.name, **role}


def _keys_named(connection: Connection, user_id: str, name: str) -> list[ApiKey]:
    columns = api_keys.c
    wanted = select(api_keys).where(columns.user_id == user_id, columns.name == name)
    return [_api_key_of(row) for row in connection.execute(wanted)]


def _counts(key: ApiKey, now: datetime) -> bool:
    """Neither revoked nor expired."""
    is_over = key.expires_at is not None and datetime.fromisoformat(key.expires_at) <= now
    return key.revoked_at is None and not is_over


def _api_key_of(row: Row[Any]) -> ApiKey:
    return from_row(ApiKey, row)


# --- authorized keys ------------------------------------------------------------------------------
# The keys of operators' choice that may sign requests: a row each. Page: ``docs/node.md``, Callers.

MAX_LABEL_CHARACTERS = 200
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_AUTHORIZED = "authorised keys"
_HOW_TO_ADD = "see: rye-node.pyz keys add --help"


class AuthorizedKeyMissingError(RyeError):
    """A fingerprint that no authorised key has."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint[:80]}: expected an authorised key, found none",
            hint="list them with: rye-node.pyz keys list",
        )


class LastManagerError(RyeError):
    """The one key that may manage keys was to be revoked over the network."""

    code, http_status = "CONFLICT", 400

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint}: the last one that may manage keys",
            hint="let another one in first, or revoke it on the node: rye-node.pyz keys revoke",
        )


PublicKey = Annotated[
    bytes,
    Key("public_key"),
    Form(
        "a public key",
        is_text,
        make=lambda text, *_: decode_public_key(text),
        written=encode_public_key,
    ),
]
"""A PEM, kept as ``ed25519:...``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedKey:
    """A key that may sign requests.

    scopes              what for: `valid_scopes`
    publish_namespaces  patterns of the names it may publish under
    expires_at          ISO 8601, None for never
    created_via         ``command``, ``bootstrap`` or ``admin``
    created_by          the key that let it in, or who typed the command
    """

    fingerprint: str
    public_pem: PublicKey
    label: str
    scopes: tuple[str, ...]
    publish_namespaces: tuple[str, ...] = ()
    expires_at: str | None = None
    created_via: str = "command"
    created_at: str = ""
    created_by: str = ""

    @property
    def may_manage(self) -> bool:
        """Whether it may say which keys count."""
        return allows(frozenset(self.scopes), MANAGE)

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and expiry_of(self.expires_at) <= now


class AuthorizedKeys:
    """The authorised keys in the database: a change counts at once on every server. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock
        self._audit = Audit(database)

    def find(self, fingerprint: str) -> AuthorizedKey | None:
        """The key that may sign now; None where there is none, or its time is over."""
        if not _FINGERPRINT.fullmatch(fingerprint):
            return None
        wanted = select(authorized_keys).where(authorized_keys.c.fingerprint == fingerprint)
        with self._database.single_read() as connection:
            row = connection.execute(wanted).mappings().first()
        key = None if row is None else authorized_key_of(row)
        return None if key is None or key.is_expired(self._clock()) else key

    def all(self) -> tuple[AuthorizedKey, ...]:
        """The keys that may sign now, by fingerprint."""
        with self._database.reading() as connection:
            return self._valid_keys(connection)

    def add(self, key: AuthorizedKey) -> AuthorizedKey:
        """Let a key in, or change what it may.

        Raises RefusedError `INVALID_PARAMS` for an unknown scope, RyeError `CONFIG_ERROR` for a
        label or a time of another form.
        """
        _require_fields(key)
        with self._database.writing(lock=_AUTHORIZED) as connection:
            self._put(connection, key)
        return key

    def authorize(
        self,
        public_pem: bytes,
        *,
        label: str,
        scopes: Iterable[str],
        via: str,
        by: str = "",
        expires_at: str | None = None,
        publish_namespaces: Iterable[str] = (),
    ) -> AuthorizedKey:
        """Let the key of a PEM in. Raises PemError, and as `add`."""
        pem = canonical_public_pem(public_pem)
        return self.add(
            AuthorizedKey(
                fingerprint=compute_key_fingerprint(pem),
                public_pem=pem,
                label=label,
                scopes=valid_scopes(scopes),
                expires_at=expires_at,
                publish_namespaces=tuple(publish_namespaces),
                created_via=via,
                created_at=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                created_by=by or current_actor().name[:64],
            )
        )

    def revoke(self, fingerprint: str) -> None:
        """Revoke a key. Raises AuthorizedKeyMissingError."""
        with self._database.writing(lock=_AUTHORIZED) as connection:
            self._remove(connection, fingerprint)

    def revoke_unless_last(self, fingerprint: str) -> None:
        """As `revoke`, but one key that may manage keys stays. Raises LastManagerError too."""
        with self._database.writing(lock=_AUTHORIZED) as connection:  # of two managers one at once
            counting = self._valid_keys(connection)
            if {key.fingerprint for key in counting if key.may_manage} == {fingerprint}:
                raise LastManagerError(fingerprint)
            self._remove(connection, fingerprint)

    def bootstrap(self, public_key: str, label: str) -> AuthorizedKey | None:
        """Let the first key in, ``ed25519:...``; None where there are keys already.

        Of servers that start at once one lets it in. Raises PublicKeyError for a text that is no
        key, and as `add`.
        """
        with self._database.writing(lock=_AUTHORIZED) as connection:
            if connection.execute(select(authorized_keys.c.fingerprint).limit(1)).first():
                return None
            pem = typed_public_key(public_key, "BOOTSTRAP_PUBLIC_KEY")
            key = AuthorizedKey(
                fingerprint=compute_key_fingerprint(pem),
                public_pem=pem,
                label=label,
                scopes=(EVERYTHING,),
                created_via="bootstrap",
                created_at=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                created_by=current_actor().name[:64],
            )
            _require_fields(key)
            self._put(connection, key)
        return key

    def _valid_keys(self, connection: Connection) -> tuple[AuthorizedKey, ...]:
        wanted = select(authorized_keys).order_by(authorized_keys.c.fingerprint)
        rows, now = connection.execute(wanted).mappings(), self._clock()
        return tuple(key for key in map(authorized_key_of, rows) if not key.is_expired(now))

    def _put(self, connection: Connection, key: AuthorizedKey) -> None:
        same = authorized_keys.c.fingerprint == key.fingerprint
        connection.execute(delete(authorized_keys).where(same))
        connection.execute(authorized_keys.insert().values(**write(key)))
        details: dict[str, Any] = {"label": key.label, "scopes": list(key.scopes)}
        details |= {"expires_at": key.expires_at} if key.expires_at else {}
        details |= {"publish": list(key.publish_namespaces)} if key.publish_namespaces else {}
        details |= {"via": key.created_via}
        self._audit.write(connection, "keys.add", f"fp:{key.fingerprint}", details)

    def _remove(self, connection: Connection, fingerprint: str) -> None:
        same = authorized_keys.c.fingerprint == fingerprint
        gone = connection.execute(delete(authorized_keys).where(same)).rowcount
        if not gone:
            raise AuthorizedKeyMissingError(fingerprint)
        self._audit.write(connection, "keys.revoke", f"fp:{fingerprint}")


def authorized_key_of(values: Mapping[str, Any] | RowMapping) -> AuthorizedKey:
    """The key of the columns of ``authorized_keys``."""
    return from_row(AuthorizedKey, values)


def _require_fields(key: AuthorizedKey) -> None:
    valid_scopes(key.scopes)
    if not key.label.isprintable() or len(key.label) > MAX_LABEL_CHARACTERS:
        expected = f"expected at most {MAX_LABEL_CHARACTERS} visible characters"
        raise RyeError(f"label: {expected}", code="CONFIG_ERROR", hint=_HOW_TO_ADD)
    if key.expires_at:
        expiry_of(key.expires_at)


def expiry_of(text: str) -> datetime:
    """The time in a text; one without a zone is in UTC. Raises RyeError `CONFIG_ERROR`."""
    try:
        expiry = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a moment like 2027-01-31T00:00:00Z"
        raise RyeError(
            f"expires_at: {expected}, found {text[:80]!r}", code="CONFIG_ERROR", hint=_HOW_TO_ADD
        ) from None
    return expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)


# --- scopes ---------------------------------------------------------------------------------------
# What a key may be used for: ``service:action``, ``service:*`` or ``*``. Pure.

OBJECTS, PUSH, EXECUTE = "remote:objects", "remote:push", "remote:execute"
THREADS, SECRETS, WEBHOOKS = "remote:threads", "remote:secrets", "remote:webhook-bindings"
REGISTRY_READ, REGISTRY_WRITE = "registry:read", "registry:write"
ACCOUNT = "account:manage"
"""Who may say which keys and tokens a person has, and who is in their teams."""
MANAGE = "node.auth.manage"
"""Who may say which keys count, and start what concerns every user."""
METRICS = "node.metrics"
"""Who may read the figures of the server: totals, no names."""

EVERYTHING = "*"
_OF_A_NODE = ("remote:*", OBJECTS, PUSH, EXECUTE, THREADS, SECRETS, WEBHOOKS)
_OF_A_SERVER = (MANAGE, METRICS)
_OF_A_REGISTRY = ("registry:*", REGISTRY_READ, REGISTRY_WRITE)
_OF_A_PERSON = ("account:*", ACCOUNT)
DEFAULT_SCOPES = ("remote:*",)
"""What a key gets that is let in without a word: who has it pushes projects and runs items.

No way to other users: neither to keys, nor to teams, nor to the node, nor to what it counts.
"""
KNOWN = (EVERYTHING, *_OF_A_NODE, *_OF_A_SERVER, *_OF_A_REGISTRY, *_OF_A_PERSON)
"""Whatever a key may be given."""


def _scope_error(scope: str) -> RefusedError:
    from difflib import get_close_matches

    closest = next(iter(get_close_matches(scope[:80], KNOWN, 1)), "")
    meant = f"; did you mean {closest}?" if closest else ""
    return RefusedError(
        f"scope {scope[:80]!a}: expected one of {', '.join(KNOWN)}{meant}",
        hint="what each is for: docs/node.md",
    )


def valid_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in order, each once. Raises RefusedError `INVALID_PARAMS`."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if scope not in KNOWN:
            raise _scope_error(scope)
    return found


def allows(scopes: frozenset[str] | None, wanted: str) -> bool:
    """Whether a key with these scopes may be used for ``wanted``; None is a key for everything."""
    if scopes is None or EVERYTHING in scopes or wanted in scopes:
        return True
    service, colon, _ = wanted.partition(":")
    return bool(colon) and f"{service}:*" in scopes


# --- users ----------------------------------------------------------------------------------------
# Who has a store on this node: names that are safe as folders everywhere, and a row for each.

# One case only, since some file systems have no other; a key's fingerprint is such a name.
_USER_ID = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
# What Windows takes for a device, whatever folder it is in.
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")


class UserIdError(RyeError):
    """A name that no user can have."""

    code = "INVALID_PARAMS"

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        super().__init__(
            f"user {user_id[:80]!r}: expected 1 to 64 of a-z, 0-9, - and _, no device of Windows",
            hint="the fingerprint of a user's signing key is the best name: rye keys show",
        )


def valid_user_id(user_id: str) -> str:
    """The name itself. Raises UserIdError: no folder is made from anything else."""
    if not _USER_ID.fullmatch(user_id) or _DEVICE.fullmatch(user_id):
        raise UserIdError(user_id)
    return user_id


def ensure_user(connection: Connection, user_id: str, created_at: str) -> None:
    """Make sure that a user has a row. Raises UserIdError."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(users).values(id=valid_user_id(user_id), created_at=created_at)
    connection.execute(row.on_conflict_do_nothing())


# --- principal ------------------------------------------------------------------------------------
# A known caller, and what they may do.


class Role(StrEnum):
    """What a member may do in a team: each role includes those before it.

    READ   see projects, their history, runs and logs
    RUN    execute items; what a run changes waits until a user with PUSH takes it
    PUSH   change projects, and publish in the team's namespaces
    ADMIN  say who is a member, move projects, set secrets, webhooks and tokens
    """

    READ = "read"
    RUN = "run"
    PUSH = "push"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Whether who has this role may do what the other one is for."""
        return _ROLES.index(self) >= _ROLES.index(other)


_ROLES = tuple(Role)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request, and on whose projects they work.

    user_id  the owner of the store, heads, threads and secrets: a person, or a team
    kind     how they showed who they are
    scopes   what their key is for; None: everything
    key_id   ``fp:...`` of a signing key, the id of an API key, the id of a hook
    person   the member of the team who asks; "" where the owner is who asks
    role     what they may in the team; None where the owner is a person
    """

    user_id: str
    kind: Literal["bearer", "signed", "webhook", "page"]
    scopes: frozenset[str] | None
    key_id: str
    person: str = ""
    role: Role | None = None

    @property
    def who(self) -> str:
        """The person who asks."""
        return self.person or self.user_id

    @property
    def names(self) -> tuple[str, ...]:
        """What a client may call them when it seals a secret for them."""
        own = self.key_id.removeprefix("fp:") if self.kind == "signed" else ""
        return tuple(dict.fromkeys(name for name in (self.user_id, self.person, own) if name))

    def require(self, scope: str) -> None:
        """Refuse a caller whose key lacks a scope. Raises Problem, 403."""
        if not allows(self.scopes, scope):
            from rye_services.web.http import RequestProblem

            raise RequestProblem(403, f"this key lacks the scope {scope}")


# --- nonces ---------------------------------------------------------------------------------------
# Nonces of signed requests: each counts once, for every process that serves the database.


class Nonces:
    """The nonces that were used in the last minutes, restarts included. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def use(self, fingerprint: str, nonce: str) -> bool:
        """Use up the nonce of a request whose signature is good; False if it was used before."""
        row = {
            "fingerprint": fingerprint,
            "nonce_hash": sha256_hex(nonce.encode()),
            "seen_at_s": self._clock().timestamp(),
        }
        try:
            with self._database.single_write() as connection:
                connection.execute(request_nonces.insert().values(**row))
        except IntegrityError:
            return False
        return True

    def forget_old(self) -> int:
        """Remove those that are too old for any request; how many."""
        oldest_s = self._clock().timestamp() - NONCE_S
        with self._database.writing() as connection:
            gone = connection.execute(
                delete(request_nonces).where(request_nonces.c.seen_at_s < oldest_s)
            )
            return gone.rowcount


# --- public keys ----------------------------------------------------------------------------------
# Public keys as people type them.


class PublicKeyError(RyeError):
    """A text that is no public key. ``where`` is where it was typed."""

    code = "INVALID_PARAMS"

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}",
            hint="expected a client's public key: a PEM file, or ed25519:... as GET /public-key of"
            " a node shows its own",
        )


def typed_public_key(text: str, where: str) -> bytes:
    """The PEM of ``ed25519:...`` as a person typed it, at ``where``. Raises PublicKeyError."""
    try:
        return decode_public_key(text)
    except IdentityError as error:
        raise PublicKeyError(where, error.problem) from None
