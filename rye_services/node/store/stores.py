"""Opens the stores of a server: folders of this machine, or object storage of many.

Where they are is a fact of the node, so it is in the database; the storage holds the id of the node
that its files belong to. Rules: ``docs/store.md``, Object storage. A file of its own because both
kinds of stores, settings and database come together here.
"""

import json
from collections.abc import Mapping

from sqlalchemy import delete, select, update

from lillux.store import Store
from lillux.values import dataclass, replace
from rye_services.node.store.bucket_store import REGISTRY, USERS, BucketStores
from rye_services.node.store.objects import StoresOfUsers, UserStores
from rye_services.node.store.packs import MemoryPacks, PackCache, PackFiles
from rye_services.settings import MIB, Settings
from rye_services.storage.database import Database, node_identity, stored_contents, users
from rye_services.storage.object_storage import ObstoreBucket, address_of_store, open_bucket
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore

MARKER = "node.json"
"""The file of a bucket that says which node its files belong to."""

CACHE = "cache"
_COMMAND_CACHE_BYTES = 64 * MIB
_FORMAT, _MAX_MARKER_BYTES = 1, 4096


def wrong_store(expected: str, found: str, *, hint: str) -> RyeError:
    """The error of object storage that is not the one that belongs to the database."""
    return RyeError(f"store: expected {expected}, found {found}", code="WRONG_STORE", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores of a server. ``storage`` is None where they are folders."""

    users: StoresOfUsers
    registry: ContentStore
    storage: BucketStores | None = None


def open_stores(
    settings: Settings,
    database: Database,
    environ: Mapping[str, str],
    *,
    make: bool = False,
    is_server: bool = False,
) -> Stores:
    """The stores that belong to the database of a node.

    1. the address is that of the database; where that says none yet, and ``make`` says so, the
       settings may name object storage for a node that has stored nothing
    2. the files there belong to this node

    A server keeps what it reads in a folder; a command keeps it in memory. Raises RyeError
    `WRONG_STORE`, `CONFIG_ERROR`, ObjectStorageError.
    """
    identity = select(node_identity)
    with database.reading() as connection:
        row = connection.execute(identity).one()
        has_stored = connection.execute(select(users.c.id).limit(1)).first() is not None
    given = address_of_store(settings.store).url if settings.store else ""
    is_new = bool(given) and not row.store  # (1)
    if given and row.store and given != row.store:
        raise wrong_store(
            f"that of this node, {row.store}",
            f"the setting {given}",
            hint=f"leave the setting out, or set RYE_NODE_STORE={row.store}",
        )
    if is_new and (not make or has_stored or _has_folders(settings)):
        raise wrong_store(
            "the folders of this node, as it has stored something there",
            f"the setting {given}",
            hint="leave the setting out; object storage is named when a node is made: rye-node.pyz"
            f" init --data DIR --store {given}",
        )
    if not given and not row.store:
        return Stores(
            users=UserStores(settings.cas_base_path),
            registry=Store(settings.registry_store_dir),
        )
    used = replace(
        settings,
        store=given or row.store,
        store_endpoint=settings.store_endpoint or row.store_endpoint or "",
        store_region=settings.store_region or row.store_region or "",
    )
    bucket = open_bucket(used, environ)
    _require_own(bucket, row.id, make=is_new)  # (2)
    if is_new:
        _name_store(database, used)
    cache: PackCache = MemoryPacks(_COMMAND_CACHE_BYTES)
    if is_server:
        cache = PackFiles(settings.data_dir / CACHE, settings.store_cache_bytes)
    storage = BucketStores(bucket, database, cache)
    return Stores(users=storage, registry=storage.registry, storage=storage)


def bucket_instead(
    settings: Settings, database: Database, environ: Mapping[str, str], url: str
) -> Stores:
    """The stores in a bucket for a node whose stores are folders. Its database does not say so yet.

    1. the bucket is this node's, or becomes it
    2. rows of an attempt with another bucket are forgotten
    3. what is there was put there by an attempt of this very database: of a node that was restored
       from a backup the former one has the same id, and each would sweep what the other one stores

    Raises RyeError `WRONG_STORE`, `CONFIG_ERROR`, ObjectStorageError.
    """
    used = replace(settings, store=address_of_store(url, "--to").url)
    bucket = open_bucket(used, environ)
    with database.reading() as connection:
        node = connection.execute(select(node_identity)).one().id
    _require_own(bucket, node, make=True)  # (1)
    storage = BucketStores(bucket, database, MemoryPacks(_COMMAND_CACHE_BYTES))
    is_ours = storage.forget_absent()  # (2)
    found = {*bucket.folders("")} & {USERS, REGISTRY}
    if found and not is_ours:  # (3)
        raise _not_empty(bucket, min(found))
    return Stores(users=storage, registry=storage.registry, storage=storage)


def name_bucket(database: Database, settings: Settings, url: str) -> None:
    """Record in the database that the node's stores are in a bucket from now on."""
    _name_store(database, replace(settings, store=address_of_store(url, "--to").url))


def _not_empty(bucket: ObstoreBucket, folder: str) -> RyeError:
    return wrong_store(
        "an empty folder of a bucket",
        f"{bucket.shown} with {folder}/ in it",
        hint="name an empty one: s3://BUCKET/PREFIX",
    )


def _name_store(database: Database, settings: Settings) -> None:
    """Record in the database that the node's store is the bucket of these settings."""
    named = {
        "store": settings.store,
        "store_endpoint": settings.store_endpoint or None,
        "store_region": settings.store_region or None,
    }
    with database.writing() as connection:
        connection.execute(update(node_identity).values(**named))


def use_folders(database: Database) -> None:
    """Record that the stores are folders: those of a backup are, whatever it is a backup of."""
    with database.writing() as connection:
        connection.execute(
            update(node_identity).values(store=None, store_endpoint=None, store_region=None)
        )
        connection.execute(delete(stored_contents))


def _has_folders(settings: Settings) -> bool:
    folders = any(settings.cas_base_path.glob("*/.ai"))
    return folders or settings.registry_store_dir.is_dir()


def _require_own(bucket: ObstoreBucket, node: str, *, make: bool) -> None:
    """Raises RyeError `WRONG_STORE` where the files of a bucket are not those of this node."""
    found = bucket.get(MARKER)
    if found is None and make:
        if left := {*bucket.folders("")} & {USERS, REGISTRY}:
            raise wrong_store(
                "an empty folder of a bucket",
                f"{bucket.shown} with {min(left)}/ in it, and without {MARKER}",
                hint="name an empty one: --store s3://BUCKET/PREFIX",
            )
        marker = json.dumps({"format": _FORMAT, "node": node}).encode()
        if bucket.create(MARKER, marker):
            return
        found = bucket.get(MARKER)  # another server of this node, or another node, was first
    if found is None:
        raise wrong_store(
            f"{bucket.shown}/{MARKER} of node {node}",
            "no such file",
            hint="is this the bucket of this node? --store-endpoint says where it is served",
        )
    owner = _node_in(found)
    if owner != node:
        raise wrong_store(
            f"the files of node {node}",
            f"those of node {owner or 'without an id'} at {bucket.shown}",
            hint="a bucket, or a prefix in it, for each node: --store s3://BUCKET/PREFIX",
        )


def _node_in(marker: bytes) -> str:
    try:
        value = json.loads(marker[:_MAX_MARKER_BYTES])
        return ascii(str(value["node"]))[1:-1][:80]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
