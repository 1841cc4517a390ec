"""Versions of the tables, one file each below ``versions``: the door of Alembic.

A new database gets the tables as they are described in `rye_services.storage.database`, and the
newest version; one with tables is brought from its version to the newest. A package of its own
because Alembic reads a folder of scripts, and is imported only where the tables are not those of
this version (ADR 0022).
"""

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from rye_services.storage.database import METADATA, REVISION, Database, database_error
from rye_services.storage.registry_tables import METADATA as REGISTRY
from rye_services.storage.registry_tables import SEARCH_TABLES

_HEAD = "head"


def known_revisions() -> tuple[str, ...]:
    """The versions that this program knows, the newest first."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


def make_tables(database: Database, then: Callable[[Connection], None] = lambda _: None) -> None:
    """Make the tables, or bring them to this version; ``then`` is part of the same transaction.

    Of many that begin at once one does it. Raises RyeError `CONFIG_ERROR`: out of reach, made by a
    newer version, or before the first release; nothing is changed then.
    """

    def change(connection: Connection, found: str) -> None:
        if not found:
            _create(connection)
        elif found != REVISION:
            if found not in known_revisions():
                raise database_error(
                    database.shown,
                    f"expected tables of version {REVISION}, found version {found}",
                    hint="use the rye-node.pyz that made them, or another --data folder",
                )
            command.upgrade(_config(connection), _HEAD)
        then(connection)

    database.change_tables(change)


def _create(connection: Connection) -> None:
    for tables in (METADATA, REGISTRY):
        tables.create_all(connection, checkfirst=False)
    for statement in SEARCH_TABLES[connection.dialect.name]:
        connection.execute(text(statement))
    command.stamp(_config(connection), _HEAD)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    # A blank or a percent sign of the path is no syntax to an option that is set so.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
