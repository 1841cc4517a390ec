"""Where things are in a store: pure names. Layout: ``docs/store.md``."""

from enum import StrEnum

from lillux.cas.errors import DigestError, RefNameError
from lillux.errors import UnsafePathError
from lillux.files import check_relative

_DIGITS = frozenset("0123456789abcdef")
_DIGEST_LENGTH = 64
MAX_NAME_BYTES = 240
"""Of a segment of a ref; a suffix and a temporary name still have to fit beside it."""


class Space(StrEnum):
    """The two kinds of content; one digest may name something in both."""

    BLOB = "blob"
    OBJECT = "object"

    @property
    def folder(self) -> str:
        """Its folder below the root."""
        return f"{self.value}s"

    def file_name(self, digest: str) -> str:
        """The last part of the path."""
        return digest if self is Space.BLOB else f"{digest}.json"

    def digest_of(self, name: str) -> str | None:
        """The digest that a file of this name holds; None for a name that no store gives."""
        digest = name if self is Space.BLOB else name.removesuffix(".json")
        return digest if is_digest(digest) and self.file_name(digest) == name else None


def is_digest(text: object) -> bool:
    """Whether this is 64 lower-case hex digits."""
    return isinstance(text, str) and len(text) == _DIGEST_LENGTH and _DIGITS.issuperset(text)


def check_digest(text: str) -> str:
    """The digest itself. Raises DigestError: no path is made from anything else."""
    if not is_digest(text):
        raise DigestError(text)
    return text


def shard(space: Space, digest: str, levels: int) -> tuple[str, ...]:
    """The folders of a digest, from the root down. The digest is checked by the caller."""
    return (space.folder, *(digest[at : at + 2] for at in range(0, 2 * levels, 2)))


def is_shard(name: str) -> bool:
    """Whether a folder of this name may lie between a kind and its files."""
    return len(name) == 2 and _DIGITS.issuperset(name)  # noqa: PLR2004 - two digits a level


def ref_folders(name: str) -> tuple[tuple[str, ...], str]:
    """The folders and the file of a ref like ``graphs/my-run``. Raises RefNameError."""
    try:
        check_relative(name)
    except UnsafePathError as error:
        raise RefNameError(name, error.problem) from None
    segments = name.split("/")
    for segment in segments:
        if segment.startswith("."):
            raise RefNameError(name, "a segment starts with a dot")
        if len(segment.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
            raise RefNameError(name, f"expected at most {MAX_NAME_BYTES} bytes in a segment")
    return tuple(segments[:-1]), f"{segments[-1]}.json"
