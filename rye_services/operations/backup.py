"""Backups of a node, and their way back. Layout and rules: ``docs/node.md``, Backup and restore.

The database is copied first and the stores after it, while no sweep may remove anything: whatever
the copied rows name was stored before, and is still there when its store is copied.
"""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import (
    PLAIN_FILE,
    create_file,
    file_system_error,
    flush_to_disk,
    make_directory,
    read_bytes,
    write_atomic,
)
from lillux.store import Durability, Store, StoredEntry
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind
from lillux.values import dataclass, replace
from rye_services.node.storage import described, roots_of_rows
from rye_services.node.store.objects import UserStores, is_sound
from rye_services.node.store.stores import Stores, open_stores, use_folders
from rye_services.operations.fsck import REGISTRY, REGISTRY_STORE, Fsck, Progress, StoreReport
from rye_services.process.data_folder import name_database, open_database
from rye_services.settings import CONFIG_FILE, Settings, read_settings
from rye_services.storage.database import (
    Database,
    accepted_losses,
    may_pause,
    node_identity,
    project_refs,
    stamp,
    threads,
    user_space_refs,
    users,
)
from rye_services.storage.registry_tables import bundle_files
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore
from ryeos.sync.garbage import Root, RootNeed, mark, roots_of_refs
from ryeos.sync.references import ObjectReference

FORMAT = 1
FACTS = "backup.json"
_LOCK, _STATE, _MAKING = "backup.lock", "state-", ".making-"
_SQLITE_FILE, _DUMP_FILE = "node.db", "node.dump"
_CONFIG, _SIGNING, _CAS = "config", "signing", "cas"
_MAX_FACTS_BYTES, _MAX_FILE_BYTES = 64 * 1024, 16 * 1024 * 1024
_ROUNDS = 3
_GROUP_BYTES = 8 * 1024 * 1024  # of what is read before it is written


def backup_error(path: Path, problem: str, *, hint: str) -> RyeError:
    """The error of a folder that is no backup, or not one of this node, or not for this place."""
    return RyeError(f"{path}: {problem}", code="CONFIG_ERROR", hint=hint)


def backup_entry_error(path: Path, problem: str) -> RyeError:
    """The error of what no backup has: a link, a device, a file that is too large."""
    return RyeError(
        f"{path}: {problem}",
        code="INTEGRITY",
        hint="look who changed the backup; another one may be sound",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What ``backup.json`` says.

    node      the id of the node, which its database has too
    schema    of PostgreSQL, where the tables are; else ``""``
    """

    made_at: str
    version: str
    node: str
    database: Literal["sqlite", "postgresql"]
    schema: str = ""

    def as_json(self) -> bytes:
        """The document."""
        values = {"format": FORMAT, **{name: getattr(self, name) for name in _NAMES}}
        return json.dumps(values, indent=1).encode()


_NAMES = tuple(BackupFacts.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp:
    """What a backup did.

    copied, kept  stored files: those that the backup lacked, and those that it had
    lost          what the node itself has lost or damaged, in words: the backup has it neither
    """

    state: str
    users: int
    copied: int
    copied_bytes: int
    kept: int
    lost: tuple[str, ...]


# --- back up --------------------------------------------------------------------------------------


def back_up(
    settings: Settings,
    database: Database,
    target: Path,
    environ: Mapping[str, str],
    *,
    stores: Stores,
    version: str,
    clock: Clock,
    progress: Progress,
) -> BackedUp:
    """Copy all of a node into a folder; one that has a backup of it gets what is new.

    No process may remove anything from the stores meanwhile; a server may serve.

    1. the folder is empty, or has backups of this node; one backup at a time is made there
    2. keys, settings and the database, aside
    3. what the stores have and the backup lacks, all of it hashed; what is damaged is left out
    4. all that the copied rows lead to is looked for in the backup; where a file of a registry went
       between (2) and (3), once more from (2)
    5. what is aside gets its name, and what was before it goes

    Raises RyeError, FileSystemError, LockTimeoutError; what was there before stays.
    """
    _require_empty_target(target, settings, database)  # (1)
    make_directory(target, mode=0o700)
    with locked(target / _LOCK, timeout_s=0):
        for left in target.glob(f"{_MAKING}*"):
            shutil.rmtree(left)
        name = f"{_STATE}{clock().strftime('%Y%m%dT%H%M%S%fZ')}"
        total = CopyProgress()
        for attempt in range(_ROUNDS):
            with _aside(target / f"{_MAKING}{os.urandom(4).hex()}") as making:
                rows = _copy_state(  # (2)
                    settings, database, making, environ, version=version, clock=clock
                )
                total = _copy_stores(stores, target, total, progress)  # (3)
                lost = _lost(rows, target)  # (4)
                if any(one.user_id == REGISTRY for one in lost) and attempt < _ROUNDS - 1:
                    continue
                _put_in_place(making, target / name)  # (5)
                break
        for older in target.glob(f"{_STATE}*"):
            if older.name != name:
                shutil.rmtree(older)
    words = (f"{one.user_id}: {one.words}" for one in lost)
    return BackedUp(
        state=name,
        users=len(rows.roots),
        copied=total.files,
        copied_bytes=total.bytes,
        kept=total.kept,
        lost=(*total.damaged, *words),
    )


def _require_empty_target(target: Path, settings: Settings, database: Database) -> None:
    inside = (settings.data_dir, settings.cas_base_path, settings.config_dir)
    if any(target.is_relative_to(folder) for folder in inside):
        raise backup_error(
            target, f"lies in the data {settings.data_dir}", hint="name a folder elsewhere"
        )
    if not target.exists() or not target.is_dir():
        if os.path.lexists(target):
            raise backup_error(target, "expected a folder, found a file", hint="name a folder")
        return
    states = [*target.glob(f"{_STATE}*")]
    known = {_LOCK, _CAS, REGISTRY_STORE, *(state.name for state in states)}
    others = [one.name for one in target.iterdir() if one.name not in known]
    others = [name for name in others if not name.startswith(_MAKING)]
    if others:
        raise backup_error(
            target,
            f"expected an empty folder or backups, found {min(others)!a}",
            hint="name a folder for backups of this node alone",
        )
    node = _node_of(database)
    for state in states:
        facts = read_facts(state)
        if facts.node != node:
            raise backup_error(
                target,
                f"expected backups of node {node}, found one of {facts.node}",
                hint="a folder for each node",
            )


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the copied rows lead to: of each user, and of the registry.

    accepted  user and digest of what is gone for good, as an operator said: it is no news
    """

    roots: Mapping[str, tuple[Root, ...]]
    registry: tuple[Root, ...]
    accepted: frozenset[tuple[str, str]]


def _copy_state(
    settings: Settings,
    database: Database,
    making: Path,
    environ: Mapping[str, str],
    *,
    version: str,
    clock: Clock,
) -> _Rows:
    """Keys, settings, database and facts; the roots of the rows that were copied."""
    _copy_folder(settings.signing_key_dir, making / _SIGNING, read_bytes)
    _copy_folder(settings.config_dir, making / _CONFIG, read_bytes)
    facts = BackupFacts(
        made_at=stamp(clock()), version=version, node=_node_of(database), database="sqlite"
    )
    if database.is_sqlite:
        _copy_sqlite(Path(str(make_url(settings.database_url).database)), making / _SQLITE_FILE)
        copied = Database(f"sqlite:///{making / _SQLITE_FILE}")
        try:
            with copied.reading() as connection:
                rows = _rows(connection)
        finally:
            copied.close()
        _remove_beside(making / _SQLITE_FILE)
    else:
        with database.reading() as connection:  # one state of it, also for the program
            rows = _rows(connection)
            schema = copy_postgresql(
                connection, settings.database_url, making / _DUMP_FILE, environ
            )
        facts = replace(facts, database="postgresql", schema=schema)
    write_atomic(making / FACTS, facts.as_json(), mode=0o600)
    return rows


def _rows(connection: sqlalchemy.Connection) -> _Rows:
    columns = (users.c.id, *(one.c.user_id for one in (project_refs, user_space_refs, threads)))
    ids = {one for column in columns for one in connection.scalars(sqlalchemy.select(column))}
    every = sqlalchemy.true()
    known = sqlalchemy.select(accepted_losses.c.user_id, accepted_losses.c.digest)
    files = connection.execute(sqlalchemy.select(bundle_files)).mappings()
    return _Rows(
        {one: tuple(roots_of_rows(connection, one, every)) for one in sorted(ids)},
        tuple(
            Root(
                ObjectReference(row["blob_hash"], ObjectKind.BLOB),
                f"the bundle {row['bundle_id']}@{row['version']}",
                RootNeed.ITSELF,
            )
            for row in files
        ),
        frozenset((row.user_id, row.digest) for row in connection.execute(known)),
    )


def _copy_sqlite(source: Path, target: Path) -> None:
    """The database in one state, while others write. Raises RyeError."""
    create_file(target, b"", mode=0o600)
    try:
        # All pages in one step: in several, a writer would have it begin anew each time.
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)) as opened,
            closing(sqlite3.connect(target)) as copied,
        ):
            opened.backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE").close()
            (found,) = copied.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise RyeError(
            f"{source}: the database cannot be copied: {error}",
            code="FILE_SYSTEM_ERROR",
            hint="is there room in the folder of the backup?",
        ) from error
    if found != "ok":
        raise RyeError(
            f"{source}: the database is damaged: {found}",
            code="INTEGRITY",
            hint="restore the last backup before this one",
        )
    flush_to_disk([target])


def _remove_beside(path: Path) -> None:
    """What SQLite leaves beside a database that was only read."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """What was copied of stores so far."""

    files: int = 0
    bytes: int = 0
    kept: int = 0
    damaged: tuple[str, ...] = ()


def _copy_stores(
    opened: Stores, target: Path, so_far: CopyProgress, progress: Progress
) -> CopyProgress:
    copies = UserStores(target / _CAS)
    for user in opened.users.users():
        _require_plain(target, *copies.of(user).root.relative_to(target).parts)
    _require_plain(target, REGISTRY_STORE)
    into = Stores(users=copies, registry=Store(target / REGISTRY_STORE))
    return copy_stores(opened, into, progress, so_far=replace(so_far, kept=0, damaged=()))


def copy_stores(
    source: Stores, target: Stores, progress: Progress, *, so_far: CopyProgress | None = None
) -> CopyProgress:
    """Copy what the target lacks, of all users and the registry, each content hashed."""
    total = so_far or CopyProgress()
    for user in source.users.users():
        total = _copy_store(source.users.of(user), target.users.of(user), user, total, progress)
    if source.registry.folder is None or source.registry.folder.is_dir():
        total = _copy_store(source.registry, target.registry, REGISTRY, total, progress)
    return total


def _copy_store(
    source: ContentStore, target: ContentStore, name: str, so_far: CopyProgress, progress: Progress
) -> CopyProgress:
    """Copy what the target lacks, each piece hashed, and the refs; have it on the disk."""
    listed = [(space, one) for space in ObjectKind for one in source.stored(space)]
    files, size, kept, damaged = so_far.files, so_far.bytes, so_far.kept, [*so_far.damaged]
    group: list[tuple[ObjectKind, str, bytes]] = []  # stored together: many small ones in one file
    room = _GROUP_BYTES
    for done, (space, one) in enumerate(listed):
        progress(name, done, len(listed))
        if _has(target, space, one):
            kept += 1
            continue
        try:
            data = source.get_bytes(space, one.digest)
        except ObjectMissingError:
            continue
        except LilluxError as error:
            damaged.append(f"{name}: {error}")
            continue
        group.append((space, one.digest, data))
        files, size, room = files + 1, size + len(data), room - len(data)
        if room <= 0:
            target.keep_all(group, Durability.AT_SYNC)
            group, room = [], _GROUP_BYTES
    target.keep_all(group, Durability.AT_SYNC)
    refs = dict(source.refs())
    for name_of_ref, value in refs.items():
        target.write_ref(name_of_ref, value, Durability.AT_SYNC)
    for gone in [one for one, _ in target.refs() if one not in refs]:
        target.remove_ref(gone)
    target.sync()
    progress(name, len(listed), len(listed))
    return CopyProgress(files, size, kept, tuple(damaged))


def _has(target: ContentStore, space: ObjectKind, one: StoredEntry) -> bool:
    """Whether a backup has it: of a blob its size is right, an object is read, as it is anyway."""
    if target.size(space, one.digest) != one.size:
        return False
    if space is ObjectKind.BLOB or is_sound(target, space, one.digest):
        return True
    target.set_aside(space, one.digest)
    return False


@dataclass(frozen=True, slots=True)
class _LostContent:
    """Something that a copied row leads to and that the backup has not."""

    user_id: str
    words: str


def _lost(rows: _Rows, target: Path) -> tuple[_LostContent, ...]:
    copies = UserStores(target / _CAS)
    stores = [(user, copies.of(user), roots) for user, roots in rows.roots.items()]
    stores.append((REGISTRY, Store(target / REGISTRY_STORE), rows.registry))
    return tuple(
        _LostContent(user, f"{gap.root} leads to {described(gap)}, which is missing")
        for user, store, roots in stores
        for gap in mark(store, [*roots, *roots_of_refs(store)]).gaps
        if (user, gap.reference.digest) not in rows.accepted
    )


def _put_in_place(making: Path, state: Path) -> None:
    flush_to_disk([*making.rglob("*"), making])
    try:
        making.rename(state)
    except OSError as error:
        raise file_system_error(state, error) from error
    flush_to_disk([state.parent])


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A new folder, which is gone at the end unless it was renamed."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise file_system_error(folder, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _node_of(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.scalar(sqlalchemy.select(node_identity.c.id)) or "")


# --- restore --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What was restored. ``reports`` are of every store, with what the backup itself lacked."""

    facts: BackupFacts
    reports: tuple[StoreReport, ...]
    damaged: tuple[str, ...]


def restore(
    source: Path,
    folder: Path,
    environ: Mapping[str, str],
    *,
    clock: Clock,
    progress: Progress,
) -> RestoreResult:
    """Write a node's data to a folder, as its newest backup in ``source`` has them.

    1. it is a backup, and the folder is not there or empty
    2. its settings keep everything below the folder, and its database is of the kind that they say
    3. keys, settings and files are copied aside, plain files only, each stored file hashed
    4. the database, into an empty one
    5. all that its rows lead to is looked for
    6. what is aside becomes the folder

    Raises RyeError, FileSystemError; the folder is as it was then.
    """
    state = newest_state(source)
    facts = read_facts(state)  # (1)
    _require_empty(folder)
    settings = _settings_of(state, folder, environ, facts)  # (2)
    make_directory(folder.parent)
    with _aside(folder.parent / f".{folder.name}.restoring-{os.urandom(4).hex()}") as making:
        own = replace(
            settings,
            data_dir=making,
            config_dir=making / _CONFIG,
            cas_base_path=making / _CAS,
            signing_key_dir=making / _SIGNING,
        )
        damaged = _copy_files(source, state, making, progress)  # (3)
        if facts.database == "sqlite":
            own = replace(own, database_url=f"sqlite:///{making / _SQLITE_FILE}")
            _copy_file(state / _SQLITE_FILE, making / _SQLITE_FILE)  # (4)
        else:
            restore_postgresql(
                settings.database_url, state / _DUMP_FILE, facts.schema, environ
            )  # (4)
        name_database(own.data_dir, facts.node, own.database_url)
        reports = _examine_stores(own, clock, progress)  # (5)
        if own.database_url != settings.database_url:
            _remove_beside(making / _SQLITE_FILE)
        if folder.is_dir():
            folder.rmdir()
        _put_in_place(making, folder)  # (6)
    return RestoreResult(facts=facts, reports=reports, damaged=damaged)


def newest_state(source: Path) -> Path:
    """The newest whole backup in a folder. Raises RyeError `CONFIG_ERROR`."""
    states = sorted(path for path in source.glob(f"{_STATE}*") if not path.is_symlink())
    if not states:
        raise backup_error(
            source,
            "expected a backup of a node, found none",
            hint="name the folder that rye-node.pyz backup was given",
        )
    return states[-1]


def read_facts(state: Path) -> BackupFacts:
    """What a backup says of itself. Raises RyeError `CONFIG_ERROR`, `INTEGRITY`."""
    path = state / FACTS
    hint = "it was made by another version of rye-node.pyz, or changed"
    try:
        values = json.loads(_read_plain(path, _MAX_FACTS_BYTES))
    except FileNotFoundError:
        raise backup_error(path, "expected the facts of a backup, found none", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise backup_error(path, f"expected JSON, found {error}", hint=hint) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else values
        raise backup_error(path, f"format: expected {FORMAT}, found {found!a:.40}", hint=hint)
    facts = {name: values.get(name) for name in _NAMES}
    wrong = [name for name, value in facts.items() if not isinstance(value, str)]
    if wrong or facts["database"] not in ("sqlite", "postgresql"):
        problem = f"{(wrong or ['database'])[0]}: expected a text that a backup has"
        raise backup_error(path, problem, hint=hint)
    return BackupFacts(**facts)  # type: ignore[arg-type]


def _require_empty(folder: Path) -> None:
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise backup_error(folder, "expected a folder, found something else", hint="name another")
    found = next(folder.iterdir(), None)
    if found is not None:
        raise backup_error(
            folder,
            f"expected an empty folder, found {found.name!a}",
            hint="nothing is written over: move it away, or name another --data DIR",
        )


def _settings_of(
    state: Path, folder: Path, environ: Mapping[str, str], facts: BackupFacts
) -> Settings:
    """The settings that the restored node will have. Raises RyeError `CONFIG_ERROR`."""
    given = {"data_dir": str(folder), "config_dir": str(state / _CONFIG)}
    if _require_plain(state, _CONFIG):
        with suppress(FileNotFoundError):
            _read_plain(state / _CONFIG / CONFIG_FILE, _MAX_FILE_BYTES)  # before it is followed
    settings = read_settings(given, environ, folder)
    places = {
        "cas_base_path": (settings.cas_base_path, _CAS),
        "signing_key_dir": (settings.signing_key_dir, _SIGNING),
    }
    for name, (path, expected) in places.items():
        if path != folder / expected:
            raise backup_error(
                path,
                f"the setting {name} is outside of the folder that is restored",
                hint=f"say {name.upper()}={folder / expected} for this command, and move it after",
            )
    kind = "sqlite" if make_url(settings.database_url).drivername.startswith("sqlite") else "other"
    is_own = settings.database_url == f"sqlite:///{folder / _SQLITE_FILE}"
    if (facts.database == "sqlite") != (kind == "sqlite") or (kind == "sqlite" and not is_own):
        raise backup_error(
            state,
            f"its database is of the kind {facts.database}, and DATABASE_URL does not fit",
            hint="one of SQLite is restored below --data; for one of PostgreSQL set DATABASE_URL"
            " to an empty database",
        )
    return settings


def _copy_files(source: Path, state: Path, making: Path, progress: Progress) -> tuple[str, ...]:
    """Keys, settings and stores; what of the stores was damaged, in words."""
    for name in (_SIGNING, _CONFIG):
        if _require_plain(state, name):
            _copy_folder(state / name, making / name, _read_plain)
    copied = CopyProgress()
    if _require_plain(source, _CAS):
        stores, copies = UserStores(source / _CAS), UserStores(making / _CAS)
        for user in stores.users():
            _require_plain(source, *stores.of(user).root.relative_to(source).parts)
            copied = _copy_store(stores.of(user), copies.of(user), user, copied, progress)
    if _require_plain(source, REGISTRY_STORE):
        registry = Store(source / REGISTRY_STORE)
        copies_of_registry = Store(making / REGISTRY_STORE)
        copied = _copy_store(registry, copies_of_registry, REGISTRY, copied, progress)
    return copied.damaged


def _examine_stores(
    settings: Settings, clock: Clock, progress: Progress
) -> tuple[StoreReport, ...]:
    """A report of each store, which are folders now. The tables are brought to this version."""
    database = open_database(settings, make=True)
    try:
        use_folders(database)
        stores = open_stores(settings, database, {})
        fsck = Fsck(settings, database, clock, progress=progress, stores=stores)
        return (*(fsck.examine(user) for user in fsck.users()), fsck.examine_registry())
    finally:
        database.close()


# --- plain files ----------------------------------------------------------------------------------
# What is read of a backup is never a link: an attacker may have put one there.


def _require_plain(root: Path, *names: str) -> bool:
    """Whether a folder is there; no folder on the way is a link. Raises RyeError `INTEGRITY`."""
    path = root
    for name in names:
        path /= name
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(status.st_mode):
            raise backup_entry_error(path, "expected a folder, found a link or a file")
    return True


def _copy_folder(source: Path, target: Path, read: Callable[[Path, int], bytes]) -> None:
    """A folder of small files with all below it; half-written ones, which begin with a dot, not."""
    make_directory(target, mode=0o700)
    try:
        entries = sorted(source.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_system_error(source, error) from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and (read is read_bytes or not entry.is_symlink()):
            _copy_folder(entry, target / entry.name, read)
            continue
        create_file(target / entry.name, read(entry, _MAX_FILE_BYTES), mode=0o600)
        modified_ns = entry.stat().st_mtime_ns  # of a key it is when the node was made
        os.utime(target / entry.name, ns=(modified_ns, modified_ns))


def _read_plain(path: Path, max_bytes: int) -> bytes:
    """Raises RyeError `INTEGRITY` for what is no plain file, FileNotFoundError."""
    with _opened_plain(path) as descriptor:
        if os.fstat(descriptor).st_size > max_bytes:
            raise backup_entry_error(path, f"expected at most {max_bytes} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)


def _copy_file(source: Path, target: Path) -> None:
    """A file of any size. Raises RyeError `INTEGRITY`, FileSystemError."""
    try:
        with _opened_plain(source) as descriptor:
            create_file(target, b"", mode=0o600)
            with (
                open(descriptor, "rb", closefd=False) as file,
                target.open("wb") as copy,
            ):
                shutil.copyfileobj(file, copy, 1024 * 1024)
                copy.flush()
                os.fsync(copy.fileno())
    except FileNotFoundError:
        raise backup_entry_error(source, "expected a file, found none") from None
    except OSError as error:
        raise file_system_error(target, error) from error


@contextmanager
def _opened_plain(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, PLAIN_FILE)
    except FileNotFoundError:
        raise
    except OSError as error:  # a link: it is not followed
        raise backup_entry_error(path, "expected a plain file, found something else") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise backup_entry_error(path, "expected a plain file, found something else")
        yield descriptor
    finally:
        os.close(descriptor)


def lost_words(restored: RestoreResult) -> Sequence[str]:
    """What a backup did not bring back, in words."""
    losses = (
        f"{report.user_id}: {loss.root} leads to {loss.space} {loss.digest}, which is missing"
        for report in restored.reports
        for loss in report.losses
    )
    return (*restored.damaged, *losses)


# --- postgresql copies ----------------------------------------------------------------------------
# Copies of a database of PostgreSQL, made and restored by its own programs.

_DEBIAN = "/usr/lib/postgresql"
_MAX_SAID = 2000
# What a connection is opened with, and the variable in which the programs take it: not in their
# arguments, which every user of the machine sees.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "username": "PGUSER",
    "password": "PGPASSWORD",
    "database": "PGDATABASE",
}
_QUERY_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}


def copy_postgresql(
    connection: Connection, url: str, target: Path, environ: Mapping[str, str]
) -> str:
    """Write the tables, as this connection sees them, to a file; the name of their schema.

    The connection is in a transaction of one state, which the program shares. Raises RyeError.
    """
    may_pause(connection)
    schema = str(connection.scalar(text("SELECT current_schema()")))
    snapshot = str(connection.scalar(text("SELECT pg_export_snapshot()")))
    words = ("--format=custom", f"--snapshot={snapshot}", f"--schema={quoted(schema)}")
    # The program makes its file readable for all users: it is there before.
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    _run("pg_dump", (*words, *_PLAIN, f"--file={target}"), url, environ)
    return schema


def restore_postgresql(url: str, source: Path, schema: str, environ: Mapping[str, str]) -> None:
    """Put tables into an empty database, all or nothing. Raises RyeError."""
    database = Database(url)
    try:
        with database.writing() as connection:
            quoted_schema = sqlalchemy.sql.quoted_name(schema, quote=True)
            connection.execute(sqlalchemy.schema.CreateSchema(quoted_schema, if_not_exists=True))
            found = connection.scalar(text("SELECT current_schema()"))
            tables = sqlalchemy.inspect(connection).get_table_names(schema=schema)
    except SQLAlchemyError as error:
        raise RyeError(
            f"database {database.shown}: {error.__class__.__name__}",
            code="CONFIG_ERROR",
            hint="is it there, and does its user own it?",
        ) from error
    finally:
        database.close()
    if found != schema:
        raise RyeError(
            f"database {database.shown}: expected the schema {schema}, found {found}",
            code="CONFIG_ERROR",
            hint=f"add to DATABASE_URL: options=-csearch_path%3D{schema}",
        )
    if tables:
        raise RyeError(
            f"database {database.shown}: expected an empty database, found the table {tables[0]}",
            code="CONFIG_ERROR",
            hint="nothing is written over: make another database, and set DATABASE_URL to it",
        )
    words = ("--exit-on-error", "--single-transaction", f"--schema={schema}", *_PLAIN)
    name = _variables(make_url(url)).get("PGDATABASE", "")
    _run("pg_restore", (*words, f"--dbname={name}", source), url, environ)


_PLAIN = ("--no-owner", "--no-privileges", "--no-password")


def quoted(schema: str) -> str:
    """A name as a pattern of ``pg_dump`` that means nothing else."""
    return '"' + schema.replace('"', '""') + '"'


def _run(program: str, words: Sequence[str | Path], url: str, environ: Mapping[str, str]) -> None:
    found = _find_program(program, environ)
    others = {name: value for name, value in environ.items() if not name.startswith("PG")}
    ended = subprocess.run(
        [found, *map(str, words)],
        env={**others, **_variables(make_url(url))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-_MAX_SAID:]
        raise RyeError(
            f"{program}: ended with status {ended.returncode}: {said}",
            code="CONFIG_ERROR",
            hint=f"{program} has to be of the version of the server, or newer",
        )


def _find_program(program: str, environ: Mapping[str, str]) -> str:
    """The newest one here. Raises RyeError `CONFIG_ERROR`."""
    versions = sorted(
        (path for path in Path(_DEBIAN).glob(f"*/bin/{program}") if path.parts[-3].isdigit()),
        key=lambda path: int(path.parts[-3]),
    )
    found = str(versions[-1]) if versions else shutil.which(program, path=environ.get("PATH", ""))
    if not found:
        raise RyeError(
            f"{program}: expected this program of PostgreSQL, found none",
            code="CONFIG_ERROR",
            hint="install its client programs, like postgresql-client of Debian",
        )
    return found


def _variables(url: URL) -> dict[str, str]:
    values = {variable: getattr(url, name) for name, variable in _VARIABLES.items()}
    for name, value in url.query.items():
        if name in _QUERY_VARIABLES:
            values[_QUERY_VARIABLES[name]] = value if isinstance(value, str) else ",".join(value)
    return {name: str(value) for name, value in values.items() if value}
