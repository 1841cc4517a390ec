"""Transfers content to and from a node: only what the other side lacks, in bounded requests.

Interrupted anywhere, what has arrived stays, and doing it again continues from there.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from lillux.canonical_json import canonical_json
from lillux.store import Durability
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind
from ryeos.remote.errors import RemoteReplyError, ReplyTooLargeError
from ryeos.remote.node import MAX_GET_REPLY, Node
from ryeos.remote.transport import MIB, NodeReply
from ryeos.sync.contents import ReadContents
from ryeos.sync.entries import MAX_ENTRIES, ContentEntry, SizedContent, batches, export_entries
from ryeos.sync.framed_entries import MAX_FRAMES

MAX_COMPARED = 4000
"""Digests in one question whether the node has them: 270 kB."""

IN_FLIGHT = 2
"""Requests that send content at the same time; each holds a batch in memory, and its base64."""

MAX_FETCHED = 200
"""Pieces that are asked for before it is known how large they are."""

MAX_GOT = 2000
"""Pieces in one question for content, when it is known how small they are."""

GOOD_REPLY = 4 * MIB
"""Of content: larger ones are no faster, and each is held in memory some times."""

MAX_BATCH_REPLY = 16 * MIB

TransferProgress: TypeAlias = Callable[[str, int, int], None]
"""Gets what is done, how much of it, and of how much; at least at the start and at the end."""

SizeOf: TypeAlias = Callable[[str], SizedContent]


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Reports nothing."""


Ask: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Asks a node which of some digests it has to be sent."""


def missing_of(ask: Ask, digests: Sequence[str], progress: TransferProgress) -> list[str]:
    """Those of the digests that the node lacks."""
    unique = list(dict.fromkeys(digests))
    missing: list[str] = []
    progress("comparing", 0, len(unique))
    for start in range(0, len(unique), MAX_COMPARED):
        part = unique[start : start + MAX_COMPARED]
        missing += ask(part)
        progress("comparing", start + len(part), len(unique))
    return missing


def send(
    node: Node,
    digests: Sequence[str],
    contents: ReadContents,
    size_of: SizeOf,
    progress: TransferProgress = no_progress,
    *,
    ask: Ask | None = None,
) -> int:
    """Bring content to the node, as far as it is not there; how many pieces were sent.

    size_of  the size of a piece here, and the name of its file
    ask      which pieces are not there: `Node.missing`
    Raises RyeError `RESOURCE_EXCEEDED` before anything is sent, ObjectMissingError for what is
    nowhere, and what reading and asking raise.
    """
    missing = missing_of(ask or node.missing, digests, progress)
    most = MAX_FRAMES if node.takes_frames else MAX_ENTRIES
    groups = batches((size_of(digest) for digest in missing), most)
    progress("sending", 0, len(missing))
    sent = 0
    for count in _put_all(node, groups, contents):
        sent += count
        progress("sending", sent, len(missing))
    return len(missing)


def _put_all(node: Node, groups: Sequence[Sequence[str]], contents: ReadContents) -> Iterator[int]:
    """Send each group; how many pieces each one had. While the node stores, the next is read."""
    if len(groups) == 1:  # one changed file needs no threads
        node.put(exported(groups[0], contents))
        yield len(groups[0])
        return
    from concurrent.futures import ThreadPoolExecutor

    def put(group: Sequence[str]) -> int:
        node.put(exported(group, contents))
        return len(group)

    with ThreadPoolExecutor(IN_FLIGHT, "rye-remote-put") as pool:
        try:
            yield from pool.map(put, groups)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class ContentSink(Protocol):
    """The receiver of fetched content: a store is one."""

    def has_blob(self, digest: str) -> bool:
        """True if it is there."""

    def has_object(self, digest: str) -> bool:
        """True if it is there."""

    def keep(self, space: ObjectKind, digest: str, data: bytes, durability: Durability, /) -> None:
        """Keep bytes whose digest was just computed; of an object its canonical JSON."""

    def sync(self) -> None:
        """Force it to the disk."""


class KeptContents(ContentSink, ReadContents, Protocol):
    """Content that is kept, to be read."""

    def put_blob(self, data: bytes, durability: Durability, /) -> str:
        """Keep bytes."""

    def put_object(self, value: Any, durability: Durability, /) -> str:  # noqa: ANN401 - JSON
        """Keep a value."""


def fetch(
    node: Node,
    digests: Iterable[str],
    store: ContentSink,
    progress: TransferProgress = no_progress,
    space: ObjectKind | None = None,
) -> int:
    """Bring content from the node into the store, each piece hashed again; how many came.

    What the store has, in the space if one is given, is not asked for. Raises RemoteReplyError for
    what the node does not have.
    """
    came, missing = fetch_available(node, digests, store, progress, space)
    if missing:
        what = f"remote {node.name}: /objects/get"
        raise RemoteReplyError(what, f"expected {missing[0]}, found nothing")
    return came


def fetch_available(
    node: Node,
    digests: Iterable[str],
    store: ContentSink,
    progress: TransferProgress = no_progress,
    space: ObjectKind | None = None,
) -> tuple[int, tuple[str, ...]]:
    """Fetch as `fetch`; returns how many came, and what the node does not have."""
    wanted = [digest for digest in dict.fromkeys(digests) if not _has(store, digest, space)]
    total, done = len(wanted), 0
    progress("fetching", 0, total)
    missing: list[str] = []
    spaces = {one.value: one for one in ObjectKind}
    for requested, entries in _got_all(node, wanted):
        for entry in entries:
            store.keep(spaces[entry.kind], entry.digest, entry.data, Durability.AT_SYNC)
        came = {entry.digest for entry in entries}
        missing += (digest for digest in requested if digest not in came)
        done += len(came)
        progress("fetching", done, total)
    store.sync()
    return done, tuple(missing)


def _got_all(
    node: Node, digests: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[ContentEntry]]]:
    """Each request with its entries, until every digest was answered.

    While one reply is stored here, the next is on its way, of as many pieces as are likely to make
    a good reply; where one was too large, only one at a time from then on. A node with a bound of
    its own leaves some out: what is left out beside others is asked for again; where nothing came,
    nothing is there.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    pending = deque(digests)
    again: deque[Sequence[str]] = deque()
    size = MAX_FETCHED
    flying: deque[tuple[Sequence[str], Future[NodeReply]]] = deque()
    at_once = IN_FLIGHT
    with ThreadPoolExecutor(IN_FLIGHT, "rye-remote-get") as pool:
        try:
            while again or pending or flying:
                while (again or pending) and len(flying) < at_once:
                    group = again.popleft() if again else _first(pending, size)
                    limit = MAX_BATCH_REPLY if len(group) > 1 else MAX_GET_REPLY
                    flying.append((group, pool.submit(node.get_reply, group, limit)))
                requested, reply = flying.popleft()
                try:
                    # Read here: a thread that reads would hold up this one, which writes files.
                    entries = node.entries_of(reply.result(), requested)
                except ReplyTooLargeError:
                    if len(requested) == 1:
                        raise
                    at_once, size = 1, max(len(requested) // 4, 1)
                    again.extendleft(reversed(_parts(requested, size)))
                    continue
                size = _fitting(entries) or size
                came = {entry.digest for entry in entries}
                left = [digest for digest in requested if digest not in came] if came else []
                if left:
                    again.appendleft(left)
                yield [digest for digest in requested if digest in came or not came], entries
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _fitting(entries: Sequence[ContentEntry]) -> int:
    """The number of pieces like these in a reply of a good size, 0 where that is unknown."""
    size = sum(len(entry.data) for entry in entries)
    return min(max(len(entries) * GOOD_REPLY // size, 1), MAX_GOT) if size else 0


def _first(pending: deque[str], size: int) -> Sequence[str]:
    return [pending.popleft() for _ in range(min(size, len(pending)))]


def _parts(digests: Sequence[str], size: int) -> list[Sequence[str]]:
    return [digests[start : start + size] for start in range(0, len(digests), size)]


def exported(group: Sequence[str], contents: ReadContents) -> Iterator[ContentEntry]:
    """The entries of these digests. Raises ObjectMissingError for what is nowhere."""
    expected = iter(group)
    for entry in export_entries(group, contents):
        digest = next(expected)
        if entry.digest != digest:
            raise ObjectMissingError("content", digest, "this project")
        yield entry
    for digest in expected:
        raise ObjectMissingError("content", digest, "this project")


def _has(store: ContentSink, digest: str, space: ObjectKind | None) -> bool:
    if space is not ObjectKind.OBJECT and store.has_blob(digest):
        return True
    return space is not ObjectKind.BLOB and store.has_object(digest)


class RemoteContents:
    """The contents of a node, to be read: fetched when asked for, and kept in the store."""

    def __init__(self, node: Node, store: KeptContents) -> None:
        self._node, self._store = node, store

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest."""
        try:
            return self._store.get_blob(digest)
        except ObjectMissingError:
            fetch(self._node, (digest,), self._store)
            if not self._store.has_blob(digest):  # the same bytes came, called an object
                data = canonical_json(self._store.get_object(digest))
                self._store.put_blob(data, Durability.AT_SYNC)
            return self._store.get_blob(digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest."""
        if not self._store.has_object(digest):
            fetch(self._node, (digest,), self._store)
            if not self._store.has_object(digest):  # the same bytes came, called a blob
                self._put_as_object(digest)
        return self._store.get_object(digest)

    def _put_as_object(self, digest: str) -> None:
        try:
            stored = self._store.put_object(
                json.loads(self._store.get_blob(digest)), Durability.AT_SYNC
            )
        except (ValueError, RecursionError):
            stored = ""
        if stored != digest:
            raise RemoteReplyError(
                f"remote {self._node.name}: /objects/get", f"expected {digest} to be an object"
            )

    def has_blob(self, digest: str) -> bool:
        """True if it is here already: nothing is asked."""
        return self._store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """True if it is here already: nothing is asked."""
        return self._store.has_object(digest)
