"""The full-text index of a registry: FTS5 of SQLite, or ``tsvector`` of PostgreSQL.

Its tables: `rye_services.storage.registry_tables`.

What people type is taken for words and nothing else: no operator of either database gets through.
What narrows a search (kind, namespace, who may see it) is a word of the document too on SQLite, so
that the index itself intersects it and no row is read in vain.
"""

import re
from collections.abc import Sequence
from typing import Protocol
from unicodedata import combining, normalize

from sqlalchemy import Connection, TextClause, text

from lillux.values import dataclass

MAX_QUERY_CHARACTERS = 400
_MOST_WORDS = 16
_MAX_CHARACTERS = 16 * 1024
"""Of a title, a description and a text, each: PostgreSQL takes no more than 1 MiB of words."""

_WORD = re.compile(r"[^\W_]+")
_SHORTEST_PREFIX = 2
MOST_FOUND = 10_000
"""Of one search: beyond that nothing is read, weighed or counted."""

PUBLIC, UNLISTED = "public", "unlisted"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedItem:
    """What is searched of an item."""

    item: int
    item_type: str
    item_id: str
    namespace: str
    category: str
    title: str
    description: str
    body: str
    visibility: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexQuery:
    """What a search is for.

    words  of an item, each of which it has to have, the last ones perhaps as a beginning
    mine   namespaces whose unlisted items are found as well
    """

    words: tuple[str, ...]
    item_type: str = ""
    namespace: str = ""
    category: str = ""
    mine: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it."""
        return not (self.words or self.item_type or self.namespace or self.category)


class SearchIndex(Protocol):
    """Where documents are put, and found by their words; in the caller's transaction."""

    def put(self, connection: Connection, documents: Sequence[IndexedItem]) -> None:
        """Index these documents, in place of what they were."""

    def remove(self, connection: Connection, item: int) -> None:
        """Remove an item from the index."""

    def find(
        self, connection: Connection, wanted: IndexQuery, *, limit: int, offset: int
    ) -> tuple[tuple[int, ...], int]:
        """The items of one page, the best first, and how many there are in all."""


def words_of(query: str) -> tuple[str, ...]:
    """The words in what a user typed; none of a text without letters and digits."""
    return tuple(_WORD.findall(query[:MAX_QUERY_CHARACTERS].lower())[:_MOST_WORDS])


def index_for(dialect: str) -> SearchIndex:
    """That of a database."""
    return PostgresIndex() if dialect == "postgresql" else SqliteIndex()


def _folders(category: str) -> list[str]:
    """The category and every one above it: ``a/b`` is found below ``a``. None of ``""``."""
    segments = category.split("/") if category else []
    return ["/".join(segments[: count + 1]) for count in range(len(segments))]


# --- SQLite ---------------------------------------------------------------------------------------

_COLUMNS = "name, place, title, description, body, facets"
_WEIGHTS = "10.0, 6.0, 6.0, 3.0, 1.0, 0.0"
_PUT = (
    f"INSERT INTO registry_search (rowid, {_COLUMNS}) VALUES"  # noqa: S608 - our own names
    " (:item, :name, :place, :title, :description, :body, :facets)"
)
_REMOVE = "DELETE FROM registry_search WHERE rowid = :item"
_CANDIDATES = (
    f"SELECT rowid AS item, bm25(registry_search, {_WEIGHTS}) AS score"  # noqa: S608 - our own names
    " FROM registry_search WHERE registry_search MATCH :query"
    f" ORDER BY rowid DESC LIMIT {MOST_FOUND}"
)
_RANKED = f"SELECT item FROM ({_CANDIDATES}) ORDER BY score, item DESC LIMIT :limit OFFSET :offset"  # noqa: S608
_COUNTED = (
    "SELECT count(*) FROM (SELECT rowid FROM registry_search"  # noqa: S608 - our own names
    f" WHERE registry_search MATCH :query LIMIT {MOST_FOUND})"
)
_BEGINNING = (
    "SELECT term, doc FROM registry_words WHERE term >= :low AND term < :high"
    " ORDER BY term LIMIT :most"
)
_MOST_ENDINGS, _ENOUGH_FOUND = 12, 2000
_FACET = "\ue000"  # for private use, so a letter to FTS5, and part of no word that people type
_LAST = "\U0010ffff"


class SqliteIndex:
    """A table of FTS5 beside that of the items, by the same number.

    A word is looked up in the vocabulary first: what begins with it counts too, as long as that is
    not very much. A prefix of FTS5's own would have every posting of every such word merged.
    """

    def put(self, connection: Connection, documents: Sequence[IndexedItem]) -> None:
        """Write the rows."""
        if documents:
            connection.execute(text(_REMOVE), [{"item": one.item} for one in documents])
            connection.execute(text(_PUT), [_row(one) for one in documents])

    def remove(self, connection: Connection, item: int) -> None:
        """Remove the row."""
        connection.execute(text(_REMOVE), {"item": item})

    def find(
        self, connection: Connection, wanted: IndexQuery, *, limit: int, offset: int
    ) -> tuple[tuple[int, ...], int]:
        """Look the words up; weighed by BM25, where a word of the name counts most."""
        spellings = [_spellings(connection, word) for word in wanted.words]
        query = {"query": fts_query(wanted, spellings)}
        found = connection.scalars(text(_RANKED), {**query, "limit": limit, "offset": offset})
        items = tuple(int(item) for item in found)
        if not offset and len(items) < limit:
            return items, len(items)
        return items, int(connection.scalar(text(_COUNTED), query) or 0)


def _spellings(connection: Connection, word: str) -> tuple[str, ...]:
    """The word, and words of the index that begin with it, until they are in enough items."""
    plain = "".join(one for one in normalize("NFD", word) if not combining(one))
    if len(word) < _SHORTEST_PREFIX or not plain:
        return (word,)
    bounds = {"low": plain, "high": plain + _LAST, "most": _MOST_ENDINGS}
    found, items = [word], 0
    for term, count in connection.execute(text(_BEGINNING), bounds):
        if items + count > _ENOUGH_FOUND and items:
            break
        found.append(str(term))
        items += count
    return tuple(dict.fromkeys(found))


def fts_query(wanted: IndexQuery, spellings: Sequence[Sequence[str]]) -> str:
    """The expression of FTS5. Its words are letters and digits only, each in quotes."""
    words = [f"({' OR '.join(map(_quoted, one))})" for one in spellings]
    narrowing = {"t": wanted.item_type, "n": wanted.namespace, "c": wanted.category}
    words += [_quoted(_facet(mark, value)) for mark, value in narrowing.items() if value]
    hidden = _quoted(_facet("v", UNLISTED))
    if wanted.mine:
        own = " OR ".join(_quoted(_facet("n", name)) for name in wanted.mine)
        hidden = f"({hidden} NOT ({own}))"
    return f"({' AND '.join(words)}) NOT {hidden}"


def _quoted(word: str) -> str:
    return '"' + word.replace('"', "") + '"'


def _facet(mark: str, value: str) -> str:
    """A word that no user types, whatever the value is."""
    return f"{_FACET}{mark}{value.encode().hex()}"


def _row(document: IndexedItem) -> dict[str, object]:
    marks = {"t": document.item_type, "n": document.namespace, "v": document.visibility}
    facets = [_facet(mark, value) for mark, value in marks.items()]
    facets += [_facet("c", folder) for folder in _folders(document.category)]
    return {
        "item": document.item,
        "name": document.item_id.rpartition("/")[2],
        "place": document.item_id.rpartition("/")[0],
        "title": document.title[:_MAX_CHARACTERS],
        "description": document.description[:_MAX_CHARACTERS],
        "body": document.body[:_MAX_CHARACTERS],
        "facets": " ".join(facets),
    }


# --- PostgreSQL -----------------------------------------------------------------------------------


class PostgresIndex:
    """A table with a ``tsvector`` and a GIN index. Words as they stand: ids are in no language."""

    def put(self, connection: Connection, documents: Sequence[IndexedItem]) -> None:
        """Write the rows."""
        if documents:
            connection.execute(text(_POSTGRES_PUT), [_postgres_row(one) for one in documents])

    def remove(self, connection: Connection, item: int) -> None:
        """Remove the row."""
        connection.execute(text("DELETE FROM registry_search WHERE item = :item"), {"item": item})

    def find(
        self, connection: Connection, wanted: IndexQuery, *, limit: int, offset: int
    ) -> tuple[tuple[int, ...], int]:
        """Look the words up; weighed by where they stand."""
        statement, values = postgres_query(wanted, limit=limit, offset=offset)
        rows = connection.execute(statement, values).all()
        if rows or not offset:
            return tuple(int(row.item) for row in rows), int(rows[0].total) if rows else 0
        first, values = postgres_query(wanted, limit=1, offset=0)
        counted = connection.execute(first, values).first()
        return (), int(counted.total) if counted else 0


_POSTGRES_PUT = (
    "INSERT INTO registry_search (item, item_type, namespace, category, visibility, document)"
    " VALUES (:item, :item_type, :namespace, :category, :visibility,"
    " setweight(to_tsvector('simple', :name), 'A')"
    " || setweight(to_tsvector('simple', :title), 'B')"
    " || setweight(to_tsvector('simple', :description), 'C')"
    " || setweight(to_tsvector('simple', :body), 'D'))"
    " ON CONFLICT (item) DO UPDATE SET item_type = excluded.item_type,"
    " namespace = excluded.namespace, category = excluded.category,"
    " visibility = excluded.visibility, document = excluded.document"
)


def postgres_query(
    wanted: IndexQuery, *, limit: int, offset: int
) -> tuple[TextClause, dict[str, object]]:
    """The statement and its values; words are letters and digits only, and a value all the same."""
    words = " & ".join(
        f"{word}:*" if len(word) >= _SHORTEST_PREFIX else word for word in wanted.words
    )
    statement = text(
        "SELECT item, count(*) OVER () AS total FROM registry_search,"
        " to_tsquery('simple', :words) AS query WHERE (:words = '' OR document @@ query)"
        " AND (visibility = 'public' OR namespace = ANY(:mine))"
        " AND (:item_type = '' OR item_type = :item_type)"
        " AND (:namespace = '' OR namespace = :namespace)"
        " AND (:category = '' OR category = :category"
        " OR starts_with(category, :category || '/'))"
        " ORDER BY ts_rank(document, query) DESC, item DESC LIMIT :limit OFFSET :offset"
    )
    values: dict[str, object] = {
        "words": words,
        "mine": list(wanted.mine),
        "item_type": wanted.item_type,
        "namespace": wanted.namespace,
        "category": wanted.category,
        "limit": limit,
        "offset": offset,
    }
    return statement, values


def _postgres_row(document: IndexedItem) -> dict[str, object]:
    # Ids in words, as the parser of PostgreSQL takes some for paths and hosts. No NUL is a text.
    texts = {
        "name": document.item_id,
        "title": document.title,
        "description": document.description,
        "body": document.body,
    }
    return {
        "item": document.item,
        "item_type": document.item_type,
        "namespace": document.namespace,
        "category": document.category,
        "visibility": document.visibility,
        **{name: " ".join(_WORD.findall(value[:_MAX_CHARACTERS])) for name, value in texts.items()},
    }
