"""A user space as it was pushed, without what never travels.

Clients of the public implementation push the private half of a user's box key with every user
space. It is left out of what is kept, not refused: else none of them could use this node
(ADR 0106).
"""

from lillux.store import Durability, Store
from lillux.values import dataclass, replace
from rye_services.node.validation import read_pushed_manifest
from ryeos.sync.paths import Skipped, why_never


@dataclass(frozen=True, slots=True)
class KeptManifest:
    """The digest of what is kept, and what was left out for that: nothing for most."""

    manifest_hash: str
    left_out: tuple[Skipped, ...] = ()


def kept_user_manifest(digest: str, store: Store) -> KeptManifest:
    """The manifest of a user space without those items that no client should have sent.

    Whatever else is wrong with it, that is left to `rye_services.node.validation.check_graph`.
    Raises ManifestGraphError for one that cannot be read, FileSystemError.
    """
    manifest = read_pushed_manifest(digest, "user", store)
    asked = [(path, why_never(path, is_item=True)) for path in manifest.items]
    left_out = tuple(Skipped(path, problem) for path, problem in asked if problem)
    if not left_out:
        return KeptManifest(digest)
    gone = {one.path for one in left_out}
    items = {path: item for path, item in manifest.items.items() if path not in gone}
    kept = replace(manifest, items=items)
    return KeptManifest(store.put_object(kept.as_object(), Durability.AT_SYNC), left_out)
