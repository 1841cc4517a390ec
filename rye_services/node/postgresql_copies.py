"""Copies of a database of PostgreSQL, made and restored by its own programs.

A file of its own because it is the door of ``pg_dump`` and ``pg_restore``, which a node with SQLite
does not need.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from rye_services.database import Database
from ryeos.items.errors import RyeError

_DEBIAN = "/usr/lib/postgresql"
_MAX_SAID = 2000
# What a connection is opened with, and the variable in which the programs take it: not in their
# arguments, which every user of the machine sees.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "username": "PGUSER",
    "password": "PGPASSWORD",
    "database": "PGDATABASE",
}
_QUERY_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}


class ProgramError(RyeError):
    """A program of PostgreSQL is not here, or failed."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, program: str, problem: str, *, hint: str) -> None:
        self.program = program
        super().__init__(f"{program}: {problem}", hint=hint)


def copy_postgresql(
    connection: Connection, url: str, target: Path, environ: Mapping[str, str]
) -> str:
    """Write the tables, as this connection sees them, to a file; the name of their schema.

    The connection is in a transaction of one state, which the program shares. Raises ProgramError.
    """
    schema = str(connection.scalar(text("SELECT current_schema()")))
    snapshot = str(connection.scalar(text("SELECT pg_export_snapshot()")))
    words = ("--format=custom", f"--snapshot={snapshot}", f"--schema={quoted(schema)}")
    # The program makes its file readable for all users: it is there before.
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    _run("pg_dump", (*words, *_PLAIN, f"--file={target}"), url, environ)
    return schema


def restore_postgresql(url: str, source: Path, schema: str, environ: Mapping[str, str]) -> None:
    """Put tables into an empty database, all or nothing. Raises ProgramError, RyeError."""
    database = Database(url)
    try:
        with database.writing() as connection:
            quoted_schema = sqlalchemy.sql.quoted_name(schema, quote=True)
            connection.execute(sqlalchemy.schema.CreateSchema(quoted_schema, if_not_exists=True))
            found = connection.scalar(text("SELECT current_schema()"))
            tables = sqlalchemy.inspect(connection).get_table_names(schema=schema)
    except SQLAlchemyError as error:
        raise RyeError(
            f"database {database.shown}: {error.__class__.__name__}",
            code="CONFIG_ERROR",
            hint="is it there, and does its user own it?",
        ) from error
    finally:
        database.close()
    if found != schema:
        raise RyeError(
            f"database {database.shown}: expected the schema {schema}, found {found}",
            code="CONFIG_ERROR",
            hint=f"add to DATABASE_URL: options=-csearch_path%3D{schema}",
        )
    if tables:
        raise RyeError(
            f"database {database.shown}: expected an empty database, found the table {tables[0]}",
            code="CONFIG_ERROR",
            hint="nothing is written over: make another database, and set DATABASE_URL to it",
        )
    words = ("--exit-on-error", "--single-transaction", f"--schema={schema}", *_PLAIN)
    name = _variables(make_url(url)).get("PGDATABASE", "")
    _run("pg_restore", (*words, f"--dbname={name}", source), url, environ)


_PLAIN = ("--no-owner", "--no-privileges", "--no-password")


def quoted(schema: str) -> str:
    """A name as a pattern of ``pg_dump`` that means nothing else."""
    return '"' + schema.replace('"', '""') + '"'


def _run(program: str, words: Sequence[str | Path], url: str, environ: Mapping[str, str]) -> None:
    found = _found(program, environ)
    others = {name: value for name, value in environ.items() if not name.startswith("PG")}
    ended = subprocess.run(
        [found, *map(str, words)],
        env={**others, **_variables(make_url(url))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-_MAX_SAID:]
        raise ProgramError(
            program,
            f"ended with status {ended.returncode}: {said}",
            hint=f"{program} has to be of the version of the server, or newer",
        )


def _found(program: str, environ: Mapping[str, str]) -> str:
    """The newest one here. Raises ProgramError."""
    versions = sorted(
        (path for path in Path(_DEBIAN).glob(f"*/bin/{program}") if path.parts[-3].isdigit()),
        key=lambda path: int(path.parts[-3]),
    )
    found = str(versions[-1]) if versions else shutil.which(program, path=environ.get("PATH", ""))
    if not found:
        raise ProgramError(
            program,
            "expected this program of PostgreSQL, found none",
            hint="install its client programs, like postgresql-client of Debian",
        )
    return found


def _variables(url: URL) -> dict[str, str]:
    values = {variable: getattr(url, name) for name, variable in _VARIABLES.items()}
    for name, value in url.query.items():
        if name in _QUERY_VARIABLES:
            values[_QUERY_VARIABLES[name]] = value if isinstance(value, str) else ",".join(value)
    return {name: str(value) for name, value in values.items() if value}
