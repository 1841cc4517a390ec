"""Where blobs and objects come from: a store, a tree on the disk, or several of them."""

from typing import Any, Protocol

from lillux.store_files import ObjectMissingError


class ReadContents(Protocol):
    """Blobs and objects by digest, as they are: a tree on the disk is one."""

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError."""
        ...

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
        """The value of a digest. Raises ObjectMissingError."""
        ...

    def has_blob(self, digest: str) -> bool:
        """Whether there is such a blob; a text that is no digest names nothing."""
        ...

    def has_object(self, digest: str) -> bool:
        """Whether there is such an object; a text that is no digest names nothing."""
        ...


class Contents(ReadContents, Protocol):
    """Contents that more can be put into: a `lillux.store.Store` is one."""

    def put_blob(self, data: bytes) -> str:
        """Keep bytes. Their digest."""
        ...

    def put_object(self, value: object) -> str:
        """Keep a JSON value. Its digest."""
        ...


class Layered:
    """Several contents as one: read from the first that has it, written to the very first."""

    def __init__(self, first: Contents, *others: ReadContents) -> None:
        self._first = first
        self._all: tuple[ReadContents, ...] = (first, *others)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError, of the last that was asked."""
        for contents in self._all[:-1]:
            try:
                return contents.get_blob(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_blob(digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
        """The value of a digest. Raises ObjectMissingError, of the last that was asked."""
        for contents in self._all[:-1]:
            try:
                return contents.get_object(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_object(digest)

    def has_blob(self, digest: str) -> bool:
        """Whether any has such a blob."""
        return any(contents.has_blob(digest) for contents in self._all)

    def has_object(self, digest: str) -> bool:
        """Whether any has such an object."""
        return any(contents.has_object(digest) for contents in self._all)

    def put_blob(self, data: bytes) -> str:
        """Keep bytes in the first. Their digest."""
        return self._first.put_blob(data)

    def put_object(self, value: object) -> str:
        """Keep a JSON value in the first. Its digest."""
        return self._first.put_object(value)
