"""Pull: merge what is new on the node into the project.

(1) the node is the one that is pinned   (2) its head, and what both had in common   (3) the project
as it is   (4) all three merged   (5) what that changes is written, over nothing that was changed
here meanwhile   (6) the head is recorded. Interrupted anywhere, doing it again has the same result.
"""

import json
import logging
from collections.abc import Sequence

from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.store_forcing import force_files
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass, replace
from ryeos.remote.apply import (
    AppliedChanges,
    Blobs,
    apply_changes,
    changed_paths,
    changes,
    entry_at,
)
from ryeos.remote.conflicts import BASE, OURS, THEIRS, ConflictFolder, ConflictRecord, KeptConflict
from ryeos.remote.errors import RemoteConflictError
from ryeos.remote.incoming import ReceivedContents, forget_incoming, incoming_at
from ryeos.remote.link import Link
from ryeos.remote.replies import RemoteHead
from ryeos.remote.transfer import RemoteContents, fetch
from ryeos.sync.admission import require_incoming_allowed
from ryeos.sync.contents import LayeredContents
from ryeos.sync.merge import MergeConflict, three_way_merge
from ryeos.sync.objects import ProjectSnapshot, SourceManifest, snapshot_of
from ryeos.sync.tree import Tree

ARRIVED = "arrived"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """The result of a pull. ``snapshot_hash`` is ``""`` where the node has no such project."""

    snapshot_hash: str = ""
    applied: AppliedChanges = AppliedChanges()


def pull(link: Link) -> PullResult:
    """Bring the project to the node's head.

    Raises RemoteConflictError where both changed the same; then nothing was written.
    """
    link.node.verify()  # (1)
    with link.alone():
        of_run = finish_run(link)
        head = link.head()  # (2)
        if head is None:
            return PullResult(applied=of_run)
        pulled = merge_head(link, head, link.working_tree.project_tree())  # (3)
        return replace(pulled, applied=of_run.followed_by(pulled.applied))


def merge_head(link: Link, head: RemoteHead, tree: Tree) -> PullResult:
    """Steps 4 to 6 of a pull."""
    theirs = link.received(head.project_manifest_hash, tree)
    base = link.base(tree)
    sides = _sides(base, tree, theirs)
    _require_incoming_allowed(link, sides)
    applied = _merge_in(link, ConflictRecord(head.snapshot_hash), sides)
    _force_others(link, sides, applied)
    link.record(head.snapshot_hash, theirs, head.user_manifest_hash)  # (6)
    link.conflicts.clear()
    return PullResult(snapshot_hash=head.snapshot_hash, applied=applied)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The sides. ``base`` is what both had, ``changed`` the paths that the node changed."""

    base: SourceManifest | None
    tree: Tree
    theirs: SourceManifest
    changed: Sequence[str]


def _sides(base: SourceManifest | None, tree: Tree, theirs: SourceManifest) -> _Sides:
    return _Sides(base, tree, theirs, changed_paths(base or SourceManifest("project"), theirs))


def _force_others(link: Link, sides: _Sides, applied: AppliedChanges) -> None:
    """Have on the disk what is new in common and was here before: by a pull that failed, maybe."""
    written = {*applied.written}
    others = [path for path in sides.changed if path not in written]
    force_files(link.working_tree.project, others)


def _require_incoming_allowed(link: Link, sides: _Sides) -> None:
    """Refuse a path that the node adds and that the rules of this project do not let travel.

    The rules are read before anything is written. Paths that are here already may change.
    """
    ours, theirs = sides.tree.manifest, sides.theirs
    if ours == theirs:
        return
    require_incoming_allowed(
        [path for path in sides.changed if path in theirs.files or path in theirs.items],
        link.working_tree.rules(),
        present={*ours.items, *ours.files},
        accepted=link.accepted,
    )


def merge_run(link: Link, snapshot_hash: str) -> AppliedChanges:
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
    _require_incoming_allowed(link, _sides(base, tree, theirs))
    kept = link.conflicts.read()
    if kept and kept.is_of_run and kept.snapshot_hash == snapshot_hash:
        base = kept.seen_by(base or SourceManifest("project"))
    record = ConflictRecord(snapshot_hash, is_of_run=True)
    applied = _merge_in(link, record, _sides(base, tree, theirs))
    MergedRuns(link.conflicts).add(snapshot_hash)
    link.conflicts.clear()
    return applied


def finish_run(link: Link) -> AppliedChanges:
    """Merge the run whose conflicts were settled. Raises RemoteConflictError while some are not."""
    kept = link.conflicts.read()
    return merge_run(link, kept.snapshot_hash) if kept and kept.is_of_run else AppliedChanges()


def _snapshot(link: Link, digest: str) -> ProjectSnapshot:
    return snapshot_of(link.contents.get_object(digest), f"snapshot {digest}")


def _merge_in(link: Link, record: ConflictRecord, sides: _Sides) -> AppliedChanges:
    """Steps 4 and 5. ``record`` is what conflicts are kept in, if there are any."""
    folder = link.conflicts.folder.parent / ARRIVED
    base, tree, theirs = sides.base, sides.tree, sides.theirs
    if tree.manifest == theirs:
        forget_incoming(folder)
        return AppliedChanges()
    with incoming_at(folder, link.store) as incoming:
        contents = LayeredContents(link.store, tree, RemoteContents(link.node, incoming))
        blobs = Blobs(contents)
        _prefetch(link, sides, incoming, blobs)
        merged = three_way_merge(base, tree.manifest, theirs, contents)  # (4)
        if merged.manifest is None:
            manifests = (base, tree.manifest, theirs)
            kept = keep_conflicts(link, record, merged.conflicts, manifests, contents)
            raise RemoteConflictError(link.node.name, kept.reasons(), str(link.conflicts.folder))
        return apply_changes(  # (5)
            link.working_tree.project,
            changes(tree.manifest, merged.manifest, blobs, checked=theirs),
            contents.get_blob,
            link.incoming(),
            incoming.ready_files(),
        )


def _prefetch(link: Link, sides: _Sides, incoming: "ReceivedContents", blobs: Blobs) -> None:
    """Have in ``incoming`` all that the merge may ask the node for.

    It comes in few requests: objects of items first, then bytes. Bytes of one file alone, which is
    not in the project, are placed there as they would be in it.
    """
    base, ours, theirs = sides.base or SourceManifest("project"), sides.tree.manifest, sides.theirs
    contested = {*sides.changed} & {*changed_paths(base, ours)}
    wanted = [(theirs, path) for path in sides.changed]
    wanted += [(base, path) for path in sorted(contested)]
    items = {m.items[path] for m, path in wanted if path in m.items}
    here = sides.tree
    missing = sorted(items - {*here.item_sources})
    fetch(link.node, missing, incoming, link.progress, ObjectKind.OBJECT)
    places: dict[str, str] = {}  # of the file that bytes are for, "" for several
    for manifest, path in wanted:
        digest = blobs.at(manifest, path)
        if digest is None or digest in here.blobs:
            continue
        is_new = manifest is theirs and digest not in places and not entry_at(ours, path)
        places[digest] = path if is_new else ""
    incoming.place({digest: path for digest, path in places.items() if path})
    # Folder by folder: a file system makes many files in one faster than in all of them by turns.
    by_folder = sorted(places, key=places.__getitem__)
    fetch(link.node, by_folder, incoming, link.progress, ObjectKind.BLOB)


def keep_conflicts(
    link: Link,
    record: ConflictRecord,
    conflicts: tuple[MergeConflict, ...],
    manifests: tuple[SourceManifest | None, SourceManifest, SourceManifest],
    contents: LayeredContents,
) -> ConflictRecord:
    """Keep every version, for a person to choose from. What was settled before, stays so.

    So does what has the node's version here: settling it was cut off before the record said so.
    """
    empty = SourceManifest("project")
    sides = [manifest or empty for manifest in manifests]
    blobs = Blobs(contents)
    last = link.conflicts.read()
    former = last.conflicts if last and last.is_of_run == record.is_of_run else {}
    contested = {conflict.path for conflict in conflicts}
    kept = {
        path: replace(one, is_settled=True)
        for path, one in former.items()
        if path not in contested and (one.is_settled or _is_taken(path, one, sides))
    }
    link.conflicts.forget_others(kept.keys())
    for conflict in conflicts:
        path = conflict.path
        digests = [blobs.at(side, path) for side in sides]
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


def _is_taken(path: str, former: KeptConflict, sides: Sequence[SourceManifest]) -> bool:
    """True if a conflict is open no more as the file here has become what the node has."""
    return entry_at(sides[1], path) == entry_at(sides[2], path) == former.entry


def _was_seen(former: KeptConflict | None, entry: str | None) -> bool:
    """True if a person has settled this against the very version that the node has now."""
    return former is not None and (former.is_settled or former.is_seen) and former.entry == entry


# Which runs that a node could not merge were merged here: no person is asked about one twice.
#
# ``.ai/state/remote/<name>/merged-runs.json``: the digests of their snapshots, the newest last.
# Nothing else depends on it: without the file a run is merged once more.

MOST = 1000
_MAX_BYTES = 1024 * 1024
_LOG = logging.getLogger(__name__)


class MergedRuns:
    """The runs of one remote, kept beside its ``conflicts`` in the state of the project."""

    def __init__(self, conflicts: ConflictFolder) -> None:
        self.path, self._within = conflicts.folder.parent / "merged-runs.json", conflicts.within

    def all(self) -> frozenset[str]:
        """The snapshots of all that are remembered."""
        return frozenset(self._read())

    def has(self, snapshot_hash: str) -> bool:
        """True if the run that left this snapshot was merged."""
        return snapshot_hash in self._read()

    def add(self, snapshot_hash: str) -> None:
        """Remember one, and of the rest the newest. Raises FileSystemError."""
        others = [one for one in self._read() if one != snapshot_hash]
        data = json.dumps([*others, snapshot_hash][-MOST:]).encode()
        make_directory(self.path.parent, within=self._within)
        write_atomic(self.path, data, within=self._within)

    def _read(self) -> list[str]:
        try:
            value = json.loads(read_bytes(self.path, _MAX_BYTES))
        except FileNotFoundError:
            return []
        except (LilluxError, ValueError, RecursionError) as error:
            _LOG.warning("%s cannot be read: %s", self.path, error)
            return []
        return [one for one in value if is_digest(one)] if isinstance(value, list) else []
