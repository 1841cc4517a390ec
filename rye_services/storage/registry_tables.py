"""The tables of a registry, in the database of the node. What each row means: ``docs/registry.md``.

Its search index is made by statements of its own, `SEARCH_TABLES`; who asks it is
`rye_services.registry.search_index`. Not below ``registry``, which imports the node: a node has
these tables too.
"""

from collections.abc import Mapping

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from rye_services.storage.database import String, Text

METADATA = MetaData()

accounts = Table(
    "registry_accounts",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("folded", String(64), nullable=False, unique=True),
    Column("created_at", String(40), nullable=False),
    Column("disabled_at", String(40)),
    Column("stored_bytes", BigInteger, nullable=False, default=0),
)

account_keys = Table(
    "registry_account_keys",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("account", String(64), nullable=False, index=True),
    Column("public_pem", Text, nullable=False),
    Column("created_at", String(40), nullable=False),
)

namespaces = Table(
    "registry_namespaces",
    METADATA,
    Column("folded", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("owner", String(64), nullable=False, index=True),
    Column("claimed_at", String(40), nullable=False),
    Column("claim", JSON(none_as_null=True)),  # the signed document, where one was sent
)

items = Table(
    "registry_items",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("item_type", String(20), nullable=False),
    Column("item_id", String(256), nullable=False),
    Column("folded_id", String(256), nullable=False),  # no two ids differ by case alone
    Column("namespace", String(64), nullable=False),
    Column("category", String(256), nullable=False),
    Column("name", String(128), nullable=False),
    Column("title", Text, nullable=False, default=""),
    Column("description", Text, nullable=False, default=""),
    Column("visibility", String(20), nullable=False),
    Column("latest_version", String(40)),  # null: every version was deleted
    Column("author", String(64), nullable=False),  # of the latest version
    Column("download_count", BigInteger, nullable=False, default=0),
    Column("created_at", String(40), nullable=False),
    Column("updated_at", String(40), nullable=False),
    UniqueConstraint("item_type", "folded_id"),
    Index("registry_items_by_time", "visibility", "updated_at"),
    Index("registry_items_by_namespace", "namespace"),
)

versions = Table(
    "registry_versions",
    METADATA,
    Column("item", ForeignKey(items.c.id), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("suffix", String(10), nullable=False),
    Column("content", Text),  # as it is signed here; null: deleted, and never to be used again
    Column("source_hash", String(64), nullable=False),  # of what was sent, signature lines aside
    Column("sha256", String(64), nullable=False),  # of the content
    Column("author", String(64), nullable=False),
    Column("publisher", String(16)),  # the key whose signature it was sent with
    Column("title", Text, nullable=False, default=""),
    Column("description", Text, nullable=False, default=""),
    Column("changelog", Text, nullable=False, default=""),
    Column("metadata", JSON(none_as_null=True)),
    Column("size", BigInteger, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("deleted_at", String(40)),
)

bundles = Table(
    "registry_bundles",
    METADATA,
    Column("bundle_id", String(64), primary_key=True),
    Column("folded", String(64), nullable=False, unique=True),
    Column("owner", String(64), nullable=False, index=True),
    Column("description", Text, nullable=False, default=""),
    Column("visibility", String(20), nullable=False),
    Column("latest_version", String(40)),  # null: every version was deleted
    Column("download_count", BigInteger, nullable=False, default=0),
    Column("created_at", String(40), nullable=False),
    Column("updated_at", String(40), nullable=False),
)

bundle_versions = Table(
    "registry_bundle_versions",
    METADATA,
    Column("bundle_id", ForeignKey(bundles.c.bundle_id), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("content_hash", String(64), nullable=False),  # of the manifest and every file
    Column("manifest", Text, nullable=False),
    Column("author", String(64), nullable=False),
    Column("file_count", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("deleted_at", String(40)),  # its manifest is empty then, and its files are gone
)

bundle_files = Table(
    "registry_bundle_files",
    METADATA,
    Column("bundle_id", String(64), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("path", String(512), primary_key=True),
    Column("blob_hash", String(64), nullable=False, index=True),
    Column("object_hash", String(64), nullable=False),
    Column("inline_signed", Boolean, nullable=False),
)

identities = Table(
    "registry_identities",
    METADATA,
    Column("fingerprint", String(16), primary_key=True),
    Column("document", JSON, nullable=False),
    Column("registered_at", String(40), nullable=False),
)

SEARCH_TABLES: Mapping[str, tuple[str, ...]] = {
    "sqlite": (
        """CREATE VIRTUAL TABLE registry_search USING fts5(
        name, place, title, description, body, facets,
        tokenize = 'unicode61 remove_diacritics 2')""",
        """CREATE VIRTUAL TABLE registry_words USING
        fts5vocab('registry_search', 'row')""",
    ),
    "postgresql": (
        """CREATE TABLE registry_search (
        item bigint PRIMARY KEY, item_type text NOT NULL, namespace text NOT NULL,
        category text NOT NULL, visibility text NOT NULL, document tsvector NOT NULL)""",
        "CREATE INDEX registry_search_document ON registry_search USING gin (document)",
    ),
}
"""What makes the tables of the search index, by the kind of the database."""
