"""``rye-node.pyz migrate``: all rows of a node move to another database, or none of them."""

import json
from bisect import bisect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text

from rye_services.node.store.servers import ServerLease
from rye_services.operations.cli import main
from rye_services.operations.migrate import TABLES
from rye_services.people.audit import Audit
from rye_services.people.credentials import ApiKeys
from rye_services.registry.items import index_all
from rye_services.registry.search_index import IndexQuery, SearchIndex, index_for
from rye_services.storage.database import REVISION, Database, threads
from rye_services.storage.migrations import make_tables
from rye_services.storage.registry_tables import items, versions
from tests.support import killed_at_statement, killed_at_step
from tests.support.databases import IMPATIENT, KINDS, database_url
from tests.support.node_forks import run_forked
from tests.support.workspace import PLAIN_ENV

pytestmark = pytest.mark.heavy  # each fills, moves and compares two databases

URL = "RYE_NODE_DATABASE_URL"
WAYS = [(one, other) for one in KINDS for other in KINDS if one != other] + [KINDS[:1] * 2]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without variables of a node."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", URL):
        monkeypatch.delenv(name, raising=False)


class Place:
    """The data folder of a node, and the addresses of its database and of an empty one."""

    def __init__(self, folder: Path, kinds: tuple[str, ...], environ: pytest.MonkeyPatch) -> None:
        self.data, other = folder / "data", folder / "other"
        self.data.mkdir(parents=True)
        other.mkdir()
        self.source, self.target = database_url(self.data, kinds[0]), database_url(other, kinds[1])
        environ.setenv(URL, self.source)
        assert main(["init", "-q", "--data", str(self.data)]) == 0
        self._environ = environ

    @property
    def facts(self) -> str:
        """The text of ``node.toml``."""
        return (self.data / "node.toml").read_text("utf-8")

    def migrate(self) -> int:
        """Its status."""
        return main(["migrate", "--to", self.target, "-q", "--data", str(self.data)])

    def move(self) -> None:
        """Change the settings to the target."""
        self._environ.setenv(URL, self.target)

    def rows(self, url: str) -> dict[str, list[str]]:
        """All rows of each table."""
        database = Database(url)
        try:
            with database.reading() as connection:
                found = {table.name: connection.execute(select(table)).all() for table in TABLES}
        finally:
            database.close()
        return {name: sorted(map(repr, rows)) for name, rows in found.items()}

    def fill(self, executions: int = 2500) -> None:
        """Write rows as a node does: keys, executions, published items, an audit."""
        database = Database(self.source)
        ApiKeys(database).create("ada", name="ci", scopes=None)
        Audit(database).note("gc", "", {"removed": 3})
        with database.writing() as connection:
            connection.execute(insert(threads), [_thread(number) for number in range(executions)])
            connection.execute(insert(items).values(**_item()))
            connection.execute(insert(versions).values(**_version()))
        database.close()


@pytest.fixture(params=WAYS, ids=["-to-".join(way) for way in WAYS])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A node that is stopped, and an empty database."""
    found = Place(tmp_path, request.param, monkeypatch)
    found.fill()
    return found


def test_all_rows_are_in_the_target_database(place: Place) -> None:
    before = place.rows(place.source)

    assert place.migrate() == 0

    after = place.rows(place.target)
    migrated = after.pop("audit")
    audited = before.pop("audit")
    assert (after, len(migrated)) == (before, len(audited) + 1)
    place.move()
    assert main(["api-keys", "list", "--data", str(place.data)]) == 0


@pytest.mark.heavy
@pytest.mark.parametrize("way", [KINDS, KINDS[::-1]], ids="-to-".join)
def test_a_slow_migration_keeps_its_connections(
    way: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Database(database_url(tmp_path, "postgresql"))

    def index_slowly(connection: Connection, index: SearchIndex) -> None:
        with watch.single_read() as slow:
            slow.execute(text("SELECT pg_sleep(2.5)"))
        watch.close()
        index_all(connection, index)

    monkeypatch.setattr("rye_services.storage.database.RELEASE_IDLE", IMPATIENT)
    monkeypatch.setattr("rye_services.operations.migrate.index_all", index_slowly)
    place = Place(tmp_path, way, monkeypatch)

    assert place.migrate() == 0


def test_the_source_is_unchanged_and_no_longer_in_use(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    before = place.rows(place.source)

    assert place.migrate() == 0

    assert place.rows(place.source) == before
    assert main(["api-keys", "list", "--data", str(place.data)]) == 6
    assert "expected the database" in capsys.readouterr().err


def test_after_a_migration_ids_continue_and_published_items_are_found(place: Place) -> None:
    assert place.migrate() == 0

    database = Database(place.target)
    Audit(database).note("gc")
    with database.writing() as connection:
        new = _item("tool:ada/b")
        del new["id"]
        connection.execute(insert(items).values(**new))
        numbers = connection.scalars(select(items.c.id).order_by(items.c.id)).all()
        wanted = IndexQuery(words=("counting",))
        found = index_for(database.dialect).find(connection, wanted, limit=5, offset=0)
    database.close()
    assert (list(numbers), found) == ([7, 8], ((7,), 1))


def test_a_database_that_is_not_empty_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Database(place.target)
    make_tables(other)
    other.close()
    facts = place.facts

    assert place.migrate() == 1

    assert "expected an empty database, found the tables of a node" in capsys.readouterr().err
    assert place.facts == facts


def test_a_value_that_the_target_refuses_changes_neither_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, ("sqlite", "postgresql"), monkeypatch)
    place.fill()
    database = Database(place.source)
    with database.writing() as connection:
        # As older versions let it through.
        connection.exec_driver_sql("UPDATE registry_items SET title = 'a' || char(0) || 'b'")
    database.close()
    before = place.facts, place.rows(place.source)

    assert place.migrate() == 1

    message = capsys.readouterr().err
    assert "table registry_items, column title: found a NUL" in message
    assert (place.facts, place.rows(place.source)) == before
    assert _tables(place.target) == ""


def test_an_unfinished_target_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, ("sqlite", "sqlite"), monkeypatch)
    place.fill()
    monkeypatch.setattr("rye_services.operations.migrate._AT_ONCE", -1)  # partitions of no size

    assert place.migrate() != 0

    assert list((tmp_path / "other").iterdir()) == []


def test_migration_refuses_a_running_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, ("sqlite", "sqlite"), monkeypatch)
    lease = ServerLease(place.data / "servers")
    lease.begin()

    status = place.migrate()
    lease.end()

    assert status == 1
    assert "expected a node that is stopped, found a server" in capsys.readouterr().err
    assert place.migrate() == 0


def test_a_nul_in_program_output_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, ("sqlite", "postgresql"), monkeypatch)
    database = Database(place.source)
    with database.writing() as connection:
        connection.execute(insert(threads).values(**_thread(1)))
        connection.exec_driver_sql("UPDATE threads SET error_message = 'a' || char(0) || 'b'")
    database.close()

    assert place.migrate() == 0

    target = Database(place.target)
    with target.reading() as connection:
        assert connection.scalar(select(threads.c.error_message)) == "a\N{REPLACEMENT CHARACTER}b"
    target.close()


def test_the_answer_names_the_database_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, ("sqlite", "postgresql"), monkeypatch)
    capsys.readouterr()
    url = place.target.replace("rye@", "rye:very-secret@")

    assert main(["migrate", "--to", url, "--json", "--data", str(place.data)]) == 0

    captured = capsys.readouterr()
    assert "very-secret" not in captured.out + captured.err + place.facts
    assert json.loads(captured.out)["rows"]["node_identity"] == 1


def _tables(url: str) -> str:
    database = Database(url)
    try:
        return database.revision()
    finally:
        database.close()


def _thread(number: int) -> Mapping[str, Any]:
    return {
        "thread_id": f"t{number}",
        "user_id": "ada",
        "item_type": "tool",
        "item_id": "tool:a",
        "remote_name": "default",
        "project_path": "ada/p",
        "state": "completed",
        "created_at": "2001-02-03T04:05:06.000000+00:00",
        "warnings": ["é"] if number % 2 else None,
        "job_secrets": bytes([number % 256]) if number % 3 else None,
    }


def _item(item_id: str = "tool:ada/a", number: int = 7, title: str = "Counting") -> dict[str, Any]:
    return {
        "id": number,
        "item_type": "tool",
        "item_id": item_id,
        "folded_id": item_id,
        "namespace": "ada",
        "category": "ada",
        "name": "a",
        "title": title,
        "visibility": "public",
        "latest_version": "1.0.0" if number == 7 else None,
        "author": "ada",
        "created_at": "2001-02-03T04:05:06.000000+00:00",
        "updated_at": "2001-02-03T04:05:06.000000+00:00",
    }


def _version() -> dict[str, Any]:
    return {
        "item": 7,
        "version": "1.0.0",
        "suffix": ".py",
        "content": "print('counting')",
        "source_hash": "0" * 64,
        "sha256": "0" * 64,
        "author": "ada",
        "size": 17,
        "created_at": "2001-02-03T04:05:06.000000+00:00",
    }


# --- kills ----------------------------------------------------------------------------------------

MOST_STATEMENTS = 256
"""More than a move makes."""


@pytest.mark.parametrize(
    "way",
    [("sqlite", "postgresql"), ("postgresql", "sqlite")],
    ids=["to postgresql", "to sqlite"],
)
def test_a_kill_before_any_statement_changes_neither_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str]
) -> None:
    place = Place(tmp_path, way, monkeypatch)
    place.fill(executions=20)
    before = place.facts, place.rows(place.source)
    left: dict[int, str] = {}

    def aim_at(name: str) -> None:
        (tmp_path / name).mkdir()
        place.target = database_url(tmp_path / name, way[1])

    def is_killed(step: int) -> bool:
        aim_at(str(step))
        status = _killed(place, partial(killed_at_statement.kill_before, step))
        if status == 0:
            (place.data / "node.toml").write_text(before[0], "utf-8")
            return False
        assert (status, place.facts, place.rows(place.source)) == (-9, *before), step
        left[step] = _tables(place.target)
        return True

    assert all(is_killed(step) for step in (1, 2, 10, 30, 60))
    assert not is_killed(MOST_STATEMENTS)
    end = bisect(range(MOST_STATEMENTS), 0, lo=61, key=lambda step: int(not is_killed(step)))

    # The last statement ends the transaction of the source: all is there, and node.toml is not.
    assert left.pop(end - 1) == REVISION
    assert set(left.values()) == {""}
    aim_at("whole")
    assert place.migrate() == 0
    place.move()
    assert main(["api-keys", "list", "--data", str(place.data)]) == 0


def test_a_kill_before_any_file_leaves_one_database_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = set()
    for step in range(1, 9):
        place = Place(tmp_path / str(step), ("sqlite", "sqlite"), monkeypatch)
        place.fill(executions=20)
        source = place.rows(place.source)

        status = _killed(place, partial(killed_at_step.kill_before, step, str(place.data)))

        is_moved = "other" in place.facts
        outcomes.add((status, is_moved))
        if is_moved:
            place.move()
        assert main(["users", "list", "-q", "--data", str(place.data)]) == 0
        assert place.rows(place.source) == source

    assert {(-9, False), (0, True)} <= outcomes


def _killed(place: Place, kill: Callable[[], None]) -> int:
    """The status of a migration in a separate process, in which ``kill`` is called first."""
    words = ("migrate", "--to", place.target, "-q", "--data", str(place.data))
    environ = {**PLAIN_ENV, "HOME": str(place.data.parent), URL: place.source}
    return run_forked(words, environ, 60, kill).returncode
