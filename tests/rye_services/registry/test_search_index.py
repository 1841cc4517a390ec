from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql

from rye_services.registry.search_index import (
    MAX_QUERY_CHARACTERS,
    PUBLIC,
    UNLISTED,
    IndexedItem,
    IndexQuery,
    PostgresIndex,
    SqliteIndex,
    fts_query,
    index_for,
    postgres_query,
    words_of,
)
from rye_services.storage.database import Database
from rye_services.storage.migrations import make_tables

INDEX = SqliteIndex()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with writing(tmp_path_factory.mktemp("index")) as opened:
        INDEX.put(opened, DOCUMENTS)
        yield opened


@contextmanager
def writing(folder: Path) -> Iterator[Connection]:
    """A connection to a database of SQLite, also where other tests use PostgreSQL."""
    database = Database(f"sqlite:///{folder / 'node.db'}")
    make_tables(database)
    with database.writing() as opened:
        yield opened
    database.close()


def document(item: int, item_id: str, words: str, visibility: str = PUBLIC) -> IndexedItem:
    namespace, _, rest = item_id.partition("/")
    return IndexedItem(
        item=item,
        item_type="tool",
        item_id=item_id,
        namespace=namespace,
        category=rest.rpartition("/")[0],
        title="",
        description=words,
        body="",
        visibility=visibility,
    )


DOCUMENTS = [
    document(1, "ada/draw/circle", "Draws a round shape"),
    document(2, "ada/draw/shapes/line", "Draws what has two ends"),
    document(3, "bob/text/count_words", "Counts words; Zählt Wörter, été"),
    document(4, "bob/text/hidden_words", "Counts nothing", UNLISTED),
]


def found(connection: Connection, query: str, **narrowed: object) -> list[int]:
    wanted = IndexQuery(words=words_of(query), **narrowed)  # type: ignore[arg-type]
    items, total = INDEX.find(connection, wanted, limit=10, offset=0)
    assert total == len(items)
    return sorted(items)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("draws", [1, 2]),
        ("DRAWS round", [1]),
        ("dra", [1, 2]),
        ("count words", [3]),
        ("count_words", [3]),
        ("zahlt worter", [3]),
        ("zähl", [3]),
        ("ÉTÉ", [3]),
        ("rabbit", []),
        ("raws", []),
        ("ada", [1, 2]),
        ("a", [1]),
    ],
)
def test_words_are_found_by_prefix_in_any_case(
    connection: Connection, query: str, expected: list[int]
) -> None:
    assert found(connection, query) == expected


def test_a_search_is_filtered_and_shows_unlisted_items_to_their_owner(
    connection: Connection,
) -> None:
    assert found(connection, "draws", namespace="bob") == []
    assert found(connection, "draws", category="draw") == [1, 2]
    assert found(connection, "draws", category="draw/shapes") == [2]
    assert found(connection, "draws", item_type="knowledge") == []
    assert found(connection, "counts", mine=("bob", "eve")) == [3, 4]
    assert found(connection, "counts", mine=("ada",)) == [3]
    assert found(connection, "", namespace="bob") == [3]
    assert found(connection, "", namespace="bob", mine=("bob",)) == [3, 4]


def test_the_index_word_of_a_facet_cannot_be_typed(connection: Connection) -> None:
    facet = fts_query(IndexQuery(words=(), item_type="tool"), ()).split('"')[1]

    assert words_of(facet) == (facet[1:],)
    assert found(connection, facet) == []


@given(query=st.text(max_size=60))
def test_a_query_is_read_as_words_without_expressions(connection: Connection, query: str) -> None:
    wanted = IndexQuery(words=words_of(query), namespace="ada")

    items, total = INDEX.find(connection, wanted, limit=10, offset=0)

    assert total == len(items)
    assert set(items) <= {1, 2}


def test_very_long_queries_are_cut() -> None:
    assert len(words_of("ab " * MAX_QUERY_CHARACTERS)) == 16


def test_replaced_and_removed_texts_are_not_found(tmp_path: Path) -> None:
    with writing(tmp_path) as opened:
        INDEX.put(opened, [document(1, "ada/draw/circle", "tapir")])
        INDEX.put(opened, [document(1, "ada/draw/circle", "bongo")])

        assert (found(opened, "tapir"), found(opened, "bongo")) == ([], [1])

        INDEX.remove(opened, 1)

        assert found(opened, "bongo") == []


def test_postgresql_gets_words_as_a_parameter_and_uses_its_index() -> None:
    wanted = IndexQuery(words=("draw", "a"), item_type="tool", mine=("ada",))

    statement, values = postgres_query(wanted, limit=20, offset=40)

    compiled = statement.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    assert isinstance(index_for("postgresql"), PostgresIndex)
    assert isinstance(index_for("sqlite"), SqliteIndex)
    assert values["words"] == "draw:* & a"
    assert "draw" not in str(compiled)
    assert set(compiled.params) == values.keys()
