"""Whether everything that a manifest leads to is in a store, and sound: asked before each push.

The order, which is that of ``docs/sync.md``:

1. the manifest is an object of schema 2, of the kind and the space that was asked for
2. its paths could be written into any folder of any platform, and are none that never travel
3. each item is an ``item_source``
4. the blob of each item and of each file is there

What the head of the project leads to is known to be sound, and is not looked at again.
"""

from collections.abc import Iterator
from itertools import chain

from lillux.store import Store
from lillux.store_files import (
    ObjectChangedError,
    ObjectMissingError,
    ObjectUnreadableError,
    Space,
    StoreLinkError,
    is_digest,
)
from rye_services.node.known_items import KnownItems
from rye_services.node.manifest_errors import ManifestGraphError
from ryeos.sync.objects import (
    CasObjectError,
    ManifestSpace,
    SourceManifest,
    item_source_of,
    manifest_of,
)
from ryeos.sync.paths import (
    InadmissibleError,
    UnsafeManifestError,
    check_admissible,
    check_manifest_paths,
)

MAX_PATHS = 200_000
"""Of one manifest. More would keep a worker busy for the better part of a minute."""


def check_graph(
    digest: str,
    space: ManifestSpace,
    store: Store,
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
    manifest = read_pushed_manifest(digest, space, store)  # (1)
    sound = _sound_manifest(head_manifest, space, store)
    new = _content_not_in(sound, manifest)
    defects = [
        *([] if _has_only_paths_of(sound, manifest) else _path_defects(manifest)),  # (2)
        *_item_defects(new, store, known),  # (3) and (4) of items
        *_file_defects(new, store),  # (4) of files
    ]
    if defects:
        raise ManifestGraphError(digest, defects)
    return manifest


def read_pushed_manifest(digest: str, space: ManifestSpace, store: Store) -> SourceManifest:
    """The manifest of a digest, whatever it leads to: (1) of the order. It is used now.

    Raises ManifestGraphError, FileSystemError.
    """
    if not is_digest(digest):
        raise ManifestGraphError(digest, ["expected 64 lower-case hex digits"])
    try:
        value = _read(digest, store)
        manifest = manifest_of(value, "manifest")
    except (_DefectError, CasObjectError) as error:
        raise ManifestGraphError(digest, [str(error)]) from error
    if manifest.space != space:
        problem = f"expected a manifest of the {space} space, found one of {manifest.space!r}"
        raise ManifestGraphError(digest, [problem])
    paths = len(manifest.items) + len(manifest.files)
    if paths > MAX_PATHS:
        problem = f"expected at most {MAX_PATHS} paths, found {paths}"
        raise ManifestGraphError(digest, [problem])
    store.touch(Space.OBJECT, digest)
    return manifest


def _sound_manifest(digest: str | None, space: ManifestSpace, store: Store) -> SourceManifest:
    """That of a head; an empty one, which vouches for nothing, where there is none to be read."""
    if digest is None:
        return SourceManifest(space)
    try:
        return read_pushed_manifest(digest, space, store)
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
        check_manifest_paths(chain(manifest.items, manifest.files))
    except UnsafeManifestError as error:
        yield str(error)
        return
    try:
        check_admissible(manifest)
    except InadmissibleError as error:
        for one in error.refused:
            yield f"{one.path!r}: {one.problem}"


def _item_defects(manifest: SourceManifest, store: Store, known: KnownItems) -> Iterator[str]:
    for path, digest in manifest.items.items():
        try:
            blob = _blob_of(digest, store, known)
        except _DefectError as error:
            yield f"items: {path!r}: {error}"
            continue
        if not store.touch(Space.BLOB, blob):
            yield f"items: {path!r}: blob {blob} is missing"


def _file_defects(manifest: SourceManifest, store: Store) -> Iterator[str]:
    for path, digest in manifest.files.items():
        if not store.touch(Space.BLOB, digest):
            yield f"files: {path!r}: blob {digest} is missing"


def _blob_of(digest: str, store: Store, known: KnownItems) -> str:
    """The blob that an item leads to, the item being in the store. Raises _DefectError."""
    blob = known.blob_of(digest)
    if blob is None:
        try:
            item = item_source_of(_read(digest, store), f"item_source {digest}")
        except CasObjectError as error:
            raise _DefectError(str(error)) from error
        blob = item.content_blob_hash
        known.remember(digest, blob)
    if not store.touch(Space.OBJECT, digest):
        raise _DefectError(f"object {digest} is missing")
    return blob


def _read(digest: str, store: Store) -> object:
    """An object, whole. Raises _DefectError.

    One that does not hold what its name says is thrown away: a store takes content of the right
    size as written, so nobody could ever put the sound one in its place.
    """
    try:
        return store.get_object(digest)
    except ObjectMissingError:
        raise _DefectError(f"object {digest} is missing") from None
    except ObjectChangedError:
        store.remove(Space.OBJECT, digest)
        raise _DefectError(f"object {digest} was damaged here, upload it again") from None
    except ObjectUnreadableError:
        raise _DefectError(f"object {digest}: expected canonical JSON") from None
    except StoreLinkError:  # its text has a path of the server
        raise _DefectError(f"object {digest} cannot be read here") from None


class _DefectError(Exception):
    """One defect, in words."""
