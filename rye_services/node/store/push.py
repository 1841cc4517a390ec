"""Decides a push: validates what a client sent, and moves the head or says why not.

Format of requests and answers: ``docs/sync.md``. Independent of HTTP.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from sqlalchemy import Connection

import ryeos
from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.store import Durability
from lillux.store_errors import ObjectChangedError, ObjectMissingError, StoreLinkError
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass, replace
from rye_services.node.store.heads import (
    Head,
    Heads,
    UserSpaceRef,
    UserSpaceRefs,
    is_lost,
    keep_loose_ends,
    made_again,
)
from rye_services.node.store.objects import DurableStores, KnownItems, KnownManifests
from rye_services.storage.database import stamp
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError
from ryeos.sync.admission import InadmissibleError, require_admissible, why_never
from ryeos.sync.contents import ContentStore
from ryeos.sync.entries import ContentEntry
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import (
    PUSH,
    ManifestChanges,
    ManifestSpace,
    ProjectSnapshot,
    SourceManifest,
    item_source_of,
    manifest_of,
)
from ryeos.sync.paths import UnsafeManifestError, require_safe_paths
from ryeos.sync.tree_walk import SkippedFile

_log = logging.getLogger(__name__)

# --- pushing --------------------------------------------------------------------------------------


Guard = Callable[[Connection], None]
"""What a change asks first in its transaction; it raises where the change is not allowed."""


class HeadMovedError(LilluxError):
    """The head is not where the client thinks. None is "no such project"."""

    code, exit_status = "HEAD_MOVED", 7

    def __init__(self, expected: str | None, actual: Head | None) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(
            f"HEAD has moved: expected {expected}, found {actual and actual.snapshot_hash}",
            hint="merge what is there, then push with its snapshot as the expected one",
        )


class RevisionMovedError(LilluxError):
    """The user space is not of the revision that the client thinks. None is "none yet"."""

    code, exit_status = "HEAD_MOVED", 7

    def __init__(self, expected: int | None, actual: int | None) -> None:
        self.expected, self.actual = expected, actual
        self.http_status = 404 if actual is None else 409
        super().__init__(
            f"the user space has moved: expected revision {expected}, found {actual}",
            hint="read GET /user-space and push with its revision as the expected one",
        )


class SystemVersionError(LilluxError):
    """A client whose manifests may mean something else here."""

    code, exit_status = "VERSION_MISMATCH", 7

    def __init__(self, version: str, taken: Sequence[str]) -> None:
        self.version, self.taken = version, tuple(taken)
        super().__init__(
            f"system_version: expected {' or '.join(f'{one}.x' for one in dict.fromkeys(taken))}, "
            f"found {version[:80]!r}",
            hint="update the client, or this node",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPush:
    """What a client asks for. ``expected_snapshot_hash`` None: there is no such project yet.

    restores_head  where the snapshot of the head is lost for good, history begins anew
    """

    project_path: str
    project_manifest_hash: str
    system_version: str = ""
    expected_snapshot_hash: str | None = None
    restores_head: bool = False


class PushService:
    """Moves heads to what was uploaded, for the node called ``remote_name``. Thread-safe."""

    def __init__(
        self,
        *,
        heads: Heads,
        user_spaces: UserSpaceRefs,
        known: KnownItems,
        durable: DurableStores,
        clock: Clock,
        remote_name: str,
        compatible_versions: Sequence[str],
    ) -> None:
        self._heads, self._user_spaces = heads, user_spaces
        self._known, self._durable, self._clock = known, durable, clock
        self._remote_name = remote_name
        self._versions = (*compatible_versions,)

    def changed_manifest(
        self, user_id: str, store: ContentStore, push: ProjectPush, changes: ManifestChanges
    ) -> ContentEntry:
        """The manifest of a push, made of that of the head, which is where the client expects it.

        Raises HeadMovedError, ManifestGraphError; what is changed is not looked at.
        """
        head = self._heads.read(user_id, self._remote_name, push.project_path)
        _require_expected_head(push.expected_snapshot_hash, head)
        base = SourceManifest("project")
        if head:
            known = self._known.manifests
            base = read_pushed_manifest(head.project_manifest_hash, "project", store, known)
        try:
            made = changes.applied_to(base)
        except CasObjectError as error:
            raise ManifestGraphError(push.project_manifest_hash, [str(error)]) from error
        data = canonical_json(made.as_object())
        digest = sha256_hex(data)
        if digest != push.project_manifest_hash:
            problem = f"expected the changes to make it of that of the head, they make {digest}"
            raise ManifestGraphError(push.project_manifest_hash, [problem])
        self._known.manifests.keep(digest, made)
        return ContentEntry(digest, "object", data)

    def push_project(
        self,
        user_id: str,
        store: ContentStore,
        push: ProjectPush,
        guard: Guard = lambda _: None,
    ) -> Head:
        """The head of the project, after the push.

        1. all that the manifest leads to is there and sound
        2. the client's version is one whose manifests mean the same here
        3. the head is where the client expects it; a snapshot of it that is lost is made again
        4. nothing has changed: the present head, and history does not grow
        5. a snapshot with the present head as its parent; without one if that is lost for good
        6. all of it is on the disk
        7. the head moves, unless another was faster; ``guard`` is asked in that transaction

        Raises ManifestGraphError, SystemVersionError, HeadMovedError, and as ``guard``.
        """
        manifest_hash, path = push.project_manifest_hash, push.project_path
        head = self._heads.read(user_id, self._remote_name, path)
        self._verify(push, head, store)  # (1)
        self._require_same_version(push.system_version)  # (2)
        _require_expected_head(push.expected_snapshot_hash, head)  # (3)
        is_lost_for_good = head is not None and not _restore_snapshot(store, head)
        user_manifest_hash = self._user_manifest_hash(user_id)
        is_same = head is not None and _is_same(head, manifest_hash, user_manifest_hash)
        if head and is_same and not is_lost_for_good:  # (4)
            self._durable.force(store)
            return head
        parents = (head.snapshot_hash,) if head else ()
        if is_lost_for_good and push.restores_head:
            parents = ()
            self._keep_history(user_id, store, push)
        now = self._clock()
        snapshot = ProjectSnapshot(
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            parent_hashes=parents,
            source=PUSH,
            timestamp=stamp(now),
        )
        snapshot_hash = store.put_object(snapshot.as_object(), Durability.AT_SYNC)  # (5)
        self._durable.force(store)  # (6)
        moved = self._heads.advance(  # (7)
            user_id,
            self._remote_name,
            path,
            expected=head,
            snapshot_hash=snapshot_hash,
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            system_version=push.system_version,
            now=now,
            first=guard,
        )
        if moved is None:
            present = self._heads.read(user_id, self._remote_name, path)
            raise HeadMovedError(push.expected_snapshot_hash, present)
        return moved

    def _user_manifest_hash(self, user_id: str) -> str | None:
        space = self._user_spaces.read(user_id, self._remote_name)
        return space.user_manifest_hash if space else None

    def push_user_space(
        self, user_id: str, store: ContentStore, manifest_hash: str, expected_revision: int | None
    ) -> UserSpaceRef:
        """The user space, after the push.

        1. all that the manifest leads to is there and sound
        2. all of it is on the disk
        3. it takes the place of the revision that the client expects

        Raises ManifestGraphError, RevisionMovedError, FileSystemError.
        """
        verify_pushed_objects(manifest_hash, "user", store, self._known)  # (1)
        self._durable.force(store)  # (2)
        moved = self._user_spaces.advance(  # (3)
            user_id,
            self._remote_name,
            expected_revision=expected_revision,
            user_manifest_hash=manifest_hash,
            now=self._clock(),
        )
        if moved is None:
            present = self._user_spaces.read(user_id, self._remote_name)
            raise RevisionMovedError(expected_revision, present.revision if present else None)
        return moved

    def _verify(self, push: ProjectPush, head: Head | None, store: ContentStore) -> None:
        """Raises ManifestGraphError. What a head leads to that was not lost is sound."""
        trusted = head.project_manifest_hash if head else None
        if head and (push.restores_head or is_lost(store, head)):
            trusted = None
        if trusted != push.project_manifest_hash:
            verify_pushed_objects(
                push.project_manifest_hash, "project", store, self._known, head_manifest=trusted
            )

    def _keep_history(self, user_id: str, store: ContentStore, push: ProjectPush) -> None:
        """What is left of a history whose newest snapshot is lost is named by refs."""
        heads = [head.snapshot_hash for _, _, head in self._heads.of(user_id)]
        kept = keep_loose_ends(store, heads)
        _log.warning("%a begins a new history, kept by refs: %s", push.project_path, kept)

    def _require_same_version(self, version: str) -> None:
        own = _major_minor(ryeos.__version__)
        if version and _major_minor(version) not in {*self._versions, own}:
            raise SystemVersionError(version, (*self._versions, own))


def _require_expected_head(expected: str | None, head: Head | None) -> None:
    if expected != (head.snapshot_hash if head else None):
        raise HeadMovedError(expected, head)


def _restore_snapshot(store: ContentStore, head: Head) -> bool:
    """Whether the snapshot of a head is there, perhaps made again only now."""
    if not is_lost(store, head):
        return True
    store.set_aside(ObjectKind.OBJECT, head.snapshot_hash)
    value = made_again(store, head)
    if value is not None:
        store.put_object(value, Durability.AT_SYNC)
        _log.warning("the lost snapshot %s was made again", head.snapshot_hash)
    return value is not None


def _is_same(head: Head, manifest_hash: str, user_manifest_hash: str | None) -> bool:
    return (head.project_manifest_hash, head.user_manifest_hash) == (
        manifest_hash,
        user_manifest_hash,
    )


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


# --- validation -----------------------------------------------------------------------------------
# Whether everything that a manifest leads to is in a store, and sound: asked before each push.
#
# The order, which is that of ``docs/sync.md``:
#
# 1. the manifest is an object of schema 2, of the kind and the space that was asked for
# 2. its paths could be written into any folder of any platform, and none of them never travels
# 3. each item is an ``item_source``
# 4. the blob of each item and of each file is there
#
# What the head of the project leads to is known to be sound, and is not looked at again.

MAX_PATHS = 200_000
"""Of one manifest. More would keep a worker busy for the better part of a minute."""


def verify_pushed_objects(
    digest: str,
    space: ManifestSpace,
    store: ContentStore,
    known: KnownItems,
    *,
    head_manifest: str | None = None,
) -> SourceManifest:
    """The manifest of a digest, everything that it leads to being there and sound.

    ``head_manifest`` is that of a head: what it leads to was looked at when it became one, and
    no sweep takes it, so that only what is new here is looked at.

    What is found is marked as used now (`Store.touch`), so that no sweep takes it before a head
    names it. Raises ManifestGraphError with every defect, FileSystemError.
    """
    manifest = read_pushed_manifest(digest, space, store, known.manifests)  # (1)
    sound = _sound_manifest(head_manifest, space, store, known.manifests)
    new = _content_not_in(sound, manifest)
    defects = [
        *([] if _has_only_paths_of(sound, manifest) else _path_defects(manifest)),  # (2)
        *_item_defects(new, store, known),  # (3) and (4) of items
        *_file_defects(new, store),  # (4) of files
    ]
    if defects:
        raise ManifestGraphError(digest, defects)
    return manifest


def read_pushed_manifest(
    digest: str, space: ManifestSpace, store: ContentStore, known: KnownManifests | None = None
) -> SourceManifest:
    """The manifest of a digest, whatever it leads to: (1) of the order. It is used now.

    Its bytes are hashed; what they say is taken from ``known`` where that has it, and kept there.
    Raises ManifestGraphError, FileSystemError.
    """
    if not is_digest(digest):
        raise ManifestGraphError(digest, ["expected 64 lower-case hex digits"])
    try:
        data = _read_bytes(digest, store)
        manifest = known.get(digest) if known else None
        if manifest is None:
            manifest = manifest_of(_json(digest, data), "manifest")
    except (_DefectError, CasObjectError) as error:
        raise ManifestGraphError(digest, [str(error)]) from error
    if manifest.space != space:
        problem = f"expected a manifest of the {space} space, found one of {manifest.space!r}"
        raise ManifestGraphError(digest, [problem])
    paths = len(manifest.items) + len(manifest.files)
    if paths > MAX_PATHS:
        problem = f"expected at most {MAX_PATHS} paths, found {paths}"
        raise ManifestGraphError(digest, [problem])
    if not store.touch(ObjectKind.OBJECT, digest):  # swept since it was read
        raise ManifestGraphError(digest, [f"object {digest} is missing"])
    if known:
        known.keep(digest, manifest)
    return manifest


def _sound_manifest(
    digest: str | None, space: ManifestSpace, store: ContentStore, known: KnownManifests
) -> SourceManifest:
    """The manifest of a head; an empty one where it cannot be read."""
    if digest is None:
        return SourceManifest(space)
    try:
        return read_pushed_manifest(digest, space, store, known)
    except ManifestGraphError:
        return SourceManifest(space)


def _content_not_in(sound: SourceManifest, manifest: SourceManifest) -> SourceManifest:
    items, files = {*sound.items.values()}, {*sound.files.values()}
    return SourceManifest(
        manifest.space,
        {path: digest for path, digest in manifest.items.items() if digest not in items},
        {path: digest for path, digest in manifest.files.items() if digest not in files},
    )


def _has_only_paths_of(sound: SourceManifest, manifest: SourceManifest) -> bool:
    """Whether no path is new: of paths that can be side by side, some can be as well."""
    return manifest.items.keys() <= sound.items.keys() and (
        manifest.files.keys() <= sound.files.keys()
    )


def _path_defects(manifest: SourceManifest) -> Iterator[str]:
    try:
        require_safe_paths(chain(manifest.items, manifest.files))
    except UnsafeManifestError as error:
        yield str(error)
        return
    try:
        require_admissible(manifest)
    except InadmissibleError as error:
        for one in error.refused:
            yield f"{one.path!r}: {one.problem}"


def _item_defects(
    manifest: SourceManifest, store: ContentStore, known: KnownItems
) -> Iterator[str]:
    items = store.touch_all(ObjectKind.OBJECT, dict.fromkeys(manifest.items.values()))
    blobs: dict[str, str] = {}
    for path, digest in manifest.items.items():
        if digest not in items:
            yield f"items: {path!r}: object {digest} is missing"
            continue
        try:
            blobs[path] = _blob_of(digest, store, known)
        except _DefectError as error:
            yield f"items: {path!r}: {error}"
    yield from _missing_blobs("items", blobs, store)


def _file_defects(manifest: SourceManifest, store: ContentStore) -> Iterator[str]:
    yield from _missing_blobs("files", manifest.files, store)


def _missing_blobs(where: str, blobs: Mapping[str, str], store: ContentStore) -> Iterator[str]:
    there = store.touch_all(ObjectKind.BLOB, dict.fromkeys(blobs.values()))
    for path, digest in blobs.items():
        if digest not in there:
            yield f"{where}: {path!r}: blob {digest} is missing"


def _blob_of(digest: str, store: ContentStore, known: KnownItems) -> str:
    """The blob that an item leads to. Raises _DefectError."""
    blob = known.blob_of(digest)
    if blob is None:
        try:
            item = item_source_of(_read(digest, store), f"item_source {digest}")
        except CasObjectError as error:
            raise _DefectError(str(error)) from error
        blob = item.content_blob_hash
        known.remember(digest, blob)
    return blob


def _read(digest: str, store: ContentStore) -> object:
    """The value of an object. Raises _DefectError."""
    return _json(digest, _read_bytes(digest, store))


def _json(digest: str, data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _DefectError(f"object {digest}: expected canonical JSON") from None


def _read_bytes(digest: str, store: ContentStore) -> bytes:
    """An object, whole. Raises _DefectError.

    One that does not hold what its name says is set aside: a store takes content of the right
    size as written, so no client could ever put the sound one in its place.
    """
    try:
        return store.get_bytes(ObjectKind.OBJECT, digest)
    except ObjectMissingError:
        raise _DefectError(f"object {digest} is missing") from None
    except ObjectChangedError:
        store.set_aside(ObjectKind.OBJECT, digest)
        raise _DefectError(f"object {digest} was damaged here, upload it again") from None
    except StoreLinkError:  # its text has a path of the server
        raise _DefectError(f"object {digest} cannot be read here") from None


class _DefectError(Exception):
    """One defect, in words."""


# --- manifest errors ------------------------------------------------------------------------------
# What can be wrong with a manifest that a client pushes.

MAX_NAMED = 20
"""Defects that a message lists; the rest is a number."""


class ManifestGraphError(RyeError):
    """A manifest, or what it leads to, is missing or not sound. ``defects`` are all of them."""

    code = "CAS_OBJECT_INVALID"

    def __init__(self, digest: str, defects: Sequence[str]) -> None:
        self.digest, self.defects = digest, tuple(defects)
        named = "; ".join(self.defects[:MAX_NAMED])
        more = len(self.defects) - MAX_NAMED
        super().__init__(
            f"manifest {digest[:80]}: {named}" + (f"; and {more} more" if more > 0 else ""),
            hint="upload what is missing to /objects/put, then push again",
        )


# --- user space manifest --------------------------------------------------------------------------
# A user space as it was pushed, without what never travels.
#
# Clients of the public implementation push the private half of a user's box key with every user
# space. It is left out of what is kept, not refused: else none of them could use this node
# (ADR 0020).


@dataclass(frozen=True, slots=True)
class KeptManifest:
    """The digest of what is kept, and what was left out for that: nothing for most."""

    manifest_hash: str
    left_out: tuple[SkippedFile, ...] = ()


def kept_user_manifest(digest: str, store: ContentStore) -> KeptManifest:
    """The manifest of a user space without those items that no client should have sent.

    `verify_pushed_objects` refuses whatever else is wrong with it.
    Raises ManifestGraphError for one that cannot be read, FileSystemError.
    """
    manifest = read_pushed_manifest(digest, "user", store)
    judged = [(path, why_never(path, is_item=True)) for path in manifest.items]
    left_out = tuple(SkippedFile(path, problem) for path, problem in judged if problem)
    if not left_out:
        return KeptManifest(digest)
    gone = {one.path for one in left_out}
    items = {path: item for path, item in manifest.items.items() if path not in gone}
    kept = replace(manifest, items=items)
    return KeptManifest(store.put_object(kept.as_object(), Durability.AT_SYNC), left_out)
