"""What others brought to the node, merged into the project.

(1) the node is the one that is pinned   (2) its head, and what both had in common   (3) the project
as it is   (4) all three merged   (5) what that changes is written, over nothing that was changed
here meanwhile   (6) the head is recorded. Cut off anywhere, doing it again comes to the same.
"""

from lillux.values import dataclass
from ryeos.cas.admission import check_incoming
from ryeos.cas.contents import Layered
from ryeos.cas.merge import Conflict, three_way_merge
from ryeos.cas.objects import SourceManifest, item_source_of
from ryeos.cas.tree import Tree
from ryeos.remote.apply import Applied, apply_changes, blob_at, changed_paths, changes, entry_at
from ryeos.remote.conflicts import BASE, OURS, THEIRS, ConflictRecord, KeptConflict
from ryeos.remote.errors import RemoteConflictError
from ryeos.remote.incoming import incoming_at
from ryeos.remote.link import Link
from ryeos.remote.replies import Head
from ryeos.remote.transfer import RemoteContents

PULLED = "pulled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What a pull did. ``snapshot_hash`` is ``""`` where the node has no such project."""

    snapshot_hash: str = ""
    applied: Applied = Applied()


def pull(link: Link) -> Pulled:
    """Bring the project to the node's head.

    Raises RemoteConflictError where both changed the same; then nothing was written.
    """
    link.node.verify()  # (1)
    with link.alone():
        head = link.head()  # (2)
        if head is None:
            return Pulled()
        return merge_head(link, head, link.working_tree.project_tree())  # (3)


def merge_head(link: Link, head: Head, tree: Tree) -> Pulled:
    """Steps 4 to 6 of a pull."""
    theirs = link.received(head.project_manifest_hash, tree)
    _check_incoming(link, tree, theirs)
    applied = Applied()
    if tree.manifest != theirs:
        with incoming_at(link.conflicts.folder.parent / PULLED, link.store) as incoming:
            remote = RemoteContents(link.node, incoming)
            merged = _merged(link, head, tree, theirs, remote)  # (4)
            contents = Layered(link.store, tree, remote)
            applied = apply_changes(  # (5)
                link.working_tree.project,
                changes(tree.manifest, merged, contents),
                contents.get_blob,
                link.incoming(),
            )
    link.record(head.snapshot_hash, theirs, head.user_manifest_hash)  # (6)
    link.conflicts.clear()
    return Pulled(snapshot_hash=head.snapshot_hash, applied=applied)


def _check_incoming(link: Link, tree: Tree, theirs: SourceManifest) -> None:
    """Of what is not here and was not in common, nothing that the own rules keep at home.

    They are read before anything is written. What both had once is only removed, as it is not here.
    """
    if tree.manifest == theirs:
        return
    base = link.base(tree) or SourceManifest("project")
    there = {*theirs.items, *theirs.files}
    check_incoming(
        [path for path in changed_paths(base, theirs) if path in there], link.working_tree.rules()
    )


def _merged(
    link: Link,
    head: Head,
    tree: Tree,
    theirs: SourceManifest,
    remote: RemoteContents,
) -> SourceManifest:
    base = link.base(tree)
    _prefetch(link, base, tree, theirs, remote)
    contents = Layered(link.store, tree, remote)
    merged = three_way_merge(base, tree.manifest, theirs, contents)
    if merged.manifest is None:
        keep_conflicts(link, head, merged.conflicts, (base, tree.manifest, theirs), contents)
        raise RemoteConflictError(
            link.node.name,
            [conflict.path for conflict in merged.conflicts],
            str(link.conflicts.folder),
        )
    return merged.manifest


def _prefetch(
    link: Link,
    base: SourceManifest | None,
    tree: Tree,
    theirs: SourceManifest,
    remote: RemoteContents,
) -> None:
    """All that the merge may ask for, in few requests: objects of items first, then bytes."""
    empty = SourceManifest("project")
    incoming = {*changed_paths(base or empty, theirs)}
    contested = incoming & {*changed_paths(base or empty, tree.manifest)}
    wanted = [(theirs, path) for path in sorted(incoming)]
    wanted += [(base, path) for path in sorted(contested) if base is not None]
    items = {m.items[path] for m, path in wanted if path in m.items}
    remote.prefetch(sorted(items - {*tree.item_sources}), link.progress)
    contents = Layered(link.store, tree, remote)
    blobs = {m.files[path] for m, path in wanted if path in m.files}
    for digest in items:
        blobs.add(item_source_of(contents.get_object(digest), f"item {digest}").content_blob_hash)
    remote.prefetch(sorted(blobs - {*tree.blobs}), link.progress)


def keep_conflicts(
    link: Link,
    head: Head,
    conflicts: tuple[Conflict, ...],
    manifests: tuple[SourceManifest | None, SourceManifest, SourceManifest],
    contents: Layered,
) -> None:
    """Write every version down, for a person to choose from. What was settled before, stays so."""
    empty = SourceManifest("project")
    sides = [manifest or empty for manifest in manifests]
    former = link.conflicts.read()
    link.conflicts.clear()
    kept = {
        path: one for path, one in (former.conflicts if former else {}).items() if one.is_settled
    }
    for conflict in conflicts:
        path = conflict.path
        digests = [blob_at(side, path, contents) for side in sides]
        for version, digest in zip((BASE, OURS, THEIRS), digests, strict=True):
            if digest is not None:
                link.conflicts.keep(version, path, contents.get_blob(digest))
        base, ours, theirs = digests
        kept[path] = KeptConflict(
            base=base,
            ours=ours,
            theirs=theirs,
            type=conflict.type,
            entry=entry_at(sides[2], path),
            is_item=path in sides[2].items,
        )
    link.conflicts.write(ConflictRecord(head.snapshot_hash, kept))
