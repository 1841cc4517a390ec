import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from rye_services.database import METADATA, Database, DatabaseError, schema_versions, threads, users


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database in a file."""
    opened = Database(f"sqlite:///{tmp_path / 'data' / 'node.db'}")
    yield opened
    opened.close()


def add(database: Database, user_id: str) -> None:
    """Write a row."""
    with database.writing() as connection:
        connection.execute(users.insert().values(id=user_id, created_at=""))


def count(database: Database) -> int:
    """How many rows there are."""
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(users)) or 0


def test_tables_are_made_where_there_are_none(database: Database) -> None:
    with database.reading() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(select(table)).all()


def test_what_was_written_is_there_for_the_next_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    first = Database(url)
    add(first, "a")
    first.close()

    second = Database(url)

    assert count(second) == 1
    second.close()


def test_an_error_takes_everything_back(database: Database) -> None:
    add(database, "a")

    rows = [{"id": "b", "created_at": ""}, {"id": "a", "created_at": ""}]
    with pytest.raises(IntegrityError), database.writing() as connection:
        connection.execute(users.insert(), rows)

    assert count(database) == 1


def test_a_reader_writes_nothing(database: Database) -> None:
    with database.reading() as connection:
        connection.execute(users.insert().values(id="a", created_at=""))

    assert count(database) == 0


def test_a_reader_sees_one_state_and_waits_for_no_writer(database: Database) -> None:
    with database.reading() as connection:
        before = connection.scalar(select(func.count()).select_from(users))
        add(database, "a")
        after = connection.scalar(select(func.count()).select_from(users))

    assert (before, after) == (0, 0)
    assert count(database) == 1


def test_writers_of_two_processes_wait_for_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    databases = [Database(url), Database(url)]  # as two processes would: nothing is shared

    def fill(database: Database, mark: str) -> None:
        for number in range(40):
            with database.writing() as connection:
                stored = connection.scalar(select(users.c.stored_bytes).where(users.c.id == "sum"))
                change = users.update().where(users.c.id == "sum")
                connection.execute(change.values(stored_bytes=(stored or 0) + 1))
                connection.execute(users.insert().values(id=f"{mark}{number}", created_at=""))

    add(databases[0], "sum")
    threads = [Thread(target=fill, args=(databases[n % 2], f"t{n}-")) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with databases[1].reading() as connection:
        total = connection.scalar(select(users.c.stored_bytes).where(users.c.id == "sum"))
    assert total == 160
    assert count(databases[0]) == 161
    for database in databases:
        database.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_only_its_owner_can_read_a_database(database: Database, tmp_path: Path) -> None:
    add(database, "a")

    files = list((tmp_path / "data").iterdir())

    assert {path.name for path in files} == {"node.db", "node.db-wal", "node.db-shm"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_tables_of_another_version_are_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    first = Database(url)
    with first.writing() as connection:
        connection.execute(schema_versions.update().values(version=99))
    first.close()

    with pytest.raises(DatabaseError) as error:
        Database(url)

    assert str(error.value) == f"database {url}: expected tables of version 2, found version 99"


def test_tables_of_the_version_before_are_brought_to_this_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    first = Database(url)
    add(first, "ada")
    with first.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE threads DROP COLUMN merge_conflict_count")
        connection.execute(schema_versions.update().values(version=1))
    first.close()

    for _ in range(2):
        opened = Database(url)
        with opened.reading() as connection:
            assert connection.execute(select(threads.c.merge_conflict_count)).all() == []
            assert connection.scalar(select(schema_versions.c.version)) == 2
            assert connection.scalar(select(func.count()).select_from(users)) == 1
        opened.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nothing", "nothing"),
        ("nodb://user:secret@host/x", "nodb://host/x"),
    ],
)
def test_a_url_of_no_database_is_refused_without_its_password(url: str, shown: str) -> None:
    with pytest.raises(DatabaseError) as error:
        Database(url)

    assert str(error.value).startswith(f"database {shown}: ")
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    path.write_bytes(b"no database" * 100)

    with pytest.raises(DatabaseError) as error:
        Database(f"sqlite:///{path}")

    assert str(error.value) == f"database sqlite:///{path}: file is not a database"


def test_a_driver_that_is_missing_is_told_how_to_get() -> None:
    with pytest.raises(DatabaseError) as caught:
        Database("postgresql+pg8000://ada@localhost/rye")

    assert "pip install --target DIR" in caught.value.hint
