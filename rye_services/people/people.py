"""The people of a node: each has a store, and any number of keys that may sign for it.

A person whose key the operator let in is called by its fingerprint, and that is all there is to
know of them: such people have no row in `user_keys`. A key of that table is a further one of a
person, added by themselves or by the operator. Page: ``docs/teams.md``.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from secrets import token_hex
from typing import Annotated, Any, Literal

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.exc import IntegrityError

from lillux.shapes import TEXT, of_attributes, write
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, replace
from rye_services.names import (
    RegistryNameError,
    folded_namespace,
    is_reserved,
    namespace_name,
)
from rye_services.people.audit import Audit
from rye_services.people.credentials import (
    MAX_LABEL_CHARACTERS,
    AuthorizedKey,
    UserIdError,
    authorized_key_of,
    ensure_user,
    valid_scopes,
    valid_user_id,
)
from rye_services.refusal import RefusedError
from rye_services.storage.database import (
    Database,
    Text,
    authorized_keys,
    from_row,
    hold,
    oidc_subjects,
    page_sessions,
    project_refs,
    stamp,
    teams,
    threads,
    user_keys,
    user_secrets,
    users,
    webhook_bindings,
)
from rye_services.web.sign_in import Subject, wished_name
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.remote.identity import decode_public_key, encode_public_key

PERSON, TEAM = "person", "team"
State = Literal["open", "waiting", "closed"]
OPEN: State = "open"
WAITING: State = "waiting"
CLOSED: State = "closed"

MAX_KEYS = 50
"""Of one person."""

MAX_WAITING = 1000
"""Who have signed in and were not let in: any account at the provider can be one."""

_FINGERPRINT_LENGTH = 16
# Of a registry, which stands above this; both are there in every database.
_accounts = table("registry_accounts", column("name"), column("folded"))
_namespaces = table("registry_namespaces", column("name"), column("folded"))


def person_error(where: str, problem: str, *, hint: str = "") -> RefusedError:
    """The error of an invalid value of a person."""
    hint = hint or "docs/teams.md says what is possible"
    return RefusedError(f"{where}: {problem}", code="CONFLICT", hint=hint)


class PersonMissingError(RyeError):
    """No user of this id is known here."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        super().__init__(
            f"user {user_id[:80]!a}: expected a user known to this node, found none",
            hint="list them with: rye-node.pyz users list",
        )


def _prefixed(fingerprint: str) -> str:
    return f"fp:{fingerprint}"


KeyFingerprint = Annotated[str, replace(TEXT, written=_prefixed)]
"""A fingerprint, written with what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonKeyAnswer:
    """A further key of a person; ``scopes`` null: whatever the person may do."""

    fingerprint: KeyFingerprint
    label: str
    scopes: tuple[str, ...] | None
    created_at: str
    created_by: str
    expires_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonKey:
    """A further key of a person. ``scopes`` None: whatever the person may do."""

    fingerprint: str
    user_id: str
    public_key: str
    label: str
    scopes: tuple[str, ...] | None
    created_at: str
    created_by: str
    expires_at: str | None

    @property
    def public_pem(self) -> bytes:
        """The key itself."""
        return decode_public_key(self.public_key)

    def as_answer(self) -> dict[str, Any]:
        """The key as JSON shows it."""
        return write(of_attributes(PersonKeyAnswer, self))


@dataclass(frozen=True, slots=True)
class KnownKey:
    """Whose a key is: the row of a further key, or that of the operator; the state of its person.

    A further key counts as such alone, also where the operator has let it in before.
    """

    row: PersonKey | None
    state: str
    authorized: AuthorizedKey | None = None


_AUTHORIZED = {column.name: column.label(f"first_{column.name}") for column in authorized_keys.c}
_FINGERPRINT = select(bindparam("of_key", type_=Text()).label("of_key")).subquery()
_KEY_AND_STATE = select(
    user_keys, users.c.state.label("user_state"), *_AUTHORIZED.values()
).select_from(
    _FINGERPRINT.outerjoin(user_keys, user_keys.c.fingerprint == _FINGERPRINT.c.of_key)
    .outerjoin(users, users.c.id == func.coalesce(user_keys.c.user_id, _FINGERPRINT.c.of_key))
    .outerjoin(authorized_keys, authorized_keys.c.fingerprint == _FINGERPRINT.c.of_key)
)


def _authorized_in(row: Row[Any]) -> AuthorizedKey | None:
    """The key that the operator let in, if there is one, of a row with both kinds of keys."""
    values = {name: getattr(row, column.name) for name, column in _AUTHORIZED.items()}
    return None if values["fingerprint"] is None else authorized_key_of(values)


class People:
    """The people in the database, and their keys. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock
        self._audit = Audit(database)

    def of_key(self, fingerprint: str) -> KnownKey:
        """Whose the key of a fingerprint is; without a row it is its own person's."""
        with self._database.single_read() as connection:
            row = connection.execute(_KEY_AND_STATE, {"of_key": fingerprint}).one()
        state = row.user_state or OPEN
        if row.fingerprint is not None:
            return KnownKey(_key_of(row), state)
        return KnownKey(None, state, _authorized_in(row))

    def state_of(self, user_id: str) -> str:
        """Whether a user may do anything here: `OPEN`, also for a user without a row."""
        with self._database.single_read() as connection:
            state = connection.scalar(select(users.c.state).where(users.c.id == user_id))
        return state or OPEN

    def keys_of(self, user_id: str, *, are_valid: bool = False) -> tuple[PersonKey, ...]:
        """The further keys of a person, the oldest first; ``are_valid``: without expired ones."""
        columns = user_keys.c
        wanted = select(user_keys).where(columns.user_id == user_id)
        if are_valid:
            now = stamp(self._clock())
            wanted = wanted.where(or_(columns.expires_at.is_(None), columns.expires_at > now))
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(user_keys.c.created_at))
            return tuple(map(_key_of, rows))

    def add_key(
        self,
        user_id: str,
        public_pem: bytes,
        *,
        label: str,
        scopes: tuple[str, ...] | None,
        by: str,
        expires_at: datetime | None = None,
    ) -> PersonKey:
        """Let a person sign with a further key; of one they have, what it may is replaced.

        A key that has projects of its own stays its own person: they would be out of reach.
        Raises RefusedError `CONFLICT`, `INVALID_PARAMS`, PemError, UserIdError.
        """
        valid_user_id(user_id)
        if not label.isprintable() or len(label) > MAX_LABEL_CHARACTERS:
            expected = f"expected at most {MAX_LABEL_CHARACTERS} visible characters"
            raise person_error("label", expected)
        pem = canonical_public_pem(public_pem)
        fingerprint = compute_key_fingerprint(pem)
        key = PersonKey(
            fingerprint=fingerprint,
            user_id=user_id,
            public_key=encode_public_key(pem),
            label=label,
            scopes=None if scopes is None else valid_scopes(scopes),
            created_at=stamp(self._clock()),
            created_by=by,
            expires_at=stamp(expires_at) if expires_at else None,
        )
        with self._database.writing(lock=f"signing key {fingerprint}") as connection:
            hold(connection, f"keys of {user_id}")
            _require_person(connection, user_id)
            if fingerprint == user_id:
                raise person_error(f"key {fingerprint}", "it is the first key of this person")
            self._put_key(connection, key)
            facts = {"fingerprint": fingerprint, "label": label}
            self._audit.write(connection, "people.add-key", user_id, facts)
        return key

    def _put_key(self, connection: Connection, key: PersonKey) -> None:
        where = user_keys.c.fingerprint == key.fingerprint
        owner = connection.scalar(select(user_keys.c.user_id).where(where))
        if owner is not None and owner != key.user_id:
            raise person_error(f"key {key.fingerprint}", "it is the key of another user")
        if owner is None and _has_something(connection, key.fingerprint):
            raise person_error(
                f"key {key.fingerprint}",
                "it has projects, secrets or webhooks of its own, which it would no longer reach",
                hint="move its projects into a team first: rye remote move TEAM; or use a new key",
            )
        mine = select(func.count()).where(user_keys.c.user_id == key.user_id)
        if owner is None and (connection.scalar(mine) or 0) >= MAX_KEYS:
            raise person_error(key.user_id, f"expected at most {MAX_KEYS} keys, found more")
        connection.execute(delete(user_keys).where(where))
        connection.execute(insert(user_keys).values(**write(key)))

    def remove_key(self, user_id: str, fingerprint: str) -> None:
        """Revoke a key of a person. Raises RefusedError `ITEM_NOT_FOUND`."""
        columns = user_keys.c
        gone = delete(user_keys).where(
            columns.user_id == user_id, columns.fingerprint == fingerprint
        )
        with self._database.writing() as connection:
            if not connection.execute(gone).rowcount:
                raise RefusedError(
                    f"key {fingerprint[:80]!a}: {user_id} has no such key",
                    code="ITEM_NOT_FOUND",
                    hint="list them with: rye remote keys list",
                )
            facts = {"fingerprint": fingerprint}
            self._audit.write(connection, "people.remove-key", user_id, facts)

    def add(self, name: str, *, email: str = "", state: State = OPEN) -> str:
        """A new person of this name. Raises RefusedError, UserIdError, RegistryNameError."""
        now = stamp(self._clock())
        with self._database.writing(lock=name_lock(name)) as connection:
            require_free_name(connection, name)
            row = {"id": name, "kind": PERSON, "state": state, "email": email, "created_at": now}
            connection.execute(insert(users).values(**row, username=name))
            self._audit.write(connection, "people.add", name, {"state": state})
        return name

    def of_subject(self, subject: Subject, *, is_let_in: bool) -> tuple[str, str]:
        """The person whom a provider knows, and their state; a new one where there is none yet.

        A new one is called as the provider calls them where the name is free, else by a random
        name. They wait to be let in, unless ``is_let_in``. Raises RyeError `CONFLICT`: too many
        wait.
        """
        known, now = self._touch(subject), stamp(self._clock())
        if known is not None:
            return known
        for name in (wished_name(subject), f"user-{token_hex(6)}"):
            if not name or is_reserved(name):
                continue
            with suppress(*NAME_ERRORS), self._database.writing(lock=name_lock(name)) as connection:
                hold(connection, f"subject {subject.subject}")
                require_free_name(connection, name)
                _require_room_to_wait(connection)
                state = OPEN if is_let_in else WAITING
                row = {"id": name, "kind": PERSON, "state": state, "created_at": now}
                row |= {"username": subject.name, "email": subject.email}
                mark = {"issuer": subject.issuer, "subject": subject.subject, "last_at": now}
                try:
                    with connection.begin_nested():
                        connection.execute(
                            insert(oidc_subjects).values(**mark, user_id=name, created_at=now)
                        )
                except IntegrityError:  # they signed in twice at once
                    break
                connection.execute(insert(users).values(**row))
                facts = {"state": state, "issuer": subject.issuer, "email": subject.email}
                self._audit.write(connection, "people.add", name, facts)
                return name, state
        return self._touch(subject) or ("", CLOSED)

    def _touch(self, subject: Subject) -> tuple[str, str] | None:
        """Who a subject is, with their address as it is now."""
        columns = oidc_subjects.c
        is_it = (columns.issuer == subject.issuer) & (columns.subject == subject.subject)
        with self._database.writing() as connection:
            user_id = connection.scalar(select(columns.user_id).where(is_it))
            if user_id is None:
                return None
            seen = update(oidc_subjects).where(is_it).values(last_at=stamp(self._clock()))
            connection.execute(seen)
            changed = update(users).where(users.c.id == user_id)
            connection.execute(changed.values(username=subject.name, email=subject.email))
            state = connection.scalar(select(users.c.state).where(users.c.id == user_id))
        return str(user_id), str(state or CLOSED)

    def set_state(self, user_id: str, state: State) -> str:
        """Let a user in, or no longer; the state before. Ends their sessions where it is over.

        Raises PersonMissingError.
        """
        with self._database.writing() as connection:
            wanted = select(users.c.state, users.c.kind).where(users.c.id == user_id)
            before = connection.execute(wanted.with_for_update()).first()
            if before is None or before.kind != PERSON:
                raise PersonMissingError(user_id)
            change = update(users).where(users.c.id == user_id)
            connection.execute(change.values(state=state))
            if state != OPEN:
                connection.execute(delete(page_sessions).where(page_sessions.c.user_id == user_id))
            facts = {"before": before.state, "state": state}
            self._audit.write(connection, "people.set-state", user_id, facts)
        return str(before.state)

    def room_of(self, user_id: str, default_bytes: int) -> tuple[int, int]:
        """How many bytes a user, or a team, stores, and how many they may."""
        wanted = select(users.c.stored_bytes, users.c.quota_bytes).where(users.c.id == user_id)
        with self._database.reading() as connection:
            row = connection.execute(wanted).first()
        if row is None:
            return 0, default_bytes
        return int(row.stored_bytes), default_bytes if row.quota_bytes is None else row.quota_bytes

    def emails_of(self, user_id: str) -> tuple[str, ...]:
        """The address of a person that a provider has verified, lower case."""
        known = select(users.c.email).where(users.c.id == user_id)
        is_verified = select(oidc_subjects.c.user_id).where(oidc_subjects.c.user_id == user_id)
        with self._database.reading() as connection:
            email = connection.scalar(known.where(is_verified.exists()))
        return (str(email).lower(),) if email else ()

    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Kind, state, email and number of keys of each user that has a row, by id."""
        counts = select(user_keys.c.user_id, func.count().label("keys")).group_by(
            user_keys.c.user_id
        )
        with self._database.reading() as connection:
            keys = {row.user_id: row.keys for row in connection.execute(counts)}
            subjects = {
                row.user_id: row.issuer for row in connection.execute(select(oidc_subjects))
            }
            return {
                row.id: {
                    "kind": row.kind,
                    "state": row.state,
                    "email": row.email,
                    "keys": keys.get(row.id, 0),
                    "issuer": subjects.get(row.id, ""),
                }
                for row in connection.execute(select(users))
            }


def _require_room_to_wait(connection: Connection) -> None:
    waiting = select(func.count()).select_from(users).where(users.c.state == WAITING)
    if (connection.scalar(waiting) or 0) >= MAX_WAITING:
        raise RyeError(
            f"{MAX_WAITING} people wait to be let into this node",
            code="CONFLICT",
            hint="its operator lets some in, or closes them: rye-node.pyz users list",
        )


def _require_person(connection: Connection, user_id: str) -> None:
    kind = connection.scalar(select(users.c.kind).where(users.c.id == user_id))
    if kind == TEAM:
        raise person_error(user_id, "it is a team: keys are its members'")
    if kind is None:
        ensure_user(connection, user_id, stamp(datetime.now().astimezone()))


def _has_something(connection: Connection, user_id: str) -> bool:
    """Whether there is something that only its owner reaches."""
    return any(
        connection.execute(
            select(owned.c.user_id).where(owned.c.user_id == user_id).limit(1)
        ).first()
        for owned in (project_refs, user_secrets, webhook_bindings, threads)
    )


def _key_of(row: Row[Any]) -> PersonKey:
    return from_row(PersonKey, row)


# --- names ----------------------------------------------------------------------------------------
# People, teams, accounts and namespaces of a registry share their names: no two look alike.


def name_lock(name: str) -> str:
    """What one transaction has at a time that gives a user a name, as a registry takes it."""
    return f"registry name {folded_namespace(name)}"


def require_free_name(connection: Connection, name: str) -> None:
    """Refuse a name that a user has, or one too like it. The caller has its `name_lock`.

    Raises UserIdError, RegistryNameError, RefusedError `CONFLICT`.
    """
    namespace_name(valid_user_id(name), "name")
    if len(name) == _FINGERPRINT_LENGTH and set(name) <= set("0123456789abcdef"):
        raise person_error(name, "it looks like the fingerprint of a key", hint="choose a word")
    folded = folded_namespace(name)
    alike = func.replace(func.lower(users.c.id), "_", "-") == folded
    taken = (
        select(users.c.id).where(alike),
        select(teams.c.id).where(teams.c.id == name),
        select(_accounts.c.name).where(_accounts.c.folded == folded),
        select(_namespaces.c.name).where(_namespaces.c.folded == folded),
    )
    for query in taken:
        found = connection.scalar(query.limit(1))
        if found is not None:
            raise person_error(
                name, f"{found} has this name, or one too like it", hint="choose another one"
            )


NAME_ERRORS = (RefusedError, UserIdError, RegistryNameError)
"""What is raised for a name that a user cannot have."""
