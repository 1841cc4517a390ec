"""Pull: merge what is new on the node into the project.

(1) the node is the one that is pinned   (2) its head, and what both had in common   (3) the project
as it is   (4) all three merged   (5) what that changes is written, over nothing that was changed
here meanwhile   (6) the head is recorded. Interrupted anywhere, doing it again has the same result.
"""

import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError
from lillux.files import (
    NEW_FILE,
    PLAIN_FILE,
    file_system_error,
    make_directory,
    read_bytes,
    write_atomic,
)
from lillux.store import MAX_BYTES, Durability, Store
from lillux.store_files import (
    MANY,
    EarlyForce,
    ObjectKind,
    ObjectMissingError,
    force_files,
    is_digest,
)
from lillux.values import dataclass, replace
from ryeos.items.errors import RyeError
from ryeos.remote.apply import (
    IS_SUPPORTED,
    AppliedChanges,
    Blobs,
    ReadyFiles,
    apply_changes,
    changed_paths,
    changes,
    entry_at,
)
from ryeos.remote.conflicts import (
    BASE,
    OURS,
    THEIRS,
    ConflictFolder,
    ConflictRecord,
    KeptConflict,
)
from ryeos.remote.errors import RemoteConflictError
from ryeos.remote.link import Link
from ryeos.remote.replies import RemoteHead
from ryeos.remote.transfer import RemoteContents, fetch
from ryeos.sync.checkout import mode_of, remove_tree
from ryeos.sync.merge import MergeConflict, three_way_merge
from ryeos.sync.objects import LayeredContents, ProjectSnapshot, SourceManifest, snapshot_of
from ryeos.sync.paths import folders_above, require_incoming_allowed
from ryeos.sync.tree import Tree

ARRIVED = "arrived"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """What a pull did. ``snapshot_hash`` is ``""`` where the node has no such project."""

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
    """What is merged. ``base`` is what both had, ``changed`` the paths that the node changed."""

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
    """Whether a conflict is open no more as the file here has become what the node has."""
    return entry_at(sides[1], path) == entry_at(sides[2], path) == former.entry


def _was_seen(former: KeptConflict | None, entry: str | None) -> bool:
    """Whether a person has settled this against the very version that the node has now."""
    return former is not None and (former.is_settled or former.is_seen) and former.entry == entry


# --- incoming -------------------------------------------------------------------------------------
# Content on its way into the project: a file for each piece, which becomes the file it is for.
#
# What a pull writes into the project is there afterwards, and the node has it too: no one asks the
# store for it again. Objects say what an item is, as its file shows as well: 16 MiB of them
# are in memory only, the others in the store. Interrupted, all of it stays, and the next pull
# continues from there; but after a kill those of the memory come again.
#
# A file is called by the digest of its bytes, or is in a tree of its own at the path that it is to
# have in the project, so that a folder that is new there is moved in one step. Only a file that
# this very object has written is ever given away; of one from before it is unknown who wrote it,
# so that it is read and hashed again.

_FOLDER_MODE = 0o700
_INNER_FOLDER_MODE = 0o755  # of what becomes a folder of the project
_TREE = "tree"
_MOST_OF_A_PATH = 900  # bytes; the least that a system takes, macOS, is 1024
_MEMORY_BYTES = 16 * 1024 * 1024


@contextmanager
def incoming_at(folder: Path, store: Store) -> Iterator["ReceivedContents"]:
    """The folder while a pull runs. Removed when that has succeeded.

    Raises RyeError `INTEGRITY` where it is a link, FileSystemError.
    """
    incoming = ReceivedContents(folder, store)
    try:
        yield incoming
    except BaseException:  # an interrupt too keeps what has come
        incoming.close()
        raise
    incoming.discard()


def forget_incoming(folder: Path) -> None:
    """Remove the folder: what a killed pull left in it is not needed any more."""
    if folder.is_symlink() or not folder.is_dir():
        return
    with suppress(OSError, LilluxError):
        remove_tree(folder)


class ReceivedContents:
    """Blobs in files of ``folder``; objects in memory as long as there is room, then in the store.

    One user at a time. ``memory_bytes`` is that room, ``early`` the forcing that has begun.

    Raises FileSystemError from everything that reads or writes.
    """

    def __init__(self, folder: Path, store: Store, *, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._folder, self._store = folder, store
        self._objects: dict[str, bytes] = {}
        self._room = memory_bytes
        self._has_stored_blobs = store.may_have(ObjectKind.BLOB)
        self._place = f"{folder}{os.sep}"
        self._tree = f"{self._place}{_TREE}{os.sep}"
        self._places: Mapping[str, str] = {}
        self._folders: set[str] = set()
        self._own: dict[str, str] = {}
        self._early: EarlyForce | None = None
        try:
            with suppress(FileExistsError):
                folder.mkdir(_FOLDER_MODE)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise RyeError(
                    f"{folder!s}: expected a folder of the project's own, found a link",
                    code="INTEGRITY",
                    hint="remove the link, and look who put it there",
                    path=str(folder),
                )
            self._take_over_tree(folder / _TREE)
            self._left = {name for name in os.listdir(folder) if is_digest(name)}  # noqa: PTH208 - names
        except OSError as error:
            raise file_system_error(folder, error) from error

    def has_blob(self, digest: str) -> bool:
        """Whether it has come, or was in the store before."""
        if digest in self._own or digest in self._left:
            return True
        return self._has_stored_blobs and self._store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """Whether it has come, or was in the store before."""
        return digest in self._objects or self._store.has_object(digest)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest, hashed again. Raises ObjectMissingError, and as a store does."""
        if digest not in self._own and digest not in self._left:
            return self._store.get_blob(digest)
        data = self._read(self._own.get(digest, self._place + digest))
        if data is None or sha256_hex(data) != digest:  # meddled with: it is fetched again
            self._own.pop(digest, None)
            self._left.discard(digest)
            raise ObjectMissingError(ObjectKind.BLOB.value, digest, str(self._folder))
        return data

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest. Raises as a store does."""
        data = self._objects.get(digest)
        return self._store.get_object(digest) if data is None else json.loads(data)

    def file_of(self, digest: str) -> str | None:
        """A file with these bytes that may become a file of the project, if it is ours; or None."""
        return self._own.get(digest)

    def place(self, places: Mapping[str, str]) -> None:
        """Where in the project the bytes of some digests would be: paths that are not there yet.

        The paths have passed `ryeos.sync.paths.require_safe_paths`. Called once, before they come.
        """
        room = _MOST_OF_A_PATH - len(os.fsencode(self._tree))
        if IS_SUPPORTED:  # else no folder would be moved, and a path may be too long
            self._places = {d: path for d, path in places.items() if len(path.encode()) < room}

    def ready_files(self) -> ReadyFiles:
        """All that was written and may become files of the project."""
        places = self._places.items()
        placed = {path: digest for digest, path in places if digest in self._own}
        return ReadyFiles(file_of=self.file_of, tree=self._tree, placed=placed, early=self._early)

    def keep(self, space: ObjectKind, digest: str, data: bytes, durability: Durability) -> None:
        """Keep bytes whose digest was just computed, until `discard` at least."""
        if space is ObjectKind.OBJECT:
            self._keep_object(digest, data, durability)
        elif digest not in self._own:
            try:
                path = self._path_of(digest)
                self._write(path, data)
            except OSError as error:
                raise file_system_error(self._folder, error) from error
            self._own[digest] = path

    def put_blob(self, data: bytes, durability: Durability = Durability.UNFORCED) -> str:
        """Keep bytes until `discard`. Their digest."""
        digest = sha256_hex(data)
        self.keep(ObjectKind.BLOB, digest, data, durability)
        return digest

    def put_object(self, value: Any, durability: Durability) -> str:  # noqa: ANN401 - JSON
        """Keep a value until `discard` at least. Its digest."""
        data = canonical_json(value)
        digest = sha256_hex(data)
        self.keep(ObjectKind.OBJECT, digest, data, durability)
        return digest

    def sync(self) -> None:
        """Have the system begin to write where the files are many: they are forced at the end."""
        if len(self._own) >= MANY and self._early is None:
            self._early = EarlyForce(str(self._folder))

    def close(self) -> None:
        """Keep all that came for another time."""
        with suppress(LilluxError):  # the error that interrupted this is the one to report
            for digest, data in self._objects.items():
                self._store.keep(ObjectKind.OBJECT, digest, data, Durability.UNFORCED)
            self._store.sync()

    def discard(self) -> None:
        """Remove the files: what was in them is where it belongs. The store is on the disk."""
        self._store.sync()
        forget_incoming(self._folder)

    def _keep_object(self, digest: str, data: bytes, durability: Durability) -> None:
        if len(data) > self._room:
            self._store.keep(ObjectKind.OBJECT, digest, data, durability)
        elif digest not in self._objects:
            self._objects[digest] = data
            self._room -= len(data)

    def _path_of(self, digest: str) -> str:
        """Where the bytes of a digest are written, in a folder that is there."""
        place = self._places.get(digest)
        if place is None:
            return self._place + digest
        if place.rpartition("/")[0] not in self._folders:
            for folder in ("", *folders_above(place)):
                if folder not in self._folders:
                    os.mkdir(self._tree + folder, _INNER_FOLDER_MODE)  # noqa: PTH102 - text
                    self._folders.add(folder)
        return self._tree + place

    def _take_over_tree(self, tree: Path) -> None:
        """Keep what a pull that was killed has put into its tree, by the digest of the bytes."""
        if tree.is_symlink():
            tree.unlink()
            return
        for folder, _, names in os.walk(tree) if IS_SUPPORTED else ():
            for name in names:
                path = f"{folder}{os.sep}{name}"
                data = self._read(path)
                if data is not None:
                    os.replace(path, self._place + sha256_hex(data))  # noqa: PTH105 - text
        remove_tree(tree)

    @staticmethod
    def _write(path: str, data: bytes) -> None:
        try:
            descriptor = os.open(path, NEW_FILE, mode_of(data))
        except FileExistsError:  # from before, or from an unknown writer
            os.unlink(path)  # noqa: PTH108 - many times
            descriptor = os.open(path, NEW_FILE, mode_of(data))
        try:
            written = os.write(descriptor, data)
            while written < len(data):  # a signal, or more than the system takes at once
                written += os.write(descriptor, memoryview(data)[written:])
        finally:
            os.close(descriptor)

    @staticmethod
    def _read(path: str) -> bytes | None:
        """All of a plain file; None for anything else, which nothing here has written."""
        try:
            descriptor = os.open(path, PLAIN_FILE)
        except OSError:
            return None
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(MAX_BYTES + 1)
        return data if len(data) <= MAX_BYTES else None


# --- merged runs ----------------------------------------------------------------------------------
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
        """Whether the run that left this snapshot was merged."""
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
