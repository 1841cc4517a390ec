"""The data folder of a node, and the database that belongs to it: ``node.toml``.

A node's files and its tables are one whole: a sweep takes from the files what the tables do not
name. Commands open the tables by `open_database`, which refuses those of another node,
and an empty database where there should be one. Rules and format: ``docs/node.md``, Data.
"""

import json
import os
from pathlib import Path
from secrets import token_hex
from shlex import quote

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from rye_services.settings import Settings, setting_error
from rye_services.storage.database import (
    REVISION,
    Database,
    database_error,
    node_identity,
    project_refs,
    stamp,
)
from ryeos.items.errors import RyeError

_NAME = "node.toml"
_MAX_BYTES = 64 * 1024
_HINT = "name a folder of your own: --data DIR, or RYE_NODE_DATA_DIR"
_ABOUT = "# Which database belongs to the files of this node. Written by rye-node.pyz."
_NODE = sqlalchemy.select(node_identity.c.id)
_SECRET_OPTIONS = ("password", "passfile", "sslpassword", "user")


def wrong_database(folder: Path, expected: str, found: str, *, hint: str) -> RyeError:
    """The error of a database that is not the one that belongs to the data folder."""
    return RyeError(
        f"{folder}: expected {expected}, found {found}", code="WRONG_DATABASE", hint=hint
    )


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What ``node.toml`` says: the id of the node, and the address of its database."""

    node: str
    database: str


# --- folders --------------------------------------------------------------------------------------


def require_data(settings: Settings) -> Settings:
    """The settings, whose node has data already.

    Raises RyeError `ITEM_NOT_FOUND`, `CONFIG_ERROR` for a file.
    """
    _require_folder(settings.data_dir)
    places = (settings.signing_key_dir, settings.cas_base_path, settings.data_dir / "node.db")
    if not any(place.exists() for place in places) and _is_sqlite_below(settings):
        raise RyeError(
            f"{settings.data_dir}: expected the data of a node, found none",
            code="ITEM_NOT_FOUND",
            hint="name the folder that the node is served with: --data DIR",
        )
    return settings


def make_data(settings: Settings) -> Settings:
    """The settings, whose data folder is there and can be written to.

    Raises RyeError `CONFIG_ERROR`.
    """
    _require_folder(settings.data_dir)
    try:
        make_directory(settings.data_dir, mode=0o700)
    except LilluxError as error:
        raise setting_error("data folder", str(error), hint=_HINT) from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise setting_error("data folder", f"{settings.data_dir}: cannot be written to", hint=_HINT)
    return settings


def _require_folder(path: Path) -> None:
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 - of any text
        raise setting_error("data folder", f"{path}: expected a folder, found a file", hint=_HINT)


def _is_sqlite_below(settings: Settings) -> bool:
    """Whether the database is the one that lies in the data folder, where none was named."""
    return settings.database_url == f"sqlite:///{settings.data_dir / 'node.db'}"


def has_database(settings: Settings) -> bool:
    """Whether the folder says which database is its own: not before `init` or the first start."""
    return (settings.data_dir / _NAME).exists()


# --- the database ---------------------------------------------------------------------------------


def open_database(settings: Settings, *, make: bool = False) -> Database:
    """The database that belongs to the data folder, with the tables of this version.

    (1) its address is the one that ``node.toml`` says
    (2) it is there, or ``make`` says that it may be made, and no files are there that want one
    (3) its tables are of this version, or are brought to it where ``make`` says so
    (4) its id is the one that ``node.toml`` says; without ``node.toml`` both are written

    Raises RyeError `WRONG_DATABASE`, `CONFIG_ERROR`, `ITEM_NOT_FOUND` for a database that is not
    there.
    """
    folder, said = settings.data_dir, _read(settings.data_dir)
    address = address_of(settings.database_url, folder)
    if said and said.database != address:  # (1)
        raise wrong_database(
            folder,
            f"the database {said.database}",
            f"the setting {address}",
            hint=f"set DATABASE_URL to that of {said.database}, as the server has it",
        )
    database = Database(settings.database_url)
    try:
        _open(database, settings, said, address, make=make)
    except BaseException:
        database.close()
        raise
    return database


def _open(
    database: Database, settings: Settings, said: NodeRecord | None, address: str, *, make: bool
) -> None:
    folder, found = settings.data_dir, database.revision()
    init = f"rye-node.pyz init --data {quote(str(folder))}"
    if not found:  # (2)
        _require_nothing_lost(settings, said, address)
    elif said is None:
        _require_own_stores(database, settings)
    if not make and (not found or said is None):
        wanted = f"{_NAME}, which names its database" if found else f"the database {address}"
        raise RyeError(
            f"{folder}: expected {wanted}, found none",
            code="ITEM_NOT_FOUND",
            hint=f"make it: {init}",
        )
    if not make and found != REVISION:  # (3)
        raise database_error(
            database.shown,
            f"expected tables of version {REVISION}, found version {found}",
            hint=f"bring them to this version with: {init}",
        )
    node = _node_of(database) if said and found == REVISION else _make_tables(database, said)
    if said is None:  # (4)
        _write(folder, NodeRecord(node, address))
    elif said.node != node:
        raise wrong_database(
            folder,
            f"the database of node {said.node}",
            f"that of node {node or 'without an id'}",
            hint=f"name the database of this folder, or the folder of {address}",
        )


def _require_nothing_lost(settings: Settings, said: NodeRecord | None, address: str) -> None:
    """An empty database is right for an empty folder only."""
    folder = settings.data_dir
    if said:
        raise wrong_database(
            folder,
            f"the database of node {said.node}",
            f"none at {address}",
            hint="restore it from a backup; to begin anew, name an empty folder",
        )
    if any(settings.cas_base_path.glob("*/.ai")):
        raise wrong_database(
            folder,
            "the database of the stores that are here",
            f"none at {address}",
            hint="set DATABASE_URL as the server has it",
        )


def _require_own_stores(database: Database, settings: Settings) -> None:
    """A folder that says nothing yet may have a database whose projects lie in it."""
    with database.reading() as connection:
        if connection.scalar(sqlalchemy.select(node_identity.c.store)):
            return  # they lie in object storage, which says itself whose they are
        users = connection.scalars(sqlalchemy.select(project_refs.c.user_id).distinct()).all()
    lost = sorted(user for user in users if not (settings.cas_base_path / user / ".ai").is_dir())
    if lost:
        raise wrong_database(
            settings.data_dir,
            f"the stores of the {len(users)} users of its database",
            f"none of {lost[0]}"
            if len(lost) == 1
            else f"none of {lost[0]} and {len(lost) - 1} more",
            hint="name the folder of this database: --data DIR",
        )


def _node_of(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.scalar(_NODE) or "")


def _make_tables(database: Database, said: NodeRecord | None) -> str:
    """Make or change the tables, in one transaction with the id; that of the first process."""
    from rye_services.storage.migrations import make_tables

    made = said.node if said else token_hex(16)

    def identify(connection: Connection) -> None:
        if connection.scalar(_NODE) is None:
            values = {"id": made, "created_at": stamp(database.now(connection))}
            connection.execute(node_identity.insert().values(values))

    make_tables(database, identify)
    return _node_of(database)


def name_database(folder: Path, node: str, url: str) -> str:
    """Write that a folder is that of a node, with the database of a URL; its address."""
    address = address_of(url, folder)
    _write(folder, NodeRecord(node, address))
    return address


# --- node.toml ------------------------------------------------------------------------------------


def address_of(url: str, folder: Path) -> str:
    """Where a database is, without who opens it: a file below the folder by its name there.

    Raises RyeError `CONFIG_ERROR` for no URL.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        return Database(url).shown  # raises, and says why
    kind = parsed.get_backend_name()
    if kind == "sqlite" and parsed.database:
        path = Path(parsed.database).absolute()
        place = (
            path.relative_to(folder.absolute()) if path.is_relative_to(folder.absolute()) else path
        )
        return f"sqlite:///{place.as_posix()}"
    query = {name: value for name, value in parsed.query.items() if name not in _SECRET_OPTIONS}
    plain = URL.create(
        kind, host=parsed.host, port=parsed.port, database=parsed.database, query=query
    )
    return plain.render_as_string()


def _read(folder: Path) -> NodeRecord | None:
    """The values of ``node.toml``; None if it is missing. Raises RyeError if it is invalid."""
    import tomllib

    path = folder / _NAME
    try:
        values = tomllib.loads(read_bytes(path, _MAX_BYTES).decode())
        return NodeRecord(str(values["node"]), str(values["database"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, LilluxError) as error:
        raise setting_error(
            _NAME, f"{path}: expected node and database, found {error}", hint="restore the file"
        ) from error


def _write(folder: Path, belonging: NodeRecord) -> None:
    values = {"node": belonging.node, "database": belonging.database}
    # A text in JSON is one in TOML.
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    write_atomic(folder / _NAME, "\n".join((_ABOUT, *lines, "")).encode(), mode=0o600)
