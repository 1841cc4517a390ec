"""``registry.db``: the database of threads. Each call is one transaction.

Every change of a status names the statuses it may leave, so that a runner, a ``kill`` and a command
that finds the runner dead never overwrite each other: the first one decides how it ended.

``thread.json`` is a thread's row as a file beside its log, for people and for other programs.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lillux.beneath import open_folder
from lillux.file_locks import locked
from lillux.files import is_directory, remove_file, write_atomic
from ryeos.items.context import Clock, utc_now
from ryeos.run.threads.database import (
    COLUMNS,
    columns_of,
    open_readable,
    open_writable,
    require_same_file,
    translating,
)
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.ids import find_thread_id
from ryeos.run.threads.place import CANCEL, DOCUMENT, GRANTS, LOG, RUNNER, ThreadsPlace
from ryeos.run.threads.thread import REOPENABLE, TERMINAL, Status, Thread, leavable, thread_of

if TYPE_CHECKING:
    from sqlite3 import Connection


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
        """The id that a person means. Raises as `ryeos.run.threads.ids.find_thread_id`."""
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
        """True if what is found out can be kept there."""
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
