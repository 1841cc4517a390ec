CREATE TABLE accepted_losses (
    user_id VARCHAR(64) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    space VARCHAR(10) NOT NULL,
    root TEXT NOT NULL,
    accepted_at VARCHAR(40) NOT NULL,
    accepted_by VARCHAR(64) NOT NULL,
    PRIMARY KEY (user_id, digest)
);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE api_keys (
    id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    key_prefix VARCHAR(16) NOT NULL,
    key_hash VARCHAR(64) NOT NULL,
    scopes JSON,
    created_at VARCHAR(40) NOT NULL,
    expires_at VARCHAR(40),
    revoked_at VARCHAR(40),
    last_used_at VARCHAR(40),
    role VARCHAR(10),
    created_by VARCHAR(64),
    PRIMARY KEY (id),
    UNIQUE (key_hash)
);
CREATE TABLE audit (
    id INTEGER NOT NULL,
    at VARCHAR(40) NOT NULL,
    actor VARCHAR(64) NOT NULL,
    address VARCHAR(64) NOT NULL,
    action VARCHAR(40) NOT NULL,
    target VARCHAR(300) NOT NULL,
    details JSON,
    PRIMARY KEY (id)
);
CREATE TABLE authorized_keys (
    fingerprint VARCHAR(16) NOT NULL,
    public_key TEXT NOT NULL,
    label TEXT NOT NULL,
    scopes JSON NOT NULL,
    publish_namespaces JSON NOT NULL,
    expires_at TEXT,
    created_via TEXT NOT NULL,
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (fingerprint)
);
CREATE TABLE invitations (
    id VARCHAR(16) NOT NULL,
    token_hash VARCHAR(64) NOT NULL,
    team_id VARCHAR(64),
    role VARCHAR(10),
    email TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    created_by VARCHAR(64) NOT NULL,
    expires_at VARCHAR(40) NOT NULL,
    ended_at VARCHAR(40),
    used_by VARCHAR(64),
    PRIMARY KEY (id),
    UNIQUE (token_hash)
);
CREATE TABLE node_identity (
    id VARCHAR(32) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    public_key TEXT,
    store VARCHAR(1100),
    store_endpoint VARCHAR(1100),
    store_region VARCHAR(64),
    PRIMARY KEY (id)
);
CREATE TABLE oidc_subjects (
    issuer VARCHAR(512) NOT NULL,
    subject VARCHAR(255) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    last_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE TABLE page_sessions (
    id_hash VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    key_id VARCHAR(64),
    created_at_s DOUBLE NOT NULL,
    until_s DOUBLE NOT NULL,
    owner VARCHAR(64),
    PRIMARY KEY (id_hash)
);
CREATE TABLE project_refs (
    user_id VARCHAR(64) NOT NULL,
    remote_name VARCHAR(64) NOT NULL,
    project_path VARCHAR(1024) NOT NULL,
    project_manifest_hash VARCHAR(64) NOT NULL,
    user_manifest_hash VARCHAR(64),
    system_version TEXT NOT NULL,
    pushed_at VARCHAR(40),
    snapshot_hash VARCHAR(64) NOT NULL,
    snapshot_revision BIGINT NOT NULL,
    head_updated_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (user_id, remote_name, project_path)
);
CREATE TABLE published_manifests (
    kind VARCHAR(20) NOT NULL,
    item_id VARCHAR(256) NOT NULL,
    version VARCHAR(40) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    namespace VARCHAR(64) NOT NULL,
    manifest_hash VARCHAR(64) NOT NULL,
    published_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (kind, item_id, version)
);
CREATE TABLE queue_turns (
    user_id VARCHAR(64) NOT NULL,
    priority INTEGER NOT NULL,
    turn BIGINT NOT NULL,
    PRIMARY KEY (user_id, priority)
);
CREATE TABLE queue_workers (
    id VARCHAR(64) NOT NULL,
    places INTEGER NOT NULL,
    seen_at_s DOUBLE NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE rates (
    name VARCHAR(200) NOT NULL,
    tokens DOUBLE NOT NULL,
    is_allowed BOOLEAN NOT NULL,
    since_s DOUBLE NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE registry_account_keys (
    fingerprint VARCHAR(16) NOT NULL,
    account VARCHAR(64) NOT NULL,
    public_pem TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (fingerprint)
);
CREATE TABLE registry_accounts (
    name VARCHAR(64) NOT NULL,
    folded VARCHAR(64) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    disabled_at VARCHAR(40),
    stored_bytes BIGINT NOT NULL,
    PRIMARY KEY (name),
    UNIQUE (folded)
);
CREATE TABLE registry_bundle_files (
    bundle_id VARCHAR(64) NOT NULL,
    version VARCHAR(40) NOT NULL,
    path VARCHAR(512) NOT NULL,
    blob_hash VARCHAR(64) NOT NULL,
    object_hash VARCHAR(64) NOT NULL,
    inline_signed BOOLEAN NOT NULL,
    PRIMARY KEY (bundle_id, version, path)
);
CREATE TABLE registry_bundle_versions (
    bundle_id VARCHAR(64) NOT NULL,
    version VARCHAR(40) NOT NULL,
    content_hash VARCHAR(64) NOT NULL,
    manifest TEXT NOT NULL,
    author VARCHAR(64) NOT NULL,
    file_count INTEGER NOT NULL,
    size BIGINT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    deleted_at VARCHAR(40),
    PRIMARY KEY (bundle_id, version),
    FOREIGN KEY(bundle_id) REFERENCES registry_bundles (bundle_id)
);
CREATE TABLE registry_bundles (
    bundle_id VARCHAR(64) NOT NULL,
    folded VARCHAR(64) NOT NULL,
    owner VARCHAR(64) NOT NULL,
    description TEXT NOT NULL,
    visibility VARCHAR(20) NOT NULL,
    latest_version VARCHAR(40),
    download_count BIGINT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    updated_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (bundle_id),
    UNIQUE (folded)
);
CREATE TABLE registry_identities (
    fingerprint VARCHAR(16) NOT NULL,
    document JSON NOT NULL,
    registered_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (fingerprint)
);
CREATE TABLE registry_items (
    id INTEGER NOT NULL,
    item_type VARCHAR(20) NOT NULL,
    item_id VARCHAR(256) NOT NULL,
    folded_id VARCHAR(256) NOT NULL,
    namespace VARCHAR(64) NOT NULL,
    category VARCHAR(256) NOT NULL,
    name VARCHAR(128) NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    visibility VARCHAR(20) NOT NULL,
    latest_version VARCHAR(40),
    author VARCHAR(64) NOT NULL,
    download_count BIGINT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    updated_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (item_type, folded_id)
);
CREATE TABLE registry_namespaces (
    folded VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    owner VARCHAR(64) NOT NULL,
    claimed_at VARCHAR(40) NOT NULL,
    claim JSON,
    PRIMARY KEY (folded)
);
CREATE TABLE registry_versions (
    item INTEGER NOT NULL,
    version VARCHAR(40) NOT NULL,
    suffix VARCHAR(10) NOT NULL,
    content TEXT,
    source_hash VARCHAR(64) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    author VARCHAR(64) NOT NULL,
    publisher VARCHAR(16),
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    changelog TEXT NOT NULL,
    metadata JSON,
    size BIGINT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    deleted_at VARCHAR(40),
    PRIMARY KEY (item, version),
    FOREIGN KEY(item) REFERENCES registry_items (id)
);
CREATE TABLE request_nonces (
    fingerprint VARCHAR(16) NOT NULL,
    nonce_hash VARCHAR(64) NOT NULL,
    seen_at_s DOUBLE NOT NULL,
    PRIMARY KEY (fingerprint, nonce_hash)
);
CREATE TABLE sign_ins (
    id_hash VARCHAR(64) NOT NULL,
    kind VARCHAR(10) NOT NULL,
    user_code VARCHAR(16),
    facts JSON,
    user_id VARCHAR(64),
    until_s DOUBLE NOT NULL,
    PRIMARY KEY (id_hash),
    UNIQUE (user_code)
);
CREATE TABLE stored_contents (
    owner VARCHAR(80) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    space VARCHAR(6) NOT NULL,
    pack VARCHAR(32) NOT NULL,
    start BIGINT NOT NULL,
    size BIGINT NOT NULL,
    used_at_s DOUBLE NOT NULL,
    PRIMARY KEY (owner, digest, space)
);
CREATE TABLE sweeps (
    id INTEGER NOT NULL,
    started_at VARCHAR(40) NOT NULL,
    took_s DOUBLE NOT NULL,
    started_by VARCHAR(64) NOT NULL,
    stores INTEGER NOT NULL,
    removed BIGINT NOT NULL,
    freed_bytes BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    forgotten BIGINT NOT NULL,
    left_alone JSON,
    left_alone_count INTEGER NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE team_members (
    team_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    role VARCHAR(10) NOT NULL,
    added_at VARCHAR(40) NOT NULL,
    added_by VARCHAR(64) NOT NULL,
    PRIMARY KEY (team_id, user_id)
);
CREATE TABLE teams (
    id VARCHAR(64) NOT NULL,
    title TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    created_by VARCHAR(64) NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE thread_logs (
    thread_id VARCHAR(300) NOT NULL,
    number INTEGER NOT NULL,
    stream VARCHAR(10) NOT NULL,
    text TEXT NOT NULL,
    written_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (thread_id, number)
);
CREATE TABLE thread_spending (
    owner VARCHAR(64) NOT NULL,
    thread_id VARCHAR(300) NOT NULL,
    attempt INTEGER NOT NULL,
    day VARCHAR(10) NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (owner, thread_id, attempt)
);
CREATE TABLE threads (
    thread_id VARCHAR(300) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    started_by VARCHAR(64),
    item_type VARCHAR(40) NOT NULL,
    item_id TEXT NOT NULL,
    execution_mode VARCHAR(40) NOT NULL,
    remote_name VARCHAR(64) NOT NULL,
    project_path VARCHAR(1024) NOT NULL,
    project_manifest_hash VARCHAR(64),
    user_manifest_hash VARCHAR(64),
    system_version TEXT NOT NULL,
    state VARCHAR(20) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    started_at VARCHAR(40),
    completed_at VARCHAR(40),
    snapshot_hash VARCHAR(64),
    execution_snapshot_hash VARCHAR(64),
    runtime_outputs_bundle_hash VARCHAR(64),
    merge_type VARCHAR(40),
    merge_conflicts JSON,
    merge_conflict_count INTEGER,
    unmerged_snapshot_hash VARCHAR(64),
    error_message TEXT,
    error_phase VARCHAR(40),
    result_hash VARCHAR(64),
    is_async BOOLEAN NOT NULL,
    job JSON,
    job_secrets BLOB,
    lease_until_s DOUBLE,
    worker_pid BIGINT,
    server_id VARCHAR(64),
    hook_id VARCHAR(64),
    attempt INTEGER DEFAULT '0' NOT NULL,
    preparing BOOLEAN DEFAULT 0 NOT NULL,
    retryable BOOLEAN DEFAULT 0 NOT NULL,
    cancelled_by VARCHAR(64),
    warnings JSON,
    log_bytes BIGINT DEFAULT '0' NOT NULL,
    given JSON,
    answer JSON,
    PRIMARY KEY (thread_id)
);
CREATE TABLE uploads_in_flight (
    id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    started_at_s DOUBLE NOT NULL,
    lease_until_s DOUBLE NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE user_keys (
    fingerprint VARCHAR(16) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    public_key TEXT NOT NULL,
    label TEXT NOT NULL,
    scopes JSON,
    created_at VARCHAR(40) NOT NULL,
    created_by VARCHAR(64) NOT NULL,
    expires_at VARCHAR(40),
    PRIMARY KEY (fingerprint)
);
CREATE TABLE user_secrets (
    user_id VARCHAR(64) NOT NULL,
    name VARCHAR(256) NOT NULL,
    envelope JSON NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    updated_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (user_id, name)
);
CREATE TABLE user_space_refs (
    user_id VARCHAR(64) NOT NULL,
    remote_name VARCHAR(64) NOT NULL,
    user_manifest_hash VARCHAR(64) NOT NULL,
    snapshot_revision BIGINT NOT NULL,
    pushed_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (user_id, remote_name)
);
CREATE TABLE users (
    id VARCHAR(64) NOT NULL,
    username TEXT NOT NULL,
    email TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    stored_bytes BIGINT NOT NULL,
    quota_bytes BIGINT,
    kind VARCHAR(10) DEFAULT 'person' NOT NULL,
    state VARCHAR(10) DEFAULT 'open' NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE webhook_bindings (
    hook_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    remote_name VARCHAR(64) NOT NULL,
    item_type VARCHAR(40) NOT NULL,
    item_id TEXT NOT NULL,
    project_path VARCHAR(1024) NOT NULL,
    hmac_secret JSON NOT NULL,
    description TEXT NOT NULL,
    secret_envelope JSON,
    vault_keys JSON NOT NULL,
    owner TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    revoked_at VARCHAR(40),
    PRIMARY KEY (hook_id)
);
CREATE TABLE webhook_deliveries_replay (
    hook_id VARCHAR(64) NOT NULL,
    delivery_id VARCHAR(256) NOT NULL,
    received_at_s DOUBLE NOT NULL,
    PRIMARY KEY (hook_id, delivery_id)
);
CREATE INDEX audit_by_actor ON audit (actor, at);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX ix_api_keys_user_id ON api_keys (user_id);
CREATE INDEX ix_invitations_team_id ON invitations (team_id);
CREATE INDEX ix_oidc_subjects_user_id ON oidc_subjects (user_id);
CREATE INDEX ix_page_sessions_until_s ON page_sessions (until_s);
CREATE INDEX ix_page_sessions_user_id ON page_sessions (user_id);
CREATE INDEX ix_published_manifests_namespace ON published_manifests (namespace);
CREATE INDEX ix_published_manifests_user_id ON published_manifests (user_id);
CREATE INDEX ix_queue_turns_turn ON queue_turns (turn);
CREATE INDEX ix_registry_account_keys_account ON registry_account_keys (account);
CREATE INDEX ix_registry_bundle_files_blob_hash ON registry_bundle_files (blob_hash);
CREATE INDEX ix_registry_bundles_owner ON registry_bundles (owner);
CREATE INDEX ix_registry_namespaces_owner ON registry_namespaces (owner);
CREATE INDEX ix_request_nonces_seen_at_s ON request_nonces (seen_at_s);
CREATE INDEX ix_sign_ins_until_s ON sign_ins (until_s);
CREATE INDEX ix_team_members_user_id ON team_members (user_id);
CREATE INDEX ix_uploads_in_flight_user_id ON uploads_in_flight (user_id);
CREATE INDEX ix_user_keys_user_id ON user_keys (user_id);
CREATE INDEX ix_webhook_bindings_user_id ON webhook_bindings (user_id);
CREATE INDEX ix_webhook_deliveries_replay_received_at_s ON webhook_deliveries_replay (received_at_s);
CREATE INDEX registry_items_by_namespace ON registry_items (namespace);
CREATE INDEX registry_items_by_time ON registry_items (visibility, updated_at);
CREATE INDEX stored_contents_by_pack ON stored_contents (owner, pack);
CREATE INDEX thread_spending_by_day ON thread_spending (owner, day);
CREATE INDEX threads_by_state ON threads (state);
CREATE INDEX threads_by_user ON threads (user_id, remote_name, created_at);
INSERT INTO alembic_version (version_num) VALUES ('1');
