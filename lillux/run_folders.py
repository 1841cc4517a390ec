"""Private temporary folders of runs: made before a start, removed after it, swept after a crash.

They lie in ``rye-UID`` of the system's temporary folder, which only this user can enter. Each is
locked by the process that made it for as long as it lives: what is not locked was left behind by
one that was killed. Everything goes through descriptors, because what ran in the folder may have
put links into it.
"""

import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from lillux.files import file_system_error
from lillux.values import dataclass

VARIABLES = ("TMPDIR", "TMP", "TEMP")
MAX_BASE = 60
"""Of the path of the folder that it is made in: sockets in it have 104 bytes in all (macOS)."""
_PRIVATE = 0o700
_OTHERS = 0o077
_ATTEMPTS, _REMOVAL_S = 20, 10.0
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def temporary_base(env: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """The folder for temporary files of this environment; ``/tmp`` for one that is too long."""
    return _bases(env, platform)[0]


def _bases(env: Mapping[str, str], platform: str) -> list[str]:
    """The folders to try, best first: a confined process may write none but its own."""
    named = (env.get(name, "") for name in VARIABLES)
    found = next((one for one in named if os.path.isabs(one) and os.path.isdir(one)), "")  # noqa: PTH112, PTH117
    if platform == "win32":
        return [found or env.get("SYSTEMROOT", r"C:\Windows") + r"\Temp"]
    shared = "/tmp"  # noqa: S108 - a folder of this user alone is made in it
    if not found:
        return [shared]
    return [found] if len(os.fsencode(found)) <= MAX_BASE else [shared, found]


@contextmanager
def private_folder(env: Mapping[str, str], *, platform: str = sys.platform) -> Iterator[Path]:
    """A new folder of this user alone, removed at the end with all that is in it.

    Raises FileSystemError.
    """
    folder = _new(_bases(env, platform), platform)
    try:
        yield Path(folder.path)
    finally:
        folder.remove()


def _new(bases: list[str], platform: str) -> "_Folder | _PlainFolder":
    """A folder in the first of these that takes one. Raises FileSystemError."""
    for base in bases:
        try:
            return _plain_folder(base) if platform == "win32" else _locked_folder(base)
        except OSError as error:
            if base == bases[-1]:
                raise file_system_error(Path(base), error) from error
    raise ValueError(bases)


class WorkerFolder:
    """The private folder of a process that makes many calls, with one in it for each call.

    What a call leaves beside its own is removed with the last call that runs. ``lasting`` is there
    until `close`, for what the process makes before its first call.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._stack = ExitStack()
        self.path = self._stack.enter_context(private_folder(env))
        self.lasting = self.path / "lasting"
        self.lasting.mkdir(mode=_PRIVATE)
        self._calls: set[str] = set()
        self._lock = Lock()

    @contextmanager
    def call_folder(self) -> Iterator[Path]:
        """A folder for one call. Raises FileSystemError."""
        name = os.urandom(5).hex()
        with self._lock:
            self._calls.add(name)
        try:
            try:
                self._make(name)
            except OSError as error:
                raise file_system_error(self.path / name, error) from error
            yield self.path / name
        finally:
            with self._lock:
                self._calls.discard(name)
                gone = (name,) if self._calls else self._names()
            for one in gone:
                with suppress(OSError):
                    self._remove(one)

    def close(self) -> None:
        """Remove it with all that is in it."""
        self._stack.close()

    def _names(self) -> list[str]:
        with suppress(OSError):
            return [one for one in os.listdir(self.path) if one != self.lasting.name]  # noqa: PTH208
        return []

    def _make(self, name: str) -> None:
        """Make a folder in it; a link that stands in its place is not followed. Raises OSError."""
        if sys.platform == "win32":
            (self.path / name).mkdir(mode=_PRIVATE)
            return
        around = os.open(self.path, _FOLDER)
        try:
            os.mkdir(name, _PRIVATE, dir_fd=around)
        finally:
            os.close(around)

    def _remove(self, name: str) -> None:
        if sys.platform == "win32":
            _PlainFolder(str(self.path / name)).remove()
            return
        around = os.open(self.path, _FOLDER)
        try:
            try:
                _remove(name, around)
            except NotADirectoryError:
                os.unlink(name, dir_fd=around)
        finally:
            os.close(around)


@dataclass(frozen=True, slots=True)
class _PlainFolder:
    """A folder where folders have no descriptors: Windows, where a profile is private."""

    path: str

    def remove(self) -> None:
        """Remove it with what is in it, as far as that is possible."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A locked folder. ``parent`` and ``lock`` are descriptors, of the folder around it and of it.

    owner     the process that made it: one that was forked from that removes nothing
    is_alone  the folder around it was made for it, and goes with it
    """

    path: str
    name: str
    parent: int
    lock: int
    owner: int
    is_alone: bool

    def remove(self) -> None:
        """Remove it with what is in it; what cannot be removed now is left to the next sweep."""
        with suppress(OSError):
            if os.getpid() == self.owner:
                _remove(self.name, self.parent)
                if self.is_alone:
                    Path(self.path).parent.rmdir()
        os.close(self.lock)
        os.close(self.parent)


def _plain_folder(base: str) -> _PlainFolder:
    import tempfile

    return _PlainFolder(tempfile.mkdtemp(prefix="rye-", dir=base))


def _locked_folder(base: str) -> _Folder:
    """A new folder below that of this user. Raises OSError."""
    around = f"{base}/rye-{os.getuid()}"
    parent = _open_parent(around)
    is_alone = parent is None
    if parent is None:  # another user was there first
        import tempfile

        around = tempfile.mkdtemp(prefix="rye-", dir=base)
        parent = os.open(around, _FOLDER)
    try:
        _sweep_once(around, parent)
        name, lock = _new_folder(parent)
    except BaseException:
        os.close(parent)
        raise
    return _Folder(
        path=f"{around}/{name}",
        name=name,
        parent=parent,
        lock=lock,
        owner=os.getpid(),
        is_alone=is_alone,
    )


def _new_folder(parent: int) -> tuple[str, int]:
    """The name of a new folder, and its descriptor with the lock on it. Raises OSError."""
    import fcntl

    for _ in range(_ATTEMPTS):
        name = os.urandom(5).hex()
        with suppress(FileExistsError):
            os.mkdir(name, _PRIVATE, dir_fd=parent)
            lock = os.open(name, _FOLDER, dir_fd=parent)
            if _is_locked_now(lock, name, parent, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return name, lock
            os.close(lock)  # a sweep of another process was quicker
    raise FileExistsError("no new folder can be made")


def _open_parent(around: str) -> int | None:
    """A descriptor of the folder of this user, made if it is missing; None if it is not theirs."""
    with suppress(FileExistsError):
        Path(around).mkdir(mode=_PRIVATE)
    try:
        descriptor = os.open(around, _FOLDER)
    except OSError:  # a file, a link, or closed to us
        return None
    status = os.fstat(descriptor)
    if status.st_uid == os.getuid() and not status.st_mode & _OTHERS:
        return descriptor
    os.close(descriptor)
    return None


def _is_locked_now(lock: int, name: str, parent: int, how: int) -> bool:
    """True if the lock was free, and the folder is still the one of this name."""
    import fcntl

    try:
        fcntl.flock(lock, how)
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    held = os.fstat(lock)
    return (there.st_ino, there.st_dev) == (held.st_ino, held.st_dev)


_swept: set[tuple[int, str]] = set()
"""The processes and folders that were looked through already."""


def _sweep_once(around: str, parent: int) -> None:
    """Remove what processes have left that are no more; once per process."""
    if (os.getpid(), around) in _swept:
        return
    _swept.add((os.getpid(), around))
    import fcntl

    for name in os.listdir(parent):
        with suppress(OSError):
            lock = _opened_folder(name, parent)
            try:
                if _is_locked_now(lock, name, parent, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    _remove(name, parent)
            finally:
                os.close(lock)


def _remove(name: str, parent: int) -> None:
    """Remove a folder with all below it, however deep. Raises OSError for what stays.

    Folders in it are moved up before they are emptied: no path grows, and no link is followed. It
    has a limit of time, as something may still be writing there.
    """
    top = _opened_folder(name, parent)
    deadline, number = time.monotonic() + _REMOVAL_S, 0
    try:
        while (folders := _emptied(top)) and time.monotonic() < deadline:
            number += 1
            for index, folder in enumerate(folders):
                _lift(folder, top, f"{number}-{index}-")
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(top)


def _emptied(folder: int) -> list[str]:
    """The folders in a folder; all else in it is removed."""
    with os.scandir(folder) as entries:
        found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _lift(name: str, top: int, prefix: str) -> None:
    """Remove one folder; the folders in it are moved beside it."""
    inner = _opened_folder(name, top)
    try:
        for index, folder in enumerate(_emptied(inner)):
            _make_ours(folder, inner)
            os.rename(folder, f"{prefix}{index}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _opened_folder(name: str, parent: int) -> int:
    """A descriptor of a folder that can be read and changed, whatever mode it was given."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        _make_ours(name, parent)
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & _PRIVATE != _PRIVATE:
        os.fchmod(descriptor, _PRIVATE)
    return descriptor


def _make_ours(name: str, parent: int) -> None:
    """Give a folder its usual mode; never what a link leads to."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, _PRIVATE, dir_fd=parent, follow_symlinks=False)
        return
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{held}").chmod(_PRIVATE)
    finally:
        os.close(held)
