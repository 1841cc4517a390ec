import sqlite3
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from time import time

import pytest
from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from rye_services.people.credentials import ApiKey
from rye_services.storage.database import (
    METADATA,
    REVISION,
    Database,
    TextError,
    api_keys,
    from_row,
    is_away,
    users,
)
from rye_services.storage.migrations import known_revisions, make_tables
from ryeos.items.errors import RyeError
from tests.support.databases import KINDS, database_url, made_database, on_sqlite_alone
from tests.support.endings import wait_until
from tests.support.errors import coded
from tests.support.request_costs import counting


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A new database, made as a node makes it and no copy of a prepared one."""
    made = Database(database_url(tmp_path / "data"))
    make_tables(made)
    yield made
    made.close()


def add(database: Database, user_id: str) -> None:
    """Write a row."""
    with database.writing() as connection:
        connection.execute(users.insert().values(id=user_id, created_at=""))


def count(database: Database) -> int:
    """How many rows there are."""
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(users)) or 0


def test_an_empty_database_gets_all_tables(database: Database) -> None:
    with database.reading() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(select(table)).all()


def test_a_written_row_is_read_by_the_next_process(tmp_path: Path) -> None:
    first = made_database(tmp_path)
    add(first, "a")
    first.close()

    assert count(made_database(tmp_path)) == 1


def test_an_error_rolls_the_transaction_back(database: Database) -> None:
    add(database, "a")

    rows = [{"id": "b", "created_at": ""}, {"id": "a", "created_at": ""}]
    with pytest.raises(IntegrityError), database.writing() as connection:
        connection.execute(users.insert(), rows)

    assert count(database) == 1


def test_a_reading_connection_cannot_write(database: Database) -> None:
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
    databases = [made_database(tmp_path) for _ in range(2)]  # as two processes would

    def fill(database: Database, mark: str) -> None:
        for number in range(40):
            with database.writing(lock="sum") as connection:
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


@on_sqlite_alone
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_only_its_owner_can_read_a_database(database: Database, tmp_path: Path) -> None:
    add(database, "a")

    files = list((tmp_path / "data").iterdir())

    assert {path.name for path in files} == {"node.db", "node.db-wal", "node.db-shm"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@pytest.mark.parametrize("version", ["9999", "0010"])  # a newer one, one before the first release
def test_tables_of_another_version_are_left_alone(tmp_path: Path, version: str) -> None:
    first = made_database(tmp_path)
    with first.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        made_database(tmp_path)

    expected = f": expected tables of version {REVISION}, found version {version}"
    assert str(error.value).endswith(expected)
    assert first.revision() == version


def test_the_newest_version_is_that_of_the_program() -> None:
    assert known_revisions()[0] == REVISION


FIRST_TABLES = Path(__file__).parents[2] / "vectors" / "node-1.sql"
"""The tables of version 1 on SQLite, which later versions change step by step."""


@on_sqlite_alone
def test_tables_of_the_first_version_become_those_that_the_program_uses(tmp_path: Path) -> None:
    from rye_services.storage.registry_tables import METADATA as REGISTRY

    with closing(sqlite3.connect(tmp_path / "node.db")) as connection:
        connection.executescript(FIRST_TABLES.read_text("utf-8"))
    database = made_database(tmp_path)

    with database.reading() as connection:
        found = inspect(connection)
        for table in (*METADATA.sorted_tables, *REGISTRY.sorted_tables):
            columns = {one["name"]: one["nullable"] for one in found.get_columns(table.name)}
            assert columns == {one.name: one.nullable for one in table.columns}
            assert {one["name"] for one in found.get_indexes(table.name) if not one["unique"]} == {
                one.name for one in table.indexes
            }


def test_tables_without_a_version_are_left_alone(tmp_path: Path) -> None:
    database = Database(database_url(tmp_path))
    (tmp_path / "node.db").touch()
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE users (id text)")

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        make_tables(database)

    assert "users" in str(error.value)
    with database.reading() as connection:
        assert inspect(connection).get_table_names() == ["users"]
    database.close()


def test_of_many_first_starts_at_once_one_makes_the_tables(tmp_path: Path) -> None:
    url = database_url(tmp_path)

    def make(_: int) -> str:
        database = Database(url)
        try:
            make_tables(database)
            return database.revision()
        finally:
            database.close()

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(make, range(12))) == [REVISION] * 12


def test_a_value_of_a_statement_is_in_no_error(database: Database) -> None:
    add(database, "very-recognisable")

    with pytest.raises(IntegrityError) as error:
        add(database, "very-recognisable")

    assert "very-recognisable" not in str(error.value).replace("(id)=(very-recognisable)", "")


def test_the_time_is_that_of_the_database(database: Database) -> None:
    with database.reading() as connection:
        found = database.now(connection)

    assert abs((datetime.now(UTC) - found).total_seconds()) < 60


def test_the_time_in_a_statement_is_that_of_the_database(database: Database) -> None:
    with database.single_read() as connection:
        now_s = connection.scalar(select(database.now_s))

    assert now_s == pytest.approx(time(), abs=60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_statement_is_committed(tmp_path: Path, kind: str) -> None:
    database = made_database(tmp_path, kind=kind)

    with database.single_write() as connection:
        connection.execute(users.insert().values(id="a", created_at=""))
    with pytest.raises(IntegrityError), database.single_write() as connection:
        connection.execute(users.insert().values(id="a", created_at=""))
    add(database, "b")  # a transaction, on the same connection

    with database.single_read() as connection:
        assert connection.scalars(select(users.c.id).order_by(users.c.id)).all() == ["a", "b"]


# --- connections to PostgreSQL --------------------------------------------------------------------

PING = ";"


@pytest.fixture
def remote(tmp_path: Path) -> Database:
    """A database on PostgreSQL, with one connection that was used just now."""
    made = made_database(tmp_path, kind="postgresql")
    assert count(made) == 0
    return made


def pid_of(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT pg_backend_pid()")) or 0)


def end(folder: Path, pid: int) -> None:
    """Have the server end a connection, as its restart does; it has ended when this returns."""
    other = made_database(folder, kind="postgresql")
    lives = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with other.single_write() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        wait_until(lambda: connection.scalar(lives, {"pid": pid}) == 0)


def test_a_recently_used_connection_is_not_pinged(remote: Database) -> None:
    with counting() as statements:
        count(remote)
        count(remote)

    assert len(statements) == 2
    assert PING not in statements


def test_an_idle_connection_is_pinged_before_use(
    remote: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_services.storage.database.PING_AFTER_S", 0.0)

    with counting() as statements:
        count(remote)

    assert [one == PING for one in statements] == [True, False]


def test_a_connection_that_the_server_ended_is_replaced_and_no_request_fails(
    remote: Database, tmp_path: Path
) -> None:
    with remote.single_read() as connection:
        pid = pid_of(connection)
    end(tmp_path, pid)

    with remote.single_read() as connection:
        assert pid_of(connection) != pid


def test_a_connection_lost_during_use_is_an_outage_and_is_replaced(
    remote: Database, tmp_path: Path
) -> None:
    with remote.reading() as connection:
        end(tmp_path, pid_of(connection))
        with pytest.raises(OperationalError) as failed:
            connection.execute(text("SELECT 1"))

    assert is_away(failed.value)
    assert count(remote) == 0


def test_a_row_lock_of_a_paused_process_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = made_database(tmp_path, kind="postgresql")
    add(other, "ada")
    monkeypatch.setattr(
        "rye_services.storage.database.RELEASE_IDLE",
        "SET idle_in_transaction_session_timeout = '500ms'",
    )
    paused = made_database(tmp_path, kind="postgresql")

    def write_with_a_pause() -> None:
        with paused.writing() as connection:
            connection.execute(users.update().values(created_at="paused"))
            with other.writing() as free:
                free.execute(users.update().values(created_at="free"))
            connection.execute(users.update().values(created_at="paused"))

    with pytest.raises(SQLAlchemyError) as failed:
        write_with_a_pause()

    assert is_away(failed.value)
    with paused.reading() as connection:
        assert connection.scalar(select(users.c.created_at)) == "free"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nothing", "nothing"),
        ("nodb://user:secret@host/x", "nodb://host/x"),
    ],
)
def test_a_url_of_no_database_is_refused_without_its_password(url: str, shown: str) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        Database(url)

    assert str(error.value).startswith(f"database {shown}: ")
    assert "secret" not in str(error.value)


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    path.write_bytes(b"no database" * 100)

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        Database(f"sqlite:///{path}").revision()

    assert str(error.value) == f"database sqlite:///{path}: file is not a database"


def test_an_error_about_a_missing_driver_says_how_to_get_it() -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as caught:
        Database("postgresql+pg8000://ada@localhost/rye")

    assert "pip install --target DIR" in caught.value.hint


# --- texts ----------------------------------------------------------------------------------------


@pytest.fixture(params=KINDS)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database of each kind."""
    return made_database(tmp_path / "data", kind=request.param)


KEY = {"id": "k", "user_id": "u", "name": "n", "key_prefix": "p", "key_hash": "h"}
HALF = "expected text that UTF-8 can hold, found half of a surrogate pair at character 1"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("id", "x" * 65, "text: expected at most 64 characters, found 65"),
        ("id", "a\0", "text: expected text without NUL, found one at character 2"),
        ("name", "a\0", "text: expected text without NUL, found one at character 2"),
        (
            "name",
            "\ud800",
            f"text: {HALF}",
        ),
        (
            "scopes",
            ["a", {"b": "\0"}],
            "[1].b: expected text without NUL, found one at character 1",
        ),
        (
            "scopes",
            [{"\udfff": 1}],
            f"[0].\\udfff: {HALF}",
        ),
    ],
)
def test_both_databases_refuse_the_same_texts_in_the_same_words(
    either: Database, column: str, value: object, message: str
) -> None:
    row = {**KEY, "created_at": "", "scopes": ["\\u0000"], column: value}

    with pytest.raises(TextError) as caught, either.writing() as connection:
        connection.execute(api_keys.insert().values(**row))

    assert str(caught.value) == message
    with either.reading() as connection:
        assert connection.execute(select(api_keys)).all() == []


def test_a_text_longer_than_its_column_matches_no_row(either: Database) -> None:
    with either.writing() as connection:
        connection.execute(api_keys.insert().values(**KEY, created_at="", scopes=["\\u0000"]))

    with either.reading() as connection:
        found = select(api_keys.c.scopes).where(api_keys.c.id == "k")
        longer = select(api_keys).where(api_keys.c.id == "k" * 1000)

        assert connection.scalar(found) == ["\\u0000"]
        assert connection.execute(longer).all() == []


def test_only_a_database_that_cannot_be_opened_is_an_outage(
    tmp_path: Path,
) -> None:
    away = Database(f"sqlite:///{tmp_path / 'no' / 'n.db'}")
    wrong = Database(f"sqlite:///{tmp_path / 'n.db'}")

    with pytest.raises(OperationalError) as of_place, away.reading() as connection:
        connection.execute(text("SELECT 1"))
    with pytest.raises(OperationalError) as of_statement, wrong.reading() as connection:
        connection.execute(text("SELECT 1 FROM nothing"))

    assert (is_away(of_place.value), is_away(of_statement.value)) == (True, False)
    assert not is_away(ValueError())


ROW = {
    "id": "a" * 16,
    "user_id": "ann",
    "name": "ci",
    "key_prefix": "abcdefgh",
    "scopes": ["remote:push"],
    "created_at": "2026-01-01",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
    "role": None,
    "created_by": None,
}


def test_a_row_is_read_as_the_value_that_its_columns_are() -> None:
    assert from_row(ApiKey, ROW).scopes == ("remote:push",)


@pytest.mark.parametrize("column", ["expires_at", "revoked_at", "scopes"])
def test_no_default_stands_for_a_column_that_was_not_asked_for(column: str) -> None:
    row = {name: value for name, value in ROW.items() if name != column}

    with pytest.raises(KeyError, match=column):
        from_row(ApiKey, row)


def test_a_column_of_another_type_is_named() -> None:
    with pytest.raises(TypeError) as error:
        from_row(ApiKey, ROW | {"scopes": "remote:push"})

    assert str(error.value) == "column scopes: expected a list, found str"
