"""The stores of a node in object storage, in place of its folders: ``migrate --to s3://``.

Each content is hashed on its way, and the folders are only read. The database names the bucket at
the end, and that is the moment of the move: before it the folders are the node's stores, whatever
is in the bucket, and the same command goes on where it was broken off. A file of its own beside
`rye_services.database_copy`: the other half of the same command.
"""

from collections.abc import Mapping

from lillux.store_files import ObjectKind
from lillux.values import dataclass, replace
from rye_services.audit import Audit
from rye_services.backup import copy_stores
from rye_services.data_folder import open_database
from rye_services.fsck import Progress
from rye_services.node.storage import LOCK, storage_alone
from rye_services.node.store.objects import is_sound
from rye_services.node.store.servers import stopped_node
from rye_services.node.store.stores import Stores, bucket_instead, name_bucket, open_stores
from rye_services.object_storage import address_of_store
from rye_services.settings import Settings
from ryeos.items.errors import RyeError


class StoreCopyError(RyeError):
    """Stores could not be copied: the folders are still those of the node."""

    code, exit_status = "CONFLICT", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStores:
    """Where the stores are now, and how many contents were copied, or were there already."""

    address: str
    copied: int
    copied_bytes: int
    kept: int


def move_stores(
    settings: Settings, url: str, environ: Mapping[str, str], progress: Progress
) -> MovedStores:
    """Have an empty folder of a bucket in place of the folders of a node.

    1. the node is stopped, no sweep or backup is at work, and its stores are folders
    2. the bucket is empty, or has what an attempt before has left there
    3. contents and refs of all users and of the registry, each content hashed
    4. no server was started meanwhile; the database names the bucket

    What is damaged in the folders stops it. Raises NodeRunningError, StoreCopyError,
    WrongStoreError, SettingError, ObjectStorageError, LockTimeoutError.
    """
    address = address_of_store(url, "--to").url
    with stopped_node(settings) as require_alone:  # (1)
        database = open_database(settings)
        try:
            with storage_alone(database, settings.data_dir / LOCK):
                folders = open_stores(replace(settings, store=""), database, environ)
                if folders.storage is not None:
                    raise StoreCopyError(
                        f"--to: expected a node with folders, found {folders.storage.bucket.shown}",
                        hint="a backup of it that is restored has folders: rye-node.pyz restore",
                    )
                bucket = bucket_instead(settings, database, environ, url)  # (2)
                _drop_damaged(bucket)
                done = copy_stores(folders, bucket, progress)  # (3)
                if done.damaged:
                    raise StoreCopyError(
                        f"{len(done.damaged)} files cannot be copied: {done.damaged[0]}",
                        hint="rye-node.pyz fsck names them all, and what brings them back; then"
                        " the same command again",
                    )
                require_alone()
                name_bucket(database, settings, url)  # (4)
                facts = {"to": address, "files": done.files + done.kept}
                Audit(database).note("migrate", address, facts)
        finally:
            database.close()
    return MovedStores(address=address, copied=done.files, copied_bytes=done.bytes, kept=done.kept)


def _drop_damaged(bucket: Stores) -> None:
    """Of what an attempt before has left in the bucket, keep what is sound."""
    stores = (*(bucket.users.of(user) for user in bucket.users.users()), bucket.registry)
    for store in stores:
        for space in ObjectKind:
            for one in [*store.stored(space)]:
                if not is_sound(store, space, one.digest):
                    store.set_aside(space, one.digest)
