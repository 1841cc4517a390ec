"""The databases of tests: SQLite, or PostgreSQL with ``RYE_TEST_DATABASE=postgresql``.

A test takes the address of its database from `database_url`, which is the same for the same
folder. PostgreSQL is a cluster of the process's own, started when it is first needed; it ends with
the process, however that ends.
"""

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

import pytest

from rye_services.storage.database import Database
from rye_services.storage.migrations import make_tables
from ryeos.items.context import Clock
from tests.support.programs import require_program

if TYPE_CHECKING:
    import psycopg

KINDS = ("sqlite", "postgresql")
_VARIABLE = "RYE_TEST_DATABASE"
IMPATIENT = "SET idle_in_transaction_session_timeout = '2s'"
"""In place of `RELEASE_IDLE`: whatever waits longer in the middle of a transaction fails."""

_DEBIAN = "/usr/lib/postgresql"
# Nothing of a test has to survive a power cut.
_SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=300",
    "listen_addresses=",
    "autovacuum=off",
    "max_wal_size=256MB",
)
_MODEL = "model_of_new_tables"
_made: list[Database] = []
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def kind_of_database() -> str:
    """The default database of tests."""
    return os.environ.get(_VARIABLE, KINDS[0])


on_sqlite_alone = pytest.mark.skipif(
    kind_of_database() != "sqlite", reason="this is about the file of SQLite"
)


def database_url(folder: Path, kind: str = "") -> str:
    """The address of the database of a folder; one of PostgreSQL is there, and empty at first."""
    if (kind or kind_of_database()) == "sqlite":
        return f"sqlite:///{folder / 'node.db'}"
    schema = f"t{sha256(os.fsencode(folder)).hexdigest()[:24]}"
    _execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return _schema_url(schema)


def made_database(folder: Path, clock: Clock | None = None, kind: str = "") -> Database:
    """The database of a folder, with its tables."""
    database = Database(give_tables(folder, kind), clock)
    _made.append(database)
    make_tables(database)
    return database


def give_tables(folder: Path, kind: str = "") -> str:
    """Copy the tables of a first start into the database of a folder, and give its address.

    A database that has tables keeps them.
    """
    url = database_url(folder, kind)
    if url.startswith("sqlite:"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / "node.db").exists():
            (folder / "node.db").touch(mode=0o600)
            (folder / "node.db").write_bytes(_new_sqlite())
    else:
        schema = url.rpartition("%3D")[2]
        table = f"{schema}.alembic_version"
        with _connection() as connection:
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                connection.execute(_new_schema().replace(_MODEL, schema))
    return url


@cache
def _new_sqlite() -> bytes:
    """The file of a new database: to apply the versions takes 0.15 s each time."""
    with TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/node.db")
        make_tables(database)
        database.close()
        return Path(folder, "node.db").read_bytes()


@cache
def _new_schema() -> str:
    """The statements that make the tables of a schema, whose name in them is `_MODEL`."""
    _execute(f"CREATE SCHEMA {_MODEL}")
    database = Database(_schema_url(_MODEL))
    make_tables(database)
    database.close()
    options = ("--inserts", "--no-owner", "--schema", _MODEL, "--dbname", _plain_url())
    dumped = subprocess.run(
        [programs() / "pg_dump", *options], user=_owner(), capture_output=True, check=True
    )
    lines = dumped.stdout.decode().splitlines()
    made = f"CREATE SCHEMA {_MODEL};"
    assert made in lines
    # A line with a backslash is for the program psql alone.
    return "\n".join(line for line in lines if line != made and not line.startswith("\\"))


@pytest.fixture(autouse=True)
def databases_are_closed() -> Iterator[None]:
    """Close the databases of `made_database`."""
    yield
    while _made:
        _made.pop().close()


def database_environ(folder: Path) -> Mapping[str, str]:
    """The variables with which a node finds the database of its folder."""
    if kind_of_database() == "sqlite":
        return {}
    return {"RYE_NODE_DATABASE_URL": database_url(folder)}


# --- PostgreSQL -----------------------------------------------------------------------------------


class Cluster:
    """A server of PostgreSQL with a folder of its own. It is not started yet."""

    def __init__(self, settings: Sequence[str]) -> None:
        self._programs, self._owner = programs(), _owner()
        self.folder = _folder(self._owner)
        self._options = [word for setting in settings for word in ("-c", setting)]
        self._server: subprocess.Popen[bytes] | None = None
        made = ("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "rye", "--no-sync")
        self._run(*made, "-E", "UTF8", "--locale=C")

    @property
    def url(self) -> str:
        """The address of its one database."""
        return f"postgresql+psycopg://rye@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start it; it answers when this returns."""
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder),
                    *self._options,
                ],
                user=self._owner,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one call to the system
            )
        self._run("pg_isready", "-q", "-h", self.folder, "-t", "30", tries=600)

    def stop(self) -> None:
        """End it at once like a crash: unwritten data is lost."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(30)
            self._server = None

    def kill(self) -> None:
        """End all its processes as a power cut does."""
        assert self._server is not None
        # Stopped first, so that it starts no other while its processes are killed one by one.
        self._server.send_signal(signal.SIGSTOP)
        children = children_of(self._server.pid)
        for pid in (*children, self._server.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._server.wait(30)
        self._server = None
        while any(Path("/proc", str(pid)).exists() for pid in children):
            time.sleep(0.005)

    def remove(self) -> None:
        """End it, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object, tries: int = 1) -> None:
        command = [str(word) for word in (self._programs / program, *arguments)]
        for attempt in range(tries):
            ended = subprocess.run(command, user=self._owner, capture_output=True, check=False)
            if not ended.returncode:
                return
            if attempt < tries - 1:
                time.sleep(0.05)
        raise RuntimeError(f"{program}: {ended.stderr.decode(errors='replace')}")


def children_of(pid: int) -> list[int]:
    """The processes that a process of Linux has started and that have not ended."""
    found: list[int] = []
    for path in Path("/proc", str(pid), "task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text(encoding="ascii").split())
    return found


@contextmanager
def mortal_cluster() -> Iterator[Cluster]:
    """A server that forces to the disk what it commits, for a test that kills it."""
    cluster = Cluster(("max_connections=300", "listen_addresses="))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """A server that a test may stop and start; it keeps what it said that it had written."""
    kept = [setting for setting in _SETTINGS if not setting.startswith("synchronous_commit")]
    cluster = Cluster(kept)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@cache
def _cluster() -> str:
    """The address of the cluster of this process."""
    cluster = Cluster(_SETTINGS)
    atexit.register(cluster.remove)
    cluster.start()
    return cluster.url


def programs() -> Path:
    """The folder of PostgreSQL's programs; the test skips where there are none."""
    versions = sorted(Path(_DEBIAN).glob("*/bin"), key=lambda path: int(path.parent.name))
    if versions:
        return versions[-1]
    return Path(require_program("postgres")).parent


def _owner() -> str | None:
    """The user of the server, which refuses to run as root."""
    if os.geteuid():
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _folder(owner: str | None) -> Path:
    """An empty folder of the server's own, where temporary files are: ``scripts/test`` has memory.

    Tables of a test are 130 files, which a disk takes three times as long to make.
    """
    folder = Path(mkdtemp(prefix="rye-pg"))
    if owner:
        shutil.chown(folder, owner)
    return folder


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGQUIT)


def _schema_url(schema: str) -> str:
    return f"{_cluster()}&options=-csearch_path%3D{schema}"


def _plain_url() -> str:
    return _cluster().replace("+psycopg", "")


def _execute(statement: str) -> None:
    with _connection() as connection:
        connection.execute(statement)


def _connection() -> "psycopg.Connection":
    import psycopg

    return psycopg.connect(_plain_url(), autocommit=True)
