"""Folders that executions work in: a checkout of a project and one of a user space, each its own.

A checkout is kept when its execution is over, and brought to what the next one wants: whatever a
run has changed is written anew, what it has left is removed, and the rest need not be read again.
That a file is as it was written here is known by what the system tells of it, which nothing that
runs in a checkout can forge. Nothing is shared between checkouts: ADR 0024.

Where runs have user ids of their own, a checkout belongs to the one of its run, and keeps it for
the next run if it can. The folder around it is open to that user only while the run lasts.

    <root>/<user>/<project>/<slot>/project/  user/  home/  tmp/
                            <slot>.json         what is known of the files of project/
                            <slot>.user.json    and of user/
                            <slot>.lock         held while an execution works there
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import file_system_error, make_directory
from lillux.uids import Uids
from lillux.values import dataclass
from rye_services.people.credentials import valid_user_id
from ryeos.sync.checkout import TreeChanges, differences, write_tree
from ryeos.sync.contents import ReadContents
from ryeos.sync.objects import SourceManifest
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree_files import remove_tree

_PRIVATE, _FOR_RUN, _WAY = 0o700, 0o710, 0o711
_KEY_DIGITS = 24
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """Where one execution works. All four are folders of its own.

    written      what is known of the files of ``project`` as they were written there
    table        the same, to build its tree with after the run: it learns
    differences  what is no longer as it was written in ``project``, by a look at every file. For
                 after the run: from then on only files that differ may be written to
    uid          the user of the run, whose these folders are; 0 for the node's own
    """

    project: Path
    user: Path
    home: Path
    temporary: Path
    written: StatTable
    table: StatTable
    differences: Callable[[], TreeChanges]
    uid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutRequest:
    """What a workspace is to hold. ``user`` is None for an empty user space.

    ``is_checked``: this very ``project`` was in a workspace before, so its paths are safe.
    """

    user_id: str
    remote_name: str
    project_path: str
    project: SourceManifest
    user: SourceManifest | None
    contents: ReadContents
    is_checked: bool = False


class Checkouts:
    """The workspaces below ``root``. Thread-safe, and so across processes.

    ``kept`` is how many may lie idle; the ones used longest ago are removed. ``uids`` are the user
    ids of runs, None where they have none of their own.
    """

    def __init__(self, root: Path, *, kept: int, uids: Uids | None = None) -> None:
        self.root, self._kept, self._uids = root, kept, uids
        self._is_swept = False

    @contextmanager
    def checkout(self, wanted: CheckoutRequest) -> Iterator[Checkout]:
        """A workspace with what is wanted, used by no other execution inside the block.

        Raises UnsafeManifestError, CasObjectError, ObjectMissingError, FileSystemError,
        UidsInUseError.
        """
        folder = self.root / valid_user_id(wanted.user_id) / _key(wanted)
        with ExitStack() as held:
            slot = _take(folder, held)
            slot.uid = held.enter_context(self._uids.lease(slot.owner()) if self._uids else _NONE)
            try:
                if self._uids:
                    self._close_left()
                    _open_way(folder, self.root)
                workspace = slot.prepare(wanted)
            except LilluxError as error:
                if not slot.is_used:
                    slot.remove()
                    raise
                # A damaged workspace is replaced by a new one.
                _log.warning("a checkout cannot be used again: %s", error)
                slot.remove()
                slot = _new(folder, held, slot.uid)
                workspace = slot.prepare(wanted)
            try:
                yield workspace
            finally:
                _restore_slot(slot, wanted)
        self.trim()

    def trim(self) -> None:
        """Remove workspaces that lie idle, but for the newest. What cannot be removed is logged."""
        slots = sorted(self._slots(), key=_Slot.used_at, reverse=True)
        for slot in slots[self._kept :]:
            with ExitStack() as held, suppress(LockTimeoutError):
                slot.lock(held)
                try:
                    slot.remove()
                except LilluxError as error:
                    _log.warning("an old checkout stays: %s", error)

    def _close_left(self) -> None:
        """Close what a process that was killed has left open to the user of its run."""
        if self._is_swept:
            return
        self._is_swept = True
        for slot in self._slots():
            with ExitStack() as held, suppress(LockTimeoutError):
                slot.lock(held)
                slot.close()

    def _slots(self) -> Iterator["_Slot"]:
        for path in self.root.glob("*/*/*.lock"):
            slot = _Slot(path.with_suffix(""))
            if slot.folder.is_dir():
                yield slot


_NONE = nullcontext(0)


class _Slot:
    """One workspace, used or new, for one checkout: what is wanted in it stays the same.

    ``uid`` is the user that it is prepared for, 0 for that of this process.
    """

    def __init__(self, folder: Path, uid: int = 0) -> None:
        self.folder, self.uid = folder, uid
        self.is_used = folder.is_dir()
        self._tables: dict[str, StatTable] = {}
        self._found: TreeChanges | None = None  # what the run has changed in the project

    def lock(self, held: ExitStack) -> None:
        """Lock it until the stack is closed. Raises LockTimeoutError."""
        held.enter_context(locked(self._beside("lock"), timeout_s=0))

    def used_at(self) -> float:
        """When it was last used."""
        try:
            return self._beside("lock").stat().st_mtime
        except OSError:
            return 0.0

    def owner(self) -> int:
        """The user whose its files are, 0 for none and for that of this process."""
        try:
            found = self.folder.joinpath("project").lstat().st_uid
        except OSError:
            return 0
        return 0 if hasattr(os, "geteuid") and found == os.geteuid() else found

    def prepare(self, wanted: CheckoutRequest) -> Checkout:
        """Make it hold what is wanted. Raises as `Checkouts.checkout`."""
        if self.owner() != self.uid:  # of another user it would have to be read anew
            for name in ("project", "user"):
                remove_tree(self.folder / name)
        make_directory(self.folder, mode=_PRIVATE)
        os.utime(self._beside("lock"))
        table = self._fill("project", wanted.project, wanted.contents, is_checked=wanted.is_checked)
        self._fill("user", wanted.user or SourceManifest("user"), wanted.contents)
        self.clean()
        for name in ("home", "tmp"):
            make_directory(self.folder / name, mode=_PRIVATE)
        self._open_to_run()
        return Checkout(
            project=self.folder / "project",
            user=self.folder / "user",
            home=self.folder / "home",
            temporary=self.folder / "tmp",
            written=table,
            table=table.copy(),
            differences=lambda: self._differences(wanted, table),
            uid=self.uid,
        )

    def restore(self, wanted: CheckoutRequest) -> None:
        """Leave nothing of a run, which may hold secrets. Raises as `prepare`."""
        if self.uid:
            self.close()
        self._fill("project", wanted.project, wanted.contents, found=self._found)
        self._fill("user", wanted.user or SourceManifest("user"), wanted.contents)
        self.clean()

    def _open_to_run(self) -> None:
        """Give its user what is in it, and the way there. Raises FileSystemError."""
        if not self.uid:
            return
        try:
            for name in ("home", "tmp"):
                os.chown(self.folder / name, self.uid, self.uid)
            os.chown(self.folder, 0, self.uid)
            self.folder.chmod(_FOR_RUN)
        except OSError as error:
            raise file_system_error(self.folder, error) from error

    def close(self) -> None:
        """Close it to the user of a run, whose number another run may get next.

        Raises FileSystemError.
        """
        try:
            self.folder.chmod(_PRIVATE)
            os.chown(self.folder, 0, 0)
        except OSError as error:
            raise file_system_error(self.folder, error) from error

    def _differences(self, wanted: CheckoutRequest, table: StatTable) -> TreeChanges:
        """See `Checkout.differences`. Raises as `prepare`."""
        folder = self.folder / "project"
        self._found = differences(wanted.project, wanted.contents, folder, table)
        return self._found

    def clean(self) -> None:
        """Leave nothing of a run that is of no use to the next one."""
        for name in ("home", "tmp"):
            remove_tree(self.folder / name)

    def remove(self) -> None:
        """Remove the workspace. Raises FileSystemError."""
        remove_tree(self.folder)
        try:
            for name in ("json", "user.json", "lock"):
                self._beside(name).unlink(missing_ok=True)
        except OSError as error:
            raise file_system_error(self.folder, error) from error

    def _fill(
        self,
        name: str,
        manifest: SourceManifest,
        contents: ReadContents,
        *,
        found: TreeChanges | None = None,
        is_checked: bool = False,
    ) -> StatTable:
        table = self._tables.get(name)
        if table is None:
            table = StatTable(self._beside("json" if name == "project" else "user.json"))
            table.load()
        root = self.folder / name
        # (After the run nothing needs to be read or checked again that was so before it.)
        is_checked = is_checked or name in self._tables
        write_tree(
            manifest,
            contents,
            root,
            table=table,
            is_checked=is_checked,
            found=found,
            owner=self.uid,
        )
        self._tables[name] = table
        # The table knows files as they were written here, and never learns from a run.
        table.save()
        return table

    def _beside(self, suffix: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}.{suffix}")


def _restore_slot(slot: _Slot, wanted: CheckoutRequest) -> None:
    """Leave nothing of a run until the next one comes."""
    try:
        slot.restore(wanted)
    except LilluxError as error:
        _log.warning("a checkout cannot be used again: %s", error)
        try:
            slot.remove()
        except LilluxError as further:
            _log.warning("and it stays: %s", further)


def _key(wanted: CheckoutRequest) -> str:
    return sha256_hex(f"{wanted.remote_name}\0{wanted.project_path}".encode())[:_KEY_DIGITS]


def _take(folder: Path, held: ExitStack) -> _Slot:
    """An idle workspace, that of the last use if there are several; else a new one."""
    slots = (_Slot(path.with_suffix("")) for path in folder.glob("*.lock"))
    for slot in sorted(slots, key=_Slot.used_at, reverse=True):
        attempt = ExitStack()
        with suppress(LockTimeoutError):
            slot.lock(attempt)
            if slot.folder.is_dir():  # else another process was removing it when we looked
                held.push(attempt)
                return slot
            attempt.close()
    return _new(folder, held)


def _new(folder: Path, held: ExitStack, uid: int = 0) -> _Slot:
    make_directory(folder, mode=_PRIVATE)
    slot = _Slot(folder / os.urandom(6).hex(), uid)
    slot.lock(held)
    return slot


def _open_way(folder: Path, root: Path) -> None:
    """Let other users go through a folder, and those above it up to the root; none is listed.

    Raises FileSystemError.
    """
    for one in (folder, *folder.parents):
        try:
            one.chmod(_WAY)
        except OSError as error:
            raise file_system_error(one, error) from error
        if one == root:
            return
