"""Entries of a transfer as plain bytes: no base64, no JSON around them.

An answer begins with `START`. Then each entry: ``b`` for a blob or ``o`` for an object, the
number of its bytes in four bytes, most significant first, and the bytes; of an object they are
its canonical JSON. At the end: ``e``, and the number of entries in four bytes. A digest is not
sent: the reader computes it. Format: ``docs/sync.md``, Entries in frames.
"""

from collections.abc import Collection, Iterable, Iterator

from lillux.digests import sha256_hex
from ryeos.sync.entries import UNKNOWN, ContentEntry, EntryKind, canonical
from ryeos.sync.object_shapes import EntryError

MEDIA_TYPE = "application/vnd.rye.entries"
PUT_HEADER = "Rye-Put"
"""Of an answer of ``/objects/has``: what ``/objects/put`` takes besides JSON, `MEDIA_TYPE`."""

MAX_FRAMES = 1000
"""Entries in one body of frames."""

START = b"rye entries 1\n"

_MARKS: dict[EntryKind, bytes] = {"blob": b"b", "object": b"o"}
_KINDS: dict[int, EntryKind] = {mark[0]: kind for kind, mark in _MARKS.items()}
_END = b"e"
_HEAD_BYTES = 5


def head_of(entry: ContentEntry) -> bytes:
    """Bytes before those of an entry."""
    return _MARKS[entry.kind] + len(entry.data).to_bytes(4, "big")


def end_of(count: int) -> bytes:
    """Bytes behind so many entries."""
    return _END + count.to_bytes(4, "big")


def framed(entries: Iterable[ContentEntry]) -> Iterator[bytes]:
    """The parts of a whole answer, or of a whole body, with these entries."""
    count = 0
    yield START
    for entry in entries:
        yield head_of(entry)
        yield entry.data
        count += 1
    yield end_of(count)


def read_entries(data: bytes, requested: Collection[str] | None = None) -> Iterator[ContentEntry]:
    """The entries of a whole answer, or of a whole body, each under the digest of its bytes.

    ``requested`` are the digests of the request; a set answers fast, None takes any. One that is
    not among them, or comes twice, is refused before anything else is done with it. Raises
    EntryError.
    """
    if not data.startswith(START):
        raise EntryError(UNKNOWN, f"expected {START!r} first, found {data[: len(START)]!r}")
    position, came = len(START), set[str]()
    while position < len(data) and (kind := _KINDS.get(data[position])):
        start = position + _HEAD_BYTES
        end = start + int.from_bytes(data[position + 1 : start], "big")
        content = data[start:end]
        if end > len(data):
            problem = f"{kind}: expected {end - start} bytes, found {len(content)}"
            raise EntryError(UNKNOWN, problem)
        digest = sha256_hex(content)
        if digest in came or (requested is not None and digest not in requested):
            raise EntryError(digest, "came twice" if digest in came else "was not asked for")
        if kind == "object" and canonical(digest, content) != content:
            raise EntryError(digest, "data: expected canonical JSON, found another form")
        yield ContentEntry(digest, kind, content)
        came.add(digest)
        position = end
    found = data[position : position + _HEAD_BYTES]
    if found != end_of(len(came)):
        problem = f"expected an entry, or the end that counts {len(came)}, found {found!r}"
        raise EntryError(UNKNOWN, problem)
    behind = len(data) - position - _HEAD_BYTES
    if behind:
        raise EntryError(UNKNOWN, f"expected nothing behind the end, found {behind} bytes")
