"""Content on its way into the project: a file for each piece.

What a pull writes into the project is there afterwards, and the node has it too: no one asks the
store for it again. Objects say what an item is, as its file shows as well: 16 MiB of them
are in memory only, the others in the store. Interrupted, all of it stays, and the next pull
continues from there; but after a kill those of the memory come again.

A file is called by the digest of its bytes, or is in a tree of its own at the path that it is to
have in the project, so that a folder that is new there is moved in one step. Only a file that
this very object has written is ever given away; of one from before it is unknown who wrote it,
so that it is read and hashed again.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import NEW_FILE, PLAIN_FILE, file_system_error
from lillux.store import MAX_BYTES, Durability, Store
from lillux.store_errors import ObjectMissingError
from lillux.store_forcing import MANY, EarlyForce
from lillux.store_layout import ObjectKind, is_digest
from ryeos.items.errors import RyeError
from ryeos.remote.apply import ReadyFiles
from ryeos.remote.new_files import IS_SUPPORTED
from ryeos.sync.checkout import mode_of
from ryeos.sync.paths import folders_above
from ryeos.sync.tree_files import remove_tree

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
        """True if it has come, or was in the store before."""
        if digest in self._own or digest in self._left:
            return True
        return self._has_stored_blobs and self._store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """True if it has come, or was in the store before."""
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
        """Take paths of the project for the bytes of some digests; they are not there yet.

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
        """The path for the bytes of a digest, in a folder that exists."""
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
