"""``lillux_native/PROTOCOL.md`` is true for ``lillux-watch``, in both its forms."""

import json
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from lillux.watch import TERMINAL_STATUSES
from tests.support.program_forms import FORMS, Program, program
from tests.support.threads_database import ThreadsDatabase

# Features of schemas that a compiled SQLite may lack.
SCHEMA = """
ALTER TABLE threads ADD COLUMN meta TEXT DEFAULT '{}' CHECK (json_valid(meta));
ALTER TABLE threads ADD COLUMN kind TEXT AS (json_extract(meta, '$.kind')) VIRTUAL;
CREATE INDEX kinds ON threads (json_extract(meta, '$.kind')) WHERE json_valid(meta);
CREATE INDEX days ON threads (date('2020-01-01'), status);
CREATE VIEW numbered AS SELECT *, row_number() OVER (ORDER BY status) FROM threads;
CREATE TRIGGER noted AFTER UPDATE ON threads BEGIN SELECT soundex(new.status); END;
"""


@pytest.fixture(params=FORMS)
def watch(request: pytest.FixtureRequest) -> Program:
    return program("lillux-watch", request.param)


@pytest.fixture
def database(tmp_path: Path) -> ThreadsDatabase:
    return ThreadsDatabase(tmp_path / "a b?c#d%20.db")


def on(database: ThreadsDatabase, timeout: str = "0") -> tuple[str, ...]:
    return ("--db", str(database.path), "--thread-id", "t", "--timeout", timeout)


@pytest.mark.parametrize("status", sorted(TERMINAL_STATUSES))
def test_every_terminal_status_is_reported(
    watch: Program, database: ThreadsDatabase, status: str
) -> None:
    database.make().set("t", status)

    assert watch(*on(database)) == {"status": status, "thread_id": "t"}


@pytest.mark.parametrize("status", ["running", "COMPLETED", ""])
def test_no_other_status_ends_the_wait(
    watch: Program, database: ThreadsDatabase, status: str
) -> None:
    database.make().set("t", status)

    assert watch(*on(database, "0.2")) == {"status": "timeout", "thread_id": "t"}


def test_other_tables_of_the_database_do_not_matter(
    watch: Program, database: ThreadsDatabase
) -> None:
    database.make().set("t", "completed")
    with closing(connect(database.path)) as connection:
        connection.executescript(SCHEMA)

    assert watch(*on(database))["status"] == "completed"


def test_another_thread_does_not_matter(watch: Program, database: ThreadsDatabase) -> None:
    database.make().set("u", "completed")

    assert watch(*on(database))["status"] == "timeout"


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_change_is_seen(watch: Program, database: ThreadsDatabase, journal: str) -> None:
    database.make(journal).set("t", "running")
    with watch.start(*on(database, "30")) as process:
        database.set("t", "completed")

        assert process.stdout is not None
        assert json.loads(process.stdout.read()) == {"status": "completed", "thread_id": "t"}


def test_without_a_limit_a_change_is_waited_for(watch: Program, database: ThreadsDatabase) -> None:
    database.make().set("t", "running")
    argv = ("--db", str(database.path), "--thread-id", "t", "--no-timeout")
    with watch.start(*argv) as process:
        database.set("t", "completed")

        assert process.stdout is not None
        assert json.loads(process.stdout.read())["status"] == "completed"


def test_a_missing_database_is_waited_for_and_not_made(watch: Program, tmp_path: Path) -> None:
    database = ThreadsDatabase(tmp_path / "later" / "registry.db")
    assert watch(*on(database, "0.2"))["status"] == "timeout"
    assert list(tmp_path.iterdir()) == []

    with watch.start(*on(database, "30")) as process:
        database.path.parent.mkdir()
        database.make().set("t", "error")

        assert process.stdout is not None
        assert json.loads(process.stdout.read())["status"] == "error"


def test_a_file_that_is_no_database_does_not_end_the_wait(watch: Program, tmp_path: Path) -> None:
    database = ThreadsDatabase(tmp_path / "registry.db")
    database.path.write_bytes(b"no database" * 1000)

    assert watch(*on(database))["status"] == "timeout"


def test_a_thread_id_may_be_any_text(watch: Program, database: ThreadsDatabase) -> None:
    name = "-ä' OR '1'='1"
    database.make().set(name, "released")

    answer = watch("--db", str(database.path), f"--thread-id={name}", "--timeout", "0")

    assert answer == {"status": "released", "thread_id": name}


def test_the_exit_status_of_a_timeout_can_be_chosen(
    watch: Program, database: ThreadsDatabase
) -> None:
    assert watch.run(*on(database), "--exit-code").returncode == 124

    database.make().set("t", "completed")
    assert watch.run(*on(database), "--exit-code").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--db", "x"),
        ("--thread-id", "x"),
        ("--db", "x", "--thread-id"),
        ("--db", "x", "--thread-id", "t", "--timeout", "-1"),
        ("--db", "x", "--thread-id", "t", "--timeout", "nan"),
        ("--db", "x", "--thread-id", "t", "--timeout", "1", "--no-timeout"),
        ("--db", "x", "--thread-id", "t", "word"),
        ("--db", "x", "--thread-id", "t", "--exit-code=1"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(watch: Program, arguments: tuple[str, ...]) -> None:
    ended = watch.run(*arguments)

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"lillux-watch: ")
    assert b"usage: lillux-watch --db" in ended.stderr


def test_help_is_the_usage(watch: Program) -> None:
    ended = watch.run("--help")

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"usage: lillux-watch --db")
