"""The first version: the tables of a new database, made whole by `rye_services.storage.migrations`.

What changes a table after it is a file beside this one, with the next number. A file of its own,
as each version is.
"""

revision, down_revision = "1", None


def upgrade() -> None:
    """Nothing: no database is older."""
