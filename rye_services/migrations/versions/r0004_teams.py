"""People with several keys, teams, invitations, sign-in by OpenID Connect, sessions.

What is there stays as it is: each user becomes a person whose one key is the one that they had.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    """Make the tables and the columns."""
    for name, default in (("kind", "person"), ("state", "open")):
        column = sa.Column(name, sa.String(10), nullable=False, server_default=default)
        op.add_column("users", column)
    op.add_column("threads", sa.Column("started_by", sa.String(64)))
    op.add_column("api_keys", sa.Column("role", sa.String(10)))
    op.add_column("api_keys", sa.Column("created_by", sa.String(64)))
    _people()
    _teams()
    _sign_in()


def _people() -> None:
    op.create_table(
        "user_keys",
        sa.Column("fingerprint", sa.String(16), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.String(40)),
    )
    op.create_index("ix_user_keys_user_id", "user_keys", ["user_id"])
    op.create_table(
        "oidc_subjects",
        sa.Column("issuer", sa.String(512), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("last_at", sa.String(40), nullable=False),
    )
    op.create_index("ix_oidc_subjects_user_id", "oidc_subjects", ["user_id"])


def _teams() -> None:
    op.create_table(
        "teams",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
    )
    op.create_table(
        "team_members",
        sa.Column("team_id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
        sa.Column("added_by", sa.String(64), nullable=False),
    )
    op.create_index("ix_team_members_user_id", "team_members", ["user_id"])
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("team_id", sa.String(64)),
        sa.Column("role", sa.String(10)),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.Column("ended_at", sa.String(40)),
        sa.Column("used_by", sa.String(64)),
    )
    op.create_index("ix_invitations_team_id", "invitations", ["team_id"])


def _sign_in() -> None:
    op.create_table(
        "page_sessions",
        sa.Column("id_hash", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(64)),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
    )
    op.create_table(
        "sign_ins",
        sa.Column("id_hash", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("user_code", sa.String(16), unique=True),
        sa.Column("facts", sa.JSON(none_as_null=True)),
        sa.Column("user_id", sa.String(64)),
        sa.Column("until_s", sa.Double(), nullable=False),
    )
    for table, columns in (
        ("page_sessions", ("user_id", "until_s")),
        ("sign_ins", ("until_s",)),
    ):
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column])
