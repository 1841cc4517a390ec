"""The tables of a node. What each row means: ``docs/node.md``.

Moments that people see are texts, ISO 8601 in UTC with microseconds, which sort as they follow each
other; moments that are only compared (``..._s``) are seconds since 1970.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 2
CHANGES = {1: "ALTER TABLE threads ADD COLUMN merge_conflict_count INTEGER"}
"""By version, what makes the next one of its tables."""

METADATA = MetaData()

schema_versions = Table("schema_versions", METADATA, Column("version", Integer, primary_key=True))

users = Table(
    "users",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("username", Text, nullable=False, default=""),
    Column("email", Text, nullable=False, default=""),
    Column("created_at", String(40), nullable=False),
    # Kept up to date by what stores and removes, so that no quota is found by walking.
    Column("stored_bytes", BigInteger, nullable=False, default=0),
)

api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("key_prefix", String(16), nullable=False),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("scopes", JSON(none_as_null=True)),  # null: whatever its user may
    Column("created_at", String(40), nullable=False),
    Column("expires_at", String(40)),
    Column("revoked_at", String(40)),
    Column("last_used_at", String(40)),
)

request_nonces = Table(
    "request_nonces",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("nonce_hash", String(64), primary_key=True),
    Column("seen_at_s", Double, nullable=False, index=True),
)

project_refs = Table(
    "project_refs",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("remote_name", String(64), primary_key=True),
    Column("project_path", String(1024), primary_key=True),
    Column("project_manifest_hash", String(64), nullable=False),
    Column("user_manifest_hash", String(64)),
    Column("system_version", Text, nullable=False, default=""),
    Column("pushed_at", String(40)),
    Column("snapshot_hash", String(64), nullable=False),
    Column("snapshot_revision", BigInteger, nullable=False),
    Column("head_updated_at", String(40), nullable=False),
)

user_space_refs = Table(
    "user_space_refs",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("remote_name", String(64), primary_key=True),
    Column("user_manifest_hash", String(64), nullable=False),
    Column("snapshot_revision", BigInteger, nullable=False),
    Column("pushed_at", String(40), nullable=False),
)

threads = Table(
    "threads",
    METADATA,
    Column("thread_id", String(300), primary_key=True),
    Column("user_id", String(64), nullable=False),
    Column("item_type", String(40), nullable=False),
    Column("item_id", Text, nullable=False),
    Column("execution_mode", String(40), nullable=False, default="remote"),
    Column("remote_name", String(64), nullable=False),
    Column("project_path", String(1024), nullable=False),
    Column("project_manifest_hash", String(64)),
    Column("user_manifest_hash", String(64)),
    Column("system_version", Text, nullable=False, default=""),
    Column("state", String(20), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("started_at", String(40)),
    Column("completed_at", String(40)),
    Column("snapshot_hash", String(64)),
    Column("execution_snapshot_hash", String(64)),
    Column("runtime_outputs_bundle_hash", String(64)),
    Column("merge_type", String(40)),
    Column("merge_conflicts", JSON(none_as_null=True)),  # of many the first ones, by path
    Column("merge_conflict_count", Integer),
    Column("unmerged_snapshot_hash", String(64)),
    Column("error_message", Text),
    Column("error_phase", String(40)),
    Column("result_hash", String(64)),
    Column("is_async", Boolean, nullable=False, default=False),
    Column("job", JSON(none_as_null=True)),  # of one that is to be started, without secrets
    Column("job_secrets", LargeBinary),  # its envelope, sealed to the node; gone once started
    Column("lease_until_s", Double),  # a row whose lease ran out belongs to nobody alive
    Column("worker_pid", BigInteger),
    Column("server_id", String(64)),
    Column("hook_id", String(64)),
    Index("threads_by_user", "user_id", "remote_name", "created_at"),
    Index("threads_by_state", "state"),
)

user_secrets = Table(
    "user_secrets",
    METADATA,
    Column("user_id", String(64), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("envelope", JSON, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("updated_at", String(40), nullable=False),
)

webhook_bindings = Table(
    "webhook_bindings",
    METADATA,
    Column("hook_id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("remote_name", String(64), nullable=False),
    Column("item_type", String(40), nullable=False),
    Column("item_id", Text, nullable=False),
    Column("project_path", String(1024), nullable=False),
    Column("hmac_secret", JSON, nullable=False),  # sealed to the node
    Column("description", Text, nullable=False, default=""),
    Column("secret_envelope", JSON(none_as_null=True)),
    Column("vault_keys", JSON, nullable=False),
    Column("owner", Text, nullable=False, default=""),
    Column("created_at", String(40), nullable=False),
    Column("revoked_at", String(40)),
)

webhook_deliveries_replay = Table(
    "webhook_deliveries_replay",
    METADATA,
    Column("hook_id", String(64), primary_key=True),
    Column("delivery_id", String(256), primary_key=True),
    Column("received_at_s", Double, nullable=False, index=True),
)

uploads_in_flight = Table(
    "uploads_in_flight",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("started_at_s", Double, nullable=False),
    Column("lease_until_s", Double, nullable=False),
)

published_manifests = Table(  # what a registry names in the stores of users: no sweep takes it
    "published_manifests",
    METADATA,
    Column("kind", String(20), primary_key=True),
    Column("item_id", String(256), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("user_id", String(64), nullable=False, index=True),
    Column("namespace", String(64), nullable=False, index=True),
    Column("manifest_hash", String(64), nullable=False),
    Column("published_at", String(40), nullable=False),
)
