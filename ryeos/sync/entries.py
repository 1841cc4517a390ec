"""Blobs and objects as entries of a transfer, in batches of bounded size.

An entry on the wire: ``{"hash": "<digest>", "kind": "blob" | "object", "data": "<base64>"}``. Of
an object the digest is that of its value, so ``data`` may hold any JSON text of it.
Format: ``docs/sync.md``.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from lillux.canonical_json import CanonicalJsonError, canonical_json
from lillux.digests import sha256_hex
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import is_digest
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ReadContents
from ryeos.sync.object_shapes import EntryError, found

MAX_ENTRIES = 500
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_ENTRY_BYTES = 37 * 1024 * 1024
"""A request holds 50 MiB, and base64 makes four bytes of three."""

UNKNOWN = "unknown"
_PART_CHARS = 1024 * 1024  # a multiple of four

EntryKind = Literal["blob", "object"]


class ContentEntry(NamedTuple):  # made for each piece: a tuple is made in a third of the time
    """A blob, or an object in its canonical JSON, under its digest."""

    digest: str
    kind: EntryKind
    data: bytes


@dataclass(frozen=True, slots=True)
class SizedContent:
    """Content that is to travel. ``name`` is what a person calls it, ``""`` for its digest."""

    digest: str
    size: int
    name: str = ""


def encode(entry: ContentEntry) -> dict[str, str]:
    """The entry as it is on the wire."""
    data = b64encode(entry.data).decode("ascii")
    return {"hash": entry.digest, "kind": entry.kind, "data": data}


def encode_json(entry: ContentEntry) -> bytes:
    """`encode` in the bytes of its JSON, put together by hand: nothing in it has escapes."""
    head = f'{{"hash":"{entry.digest}","kind":"{entry.kind}","data":"'
    return b"".join((head.encode("ascii"), b64encode(entry.data), b'"}'))


def decode(entry: Mapping[str, Any]) -> ContentEntry:
    """An entry of the wire, its digest recomputed. Raises EntryError.

    Base64 is taken only in its one form: standard alphabet, padded, no blanks.
    """
    digest, kind, data = _parts(entry)
    content = _from_base64(digest, data)
    if kind == "object":
        content = canonical(digest, content)
    computed = sha256_hex(content)
    if computed != digest:
        raise EntryError(digest, f"hash: expected that of the data, {computed}, found this")
    return ContentEntry(digest, kind, content)


def canonical(digest: str, content: bytes) -> bytes:
    """The canonical JSON of an object's JSON; ``digest`` is for the message. Raises EntryError."""
    try:
        return canonical_json(json.loads(content.decode("utf-8")))
    except (ValueError, RecursionError, CanonicalJsonError) as error:
        raise EntryError(digest, f"data: expected an object's JSON: {str(error)[:200]}") from None


def export_entries(digests: Iterable[str], contents: ReadContents) -> Iterator[ContentEntry]:
    """The entry of each digest that is there, in that order; of both kinds, the blob."""
    for digest in digests:
        entry = _export(digest, contents)
        if entry:
            yield entry


def batches(
    sized: Iterable[SizedContent], max_entries: int = MAX_ENTRIES
) -> tuple[tuple[str, ...], ...]:
    """Digests in groups for one request each, in the order given.

    At most ``max_entries`` and `MAX_BATCH_BYTES` in a group; one larger than that is alone.
    Raises RyeError `RESOURCE_EXCEEDED`, before anything is sent.
    """
    groups: list[tuple[str, ...]] = []
    group: list[str] = []
    room = MAX_BATCH_BYTES
    for content in sized:
        if content.size > MAX_ENTRY_BYTES:
            name = content.name or content.digest
            raise RyeError(
                f"{name}: expected at most {MAX_ENTRY_BYTES} bytes in a file that travels, found"
                f" {content.size}",
                code="RESOURCE_EXCEEDED",
                hint="leave it out with sync.exclude in .ai/config/cas/manifest.yaml",
            )
        if group and (len(group) == max_entries or content.size > room):
            groups.append(tuple(group))
            group, room = [], MAX_BATCH_BYTES
        group.append(content.digest)
        room -= content.size
    return (*groups, tuple(group)) if group else tuple(groups)


def _parts(entry: object) -> tuple[str, EntryKind, str]:
    if not isinstance(entry, Mapping):
        raise EntryError(UNKNOWN, f"expected an object, found {found(entry)}")
    digest = entry.get("hash")
    if not is_digest(digest):
        named = digest if isinstance(digest, str) and digest else UNKNOWN
        raise EntryError(named, f"hash: expected 64 lower-case hex digits, found {found(digest)}")
    kind, data = entry.get("kind"), entry.get("data")
    if not isinstance(data, str):
        raise EntryError(str(digest), f"data: expected base64, found {found(data)}")
    if kind != "blob" and kind != "object":  # noqa: PLR1714 - it may be a list, which no set takes
        raise EntryError(str(digest), f"kind: expected blob or object, found {found(kind)}")
    return str(digest), "blob" if kind == "blob" else "object", data


def _from_base64(digest: str, text: str) -> bytes:
    """The bytes of base64 in its one form. Raises EntryError.

    Part by part: one call for all of a large blob would keep every thread of a node waiting.
    """
    if len(text) % 4 or "=" in text[:-2]:
        raise EntryError(digest, "data: expected base64: Incorrect padding")
    parts = []
    try:
        for start in range(0, len(text), _PART_CHARS):
            part = text[start : start + _PART_CHARS].encode("ascii")
            parts.append(b64decode(part, validate=True))
        last = b64encode(b64decode(text[-4:], validate=True)).decode("ascii")
    except (binascii.Error, UnicodeEncodeError) as error:
        raise EntryError(digest, f"data: expected base64: {error}") from None
    if last != text[-4:]:  # bits behind the end say nothing, and hide
        raise EntryError(digest, "data: expected base64 in its one form, found another")
    return b"".join(parts)


def _export(digest: str, contents: ReadContents) -> ContentEntry | None:
    try:
        if contents.has_blob(digest):
            return ContentEntry(digest, "blob", contents.get_blob(digest))
        if contents.has_object(digest):
            return ContentEntry(digest, "object", canonical_json(contents.get_object(digest)))
    except ObjectMissingError:  # swept between the two
        return None
    return None
