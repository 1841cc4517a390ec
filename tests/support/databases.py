"""The databases of tests: SQLite, or PostgreSQL with ``RYE_TEST_DATABASE=postgresql``.

A test takes the address of its database from `database_url`, which is the same for the same
folder. PostgreSQL is a cluster of the process's own below ``build``, started when it is first
needed; it ends with the process, however that ends.
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
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest

from rye_services.database import Database
from ryeos.items.context import Clock
from tests.support.programs import require_program
from tests.support.workspace import ROOT

KINDS = ("sqlite", "postgresql")
_VARIABLE = "RYE_TEST_DATABASE"
_DEBIAN = "/usr/lib/postgresql"
# Nothing of a test has to survive a power cut.
_SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=300",
    "listen_addresses=",
    "autovacuum=off",
)
_made: list[Database] = []
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def kind_of_database() -> str:
    """What tests run on where they do not say."""
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
    return f"{_cluster()}&options=-csearch_path%3D{schema}"


def made_database(folder: Path, clock: Clock | None = None, kind: str = "") -> Database:
    """The database of a folder, with its tables."""
    database = Database(database_url(folder, kind), clock)
    _made.append(database)
    database.make_tables()
    return database


@pytest.fixture(autouse=True)
def databases_are_closed() -> Iterator[None]:
    """Close what `made_database` gave to a test."""
    yield
    while _made:
        _made.pop().close()


def database_environ(folder: Path) -> Mapping[str, str]:
    """The variables with which a node finds the database of its folder."""
    if kind_of_database() == "sqlite":
        return {}
    return {"RYE_NODE_DATABASE_URL": database_url(folder)}


# --- PostgreSQL -----------------------------------------------------------------------------------


@cache
def _cluster() -> str:
    """The address of the cluster of this process."""
    programs = _programs()
    owner = _owner()
    folder = _folder(owner)
    _run(
        [
            programs / "initdb",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "-U",
            "rye",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ],
        owner,
    )
    options = [word for setting in _SETTINGS for word in ("-c", setting)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", "-k", folder, *options],
            user=owner,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one call to the system
        )
    atexit.register(_stop, server, folder)
    _run([programs / "pg_isready", "-q", "-h", folder, "-t", "30"], owner, tries=600)
    return f"postgresql+psycopg://rye@/postgres?host={folder}"


def _programs() -> Path:
    """The folder of PostgreSQL's programs; the test skips where there are none."""
    versions = sorted(Path(_DEBIAN).glob("*/bin"), key=lambda path: int(path.parent.name))
    if versions:
        return versions[-1]
    return Path(require_program("postgres")).parent


def _owner() -> str | None:
    """Who the server runs as: it refuses to be root's."""
    if os.geteuid():
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _folder(owner: str | None) -> Path:
    """An empty folder below ``build``; a socket's address is short, so perhaps elsewhere."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="pg", dir=build))
    is_open = all(parent.stat().st_mode & 0o001 for parent in folder.parents)
    if len(str(folder)) > 80 or (owner and not is_open):
        folder.rmdir()
        folder = Path(mkdtemp(prefix="rye-pg"))
    if owner:
        shutil.chown(folder, owner)
    return folder


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGQUIT)


def _run(command: list[object], owner: str | None, tries: int = 1) -> None:
    for attempt in range(tries):
        ended = subprocess.run(
            [str(word) for word in command], user=owner, capture_output=True, check=False
        )
        if not ended.returncode:
            return
        if attempt < tries - 1:
            time.sleep(0.05)
    raise RuntimeError(f"{command[0]}: {ended.stderr.decode(errors='replace')}")


def _stop(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.send_signal(signal.SIGQUIT)
    server.wait(30)
    shutil.rmtree(folder, ignore_errors=True)


def _execute(statement: str) -> None:
    import psycopg

    plain = _cluster().replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(statement)
