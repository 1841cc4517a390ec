"""The database of a node: SQLite by default, PostgreSQL by its URL.

The door of SQLAlchemy's engines, and the tables. Why SQLAlchemy Core: ADR 0022.
"""

import json
import logging
import select
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    RowMapping,
    Table,
    event,
)
from sqlalchemy.engine import Dialect, ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DontWrapMixin,
    InterfaceError,
    InvalidatePoolError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.types import TypeDecorator

from lillux.files import create_file, make_directory
from lillux.shapes import members, read
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError

REVISION = "1"
"""The version of the tables that this program works with: the newest below ``migrations``."""

BUSY_TIMEOUT_S = 15.0
"""How long a writer of SQLite waits for its turn in this process, and then for other processes."""

PING_AFTER_S = 5.0
"""How long a connection to PostgreSQL may be idle until it is asked whether it still is one."""

RELEASE_IDLE = "SET idle_in_transaction_session_timeout = '15s'"
"""What each connection says to PostgreSQL: a transaction that asks for nothing this long is ended.

A process that is paused, or whose machine is gone, would keep the rows that it locked until TCP
gives it up, for hours; no other could take its executions over.
"""

_USED_S = "rye_used_s"
_LOCK = sqlalchemy.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_TRY_ALONE = sqlalchemy.text("SELECT pg_try_advisory_lock(hashtextextended(:name, 0))")
_NO_LONGER_ALONE = sqlalchemy.text("SELECT pg_advisory_unlock(hashtextextended(:name, 0))")
_NOW_S = "extract(epoch FROM clock_timestamp())::double precision"
_NOW_OF_SQLITE_S = "(julianday('now') - 2440587.5) * 86400.0"
_NOW, _NOW_OF_SQLITE = (sqlalchemy.text(f"SELECT {one}") for one in (_NOW_S, _NOW_OF_SQLITE_S))
_WRITES = "rye_writes"
# The others are permanent errors of the statement: no such table, for one.
_AWAY_OF_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_NO_DRIVER = (
    "rye-node.pyz brings the driver of SQLite alone; for PostgreSQL: pip install --target DIR"
    " psycopg[binary], start with PYTHONPATH=DIR, and write postgresql+psycopg://user@host/rye"
)


def database_error(url: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a database that cannot be used at all."""
    return RyeError(f"database {url}: {problem}", code="CONFIG_ERROR", hint=hint)


class Database:
    """Connections to the database of ``url``, as it is: nothing is made by opening. Thread-safe.

    SQLite is opened with a write-ahead log: readers never wait, a commit is on the disk when it
    returns. A second process may use the same file. ``clock`` stands for the database's own one.

    Raises RyeError `CONFIG_ERROR`: no such kind of database, or no driver for it.
    """

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._engine = _engine(url)
        self._clock = clock
        self.shown = self._engine.url.render_as_string(hide_password=True)
        # SQLite has one writer. Threads of this process queue here, where none is overtaken.
        self._turn = Lock()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database; what it writes is taken back."""
        with self._engine.connect() as opened:
            connection = opened
            if not self.is_sqlite:  # whose readers see one state anyway
                connection = opened.execution_options(isolation_level="REPEATABLE READ")
            yield connection
            connection.rollback()

    @contextmanager
    def single_read(self) -> Iterator[Connection]:
        """A connection for a single statement that reads, and is a transaction of its own.

        PostgreSQL gets that statement alone, without BEGIN and COMMIT, each of which takes as long
        as a short statement.
        """
        with self._single(self.reading) as connection:
            yield connection

    @contextmanager
    def single_write(self) -> Iterator[Connection]:
        """As `single_read`, for a statement that writes. Raises as `writing`."""
        with self._single(self.writing) as connection:
            yield connection

    @contextmanager
    def _single(
        self, on_sqlite: Callable[[], AbstractContextManager[Connection]]
    ) -> Iterator[Connection]:
        if self.is_sqlite:  # where a transaction costs no round trip
            with on_sqlite() as connection:
                yield connection
            return
        with self._engine.connect() as opened:
            yield opened.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def writing(self, lock: str = "") -> Iterator[Connection]:
        """A transaction: committed at the end, taken back for an error. SQLite has one at a time.

        PostgreSQL has many: what ``lock`` names, one of them has at a time, over all servers. It
        is for a decision about what is not there yet, which no row can be locked for.
        Raises `sqlalchemy.exc.IntegrityError` and its like where the caller may expect them.
        """
        with self._in_turn(), self._engine.connect() as opened:
            connection = opened.execution_options(**{_WRITES: True})
            with connection.begin():
                if lock:
                    hold(connection, lock)
                yield connection

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """A block that no other thread writes in, where only one can. Raises as for no connection.

        While another process keeps the file locked, each thread that comes to wait for it has its
        answer in time: it does not wait for all that came before it to have theirs.
        """
        if not self.is_sqlite:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_S):
            raise PoolTimeoutError(f"{self.shown}: no turn to write within {BUSY_TIMEOUT_S:g} s")
        try:
            yield
        finally:
            self._turn.release()

    def now(self, connection: Connection) -> datetime:
        """The time, in UTC: of many servers each has a clock, and the database has one."""
        if self._clock is not None:
            return self._clock()
        seconds = connection.scalar(_NOW_OF_SQLITE if self.is_sqlite else _NOW)
        return datetime.fromtimestamp(float(seconds or 0), UTC)

    @property
    def now_s(self) -> ColumnElement[float]:
        """The same in seconds, as a part of a statement, which saves one that asks for it."""
        if self._clock is not None:
            return sqlalchemy.literal(self._clock().timestamp(), Double)
        clock = _NOW_OF_SQLITE_S if self.is_sqlite else _NOW_S
        return sqlalchemy.literal_column(clock, Double)

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether a block runs alone of all that ask for a name, on whatever server.

        True on SQLite, which has one machine: there a file is locked. It ends with the process.
        """
        if self.is_sqlite:
            yield True
            return
        key = {"name": f"rye alone {name}"}
        with self._engine.connect() as opened:
            connection = opened.execution_options(isolation_level="AUTOCOMMIT")
            is_alone = bool(connection.scalar(_TRY_ALONE, key))
            try:
                yield is_alone
            finally:
                if is_alone:
                    connection.execute(_NO_LONGER_ALONE, key)

    # --- versions of the tables ---

    def revision(self) -> str:
        """The version of the tables, ``""`` for none at all.

        Raises RyeError `CONFIG_ERROR`: out of reach, no database.
        """
        path = self._engine.url.database
        if self.is_sqlite and path and not Path(path).exists():
            return ""  # to connect would make it
        try:
            with self.reading() as connection:
                return _revision(connection)
        except SQLAlchemyError as error:
            raise database_error(self.shown, _cause(error), hint=_hint_of(error)) from error

    def change_tables(self, change: Callable[[Connection, str], None]) -> None:
        """Call ``change`` in a transaction with the version of the tables, ``""`` for none at all.

        Of many that begin at once one is there at a time. Raises RyeError `CONFIG_ERROR`: out of
        reach, or tables that cannot be changed so.
        """
        path = self._engine.url.database
        if self.is_sqlite and path:
            _make_private(Path(path))
        try:
            with self.writing(lock="tables") as connection:
                change(connection, _revision(connection))
        except SQLAlchemyError as error:
            raise database_error(self.shown, _cause(error), hint=_hint_of(error)) from error

    @property
    def conninfo(self) -> str:
        """The address as libpq takes it, password and all: for what listens beside SQLAlchemy."""
        return self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    @property
    def dialect(self) -> str:
        """``sqlite``, ``postgresql``: for the few statements that each spells its own way."""
        return self._engine.dialect.name

    def on_error(self, call: Callable[[str], None]) -> None:
        """Call ``call`` with the name of the class of each error of the database."""

        def handle(context: ExceptionContext) -> None:
            error = context.sqlalchemy_exception or context.original_exception
            call(type(error).__name__)

        event.listen(self._engine, "handle_error", handle)

    @property
    def connections(self) -> dict[str, float]:
        """How many connections are ``in_use``, and how many wait to be used: ``idle``."""
        pool = self._engine.pool
        if not isinstance(pool, QueuePool):  # of a database in memory
            return {}
        return {"in_use": pool.checkedout(), "idle": pool.checkedin()}

    def close(self) -> None:
        """Close every unused connection; the database can be used again."""
        self._engine.dispose()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine, and has one writer."""
        return self._engine.dialect.name == "sqlite"


def is_away(error: BaseException) -> bool:
    """Whether the database did not answer, or not in time: the same may go well a little later."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PoolTimeoutError | InterfaceError):
            return True
        if isinstance(cause, OperationalError):
            code = getattr(cause.orig, "sqlite_errorcode", None)
            return code is None or code & 0xFF in _AWAY_OF_SQLITE
        if isinstance(cause, DBAPIError) and cause.connection_invalidated:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def hold(connection: Connection, lock: str) -> None:
    """Take a lock as `Database.writing` does, until the transaction ends.

    Who takes two takes that of a name first and that of its owner last, else two could wait for
    each other for ever.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCK, {"name": f"rye {lock}"})


def may_pause(connection: Connection) -> None:
    """Let a transaction be silent for as long as it takes: see `RELEASE_IDLE`.

    It is for what waits for another program or another database in the middle of one.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(sqlalchemy.text("SET LOCAL idle_in_transaction_session_timeout = 0"))


def _revision(connection: Connection) -> str:
    tables = sqlalchemy.inspect(connection)
    # Asked for by name: a list of all takes the longer the more schemas a database has.
    if tables.has_table("alembic_version"):
        found = connection.scalar(sqlalchemy.text("SELECT version_num FROM alembic_version"))
        return str(found or "")
    return ""


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        # What is written may be a secret of a user: no error and no log may show it.
        options = {
            "hide_parameters": True,
            "json_serializer": _json,
            **_options(parsed.drivername),
        }
        engine = sqlalchemy.create_engine(parsed, **options)
    except (ArgumentError, ImportError) as error:
        hint = "like sqlite:////var/lib/rye-node/node.db or postgresql://user@host/rye"
        if isinstance(error, ImportError):
            hint = _NO_DRIVER
        raise database_error(_url_without_password(url), str(error), hint=hint) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
    else:
        event.listen(engine, "connect", _on_connect_of_postgresql)
        _ping_idle(engine)
    return engine


def _on_connect_of_postgresql(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
    """Make PostgreSQL plan each statement for its values, and end what was left in the middle.

    A plan that was kept from when a table was empty takes 50 ms for what takes 1 ms, until
    PostgreSQL has looked at the table again: a minute later, or never for some.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_custom_plan")
        cursor.execute(RELEASE_IDLE)
    connection.commit()


def _ping_idle(engine: Engine) -> None:
    """Test connections that may be dead by now before they are used.

    Those are the ones that were idle for a while, and those whose socket has something to read: the
    end of the connection, since no statement is pending. One that dies right after it fails in its
    transaction; `is_away` says so of that error.
    """
    dialect = engine.dialect

    def note_use(_: Any, record: ConnectionPoolEntry) -> None:  # noqa: ANN401 - the driver's
        record.info[_USED_S] = monotonic()

    def look(connection: Any, record: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401 - the driver's
        is_recent = monotonic() - record.info.get(_USED_S, 0.0) < PING_AFTER_S
        if is_recent and not _has_news(connection):
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            if not dialect.is_disconnect(error, connection, None):
                raise
            raise InvalidatePoolError from error

    event.listen(engine, "connect", note_use)
    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", look)


def _has_news(connection: Any) -> bool:  # noqa: ANN401 - the driver's
    """Whether an idle connection has something to read; True too where that cannot be asked."""
    if not hasattr(select, "poll"):  # Windows
        return True
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:  # noqa: BLE001 - a driver of another kind, or a connection that is closed
        return True


def _make_private(path: Path) -> None:
    """Make a file that only its owner reads; SQLite gives those beside it the same mode."""
    make_directory(path.parent, mode=0o700)
    with suppress(FileExistsError):
        create_file(path, b"", mode=0o600)


def _options(driver: str) -> dict[str, Any]:
    if not driver.startswith("sqlite"):
        # A thread of a request each, at most; a request that waits longer gets 503. The connection
        # that was used last is used next, so that few of many are idle for long and have to answer
        # a ping: see `_ping_idle`.
        sizes = {"pool_size": 20, "max_overflow": 20, "pool_timeout": 10}
        return {"pool_use_lifo": True, "skip_autocommit_rollback": True, **sizes}
    # As many connections as threads ask for: the pool must not be what a request waits for.
    return {"connect_args": {"timeout": BUSY_TIMEOUT_S}, "max_overflow": -1}


def _on_connect(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 - the driver's
    connection.isolation_level = None  # sqlite3 must not begin transactions of its own
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    # A reader that turns writer may find that it cannot: a writer says so at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _url_without_password(url: str) -> str:
    """A URL without what may be a password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme[:40]}{separator}{rest.rpartition('@')[2][:200]}" if separator else scheme[:40]


def _hint_of(error: SQLAlchemyError) -> str:
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
        return "its folder has to be writable, also for who only reads: SQLite keeps a log there"
    return ""


def _cause(error: SQLAlchemyError) -> str:
    logging.getLogger(__name__).debug("database: %s", error)
    return str(getattr(error, "orig", None) or error)


# --- texts ----------------------------------------------------------------------------------------
# Texts that every database holds alike. PostgreSQL holds no NUL and counts characters, SQLite takes
# both; half of a surrogate pair is in no encoding. What people send is refused before it comes to
# the database (`rye_services.web.http`), what tools and files say is replaced
# (`storable`); the columns
# refuse what is left, so that no database answers for itself.

_LONGEST_PLACE, _LONGEST_NAME = 200, 80


class TextError(RyeError, DontWrapMixin):
    """A text that no column holds; ``where`` is its place in what was sent."""

    code = "INVALID_PARAMS"

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint="send it without that, or shorter")


def require_texts(value: object, where: str = "") -> None:
    """Refuse a JSON value with a text that no database holds, names too. Raises TextError."""
    levels: list[Iterator[tuple[object, object]]] = [iter([(where, value)])]
    names: list[object] = [where]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
            names.pop()
            continue
        names[-1], one = found
        for text in found:
            if isinstance(text, str) and (problem := _problem_of(text)):
                raise TextError(_place(names), problem)
        if isinstance(one, Mapping | list | tuple):
            levels.append(iter(one.items() if isinstance(one, Mapping) else enumerate(one)))
            names.append("")


def storable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The JSON value with U+FFFD for what no database holds, in its texts and names."""
    match value:
        case str() if _problem_of(value):
            halves = value.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass")
            return halves.decode("utf-16-le", "replace")
        case Mapping():
            return {storable(name): storable(one) for name, one in value.items()}
        case list() | tuple():
            return [storable(one) for one in value]
        case _:
            return value


def _problem_of(text: str) -> str:
    if "\0" in text:
        return f"expected text without NUL, found one at character {text.index(chr(0)) + 1}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        expected = "expected text that UTF-8 can hold"
        return f"{expected}, found half of a surrogate pair at character {error.start + 1}"
    return ""


def _place(names: list[object]) -> str:
    """``parameters.names[3]``; of what is very deep the beginning."""
    place = ""
    for name in names:
        if len(place) > _LONGEST_PLACE:
            break
        shown = f"[{name}]" if isinstance(name, int) else ascii(str(name)[:_LONGEST_NAME])[1:-1]
        place += shown if isinstance(name, int) or not place else f".{shown}"
    return place[:_LONGEST_PLACE] or "text"


def _json(value: object) -> str:
    """What a column of JSON holds; PostgreSQL does not give back every escape that it takes."""
    text = json.dumps(value)
    if "\\u0000" in text or "\\ud" in text:
        require_texts(value)
    return text


class String(TypeDecorator[str]):
    """A text of at most ``length`` characters; a longer one is refused by every database."""

    impl = sqlalchemy.String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length  # part of what SQLAlchemy knows a statement again by

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - of SQLAlchemy
        """The text as it is written. Raises TextError."""
        if value is not None and len(value) > self.length:
            problem = f"expected at most {self.length} characters, found {len(value)}"
            raise TextError("text", problem)
        return _require_text(value)

    def coerce_compared_value(self, op: object, value: object) -> "Text":  # noqa: ARG002 - of SQLAlchemy
        """What it is compared with may be longer: it is found nowhere then."""
        return Text()


class Text(TypeDecorator[str]):
    """A text of any length."""

    impl = sqlalchemy.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - of SQLAlchemy
        """The text as it is written. Raises TextError."""
        return _require_text(value)


def _require_text(text: str | None) -> str | None:
    if text is not None and (problem := _problem_of(text)):
        raise TextError("text", problem)
    return text


# --- tables ---------------------------------------------------------------------------------------
# The tables of a node. What each row means: ``docs/node.md``.
#
# Times that people see are texts, ISO 8601 in UTC with microseconds, whose order as texts is their
# order in time; times that are only compared (``..._s``) are seconds since 1970.

METADATA = MetaData()

node_identity = Table(  # one row: whose database this is, as `node.toml` of its data folder says
    "node_identity",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("created_at", String(40), nullable=False),
    Column("public_key", Text),  # of a cluster: that all its processes have
    # Where the files are: null for the folder of each server, else the URL of object storage.
    Column("store", String(1100)),
    Column("store_endpoint", String(1100)),
    Column("store_region", String(64)),
)

stored_contents = (
    Table(  # what object storage holds, and where: `rye_services.node.store.bucket_store`
        "stored_contents",
        METADATA,
        Column("owner", String(80), primary_key=True),
        Column("digest", String(64), primary_key=True),
        Column("space", String(6), primary_key=True),
        Column("pack", String(32), nullable=False),
        Column("start", BigInteger, nullable=False),
        Column("size", BigInteger, nullable=False),
        Column("used_at_s", Double, nullable=False),
        Index("stored_contents_by_pack", "owner", "pack"),
    )
)

users = Table(
    "users",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("username", Text, nullable=False, default=""),
    Column("email", Text, nullable=False, default=""),
    Column("created_at", String(40), nullable=False),
    # Kept up to date by what stores and removes, so that no quota is found by walking.
    Column("stored_bytes", BigInteger, nullable=False, default=0),
    Column("quota_bytes", BigInteger),  # null: the setting max_user_storage_bytes
    Column("kind", String(10), nullable=False, default="person", server_default="person"),
    Column("state", String(10), nullable=False, default="open", server_default="open"),
)

authorized_keys = Table(  # whom the operator lets in: each the first key of the person it names
    "authorized_keys",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("public_key", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("publish_namespaces", JSON, nullable=False),
    Column("expires_at", Text),
    Column("created_via", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("created_by", Text, nullable=False),
)

user_keys = Table(  # further signing keys of people; the first may be one of `authorized_keys`
    "user_keys",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("public_key", Text, nullable=False),
    Column("label", Text, nullable=False, default=""),
    Column("scopes", JSON(none_as_null=True)),  # null: whatever its person may
    Column("created_at", String(40), nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("expires_at", String(40)),
)

oidc_subjects = Table(  # which person of an OpenID provider is which user here
    "oidc_subjects",
    METADATA,
    Column("issuer", String(512), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("created_at", String(40), nullable=False),
    Column("last_at", String(40), nullable=False),
)

teams = Table(  # each is a row of `users` too, of kind team: it owns projects as people do
    "teams",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("title", Text, nullable=False, default=""),
    Column("created_at", String(40), nullable=False),
    Column("created_by", String(64), nullable=False),
)

team_members = Table(
    "team_members",
    METADATA,
    Column("team_id", String(64), primary_key=True),
    Column("user_id", String(64), primary_key=True, index=True),
    Column("role", String(10), nullable=False),
    Column("added_at", String(40), nullable=False),
    Column("added_by", String(64), nullable=False),
)

invitations = Table(  # a text that lets one person in, once: into a team, or into the node
    "invitations",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("team_id", String(64), index=True),  # null: into the node alone
    Column("role", String(10)),
    Column("email", Text, nullable=False, default=""),  # "": any person who has the text
    Column("created_at", String(40), nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("expires_at", String(40), nullable=False),
    Column("ended_at", String(40)),  # used, or revoked
    Column("used_by", String(64)),
)

page_sessions = Table(  # people who are signed in on pages; any server finds them
    "page_sessions",
    METADATA,
    Column("id_hash", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("key_id", String(64)),  # the API key that they typed; null: they came by OpenID
    Column("created_at_s", Double, nullable=False),
    Column("until_s", Double, nullable=False, index=True),
    Column("owner", String(64)),  # the team whose projects they look at; null: their own
)

sign_ins = Table(  # sign-ins that are on their way, at a provider or at a person
    "sign_ins",
    METADATA,
    Column("id_hash", String(64), primary_key=True),  # of the state, or of the device code
    Column("kind", String(10), nullable=False),
    Column("user_code", String(16), unique=True),
    Column("facts", JSON(none_as_null=True)),
    Column("user_id", String(64)),  # who said yes
    Column("until_s", Double, nullable=False, index=True),
)

api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("key_prefix", String(16), nullable=False),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("scopes", JSON(none_as_null=True)),  # null: whatever its user may
    Column("created_at", String(40), nullable=False),
    Column("expires_at", String(40)),
    Column("revoked_at", String(40)),
    Column("last_used_at", String(40)),
    Column("role", String(10)),  # of a token of a team: what it may there, at most
    Column("created_by", String(64)),  # of a token of a team: the member who made it
)

request_nonces = Table(
    "request_nonces",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("nonce_hash", String(64), primary_key=True),
    Column("seen_at_s", Double, nullable=False, index=True),
)

project_refs = Table(
    "project_refs",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("remote_name", String(64), primary_key=True),
    Column("project_path", String(1024), primary_key=True),
    Column("project_manifest_hash", String(64), nullable=False),
    Column("user_manifest_hash", String(64)),
    Column("system_version", Text, nullable=False, default=""),
    Column("pushed_at", String(40)),
    Column("snapshot_hash", String(64), nullable=False),
    Column("snapshot_revision", BigInteger, nullable=False),
    Column("head_updated_at", String(40), nullable=False),
)

user_space_refs = Table(
    "user_space_refs",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("remote_name", String(64), primary_key=True),
    Column("user_manifest_hash", String(64), nullable=False),
    Column("snapshot_revision", BigInteger, nullable=False),
    Column("pushed_at", String(40), nullable=False),
)

threads = Table(
    "threads",
    METADATA,
    Column("thread_id", String(300), primary_key=True),
    Column("user_id", String(64), nullable=False),
    Column("started_by", String(64)),  # of a run of a team: the member; null: the user itself
    Column("item_type", String(40), nullable=False),
    Column("item_id", Text, nullable=False),
    Column("execution_mode", String(40), nullable=False, default="remote"),
    Column("remote_name", String(64), nullable=False),
    Column("project_path", String(1024), nullable=False),
    Column("project_manifest_hash", String(64)),
    Column("user_manifest_hash", String(64)),
    Column("system_version", Text, nullable=False, default=""),
    Column("state", String(20), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("started_at", String(40)),
    Column("completed_at", String(40)),
    Column("snapshot_hash", String(64)),
    Column("execution_snapshot_hash", String(64)),
    Column("runtime_outputs_bundle_hash", String(64)),
    Column("merge_type", String(40)),
    Column("merge_conflicts", JSON(none_as_null=True)),  # of many the first ones, by path
    Column("merge_conflict_count", Integer),
    Column("unmerged_snapshot_hash", String(64)),
    Column("error_message", Text),
    Column("error_phase", String(40)),
    Column("result_hash", String(64)),
    Column("is_async", Boolean, nullable=False, default=False),
    Column("job", JSON(none_as_null=True)),  # of one that is to be started; its parameters sealed
    Column("job_secrets", LargeBinary),  # its envelope, sealed to the node; gone once it ended
    Column("lease_until_s", Double),  # a row whose lease ran out belongs to no server
    Column("worker_pid", BigInteger),
    Column("server_id", String(64)),
    Column("hook_id", String(64)),
    Column("attempt", Integer, nullable=False, server_default="0"),  # grows when a process takes it
    # Taken, and no process of its item was started: whatever the item says, it may be taken again.
    Column("preparing", Boolean, nullable=False, server_default=sqlalchemy.false()),
    # As its item says.
    Column("retryable", Boolean, nullable=False, server_default=sqlalchemy.false()),
    Column("cancelled_by", String(64)),  # who asked for its end, before it has ended
    Column("warnings", JSON(none_as_null=True)),
    Column("log_bytes", BigInteger, nullable=False, server_default="0"),
    Column("given", JSON(none_as_null=True)),  # parameters, secret ones left out; also when over
    Column("answer", JSON(none_as_null=True)),  # for a caller on another machine; gone once read
    Index("threads_by_user", "user_id", "remote_name", "created_at"),
    Index("threads_by_state", "state"),
)

queue_turns = Table(  # the turn behind the last one of a user, in the queue of many machines
    "queue_turns",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("priority", Integer, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, nullable=False, index=True),
)

rates = Table(  # how often a caller may still do something, on all servers of a cluster
    "rates",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("tokens", Double, nullable=False),
    Column("is_allowed", Boolean, nullable=False),
    Column("since_s", Double, nullable=False),
)

queue_workers = Table(  # the workers of many machines, as they say themselves now and then
    "queue_workers",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("places", Integer, nullable=False),
    Column("seen_at_s", Double, nullable=False),
)

thread_logs = Table(  # what programs of an execution wrote, in pieces, secrets masked
    "thread_logs",
    METADATA,
    Column("thread_id", String(300), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("stream", String(10), nullable=False),
    Column("text", Text, nullable=False),
    Column("written_at", String(40), nullable=False),
)

thread_spending = Table(  # what threads of models cost an owner, reserved before they begin
    "thread_spending",
    METADATA,
    Column("owner", String(64), primary_key=True),  # a user, a member of a team, a team
    Column("thread_id", String(300), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("day", String(10), nullable=False),  # in UTC
    Column("amount", BigInteger, nullable=False),  # nano-dollars: reserved, then spent
    Index("thread_spending_by_day", "owner", "day"),
)

audit = Table(  # who changed what may be done here: keys, accounts, secrets, hooks, limits
    "audit",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("at", String(40), nullable=False),
    Column("actor", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Column("action", String(40), nullable=False),
    Column("target", String(300), nullable=False),
    Column("details", JSON(none_as_null=True)),
    Index("audit_by_time", "at"),
    Index("audit_by_actor", "actor", "at"),
)

sweeps = Table(  # each collection of garbage over all stores, for any caller
    "sweeps",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("started_at", String(40), nullable=False),
    Column("took_s", Double, nullable=False),
    Column("started_by", String(64), nullable=False),
    Column("stores", Integer, nullable=False),
    Column("removed", BigInteger, nullable=False),
    Column("freed_bytes", BigInteger, nullable=False),
    Column("kept", BigInteger, nullable=False),
    Column("forgotten", BigInteger, nullable=False),
    Column("left_alone", JSON(none_as_null=True)),  # stores that were not swept, the first ones
    Column("left_alone_count", Integer, nullable=False),
)

accepted_losses = (
    Table(  # content that is gone for good, as an operator said: no sweep waits for it
        "accepted_losses",
        METADATA,
        Column("user_id", String(64), primary_key=True),
        Column("digest", String(64), primary_key=True),
        Column("space", String(10), nullable=False),
        Column("root", Text, nullable=False),
        Column("accepted_at", String(40), nullable=False),
        Column("accepted_by", String(64), nullable=False),
    )
)

user_secrets = Table(
    "user_secrets",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("envelope", JSON, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("updated_at", String(40), nullable=False),
)

webhook_bindings = Table(
    "webhook_bindings",
    METADATA,
    Column("hook_id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("remote_name", String(64), nullable=False),
    Column("item_type", String(40), nullable=False),
    Column("item_id", Text, nullable=False),
    Column("project_path", String(1024), nullable=False),
    Column("hmac_secret", JSON, nullable=False),  # sealed to the node
    Column("description", Text, nullable=False, default=""),
    Column("secret_envelope", JSON(none_as_null=True)),
    Column("vault_keys", JSON, nullable=False),
    Column("owner", Text, nullable=False, default=""),
    Column("created_at", String(40), nullable=False),
    Column("revoked_at", String(40)),
)

webhook_deliveries_replay = Table(
    "webhook_deliveries_replay",
    METADATA,
    Column("hook_id", String(64), primary_key=True),
    Column("delivery_id", String(256), primary_key=True),
    Column("received_at_s", Double, nullable=False, index=True),
)

uploads_in_flight = Table(
    "uploads_in_flight",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("started_at_s", Double, nullable=False),
    Column("lease_until_s", Double, nullable=False),
)

published_manifests = Table(  # what a registry names in the stores of users: no sweep takes it
    "published_manifests",
    METADATA,
    Column("kind", String(20), primary_key=True),
    Column("item_id", String(256), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("namespace", String(64), nullable=False, index=True),
    Column("manifest_hash", String(64), nullable=False),
    Column("published_at", String(40), nullable=False),
)


# --- times ----------------------------------------------------------------------------------------
# Rows as values.

_Shape = TypeVar("_Shape")


def from_row(shape: type[_Shape], row: RowMapping | Mapping[str, Any] | Row[Any]) -> _Shape:
    """The value in the columns of a row, as `lillux.shapes` reads it.

    Raises KeyError where a column was not asked for: no default stands for one.
    """
    columns: Mapping[Any, Any] = row._mapping if isinstance(row, Row) else row  # noqa: SLF001 - SQLAlchemy's
    for one in members(shape):
        if one.key not in columns:
            raise KeyError(one.key)
    return read(shape, columns, _wrong_column)


def _wrong_column(column: str, expected: str, value: object) -> TypeError:
    return TypeError(f"column {column}: expected {expected}, found {type(value).__name__}")


# Times as texts whose order is their order in time: ``2026-11-21T05:58:37.376747+00:00``.


def stamp(at: datetime) -> str:
    """A time in UTC as text, with microseconds even where they are zero."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
