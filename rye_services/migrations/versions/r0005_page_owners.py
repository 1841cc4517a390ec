"""Whose projects a session of the pages shows: those of a team, or of the person themselves.

A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    """Make the column."""
    op.add_column("page_sessions", sa.Column("owner", sa.String(64)))
