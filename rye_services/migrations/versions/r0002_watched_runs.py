"""The id of the node in its database; executions that are watched; an audit; quotas of users.

A file of its own, as each version is. Programs of version 0.1 refuse tables of a version that they
do not know: they learn of one.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"

_FOREIGN_VERSION = 3
_THREADS: tuple[sa.Column[Any], ...] = (
    sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("retryable", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.Column("cancelled_by", sa.String(64)),
    sa.Column("warnings", sa.JSON(none_as_null=True)),
    sa.Column("log_bytes", sa.BigInteger(), nullable=False, server_default="0"),
)


def upgrade() -> None:
    """Make the tables and the columns."""
    op.create_table(
        "node_identity",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    for column in _THREADS:
        op.add_column("threads", column)
    op.create_table(
        "thread_logs",
        sa.Column("thread_id", sa.String(300), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("stream", sa.String(10), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("written_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("target", sa.String(300), nullable=False),
        sa.Column("details", sa.JSON(none_as_null=True)),
    )
    op.create_index("audit_by_time", "audit", ["at"])
    op.create_index("audit_by_actor", "audit", ["actor", "at"])
    op.add_column("users", sa.Column("quota_bytes", sa.BigInteger()))
    for name in ("schema_versions", "registry_schema_versions"):
        op.execute(f"DELETE FROM {name}")  # noqa: S608 - our own names
        op.execute(f"INSERT INTO {name} (version) VALUES ({_FOREIGN_VERSION})")  # noqa: S608
