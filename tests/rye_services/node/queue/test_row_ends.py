from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from rye_services.node.queue.rows import COMPLETED, ERROR, NewThread, RowEnds, ThreadRows
from rye_services.storage.database import Database
from tests.support.databases import KINDS, made_database

USER = "a" * 16


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made = made_database(tmp_path, kind=request.param)
    yield made
    made.close()


@pytest.fixture
def rows(database: Database) -> ThreadRows:
    made = ThreadRows(database, "here", lambda _: False)
    for name in ("one", "two"):
        made.begin(
            NewThread(
                thread_id=name,
                user_id=USER,
                item_ref="tool:echo",
                remote_name="default",
                project_path="project",
                project_manifest_hash="1" * 64,
                user_manifest_hash=None,
                system_version="0.1.0",
            )
        )
    return made


@contextmanager
def no_threads(database: Database) -> Iterator[None]:
    """A database that refuses rows of threads while a block runs."""
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE threads RENAME TO elsewhere"))
    yield
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO threads"))


def state_of(rows: ThreadRows, thread_id: str) -> str:
    row = rows.one(USER, thread_id)
    assert row is not None
    return str(row["state"])


def test_an_end_is_written_when_the_database_is_back(database: Database, rows: ThreadRows) -> None:
    ends = RowEnds(rows)
    with no_threads(database):
        assert ends.write("one", 1, ERROR, error_message="no room")
        assert ends.write("two", 1, COMPLETED)
        ends.write_kept()

    assert [state_of(rows, name) for name in ("one", "two")] == ["running", "running"]
    ends.write_kept()

    row = rows.one(USER, "one")
    assert row is not None
    assert (row["state"], row["error_message"]) == ("error", "no room")
    assert state_of(rows, "two") == "completed"


def test_an_end_is_written_once(rows: ThreadRows) -> None:
    ends = RowEnds(rows)
    assert ends.write("one", 1, COMPLETED)

    ends.write_kept()

    assert not ends.write("one", 1, ERROR)
    assert state_of(rows, "one") == "completed"


def test_characters_that_a_database_cannot_store_are_replaced_in_results(rows: ThreadRows) -> None:
    fields = {"error_message": "a\0b\ud800c\ud83d\ude00", "merge_conflicts": {"x\0": ["\udfff"]}}

    assert RowEnds(rows).write("one", 1, ERROR, **fields)

    row = rows.one(USER, "one")
    assert row is not None
    assert row["error_message"] == "a\ufffdb\ufffdc\U0001f600"
    assert row["merge_conflicts"] == {"x\ufffd": ["\ufffd"]}
