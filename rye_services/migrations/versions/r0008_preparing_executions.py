"""Which executions a worker has taken, and not begun: they may always be taken again.

A file of its own, as each version is.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0008", "0007"


def upgrade() -> None:
    """Make the column; what runs meanwhile counts as begun."""
    preparing = ("preparing", sa.Boolean())
    op.add_column("threads", sa.Column(*preparing, nullable=False, server_default=sa.false()))
