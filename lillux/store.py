"""Content-addressed store of blobs and objects, and refs that name them; safe for many writers.

Formats: ``docs/store.md``. What is stored never changes, so writers of the same thing agree.
"""

import json
import os
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from math import inf
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import FileSystemError, LilluxError
from lillux.files import read_bytes
from lillux.store_errors import (
    ObjectChangedError,
    ObjectMissingError,
    ObjectTooLargeError,
    ObjectUnreadableError,
    RefUnreadableError,
)
from lillux.store_files import StoreFolders
from lillux.store_layout import (
    MIN_PIECES,
    PACKED_BYTES,
    PACKS,
    ObjectKind,
    is_digest,
    is_shard,
    ref_folders,
    shard,
    valid_digest,
)
from lillux.values import dataclass

if TYPE_CHECKING:
    from lillux.store_packs import Packs

MAX_BYTES = 256 * 1024 * 1024
_MAX_REF_BYTES = 64 * 1024
_REFS, _DAMAGED = "refs", "damaged"
_FRESH_S = 60.0  # younger than this, no sweep takes a file however short its grace


class Durability(Enum):
    """When something written is safe from a loss of power. From a crash of ours it always is.

    NOW       when the call returns
    AT_SYNC   when the next `Store.sync` returns
    UNFORCED  when the system gets to it, or when `Store.sync_objects` names it
    """

    NOW = auto()
    AT_SYNC = auto()
    UNFORCED = auto()


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A blob or an object that is there. ``modified_s``: since the epoch; a touch renews it."""

    digest: str
    size: int
    modified_s: float


class Store:
    """The store in folder ``root``, which is made with the first write. Thread-safe.

    ``levels`` of folders are above a file, of 256 each: two is the layout that programs share. One
    is for a store that only its owner reads: new content then makes few folders, and many small
    pieces that are stored at once become one file (`lillux.store_packs`).
    """

    def __init__(self, root: Path, *, levels: int = 2) -> None:
        self.root = root
        self._levels = levels
        self._folders = StoreFolders(root)
        self._packs = _packs_in(self._folders) if levels == 1 else None
        self._unsynced: dict[tuple[tuple[str, ...], str], None] = {}
        self._lock = Lock()

    @property
    def folder(self) -> Path | None:
        """Folder of its files; None of a store that is no folder of this machine."""
        return self.root

    def put_blob(self, data: bytes, durability: Durability = Durability.NOW) -> str:
        """Store bytes. The digest. Raises ObjectTooLargeError, StoreLinkError, FileSystemError."""
        return self._put(ObjectKind.BLOB, data, durability)

    def put_object(self, value: object, durability: Durability = Durability.NOW) -> str:
        """Store a JSON value. Its digest. Raises CanonicalJsonError, and as `put_blob`."""
        return self._put(ObjectKind.OBJECT, canonical_json(value), durability)

    def keep(
        self, space: ObjectKind, digest: str, data: bytes, durability: Durability = Durability.NOW
    ) -> None:
        """Store bytes whose digest the caller has just computed; of an object its canonical JSON.

        Raises DigestError, and as `put_blob`.
        """
        if len(data) > MAX_BYTES:
            raise ObjectTooLargeError(len(data), MAX_BYTES)
        if not self._keep(space, valid_digest(digest), len(data), durability):
            self._write(self._shard(space, digest), space.file_name(digest), data, durability)

    def keep_all(
        self,
        contents: Iterable[tuple[ObjectKind, str, bytes]],
        durability: Durability = Durability.NOW,
    ) -> None:
        """Store many at once, each as `keep` does. Raises as `keep`: some may be stored then."""
        small = []
        if self._packs:
            self._packs.look()
        for space, digest, data in contents:
            if self._packs is None or len(data) > PACKED_BYTES:
                self.keep(space, digest, data, durability)
            elif not self._keep(space, valid_digest(digest), len(data), durability, look=False):
                small.append((space, digest, data))
        if self._packs is None or len(small) < MIN_PIECES:
            for space, digest, data in small:
                self._write(self._shard(space, digest), space.file_name(digest), data, durability)
            return
        for name in self._packs.write(small, force=durability is Durability.NOW):
            if durability is Durability.AT_SYNC:
                self._remember(PACKS, name)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest, hashed again.

        Raises DigestError, ObjectMissingError, ObjectChangedError, StoreLinkError,
        FileSystemError.
        """
        return self._get(ObjectKind.BLOB, digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest, hashed again. Raises as `get_blob`, ObjectUnreadableError."""
        data = self._get(ObjectKind.OBJECT, digest)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            path = str(self.path_of(ObjectKind.OBJECT, digest))
            raise ObjectUnreadableError(path, str(error)) from error

    def get_bytes(self, space: ObjectKind, digest: str) -> bytes:
        """The bytes of a digest, hashed again; of an object its canonical JSON. As `get_blob`."""
        return self._get(space, digest)

    def has_blob(self, digest: str) -> bool:
        """True if there is such a blob; a text that is no digest names nothing."""
        return self._has(ObjectKind.BLOB, digest)

    def has_object(self, digest: str) -> bool:
        """True if there is such an object; a text that is no digest names nothing."""
        return self._has(ObjectKind.OBJECT, digest)

    def may_have(self, space: ObjectKind) -> bool:
        """True if there may be any: the folder for them is there. Raises StoreLinkError."""
        return self._folders.require_plain((space.folder,), make=False)

    def size(self, space: ObjectKind, digest: str) -> int | None:
        """Size in bytes; None when it is not there, or is no digest."""
        if not is_digest(digest):
            return None
        packs = self._packs
        size = packs.size(space, digest, look=False) if packs else None
        if size is None:
            size = self._folders.size(self._shard(space, digest), space.file_name(digest))
        return packs.size(space, digest) if size is None and packs else size

    def sizes(self, space: ObjectKind, digests: Iterable[str]) -> dict[str, int]:
        """Size of each in bytes, of those that are there. Raises as `size`."""
        wanted = [digest for digest in digests if is_digest(digest)]
        sizes = self._packs.sizes(space, wanted) if self._packs else {}
        for digest in wanted:
            if digest not in sizes:
                size = self._folders.size(self._shard(space, digest), space.file_name(digest))
                if size is not None:
                    sizes[digest] = size
        return sizes

    def path_of(self, space: ObjectKind, digest: str) -> Path:
        """Path of its own file, there or not. Raises DigestError."""
        folders = self._shard(space, valid_digest(digest))
        return Path(self._folders.path(folders, space.file_name(digest)))

    def touch(self, space: ObjectKind, digest: str) -> bool:
        """Make it as young as one stored now. False when it is not there, or is no digest.

        Raises StoreLinkError, FileSystemError.
        """
        if not is_digest(digest):
            return False
        packs = self._packs
        return (
            (packs is not None and packs.touch(space, digest, look=False))
            or self._folders.touch(self._shard(space, digest), space.file_name(digest))
            or (packs is not None and packs.touch(space, digest))
        )

    def touch_all(self, space: ObjectKind, digests: Iterable[str]) -> set[str]:
        """Those that are there, each touched as `touch` does. Raises as `touch`."""
        wanted = {digest for digest in digests if is_digest(digest)}
        found: set[str] = set()
        if self._packs:
            self._packs.look()
            found = {one for one in wanted if self._packs.touch(space, one, look=False)}
        return found | {
            digest
            for digest in wanted - found
            if self._folders.touch(self._shard(space, digest), space.file_name(digest))
        }

    def remove(self, space: ObjectKind, digest: str) -> None:
        """Remove it. Raises DigestError, StoreLinkError, FileSystemError."""
        self._folders.remove(self._shard(space, valid_digest(digest)), space.file_name(digest))
        if self._packs:
            self._packs.remove_older(space, {digest}, inf)

    def remove_older(self, space: ObjectKind, digest: str, before_s: float) -> bool:
        """Remove it if it was not written or touched since a time. Whether it was removed.

        ``before_s``: since the epoch. A touch at the same time either keeps it or finds nothing.
        Raises DigestError, StoreLinkError, FileSystemError.
        """
        return bool(self.remove_all_older(space, (digest,), before_s))

    def remove_all_older(
        self, space: ObjectKind, digests: Iterable[str], before_s: float
    ) -> set[str]:
        """Remove each as `remove_older` does; those that were removed. Raises as `remove_older`."""
        wanted = {*map(valid_digest, digests)}
        removed = {
            digest
            for digest in wanted
            if self._folders.remove_older(
                self._shard(space, digest), space.file_name(digest), before_s
            )
        }
        if self._packs is None:
            return removed
        removed |= self._packs.remove_older(space, wanted, before_s)
        # (It may be in two places, one of them younger.)
        return {digest for digest in removed if self.size(space, digest) is None}

    def set_aside(self, space: ObjectKind, digest: str) -> bool:
        """Move a damaged one below ``damaged/``, where a sound one can take its place.

        False where it is sound after all, or not there. Raises DigestError, StoreLinkError,
        FileSystemError.
        """
        of_pack = self._packs is not None and self._packs.set_aside(space, valid_digest(digest))
        return self._set_file_aside(space, digest) or of_pack

    def _set_file_aside(self, space: ObjectKind, digest: str) -> bool:
        folders, name = self._shard(space, valid_digest(digest)), space.file_name(digest)
        aside = f"{name}.{os.urandom(4).hex()}"
        if not self._folders.move(folders, name, (_DAMAGED,), aside):
            return False
        if self._is_sound((_DAMAGED,), aside, digest):  # another process has just written it again
            self._folders.move((_DAMAGED,), aside, folders, name)
            return False
        return True

    def leftovers(self, before_s: float) -> int:
        """Number of half files that killed writers left before a time. Raises as `stored`."""
        return sum(1 for _ in self._leftovers(before_s))

    def remove_leftovers(self, before_s: float) -> None:
        """Remove the half files that killed writers left before a time (since the epoch).

        Packs from before that are made one where they are many and small, and written anew where
        their index is damaged. Raises StoreLinkError, FileSystemError.
        """
        for folders, name in self._leftovers(before_s):
            self._folders.remove(folders, name)
        if self._packs:
            self._packs.tidy(before_s)

    def stored(self, space: ObjectKind) -> Iterator[StoredEntry]:
        """All there is of a kind, by digest. What no store has written there is passed over.

        What is removed meanwhile may be missing. Raises StoreLinkError, FileSystemError.
        """
        known: set[str] = set()
        for folders in self._shards((space.folder,), self._levels):
            for one in self._stored_in(space, folders):
                if self._packs:
                    known.add(one.digest)
                yield one
        for digest, size, modified_s in self._packs.stored(space) if self._packs else ():
            if digest not in known:
                known.add(digest)
                yield StoredEntry(digest, size, modified_s)

    def write_ref(self, name: str, value: object, durability: Durability = Durability.NOW) -> None:
        """Replace a ref, like ``graphs/my-run``: readers see the old value or the new one.

        Raises RefNameError, CanonicalJsonError, StoreLinkError, FileSystemError.
        """
        folders, file = ref_folders(name)
        self._write((_REFS, *folders), file, canonical_json(value), durability)

    def read_ref(self, name: str) -> dict[str, Any] | None:
        """The value of a ref, None for one that is not there.

        Raises RefNameError, RefUnreadableError, StoreLinkError, FileSystemError.
        """
        folders, file = ref_folders(name)
        return self._read_named((_REFS, *folders), file)

    def refs(self, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Every ref whose name starts like that, by name, with its value. Raises as `read_ref`."""
        for name in self._ref_names((_REFS,), ""):
            if name.startswith(prefix):
                value = self.read_ref(name)
                if value is not None:
                    yield name, value

    def remove_ref(self, name: str) -> None:
        """Remove the ref. Raises RefNameError, StoreLinkError, FileSystemError."""
        folders, file = ref_folders(name)
        self._folders.remove((_REFS, *folders), file)

    def write_cached(self, kind: str, key: str, value: object) -> None:
        """Write an entry of ``cache/<kind>/``, which may be lost at any time. Raises as above."""
        name = f"{valid_digest(key)}.json"
        self._write(("cache", kind), name, canonical_json(value), Durability.UNFORCED)

    def read_cached(self, kind: str, key: str) -> dict[str, Any] | None:
        """An entry of ``cache/<kind>/``. Raises DigestError, and as `read_ref`."""
        return self._read_named(("cache", kind), f"{valid_digest(key)}.json")

    def sync(self) -> None:
        """Force what was written with `Durability.AT_SYNC` to the disk. Raises FileSystemError."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, {}
        from lillux.store_forcing import MANY, force_file_system

        if len(unsynced) < MANY or not force_file_system(str(self.root)):
            self._force(unsynced)

    def sync_objects(self, digests: Iterable[str]) -> None:
        """Force these objects to the disk. Raises DigestError, FileSystemError."""
        self.sync_stored(ObjectKind.OBJECT, digests)

    def sync_stored(self, space: ObjectKind, digests: Iterable[str]) -> None:
        """Force these to the disk, of any process. Raises DigestError, FileSystemError."""
        places = {self._place(space, valid_digest(digest)): None for digest in digests}
        self._force(places)

    def _leftovers(self, before_s: float) -> Iterator[tuple[tuple[str, ...], str]]:
        for space in ObjectKind:
            for folders in self._shards((space.folder,), self._levels):
                yield from ((folders, name) for name in self._folders.leftovers(folders, before_s))
        if self._packs:
            yield from ((PACKS, name) for name in self._folders.leftovers(PACKS, before_s))

    def _place(self, space: ObjectKind, digest: str) -> tuple[tuple[str, ...], str]:
        """The folder and the name of the file that has it, or would have it."""
        found = self._packs.file_of(space, digest) if self._packs else None
        return found or (self._shard(space, digest), space.file_name(digest))

    def _is_sound(self, folders: tuple[str, ...], name: str, digest: str) -> bool:
        try:
            data = self._folders.read(folders, name, MAX_BYTES)
        except LilluxError:
            return False
        return data is not None and sha256_hex(data) == digest

    def _put(self, space: ObjectKind, data: bytes, durability: Durability) -> str:
        if len(data) > MAX_BYTES:  # not worth the time of hashing it
            raise ObjectTooLargeError(len(data), MAX_BYTES)
        digest = sha256_hex(data)
        self.keep(space, digest, data, durability)
        return digest

    def _keep(
        self,
        space: ObjectKind,
        digest: str,
        size: int,
        durability: Durability,
        *,
        look: bool = True,
    ) -> bool:
        """True if it is there already; made young again: a sweep decides by age. It is forced too.

        Without ``look`` only packs count that are known.
        """
        if self._packs and self._packs.size(space, digest, look=look) == size:
            is_there = self._packs.touch(space, digest, look=look)
        else:
            is_there = self._keep_file(self._shard(space, digest), space.file_name(digest), size)
        if is_there and durability is not Durability.UNFORCED:
            place = self._place(space, digest)
            if durability is Durability.NOW:  # another writer may not have forced it
                self._force([place])
            else:
                self._remember(*place)
        return is_there

    def _keep_file(self, folders: tuple[str, ...], name: str, size: int) -> bool:
        status = self._folders.status(folders, name)
        # One of another size was cut short by a power loss: it is written again.
        if status is None or status.st_size != size:
            return False
        if time() - status.st_mtime < _FRESH_S:
            return True
        try:
            return self._folders.touch(folders, name)
        except FileSystemError:  # another user's, read only: such a user sweeps nothing
            return True

    def _get(self, space: ObjectKind, digest: str) -> bytes:
        """Its bytes, hashed again: from a pack that is known, its own file, or another pack."""
        found = ""
        for data in self._copies(space, valid_digest(digest)):
            if data is None:
                continue
            found = sha256_hex(data)
            if found == digest:
                return data
        if found:
            raise ObjectChangedError(self._folders.path(*self._place(space, digest)), digest, found)
        raise ObjectMissingError(space.value, digest, str(self.root))

    def _copies(self, space: ObjectKind, digest: str) -> Iterator[bytes | None]:
        if self._packs:
            yield self._packs.read(space, digest, look=False)
        yield self._folders.read(self._shard(space, digest), space.file_name(digest), MAX_BYTES)
        if self._packs:
            yield self._packs.read(space, digest)

    def _has(self, space: ObjectKind, digest: str) -> bool:
        return self.size(space, digest) is not None

    def _shard(self, space: ObjectKind, digest: str) -> tuple[str, ...]:
        return shard(space, digest, self._levels)

    def _shards(self, folders: tuple[str, ...], levels: int) -> Iterator[tuple[str, ...]]:
        """The folders of files that are so many levels below a folder."""
        if not levels:
            yield folders
            return
        for entry in self._folders.entries(folders):
            if is_shard(entry.name) and entry.is_dir(follow_symlinks=False):
                yield from self._shards((*folders, entry.name), levels - 1)

    def _stored_in(self, space: ObjectKind, folders: tuple[str, ...]) -> Iterator[StoredEntry]:
        for entry in self._folders.entries(folders):
            digest = space.digest_of(entry.name)
            if digest is None or self._shard(space, digest) != folders:
                continue
            status = self._folders.status(folders, entry.name)
            if status is not None:
                yield StoredEntry(digest, status.st_size, status.st_mtime)

    def _ref_names(self, folders: tuple[str, ...], above: str) -> Iterator[str]:
        for entry in self._folders.entries(folders):
            if entry.name.startswith("."):  # being written, or not ours
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._ref_names((*folders, entry.name), f"{above}{entry.name}/")
            elif entry.name.endswith(".json"):
                yield above + entry.name.removesuffix(".json")

    def _write(
        self, folders: tuple[str, ...], name: str, data: bytes, durability: Durability
    ) -> None:
        now = durability is Durability.NOW
        self._folders.put(folders, name, data, force=now)
        if now:
            self._force_folders({folders})
        elif durability is Durability.AT_SYNC:
            self._remember(folders, name)

    def _read_named(self, folders: tuple[str, ...], name: str) -> dict[str, Any] | None:
        if self._folders.size(folders, name) is None:
            return None
        path = self._folders.path(folders, name)
        try:
            value = json.loads(read_bytes(Path(path), _MAX_REF_BYTES))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise RefUnreadableError(path, str(error)) from error
        if not isinstance(value, dict):
            raise RefUnreadableError(path, f"found {type(value).__name__}")
        return value

    def _remember(self, folders: tuple[str, ...], name: str) -> None:
        with self._lock:
            self._unsynced[folders, name] = None

    def _force(self, files: Iterable[tuple[tuple[str, ...], str]]) -> None:
        touched = set()
        for folders, name in files:
            self._folders.force(folders, name)
            touched.add(folders)
        self._force_folders(touched)

    def _force_folders(self, touched: Iterable[tuple[str, ...]]) -> None:
        """Each folder and those above it: a file is found again only if its folders are."""
        above = {folders[:length] for folders in touched for length in range(len(folders) + 1)}
        for folders in sorted(above, key=len, reverse=True):
            self._folders.force(folders)


def _packs_in(folders: StoreFolders) -> "Packs":
    from lillux.store_packs import Packs

    return Packs(folders)
