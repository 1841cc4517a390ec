"""The registry of threads: rows, guarded statuses, simultaneous writers."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lillux.errors import FileSystemError
from ryeos.items.errors import RyeError
from ryeos.run.threads.database import COLUMNS
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.thread import TERMINAL, Status, Thread
from tests.support.errors import coded

ROOT = Path(__file__).resolve().parents[3]
NOW = "2026-01-02T03:04:05.000+00:00"


def thread(
    thread_id: str = "mine/x/x-1", *, item_id: str | None = None, parent_id: str | None = None
) -> Thread:
    return Thread(thread_id=thread_id, directive="mine/x", item_id=item_id, parent_id=parent_id)


def database(registry: ThreadRegistry) -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(registry.place.registry))


def test_a_new_thread_is_created_now(registry: ThreadRegistry) -> None:
    registry.register(thread(item_id="tool:mine/x"))

    assert registry.get("mine/x/x-1") == Thread(
        thread_id="mine/x/x-1",
        directive="mine/x",
        item_id="tool:mine/x",
        status="created",
        created_at=NOW,
        updated_at=NOW,
    )


def test_a_thread_runs_and_ends_with_a_result(registry: ThreadRegistry) -> None:
    registry.register(thread())

    assert registry.mark_running("mine/x/x-1", 42, "123")
    assert registry.finish("mine/x/x-1", Status.COMPLETED, result='{"data": 1}')
    ended = registry.get("mine/x/x-1")
    assert (ended.status, ended.pid, ended.start_token) == ("completed", 42, "123")
    assert (ended.completed_at, ended.answer()) == (NOW, {"data": 1})


def test_starter_and_runner_may_both_say_which_process_runs_it(registry: ThreadRegistry) -> None:
    registry.register(thread())

    assert registry.mark_running("mine/x/x-1", 42, "123")
    assert registry.mark_running("mine/x/x-1", 42, "123")


def test_an_ended_thread_does_not_run_again(registry: ThreadRegistry) -> None:
    registry.register(thread())
    registry.finish("mine/x/x-1", Status.KILLED, error="killed")

    assert not registry.mark_running("mine/x/x-1", 42, "123")
    assert not registry.finish("mine/x/x-1", Status.COMPLETED, result="{}")
    ended = registry.get("mine/x/x-1")
    assert (ended.status, ended.pid, ended.result) == ("killed", None, None)


def test_a_thread_can_be_continued_by_another(registry: ThreadRegistry) -> None:
    registry.register(thread())

    assert registry.continue_as("mine/x/x-1", "mine/x/x-2")
    assert not registry.continue_as("mine/x/x-1", "mine/x/x-3")
    assert registry.get("mine/x/x-1").continuation_thread_id == "mine/x/x-2"


def test_threads_are_listed_the_newest_first(registry: ThreadRegistry) -> None:
    for name in ("a", "b", "c"):
        registry.register(thread(name, parent_id="a"))
    registry.finish("b", Status.COMPLETED)

    assert [one.thread_id for one in registry.threads(limit=2)] == ["c", "b"]
    assert [one.thread_id for one in registry.active()] == ["c", "a"]
    assert [one.thread_id for one in registry.children("a")] == ["a", "b", "c"]


def test_reading_an_empty_registry_creates_no_file(
    registry: ThreadRegistry,
) -> None:
    assert registry.threads() == []
    with pytest.raises(ThreadNotFoundError):
        registry.get("mine/x")
    assert list(registry.place.ai.iterdir()) == []


def test_the_table_is_the_documented_one(registry: ThreadRegistry) -> None:
    registry.register(thread())

    with database(registry) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(threads)")]
        indexed = [row[1] for row in connection.execute("PRAGMA index_list(threads)")]
        mode = connection.execute("PRAGMA journal_mode").fetchone()
    assert columns == list(COLUMNS)
    assert {"idx_threads_parent_id", "idx_threads_status"} <= set(indexed)
    assert mode == ("wal",)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_only_the_user_reads_it_and_version_control_leaves_it_alone(
    registry: ThreadRegistry,
) -> None:
    registry.register(thread())

    place = registry.place
    assert stat.S_IMODE(place.registry.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert (place.folder / ".gitignore").read_text("utf-8").endswith("\n*\n")


# --- foreign registries ---------------------------------------------------------------------------


def foreign(place: ThreadsPlace, script: str) -> Path:
    place.folder.mkdir(parents=True)
    with closing(sqlite3.connect(place.registry)) as connection:
        connection.executescript(script)
    return place.registry


def test_columns_that_an_older_program_did_not_know_are_added(registry: ThreadRegistry) -> None:
    foreign(
        registry.place,
        "CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT NOT NULL,"
        " status TEXT DEFAULT 'created'); INSERT INTO threads VALUES ('old', 'd', 'running');"
        "CREATE TABLE other (x);",
    )

    registry.register(thread("new"))

    assert registry.get("old") == Thread(thread_id="old", directive="d", status="running")
    assert registry.finish("old", Status.COMPLETED)
    with database(registry) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(threads)")}
    assert columns == set(COLUMNS)


def test_an_unknown_status_is_shown_and_never_changed(registry: ThreadRegistry) -> None:
    registry.register(thread())
    with database(registry) as connection, connection:
        connection.execute("UPDATE threads SET status = 'paused'")

    assert not registry.finish("mine/x/x-1", Status.COMPLETED)
    assert [one.status for one in registry.active()] == ["paused"]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("PRAGMA user_version = 2", "expected version 1 of the registry, found 2"),
        ("CREATE TABLE threads (x)", "its table threads has no column thread_id"),
        (
            "CREATE VIEW threads AS SELECT 'a' AS thread_id",
            "expected tables and indexes only, found the view 'threads'",
        ),
        (
            """CREATE TABLE threads (thread_id);
               CREATE TRIGGER t AFTER UPDATE ON threads BEGIN SELECT 1; END""",
            "expected tables and indexes only, found the trigger 't'",
        ),
    ],
)
def test_a_foreign_database_is_refused(script: str, problem: str, registry: ThreadRegistry) -> None:
    path = foreign(registry.place, script)

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")) as error:
        registry.register(thread())

    assert str(error.value) == f"{path}: {problem}"


def test_a_damaged_file_is_refused_with_a_hint(registry: ThreadRegistry) -> None:
    registry.place.folder.mkdir(parents=True)
    registry.place.registry.write_bytes(b"no database, but longer than a header " * 9)

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")) as error:
        registry.threads()

    problem = "expected a registry of threads, found: file is not a database"
    assert str(error.value) == f"{registry.place.registry}: {problem}"
    assert "move it away" in error.value.hint


def test_a_registry_that_cannot_be_changed_can_be_read(registry: ThreadRegistry) -> None:
    foreign(
        registry.place,
        "CREATE TABLE threads (thread_id TEXT, status TEXT, created_at TEXT);"
        "INSERT INTO threads VALUES ('a', 'running', '2026')",
    )
    reader = _ReadOnly(registry.place)

    assert [one.thread_id for one in reader.threads()] == ["a"]
    with database(registry) as connection:
        assert len(list(connection.execute("PRAGMA table_info(threads)"))) == 3


class _ReadOnly(ThreadRegistry):
    """A simulated read-only mount, since permissions do not stop root."""

    def is_writable(self) -> bool:
        return False


def test_a_folder_where_the_registry_would_be_is_refused(registry: ThreadRegistry) -> None:
    registry.place.registry.mkdir(parents=True)

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")) as error:
        registry.register(thread())

    problem = "expected a plain file, found a folder"
    assert str(error.value) == f"{registry.place.registry}: {problem}"


def test_a_file_where_the_folder_would_be_is_reported(registry: ThreadRegistry) -> None:
    (registry.place.ai / "state").write_bytes(b"")

    with pytest.raises(FileSystemError):
        registry.register(thread())


# --- simultaneous writers -------------------------------------------------------------------------

REGISTER = """
import sys
from pathlib import Path
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
registry = ThreadRegistry(ThreadsPlace(Path(sys.argv[1])))
for number in range(5):
    name = f"x-{sys.argv[2]}-{number}"
    registry.register(Thread(thread_id=name, directive="x"))
    assert registry.mark_running(name, 42, "1")
    assert registry.finish(name, Status.COMPLETED)
won = registry.finish("shared", Status(sys.argv[3]), error=sys.argv[2])
print("won" if won else "lost")
"""


def test_many_processes_make_one_registry_and_one_of_them_ends_a_thread(
    place: ThreadsPlace,
) -> None:
    statuses = [*sorted(TERMINAL), "killed"]
    ThreadRegistry(ThreadsPlace(place.ai)).register(thread("shared"))
    for path in place.folder.iterdir():
        path.unlink()  # all processes find no registry first, and then the same one
    seed = """
        CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT, status TEXT);
        INSERT INTO threads VALUES ('shared', 'x', 'running')
    """
    with closing(sqlite3.connect(place.registry)) as connection:
        connection.executescript(seed)

    running = [
        subprocess.Popen(
            [sys.executable, "-c", REGISTER, place.ai, str(number), status],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for number, status in enumerate(statuses)
    ]
    outcomes = [process.communicate()[0].strip() for process in running]

    assert [process.returncode for process in running] == [0] * 8
    assert sorted(outcomes) == ["lost"] * 7 + ["won"]
    registry = ThreadRegistry(place)
    assert registry.get("shared").error == str(outcomes.index("won"))
    assert len(registry.threads()) == 41


# --- laws -----------------------------------------------------------------------------------------

UPDATES = st.one_of(
    st.tuples(st.just("run"), st.integers(2, 9)),
    st.tuples(st.just("continue"), st.just("other")),
    st.tuples(st.just("finish"), st.sampled_from(list(Status))),
)


@pytest.mark.property
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(updates=st.lists(UPDATES, max_size=8))
def test_no_sequence_of_updates_leaves_a_terminal_status(
    updates: list[tuple[str, object]], registry: ThreadRegistry
) -> None:
    thread_id = f"t-{len(registry.threads())}"
    registry.register(thread(thread_id))
    ended: Thread | None = None

    for name, value in updates:
        match name, value:
            case "run", int(pid):
                changed = registry.mark_running(thread_id, pid, "1")
            case "finish", Status() as status:
                changed = registry.finish(thread_id, status)
            case _:
                changed = registry.continue_as(thread_id, "other")
        now = registry.get(thread_id)
        if ended:
            assert not changed
            assert now == ended
        if now.has_ended:
            ended = now


@pytest.mark.parametrize("status", [Status.ERROR, Status.CANCELLED, Status.KILLED])
def test_an_incomplete_run_can_be_resumed(status: Status, registry: ThreadRegistry) -> None:
    registry.register(thread())
    registry.mark_running("mine/x/x-1", 42, "123")
    registry.finish("mine/x/x-1", status, result="{}", error="no luck")

    assert registry.reopen("mine/x/x-1", 43, "124")
    again = registry.get("mine/x/x-1")
    assert (again.status, again.pid, again.start_token) == ("running", 43, "124")
    assert (again.error, again.result, again.completed_at) == (None, None, None)


@pytest.mark.parametrize(
    "status", [Status.COMPLETED, Status.COMPLETED_WITH_ERRORS, Status.RELEASED]
)
def test_a_completed_run_cannot_be_resumed(status: Status, registry: ThreadRegistry) -> None:
    registry.register(thread())
    registry.mark_running("mine/x/x-1", 42, "123")
    registry.finish("mine/x/x-1", status)

    assert not registry.reopen("mine/x/x-1", 43, "124")
    assert registry.get("mine/x/x-1").status == status


def test_only_one_of_two_processes_resumes_a_run(registry: ThreadRegistry) -> None:
    registry.register(thread())
    registry.finish("mine/x/x-1", Status.ERROR)

    assert registry.reopen("mine/x/x-1", 43, "124")
    assert not registry.reopen("mine/x/x-1", 44, "125")
    assert registry.get("mine/x/x-1").pid == 43
