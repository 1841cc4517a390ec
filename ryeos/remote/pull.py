"""What others brought to the node, merged into the project.

(1) the node is the one that is pinned   (2) its head, and what both had in common   (3) the project
as it is   (4) all three merged   (5) what that changes is written, over nothing that was changed
here meanwhile   (6) the head is recorded. Cut off anywhere, doing it again comes to the same.
"""

from lillux.store_files import Space, force_files
from lillux.values import dataclass, replace
from ryeos.cas.admission import check_incoming
from ryeos.cas.contents import Layered
from ryeos.cas.merge import Conflict, three_way_merge
from ryeos.cas.objects import ProjectSnapshot, SourceManifest, item_source_of, snapshot_of
from ryeos.cas.tree import Tree
from ryeos.remote.apply import Applied, apply_changes, blob_at, changed_paths, changes, entry_at
from ryeos.remote.conflicts import BASE, OURS, THEIRS, ConflictRecord, KeptConflict
from ryeos.remote.errors import RemoteConflictError
from ryeos.remote.incoming import forget_incoming, incoming_at
from ryeos.remote.link import Link
from ryeos.remote.merged_runs import MergedRuns
from ryeos.remote.replies import Head
from ryeos.remote.transfer import RemoteContents

ARRIVED = "arrived"


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
        of_run = finish_run(link)
        head = link.head()  # (2)
        if head is None:
            return Pulled(applied=of_run)
        pulled = merge_head(link, head, link.working_tree.project_tree())  # (3)
        return replace(pulled, applied=of_run.followed_by(pulled.applied))


def merge_head(link: Link, head: Head, tree: Tree) -> Pulled:
    """Steps 4 to 6 of a pull."""
    theirs = link.received(head.project_manifest_hash, tree)
    base = link.base(tree)
    _check_incoming(link, tree, base, theirs)
    applied = _merge_in(link, ConflictRecord(head.snapshot_hash), base, tree, theirs)
    _force_others(link, base, theirs, applied)
    link.record(head.snapshot_hash, theirs, head.user_manifest_hash)  # (6)
    link.conflicts.clear()
    return Pulled(snapshot_hash=head.snapshot_hash, applied=applied)


def _force_others(
    link: Link, base: SourceManifest | None, theirs: SourceManifest, applied: Applied
) -> None:
    """Have on the disk what is new in common and was here before: by a pull that failed, maybe."""
    if base == theirs:
        return
    written = {*applied.written}
    new = changed_paths(base or SourceManifest("project"), theirs)
    force_files(link.working_tree.project, [path for path in new if path not in written])


def _check_incoming(
    link: Link, tree: Tree, base: SourceManifest | None, theirs: SourceManifest
) -> None:
    """Of what is not here and was not in common, nothing that the own rules keep at home.

    They are read before anything is written. What both had once is only removed, as it is not here.
    """
    if tree.manifest == theirs:
        return
    there = {*theirs.items, *theirs.files}
    new = changed_paths(base or SourceManifest("project"), theirs)
    check_incoming([path for path in new if path in there], link.working_tree.rules())


def merge_run(link: Link, snapshot_hash: str) -> Applied:
    """Merge what a run made of the project, which the node could not: the head stays as it is.

    What both began with is the snapshot that the run started from, the first parent. Raises
    RemoteConflictError as a pull does, CasObjectError for a digest of something else.
    """
    tree = link.working_tree.project_tree()
    snapshot = _snapshot(link, snapshot_hash)
    parents = snapshot.parent_hashes[:1]
    base = next(
        (link.manifest(_snapshot(link, one).project_manifest_hash) for one in parents), None
    )
    theirs = link.received(snapshot.project_manifest_hash, tree)
    _check_incoming(link, tree, base, theirs)
    kept = link.conflicts.read()
    if kept and kept.is_of_run and kept.snapshot_hash == snapshot_hash:
        base = kept.seen_by(base or SourceManifest("project"))
    record = ConflictRecord(snapshot_hash, is_of_run=True)
    applied = _merge_in(link, record, base, tree, theirs)
    MergedRuns(link.conflicts.folder.parent).add(snapshot_hash)
    link.conflicts.clear()
    return applied


def finish_run(link: Link) -> Applied:
    """Merge the run whose conflicts were settled. Raises RemoteConflictError while some are not."""
    kept = link.conflicts.read()
    return merge_run(link, kept.snapshot_hash) if kept and kept.is_of_run else Applied()


def _snapshot(link: Link, digest: str) -> ProjectSnapshot:
    return snapshot_of(link.contents.get_object(digest), f"snapshot {digest}")


def _merge_in(
    link: Link,
    record: ConflictRecord,
    base: SourceManifest | None,
    tree: Tree,
    theirs: SourceManifest,
) -> Applied:
    """Steps 4 and 5. ``record`` is what conflicts are kept in, if there are any."""
    folder = link.conflicts.folder.parent / ARRIVED
    if tree.manifest == theirs:
        forget_incoming(folder)
        return Applied()
    with incoming_at(folder, link.store) as incoming:
        remote = RemoteContents(link.node, incoming)
        _prefetch(link, base, tree, theirs, remote)
        contents = Layered(link.store, tree, remote)
        merged = three_way_merge(base, tree.manifest, theirs, contents)  # (4)
        if merged.manifest is None:
            sides = (base, tree.manifest, theirs)
            kept = keep_conflicts(link, record, merged.conflicts, sides, contents)
            raise RemoteConflictError(link.node.name, kept.reasons(), str(link.conflicts.folder))
        return apply_changes(  # (5)
            link.working_tree.project,
            changes(tree.manifest, merged.manifest, contents, checked=theirs),
            contents.get_blob,
            link.incoming(),
            incoming.file_of,
            early=incoming.early,
        )


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
    remote.prefetch(sorted(items - {*tree.item_sources}), link.progress, Space.OBJECT)
    contents = Layered(link.store, tree, remote)
    blobs = {m.files[path] for m, path in wanted if path in m.files}
    for digest in items:
        blobs.add(item_source_of(contents.get_object(digest), f"item {digest}").content_blob_hash)
    remote.prefetch(sorted(blobs - {*tree.blobs}), link.progress, Space.BLOB)


def keep_conflicts(
    link: Link,
    record: ConflictRecord,
    conflicts: tuple[Conflict, ...],
    manifests: tuple[SourceManifest | None, SourceManifest, SourceManifest],
    contents: Layered,
) -> ConflictRecord:
    """Write every version down, for a person to choose from. What was settled before, stays so."""
    empty = SourceManifest("project")
    sides = [manifest or empty for manifest in manifests]
    last = link.conflicts.read()
    former = last.conflicts if last and last.is_of_run == record.is_of_run else {}
    contested = {conflict.path for conflict in conflicts}
    kept = {path: one for path, one in former.items() if one.is_settled and path not in contested}
    link.conflicts.forget_others(kept.keys())
    for conflict in conflicts:
        path = conflict.path
        digests = [blob_at(side, path, contents) for side in sides]
        for version, digest in zip((BASE, OURS, THEIRS), digests, strict=True):
            if digest is not None:
                link.conflicts.keep(version, path, contents.get_blob(digest))
        base, ours, theirs = digests
        entry = entry_at(sides[2], path)
        kept[path] = KeptConflict(
            base=base,
            ours=ours,
            theirs=theirs,
            type=conflict.type,
            entry=entry,
            is_item=path in sides[2].items,
            is_seen=bool(conflict.other) and _was_seen(former.get(path), entry),
            other=conflict.other,
        )
    record = replace(record, conflicts=kept)
    link.conflicts.write(record)
    return record


def _was_seen(former: KeptConflict | None, entry: str | None) -> bool:
    """Whether somebody has settled this against the very version that the node has now."""
    return former is not None and (former.is_settled or former.is_seen) and former.entry == entry
