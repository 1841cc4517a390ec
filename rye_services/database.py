"""The database of a node: SQLite by default, PostgreSQL by its URL.

The door of SQLAlchemy's engines. Tables: `rye_services.tables`; why SQLAlchemy Core: ADR 0085.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, MetaData, Table, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from lillux.errors import LilluxError
from lillux.files import create_file, make_directory
from rye_services.tables import CHANGES, METADATA, SCHEMA_VERSION, schema_versions

_BUSY_TIMEOUT_S = 30.0
_WRITES = "rye_writes"
_NO_DRIVER = (
    "rye-node.pyz brings the driver of SQLite alone; for PostgreSQL: pip install --target DIR"
    " psycopg[binary], start with PYTHONPATH=DIR, and write postgresql+psycopg://user@host/rye"
)


class DatabaseError(LilluxError):
    """The database cannot be used at all."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, url: str, problem: str, *, hint: str = "") -> None:
        self.url, self.problem = url, problem
        super().__init__(f"database {url}: {problem}", hint=hint)


class Database:
    """Connections to the database of ``url``, whose tables are made if there are none. Thread-safe.

    SQLite is opened with a write-ahead log: readers never wait, a commit is on the disk when it
    returns. A second process may use the same file.

    Raises DatabaseError: no such kind of database, out of reach, made by a newer version.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._shown = self._engine.url.render_as_string(hide_password=True)
        # SQLite has one writer. Threads of this process queue here, where nobody is overtaken.
        self._turn: AbstractContextManager[Any] = Lock() if self._is_sqlite else nullcontext()
        try:
            self.have_tables(METADATA, schema_versions, SCHEMA_VERSION, CHANGES)
        except SQLAlchemyError as error:
            raise DatabaseError(self._shown, _cause(error)) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database; what it writes is taken back."""
        with self._engine.connect() as opened:
            connection = opened
            if not self._is_sqlite:  # whose readers see one state anyway
                connection = opened.execution_options(isolation_level="REPEATABLE READ")
            yield connection
            connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: committed at the end, taken back for an error. SQLite has one at a time.

        Raises `sqlalchemy.exc.IntegrityError` and its like where the caller may expect them.
        """
        with self._turn, self._engine.connect() as opened:
            connection = opened.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def have_tables(
        self,
        metadata: MetaData,
        versions: Table,
        expected: int,
        changes: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Make the tables of one part of the server where there are none. Raises DatabaseError.

        ``versions`` is the one of them that holds the number of their version; ``changes`` is what
        makes each version the next one.
        """
        with self.writing() as connection:
            metadata.create_all(connection)
            found: int | None = connection.scalar(sqlalchemy.select(versions.c.version))
            if found is None:
                connection.execute(versions.insert().values(version=expected))
            while found is not None and found in changes:
                connection.exec_driver_sql(changes[found])
                found += 1
                connection.execute(versions.update().values(version=found))
        if found is not None and found != expected:
            raise DatabaseError(
                self._shown,
                f"expected tables of version {expected}, found version {found}",
                hint="use the rye-node.pyz that made them, or another --data folder",
            )

    @property
    def dialect(self) -> str:
        """``sqlite``, ``postgresql``: for the few statements that each spells its own way."""
        return self._engine.dialect.name

    def close(self) -> None:
        """Close every connection that nobody uses; the database can be used again."""
        self._engine.dispose()

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        engine = sqlalchemy.create_engine(parsed, **_options(parsed.drivername))
    except (ArgumentError, ImportError) as error:
        hint = "like sqlite:////var/lib/rye-node/node.db or postgresql://user@host/rye"
        if isinstance(error, ImportError):
            hint = _NO_DRIVER
        raise DatabaseError(_shown(url), str(error), hint=hint) from error
    if engine.dialect.name == "sqlite":
        if parsed.database:
            _make_private(Path(parsed.database))
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
    return engine


def _make_private(path: Path) -> None:
    """Have a file that only its owner reads; SQLite gives those beside it the same mode."""
    make_directory(path.parent, mode=0o700)
    with suppress(FileExistsError):
        create_file(path, b"", mode=0o600)


def _options(driver: str) -> dict[str, Any]:
    if not driver.startswith("sqlite"):
        return {"pool_pre_ping": True}
    # As many connections as threads ask for: the pool must not be what a request waits for.
    return {"connect_args": {"timeout": _BUSY_TIMEOUT_S}, "max_overflow": -1}


def _on_connect(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 - the driver's
    connection.isolation_level = None  # sqlite3 must not begin transactions of its own
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    # A reader that turns writer may find that it cannot: a writer says so at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _shown(url: str) -> str:
    """A URL without what may be a password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme[:40]}{separator}{rest.rpartition('@')[2][:200]}" if separator else scheme[:40]


def _cause(error: SQLAlchemyError) -> str:
    logging.getLogger(__name__).debug("database: %s", error)
    return str(getattr(error, "orig", None) or error)
