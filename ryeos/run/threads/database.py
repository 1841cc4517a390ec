"""The table of a registry, and opening one: made, brought up to date, or refused. SQLite's door.

A registry in a project may be a foreign file. Before SQLite sees it, it and the files beside it
must be plain files, and its rollback journal must name no other file: SQLite would delete that
one. What could run as code in it (views, triggers, virtual tables) is refused.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.beneath import open_folder
from lillux.errors import FileSystemError, LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, open_file
from ryeos.items.errors import RyeError, UnsupportedError
from ryeos.run.threads.errors import registry_error

if TYPE_CHECKING:
    from sqlite3 import Connection, Error
    from types import ModuleType


VERSION = 1
BUSY_S = 5.0
COLUMNS = {
    "thread_id": "TEXT PRIMARY KEY",
    "directive": "TEXT NOT NULL DEFAULT ''",
    "parent_id": "TEXT",
    "status": "TEXT NOT NULL DEFAULT 'created'",
    "created_at": "TEXT",
    "updated_at": "TEXT",
    "completed_at": "TEXT",
    "result": "TEXT",
    "turns": "INTEGER NOT NULL DEFAULT 0",
    "input_tokens": "INTEGER NOT NULL DEFAULT 0",
    "output_tokens": "INTEGER NOT NULL DEFAULT 0",
    "spend": "REAL NOT NULL DEFAULT 0.0",
    "spawn_count": "INTEGER NOT NULL DEFAULT 0",
    "pid": "INTEGER",
    "model": "TEXT",
    "continuation_of": "TEXT",
    "continuation_thread_id": "TEXT",
    "chain_root_id": "TEXT",
    "tool_id": "TEXT",
    "item_id": "TEXT",
    "kind": "TEXT",
    "target": "TEXT",
    "thread_mode": "TEXT",
    "start_token": "TEXT",
    "error": "TEXT",
    "state": "TEXT",
}
_INDEXED = ("parent_id", "status")
_JOURNAL = "-journal"
_BESIDE = ("", "-wal", "-shm", _JOURNAL)
# The last bytes of a rollback journal that names another file (sqlite.org/fileformat2.html, 3).
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
_ACTIVE = ("trigger", "view")


def sqlite() -> "ModuleType":
    """The library. Raises UnsupportedError where this Python was built without it."""
    try:
        import sqlite3
    except ImportError:
        raise UnsupportedError(
            "background runs: this Python has no sqlite3",
            hint="run rye with a Python that has it, or leave out --async",
        ) from None
    return sqlite3


def require_plain_files(path: Path) -> None:
    """Refuse a registry that SQLite must not be given.

    Raises RyeError `REGISTRY_INVALID`, FileSystemError.
    """
    for suffix in _BESIDE:
        beside = path.with_name(path.name + suffix)
        try:
            status = beside.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise file_system_error(beside, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise registry_error(str(beside), f"expected a plain file, found {_word(status)}")
        if suffix == _JOURNAL and _names_another_file(beside):
            raise registry_error(
                str(beside),
                "this journal has SQLite delete a file of its choice; it was not opened",
            )


def _word(status: os.stat_result) -> str:
    kinds = {stat.S_ISLNK: "a link", stat.S_ISDIR: "a folder"}
    return next((word for test, word in kinds.items() if test(status.st_mode)), "something else")


def _names_another_file(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - len(_NAMES_ANOTHER), 0))
            return file.read() == _NAMES_ANOTHER
    except FileNotFoundError:  # another process has just finished with it
        return False
    except OSError as error:
        raise file_system_error(journal, error) from error


def open_writable(path: Path, within: Path | None = None) -> "Connection":
    """A connection to the registry, made or brought up to date first where needed.

    Any number of processes may do this at once. Raises RyeError `REGISTRY_INVALID` or `CONFLICT`,
    FileSystemError, LockTimeoutError.
    """
    require_plain_files(path)
    try:
        # An empty file is an empty database, and has the right mode from the start.
        flags = os.O_WRONLY | os.O_CREAT
        os.close(open_file(path, flags, mode=0o600, within=within))
    except OSError as error:
        raise file_system_error(path, error) from error
    connection = _connect(path, "mode=rw")
    with ExitStack() as opened, translating(path):
        opened.callback(connection.close)
        if not _is_ready(connection, path):
            # Switching to the write-ahead log is for one at a time.
            with locked(path.with_name(f"{path.name}.lock"), within=within):
                _prepare(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        opened.pop_all()
    return connection


def require_same_file(path: Path, within: Path) -> None:
    """Refuse a registry whose folder was exchanged for a link while SQLite opened it by its path.

    Raises LinkOnTheWayError, FileSystemError.
    """
    try:
        with open_folder(path.parent, within) as folder:
            if os.path.samestat(folder.status(path.name), path.stat()):
                return
    except OSError as error:
        raise file_system_error(path, error) from error
    raise FileSystemError(str(path), "another file was there a moment ago")


def open_readable(path: Path) -> "Connection":
    """A connection that only reads: for a registry that this user, or this mount, keeps as it is.

    Raises as `open_writable`.
    """
    require_plain_files(path)
    try:
        return _opened_readable(path, "mode=ro")
    except FileSystemError:  # that one needs to write beside the file
        return _opened_readable(path, "mode=ro&immutable=1")


def _opened_readable(path: Path, options: str) -> "Connection":
    connection = _connect(path, options)
    with ExitStack() as opened, translating(path):
        opened.callback(connection.close)
        _require_known(connection, path)
        opened.pop_all()
    return connection


def _connect(path: Path, options: str) -> "Connection":
    from urllib.parse import quote

    uri = f"file:{quote(str(path.absolute()))}?{options}"
    with ExitStack() as opened, translating(path):
        connection: Connection = sqlite().connect(
            uri, uri=True, timeout=BUSY_S, isolation_level=None
        )
        opened.callback(connection.close)
        # No function of a foreign schema may do more than compute.
        connection.execute("PRAGMA trusted_schema = OFF")
        opened.pop_all()
    return connection


def columns_of(connection: "Connection") -> list[str]:
    """The names of the columns that the table has."""
    return [row[1] for row in connection.execute("PRAGMA table_info(threads)")]


def _is_ready(connection: "Connection", path: Path) -> bool:
    _require_known(connection, path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return version == VERSION and mode == "wal" and COLUMNS.keys() <= set(columns_of(connection))


def _require_known(connection: "Connection", path: Path) -> None:
    """Refuse what a newer program wrote, and what is no registry.

    Raises RyeError `REGISTRY_INVALID`.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise registry_error(
            str(path),
            f"expected version {VERSION} of the registry, found {version}",
            hint="a newer rye wrote it: use that one here",
        )
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if kind in _ACTIVE or str(text).upper().startswith("CREATE VIRTUAL"):
            word = kind if kind in _ACTIVE else "virtual table"
            raise registry_error(
                str(path), f"expected tables and indexes only, found the {word} {str(name)!r}"
            )
    columns = columns_of(connection)
    if columns and "thread_id" not in columns:
        raise registry_error(str(path), "its table threads has no column thread_id")


def _prepare(connection: "Connection", path: Path) -> None:
    """(1) The log, (2) the table, (3) columns that an older program did not know, (4) indexes."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    _require_known(connection, path)
    columns = ", ".join(f"{name} {rule}" for name, rule in COLUMNS.items())
    connection.execute(f"CREATE TABLE IF NOT EXISTS threads ({columns})")
    present = set(columns_of(connection))
    for name, rule in COLUMNS.items():
        if name not in present:
            connection.execute(f"ALTER TABLE threads ADD COLUMN {name} {rule}")
    for name in _INDEXED:
        connection.execute(f"CREATE INDEX IF NOT EXISTS idx_threads_{name} ON threads ({name})")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


_REFUSED_BY_SYSTEM = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR")


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Inside the block a failure of SQLite is one of ours, about this registry."""
    library = sqlite()
    try:
        yield
    except library.Error as error:
        raise _failure(error, path) from error


def _failure(error: "Error", path: Path) -> LilluxError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return RyeError(
            f"{path!s}: still locked by another process",
            code="CONFLICT",
            hint="try again; nothing was changed",
            path=str(path),
        )
    if name.startswith(_REFUSED_BY_SYSTEM):
        return FileSystemError(
            str(path), str(error), hint="check the permissions of the file and of its folder"
        )
    return registry_error(str(path), f"expected a registry of threads, found: {error}")
