"""Parameters of executions, sweeps of the past, and losses that an operator accepted.

A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Make the tables and the column."""
    op.add_column("threads", sa.Column("given", sa.JSON(none_as_null=True)))
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("took_s", sa.Double(), nullable=False),
        sa.Column("started_by", sa.String(64), nullable=False),
        sa.Column("stores", sa.Integer(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=False),
        sa.Column("freed_bytes", sa.BigInteger(), nullable=False),
        sa.Column("kept", sa.BigInteger(), nullable=False),
        sa.Column("forgotten", sa.BigInteger(), nullable=False),
        sa.Column("left_alone", sa.JSON(none_as_null=True)),
        sa.Column("left_alone_count", sa.Integer(), nullable=False),
    )
    op.create_table(
        "accepted_losses",
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("space", sa.String(10), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("accepted_at", sa.String(40), nullable=False),
        sa.Column("accepted_by", sa.String(64), nullable=False),
    )
