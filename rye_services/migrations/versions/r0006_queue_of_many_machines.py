"""Many machines: turns and workers of their queue, rates, and answers for callers elsewhere.

A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    """Make the tables and the columns."""
    op.create_table(
        "queue_turns",
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("priority", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_queue_turns_turn", "queue_turns", ["turn"])
    op.create_table(
        "queue_workers",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("places", sa.Integer(), nullable=False),
        sa.Column("seen_at_s", sa.Double(), nullable=False),
    )
    op.create_table(
        "rates",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("tokens", sa.Double(), nullable=False),
        sa.Column("is_allowed", sa.Boolean(), nullable=False),
        sa.Column("since_s", sa.Double(), nullable=False),
    )
    op.add_column("node_identity", sa.Column("public_key", sa.Text()))
    op.add_column("threads", sa.Column("answer", sa.JSON(none_as_null=True)))
