"""Layout of a store: folders and names. Format: ``docs/store.md``."""

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from lillux.store_errors import DigestError, RefNameError

if TYPE_CHECKING:
    from typing import Any


_HEX_DIGITS = "0123456789abcdef"
_DIGEST_LENGTH = 64
PACKS = ("packs",)
"""The folder of files that have many small pieces each (`lillux.store_packs`)."""

PACKED_BYTES = 64 * 1024
"""Of one piece in a pack. Larger ones are files of their own: little is saved there."""

MIN_PIECES = 32
"""Of a pack: fewer new pieces at a time are files of their own."""

MAX_NAME_BYTES = 240
"""Of a segment of a ref; a suffix and a temporary name still have to fit beside it."""


class ObjectKind(StrEnum):
    """The two kinds of content; one digest may name something in both."""

    BLOB = "blob"
    OBJECT = "object"

    @property
    def folder(self) -> str:
        """Its folder below the root."""
        return f"{self.value}s"

    def file_name(self, digest: str) -> str:
        """The last part of the path."""
        return digest if self is ObjectKind.BLOB else f"{digest}.json"

    def digest_of(self, name: str) -> str | None:
        """The digest that a file of this name holds; None for a name that no store gives."""
        digest = name if self is ObjectKind.BLOB else name.removesuffix(".json")
        return digest if is_digest(digest) and self.file_name(digest) == name else None


def is_digest(text: object) -> bool:
    """True if this is 64 lower-case hex digits."""
    # (`strip` leaves nothing of a text of these digits alone: a tenth of the time of a set.)
    return isinstance(text, str) and len(text) == _DIGEST_LENGTH and not text.strip(_HEX_DIGITS)


def are_digests(values: "Collection[Any]") -> bool:
    """True if each of many values is one, by one look at all of them."""
    return (
        {*map(type, values)} <= {str}
        and {*map(len, values)} <= {_DIGEST_LENGTH}
        and not "".join(values).strip(_HEX_DIGITS)
    )


def valid_digest(text: str) -> str:
    """The digest itself. Raises DigestError: no path is made from anything else."""
    if not is_digest(text):
        raise DigestError(text)
    return text


def shard(space: ObjectKind, digest: str, levels: int) -> tuple[str, ...]:
    """The folders of a digest, from the root down. The digest is checked by the caller."""
    return (space.folder, *(digest[at : at + 2] for at in range(0, 2 * levels, 2)))


def is_shard(name: str) -> bool:
    """True if a folder of this name may lie between a kind and its files."""
    return len(name) == 2 and not name.strip(_HEX_DIGITS)  # noqa: PLR2004 - two digits a level


def ref_folders(name: str) -> tuple[tuple[str, ...], str]:
    """The folders and the file of a ref like ``graphs/my-run``. Raises RefNameError."""
    try:
        require_plain_path(name)
    except UnsafePathError as error:
        raise RefNameError(name, error.problem) from None
    segments = name.split("/")
    for segment in segments:
        if segment.startswith("."):
            raise RefNameError(name, "a segment starts with a dot")
        if len(segment.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
            raise RefNameError(name, f"expected at most {MAX_NAME_BYTES} bytes in a segment")
    return tuple(segments[:-1]), f"{segments[-1]}.json"
