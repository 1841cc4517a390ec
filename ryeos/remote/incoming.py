"""Content on its way into the project: a file for each piece, which becomes the file it is for.

What a pull writes into the project is there afterwards, and the node has it too: nobody asks the
store for it again. Objects say what an item is, as anybody can tell from its file: 16 MiB of them
are in memory only, the others in the store. Cut off, all of it stays, and the next pull goes on
from there; but after a kill those of the memory come again.

A file is called by the digest of its bytes. Only one that this very object has written is ever
given away; of one from before nobody knows who wrote it, so that it is read and hashed again.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError
from lillux.files import NEW_FILE, PLAIN_FILE, file_system_error
from lillux.store import MAX_BYTES, Durability, Store
from lillux.store_files import MANY, EarlyForce, ObjectMissingError, Space, is_digest
from ryeos.cas.materializer import mode_of
from ryeos.remote.places import RemotePlaceError

_FOLDER_MODE = 0o700
_MEMORY_BYTES = 16 * 1024 * 1024


@contextmanager
def incoming_at(folder: Path, store: Store) -> Iterator["Incoming"]:
    """The folder while a pull goes on. Removed when that has succeeded.

    Raises RemotePlaceError, FileSystemError.
    """
    incoming = Incoming(folder, store)
    try:
        yield incoming
    except BaseException:  # an interrupt too keeps what has come
        incoming.close()
        raise
    incoming.discard()


def forget_incoming(folder: Path) -> None:
    """Have no such folder: what a killed pull left in it is of no use any more."""
    if folder.is_symlink() or not folder.is_dir():
        return
    with suppress(OSError):
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


class Incoming:
    """Blobs in files of ``folder``; objects in memory as long as there is room, then in the store.

    One user at a time. ``memory_bytes`` is that room, ``early`` the forcing that has begun.

    Raises FileSystemError from everything that reads or writes.
    """

    def __init__(self, folder: Path, store: Store, *, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._folder, self._store = folder, store
        self._objects: dict[str, bytes] = {}
        self._room = memory_bytes
        self._has_stored_blobs = store.may_have(Space.BLOB)
        self._place = f"{folder}{os.sep}"
        self._own: set[str] = set()
        self.early: EarlyForce | None = None
        try:
            with suppress(FileExistsError):
                folder.mkdir(_FOLDER_MODE)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise RemotePlaceError(str(folder))
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
        data = self._read(self._place + digest)
        if data is None or sha256_hex(data) != digest:  # meddled with: it is fetched again
            self._own.discard(digest)
            self._left.discard(digest)
            raise ObjectMissingError(Space.BLOB.value, digest, str(self._folder))
        return data

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
        """The value of a digest. Raises as a store does."""
        data = self._objects.get(digest)
        return self._store.get_object(digest) if data is None else json.loads(data)

    def file_of(self, digest: str) -> str | None:
        """A file with these bytes that may become a file of the project; None for none of ours."""
        return self._place + digest if digest in self._own else None

    def keep(self, space: Space, digest: str, data: bytes, durability: Durability) -> None:
        """Keep bytes whose digest was just computed, until `discard` at least."""
        if space is Space.OBJECT:
            self._keep_object(digest, data, durability)
        elif digest not in self._own:
            try:
                self._write(self._place + digest, data)
            except OSError as error:
                raise file_system_error(self._folder, error) from error
            self._own.add(digest)

    def put_blob(self, data: bytes, durability: Durability = Durability.UNFORCED) -> str:
        """Keep bytes until `discard`. Their digest."""
        digest = sha256_hex(data)
        self.keep(Space.BLOB, digest, data, durability)
        return digest

    def put_object(self, value: Any, durability: Durability) -> str:  # noqa: ANN401 - JSON
        """Keep a value until `discard` at least. Its digest."""
        data = canonical_json(value)
        digest = sha256_hex(data)
        self.keep(Space.OBJECT, digest, data, durability)
        return digest

    def sync(self) -> None:
        """Have the system begin to write where the files are many: they are forced at the end."""
        if len(self._own) >= MANY and self.early is None:
            self.early = EarlyForce(str(self._folder))

    def close(self) -> None:
        """Keep all that came for another time."""
        with suppress(LilluxError):  # whatever cut this off is what has to be told
            for digest, data in self._objects.items():
                self._store.keep(Space.OBJECT, digest, data, Durability.UNFORCED)
            self._store.sync()

    def discard(self) -> None:
        """Remove the files: what was in them is where it belongs. The store is on the disk."""
        self._store.sync()
        forget_incoming(self._folder)

    def _keep_object(self, digest: str, data: bytes, durability: Durability) -> None:
        if len(data) > self._room:
            self._store.keep(Space.OBJECT, digest, data, durability)
        elif digest not in self._objects:
            self._objects[digest] = data
            self._room -= len(data)

    @staticmethod
    def _write(path: str, data: bytes) -> None:
        try:
            descriptor = os.open(path, NEW_FILE, mode_of(data))
        except FileExistsError:  # from before, or nobody knows from whom
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
