"""Manifests with all their objects, stored like an upload of a client."""

from collections.abc import Mapping

from lillux.store import Durability, Store
from rye_services.node.services import NodeServices
from rye_services.node.store.objects import UserStores
from ryeos.sync.objects import ItemSource, SourceManifest


def put_item(store: Store, path: str, content: bytes) -> str:
    """Store an item of a path below ``.ai/``. The digest of its item_source."""
    blob = store.put_blob(content, Durability.UNFORCED)
    folder, _, rest = path.removeprefix(".ai/").partition("/")
    item = ItemSource(f"{folder.removesuffix('s')}:{rest.rpartition('.')[0] or rest}", blob)
    return store.put_object(item.as_object(), Durability.UNFORCED)


def folder_stores(services: NodeServices) -> UserStores:
    """The stores of a node that keeps them in folders, as the nodes of tests do."""
    assert isinstance(services.stores, UserStores)
    return services.stores


def put_project(store: Store, contents: Mapping[str, bytes]) -> str:
    """Store a project of these files. The digest of its manifest."""
    items, files = {}, {}
    for path, content in contents.items():
        if path.startswith(".ai/"):
            items[path] = put_item(store, path, content)
        else:
            files[path] = store.put_blob(content, Durability.UNFORCED)
    manifest = SourceManifest("project", items, files)
    return store.put_object(manifest.as_object(), Durability.UNFORCED)


def put_user_space(store: Store, contents: Mapping[str, bytes]) -> str:
    """Store a user space of these items. The digest of its manifest."""
    items = {path: put_item(store, path, content) for path, content in contents.items()}
    manifest = SourceManifest("user", items)
    return store.put_object(manifest.as_object(), Durability.UNFORCED)
