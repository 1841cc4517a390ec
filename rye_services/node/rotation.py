"""New signing and box keys of a node, in place of its present ones.

Keys and sealed rows change together, and lie in a folder and a database. So:

1. sealed rows get a second envelope, for the new box key, beside their own
2. all new files are written aside, below the folder of the keys
3. that folder is renamed to ``next``: this commits the change
4. the next process that opens the keys puts the files of ``next`` in place
   (`rye_services.process.keys`)
5. each row keeps the envelope that the keys of now open

A crash before 3 leaves the former keys at work, one after it the new ones: rows open with either.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from sqlalchemy import Connection, select

from lillux.errors import LilluxError
from lillux.files import create_file, file_system_error, read_bytes
from lillux.key_files import BOX_KEY_FILE, save_keypair
from lillux.sealing import encode_box_key, generate_box_pair
from lillux.signing import generate_keypair
from lillux.values import dataclass
from rye_services.node.secrets import NEXT, SEALED_PARAMETERS, SealedValue, reopened
from rye_services.node.store.servers import stopped_node
from rye_services.node.webhooks import hook_row
from rye_services.people.actors import Actor, acting, current_actor
from rye_services.people.audit import Audit, AuditFilter
from rye_services.process.keys import (
    BOX_PUBLIC_FILE,
    NEXT_FOLDER,
    PREVIOUS_FILE,
    RESEAL_FILE,
    NodeKeys,
    open_keys,
)
from rye_services.settings import Settings
from rye_services.storage.database import Database, threads, user_secrets, webhook_bindings
from ryeos.items.context import Clock, utc_now
from ryeos.remote.identity import MAX_PREVIOUS, succession_document

_ACTION = "keys.rotate"
_MAX_NOTE_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationResult:
    """What was changed.

    former          the fingerprint of the key that the node had
    resealed        secrets that are sealed to the new box key
    unreadable      secrets that the former key did not open either: they are as they were
    """

    fingerprint: str
    former: str
    resealed: int
    unreadable: int


def rotate(settings: Settings, database: Database, clock: Clock = utc_now) -> RotationResult:
    """Give a node that is stopped new keys. The steps are those of this module.

    Raises as `stopped_node`, RyeError `CONFIG_ERROR`.
    """
    folder = settings.signing_key_dir
    with stopped_node(settings) as require_alone:
        former = open_keys(folder, clock)
        finish_resealing(folder, database, former)  # of a rotation that was killed
        aside = _aside(folder)
        try:
            private, public = generate_box_pair()
            pair = generate_keypair()
            counts = _seal_for(database, former, public)  # (1)
            save_keypair(aside, pair)  # (2)
            create_file(aside / BOX_KEY_FILE, encode_box_key(private).encode(), mode=0o600)
            create_file(aside / BOX_PUBLIC_FILE, encode_box_key(public).encode())
            statement = succession_document(former.signing, pair.public_pem, public, _now(clock))
            _write_json(aside / PREVIOUS_FILE, [statement, *former.previous][:MAX_PREVIOUS])
            by = {"former": former.fingerprint, "actor": current_actor().name}
            _write_json(aside / RESEAL_FILE, by)
            require_alone()
            _put_in_place(aside, folder)  # (3)
        finally:
            rmtree(aside, ignore_errors=True)
        keys = open_keys(folder, clock)  # (4)
        finish_resealing(folder, database, keys)  # (5)
    return RotationResult(
        fingerprint=keys.fingerprint,
        former=former.fingerprint,
        resealed=counts[0],
        unreadable=counts[1],
    )


def finish_resealing(folder: Path, database: Database, keys: NodeKeys) -> None:
    """Have rows keep the one envelope that the keys of now open, if that is to be done still.

    Raises SQLAlchemyError, FileSystemError.
    """
    note = folder / RESEAL_FILE
    try:
        said = json.loads(read_bytes(note, _MAX_NOTE_BYTES))
    except FileNotFoundError:
        return
    audit = Audit(database)
    # A row of this very change is there where only the removal of the note is missing.
    written = {one.target for one in audit.entries(AuditFilter(action=_ACTION), limit=10)}
    with database.writing() as connection, acting(Actor(str(said.get("actor", "")))):
        for sealed in _sealed_values(connection):
            sealed.keep(_kept(sealed, keys.box_private))
        if keys.node_id not in written:
            audit.write(connection, _ACTION, keys.node_id, {"former": f"fp:{said.get('former')}"})
    try:
        note.unlink(missing_ok=True)
    except OSError as error:
        raise file_system_error(note, error) from error


# --- files ----------------------------------------------------------------------------------------


def _aside(folder: Path) -> Path:
    """An empty folder beside the keys; those of attempts that were killed go, keys and all."""
    for left in folder.glob(f".{NEXT_FOLDER}.*"):
        rmtree(left, ignore_errors=True)
    try:
        return Path(mkdtemp(prefix=f".{NEXT_FOLDER}.", dir=folder))  # mode 0700
    except OSError as error:
        raise file_system_error(folder, error) from error


def _write_json(path: Path, value: object) -> None:
    create_file(path, json.dumps(value, indent=2).encode(), mode=0o600)


def _put_in_place(aside: Path, folder: Path) -> None:
    try:
        aside.rename(folder / NEXT_FOLDER)
    except OSError as error:
        raise file_system_error(folder, error) from error


def _now(clock: Clock) -> str:
    return clock().strftime("%Y-%m-%dT%H:%M:%SZ")


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _SealedColumn:
    """One sealed value of a row, and how it is written back."""

    column: Mapping[str, Any]
    value: SealedValue
    keep: Callable[[Mapping[str, Any]], None]


def _seal_for(database: Database, keys: NodeKeys, public: bytes) -> tuple[int, int]:
    """Give every sealed value a second envelope; how many, and how many do not open."""
    done = unreadable = 0
    with database.writing() as connection:
        for one in _sealed_values(connection):
            own = _without_next(one.column)
            try:
                again = one.value.sealed_anew(own, keys.box_private, public)
            except LilluxError as error:
                _log.warning("not sealed anew: %s", error)
                unreadable += 1
                if NEXT in one.column:
                    one.keep(own)
                continue
            one.keep({**own, NEXT: again})
            done += 1
    return done, unreadable


def _kept(one: _SealedColumn, box_private: bytes) -> Mapping[str, Any]:
    """The envelope that this box key opens, else the one that was the row's own."""
    again = one.column.get(NEXT)
    if isinstance(again, Mapping) and reopened(one.value, again, box_private):
        return again
    return _without_next(one.column)


def _without_next(column: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in column.items() if name != NEXT}


def _sealed_values(connection: Connection) -> list[_SealedColumn]:
    """Every sealed value of the database."""
    return [
        *_secrets(connection),
        *_hooks(connection),
        *_jobs(connection),
        *_parameters(connection),
    ]


def _secrets(connection: Connection) -> list[_SealedColumn]:
    table = user_secrets

    def keeping(user_id: str, name: str) -> Callable[[Mapping[str, Any]], None]:
        row = (table.c.user_id == user_id) & (table.c.name == name)
        return lambda new: _update(connection, table, row, envelope=dict(new))

    return [
        _SealedColumn(
            column=row.envelope,
            value=SealedValue.of_secret(row.user_id, row.name),
            keep=keeping(row.user_id, row.name),
        )
        for row in connection.execute(select(table.c.user_id, table.c.name, table.c.envelope)).all()
    ]


def _hooks(connection: Connection) -> list[_SealedColumn]:
    table = webhook_bindings
    found: list[_SealedColumn] = []

    def keeping(hook_id: str, column: str) -> Callable[[Mapping[str, Any]], None]:
        row = table.c.hook_id == hook_id
        return lambda new: _update(connection, table, row, **{column: dict(new)})

    columns = (table.c.hook_id, table.c.user_id, table.c.hmac_secret, table.c.secret_envelope)
    for row in connection.execute(select(*columns)).all():
        found.append(
            _SealedColumn(
                column=row.hmac_secret,
                value=SealedValue.of_row(hook_row(row.hook_id)),
                keep=keeping(row.hook_id, "hmac_secret"),
            )
        )
        if row.secret_envelope is not None:
            found.append(
                _SealedColumn(
                    column=row.secret_envelope,
                    value=SealedValue.of_hook(row.user_id, row.hook_id),
                    keep=keeping(row.hook_id, "secret_envelope"),
                )
            )
    return found


def _jobs(connection: Connection) -> list[_SealedColumn]:
    """The envelopes of executions that wait."""
    table = threads

    def keeping(thread_id: str) -> Callable[[Mapping[str, Any]], None]:
        row = table.c.thread_id == thread_id
        return lambda new: _update(
            connection, table, row, job_secrets=json.dumps(dict(new)).encode()
        )

    columns = (table.c.thread_id, table.c.user_id, table.c.hook_id, table.c.job_secrets)
    rows = connection.execute(select(*columns).where(table.c.job_secrets.is_not(None))).all()
    return [
        _SealedColumn(
            column=json.loads(row.job_secrets),
            value=SealedValue.of_hook(row.user_id, row.hook_id)
            if row.hook_id
            else SealedValue.of_execution(row.user_id),
            keep=keeping(row.thread_id),
        )
        for row in rows
    ]


def _parameters(connection: Connection) -> list[_SealedColumn]:
    """What executions that wait were given."""
    table = threads

    def keeping(thread_id: str, job: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
        row = table.c.thread_id == thread_id
        return lambda new: _update(
            connection, table, row, job={**job, SEALED_PARAMETERS: dict(new)}
        )

    columns = (table.c.thread_id, table.c.user_id, table.c.job)
    rows = connection.execute(select(*columns).where(table.c.job.is_not(None))).all()
    return [
        _SealedColumn(
            column=row.job[SEALED_PARAMETERS],
            value=SealedValue.of_parameters(row.user_id, row.thread_id),
            keep=keeping(row.thread_id, row.job),
        )
        for row in rows
        if SEALED_PARAMETERS in row.job
    ]


def _update(connection: Connection, table: Any, row: Any, **values: Any) -> None:  # noqa: ANN401 - columns
    connection.execute(table.update().where(row).values(**values))
