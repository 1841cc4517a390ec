"""The snapshots that led to a head: the first parent of each, which is the mainline."""

from collections.abc import Iterator
from typing import Any

from lillux.store import Store
from lillux.store_files import ObjectChangedError, ObjectMissingError, ObjectUnreadableError
from ryeos.sync.objects import CasObjectError, snapshot_of


def first_parents(store: Store, snapshot_hash: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each snapshot with its digest, from the given one back.

    Ends at the first one, and at one that is not there or not sound: what lies behind it cannot
    be known. A digest is that of its content, so no chain comes back to itself.
    """
    digest: str | None = snapshot_hash
    while digest:
        try:
            value = store.get_object(digest)
            snapshot = snapshot_of(value, f"project_snapshot {digest}")
        except (ObjectMissingError, ObjectChangedError, ObjectUnreadableError, CasObjectError):
            return
        yield digest, value
        digest = snapshot.parent_hashes[0] if snapshot.parent_hashes else None
