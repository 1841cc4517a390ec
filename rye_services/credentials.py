"""API keys: random texts that stand for a user; only their hashes are stored."""

import hmac
import json
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import file_system_error, locked, make_directory, read_bytes, write_atomic
from lillux.signing import compute_key_fingerprint
from lillux.values import dataclass, replace
from rye_services.audit import Audit
from rye_services.database import Database, api_keys, request_nonces, stamp, users
from rye_services.http import RequestProblem
from rye_services.keys import NodeKeys
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind
from ryeos.remote.requests import NONCE_S, IdentityError, decode_public_key, encode_public_key
from ryeos.trust.keys import SigningKey
from ryeos.trust.signature import SignedText, content_hash, decode, form_for, split

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


class ApiKeyLimitError(RyeError):
    """A user has as many keys as one may make for oneself."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"API keys: expected at most {limit} of a user", hint="revoke one")


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
        Raises UserIdError, ScopeError.
        """
        token, key = self._made(user_id, name, scopes, expires_after)
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

        Raises ApiKeyNameError, ApiKeyLimitError too.
        """
        token, key = self._made(user_id, name, scopes, expires_after)
        key = replace(key, role=role and role.value, created_by=created_by)
        with self._database.writing(lock=_lock(user_id)) as connection:
            kind = connection.scalar(select(users.c.kind).where(users.c.id == user_id))
            if kind == "team" and role is None:  # it would stand for the owner itself
                raise ApiKeyNameError(name, "a token of a team has a role: rye remote tokens")
            if any(_counts(one, self._clock()) for one in _named(connection, user_id, name)):
                raise ApiKeyNameError(name, "there is one with this name")
            if _count_unrevoked(connection, user_id) >= MAX_NAMED_KEYS:
                raise ApiKeyLimitError(MAX_NAMED_KEYS)
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

        Raises ApiKeyMissingError, ApiKeyNameError for one that was revoked before.
        """
        with self._database.writing(lock=_lock(user_id)) as connection:
            found = _named(connection, user_id, name)
            live = [key for key in found if not key.revoked_at]
            if not found:
                raise ApiKeyMissingError(name)
            if not live:
                raise ApiKeyNameError(name, "it was revoked before")
            change = api_keys.update().where(api_keys.c.id.in_([key.id for key in live]))
            connection.execute(change.values(revoked_at=stamp(self._clock())))
            for key in live:
                self._audit.write(connection, "api-keys.revoke", key.id, _audited(key))
        return live[0]

    def find(self, token: str) -> FoundApiKey | None:
        """The key that counts now for a text; None for any other text.

        Each request asks the database, in one statement: a key that was revoked a moment ago, on
        whatever server, lets no one in.
        """
        if not token.startswith(PREFIX) or len(token) > _LONGEST_TOKEN:
            return None
        key_hash = sha256_hex(token.encode("utf-8", "surrogateescape"))
        with self._database.asking() as connection:
            row = connection.execute(_KEY_AND_STATE, {"key_hash": key_hash}).first()
        if row is None or not hmac.compare_digest(row.key_hash, key_hash):
            return None
        key, now = _api_key_of(row), self._clock()
        if not _counts(key, now):
            return None
        self._note_use(key, now)
        return FoundApiKey(key, row.user_state)

    def counting(self, key_id: str) -> ApiKey | None:
        """The key of this id, where it counts now."""
        with self._database.asking() as connection:
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
        row = {"key_hash": sha256_hex(token.encode()), **_row(key)}
        connection.execute(api_keys.insert().values(**row))
        expires = {"expires_at": key.expires_at} if key.expires_at else {}
        scopes = None if key.scopes is None else list(key.scopes)
        details = {**_audited(key), "scopes": scopes, **expires}
        self._audit.write(connection, "api-keys.create", key.id, details)

    def _made(
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
            with self._database.doing() as connection:
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


def _named(connection: Connection, user_id: str, name: str) -> list[ApiKey]:
    columns = api_keys.c
    wanted = select(api_keys).where(columns.user_id == user_id, columns.name == name)
    return [_api_key_of(row) for row in connection.execute(wanted)]


def _counts(key: ApiKey, now: datetime) -> bool:
    """Neither revoked nor expired."""
    is_over = key.expires_at is not None and datetime.fromisoformat(key.expires_at) <= now
    return key.revoked_at is None and not is_over


def _row(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in ApiKey.__slots__} | {
        "scopes": None if key.scopes is None else list(key.scopes)
    }


def _api_key_of(row: Row[Any]) -> ApiKey:
    values = {name: getattr(row, name) for name in ApiKey.__slots__}
    return ApiKey(**values | {"scopes": None if row.scopes is None else tuple(row.scopes)})


# --- authorized keys ------------------------------------------------------------------------------
# The keys that may sign requests: a file each, ``<fp>.toml``, signed by the node itself.
#
# So write access to files alone lets no key in. Format, as older nodes write it:
# ``docs/node.md``.

MAX_DOCUMENT_BYTES = 64 * 1024
MAX_LABEL_CHARACTERS = 200
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_SUFFIX = ".toml"


class AuthorizedKeyError(RyeError):
    """A file of this folder that does not let its key in. ``where`` is its path."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint="remove it, and add the key again")


class AuthorizedKeyMissingError(RyeError):
    """A fingerprint that no authorised key has."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint[:80]}: expected an authorised key, found none",
            hint="list them with: rye-node.pyz keys list",
        )


class LastManagerError(RyeError):
    """The one key that may manage keys was to be revoked over the network."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint}: the last one that may manage keys",
            hint="let another one in first, or revoke it on the node: rye-node.pyz keys revoke",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedKey:
    """A key that may sign requests.

    scopes              what for; see `rye_services.credentials`
    publish_namespaces  patterns of the names it may publish under
    expires_at          ISO 8601, None for never
    created_via         ``command``, ``bootstrap`` or ``admin``
    """

    fingerprint: str
    public_pem: bytes
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


class AuthorizedKeys:
    """The authorised keys in a folder. Every look is at the files: a change counts at once.

    Changes are written into ``audit``; there is none before the node has its database.
    """

    def __init__(
        self,
        directory: Path,
        keys: NodeKeys,
        clock: Clock = utc_now,
        *,
        audit: Audit | None = None,
    ) -> None:
        self._directory = directory
        self._keys = keys
        self._clock = clock
        self._audit = audit

    def find(self, fingerprint: str) -> AuthorizedKey | None:
        """The key that may sign now; None when there is none.

        Raises AuthorizedKeyError for a file that does not count, or whose time is over.
        """
        if not _FINGERPRINT.fullmatch(fingerprint):
            return None
        path = self._path(fingerprint)
        try:
            data = read_bytes(path, MAX_DOCUMENT_BYTES)
        except FileNotFoundError:
            return None
        key = self._read(data, str(path))
        if key.fingerprint != fingerprint:
            raise AuthorizedKeyError(str(path), f"holds the key {key.fingerprint}")
        if key.expires_at and _moment(key.expires_at, str(path)) <= self._clock():
            raise AuthorizedKeyError(str(path), f"expired at {key.expires_at}")
        return key

    def all(self) -> tuple[AuthorizedKey, ...]:
        """The keys that may sign now, by fingerprint. One that does not count is logged."""
        return tuple(self._counting())

    def add(self, key: AuthorizedKey) -> AuthorizedKey:
        """Let a key in, or change what it may; as it was written.

        Raises ScopeError, AuthorizedKeyError for a label of another form, FileSystemError.
        """
        valid_scopes(key.scopes)
        if not key.label.isprintable() or len(key.label) > MAX_LABEL_CHARACTERS:
            expected = f"expected at most {MAX_LABEL_CHARACTERS} visible characters"
            raise AuthorizedKeyError("label", expected)
        if key.expires_at:
            _moment(key.expires_at, "the new key")
        body = SignedText(shebang="", signature=None, covers=None, body=_document(key))
        path = self._path(key.fingerprint)
        form = form_for(Kind.TOOL, _SUFFIX)
        make_directory(self._directory, mode=0o700)
        signed = self._keys.signing.signed_text(Kind.TOOL, body, form, str(path))
        details: dict[str, Any] = {"label": key.label, "scopes": list(key.scopes)}
        details |= {"expires_at": key.expires_at} if key.expires_at else {}
        details |= {"publish": list(key.publish_namespaces)} if key.publish_namespaces else {}
        with self._change("keys.add", key.fingerprint, {**details, "via": key.created_via}):
            write_atomic(path, signed.encode(), mode=0o600)
        return key

    def _change(
        self, action: str, fingerprint: str, details: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[None]:
        """A block that changes the file of a key."""
        target = f"fp:{fingerprint}"
        return nullcontext() if self._audit is None else self._audit.change(action, target, details)

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
        return self.add(
            AuthorizedKey(
                fingerprint=compute_key_fingerprint(public_pem),
                public_pem=public_pem,
                label=label,
                scopes=valid_scopes(scopes),
                expires_at=expires_at,
                publish_namespaces=tuple(publish_namespaces),
                created_via=via,
                created_at=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                created_by=by or self._keys.node_id,
            )
        )

    def revoke(self, fingerprint: str) -> None:
        """Let a key in no longer. Raises AuthorizedKeyMissingError, FileSystemError."""
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise AuthorizedKeyMissingError(fingerprint)
        path = self._path(fingerprint)
        with self._change("keys.revoke", fingerprint):
            try:
                path.unlink()
            except FileNotFoundError:
                raise AuthorizedKeyMissingError(fingerprint) from None
            except OSError as error:
                raise file_system_error(path, error) from error

    def revoke_unless_last(self, fingerprint: str) -> None:
        """As `revoke`, but one key that may manage keys stays. Raises LastManagerError too."""
        with locked(self._directory / ".lock"):  # two managers may revoke each other
            self._revoke_unless_last(fingerprint)

    def _revoke_unless_last(self, fingerprint: str) -> None:
        managers = {key.fingerprint for key in self._counting() if key.may_manage}
        if managers == {fingerprint}:
            raise LastManagerError(fingerprint)
        self.revoke(fingerprint)

    def signed_anew(self, key: SigningKey) -> dict[str, str]:
        """Every document that the node has signed, signed by another key: by the names of files.

        Also of those that have expired. What the node did not sign is left out. Raises nothing.
        """
        found, form = {}, form_for(Kind.TOOL, _SUFFIX)
        for path in self._files():
            try:
                data = read_bytes(path, MAX_DOCUMENT_BYTES)
                self._read(data, str(path))
                signed = split(decode(data, str(path)), form, str(path))
                found[path.name] = key.signed_text(Kind.TOOL, signed, form, str(path))
            except (LilluxError, OSError) as error:
                logging.getLogger(__name__).warning("not signed anew: %s", error)
        return found

    def bootstrap(self, public_key: str, label: str) -> AuthorizedKey | None:
        """Let the first key in, ``ed25519:...``; None where there are keys already.

        Raises PublicKeyError for a text that is no key, and as `add`.
        """
        if any(self._files()):
            return None
        public_pem = typed_public_key(public_key, "BOOTSTRAP_PUBLIC_KEY")
        return self.authorize(public_pem, label=label, scopes=[EVERYTHING], via="bootstrap")

    def _counting(self) -> Iterator[AuthorizedKey]:
        for path in self._files():
            try:
                key = self.find(path.stem)
            except LilluxError as error:
                logging.getLogger(__name__).warning("%s", error)
                continue
            if key:
                yield key

    def _files(self) -> list[Path]:
        return sorted(path for path in self._directory.glob(f"*{_SUFFIX}"))

    def _path(self, fingerprint: str) -> Path:
        return self._directory / f"{fingerprint}{_SUFFIX}"

    def _read(self, data: bytes, where: str) -> AuthorizedKey:
        from ryeos.remote.requests import principal_id

        signed = split(decode(data, where), form_for(Kind.TOOL, _SUFFIX), where)
        signature = signed.signature
        if signature is None or signature.fingerprint != self._keys.fingerprint:
            node = principal_id(self._keys.fingerprint)
            raise AuthorizedKeyError(where, f"expected the signature of this node, {node}")
        if signature.content_hash != content_hash(signed.body) or not self._is_ours(
            signature.value, signature.content_hash
        ):
            raise AuthorizedKeyError(where, "changed since this node signed it")
        return _authorized_key_of(signed.body, where)

    def _is_ours(self, value: str, digest: str) -> bool:
        from lillux.signing import verify_signature

        return verify_signature(digest, value, self._keys.signing.public_pem)


def _authorized_key_of(body: str, where: str) -> AuthorizedKey:
    from ryeos.items.header_values import parse_toml

    header = parse_toml(body)
    public_pem = decode_public_key(header.get("public_key"), where)
    fingerprint = compute_key_fingerprint(public_pem)
    if str(header.get("fingerprint", fingerprint)).removeprefix("fp:") != fingerprint:
        raise AuthorizedKeyError(where, "the fingerprint is not that of the key")
    return AuthorizedKey(
        fingerprint=fingerprint,
        public_pem=public_pem,
        label=str(header.get("label") or header.get("owner") or ""),
        # Older nodes wrote none, and let every key do everything.
        scopes=_texts(header, "scopes", where, (EVERYTHING,)),
        publish_namespaces=_texts(header, "publish_namespaces", where, ()),
        expires_at=str(header["expires_at"]) if header.get("expires_at") else None,
        created_via=str(header.get("created_via", "")),
        created_at=str(header.get("created_at", "")),
        created_by=str(header.get("created_by", "")),
    )


def _texts(
    header: Mapping[str, Any], name: str, where: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    found = header.get(name, list(default))
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise AuthorizedKeyError(where, f"{name}: expected a list of texts")
    return tuple(found)


def _moment(text: str, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a moment like 2027-01-31T00:00:00Z"
        raise AuthorizedKeyError(where, f"expires_at: {expected}, found {text[:80]!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _document(key: AuthorizedKey) -> str:
    fields: dict[str, str | tuple[str, ...] | None] = {
        "fingerprint": key.fingerprint,
        "public_key": encode_public_key(key.public_pem),
        "label": key.label,
        "scopes": key.scopes,
        "publish_namespaces": key.publish_namespaces or None,
        "expires_at": key.expires_at,
        "created_via": key.created_via,
        "created_at": key.created_at,
        "created_by": key.created_by,
    }
    lines = (f"{name} = {_toml(value)}\n" for name, value in fields.items() if value is not None)
    return "".join(lines)


def _toml(value: str | tuple[str, ...]) -> str:
    """A text or a list of texts. JSON's escapes are TOML's too, but for those of pairs."""
    words = list(value) if isinstance(value, tuple) else value
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")


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
KNOWN = (EVERYTHING, *_OF_A_NODE, *_OF_A_SERVER, *_OF_A_REGISTRY, *_OF_A_PERSON)
"""Whatever a key may be given."""


class ScopeError(RyeError):
    """A text that names no scope; ``closest`` is the one that it may have meant, or empty."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, scope: str) -> None:
        from difflib import get_close_matches

        self.scope = scope
        self.closest = next(iter(get_close_matches(scope[:80], KNOWN, 1)), "")
        meant = f"; did you mean {self.closest}?" if self.closest else ""
        super().__init__(
            f"scope {scope[:80]!a}: expected one of {', '.join(KNOWN)}{meant}",
            hint="what each is for: docs/node.md",
        )


def valid_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in order, each once. Raises ScopeError."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if scope not in KNOWN:
            raise ScopeError(scope)
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

    code, exit_status = "INVALID_PARAMS", 2

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
    """Have a row for a user. Raises UserIdError."""
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
        """Nothing, when they may do this. Raises Problem, 403."""
        if not allows(self.scopes, scope):
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
            with self._database.doing() as connection:
                connection.execute(request_nonces.insert().values(**row))
        except IntegrityError:
            return False
        return True

    def forget_old(self) -> int:
        """Remove those that no request can come with any more; how many."""
        oldest_s = self._clock().timestamp() - NONCE_S
        with self._database.writing() as connection:
            gone = connection.execute(
                delete(request_nonces).where(request_nonces.c.seen_at_s < oldest_s)
            )
            return gone.rowcount


# --- public keys ----------------------------------------------------------------------------------
# Public keys as people type them.


class PublicKeyError(RyeError):
    """A text that was given as a public key, and is none. ``where`` is who said it."""

    code, exit_status = "INVALID_PARAMS", 2

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
