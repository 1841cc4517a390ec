"""``registry.db``: the database of threads. Each call is one transaction.

Every change of a status names the statuses it may leave, so that a runner, a ``kill`` and a command
that finds the runner dead never overwrite each other: the first one decides how it ended.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.beneath import open_folder
from lillux.errors import (
    FileSystemError,
    LilluxError,
)
from lillux.files import (
    file_system_error,
    is_directory,
    locked,
    open_file,
    remove_file,
    write_atomic,
)
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError, UnsupportedError
from ryeos.run.threads import (
    CANCEL,
    DOCUMENT,
    GRANTS,
    LOG,
    REOPENABLE,
    RUNNER,
    TERMINAL,
    Status,
    Thread,
    ThreadNotFoundError,
    ThreadsPlace,
    find_thread_id,
    leavable,
    registry_error,
    thread_of,
)

if TYPE_CHECKING:
    from sqlite3 import Connection, Error
    from types import ModuleType


# --- schema ---------------------------------------------------------------------------------------
# The table of a registry, and opening one: made, brought up to date, or refused. SQLite's door.
#
# A registry in a project may be a foreign file. Before SQLite sees it, it and the files beside it
# must be plain files, and its rollback journal must name no other file: SQLite would delete that
# one. What could run as code in it (views, triggers, virtual tables) is refused.

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


# --- registry -------------------------------------------------------------------------------------

_LISTED = tuple(name for name in COLUMNS if name != "result")


class ThreadRegistry:
    """The threads of one place. Safe to use from any number of processes."""

    def __init__(self, place: ThreadsPlace, clock: Clock = utc_now) -> None:
        self.place = place
        self._clock = clock

    def register(self, thread: Thread) -> None:
        """Add a thread that is `created`.

        Raises RyeError `REGISTRY_INVALID`, FileSystemError and similar ones.
        """
        self.place.make()
        now = self._now()
        values = {"created_at": now, "updated_at": now, "status": Status.CREATED.value}
        fields = {name: getattr(thread, name) for name in COLUMNS}
        row = {name: value for name, value in fields.items() if value is not None} | values
        marks = ", ".join("?" * len(row))
        statement = f"INSERT INTO threads ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - names of ours
        self._write(statement, row.values())

    def mark_running(self, thread_id: str, pid: int, start_token: str) -> bool:
        """Record which process runs the thread; False when it has ended already.

        Its starter and its runner both do, so that neither can leave it unsaid.
        """
        runner = {"pid": pid, "start_token": start_token, "status": Status.RUNNING.value}
        return self._change(thread_id, runner, (Status.CREATED, Status.RUNNING))

    def reopen(self, thread_id: str, pid: int, start_token: str) -> bool:
        """Record that a process resumes a run that did not complete; False for any other."""
        runner = {"pid": pid, "start_token": start_token, "status": Status.RUNNING.value}
        cleared = {"error": None, "result": None, "completed_at": None}
        return self._change(thread_id, {**runner, **cleared}, REOPENABLE)

    def finish(
        self, thread_id: str, status: Status, *, result: str | None = None, error: str | None = None
    ) -> bool:
        """Give the thread its terminal status; False when it has one already."""
        values = {"status": status.value, "result": result, "error": error}
        return self._change(thread_id, values, leavable(status))

    def note_use(self, thread_id: str, **values: object) -> None:
        """Record what a thread of an agent used, and its state: columns of its row, for display."""
        named = {name: value for name, value in values.items() if name in COLUMNS}
        changes = ", ".join(f"{name} = ?" for name in named)
        statement = f"UPDATE threads SET {changes}, updated_at = ? WHERE thread_id = ?"  # noqa: S608 - names of ours
        self._write(statement, (*named.values(), self._now(), thread_id))

    def continue_as(self, thread_id: str, successor_id: str) -> bool:
        """Let another thread carry on with the work of this one; False when it has ended."""
        values = {
            "status": Status.CONTINUED.value,
            "continuation_thread_id": successor_id,
        }
        return self._change(thread_id, values, leavable(Status.CONTINUED))

    def remove(self, thread_id: str) -> None:
        """Forget a thread that has ended: its row, and what Rye wrote in its folder.

        Raises RyeError `INVALID_REF`, `REGISTRY_INVALID`, FileSystemError.
        """
        place = self.place
        folder = place.thread_folder(thread_id)
        for name in (DOCUMENT, f"{DOCUMENT}.lock", RUNNER, LOG, GRANTS, CANCEL):
            with suppress(FileNotFoundError):
                remove_file(place.file(thread_id, name), within=place.root)
        with suppress(OSError), open_folder(folder.parent, place.root) as parent:
            parent.remove_folder(folder.name)  # one with files of others stays
        if os.path.lexists(place.registry):
            self._write("DELETE FROM threads WHERE thread_id = ?", (thread_id,))

    def get(self, thread_id: str) -> Thread:
        """The thread with exactly this id. Raises ThreadNotFoundError."""
        rows = self._read(tuple(COLUMNS), "WHERE thread_id = ?", (thread_id,))
        if not rows:
            raise ThreadNotFoundError(thread_id, str(self.place.registry))
        return rows[0]

    def find(self, text: str) -> str:
        """The id that a person means. Raises as `ryeos.run.threads.find_thread_id`."""
        return find_thread_id(text, self.ids(), str(self.place.registry))

    def ids(self) -> list[str]:
        """The ids of all threads."""
        return [thread.thread_id for thread in self._read(("thread_id",))]

    def threads(self, *, limit: int | None = None) -> list[Thread]:
        """All threads without their results, the newest first."""
        rule = "ORDER BY created_at DESC, rowid DESC LIMIT ?"
        return self._read(_LISTED, rule, (-1 if limit is None else limit,))

    def active(self) -> list[Thread]:
        """The threads that have not ended, without their results, the newest first."""
        ended = sorted(TERMINAL)
        rule = f"WHERE status NOT IN ({', '.join('?' * len(ended))})"
        return self._read(_LISTED, f"{rule} ORDER BY created_at DESC, rowid DESC", tuple(ended))

    def children(self, parent_id: str) -> list[Thread]:
        """The threads that a thread started, without their results, the oldest first."""
        rule = "WHERE parent_id = ? ORDER BY created_at, rowid"
        return self._read(_LISTED, rule, (parent_id,))

    def _change(
        self, thread_id: str, values: Mapping[str, Any], may_leave: tuple[Status, ...]
    ) -> bool:
        now = self._now()
        values = {**values, "updated_at": now}
        if values["status"] in TERMINAL:
            values["completed_at"] = now
        changes = ", ".join(f"{name} = ?" for name in values)
        guard = ", ".join("?" * len(may_leave))
        changed = self._write(
            f"UPDATE threads SET {changes} WHERE thread_id = ? AND status IN ({guard})",  # noqa: S608 - names of ours
            (*values.values(), thread_id, *(status.value for status in may_leave)),
        )
        return changed == 1

    def _write(self, statement: str, values: Any) -> int:  # noqa: ANN401 - what SQLite takes
        with self._open_database(writable=True) as connection:
            return connection.execute(statement, tuple(values)).rowcount

    def _read(
        self, names: tuple[str, ...], rule: str = "", values: tuple[Any, ...] = ()
    ) -> list[Thread]:
        if not os.path.lexists(self.place.registry):
            self.place.require_inside()
            return []
        with self._open_database(writable=self.is_writable()) as connection:
            present = set(columns_of(connection))  # an older registry that cannot be changed
            selected = [name for name in names if name in present]
            if not selected or (not present >= {"created_at", "status"} and rule):
                return []
            query = f"SELECT {', '.join(selected)} FROM threads {rule}"  # noqa: S608 - names of ours
            rows = connection.execute(query, values).fetchall()
        return [thread_of(dict(zip(selected, row, strict=True))) for row in rows]

    def is_writable(self) -> bool:
        """Whether what is found out can be kept there."""
        folder, file = self.place.folder, self.place.registry
        return is_directory(folder) and os.access(folder, os.W_OK) and os.access(file, os.W_OK)

    @contextmanager
    def _open_database(self, *, writable: bool) -> "Iterator[Connection]":
        self.place.require_inside()
        path = self.place.registry
        connection = open_writable(path, self.place.root) if writable else open_readable(path)
        try:
            with translating(path):
                if writable:
                    require_same_file(path, self.place.root)
                yield connection
        finally:
            connection.close()

    def _now(self) -> str:
        return self._clock().isoformat(timespec="milliseconds")


# --- documents ------------------------------------------------------------------------------------
# ``thread.json``: a thread's row as a file beside its log, for people and for other programs.


def write_document(registry: ThreadRegistry, thread_id: str) -> None:
    """Write the thread as it is now, also while other processes do.

    Raises ThreadNotFoundError, RyeError `REGISTRY_INVALID`, FileSystemError.
    """
    place = registry.place
    folder = place.make_thread_folder(thread_id)
    path = place.file(thread_id, DOCUMENT)
    lock = folder / f"{DOCUMENT}.lock"
    with locked(lock, within=place.root):  # the row that is read last is written last
        described = registry.get(thread_id).describe()
        document = json.dumps(described, ensure_ascii=False, indent=2)
        data = document.encode("utf-8", "backslashreplace") + b"\n"
        write_atomic(path, data, mode=0o600, within=place.root)
