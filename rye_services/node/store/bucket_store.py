"""Stores in object storage: the contents in packs of a bucket, where each lies in the database.

Rules and format: ``docs/store.md``, Object storage; why so: ADR 0022. The order of each change is
what keeps it safe, with any number of servers:

- a row says where a content lies, and is written once its pack is safe. What has a row is there
- a pack has a name that no other file ever had, and is never changed: what no row names, and
  is older than the grace by the clock of the storage, is removed without a lock
- a row is removed by one statement that names the time of its last use, which each use sets: a push
  either keeps the row, or finds that the content is not there and sends it again
"""

import json
import logging
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import ColumnElement, String, and_, any_, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.store import MAX_BYTES, Durability, StoredEntry
from lillux.store_errors import (
    ObjectChangedError,
    ObjectMissingError,
    ObjectTooLargeError,
    ObjectUnreadableError,
    RefUnreadableError,
)
from lillux.store_layout import ObjectKind, is_digest, ref_folders, valid_digest
from lillux.values import dataclass
from rye_services.node.store.packs import (
    HEAD_BYTES,
    MAX_PACK_BYTES,
    Content,
    PackCache,
    PackError,
    Place,
    groups,
    list_length,
    packed,
    places_in,
)
from rye_services.people.credentials import UserIdError, valid_user_id
from rye_services.process.health import CheckFailedError
from rye_services.process.metrics import Figure
from rye_services.storage.database import Database, stored_contents, users
from rye_services.storage.object_storage import (
    Bucket,
    BucketFigures,
    ObjectStorageError,
    StoredFile,
)

USERS, REGISTRY = "users", "registry"
"""The folders of a bucket that hold stores."""

_PACKS, _REFS, _DAMAGED, _CLOCK = "packs", "refs", "damaged", "clock"
_MANY = 500  # of one statement
_AT_ONCE = 4  # packs on their way of one call
_READS = 2  # times for a pack whose bytes are wrong
_NAME_BYTES = 16
_LATEST_ROWS_S = 30.0  # half of the shortest grace, between the start of a pack and its rows
_KNOWN = 100_000
_SMALL_BYTES, _MANY_SMALL = 1024 * 1024, 16
_MAX_REPACKED_BYTES = 256 * 1024 * 1024
_JUST_NOW_S = 20.0
_CLOCK_KEPT_S = 300.0
_log = logging.getLogger(__name__)
_columns = stored_contents.c


@dataclass(frozen=True, slots=True)
class _ContentPlace:
    """Where a content lies: the name of its pack, its first byte there, and how many."""

    pack: str
    start: int
    size: int


_Key = tuple[ObjectKind, str]


class BucketStore:
    """One store in a bucket: the contents of one user, or of a registry. Thread-safe.

    ``owner`` is its folder in the bucket and its name in the database. What is written with
    `Durability.AT_SYNC` stays in memory until `sync`, which puts all of it into packs; with
    ``NOW`` it is safe when the call returns.
    """

    def __init__(
        self,
        owner: str,
        *,
        bucket: Bucket,
        database: Database,
        cache: PackCache,
        clock: "BucketClock",
    ) -> None:
        self._owner, self._bucket, self._database, self._cache = owner, bucket, database, cache
        self._clock = clock
        self._waiting: dict[_Key, bytes] = {}
        self._waiting_bytes = 0
        self._known: dict[_Key, _ContentPlace] = {}
        self._lock = Lock()
        self._syncing = Lock()

    @property
    def folder(self) -> Path | None:
        """None: it is in no folder of this machine."""
        return None

    @property
    def shown(self) -> str:
        """Where it is, for people."""
        return f"{self._bucket.shown}/{self._owner}"

    # --- writing ----------------------------------------------------------------------------------

    def put_blob(self, data: bytes, durability: Durability = Durability.NOW) -> str:
        """Store bytes. Their digest. Raises ObjectTooLargeError, ObjectStorageError."""
        return self._put(ObjectKind.BLOB, data, durability)

    def put_object(self, value: object, durability: Durability = Durability.NOW) -> str:
        """Store a JSON value. Its digest. Raises CanonicalJsonError, and as `put_blob`."""
        return self._put(ObjectKind.OBJECT, canonical_json(value), durability)

    def keep(
        self, space: ObjectKind, digest: str, data: bytes, durability: Durability = Durability.NOW
    ) -> None:
        """Store bytes whose digest the caller has just computed. Raises as `put_blob`."""
        if len(data) > MAX_BYTES:
            raise ObjectTooLargeError(len(data), MAX_BYTES)
        if durability is Durability.NOW:
            self._store([Content(space, valid_digest(digest), data)])
            return
        with self._lock:
            if (space, valid_digest(digest)) not in self._waiting:
                self._waiting[space, digest] = data
                self._waiting_bytes += len(data)
            is_much = self._waiting_bytes > MAX_PACK_BYTES
        if is_much:
            self.sync()

    def keep_all(
        self,
        contents: Iterable[tuple[ObjectKind, str, bytes]],
        durability: Durability = Durability.NOW,  # noqa: ARG002 - all of it is safe at the end
    ) -> None:
        """Store many; all of them are safe when this returns. Raises as `keep`."""
        given = [Content(space, valid_digest(digest), data) for space, digest, data in contents]
        for one in given:
            if len(one.data) > MAX_BYTES:
                raise ObjectTooLargeError(len(one.data), MAX_BYTES)
        self._store(given)

    def sync(self) -> None:
        """Make safe what was written with `Durability.AT_SYNC`, by whatever thread.

        What an error left behind waits for the next call. Raises ObjectStorageError.
        """
        with self._syncing:
            with self._lock:
                waiting = [Content(*key, data) for key, data in self._waiting.items()]
            self._store(waiting)
            with self._lock:
                for one in waiting:
                    data = self._waiting.pop((one.space, one.digest), b"")
                    self._waiting_bytes -= len(data)

    def _put(self, space: ObjectKind, data: bytes, durability: Durability) -> str:
        if len(data) > MAX_BYTES:  # not worth the time of hashing it
            raise ObjectTooLargeError(len(data), MAX_BYTES)
        digest = sha256_hex(data)
        self.keep(space, digest, data, durability)
        return digest

    def _store(self, contents: Sequence[Content]) -> None:
        """Put into packs what is not there yet; all of it is as young as stored now."""
        there = {
            (space, digest)
            for space in ObjectKind
            for digest in self.touch_all(space, [one.digest for one in contents if one[0] is space])
        }
        new = {(one.space, one.digest): one for one in contents}
        for key in there:
            new.pop(key, None)
        made = list(groups(new.values()))
        if len(made) > 1:
            with ThreadPoolExecutor(_AT_ONCE, "rye-packs") as threads:
                list(threads.map(self._store_pack, made))
        else:
            for group in made:
                self._store_pack(group)

    def _store_pack(self, contents: Sequence[Content]) -> None:
        data, places = packed(contents)
        self._cache.keep(self._put_pack(data, places), data)

    def _put_pack(
        self,
        data: bytes,
        places: Sequence[Place],
        froms: Mapping[_Key, _ContentPlace] | None = None,
    ) -> str:
        """Put a pack under a new name, and say in rows what it holds. Its name.

        A process that was stopped in between for longer than a sweep waits must not name a pack
        that a sweep has removed: it puts the pack once more.
        """
        while True:
            began_s, name = monotonic(), os.urandom(_NAME_BYTES).hex()
            self._bucket.put(self._key_of(name), data)
            if monotonic() - began_s < _LATEST_ROWS_S:
                break
        if froms is None:
            self._rows_of_new(name, places)
        else:
            self._rows_of_moved(name, places, froms)
        return name

    def _rows_of_moved(
        self, name: str, places: Sequence[Place], froms: Mapping[_Key, _ContentPlace]
    ) -> None:
        """Record the new place of each that is still at its former place."""
        row, was = stored_contents, froms
        with self._database.writing() as connection:
            for one in sorted(places, key=lambda place: (place.space, place.digest)):
                where = was[one.space, one.digest]
                at = and_(_columns.pack == where.pack, _columns.start == where.start)
                change = update(row).where(self._row(one.space, one.digest), at)
                connection.execute(change.values(pack=name, start=one.start))

    def _rows_of_new(self, name: str, places: Sequence[Place]) -> None:
        """Record where each lies. One that another writer has put meanwhile stays where it is."""
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        with self._database.writing() as connection:
            now_s = self._database.now(connection).timestamp()
            rows = [
                {
                    "owner": self._owner,
                    "space": place.space.value,
                    "digest": place.digest,
                    "pack": name,
                    "start": place.start,
                    "size": place.size,
                    "used_at_s": now_s,
                }
                # In one order everywhere: two writers of the same would wait for each other.
                for place in sorted(places, key=lambda one: (one.space, one.digest))
            ]
            connection.execute(
                insert(stored_contents).on_conflict_do_update(
                    index_elements=[_columns.owner, _columns.space, _columns.digest],
                    set_={"used_at_s": now_s},
                ),
                rows,
            )

    # --- reading ----------------------------------------------------------------------------------

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest, hashed again.

        Raises DigestError, ObjectMissingError, ObjectChangedError, ObjectStorageError.
        """
        return self.get_bytes(ObjectKind.BLOB, digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest, hashed again. Raises as `get_blob`, ObjectUnreadableError."""
        data = self.get_bytes(ObjectKind.OBJECT, digest)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ObjectUnreadableError(f"{self.shown}: {digest}", str(error)) from error

    def get_bytes(self, space: ObjectKind, digest: str) -> bytes:
        """The bytes of a digest, hashed again; of an object its canonical JSON. As `get_blob`.

        1. what waits for `sync` is in memory
        2. where it lies is known, or in the database; a pack that went meanwhile was put together
           anew: its contents have other places now
        3. from the cache, where that has what it should have; else from the storage
        """
        with self._lock:
            waiting = self._waiting.get((space, valid_digest(digest)))  # (1)
        if waiting is not None:
            return waiting
        for is_known in (True, False, False):
            where = self._place(space, digest, is_known=is_known)  # (2)
            if where is None:
                raise ObjectMissingError(space.value, digest, self.shown)
            data = self._cache.read(where.pack, where.start, where.size)  # (3)
            if data is not None and sha256_hex(data) == digest:
                return data
            data = self._fetch(where, digest)
            if data is not None:
                return data
        pack = where.pack if where else ""
        raise ObjectChangedError(f"{self.shown}/{_PACKS}/{pack}", digest, "no such file")

    def _fetch(self, where: _ContentPlace, digest: str) -> bytes | None:
        """The content from the storage, its whole pack kept near. Raises ObjectChangedError.

        A pack with wrong bytes is read once more: what changed on the way, as in a proxy, is not
        damage.
        """
        key, end = self._key_of(where.pack), where.start + where.size
        self._cache.forget(where.pack)
        found = ""
        for _ in range(_READS):
            pack = self._bucket.get(key)
            if pack is None:
                return None
            data = pack[where.start : end]
            found = sha256_hex(data)
            if found == digest:
                self._cache.keep(where.pack, pack)
                return data
        raise ObjectChangedError(f"{self.shown}/{_PACKS}/{where.pack}", digest, found)

    def _place(self, space: ObjectKind, digest: str, *, is_known: bool) -> _ContentPlace | None:
        """Where a content lies. With it comes what lies beside it: that is read next, often."""
        with self._lock:
            where = self._known.get((space, digest)) if is_known else None
        if where is not None:
            return where
        of_it = select(_columns.pack).where(self._row(space, digest)).scalar_subquery()
        beside = select(stored_contents).where(
            _columns.owner == self._owner, _columns.pack == of_it
        )
        with self._database.single_read() as connection:
            rows = connection.execute(beside).all()
        found = {
            (ObjectKind(row.space), row.digest): _ContentPlace(row.pack, row.start, row.size)
            for row in rows
        }
        with self._lock:
            if len(self._known) + len(found) > _KNOWN:
                self._known.clear()
            self._known |= found
            if (space, digest) not in found:
                self._known.pop((space, digest), None)
        return found.get((space, digest))

    # --- what is there ----------------------------------------------------------------------------

    def has_blob(self, digest: str) -> bool:
        """Whether there is such a blob; a text that is no digest names nothing."""
        return self.size(ObjectKind.BLOB, digest) is not None

    def has_object(self, digest: str) -> bool:
        """Whether there is such an object; a text that is no digest names nothing."""
        return self.size(ObjectKind.OBJECT, digest) is not None

    def size(self, space: ObjectKind, digest: str) -> int | None:
        """How many bytes it has; None when it is not there, or is no digest."""
        return self.sizes(space, [digest]).get(digest)

    def sizes(self, space: ObjectKind, digests: Iterable[str]) -> dict[str, int]:
        """How many bytes each has, of those that are there."""
        wanted_digests = [digest for digest in digests if is_digest(digest)]
        with self._lock:
            found = {
                one: len(self._waiting[space, one])
                for one in wanted_digests
                if self._waits(space, one)
            }
        for some in _parts([one for one in wanted_digests if one not in found]):
            wanted = select(_columns.digest, _columns.size).where(self._rows(space, some))
            with self._database.single_read() as connection:
                found |= {row.digest: row.size for row in connection.execute(wanted)}
        return found

    def _waits(self, space: ObjectKind, digest: str) -> bool:
        return (space, digest) in self._waiting

    def touch(self, space: ObjectKind, digest: str) -> bool:
        """Make it as young as one stored now. False when it is not there, or is no digest."""
        return digest in self.touch_all(space, [digest])

    def touch_all(self, space: ObjectKind, digests: Iterable[str]) -> set[str]:
        """Those that are there, each about as young as one stored now.

        What waits for `sync` is not among them: another server could not say so.
        """
        there: set[str] = set()
        wanted_digests = sorted({digest for digest in digests if is_digest(digest)})
        for some in _parts(wanted_digests):
            age_s = (self._database.now_s - _columns.used_at_s).label("age_s")
            wanted = select(_columns.digest, age_s).where(self._rows(space, some))
            with self._database.single_read() as connection:
                ages = {row.digest: row.age_s for row in connection.execute(wanted)}
            old = [digest for digest, one_s in ages.items() if one_s >= _JUST_NOW_S]
            there |= ages.keys() - {*old}
            there |= self._touched(space, sorted(old))
        return there

    def _touched(self, space: ObjectKind, digests: Sequence[str]) -> set[str]:
        """Those of them that are still there, used now."""
        if not digests:
            return set()
        with self._database.writing() as connection:
            now_s = self._database.now(connection).timestamp()
            change = update(stored_contents).where(self._rows(space, digests))
            touched = change.values(used_at_s=now_s).returning(_columns.digest)
            return {*connection.scalars(touched)}

    def stored(self, space: ObjectKind) -> Iterator[StoredEntry]:
        """All there is of a kind, pack by pack; ``modified_s`` by the clock of the database."""
        wanted = (
            select(_columns.digest, _columns.size, _columns.used_at_s)
            .where(_columns.owner == self._owner, _columns.space == space.value)
            .order_by(_columns.pack, _columns.start)
        )
        with self._database.reading() as connection:
            rows = connection.execute(wanted).all()
        return (StoredEntry(row.digest, row.size, row.used_at_s) for row in rows)

    # --- removing ---------------------------------------------------------------------------------

    def remove_all_older(
        self, space: ObjectKind, digests: Iterable[str], before_s: float
    ) -> set[str]:
        """Remove those that were not stored or touched since a time; those that were removed.

        Their bytes go with `remove_leftovers`, once nothing else of their pack is left.
        """
        gone: set[str] = set()
        for some in _parts(sorted(digests)):
            with self._database.writing() as connection:
                change = delete(stored_contents).where(
                    self._rows(space, some), _columns.used_at_s < before_s
                )
                gone |= {*connection.scalars(change.returning(_columns.digest))}
        with self._lock:
            for digest in gone:
                self._known.pop((space, digest), None)
        return gone

    def set_aside(self, space: ObjectKind, digest: str) -> bool:
        """Keep the bytes of a damaged one below ``damaged/``, and remove its row.

        False where it is sound after all, or not there. Raises ObjectStorageError.
        """
        where = self._place(space, valid_digest(digest), is_known=False)
        if where is None:
            return False
        self._cache.forget(where.pack)
        data = self._bucket.get_range(self._key_of(where.pack), where.start, max(where.size, 1))
        if data is not None and sha256_hex(data[: where.size]) == digest:
            return False
        if data is not None:
            aside = f"{self._owner}/{_DAMAGED}/{space.file_name(digest)}.{os.urandom(4).hex()}"
            self._bucket.put(aside, data)
        at = and_(_columns.pack == where.pack, _columns.start == where.start)
        with self._database.writing() as connection:
            connection.execute(delete(stored_contents).where(self._row(space, digest), at))
        with self._lock:
            self._known.pop((space, digest), None)
        return True

    def leftovers(self, before_s: float) -> int:
        """How many packs from before a time hold nothing that has a row."""
        used = self._used_bytes()
        return sum(1 for one in self._old_packs(before_s) if _name_of(one) not in used)

    def remove_leftovers(self, before_s: float) -> None:
        """Remove packs from before a time that nothing has a row in; put others together anew.

        Those are packs of which less than half is used, and small ones where there are many.
        """
        used = self._used_bytes()
        old = list(self._old_packs(before_s))
        self._bucket.delete(one.key for one in old if _name_of(one) not in used)
        left = [one for one in old if _name_of(one) in used]
        sparse = [one for one in left if used[_name_of(one)] < one.size // 2]
        small = [one for one in left if one.size < _SMALL_BYTES and one not in sparse]
        if len(small) < _MANY_SMALL:
            small = []
        self._repack([*sparse, *small])

    def _repack(self, packs: Sequence[StoredFile]) -> None:
        """Put what is used of some packs into new ones, and remove those.

        A pack with something damaged stays: `rye-node fsck` says what it is. What is more than one
        sweep should move is for the next one.
        """
        moved: list[tuple[Content, _ContentPlace]] = []
        done: list[StoredFile] = []
        size = 0
        for one in packs:
            size += one.size
            if done and size > _MAX_REPACKED_BYTES:
                break
            contents = self._contents_of(one)
            if contents:
                moved += contents
                done.append(one)
        froms = {(content.space, content.digest): where for content, where in moved}
        for group in groups(content for content, _ in moved):
            data, places = packed(group)
            self._put_pack(data, places, froms)
        used = self._used_bytes()
        self._bucket.delete(one.key for one in done if _name_of(one) not in used)
        if done:
            _log.info("%s: %s packs were put together anew", self.shown, len(done))

    def _contents_of(self, pack: StoredFile) -> list[tuple[Content, _ContentPlace]]:
        """What has a row in a pack, and where; nothing where some of it is damaged."""
        name, data = _name_of(pack), self._bucket.get(pack.key)
        wanted = select(stored_contents).where(_columns.owner == self._owner, _columns.pack == name)
        with self._database.reading() as connection:
            rows = connection.execute(wanted).all()
        found = []
        for row in rows:
            content = b"" if data is None else data[row.start : row.start + row.size]
            if sha256_hex(content) != row.digest:
                _log.warning("damaged: %s/%s/%s: %s", self.shown, _PACKS, name, row.digest)
                return []
            where = _ContentPlace(name, row.start, row.size)
            found.append((Content(ObjectKind(row.space), row.digest, content), where))
        return found

    def _used_bytes(self) -> dict[str, int]:
        """How many bytes of each pack have a row."""
        wanted = (
            select(_columns.pack, func.sum(_columns.size))
            .where(_columns.owner == self._owner)
            .group_by(_columns.pack)
        )
        with self._database.reading() as connection:
            return {name: int(size) for name, size in connection.execute(wanted)}

    def _old_packs(self, before_s: float) -> list[StoredFile]:
        """The packs that were put before a time, by the clock of the storage."""
        with self._database.reading() as connection:
            grace_s = self._database.now(connection).timestamp() - before_s
        oldest_s = self._clock.now_s() - grace_s
        found = self._bucket.listed(f"{self._owner}/{_PACKS}/")
        return [one for one in found if one.modified_s < oldest_s]

    def forget_absent(self) -> bool:
        """Remove rows of packs that are not in this bucket; whether any row is left."""
        listed = {_name_of(one) for one in self._bucket.listed(f"{self._owner}/{_PACKS}/")}
        named = {*self._used_bytes()}
        for some in _parts(sorted(named - listed)):
            absent = and_(_columns.owner == self._owner, _columns.pack.in_(some))
            with self._database.writing() as connection:
                connection.execute(delete(stored_contents).where(absent))
        with self._lock:
            self._known.clear()
        return bool(named & listed)

    def recover(self) -> int:
        """Record again where contents lie whose rows are lost, read from the packs; how many.

        Rows are lost with a database that was restored to an earlier state.
        """
        listed = list(self._bucket.listed(f"{self._owner}/{_PACKS}/"))
        names, done = {_name_of(one) for one in listed}, 0
        for one in sorted(listed, key=lambda found: found.modified_s):
            try:
                places = self._places_of(one)
            except PackError as error:
                _log.warning("%s/%s: %s", self._bucket.shown, one.key, error)
                continue
            lost = [place for place in places if not self._has_pack_of(place, names)]
            if lost:
                with self._database.writing() as connection:
                    for place in lost:
                        connection.execute(
                            delete(stored_contents).where(self._row(place.space, place.digest))
                        )
                self._rows_of_new(_name_of(one), lost)
                done += len(lost)
        with self._lock:
            self._known.clear()
        return done

    def _has_pack_of(self, place: Place, names: Container[str]) -> bool:
        where = self._place(place.space, place.digest, is_known=False)
        return where is not None and where.pack in names

    def _places_of(self, pack: StoredFile) -> tuple[Place, ...]:
        """What a pack says that it holds. Raises PackError."""
        if pack.size < HEAD_BYTES:  # to ask for bytes behind its end would be an error
            raise PackError(f"expected at least {HEAD_BYTES} bytes, found {pack.size}")
        length = list_length(self._bucket.get_range(pack.key, 0, HEAD_BYTES) or b"")
        if pack.size < HEAD_BYTES + max(length, 1):
            raise PackError(f"list: expected {length} bytes, found {pack.size - HEAD_BYTES}")
        listed = self._bucket.get_range(pack.key, HEAD_BYTES, length) or b""
        if len(listed) != length:
            raise PackError(f"list: expected {length} bytes, found {len(listed)}")
        places = places_in(listed)
        end = max((one.start + one.size for one in places), default=HEAD_BYTES + length)
        if end != pack.size:
            raise PackError(f"expected {end} bytes, found {pack.size}")
        return places

    # --- rows -------------------------------------------------------------------------------------

    def _key_of(self, pack: str) -> str:
        return f"{self._owner}/{_PACKS}/{pack}"

    def _row(self, space: ObjectKind, digest: str) -> ColumnElement[bool]:
        return self._rows(space, [digest])

    def _rows(self, space: ObjectKind, digests: Sequence[str]) -> ColumnElement[bool]:
        return and_(
            _columns.owner == self._owner,
            _columns.space == space.value,
            self._is_one_of(digests),
        )

    def _is_one_of(self, digests: Sequence[str]) -> ColumnElement[bool]:
        """Many as one value where the database has lists: many values cost more."""
        if self._database.is_sqlite or len(digests) == 1:
            return _columns.digest.in_(digests)
        return _columns.digest == any_(literal(list(digests), postgresql.ARRAY(String(64))))

    # --- refs -------------------------------------------------------------------------------------

    def write_ref(
        self,
        name: str,
        value: object,
        durability: Durability = Durability.NOW,  # noqa: ARG002 - it is safe at once
    ) -> None:
        """Replace a ref. Raises RefNameError, CanonicalJsonError, ObjectStorageError."""
        self._bucket.put(self._ref_key(name), canonical_json(value))

    def refs(self, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Every ref whose name starts like that, by name. Raises RefUnreadableError."""
        above = f"{self._owner}/{_REFS}/"
        for one in sorted(self._bucket.listed(above), key=lambda found: found.key):
            name = one.key.removeprefix(above).removesuffix(".json")
            if not name.startswith(prefix) or (data := self._bucket.get(one.key)) is None:
                continue
            try:
                value = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise RefUnreadableError(f"{self.shown}/{name}", str(error)) from error
            if not isinstance(value, dict):
                raise RefUnreadableError(f"{self.shown}/{name}", f"found {type(value).__name__}")
            yield name, value

    def remove_ref(self, name: str) -> None:
        """Remove the ref. Raises RefNameError, ObjectStorageError."""
        self._bucket.delete([self._ref_key(name)])

    def _ref_key(self, name: str) -> str:
        folders, file = ref_folders(name)
        return "/".join((self._owner, _REFS, *folders, file))


def _name_of(pack: StoredFile) -> str:
    return pack.key.rpartition("/")[2]


def _parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[at : at + _MANY] for at in range(0, len(values), _MANY))


class BucketClock:
    """The clock of a storage: a file is put, and the time read that it has then. Thread-safe."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = Lock()
        self._ahead_s: float | None = None  # of the monotonic clock
        self._read_s = 0.0

    def now_s(self) -> float:
        """The time there, a second or two late at most. Raises ObjectStorageError."""
        with self._lock:
            if self._ahead_s is None or monotonic() - self._read_s > _CLOCK_KEPT_S:
                before_s, name = monotonic(), os.urandom(_NAME_BYTES).hex()
                self._bucket.put(f"{_CLOCK}/{name}", b"")
                listed = {one.key: one.modified_s for one in self._bucket.listed(f"{_CLOCK}/")}
                self._bucket.delete(listed)  # those too that killed processes left
                at_s = listed.get(f"{_CLOCK}/{name}")
                if at_s is None:
                    raise ObjectStorageError(
                        self._bucket.shown,
                        f"{_CLOCK}/{name} was put and is not listed",
                        hint="expected a storage whose lists have what was put before",
                    )
                self._ahead_s, self._read_s = at_s - before_s, before_s
            return monotonic() + self._ahead_s


class BucketStores:
    """The stores of all users in a bucket, and that of its registry. Thread-safe."""

    def __init__(self, bucket: Bucket, database: Database, cache: PackCache) -> None:
        self.bucket, self.cache = bucket, cache
        self._database, self._clock = database, BucketClock(bucket)
        self._stores: dict[str, BucketStore] = {}
        self._lock = Lock()

    def of(self, user_id: str) -> BucketStore:
        """The store of a user. Raises UserIdError."""
        return self._store(f"{USERS}/{valid_user_id(user_id)}")

    @property
    def registry(self) -> BucketStore:
        """The store of the files of bundles."""
        return self._store(REGISTRY)

    def users(self) -> tuple[str, ...]:
        """All users who have a store, or should have one, sorted. Raises ObjectStorageError."""
        named = select(users.c.id).where(users.c.stored_bytes > 0)
        with self._database.reading() as connection:
            known = {*connection.scalars(named)}
        return tuple(
            sorted(one for one in {*self.bucket.folders(f"{USERS}/"), *known} if _is_user(one))
        )

    def forget_absent(self) -> bool:
        """Remove rows of packs that are not in this bucket; whether any row is left."""
        with self._database.reading() as connection:
            owners = connection.scalars(select(_columns.owner).distinct()).all()
        is_left = [self._store(owner).forget_absent() for owner in owners]  # of each, not of some
        return any(is_left)

    def check(self) -> None:
        """Ask the storage for something small. Raises CheckFailedError."""
        try:
            self.bucket.get("node.json")
        except ObjectStorageError as error:
            raise CheckFailedError(error.problem) from None

    def figures(self) -> Sequence[Figure]:
        """Requests to the storage, and what the cache did, for `Metrics`."""
        kept = self.cache.figures()
        reads = {"hit": kept.hits, "miss": kept.misses}
        cached = {"": kept.bytes}
        bucket_figures = getattr(self.bucket, "figures", BucketFigures())
        named = (
            ("requests", "Requests to the object storage", bucket_figures.requests, "operation"),
            ("errors", "Those that failed", bucket_figures.errors, "operation"),
            ("bytes", "Bytes to and from it", bucket_figures.bytes, "direction"),
            ("cache_reads", "Reads of contents, from the cache or not", reads, "outcome"),
            ("cache_bytes", "Bytes in the cache, as of this server", cached, ""),
        )
        return [
            Figure(name=f"rye_store_{name}", words=words, values=dict(values), label=label)
            for name, words, values, label in named
        ]

    def _store(self, owner: str) -> BucketStore:
        with self._lock:
            store = self._stores.get(owner)
            if store is None:
                store = self._stores[owner] = BucketStore(
                    owner,
                    bucket=self.bucket,
                    database=self._database,
                    cache=self.cache,
                    clock=self._clock,
                )
            return store


def _is_user(name: str) -> bool:
    try:
        return bool(valid_user_id(name))
    except UserIdError:
        return False
