"""Contents: blobs and objects of a store, of a tree on the disk, or of several."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from lillux.store import Durability, StoredEntry
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind


class ReadContents(Protocol):
    """Blobs and objects by digest, as they are: a tree on the disk is one."""

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError."""
        ...

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest. Raises ObjectMissingError."""
        ...

    def has_blob(self, digest: str) -> bool:
        """True if there is such a blob; a text that is no digest names nothing."""
        ...

    def has_object(self, digest: str) -> bool:
        """True if there is such an object; a text that is no digest names nothing."""
        ...


class Contents(ReadContents, Protocol):
    """Contents that more can be put into: a `lillux.store.Store` is one."""

    def put_blob(self, data: bytes) -> str:
        """Keep bytes. Their digest."""
        ...

    def put_object(self, value: object) -> str:
        """Keep a JSON value. Its digest."""
        ...


class ContentStore(Contents, Protocol):
    """A store of a server: a folder (`lillux.store.Store`), or object storage of many servers.

    Each method does what that of `lillux.store.Store` does, where its errors are; what is not in a
    folder raises ObjectStorageAwayError as well.
    """

    @property
    def folder(self) -> Path | None:
        """Folder of its files; None of a store that is no folder of this machine."""
        ...

    def put_blob(self, data: bytes, durability: Durability = Durability.NOW) -> str:
        """Store bytes. Their digest."""
        ...

    def put_object(self, value: object, durability: Durability = Durability.NOW) -> str:
        """Store a JSON value. Its digest."""
        ...

    def keep(
        self, space: ObjectKind, digest: str, data: bytes, durability: Durability = Durability.NOW
    ) -> None:
        """Store bytes whose digest is known."""
        ...

    def keep_all(
        self,
        contents: Iterable[tuple[ObjectKind, str, bytes]],
        durability: Durability = Durability.NOW,
    ) -> None:
        """Store many at once."""
        ...

    def get_bytes(self, space: ObjectKind, digest: str) -> bytes:
        """The bytes of a digest, hashed again."""
        ...

    def size(self, space: ObjectKind, digest: str) -> int | None:
        """Size in bytes; None when it is not there, or is no digest."""
        ...

    def sizes(self, space: ObjectKind, digests: Iterable[str]) -> dict[str, int]:
        """Size of each in bytes, of those that are there."""
        ...

    def touch(self, space: ObjectKind, digest: str) -> bool:
        """Make it as young as one stored now. False when it is not there, or is no digest."""
        ...

    def touch_all(self, space: ObjectKind, digests: Iterable[str]) -> set[str]:
        """Those that are there, each touched."""
        ...

    def remove_all_older(
        self, space: ObjectKind, digests: Iterable[str], before_s: float
    ) -> set[str]:
        """Remove those that were not written or touched since a time; those that were removed."""
        ...

    def set_aside(self, space: ObjectKind, digest: str) -> bool:
        """Move a damaged one aside, where a sound one can take its place; whether it was."""
        ...

    def leftovers(self, before_s: float) -> int:
        """Number of files of killed writers that are left from before a time."""
        ...

    def remove_leftovers(self, before_s: float) -> None:
        """Remove the files that killed writers left before a time (since the epoch)."""
        ...

    def stored(self, space: ObjectKind) -> Iterator[StoredEntry]:
        """All there is of a kind."""
        ...

    def write_ref(self, name: str, value: object, durability: Durability = Durability.NOW) -> None:
        """Replace a ref."""
        ...

    def refs(self, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Every ref whose name starts like that, by name, with its value."""
        ...

    def remove_ref(self, name: str) -> None:
        """Remove the ref."""
        ...

    def sync(self) -> None:
        """Make safe what was written with `Durability.AT_SYNC`."""
        ...


class LayeredContents:
    """Several contents as one: read from the first that has it, written to the very first."""

    def __init__(self, first: Contents, *others: ReadContents) -> None:
        self._first = first
        self._all: tuple[ReadContents, ...] = (first, *others)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError of the last one."""
        for contents in self._all[:-1]:
            try:
                return contents.get_blob(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_blob(digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest. Raises ObjectMissingError of the last one."""
        for contents in self._all[:-1]:
            try:
                return contents.get_object(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_object(digest)

    def has_blob(self, digest: str) -> bool:
        """True if any has such a blob."""
        return any(contents.has_blob(digest) for contents in self._all)

    def has_object(self, digest: str) -> bool:
        """True if any has such an object."""
        return any(contents.has_object(digest) for contents in self._all)

    def put_blob(self, data: bytes) -> str:
        """Keep bytes in the first. Their digest."""
        return self._first.put_blob(data)

    def put_object(self, value: object) -> str:
        """Keep a JSON value in the first. Its digest."""
        return self._first.put_object(value)
