"""Content on its way into the project: in one file, as it would be a file for each in the store.

What a pull writes into the project is there afterwards, and the node has it too: nobody asks the
store for it again. Cut off, the file stays, and the next pull goes on from there.

The file: for each piece a line of its digest and its size (16 hex digits), then its bytes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lillux.cas.errors import ObjectMissingError
from lillux.cas.layout import Space, is_digest
from lillux.cas.store import Durability, Store
from lillux.digests import sha256_hex
from lillux.files import file_system_error

_HEADER_BYTES = 64 + 1 + 16 + 1
_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@contextmanager
def incoming_at(path: Path, store: Store) -> Iterator["Incoming"]:
    """The file while a pull goes on. Removed when that has succeeded. Raises FileSystemError."""
    incoming = Incoming(path, store)
    try:
        yield incoming
    except BaseException:  # an interrupt too keeps what has come
        incoming.close()
        raise
    incoming.discard()


class Incoming:
    """Blobs in the file ``path``; objects, which are few, go into the store. One user at a time.

    Raises FileSystemError from everything that reads or writes.
    """

    def __init__(self, path: Path, store: Store) -> None:
        self._path, self._store = path, store
        self._places: dict[str, tuple[int, int]] = {}
        try:
            self._file = open(os.open(path, _FLAGS, 0o600), "r+b")  # noqa: PTH123, SIM115
        except OSError as error:
            raise file_system_error(path, error) from error
        self._end = self._read_places()

    def has_blob(self, digest: str) -> bool:
        """Whether it has come, or was in the store before."""
        return digest in self._places or self._store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """Whether the store has it."""
        return self._store.has_object(digest)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest, hashed again. Raises ObjectMissingError, and as a store does."""
        place = self._places.get(digest)
        if place is None:
            return self._store.get_blob(digest)
        offset, size = place
        self._file.seek(offset)
        data = self._file.read(size)
        if sha256_hex(data) != digest:  # meddled with: it is fetched again
            del self._places[digest]
            raise ObjectMissingError(Space.BLOB.value, digest, str(self._path))
        return data

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
        """The value of a digest, of the store."""
        return self._store.get_object(digest)

    def put_blob(self, data: bytes, _durability: Durability = Durability.UNFORCED) -> str:
        """Keep bytes until `discard`. Their digest."""
        digest = sha256_hex(data)
        if digest not in self._places:
            try:
                self._file.seek(self._end)
                self._file.write(f"{digest} {len(data):016x}\n".encode("ascii") + data)
            except OSError as error:
                raise file_system_error(self._path, error) from error
            self._places[digest] = (self._end + _HEADER_BYTES, len(data))
            self._end += _HEADER_BYTES + len(data)
        return digest

    def put_object(self, value: Any, durability: Durability) -> str:  # noqa: ANN401 - JSON
        """Keep a value in the store. Its digest."""
        return self._store.put_object(value, durability)

    def sync(self) -> None:
        """Have on disk what went into the store; the file is only for now."""
        self._store.sync()

    def close(self) -> None:
        """Keep the file for another time."""
        with suppress(OSError):
            self._file.close()

    def discard(self) -> None:
        """Remove the file: what was in it is where it belongs."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _read_places(self) -> int:
        """Where the last whole piece ends."""
        size = os.fstat(self._file.fileno()).st_size
        end = 0
        while end + _HEADER_BYTES <= size:
            self._file.seek(end)
            header = self._file.read(_HEADER_BYTES).decode("ascii", "replace")
            digest, _, length = header.partition(" ")
            try:
                after = end + _HEADER_BYTES + int(length, 16)
            except ValueError:
                break
            if not is_digest(digest) or after > size:
                break
            self._places[digest] = (end + _HEADER_BYTES, after - end - _HEADER_BYTES)
            end = after
        self._file.truncate(end)
        return end
