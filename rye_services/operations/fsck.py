"""Everything that a node has stored, read and walked: what is damaged, what is missing, and repair.

Rules: ``docs/node.md``, fsck. No head is moved here, and nothing is removed but half-written files:
what is damaged is set aside, what is lost comes back from a client or from a backup.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import select

from lillux.errors import LilluxError
from lillux.store import Durability, Store
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind
from lillux.values import dataclass, replace
from rye_services.node.queue.rows import OldExecutions
from rye_services.node.storage import AcceptedLosses, described, is_known, roots_of_rows
from rye_services.node.store.heads import (
    Head,
    Heads,
    is_lost,
    keep_loose_ends,
    made_again,
    stored_snapshots,
)
from rye_services.node.store.objects import Usage, UserStores
from rye_services.node.store.stores import Stores
from rye_services.people.credentials import valid_user_id
from rye_services.settings import Settings
from rye_services.storage.database import Database, project_refs, threads, user_space_refs
from rye_services.storage.registry_tables import bundle_files
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore
from ryeos.sync.garbage import MIN_GRACE_S, Gap, Root, RootNeed, mark, roots_of_refs
from ryeos.sync.references import ObjectReference

REGISTRY, REGISTRY_STORE = "registry", "registry"
"""What the store of a registry is called in reports, and its folder below the data."""

_FROM_CLIENT = "from a machine that has the project: rye remote push --force"
_FROM_BACKUP = (
    "from a backup that has it: rye-node.pyz fsck --repair --from BACKUP; if there is none:"
    " rye-node.pyz fsck --accept-loss {digest}"
)
_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Gets whose store is read, how many of its files are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something that has to be there and is not, or not sound.

    space     ``blob``, ``object``, or ``content`` where it could be either
    root      what names it first, like ``the head of project 'ada/garden' (default)``
    named_by  the object that names it, ``""`` where the root itself does
    repair    what brings it back
    """

    space: str
    digest: str
    state: Literal["missing", "damaged"]
    root: str
    named_by: str
    repair: str


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A stored file that is not what its name says, needed or not."""

    space: str
    digest: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHead:
    """A head whose snapshot cannot be read.

    newest_left  the newest snapshot that is left and that no other names: perhaps the one before
    """

    project_path: str
    remote_name: str
    snapshot_hash: str
    newest_left: str
    newest_left_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """What a repair did."""

    set_aside: int = 0
    made_again: tuple[str, ...] = ()
    from_backup: int = 0
    leftovers: int = 0
    recounted_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What is known of one store after it was read.

    state           ``sound``; ``damaged``; ``unknown``: the database has no such user
    accepted        losses that an operator accepted: no damage, and no sweep waits for them
    leftovers       half-written files of writers that were killed
    recorded_bytes  what the database says is stored, ``bytes`` is what there is
    problem         why the store could not be read to its end
    """

    user_id: str
    state: Literal["sound", "damaged", "unknown"]
    files: int
    bytes: int
    damaged: tuple[DamagedFile, ...] = ()
    losses: tuple[Loss, ...] = ()
    lost_heads: tuple[LostHead, ...] = ()
    accepted: tuple[Loss, ...] = ()
    leftovers: int = 0
    recorded_bytes: int | None = None
    problem: str = ""
    repaired: RepairResult | None = None


class Fsck:
    """Reads the stores of a node. Its user holds the lock of the storage.

    backup  a backup to take from what is lost, or None
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Clock,
        *,
        progress: Progress,
        stores: Stores,
        backup: Path | None = None,
    ) -> None:
        self._database, self._clock, self._progress = database, clock, progress
        self._stores, self._storage = stores.users, stores.storage
        self._usage, self._heads = Usage(database, clock), Heads(database)
        self._old = OldExecutions(database, clock, settings.retain_executions_days)
        self._before_s = clock().timestamp() - max(settings.gc_grace_s, MIN_GRACE_S)
        self._registry = stores.registry
        self._backup, self._accepted = backup, AcceptedLosses(database)

    def users(self) -> tuple[str, ...]:
        """Every user who has a store, or of whom rows name content; sorted."""
        with self._database.reading() as connection:
            tables = (project_refs, user_space_refs, threads)
            rows = [
                *(connection.scalars(select(table.c.user_id).distinct()).all() for table in tables)
            ]
        return tuple(sorted({*self._stores.users(), *(one for users in rows for one in users)}))

    def examine(self, user_id: str) -> StoreReport:
        """The store of a user, read to its last byte; nothing is changed.

        (1) Each file is hashed. (2) All that the rows of the user lead to is looked for.
        Raises UserIdError, SQLAlchemyError.
        """
        store = self._stores.of(valid_user_id(user_id))
        return self._user_report(user_id, store, _read_all(store, user_id, self._progress))

    def repair(self, user_id: str) -> StoreReport:
        """As `examine`, and what can be put right here is.

        (1) What is damaged is set aside, so that a push can put it anew. (2) The snapshot of a head
        is made again where its row has all of it. (3) A backup gives what is lost. (4) Half-written
        files are removed, (5) what is stored is counted. What is reported is what is left.
        Raises UserIdError, SQLAlchemyError, FileSystemError.
        """
        store = self._stores.of(valid_user_id(user_id))
        recovered = self._storage.of(user_id).recover() if self._storage else 0
        if recovered:
            _log.warning("%s: rows of %s contents made again", user_id, recovered)
        found = _read_all(store, user_id, self._progress)
        done = self._set_aside(store, found)  # (1)
        again = tuple(self._heads_made_again(user_id, store))  # (2)
        given = self._from_backup(self._user_roots(user_id), store, self._of_backup(user_id))  # (3)
        leftovers = store.leftovers(self._before_s)
        store.remove_leftovers(self._before_s)  # (4)
        store.sync()
        self._accepted.forget_found(user_id, store)
        recorded = self._usage.recorded(user_id)
        counted = None if recorded is None else self._usage.measure(user_id, store=store)  # (5)
        report = self._user_report(user_id, store, found.without(done))
        repaired = RepairResult(
            set_aside=len(done),
            made_again=again,
            from_backup=given,
            leftovers=leftovers,
            recounted_bytes=None if counted == recorded else counted,
        )
        return replace(report, repaired=repaired)

    def accept(self, user_id: str, losses: Sequence[Loss]) -> int:
        """Accept these losses of a user, so that sweeps continue; how many are new.

        (1) History that only a lost snapshot led to is kept, by a ref of its own. (2) The rows, and
        the audit. Raises SQLAlchemyError, FileSystemError.
        """
        heads = [head.snapshot_hash for _, _, head in self._heads.of(user_id)]
        keep_loose_ends(self._stores.of(user_id), heads)  # (1)
        wanted = [(one.digest, one.space, one.root) for one in losses]
        return self._accepted.accept(user_id, wanted)  # (2)

    def examine_registry(self) -> StoreReport:
        """The files of bundles that a registry published. Raises SQLAlchemyError."""
        return self._report(
            REGISTRY,
            self._registry,
            _read_all(self._registry, REGISTRY, self._progress),
            self._registry_roots(),
            frozenset(),
        )

    def repair_registry(self) -> StoreReport:
        """As `repair`, of the registry. Raises SQLAlchemyError, FileSystemError."""
        found = _read_all(self._registry, REGISTRY, self._progress)
        done, roots = self._set_aside(self._registry, found), self._registry_roots()
        backup = None if self._backup is None else Store(self._backup / REGISTRY_STORE)
        given = self._from_backup(roots, self._registry, backup)
        leftovers = self._registry.leftovers(self._before_s)
        self._registry.remove_leftovers(self._before_s)
        self._registry.sync()
        report = self._report(REGISTRY, self._registry, found.without(done), roots, frozenset())
        repaired = RepairResult(set_aside=len(done), from_backup=given, leftovers=leftovers)
        return replace(report, repaired=repaired)

    def knows_anybody(self) -> bool:
        """Whether the database knows one of those who have a store; true where there is none."""
        users = self._stores.users()
        with self._database.reading() as connection:
            return not users or any(is_known(connection, user) for user in users)

    # --- reports ----------------------------------------------------------------------------------

    def _user_report(self, user_id: str, store: ContentStore, found: "_StoreScan") -> StoreReport:
        with self._database.reading() as connection:
            known = is_known(connection, user_id)
        if not known:
            report = self._report(user_id, store, found, (), frozenset())
            return replace(report, state="unknown")
        present = mark(store, self._present_roots(user_id), damaged=found.digests)
        restorable = frozenset(gap.reference.digest for gap in present.gaps)
        report = self._report(user_id, store, found, self._user_roots(user_id), restorable)
        return replace(
            report,
            recorded_bytes=self._usage.recorded(user_id),
            lost_heads=tuple(self._lost_heads(user_id, store)),
        )

    def _report(
        self,
        name: str,
        store: ContentStore,
        found: "_StoreScan",
        roots: Iterable[Root],
        restorable: Collection[str],
    ) -> StoreReport:
        """``restorable``: what a client has that has the project as it is now."""
        problem, leftovers = found.problem, 0
        losses: tuple[Loss, ...] = ()
        accepted: tuple[Loss, ...] = ()
        try:
            gaps = mark(store, [*roots, *roots_of_refs(store)], damaged=found.digests).gaps
            all_losses = [_loss(gap, found.digests, restorable) for gap in gaps]
            known = self._accepted.of(name) if all_losses else {}
            losses = tuple(one for one in all_losses if one.digest not in known)
            accepted = tuple(one for one in all_losses if one.digest in known)
            leftovers = store.leftovers(self._before_s)
        except LilluxError as error:  # a ref of no JSON, a link instead of a folder
            problem = f"{problem}; {error}".removeprefix("; ")
        is_sound = not (found.damaged or losses or problem)
        return StoreReport(
            user_id=name,
            state="sound" if is_sound else "damaged",
            files=found.files,
            bytes=found.bytes,
            damaged=found.damaged,
            losses=losses,
            accepted=accepted,
            leftovers=leftovers,
            problem=problem,
        )

    def _lost_heads(self, user_id: str, store: ContentStore) -> Iterable[LostHead]:
        lost = [one for one in self._heads.of(user_id) if is_lost(store, one[2])]
        if not lost:
            return
        left = stored_snapshots(store)
        named = {parent for snapshot in left.values() for parent in snapshot.parent_hashes}
        named |= {head.snapshot_hash for _, _, head in self._heads.of(user_id)}
        loose = sorted((left[digest].timestamp, digest) for digest in left.keys() - named)
        newest_at, newest = loose[-1] if loose else ("", "")
        for remote_name, project_path, head in lost:
            yield LostHead(
                project_path=project_path,
                remote_name=remote_name,
                snapshot_hash=head.snapshot_hash,
                newest_left=newest,
                newest_left_at=newest_at,
            )

    # --- roots ------------------------------------------------------------------------------------

    def _user_roots(self, user_id: str) -> tuple[Root, ...]:
        with self._database.reading() as connection:
            return tuple(roots_of_rows(connection, user_id, self._old.are_kept()))

    def _present_roots(self, user_id: str) -> Iterable[Root]:
        """The projects and the user space as they are now, without what they were before."""
        for _, _, head in self._heads.of(user_id):
            yield _needed_root(head.snapshot_hash, RootNeed.ITSELF)
            for digest in (head.project_manifest_hash, head.user_manifest_hash):
                if digest:
                    yield _needed_root(digest, RootNeed.WHOLE)
        manifest = user_space_refs.c.user_manifest_hash
        with self._database.reading() as connection:
            own = select(manifest).where(user_space_refs.c.user_id == user_id)
            for digest in connection.scalars(own).all():
                yield _needed_root(digest, RootNeed.WHOLE)

    def _registry_roots(self) -> tuple[Root, ...]:
        with self._database.reading() as connection:
            rows = connection.execute(select(bundle_files)).mappings().all()
        return tuple(
            Root(
                ObjectReference(row["blob_hash"], ObjectKind.BLOB),
                f"the bundle {row['bundle_id']}@{row['version']}",
                RootNeed.ITSELF,
            )
            for row in rows
        )

    # --- repairs ----------------------------------------------------------------------------------

    def _set_aside(self, store: ContentStore, found: "_StoreScan") -> tuple[DamagedFile, ...]:
        done = []
        for one in found.damaged:
            if store.set_aside(ObjectKind(one.space), one.digest):
                _log.warning("set aside %s %s: %s", one.space, one.digest, one.problem)
                done.append(one)
        return tuple(done)

    def _heads_made_again(self, user_id: str, store: ContentStore) -> Iterable[str]:
        for _, _, head in self._heads.of(user_id):
            value = self._snapshot_of(store, head)
            if value is not None:
                yield store.put_object(value, Durability.AT_SYNC)

    def _snapshot_of(self, store: ContentStore, head: Head) -> Mapping[str, Any] | None:
        return made_again(store, head) if is_lost(store, head) else None

    def _of_backup(self, user_id: str) -> Store | None:
        if self._backup is None:
            return None
        return UserStores(self._backup / "cas").of(user_id)

    def _from_backup(self, roots: Sequence[Root], store: ContentStore, backup: Store | None) -> int:
        """Take what is lost from a backup, again and again: what comes back names more."""
        given = 0
        while backup is not None:
            gaps = mark(store, roots).gaps
            came = sum(_copy_from_backup(gap, backup, store) for gap in gaps)
            given += came
            if not came:
                break
        return given


def _needed_root(digest: str, need: RootNeed) -> Root:
    return Root(ObjectReference(digest, ObjectKind.OBJECT), "", need)


def _loss(gap: Gap, damaged: Collection[str], restorable: Collection[str]) -> Loss:
    digest = gap.reference.digest
    return Loss(
        space=described(gap).partition(" ")[0],
        digest=digest,
        state="damaged" if digest in damaged else "missing",
        root=gap.root,
        named_by=gap.named_by,
        repair=_FROM_CLIENT if digest in restorable else _FROM_BACKUP.format(digest=digest),
    )


def _copy_from_backup(gap: Gap, backup: Store, store: ContentStore) -> bool:
    """Whether a backup has it, unharmed; it is in the store then."""
    digest = gap.reference.digest
    spaces = ObjectKind if gap.reference.space is None else (gap.reference.space,)
    for space in spaces:
        try:
            if space is ObjectKind.BLOB:
                store.put_blob(backup.get_blob(digest), Durability.AT_SYNC)
            else:
                store.put_object(backup.get_object(digest), Durability.AT_SYNC)
        except ObjectMissingError:
            continue
        except LilluxError as error:
            _log.warning("the backup has %s damaged: %s", digest, error)
            continue
        return True
    return False


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoreScan:
    """What reading all files of a store found."""

    files: int
    bytes: int
    damaged: tuple[DamagedFile, ...]
    problem: str = ""

    @property
    def digests(self) -> frozenset[str]:
        """Of what is damaged."""
        return frozenset(one.digest for one in self.damaged)

    def without(self, gone: Collection[DamagedFile]) -> "_StoreScan":
        """The same, when some of what is damaged is no longer there."""
        return replace(
            self,
            files=self.files - len(gone),
            damaged=tuple(one for one in self.damaged if one not in gone),
        )


def _read_all(store: ContentStore, name: str, progress: Progress) -> _StoreScan:
    """Hash each file of a store; what cannot be listed to its end is the problem."""
    listed, problem = [], ""
    try:
        for space in ObjectKind:
            listed += [(space, stored) for stored in store.stored(space)]
    except LilluxError as error:
        problem = str(error)
    damaged = []
    for done, (space, stored) in enumerate(listed):
        progress(name, done, len(listed))
        try:
            if space is ObjectKind.BLOB:
                store.get_blob(stored.digest)
            else:
                store.get_object(stored.digest)
        except ObjectMissingError:  # swept meanwhile; if it is needed it is missing
            continue
        except LilluxError as error:
            damaged.append(DamagedFile(space.value, stored.digest, str(error)))
    progress(name, len(listed), len(listed))
    return _StoreScan(
        files=len(listed),
        bytes=sum(stored.size for _, stored in listed),
        damaged=tuple(damaged),
        problem=problem,
    )


# --- as a whole -----------------------------------------------------------------------------------


class DamagedStorageError(RyeError):
    """Something that is needed is missing or damaged. ``reports`` are of all stores."""

    code = "INTEGRITY"

    def __init__(self, reports: Sequence[StoreReport], hint: str) -> None:
        self.reports = tuple(reports)
        losses = sum(len(one.losses) for one in reports)
        damaged = sum(len(one.damaged) for one in reports)
        broken = sum(one.state == "damaged" for one in reports)
        self.facts = {"stores": [shown(one) for one in reports]}
        super().__init__(
            f"{broken} of {len(reports)} stores are damaged: {losses} that something leads to"
            f" missing or damaged, {damaged} damaged files",
            hint=hint,
        )


MAX_NAMED = 50
"""Losses of one store that a text names; the rest is a number."""


def shown(report: StoreReport) -> dict[str, Any]:
    """A report as ``--json`` has it."""
    from dataclasses import asdict

    return asdict(report)


def lines_of(report: StoreReport) -> list[str]:
    """A report as people read it."""
    lines = [
        f"{report.user_id}  {report.state}  {report.files} files, {report.bytes} bytes"
        + (f"; {len(report.damaged)} damaged" if report.damaged else "")
        + (f"; {len(report.losses)} lost" if report.losses else "")
        + (f"; {len(report.accepted)} accepted as lost" if report.accepted else "")
        + (f"; {report.leftovers} half-written files" if report.leftovers else "")
    ]
    if report.repaired:
        lines += _repaired_lines(report.repaired)
    if report.problem:
        lines.append(f"  {report.problem}")
    for head in report.lost_heads:
        left = f"{head.newest_left} of {head.newest_left_at}" if head.newest_left else "none"
        lines.append(
            f"  the snapshot of head {head.project_path!a} is lost; newest other one left: {left}"
        )
    lines += [f"  {loss_line(loss)}; {loss.repair}" for loss in report.losses[:MAX_NAMED]]
    needed = {loss.digest for loss in report.losses}
    others = [one for one in report.damaged if one.digest not in needed]
    lines += [f"  damaged and needed by nothing: {one.problem}" for one in others[:MAX_NAMED]]
    more = max(len(report.losses) - MAX_NAMED, 0) + max(len(others) - MAX_NAMED, 0)
    return [*lines, f"  and {more} more: --json names all"] if more else lines


def loss_line(loss: Loss) -> str:
    """A loss as people read it, without its repair."""
    by = f", by {loss.named_by}" if loss.named_by else ""
    return f"{loss.state} {loss.space} {loss.digest}: {loss.root}{by}"


def _repaired_lines(repaired: RepairResult) -> list[str]:
    facts = (
        (repaired.set_aside, "damaged files set aside, below damaged/"),
        (len(repaired.made_again), "snapshots of heads made again"),
        (repaired.from_backup, "taken from the backup"),
        (repaired.leftovers, "half-written files removed"),
    )
    lines = [f"  {count} {words}" for count, words in facts if count]
    if repaired.recounted_bytes is not None:
        lines.append(f"  the database says {repaired.recounted_bytes} bytes now")
    return lines
