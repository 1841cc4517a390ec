"""Entries of a transfer as plain bytes: no base64, no JSON around them. No network here.

An answer begins with `START`. Then each entry: ``b`` for a blob or ``o`` for an object, the number
of its bytes in four bytes, most significant first, and the bytes; of an object they are its
canonical JSON. At the end: ``e``, and the number of entries in four bytes. A digest is not sent:
whoever reads computes it. Format: ``docs/sync.md``, Entries in frames.
"""

import json
from collections.abc import Iterator

from lillux.digests import sha256_hex
from lillux.integrity import CanonicalJsonError, canonical_json
from ryeos.cas.errors import EntryError
from ryeos.cas.sync import UNKNOWN, Entry, EntryKind

MEDIA_TYPE = "application/vnd.rye.entries"
START = b"rye entries 1\n"

_MARKS: dict[EntryKind, bytes] = {"blob": b"b", "object": b"o"}
_KINDS: dict[int, EntryKind] = {mark[0]: kind for kind, mark in _MARKS.items()}
_END = b"e"
_HEAD_BYTES = 5


def head_of(entry: Entry) -> bytes:
    """What stands before the bytes of an entry."""
    return _MARKS[entry.kind] + len(entry.data).to_bytes(4, "big")


def end_of(count: int) -> bytes:
    """What stands behind so many entries."""
    return _END + count.to_bytes(4, "big")


def read_entries(data: bytes) -> Iterator[Entry]:
    """The entries of a whole answer, each under the digest of its bytes. Raises EntryError."""
    if not data.startswith(START):
        raise EntryError(UNKNOWN, f"expected {START!r} first, found {data[: len(START)]!r}")
    position, count = len(START), 0
    while position < len(data) and (kind := _KINDS.get(data[position])):
        start = position + _HEAD_BYTES
        end = start + int.from_bytes(data[position + 1 : start], "big")
        content = data[start:end]
        if end > len(data):
            problem = f"expected {end - start} bytes of a {kind}, found {len(content)}"
            raise EntryError(UNKNOWN, problem)
        digest = sha256_hex(content)
        if kind == "object":
            _check_canonical(digest, content)
        yield Entry(digest, kind, content)
        position, count = end, count + 1
    if data[position:] != end_of(count):
        found = data[position : position + _HEAD_BYTES]
        raise EntryError(UNKNOWN, f"expected the end after {count} entries, found {found!r}")


def _check_canonical(digest: str, content: bytes) -> None:
    """Raises EntryError."""
    try:
        is_canonical = canonical_json(json.loads(content.decode("utf-8"))) == content
    except (ValueError, RecursionError, CanonicalJsonError) as error:
        raise EntryError(digest, f"data: expected an object's JSON: {str(error)[:200]}") from None
    if not is_canonical:
        raise EntryError(digest, "data: expected canonical JSON, found another form")
