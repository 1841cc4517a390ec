r"""Packs: many blobs and objects as one file of object storage. Format: ``docs/store.md``, Packs.

    rye-pack 1\\n
    LENGTH of the list, 8 hex digits, \\n
    the list: canonical JSON, [[KIND, DIGEST, SIZE], ...]
    the contents, one behind the other in the order of the list

A pack says by itself what it holds, so that rows of the database that are lost can be made again.
Pure: nothing is asked of a storage here.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lillux.digests import canonical_json
from lillux.errors import LilluxError
from lillux.store_files import ObjectKind, is_digest

MAX_PACK_BYTES = 8 * 1024 * 1024
"""So much content is put together; what is larger by itself has a pack of its own."""

MAX_CONTENTS = 2000
HEAD_BYTES = 20
"""What a pack begins with, up to its list."""

MAX_LIST_BYTES = 100 * (MAX_CONTENTS + 1)
_MAGIC, _DIGITS = b"rye-pack 1\n", 8


class PackError(LilluxError):
    """A file that is no pack, or a pack that was cut short."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"pack: {problem}")


class Content(NamedTuple):
    """Bytes under their digest."""

    space: ObjectKind
    digest: str
    data: bytes


class Place(NamedTuple):
    """Where a content lies in a pack: its first byte, and how many."""

    space: ObjectKind
    digest: str
    start: int
    size: int


def packed(contents: Sequence[Content]) -> tuple[bytes, tuple[Place, ...]]:
    """The bytes of a pack with these contents, and where each of them lies in it."""
    listed = canonical_json([[one.space.value, one.digest, len(one.data)] for one in contents])
    head = _MAGIC + f"{len(listed):0{_DIGITS}x}\n".encode("ascii")
    places, start = [], len(head) + len(listed)
    for one in contents:
        places.append(Place(one.space, one.digest, start, len(one.data)))
        start += len(one.data)
    return b"".join((head, listed, *(one.data for one in contents))), tuple(places)


def list_length(head: bytes) -> int:
    """The bytes of the list, from the first `HEAD_BYTES` of a pack. Raises PackError."""
    magic, digits, end = head[: len(_MAGIC)], head[len(_MAGIC) : -1], head[-1:]
    try:
        length = int(digits, 16)
    except ValueError:
        length = -1
    is_head = len(head) == HEAD_BYTES and magic == _MAGIC and end == b"\n"
    if not is_head or not 0 <= length <= MAX_LIST_BYTES:
        raise PackError(f"expected {_MAGIC.decode().strip()} and a length, found {head[:24]!a}")
    return length


def places_in(listed: bytes) -> tuple[Place, ...]:
    """Where each content lies, from the list of a pack. Raises PackError."""
    start, places = HEAD_BYTES + len(listed), []
    try:
        rows = json.loads(listed)
        for kind, digest, size in rows:
            if not is_digest(digest) or type(size) is not int or size < 0:
                raise PackError(f"list: expected a digest and a size, found {str(digest)[:80]!a}")
            places.append(Place(ObjectKind(kind), digest, start, size))
            start += size
    except (ValueError, TypeError, RecursionError) as error:
        raise PackError(f"list: expected [[KIND, DIGEST, SIZE], ...]: {error}") from None
    return tuple(places)


def groups(contents: Iterable[Content]) -> Iterator[list[Content]]:
    """The contents in groups of one pack each, in their order."""
    group: list[Content] = []
    size = 0
    for one in contents:
        if group and (size + len(one.data) > MAX_PACK_BYTES or len(group) == MAX_CONTENTS):
            yield group
            group, size = [], 0
        group.append(one)
        size += len(one.data)
    if group:
        yield group
