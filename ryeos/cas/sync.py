"""Blobs and objects as entries of a transfer, and how many go into one. No network here.

An entry on the wire: ``{"hash": "<digest>", "kind": "blob" | "object", "data": "<base64>"}``. Of
an object the digest is that of its value, so ``data`` may hold any JSON text of it.
Format: ``docs/cas.md``.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from lillux.digests import CanonicalJsonError, canonical_json, sha256_hex
from lillux.store import Durability, Store
from lillux.store_files import ObjectMissingError, Space, is_digest
from lillux.values import dataclass
from ryeos.cas.contents import ReadContents
from ryeos.cas.errors import EntryError, EntryTooLargeError, ImportFailedError
from ryeos.cas.fields import found
from ryeos.cas.objects import SourceManifest, item_source_of

MAX_ENTRIES = 500
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_ENTRY_BYTES = 37 * 1024 * 1024
"""A request holds 50 MiB, and base64 makes four bytes of three."""

UNKNOWN = "unknown"
_PART_CHARS = 1024 * 1024  # a multiple of four

EntryKind = Literal["blob", "object"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A blob, or an object in its canonical JSON, under its digest."""

    digest: str
    kind: EntryKind
    data: bytes


@dataclass(frozen=True, slots=True)
class Sized:
    """Content that is to travel. ``name`` is what a person calls it, ``""`` for its digest."""

    digest: str
    size: int
    name: str = ""


def encode(entry: Entry) -> dict[str, str]:
    """The entry as it is on the wire."""
    data = b64encode(entry.data).decode("ascii")
    return {"hash": entry.digest, "kind": entry.kind, "data": data}


def encode_json(entry: Entry) -> bytes:
    """`encode` in the bytes of its JSON, put together by hand: nothing in it has escapes."""
    head = f'{{"hash":"{entry.digest}","kind":"{entry.kind}","data":"'
    return b"".join((head.encode("ascii"), b64encode(entry.data), b'"}'))


def decode(entry: Mapping[str, Any]) -> Entry:
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
    return Entry(digest, kind, content)


def canonical(digest: str, content: bytes) -> bytes:
    """The canonical JSON of an object's JSON; ``digest`` is for the message. Raises EntryError."""
    try:
        return canonical_json(json.loads(content.decode("utf-8")))
    except (ValueError, RecursionError, CanonicalJsonError) as error:
        raise EntryError(digest, f"data: expected an object's JSON: {str(error)[:200]}") from None


def collect_object_hashes(manifest: SourceManifest, contents: ReadContents) -> tuple[str, ...]:
    """What a manifest needs to be whole, each once: items, the bytes of each, files.

    Not the manifest itself; and the bytes of an item only if its object can be read here.
    Raises CasObjectError.
    """
    digests: dict[str, None] = {}
    for item in manifest.items.values():
        digests[item] = None
        try:
            source = item_source_of(contents.get_object(item), f"item_source {item}")
        except ObjectMissingError:
            continue
        digests[source.content_blob_hash] = None
    digests.update(dict.fromkeys(manifest.files.values()))
    return tuple(digests)


def export_entries(digests: Iterable[str], contents: ReadContents) -> Iterator[Entry]:
    """The entry of each digest that is there, in that order; of both kinds, the blob."""
    for digest in digests:
        entry = _export(digest, contents)
        if entry:
            yield entry


def import_entries(
    entries: Iterable[Mapping[str, Any]],
    store: Store,
    durability: Durability = Durability.AT_SYNC,
) -> tuple[str, ...]:
    """Store entries of the wire, each checked. Their digests, in that order.

    They are safe from a loss of power after `Store.sync` of this very store. Raises
    ImportFailedError when some are refused (the others are stored), FileSystemError.
    """
    stored: list[str] = []
    failures: list[EntryError] = []
    for entry in entries:
        try:
            checked = decode(entry)
        except EntryError as error:
            failures.append(error)
            continue
        store_entry(checked, store, durability)
        stored.append(checked.digest)
    if failures:
        raise ImportFailedError(stored, failures)
    return tuple(stored)


def store_entry(entry: Entry, store: Store, durability: Durability = Durability.AT_SYNC) -> None:
    """Store an entry that `decode` has checked. Raises StoreLinkError, FileSystemError."""
    store.keep(Space(entry.kind), entry.digest, entry.data, durability)


def batches(sized: Iterable[Sized]) -> tuple[tuple[str, ...], ...]:
    """Digests in groups for one request each, in the order given.

    At most `MAX_ENTRIES` and `MAX_BATCH_BYTES` in a group; one larger than that is alone.
    Raises EntryTooLargeError, before anything is sent.
    """
    groups: list[tuple[str, ...]] = []
    group: list[str] = []
    room = MAX_BATCH_BYTES
    for content in sized:
        if content.size > MAX_ENTRY_BYTES:
            name = content.name or content.digest
            raise EntryTooLargeError(name, content.size, MAX_ENTRY_BYTES)
        if group and (len(group) == MAX_ENTRIES or content.size > room):
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
    if kind not in {"blob", "object"}:
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


def _export(digest: str, contents: ReadContents) -> Entry | None:
    try:
        if contents.has_blob(digest):
            return Entry(digest, "blob", contents.get_blob(digest))
        if contents.has_object(digest):
            return Entry(digest, "object", canonical_json(contents.get_object(digest)))
    except ObjectMissingError:  # swept between the two
        return None
    return None
