"""The tables as version 0.1 had them, where they are not there yet.

The first version that Alembic knows. A database that was made before has some of these tables, and
of the oldest of them one column is missing.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem

revision, down_revision = "0001", None

# As they were: what changed since is in the versions that follow, never here.
_TABLES: dict[str, list[SchemaItem]] = {
    "api_keys": [
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key_prefix", sa.String(16), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40)),
        sa.Column("revoked_at", sa.String(40)),
        sa.Column("last_used_at", sa.String(40)),
        sa.UniqueConstraint("key_hash"),
    ],
    "project_refs": [
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("remote_name", sa.String(64), primary_key=True),
        sa.Column("project_path", sa.String(1024), primary_key=True),
        sa.Column("project_manifest_hash", sa.String(64), nullable=False),
        sa.Column("user_manifest_hash", sa.String(64)),
        sa.Column("system_version", sa.Text(), nullable=False),
        sa.Column("pushed_at", sa.String(40)),
        sa.Column("snapshot_hash", sa.String(64), nullable=False),
        sa.Column("snapshot_revision", sa.BigInteger(), nullable=False),
        sa.Column("head_updated_at", sa.String(40), nullable=False),
    ],
    "published_manifests": [
        sa.Column("kind", sa.String(20), primary_key=True),
        sa.Column("item_id", sa.String(256), primary_key=True),
        sa.Column("version", sa.String(40), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("namespace", sa.String(64), nullable=False),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        sa.Column("published_at", sa.String(40), nullable=False),
    ],
    "request_nonces": [
        sa.Column("fingerprint", sa.String(16), primary_key=True),
        sa.Column("nonce_hash", sa.String(64), primary_key=True),
        sa.Column("seen_at_s", sa.Double(), nullable=False),
    ],
    "schema_versions": [
        sa.Column("version", sa.Integer(), primary_key=True),
    ],
    "threads": [
        sa.Column("thread_id", sa.String(300), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("item_type", sa.String(40), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("execution_mode", sa.String(40), nullable=False),
        sa.Column("remote_name", sa.String(64), nullable=False),
        sa.Column("project_path", sa.String(1024), nullable=False),
        sa.Column("project_manifest_hash", sa.String(64)),
        sa.Column("user_manifest_hash", sa.String(64)),
        sa.Column("system_version", sa.Text(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("started_at", sa.String(40)),
        sa.Column("completed_at", sa.String(40)),
        sa.Column("snapshot_hash", sa.String(64)),
        sa.Column("execution_snapshot_hash", sa.String(64)),
        sa.Column("runtime_outputs_bundle_hash", sa.String(64)),
        sa.Column("merge_type", sa.String(40)),
        sa.Column("merge_conflicts", sa.JSON(none_as_null=True)),
        sa.Column("merge_conflict_count", sa.Integer()),
        sa.Column("unmerged_snapshot_hash", sa.String(64)),
        sa.Column("error_message", sa.Text()),
        sa.Column("error_phase", sa.String(40)),
        sa.Column("result_hash", sa.String(64)),
        sa.Column("is_async", sa.Boolean(), nullable=False),
        sa.Column("job", sa.JSON(none_as_null=True)),
        sa.Column("job_secrets", sa.LargeBinary()),
        sa.Column("lease_until_s", sa.Double()),
        sa.Column("worker_pid", sa.BigInteger()),
        sa.Column("server_id", sa.String(64)),
        sa.Column("hook_id", sa.String(64)),
    ],
    "uploads_in_flight": [
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("started_at_s", sa.Double(), nullable=False),
        sa.Column("lease_until_s", sa.Double(), nullable=False),
    ],
    "user_secrets": [
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(256), primary_key=True),
        sa.Column("envelope", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("updated_at", sa.String(40), nullable=False),
    ],
    "user_space_refs": [
        sa.Column("user_id", sa.String(64), primary_key=True),
        sa.Column("remote_name", sa.String(64), primary_key=True),
        sa.Column("user_manifest_hash", sa.String(64), nullable=False),
        sa.Column("snapshot_revision", sa.BigInteger(), nullable=False),
        sa.Column("pushed_at", sa.String(40), nullable=False),
    ],
    "users": [
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
    ],
    "webhook_bindings": [
        sa.Column("hook_id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("remote_name", sa.String(64), nullable=False),
        sa.Column("item_type", sa.String(40), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("project_path", sa.String(1024), nullable=False),
        sa.Column("hmac_secret", sa.JSON(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("secret_envelope", sa.JSON(none_as_null=True)),
        sa.Column("vault_keys", sa.JSON(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("revoked_at", sa.String(40)),
    ],
    "webhook_deliveries_replay": [
        sa.Column("hook_id", sa.String(64), primary_key=True),
        sa.Column("delivery_id", sa.String(256), primary_key=True),
        sa.Column("received_at_s", sa.Double(), nullable=False),
    ],
    "registry_account_keys": [
        sa.Column("fingerprint", sa.String(16), primary_key=True),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("public_pem", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
    ],
    "registry_accounts": [
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("folded", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("disabled_at", sa.String(40)),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("folded"),
    ],
    "registry_bundle_files": [
        sa.Column("bundle_id", sa.String(64), primary_key=True),
        sa.Column("version", sa.String(40), primary_key=True),
        sa.Column("path", sa.String(512), primary_key=True),
        sa.Column("blob_hash", sa.String(64), nullable=False),
        sa.Column("object_hash", sa.String(64), nullable=False),
        sa.Column("inline_signed", sa.Boolean(), nullable=False),
    ],
    "registry_bundles": [
        sa.Column("bundle_id", sa.String(64), primary_key=True),
        sa.Column("folded", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("visibility", sa.String(20), nullable=False),
        sa.Column("latest_version", sa.String(40)),
        sa.Column("download_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("updated_at", sa.String(40), nullable=False),
        sa.UniqueConstraint("folded"),
    ],
    "registry_identities": [
        sa.Column("fingerprint", sa.String(16), primary_key=True),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("registered_at", sa.String(40), nullable=False),
    ],
    "registry_items": [
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("item_type", sa.String(20), nullable=False),
        sa.Column("item_id", sa.String(256), nullable=False),
        sa.Column("folded_id", sa.String(256), nullable=False),
        sa.Column("namespace", sa.String(64), nullable=False),
        sa.Column("category", sa.String(256), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("visibility", sa.String(20), nullable=False),
        sa.Column("latest_version", sa.String(40)),
        sa.Column("author", sa.String(64), nullable=False),
        sa.Column("download_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("updated_at", sa.String(40), nullable=False),
        sa.UniqueConstraint("item_type", "folded_id"),
    ],
    "registry_namespaces": [
        sa.Column("folded", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("claimed_at", sa.String(40), nullable=False),
        sa.Column("claim", sa.JSON(none_as_null=True)),
    ],
    "registry_schema_versions": [
        sa.Column("version", sa.Integer(), primary_key=True),
    ],
    "registry_bundle_versions": [
        sa.Column(
            "bundle_id",
            sa.String(64),
            sa.ForeignKey("registry_bundles.bundle_id"),
            primary_key=True,
        ),
        sa.Column("version", sa.String(40), primary_key=True),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("author", sa.String(64), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("deleted_at", sa.String(40)),
    ],
    "registry_versions": [
        sa.Column("item", sa.Integer(), sa.ForeignKey("registry_items.id"), primary_key=True),
        sa.Column("version", sa.String(40), primary_key=True),
        sa.Column("suffix", sa.String(10), nullable=False),
        sa.Column("content", sa.Text()),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("author", sa.String(64), nullable=False),
        sa.Column("publisher", sa.String(16)),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("changelog", sa.Text(), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("deleted_at", sa.String(40)),
    ],
}
_INDEXES = (
    ("ix_api_keys_user_id", "api_keys", ["user_id"]),
    ("ix_published_manifests_namespace", "published_manifests", ["namespace"]),
    ("ix_published_manifests_user_id", "published_manifests", ["user_id"]),
    ("ix_request_nonces_seen_at_s", "request_nonces", ["seen_at_s"]),
    ("threads_by_state", "threads", ["state"]),
    ("threads_by_user", "threads", ["user_id", "remote_name", "created_at"]),
    ("ix_uploads_in_flight_user_id", "uploads_in_flight", ["user_id"]),
    ("ix_webhook_bindings_user_id", "webhook_bindings", ["user_id"]),
    ("ix_webhook_deliveries_replay_received_at_s", "webhook_deliveries_replay", ["received_at_s"]),
    ("ix_registry_account_keys_account", "registry_account_keys", ["account"]),
    ("ix_registry_bundle_files_blob_hash", "registry_bundle_files", ["blob_hash"]),
    ("ix_registry_bundles_owner", "registry_bundles", ["owner"]),
    ("registry_items_by_namespace", "registry_items", ["namespace"]),
    ("registry_items_by_time", "registry_items", ["visibility", "updated_at"]),
    ("ix_registry_namespaces_owner", "registry_namespaces", ["owner"]),
)

_SEARCH = {
    "sqlite": (
        """CREATE VIRTUAL TABLE IF NOT EXISTS registry_search USING fts5(
        name, place, title, description, body, facets,
        tokenize = 'unicode61 remove_diacritics 2')""",
        """CREATE VIRTUAL TABLE IF NOT EXISTS registry_words USING
        fts5vocab('registry_search', 'row')""",
    ),
    "postgresql": (
        """CREATE TABLE IF NOT EXISTS registry_search (
        item bigint PRIMARY KEY, item_type text NOT NULL, namespace text NOT NULL,
        category text NOT NULL, visibility text NOT NULL, document tsvector NOT NULL)""",
        """CREATE INDEX IF NOT EXISTS registry_search_document
        ON registry_search USING gin (document)""",
    ),
}


def upgrade() -> None:
    """Make what is not there."""
    for name, parts in _TABLES.items():
        op.create_table(name, *parts, if_not_exists=True)
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns, if_not_exists=True)
    connection = op.get_bind()
    threads = {column["name"] for column in sa.inspect(connection).get_columns("threads")}
    if "merge_conflict_count" not in threads:
        op.add_column("threads", sa.Column("merge_conflict_count", sa.Integer()))
    for statement in _SEARCH[connection.dialect.name]:
        op.execute(statement)
