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
	PRIMARY KEY (id),
	UNIQUE (key_hash)
);
CREATE INDEX ix_api_keys_user_id ON api_keys (user_id);
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
CREATE INDEX ix_published_manifests_namespace ON published_manifests (namespace);
CREATE INDEX ix_published_manifests_user_id ON published_manifests (user_id);
CREATE TABLE request_nonces (
	fingerprint VARCHAR(16) NOT NULL,
	nonce_hash VARCHAR(64) NOT NULL,
	seen_at_s REAL NOT NULL,
	PRIMARY KEY (fingerprint, nonce_hash)
);
CREATE INDEX ix_request_nonces_seen_at_s ON request_nonces (seen_at_s);
CREATE TABLE schema_versions (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
CREATE TABLE threads (
	thread_id VARCHAR(300) NOT NULL,
	user_id VARCHAR(64) NOT NULL,
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
	job_secrets TEXT,
	lease_until_s REAL,
	worker_pid BIGINT,
	server_id VARCHAR(64),
	hook_id VARCHAR(64),
	PRIMARY KEY (thread_id)
);
CREATE INDEX threads_by_user ON threads (user_id, remote_name, created_at);
CREATE INDEX threads_by_state ON threads (state);
CREATE TABLE uploads_in_flight (
	id VARCHAR(64) NOT NULL,
	user_id VARCHAR(64) NOT NULL,
	started_at_s REAL NOT NULL,
	lease_until_s REAL NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_uploads_in_flight_user_id ON uploads_in_flight (user_id);
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
CREATE INDEX ix_webhook_bindings_user_id ON webhook_bindings (user_id);
CREATE TABLE webhook_deliveries_replay (
	hook_id VARCHAR(64) NOT NULL,
	delivery_id VARCHAR(256) NOT NULL,
	received_at_s REAL NOT NULL,
	PRIMARY KEY (hook_id, delivery_id)
);
CREATE INDEX ix_webhook_deliveries_replay_received_at_s ON webhook_deliveries_replay (received_at_s);
CREATE TABLE registry_account_keys (
	fingerprint VARCHAR(16) NOT NULL,
	account VARCHAR(64) NOT NULL,
	public_pem TEXT NOT NULL,
	created_at VARCHAR(40) NOT NULL,
	PRIMARY KEY (fingerprint)
);
CREATE INDEX ix_registry_account_keys_account ON registry_account_keys (account);
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
CREATE INDEX ix_registry_bundle_files_blob_hash ON registry_bundle_files (blob_hash);
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
CREATE INDEX ix_registry_bundles_owner ON registry_bundles (owner);
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
CREATE INDEX registry_items_by_namespace ON registry_items (namespace);
CREATE INDEX registry_items_by_time ON registry_items (visibility, updated_at);
CREATE TABLE registry_namespaces (
	folded VARCHAR(64) NOT NULL,
	name VARCHAR(64) NOT NULL,
	owner VARCHAR(64) NOT NULL,
	claimed_at VARCHAR(40) NOT NULL,
	claim JSON,
	PRIMARY KEY (folded)
);
CREATE INDEX ix_registry_namespaces_owner ON registry_namespaces (owner);
CREATE TABLE registry_schema_versions (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
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
INSERT INTO schema_versions (version) VALUES (2);
INSERT INTO registry_schema_versions (version) VALUES (1);
INSERT INTO threads (thread_id, user_id, item_type, item_id, execution_mode, remote_name, project_path, system_version, state, created_at, is_async) VALUES ('old', 'ada', 'tool', 'tool:a', 'remote', 'default', 'p', '0.1.0', 'completed', '2026-01-02T03:04:05.000000+00:00', false);
