"""Versions of the tables, one file each below ``versions``: the door of Alembic.

A package of its own because Alembic reads a folder of scripts, and is imported only where the
tables are not those of this version (ADR 0022).
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

_HEAD = "head"


def known_revisions() -> tuple[str, ...]:
    """The versions that this program knows, the newest first."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest version, in the transaction of the connection.

    Raises SQLAlchemyError.
    """
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, _HEAD)


def _config() -> Config:
    config = Config()
    # A blank or a percent sign of the path is no syntax to an option that is set so.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
