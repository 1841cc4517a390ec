"""Objects and blobs of one user: which are there, putting more, getting them back.

Formats: ``docs/sync.md``. Everything here reads and writes files; routes call it in a worker
thread.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.digests import canonical_json
from lillux.errors import LilluxError
from lillux.store import Store
from lillux.store_files import (
    DigestError,
    ObjectChangedError,
    ObjectMissingError,
    ObjectUnreadableError,
    Space,
)
from lillux.values import dataclass
from rye_services.node.known_items import KnownItems
from rye_services.node.usage import Usage
from ryeos.sync.entries import START, Entry, decode, encode_json, end_of, head_of, store_entry
from ryeos.sync.objects import CasObjectError, EntryError, item_source_of

_PIECE_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Presence:
    """Which digests a store has, as blob or object or both; each once, as they were asked for."""

    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Put:
    """What became of the entries of one request: the digests there now, and the refused ones."""

    stored: tuple[str, ...]
    failures: tuple[EntryError, ...]


class ResponseTooLargeError(LilluxError):
    """More asked for in one request than one answer holds."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"expected hashes of at most {limit} bytes together, found {size} bytes",
            hint="ask for fewer hashes in one request",
        )


def find_present(store: Store, digests: Iterable[str]) -> Presence:
    """Which are there. Those are made young again, so that no sweep takes them before a push.

    A text that is no digest is missing. Raises StoreLinkError, FileSystemError.
    """
    asked = dict.fromkeys(digests)
    present: list[str] = []
    missing: list[str] = []
    for digest in asked:
        found = [store.touch(space, digest) for space in Space]
        (present if any(found) else missing).append(digest)
    return Presence(tuple(present), tuple(missing))


def put_entries(
    mappings: Sequence[Mapping[str, Any]],
    *,
    user_id: str,
    store: Store,
    usage: Usage,
    known: KnownItems,
    max_bytes: int,
) -> Put:
    """Store what is sound of one request.

    1. each entry is decoded and hashed; what is not what it says is refused by itself
    2. room is reserved for what is new, for all of it or nothing
    3. it is stored; the disk has it when the next push returns

    Raises QuotaExceededError, FileSystemError.
    """
    entries, failures = _decode_all(mappings)  # (1)
    new = {(one.kind, one.digest): len(one.data) for one in entries if not _has(store, one)}
    usage.reserve(user_id, sum(new.values()), max_bytes=max_bytes, store=store)  # (2)
    for entry in entries:  # (3)
        _store(entry, store, known)
    return Put(tuple(entry.digest for entry in entries), failures)


def answer_pieces(
    store: Store, digests: Sequence[str], *, max_bytes: int, is_framed: bool = False
) -> Iterator[bytes]:
    """The entries in pieces, each entry read when its piece is asked for.

    As ``{"entries": [...]}``, or as `ryeos.sync.entries` has them. What is not there, or no
    longer sound, is left out; what is asked for twice is there twice.
    Raises ResponseTooLargeError, before the first piece.
    """
    if len(set(digests)) < len(digests):  # each once is no more than the user has stored
        sizes = {digest: _size(store, digest) for digest in dict.fromkeys(digests)}
        size = sum(sizes[digest] for digest in digests)
        if size > max_bytes:
            raise ResponseTooLargeError(size, max_bytes)
    entries = (entry for digest in digests if (entry := _read(store, digest)))
    return _joined(_framed(entries) if is_framed else _in_json(entries))


def _decode_all(
    mappings: Sequence[Mapping[str, Any]],
) -> tuple[list[Entry], tuple[EntryError, ...]]:
    entries, failures = [], []
    for mapping in mappings:
        try:
            entries.append(decode(mapping))
        except EntryError as error:
            failures.append(error)
    return entries, tuple(failures)


def _has(store: Store, entry: Entry) -> bool:
    return store.size(Space(entry.kind), entry.digest) is not None


def _store(entry: Entry, store: Store, known: KnownItems) -> None:
    store_entry(entry, store)
    if entry.kind == "blob":
        return
    try:  # the push that follows asks for it
        item = item_source_of(json.loads(entry.data), "")
        known.remember(entry.digest, item.content_blob_hash)
    except CasObjectError:
        return


def _size(store: Store, digest: str) -> int:
    sizes = (store.size(space, digest) for space in Space)
    return next((size for size in sizes if size is not None), 0)


def _in_json(entries: Iterable[Entry]) -> Iterator[bytes]:
    separator = b'{"entries":['
    for entry in entries:
        yield separator
        yield encode_json(entry)
        separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def _framed(entries: Iterable[Entry]) -> Iterator[bytes]:
    count = 0
    yield START
    for entry in entries:
        yield head_of(entry)
        yield entry.data
        count += 1
    yield end_of(count)


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in few pieces: each costs a change of threads."""
    piece: list[bytes] = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _read(store: Store, digest: str) -> Entry | None:
    """A blob, else an object, hashed again; None for one that is not there or not sound."""
    try:
        return Entry(digest, "blob", store.get_blob(digest))
    except ObjectMissingError:
        return _read_object(store, digest)
    except DigestError:
        return None
    except ObjectChangedError as error:
        _log.warning("left out of an answer: %s", error)
    return None


def _read_object(store: Store, digest: str) -> Entry | None:
    try:
        return Entry(digest, "object", canonical_json(store.get_object(digest)))
    except ObjectMissingError:
        return None
    except (ObjectChangedError, ObjectUnreadableError) as error:
        _log.warning("left out of an answer: %s", error)
    return None
