"""The authorised keys, which were files of the folder of settings before.

The files become rows where the node is opened: only there the node's own key is known, which has
signed them (`rye_services.authorized_files`). A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0009", "0008"


def upgrade() -> None:
    """Make the table and the column."""
    op.create_table(
        "authorized_keys",
        sa.Column("fingerprint", sa.String(16), primary_key=True),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("publish_namespaces", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.Text()),
        sa.Column("created_via", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
    )
    op.add_column("node_identity", sa.Column("keys_taken_over_at", sa.String(40)))
