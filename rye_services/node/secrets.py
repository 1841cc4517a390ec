"""The secrets of users, sealed in the database, never in a store.

A value is opened for an execution that may have it, and for nothing else; no answer shows one.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from lillux.canonical_json import canonical_json
from lillux.digests import decode_base64url, encode_base64url
from lillux.errors import LilluxError
from lillux.sealing import SealingError, box_public, open_sealed, seal
from lillux.values import dataclass
from rye_services.people.audit import Audit
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database, user_secrets
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError
from ryeos.remote.envelopes import (
    FOR_EXECUTION,
    FOR_VAULT,
    EnvelopeError,
    open_envelope,
    seal_secrets,
)
from ryeos.remote.secret_names import MAX_SECRETS, injectable, require_safe, valid_secrets

# --- vault ----------------------------------------------------------------------------------------


class SecretNotFoundError(RyeError):
    """An execution asks for secrets that its user has not set, or that were sealed to another key.

    The code of the second is SECRET_UNREADABLE.
    """

    code = "SECRET_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class SecretEntry:
    """A secret without its value. Times are ISO 8601, UTC."""

    name: str
    created_at: str
    updated_at: str


class Vault:
    """The secrets that users set. Thread-safe."""

    def __init__(
        self, database: Database, *, box_private: bytes, box_public: bytes, clock: Clock
    ) -> None:
        self._database = database
        self._box_private, self._box_public = box_private, box_public
        self._clock = clock
        self._audit = Audit(database)

    def put(self, user_id: str, values: Mapping[str, str]) -> None:
        """Keep the values, all or none; a name that was there has the new value from now on.

        Raises SecretNameError, SecretValuesError for a value that is too long, RefusedError
        `VALIDATION_FAILED` where they are too many.
        """
        for name in values:
            require_safe(name)
        valid_secrets(values)
        sealed = {
            name: seal_row(value, self._box_public, _row(user_id, name))
            for name, value in values.items()
        }
        now = self._clock().isoformat(timespec="microseconds")
        with self._database.writing(lock=f"secrets of {user_id}") as connection:
            for name, envelope in sealed.items():
                _put_row(connection, user_id, name, envelope, now)
            if _count(connection, user_id) > MAX_SECRETS:
                raise RefusedError(
                    f"secrets: expected at most {MAX_SECRETS} of a user, found more",
                    code="VALIDATION_FAILED",
                    hint="delete some first",
                )
            if values:
                names = {"names": sorted(values)}
                self._audit.write(connection, "secrets.put", user_id, names)

    def put_sealed(
        self, user_id: str, name: str, envelope: object, names: Sequence[str] = ()
    ) -> None:
        """Keep the one secret of an envelope, which must have this name.

        It is sealed for the user, or for one of the other names that its sender has.
        Raises EnvelopeError, and what `put` does.
        """
        values, _ = self._opened_for(envelope, (user_id, *names), FOR_VAULT)
        if set(values) != {name}:
            raise EnvelopeError("ciphertext", f"expected exactly the secret {name[:80]!a}")
        self.put(user_id, values)

    def sealed_for_owner(
        self, envelope: Mapping[str, Any], names: Sequence[str]
    ) -> Mapping[str, Any]:
        """The secrets of an execution, sealed for the first of the names that its sender has.

        Raises EnvelopeError: it is for none of them.
        """
        values, user = self._opened_for(envelope, names, FOR_EXECUTION)
        if user == names[0]:
            return envelope
        return seal_secrets(values, self._box_public, user=names[0], purpose=FOR_EXECUTION)

    def _opened_for(
        self, envelope: object, names: Sequence[str], purpose: str
    ) -> tuple[dict[str, str], str]:
        """What an envelope holds, and for which name. The error is about the first one."""
        refused: EnvelopeError | None = None
        for user in names:
            try:
                found = open_envelope(envelope, self._box_private, user=user, purpose=purpose)
            except EnvelopeError as error:
                refused = refused or error
                continue
            return found, user
        raise refused or EnvelopeError("user", "expected a name")

    def entries(self, user_id: str) -> tuple[SecretEntry, ...]:
        """What the user has set, by name."""
        columns = user_secrets.c
        query = select(columns.name, columns.created_at, columns.updated_at)
        with self._database.reading() as connection:
            rows = connection.execute(query.where(columns.user_id == user_id)).all()
        return tuple(sorted((SecretEntry(*row) for row in rows), key=lambda entry: entry.name))

    def delete(self, user_id: str, name: str) -> bool:
        """Forget a secret; False if there was no such secret."""
        columns = user_secrets.c
        gone = delete(user_secrets).where(columns.user_id == user_id, columns.name == name)
        with self._database.writing() as connection:
            was_there = connection.execute(gone).rowcount > 0
            if was_there:
                self._audit.write(connection, "secrets.delete", user_id, {"names": [name]})
        return was_there

    def values(self, user_id: str, names: Sequence[str] | None) -> dict[str, str]:
        """The values of these secrets; of every one that may be injected where None are named.

        Raises SecretNotFoundError with all names that it is about, and SecretValuesError where they
        are more than one execution may have.
        """
        columns = user_secrets.c
        query = select(columns.name, columns.envelope).where(columns.user_id == user_id)
        with self._database.single_read() as connection:
            sealed = {row.name: row.envelope for row in connection.execute(query).all()}
        missing = [name for name in names or () if name not in sealed]
        if missing:
            raise SecretNotFoundError(
                f"secret not found: {_names_text(missing)}",
                hint="set it with: rye remote secrets set NAME",
            )
        wanted = sealed if names is None else {name: sealed[name] for name in names}
        values = self._open_secrets(user_id, wanted)
        safe, skipped = injectable(values)
        if skipped:  # set before its name was reserved
            logging.getLogger(__name__).warning(
                "not injected for %s: %s", user_id, ", ".join(skipped)
            )
        return valid_secrets(safe)

    def _open_secrets(
        self, user_id: str, sealed: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        values, unreadable = {}, []
        for name, envelope in sealed.items():
            try:
                values[name] = open_row(envelope, self._box_private, _row(user_id, name))
            except SealedRowError:
                unreadable.append(name)
        if unreadable:
            raise SecretNotFoundError(
                f"secret sealed to a former key of this node: {_names_text(unreadable)}",
                code="SECRET_UNREADABLE",
                hint="set it again with: rye remote secrets set NAME",
            )
        return values


def _names_text(names: Sequence[str]) -> str:
    return ", ".join(ascii(name[:80]) for name in names)


def _row(user_id: str, name: str) -> dict[str, str]:
    return {"table": "user_secrets", "user_id": user_id, "name": name}


def _put_row(
    connection: Connection, user_id: str, name: str, envelope: Mapping[str, str], now: str
) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = {"user_id": user_id, "name": name, "envelope": envelope, "created_at": now}
    insert = dialect.insert(user_secrets).values(**row, updated_at=now)
    changed = {"envelope": insert.excluded.envelope, "updated_at": now}
    connection.execute(
        insert.on_conflict_do_update(index_elements=["user_id", "name"], set_=changed)
    )


def _count(connection: Connection, user_id: str) -> int:
    query = select(func.count()).where(user_secrets.c.user_id == user_id)
    return int(connection.scalar(query) or 0)


# --- sealed rows ----------------------------------------------------------------------------------
# What the database may hold of a secret: a text sealed to the node, bound to its row. Pure.
#
# It opens for the same row only: copied to another user or name, it does not.

_INFO = b"rye-node/row/v1"


class SealedRowError(RyeError):
    """A sealed text of the database does not open. ``row`` is what it was to be for."""

    code = "INTEGRITY"

    def __init__(self, row: Mapping[str, str], problem: str) -> None:
        self.row, self.problem = dict(row), problem
        named = " ".join(f"{name} {value!a}" for name, value in sorted(row.items()))
        super().__init__(
            f"{named}: {problem}",
            hint="it was sealed to another box key of this node: set it again, or restore the key",
        )


NEXT = "next"
"""Beside an envelope of a row: the same once more, for the box key that the node is about to have.

It is there while keys are changed (`rye_services.node.rotation`), so that a crash leaves no row
that the keys of then do not open.
"""


@dataclass(frozen=True, slots=True)
class SealedValue:
    """What a sealed value of the database is, so that it can be opened and sealed anew."""

    kind: Literal["row", "hook", "execution"]
    row: Mapping[str, str]

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> "SealedValue":
        """A text that is bound to its row."""
        return cls("row", row)

    @classmethod
    def of_secret(cls, user_id: str, name: str) -> "SealedValue":
        """A secret that a user has set."""
        return cls("row", _row(user_id, name))

    @classmethod
    def of_parameters(cls, user_id: str, thread_id: str) -> "SealedValue":
        """What an execution that waits was given."""
        return cls("row", _parameters_row(user_id, thread_id))

    @classmethod
    def of_hook(cls, user_id: str, hook_id: str) -> "SealedValue":
        """The secrets of a webhook's binding, also in an execution that it has asked for."""
        return cls("hook", {"user": user_id, "hook_id": hook_id})

    @classmethod
    def of_execution(cls, user_id: str) -> "SealedValue":
        """The secrets that came with a request for an execution."""
        return cls("execution", {"user": user_id})

    def sealed_anew(
        self, column: Mapping[str, Any], box_private: bytes, public: bytes
    ) -> dict[str, Any]:
        """The same for another box key. Raises SealedRowError, EnvelopeError."""
        if self.kind == "row":
            return seal_row(open_row(column, box_private, self.row), public, self.row)
        if self.kind == "hook":
            user, hook_id = self.row["user"], self.row["hook_id"]
            values = open_for_hook(column, box_private, user=user, hook_id=hook_id)
            return seal_for_hook(values, public, user=user, hook_id=hook_id)
        user = self.row["user"]
        values = open_for_execution(column, box_private, user=user)
        return seal_secrets(values, public, user=user, purpose=FOR_EXECUTION)


def reopened(value: SealedValue, column: Mapping[str, Any], box_private: bytes) -> bool:
    """Whether a box key opens it."""
    try:
        value.sealed_anew(column, box_private, box_public(box_private))
    except LilluxError:
        return False
    return True


def open_for_execution(
    envelope: Mapping[str, Any], box_private: bytes, *, user: str
) -> dict[str, str]:
    """The secrets that came with a request for an execution. Raises EnvelopeError."""
    try:
        return open_envelope(envelope, box_private, user=user, purpose=FOR_EXECUTION)
    except EnvelopeError:
        if NEXT not in envelope:
            raise
        return open_envelope(envelope[NEXT], box_private, user=user, purpose=FOR_EXECUTION)


def seal_for_hook(
    values: Mapping[str, str], box_public: bytes, *, user: str, hook_id: str
) -> dict[str, str]:
    """The secrets of a binding, sealed anew for its row."""
    return seal_row(canonical_json(dict(values)).decode(), box_public, _hook_row(user, hook_id))


def open_for_hook(
    envelope: Mapping[str, Any], box_private: bytes, *, user: str, hook_id: str
) -> dict[str, str]:
    """The secrets of a binding; those of an earlier version are in the envelope as it was sent.

    Raises EnvelopeError.
    """
    if "kind" in envelope and NEXT not in envelope:
        return open_envelope(envelope, box_private, user=user, purpose=FOR_EXECUTION)
    try:  # also of what `NEXT` holds
        text = open_row(envelope, box_private, _hook_row(user, hook_id))
    except SealedRowError as error:
        raise EnvelopeError("ciphertext", error.problem) from None
    values: dict[str, str] = json.loads(text)
    return values


def _hook_row(user: str, hook_id: str) -> dict[str, str]:
    place = {"table": "webhook_bindings", "column": "secret_envelope"}
    return {**place, "user_id": user, "hook_id": hook_id}


SEALED_PARAMETERS = "sealed_parameters"
"""In the column ``job`` of an execution that waits: what it was given, sealed for its row."""


def seal_parameters(
    parameters: Mapping[str, Any], box_public: bytes, user_id: str, thread_id: str
) -> dict[str, str]:
    """The parameters of an execution that waits: a caller may have put anything into them."""
    text = json.dumps(dict(parameters))
    return seal_row(text, box_public, _parameters_row(user_id, thread_id))


def open_parameters(
    job: Mapping[str, Any], box_private: bytes, user_id: str, thread_id: str
) -> dict[str, Any]:
    """What an execution was given; in a row of an earlier version it lies open.

    Raises SealedRowError.
    """
    if SEALED_PARAMETERS not in job:
        return dict(job["parameters"])
    row = _parameters_row(user_id, thread_id)
    values: dict[str, Any] = json.loads(open_row(job[SEALED_PARAMETERS], box_private, row))
    return values


def _parameters_row(user_id: str, thread_id: str) -> dict[str, str]:
    return {"table": "threads", "column": "job", "user_id": user_id, "thread_id": thread_id}


def seal_row(text: str, box_public: bytes, row: Mapping[str, str]) -> dict[str, str]:
    """The JSON for the column. ``row`` names the table, and the values of the key of the row."""
    enc, ciphertext = seal(text.encode(), box_public, aad=canonical_json(dict(row)), info=_INFO)
    return {"enc": encode_base64url(enc), "ciphertext": encode_base64url(ciphertext)}


def open_row(column: Mapping[str, Any], box_private: bytes, row: Mapping[str, str]) -> str:
    """The text that was sealed for this row. Raises SealedRowError."""
    again = column.get(NEXT)
    try:
        return _opened_row(column, box_private, row)
    except SealedRowError:
        if not isinstance(again, Mapping):
            raise
        return _opened_row(again, box_private, row)


def _opened_row(column: Mapping[str, Any], box_private: bytes, row: Mapping[str, str]) -> str:
    enc, ciphertext = (decode_base64url(str(column.get(name))) for name in ("enc", "ciphertext"))
    if enc is None or ciphertext is None:
        raise SealedRowError(row, "expected a sealed text, found something else")
    try:
        aad = canonical_json(dict(row))
        return open_sealed(enc, ciphertext, box_private, aad=aad, info=_INFO).decode()
    except SealingError as error:
        raise SealedRowError(row, error.problem) from None
