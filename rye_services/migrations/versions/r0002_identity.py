"""The id of the node in its database, and a number for each time that an execution is begun.

A file of its own, as each version is. Programs of version 0.1 refuse tables of a version that they
do not know: they are told of one.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"

_FOREIGN_VERSION = 3


def upgrade() -> None:
    """Make the table and the column."""
    op.create_table(
        "node_identity",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.add_column("threads", sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"))
    for name in ("schema_versions", "registry_schema_versions"):
        op.execute(f"DELETE FROM {name}")  # noqa: S608 - our own names
        op.execute(f"INSERT INTO {name} (version) VALUES ({_FOREIGN_VERSION})")  # noqa: S608
