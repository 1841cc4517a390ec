"""``migrate``: a node's database in another one, or its stores in object storage.

The copy is one transaction of the target, and nothing is written to the source meanwhile, nor ever
by this. ``node.toml`` names the target at the end, which commits the move: before it the source is
the node's database, whatever is left in the target.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Table, func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from lillux.store_layout import ObjectKind
from lillux.values import dataclass, replace
from rye_services.node.storage import LOCK, storage_alone
from rye_services.node.store.objects import is_sound
from rye_services.node.store.servers import stopped_node
from rye_services.node.store.stores import Stores, bucket_instead, name_bucket, open_stores
from rye_services.operations.backup import copy_stores
from rye_services.operations.fsck import Progress
from rye_services.people.audit import Audit
from rye_services.process.data_folder import address_of, name_database, open_database
from rye_services.registry.items import index_all
from rye_services.registry.search_index import index_for
from rye_services.settings import Settings
from rye_services.storage.database import METADATA, Database, may_pause, node_identity
from rye_services.storage.migrations import make_tables
from rye_services.storage.object_storage import address_of_store
from rye_services.storage.registry_tables import METADATA as REGISTRY
from ryeos.items.errors import RyeError

TABLES: tuple[Table, ...] = (*METADATA.sorted_tables, *REGISTRY.sorted_tables)

_AT_ONCE = 1000
_NUL, _REPLACED = "\0", "\N{REPLACEMENT CHARACTER}"
# Of what programs said a NUL may be replaced: PostgreSQL has none. Nothing else is changed.
_WORDS_OF_PROGRAMS = frozenset({"threads", "thread_logs"})
_SET_SEQUENCE = text("SELECT setval(CAST(:sequence AS regclass), :next, false)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The address of the database that the node has now, and how many rows each table has."""

    address: str
    rows: Mapping[str, int]


def migrate(settings: Settings, url: str) -> MigrationResult:
    """Move the node to an empty database.

    1. the node is stopped, and no other command works on it
    2. the target is another one, and empty
    3. in one transaction of the target: tables, rows, counts, sequences, the search index
    4. no server was started meanwhile; ``node.toml`` names the target

    Raises as `stopped_node`, RyeError `CONFLICT`, `CONFIG_ERROR`, `WRONG_DATABASE`.
    """
    with stopped_node(settings) as require_alone:  # (1)
        source, target = open_database(settings), Database(url)
        try:
            made = _require_empty(settings, target, url)  # (2)
            try:
                rows, node = _copy_tables(source, target, address_of(url, settings.data_dir))  # (3)
                require_alone()  # (4)
                return MigrationResult(name_database(settings.data_dir, node, url), rows)
            except BaseException:
                target.close()
                _remove(made)
                raise
        finally:
            source.close()
            target.close()


def _require_empty(settings: Settings, target: Database, url: str) -> Path | None:
    """The file that the target is going to be made as, None where there is one already.

    Raises RyeError `CONFLICT`, `CONFIG_ERROR`.
    """
    address = address_of(url, settings.data_dir)
    if address == address_of(settings.database_url, settings.data_dir):
        raise RyeError(
            f"--to: expected another database than that of this node, found {address}",
            code="CONFLICT",
            hint="name an empty one",
        )
    if target.revision():
        raise _not_empty(target)
    name = make_url(url).database
    if not target.is_sqlite or not name:
        return None
    path = Path(name)
    return None if path.exists() else path


def _not_empty(target: Database) -> RyeError:
    return RyeError(
        f"--to {target.shown}: expected an empty database, found the tables of a node",
        code="CONFLICT",
        hint="name an empty one; what a former attempt has left there has to be dropped first",
    )


def _copy_tables(source: Database, target: Database, address: str) -> tuple[dict[str, int], str]:
    """Copy all; how many rows each table has, and the id of the node."""
    rows: dict[str, int] = {}
    with source.writing() as reading:  # so that no other process writes
        may_pause(reading)
        if not source.is_sqlite:
            names = ", ".join(table.name for table in TABLES)
            reading.execute(text(f"LOCK TABLE {names} IN SHARE MODE"))
        node = str(reading.scalar(select(node_identity.c.id)))

        def copy(writing: Connection) -> None:
            may_pause(writing)
            if writing.scalar(select(func.count()).select_from(node_identity)):
                raise _not_empty(target)  # another one was faster
            for table in TABLES:
                rows[table.name] = _copy_table(table, reading, writing)
            if not target.is_sqlite:
                _set_sequences(writing)
            index_all(writing, index_for(target.dialect))
            details = {"to": address, "rows": sum(rows.values())}
            Audit(target).write(writing, "migrate", node, details)

        make_tables(target, copy)
    return rows, node


def _copy_table(table: Table, reading: Connection, writing: Connection) -> int:
    """Copy the rows of a table; how many. Raises RyeError `CONFLICT` for what it does not take."""
    is_words = table.name in _WORDS_OF_PROGRAMS
    found = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
    try:
        for some in found.mappings().partitions(_AT_ONCE):
            writing.execute(
                insert(table), [_row(table, dict(row), is_words=is_words) for row in some]
            )
    except (SQLAlchemyError, ValueError) as error:
        cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise RyeError(
            f"table {table.name}: {cause}",
            code="CONFLICT",
            hint="the database of the node is as it was",
        ) from error
    counts = [one.scalar(select(func.count()).select_from(table)) for one in (reading, writing)]
    if counts[0] != counts[1]:
        raise RyeError(
            f"table {table.name}: expected {counts[0]} rows, found {counts[1]}",
            code="CONFLICT",
            hint="the database of the node is as it was; try again",
        )
    _log.info("copied %s rows of %s", counts[0], table.name)
    return int(counts[0] or 0)


def _row(table: Table, row: dict[str, Any], *, is_words: bool) -> dict[str, Any]:
    for name, value in row.items():
        if isinstance(value, str) and _NUL in value:
            if not is_words:
                raise RyeError(
                    f"table {table.name}, column {name}: found a NUL, which no text may have",
                    code="CONFLICT",
                    hint="remove that row: a node of this version would not take it",
                )
            row[name] = value.replace(_NUL, _REPLACED)
    return row


def _set_sequences(connection: Connection) -> None:
    """Make numbers that PostgreSQL gives from now on follow those that were copied."""
    for table in TABLES:
        column: Column[Any] | None = table.autoincrement_column
        if column is None:
            continue
        sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
        if sequence is None:
            continue
        highest = connection.scalar(select(func.max(column))) or 0
        values = {"sequence": sequence, "next": highest + 1}
        connection.execute(_SET_SEQUENCE, values)


def _remove(path: Path | None) -> None:
    """Remove the file of a database that was begun here."""
    if path is not None:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
            with suppress(OSError):
                path.with_name(name).unlink()


# --- stores ---------------------------------------------------------------------------------------
# The stores of a node in object storage, in place of its folders: ``migrate --to s3://``.
#
# Each content is hashed on its way, and the folders are only read. The database names the bucket at
# the end, which commits the move: before it the folders are the node's stores, whatever is in the
# bucket, and the same command continues where it was interrupted.


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStores:
    """Where the stores are now, and how many contents were copied, or were there already."""

    address: str
    copied: int
    copied_bytes: int
    kept: int


def move_stores(
    settings: Settings, url: str, environ: Mapping[str, str], progress: Progress
) -> MovedStores:
    """Move the stores of a node from its folders to an empty folder of a bucket.

    1. the node is stopped, no sweep or backup is at work, and its stores are folders
    2. the bucket is empty, or has what an attempt before has left there
    3. contents and refs of all users and of the registry, each content hashed
    4. no server was started meanwhile; the database names the bucket

    What is damaged in the folders stops it. Raises as `stopped_node`, RyeError `CONFLICT`,
    `WRONG_STORE`, `CONFIG_ERROR`, ObjectStorageError, LockTimeoutError.
    """
    address = address_of_store(url, "--to").url
    with stopped_node(settings) as require_alone:  # (1)
        database = open_database(settings)
        try:
            with storage_alone(database, settings.data_dir / LOCK):
                folders = open_stores(replace(settings, store=""), database, environ)
                if folders.storage is not None:
                    raise RyeError(
                        f"--to: expected a node with folders, found {folders.storage.bucket.shown}",
                        code="CONFLICT",
                        hint="a backup of it that is restored has folders: rye-node.pyz restore",
                    )
                bucket = bucket_instead(settings, database, environ, url)  # (2)
                _drop_damaged(bucket)
                done = copy_stores(folders, bucket, progress)  # (3)
                if done.damaged:
                    raise RyeError(
                        f"{len(done.damaged)} files cannot be copied: {done.damaged[0]}",
                        code="CONFLICT",
                        hint="rye-node.pyz fsck names them all, and what brings them back; then"
                        " the same command again",
                    )
                require_alone()
                name_bucket(database, settings, url)  # (4)
                facts = {"to": address, "files": done.files + done.kept}
                Audit(database).note("migrate", address, facts)
        finally:
            database.close()
    return MovedStores(address=address, copied=done.files, copied_bytes=done.bytes, kept=done.kept)


def _drop_damaged(bucket: Stores) -> None:
    """Of what an attempt before has left in the bucket, keep what is sound."""
    stores = (*(bucket.users.of(user) for user in bucket.users.users()), bucket.registry)
    for store in stores:
        for space in ObjectKind:
            for one in [*store.stored(space)]:
                if not is_sound(store, space, one.digest):
                    store.set_aside(space, one.digest)
