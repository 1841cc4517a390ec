import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from lillux.folder_watch import watch_folder
from lillux.watch import TERMINAL_STATUSES, await_status, terminal_status
from tests.support.threads_database import ThreadsDatabase


@pytest.fixture
def database(tmp_path: Path) -> ThreadsDatabase:
    return ThreadsDatabase(tmp_path / "registry.db")


@pytest.mark.parametrize("status", sorted(TERMINAL_STATUSES))
def test_a_terminal_status_is_reported_at_once(database: ThreadsDatabase, status: str) -> None:
    database.make().set("t", status)

    assert await_status(database.path, "t", 0) == status


@pytest.mark.parametrize("status", ["created", "running", "timeout", "COMPLETED", ""])
def test_any_other_status_is_waited_on(database: ThreadsDatabase, status: str) -> None:
    database.make().set("t", status)

    assert await_status(database.path, "t", 0) == "timeout"


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_change_is_seen_while_it_is_watched(database: ThreadsDatabase, journal: str) -> None:
    database.make(journal).set("t", "running")
    watched = Watching(database.path)

    database.set("t", "completed")

    assert watched.status() == "completed"


def test_a_change_is_seen_without_any_event(database: ThreadsDatabase) -> None:
    database.make().set("t", "running")
    looks: list[Path] = []

    def no_watch(folder: Path) -> None:
        looks.append(folder)
        if len(looks) == 2:
            database.set("t", "error")

    assert await_status(database.path, "t", 20, open_watch=no_watch) == "error"


def test_a_database_that_is_made_later_is_waited_for(tmp_path: Path) -> None:
    database = ThreadsDatabase(tmp_path / "state" / "registry.db")
    watched = Watching(database.path)

    database.path.parent.mkdir()
    database.make().set("t", "killed")

    assert watched.status() == "killed"


def test_a_missing_database_is_not_made(tmp_path: Path) -> None:
    assert await_status(tmp_path / "registry.db", "t", 0) == "timeout"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_does_not_end_the_wait(tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_bytes(b"no database" * 1000)

    assert terminal_status(tmp_path / "registry.db", "t") is None


def test_a_path_may_hold_special_characters_of_addresses(tmp_path: Path) -> None:
    database = ThreadsDatabase(tmp_path / "a b?mode=rwc#c%20d" / "registry.db")
    database.path.parent.mkdir()
    database.make().set("t", "released")

    assert terminal_status(database.path, "t") == "released"


def test_a_thread_that_another_holds_locked_is_waited_for(database: ThreadsDatabase) -> None:
    database.make("delete").set("t", "completed")
    with closing(sqlite3.connect(database.path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert terminal_status(database.path, "t") is None
        writer.execute("COMMIT")

    assert terminal_status(database.path, "t") == "completed"


def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path) -> None:
    database = ThreadsDatabase(tmp_path / "state" / "registry.db")
    database.path.parent.mkdir()
    database.make().set("t", "running")
    watched = Watching(database.path)

    database.path.parent.rename(tmp_path / "old")
    database.path.parent.mkdir()
    database.make().set("t", "completed")

    assert watched.status() == "completed"


def test_the_watch_reports_a_change_and_no_other_event(tmp_path: Path) -> None:
    watch = watch_folder(tmp_path)
    assert watch is not None

    assert not watch.wait(0)
    (tmp_path / "file").write_bytes(b"new")
    assert watch.wait(20)
    watch.close()


def test_a_missing_folder_cannot_be_watched(tmp_path: Path) -> None:
    assert watch_folder(tmp_path / "none") is None


def test_a_folder_that_is_removed_is_no_longer_watched(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch = watch_folder(folder)
    assert watch is not None

    folder.rmdir()

    assert watch.wait(20)
    assert not watch.is_valid
    watch.close()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has no kqueue")
def test_a_platform_without_file_events_has_no_watch(tmp_path: Path) -> None:
    assert watch_folder(tmp_path, "win32") is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has no kqueue")
def test_without_file_events_a_change_is_seen_by_polling(database: ThreadsDatabase) -> None:
    database.make().set("t", "running")
    seen: list[str] = []
    watching = Thread(
        target=lambda: seen.append(await_status(database.path, "t", None, platform="win32"))
    )

    watching.start()
    database.set("t", "completed")
    watching.join(20)

    assert seen == ["completed"]


class Watching:
    """`await_status` in a thread of its own, begun."""

    def __init__(self, path: Path) -> None:
        self._found = ""
        self._path = path
        self._thread = Thread(target=self._watch)
        self._thread.start()

    def status(self) -> str:
        self._thread.join(20)
        return self._found

    def _watch(self) -> None:
        started = time.monotonic()
        self._found = await_status(self._path, "t", 20)
        assert time.monotonic() - started < 20
