"""The objects and blobs of one user: list, store, return.

Formats: ``docs/sync.md``. Everything here reads and writes files; routes call it in a worker
thread.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from lillux.canonical_json import canonical_json
from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.store import Durability, Store
from lillux.store_errors import (
    DigestError,
    ObjectChangedError,
    ObjectMissingError,
    ObjectUnreadableError,
)
from lillux.store_forcing import force_file_system
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass
from rye_services.node.store.servers import ServerLease, ServersElsewhere, ServersSeen
from rye_services.people.credentials import UserIdError, valid_user_id
from rye_services.storage.database import Database, stamp, uploads_in_flight, users
from ryeos.items.context import Clock
from ryeos.sync.contents import ContentStore
from ryeos.sync.entries import ContentEntry, decode, encode_json
from ryeos.sync.framed_entries import framed
from ryeos.sync.object_shapes import CasObjectError, EntryError
from ryeos.sync.objects import SourceManifest, item_source_of

# --- uploads --------------------------------------------------------------------------------------
# Who is uploading right now: no garbage of theirs is collected, however long an upload takes.
#
# A row for each user, renewed by what an upload consists of and gone with the push that ends it.
# One that is given up ends by itself.

LEASE_S = 900.0
_RENEWED_AFTER_S = 60.0


class Uploads:
    """The uploads in flight of all users. Thread-safe, and so across processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._renewed: dict[str, float] = {}  # so that most requests write nothing
        self._lock = Lock()

    def renew(self, user_id: str) -> None:
        """Record that a user is uploading."""
        if not self._database.is_sqlite:  # another server may have ended it meanwhile
            self._renew_row(user_id)
            return
        now_s = self._clock().timestamp()
        with self._lock:
            if now_s - self._renewed.get(user_id, 0.0) < _RENEWED_AFTER_S:
                return
            self._renewed[user_id] = now_s
        if not self._extend(user_id, now_s):
            self._begin(user_id, now_s)

    def end(self, user_id: str) -> None:
        """Record that the upload is complete and referenced."""
        with self._lock:
            known = self._renewed.pop(user_id, None)
        if known is None and self._database.is_sqlite:
            return
        with self._database.single_write() as connection:
            connection.execute(delete(uploads_in_flight).where(uploads_in_flight.c.id == user_id))

    def is_going_on(self, user_id: str) -> bool:
        """Whether the user is uploading, as far as is known."""
        until = uploads_in_flight.c.lease_until_s
        statement = select(until).where(uploads_in_flight.c.user_id == user_id)
        with self._database.reading() as connection:
            now_s = self._now_s(connection)
            return any(until_s > now_s for until_s in connection.execute(statement).scalars())

    def _renew_row(self, user_id: str) -> None:
        """Write a row with a lease that is not old: most requests find one and write nothing."""
        now_s = self._database.now_s
        until_s = now_s + LEASE_S
        row = postgresql.insert(uploads_in_flight).values(
            id=user_id, user_id=user_id, started_at_s=now_s, lease_until_s=until_s
        )
        is_old = uploads_in_flight.c.lease_until_s < until_s - _RENEWED_AFTER_S
        with self._database.single_write() as connection:
            connection.execute(
                row.on_conflict_do_update(
                    index_elements=["id"], set_={"lease_until_s": until_s}, where=is_old
                )
            )

    def _now_s(self, connection: Connection) -> float:
        """The time that leases are by: of many servers the clock of their database."""
        now = self._clock() if self._database.is_sqlite else self._database.now(connection)
        return now.timestamp()

    def _extend(self, user_id: str, now_s: float) -> bool:
        statement = (
            update(uploads_in_flight)
            .where(uploads_in_flight.c.id == user_id)
            .values(lease_until_s=now_s + LEASE_S)
        )
        with self._database.writing() as connection:
            return bool(connection.execute(statement).rowcount == 1)

    def _begin(self, user_id: str, now_s: float) -> None:
        row = {
            "id": user_id,
            "user_id": user_id,
            "started_at_s": now_s,
            "lease_until_s": now_s + LEASE_S,
        }
        try:
            with self._database.writing() as connection:
                connection.execute(insert(uploads_in_flight).values(**row))
        except IntegrityError:  # another request of the same upload was first
            return


# --- usage ----------------------------------------------------------------------------------------
# How many bytes each user has stored: a number that is kept, not measured at every request.
#
# Room is reserved before it is used, so the number is never too small. A crash between the two
# leaves it too large, until `Usage.measure` counts the files, as every collection of garbage does.


_COUNTING = "counting.lock"


class QuotaExceededError(LilluxError):
    """No room for more of a user. All sizes in bytes."""

    code, exit_status, http_status = "RESOURCE_EXCEEDED", 6, 507

    def __init__(self, used: int, more: int, limit: int) -> None:
        self.used, self.more, self.limit = used, more, limit
        super().__init__(
            f"storage quota exceeded: {limit} bytes allowed, {used} stored, {more} more sent",
            hint="ask the operator of the node for a larger quota",
        )


class Usage:
    """The bytes stored of each user. Thread-safe, and so across processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def read(self, user_id: str, *, store: ContentStore) -> int:
        """The bytes of a user; counted when the user is new to the database."""
        used = self.recorded(user_id)
        return self._begin(user_id, store) if used is None else used

    def reserve(self, user_id: str, more: int, *, max_bytes: int, store: ContentStore) -> None:
        """Add bytes about to be stored, within the quota of the user, else within ``max_bytes``.

        Raises QuotaExceededError, having added nothing.
        """
        if not more:
            return
        columns = users.c
        allowed = func.coalesce(columns.quota_bytes, max_bytes)
        fits = columns.stored_bytes + more <= allowed
        if self._add_bytes(user_id, more, fits) is not None:
            return
        used = self.read(user_id, store=store)
        if self._add_bytes(user_id, more, fits) is not None:  # they were new to the database
            return
        with self._database.single_read() as connection:
            own = connection.scalar(select(columns.quota_bytes).where(columns.id == user_id))
        raise QuotaExceededError(used, more, max_bytes if own is None else int(own))

    def add(self, user_id: str, more: int, *, store: ContentStore) -> int:
        """Add bytes that were stored; a negative number of removed ones. The bytes now."""
        if more and (used := self._add_bytes(user_id, more)) is not None:
            return used
        used = self.read(user_id, store=store)
        if more:  # they were new to the database
            self._add_bytes(user_id, more)
        return used + more

    def _add_bytes(
        self, user_id: str, more: int, condition: ColumnElement[bool] | None = None
    ) -> int | None:
        """The bytes of a user once some were added; None where no row fits."""
        columns = users.c
        statement = update(users).where(columns.id == user_id)
        if condition is not None:
            statement = statement.where(condition)
        added = statement.values(stored_bytes=columns.stored_bytes + more)
        with self._database.single_write() as connection:
            found = connection.scalar(added.returning(columns.stored_bytes))
        return None if found is None else int(found)

    def measure(self, user_id: str, *, store: ContentStore) -> int:
        """Count the files and record it; what is added meanwhile stays added. The bytes now.

        One caller counts at a time, else two would subtract the same difference; another gets the
        recorded number. For stores that are no folders the caller holds the lock of the storage.
        """
        try:
            with _counting_lock(store):
                recorded = self.recorded(user_id)
                if recorded is None:
                    return self._begin(user_id, store)
                return self.add(user_id, _count(store) - recorded, store=store)
        except LockTimeoutError:
            return self.read(user_id, store=store)

    def recorded(self, user_id: str) -> int | None:
        """The bytes of a user as they are kept, None for one who is new to the database."""
        statement = select(users.c.stored_bytes).where(users.c.id == user_id)
        with self._database.single_read() as connection:
            used = connection.execute(statement).scalar_one_or_none()
        return None if used is None else int(used)

    def _begin(self, user_id: str, store: ContentStore) -> int:
        found = _count(store)
        row = {"id": user_id, "created_at": stamp(self._clock()), "stored_bytes": found}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(users).values(**row))
        except IntegrityError:  # another request was first, and counted the same
            return found
        return found


def _counting_lock(store: ContentStore) -> AbstractContextManager[object]:
    """The lock for counting. Raises LockTimeoutError."""
    if store.folder is None:
        return nullcontext()
    return locked(store.folder.with_name(_COUNTING), timeout_s=0)


def _count(store: ContentStore) -> int:
    return sum(stored.size for space in ObjectKind for stored in store.stored(space))


# --- stores ---------------------------------------------------------------------------------------
# A store for each user, and no way from one to another: ``<cas>/<user>/.ai/state/objects``.

_STORE = Path(".ai", "state", "objects")
# Only the node reads these stores. A first push brings thousands of pieces: with two levels
# nearly each would make a folder of its own, which costs as much as the piece (ADR 0019).
_LEVELS = 1


class StoresOfUsers(Protocol):
    """A store for each user: folders (`UserStores`), or object storage (`BucketStores`)."""

    def of(self, user_id: str) -> ContentStore:
        """The store of a user. Raises UserIdError."""
        ...

    def users(self) -> tuple[str, ...]:
        """All users who have a store, sorted."""
        ...


class UserStores:
    """The stores below a folder. Thread-safe; a store is the same object for every caller."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._stores: dict[str, Store] = {}
        self._lock = Lock()

    def of(self, user_id: str) -> Store:
        """The store of a user. Raises UserIdError."""
        folder = self.folder_of(user_id)
        with self._lock:
            store = self._stores.get(user_id)
            if store is None:
                store = self._stores[user_id] = Store(folder / _STORE, levels=_LEVELS)
            return store

    def users(self) -> tuple[str, ...]:
        """All users who have a store, sorted. Other folders beside them are not stores."""
        names = sorted(path.parent.name for path in self.root.glob("*/.ai"))
        return tuple(name for name in names if self._has_store(name))

    def folder_of(self, user_id: str) -> Path:
        """Where everything of a user lies. Raises UserIdError."""
        return self.root / valid_user_id(user_id)

    def _has_store(self, name: str) -> bool:
        try:
            return (self.folder_of(name) / _STORE).is_dir()
        except UserIdError:
            return False


# --- known items ----------------------------------------------------------------------------------
# What the item objects that were read once say: which blob each of them leads to.
#
# An object is named by its content, so what one says never changes and is true for every user. That
# it is *there* is another matter, and asked of the store each time.

MAX_ITEMS = 100_000
"""About 25 MB; more than the items of the ten largest projects that push at once."""


class KnownManifests:
    """Manifests that were used lately, at most ``max_paths`` paths in all. Thread-safe.

    A manifest is named by its content, so what one says never changes. That it is *there* is
    another matter, and asked of the store each time.
    """

    def __init__(self, max_paths: int = 50_000) -> None:
        self._max_paths = max_paths
        self._known: dict[str, SourceManifest] = {}  # the one used last at the end
        self._lock = Lock()

    def get(self, digest: str) -> SourceManifest | None:
        """The manifest of a digest, None for one that is not known."""
        with self._lock:
            found = self._known.pop(digest, None)
            if found is not None:
                self._known[digest] = found
            return found

    def keep(self, digest: str, manifest: SourceManifest) -> None:
        """Know a manifest from now on; those that were used longest ago are forgotten for it."""
        with self._lock:
            self._known[digest] = manifest
            while sum(len(one.items) + len(one.files) for one in self._known.values()) > (
                self._max_paths
            ):
                del self._known[next(iter(self._known))]


class KnownItems:
    """The blob of each sound ``item_source`` seen lately, at most ``limit``. Thread-safe.

    ``manifests``: those that were pushed lately. Their bytes are hashed again each time, and read
    as JSON once.
    """

    def __init__(self, limit: int = MAX_ITEMS) -> None:
        self.manifests = KnownManifests()
        # Two generations instead of a queue: what is asked for moves to the young one, and when
        # that is half of all, the old one goes as a whole.
        self._half = max(1, limit // 2)
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._lock = Lock()

    def blob_of(self, digest: str) -> str | None:
        """The blob that an item leads to, None for one that was not read lately."""
        key = bytes.fromhex(digest)
        young = self._young.get(key)
        if young is not None:
            return young.hex()
        old = self._old.get(key)
        if old is None:
            return None
        self._keep(key, old)
        return old.hex()

    def remember(self, digest: str, blob: str) -> None:
        """Keep that the item of ``digest`` was read, is sound and leads to ``blob``."""
        self._keep(bytes.fromhex(digest), bytes.fromhex(blob))

    def _keep(self, key: bytes, value: bytes) -> None:
        with self._lock:
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[key] = value


# --- entries --------------------------------------------------------------------------------------

_PIECE_BYTES = 256 * 1024
_LARGEST_ITEM_BYTES = 64 * 1024  # that the object of an item has; manifests are larger
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DigestPresence:
    """Which digests a store has, as blob or object or both; each once, as they were asked for."""

    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of the entries of one request: the digests there now, and the refused ones."""

    stored: tuple[str, ...]
    failures: tuple[EntryError, ...]


class AnswerTooLargeError(LilluxError):
    """More asked for in one request than one answer holds."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"expected hashes of at most {limit} bytes together, found {size} bytes",
            hint="ask for fewer hashes in one request",
        )


def find_present(store: ContentStore, digests: Iterable[str]) -> DigestPresence:
    """Which are there. Those are made young again, so that no sweep takes them before a push.

    A text that is no digest is missing. Raises StoreLinkError, FileSystemError.
    """
    unique = dict.fromkeys(digests)
    found = set().union(*(store.touch_all(space, unique) for space in ObjectKind))
    present = tuple(digest for digest in unique if digest in found)
    return DigestPresence(present, tuple(digest for digest in unique if digest not in found))


def find_sound(store: ContentStore, digests: Iterable[str]) -> DigestPresence:
    """As `find_present`, and what is there is read: what is damaged is set aside, and missing."""
    unique = dict.fromkeys(digests)
    for digest in unique:
        if is_digest(digest):
            for space in ObjectKind:
                if not is_sound(store, space, digest):
                    store.set_aside(space, digest)
    return find_present(store, unique)


def is_sound(store: ContentStore, space: ObjectKind, digest: str) -> bool:
    """Whether what is stored is what its name says; also where nothing is."""
    try:
        if space is ObjectKind.BLOB:
            store.get_blob(digest)
        else:
            store.get_object(digest)
    except ObjectMissingError:
        return True
    except LilluxError as error:
        _log.warning("damaged: %s", error)
        return False
    return True


def put_entries(
    mappings: Sequence[Mapping[str, Any]],
    *,
    user_id: str,
    store: ContentStore,
    usage: Usage,
    known: KnownItems,
    max_bytes: int,
) -> PutResult:
    """Store what is sound of one request in JSON; the rest is refused, each by itself.

    Raises as `keep_entries`.
    """
    entries, failures = decode_entries(mappings)
    stored = keep_entries(
        entries, user_id=user_id, store=store, usage=usage, known=known, max_bytes=max_bytes
    )
    return PutResult(stored, failures)


def keep_entries(
    entries: Sequence[ContentEntry],
    *,
    user_id: str,
    store: ContentStore,
    usage: Usage,
    known: KnownItems,
    max_bytes: int,
) -> tuple[str, ...]:
    """Store entries that were just decoded and hashed. Their digests, in that order.

    1. what is there already and damaged makes place
    2. room is reserved for what is new, for all of it or nothing
    3. it is stored; the disk has it when the next push returns
    4. where that fails, the room of what was not stored is given back

    Raises QuotaExceededError, FileSystemError, ObjectStorageError.
    """
    present = _present(store, entries)
    if present:  # (1)
        find_sound(store, [digest for _, digest in present])
        present = _present(store, entries)
    new = {(one.kind, one.digest): len(one.data) for one in entries}
    more = sum(size for key, size in new.items() if key not in present)
    usage.reserve(user_id, more, max_bytes=max_bytes, store=store)  # (2)
    try:
        store.keep_all(  # (3)
            [(ObjectKind(one.kind), one.digest, one.data) for one in entries], Durability.AT_SYNC
        )
    except (LilluxError, OSError):  # (4)
        known_now = _present(store, entries)
        gone = sum(size for key, size in new.items() if key not in {*present, *known_now})
        usage.add(user_id, -gone, store=store)
        raise
    for entry in entries:
        _remember(entry, known)
    return tuple(entry.digest for entry in entries)


def answer_pieces(
    store: ContentStore, digests: Sequence[str], *, max_bytes: int, is_framed: bool = False
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
            raise AnswerTooLargeError(size, max_bytes)
    entries = (entry for digest in digests if (entry := _read(store, digest)))
    return _join_pieces(framed(entries) if is_framed else _in_json(entries))


def decode_entries(
    mappings: Sequence[Mapping[str, Any]],
) -> tuple[list[ContentEntry], tuple[EntryError, ...]]:
    """The entries of a request in JSON, each hashed, and what is wrong with the others."""
    entries, failures = [], []
    for mapping in mappings:
        try:
            entries.append(decode(mapping))
        except EntryError as error:
            failures.append(error)
    return entries, tuple(failures)


def _present(store: ContentStore, entries: Sequence[ContentEntry]) -> set[tuple[str, str]]:
    """Kind and digest of those entries that a store has."""
    return {
        (space.value, digest)
        for space in ObjectKind
        for digest in store.sizes(space, [one.digest for one in entries if one.kind == space])
    }


def _remember(entry: ContentEntry, known: KnownItems) -> None:
    """The push that follows asks which blob an item leads to."""
    if entry.kind == "blob" or len(entry.data) > _LARGEST_ITEM_BYTES:
        return
    try:
        item = item_source_of(json.loads(entry.data), "")
        known.remember(entry.digest, item.content_blob_hash)
    except CasObjectError:
        return


def _size(store: ContentStore, digest: str) -> int:
    sizes = (store.size(space, digest) for space in ObjectKind)
    return next((size for size in sizes if size is not None), 0)


def _in_json(entries: Iterable[ContentEntry]) -> Iterator[bytes]:
    separator = b'{"entries":['
    for entry in entries:
        yield separator
        yield encode_json(entry)
        separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def _join_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
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


def _read(store: ContentStore, digest: str) -> ContentEntry | None:
    """A blob, else an object, hashed again; None for one that is not there or not sound."""
    try:
        return ContentEntry(digest, "blob", store.get_blob(digest))
    except ObjectMissingError:
        return _read_object(store, digest)
    except DigestError:
        return None
    except ObjectChangedError as error:
        _log.warning("left out of an answer: %s", error)
    return None


def _read_object(store: ContentStore, digest: str) -> ContentEntry | None:
    try:
        return ContentEntry(digest, "object", canonical_json(store.get_object(digest)))
    except ObjectMissingError:
        return None
    except (ObjectChangedError, ObjectUnreadableError) as error:
        _log.warning("left out of an answer: %s", error)
    return None


# --- durable --------------------------------------------------------------------------------------
# That what was stored is on the disk, before anything says that it is there.


class DurableStores:
    """Forces stores to the disk. One for the whole server; thread-safe.

    presence  tells whether other servers share the data
    force     has the file system of a folder on the disk; False where no call does that
    """

    def __init__(
        self,
        presence: ServerLease | ServersElsewhere,
        force: Callable[[str], bool] = force_file_system,
    ) -> None:
        self._presence, self._force = presence, force
        self._forced: dict[str, ServersSeen] = {}
        self._lock = Lock()

    def force(self, store: ContentStore) -> None:
        """Force to the disk what any process put into a store before. Raises FileSystemError.

        1. a store remembers what this process has put there
        2. what others have put there is not known here: a server that was killed, or one that
           shares the data. Then everything is forced: the first time, and whenever another server
           was there since the last time
        """
        if store.folder is None:  # what it has acknowledged is safe
            store.sync()
            return
        root, seen = str(store.folder), self._presence.look()
        with self._lock:
            before = self._forced.get(root)
        if (before is None or not before.leads_alone_to(seen)) and store.folder.is_dir():  # (2)
            if not self._force(root):
                _log.info("no call here forces a file system, %s is forced by file", root)
                _force_each(store.folder)
            with self._lock:
                self._forced[root] = seen
        store.sync()  # (1)


def _force_each(folder: Path) -> None:
    """Force each file of a store to the disk, on systems that cannot force all at once."""
    store = Store(folder, levels=_LEVELS)
    for space in ObjectKind:
        store.sync_stored(space, (one.digest for one in store.stored(space)))
