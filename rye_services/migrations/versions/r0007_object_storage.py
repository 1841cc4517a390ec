"""Where the files of a node are, and what object storage holds.

A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    """Make the table and the columns."""
    for column in (
        sa.Column("store", sa.String(1100)),
        sa.Column("store_endpoint", sa.String(1100)),
        sa.Column("store_region", sa.String(64)),
    ):
        op.add_column("node_identity", column)
    op.create_table(
        "stored_contents",
        sa.Column("owner", sa.String(80), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("space", sa.String(6), primary_key=True),
        sa.Column("pack", sa.String(32), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("used_at_s", sa.Double(), nullable=False),
    )
    op.create_index("stored_contents_by_pack", "stored_contents", ["owner", "pack"])
