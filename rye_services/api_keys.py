"""API keys: random texts that stand for a user. Kept is only what a text hashes to."""

import hmac
import secrets
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from lillux.digests import sha256_hex
from lillux.values import dataclass
from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.scopes import check_scopes
from rye_services.tables import api_keys
from rye_services.users import check_user_id, ensure_user
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

PREFIX = "rye_sk_"
_RANDOM_BYTES = 32
_SHOWN_CHARACTERS = 8
_LONGEST_TOKEN = 200
_USE_NOTED_EVERY = timedelta(minutes=1)


class ApiKeyMissingError(RyeError):
    """No API key has this id or prefix, or more than one has."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(
            f"API key {key_id[:80]!r}: expected the id of one, found none",
            hint="list them with: rye-node.pyz api-keys list",
        )


class ApiKeyNameError(RyeError):
    """A key of this name cannot be made, or revoked, because of another one."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"API key {name[:80]!a}: {problem}", hint="choose another name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is known of an API key.

    id          16 hex digits
    key_prefix  the first 8 characters of the secret part, so that people know it again
    scopes      None: everything its user may do
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


class ApiKeys:
    """The API keys in the database. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        user_id: str,
        *,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None = None,
    ) -> tuple[str, ApiKey]:
        """A new key of a user: its text, which nobody can find out again, and what is kept.

        Raises UserIdError, ScopeError.
        """
        token, key = self._made(user_id, name, scopes, expires_after)
        with self._database.writing() as connection:
            _insert(connection, token, key)
        return token, key

    def create_named(
        self,
        user_id: str,
        *,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None = None,
    ) -> tuple[str, ApiKey]:
        """As `create`, for a user who knows keys by their names. Raises ApiKeyNameError too."""
        token, key = self._made(user_id, name, scopes, expires_after)
        with self._database.writing() as connection:
            if any(_counts(one, self._clock()) for one in _named(connection, user_id, name)):
                raise ApiKeyNameError(name, "there is one with this name")
            _insert(connection, token, key)
        return token, key

    def of(self, user_id: str) -> tuple[ApiKey, ...]:
        """Every key of a user, revoked ones too, the newest first."""
        columns = api_keys.c
        wanted = select(api_keys).where(columns.user_id == user_id)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(columns.created_at.desc()))
            return tuple(_key_of(row) for row in rows)

    def revoke_named(self, user_id: str, name: str) -> ApiKey:
        """Let a user's key of this name count no longer.

        Raises ApiKeyMissingError, ApiKeyNameError for one that was revoked before.
        """
        with self._database.writing() as connection:
            found = _named(connection, user_id, name)
            live = [key for key in found if not key.revoked_at]
            if not found:
                raise ApiKeyMissingError(name)
            if not live:
                raise ApiKeyNameError(name, "it was revoked before")
            change = api_keys.update().where(api_keys.c.id.in_([key.id for key in live]))
            connection.execute(change.values(revoked_at=stamp(self._clock())))
        return live[0]

    def find(self, token: str) -> ApiKey | None:
        """The key that counts now for a text; None for any other text."""
        if not token.startswith(PREFIX) or len(token) > _LONGEST_TOKEN:
            return None
        key_hash = sha256_hex(token.encode("utf-8", "surrogateescape"))
        with self._database.reading() as connection:
            row = connection.execute(
                select(api_keys).where(api_keys.c.key_hash == key_hash)
            ).first()
        if row is None or not hmac.compare_digest(row.key_hash, key_hash):
            return None
        key, now = _key_of(row), self._clock()
        if not _counts(key, now):
            return None
        self._note_use(key, now)
        return key

    def counting(self, key_id: str) -> ApiKey | None:
        """The key of this id, where it counts now."""
        with self._database.reading() as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).first()
        key = None if row is None else _key_of(row)
        return key if key is not None and _counts(key, self._clock()) else None

    def all(self) -> tuple[ApiKey, ...]:
        """Every key, revoked ones too, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at.desc()))
            return tuple(_key_of(row) for row in rows)

    def revoke(self, key_id: str) -> ApiKey:
        """Let a key count no longer, named by its id or its prefix. Raises ApiKeyMissingError."""
        named = (api_keys.c.id == key_id) | (api_keys.c.key_prefix == key_id)
        with self._database.writing() as connection:
            rows = connection.execute(select(api_keys).where(named)).all()
            if len(rows) != 1:
                raise ApiKeyMissingError(key_id)
            key = _key_of(rows[0])
            if not key.revoked_at:
                change = api_keys.update().where(api_keys.c.id == key.id)
                connection.execute(change.values(revoked_at=stamp(self._clock())))
        return key

    def _made(
        self,
        user_id: str,
        name: str,
        scopes: tuple[str, ...] | None,
        expires_after: timedelta | None,
    ) -> tuple[str, ApiKey]:
        check_user_id(user_id)
        secret, now = secrets.token_urlsafe(_RANDOM_BYTES), self._clock()
        key = ApiKey(
            id=secrets.token_hex(8),
            user_id=user_id,
            name=name,
            key_prefix=secret[:_SHOWN_CHARACTERS],
            scopes=None if scopes is None else check_scopes(scopes),
            created_at=stamp(now),
            expires_at=stamp(now + expires_after) if expires_after is not None else None,
        )
        return f"{PREFIX}{secret}", key

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        """Keep when a key was used last, to the minute: not every request has to write."""
        last = datetime.fromisoformat(key.last_used_at) if key.last_used_at else None
        if last is None or now - last > _USE_NOTED_EVERY:
            with self._database.writing() as connection:
                change = api_keys.update().where(api_keys.c.id == key.id)
                connection.execute(change.values(last_used_at=stamp(now)))


def _insert(connection: Connection, token: str, key: ApiKey) -> None:
    ensure_user(connection, key.user_id, key.created_at)
    connection.execute(api_keys.insert().values(key_hash=sha256_hex(token.encode()), **_row(key)))


def _named(connection: Connection, user_id: str, name: str) -> list[ApiKey]:
    columns = api_keys.c
    wanted = select(api_keys).where(columns.user_id == user_id, columns.name == name)
    return [_key_of(row) for row in connection.execute(wanted)]


def _counts(key: ApiKey, now: datetime) -> bool:
    """Neither revoked nor expired."""
    is_over = key.expires_at is not None and datetime.fromisoformat(key.expires_at) <= now
    return key.revoked_at is None and not is_over


def _row(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in ApiKey.__slots__} | {
        "scopes": None if key.scopes is None else list(key.scopes)
    }


def _key_of(row: Row[Any]) -> ApiKey:
    values = {name: getattr(row, name) for name in ApiKey.__slots__}
    return ApiKey(**values | {"scopes": None if row.scopes is None else tuple(row.scopes)})
