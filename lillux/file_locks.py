"""Locks: files that only one process holds at a time."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import file_system_error, make_directory, open_file

LOCK_TIMEOUT_S = 30.0
LOCK_POLL_S = 0.02


class LockTimeoutError(LilluxError):
    """Another process keeps a lock for longer than a caller should wait."""

    code = "CONFLICT"

    def __init__(self, path: str, waited_s: float) -> None:
        self.path, self.waited_s = path, waited_s
        super().__init__(
            f"{path}: still locked by another process after {waited_s:g} s",
            hint="wait for the other command to end, or end it, and try again",
        )


@contextmanager
def locked(
    path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, within: Path | None = None
) -> Iterator[None]:
    """Hold the lock file at ``path`` (created if missing) while the block runs.

    On a file system without locks the block runs unlocked: callers must stay correct through
    `write_atomic` alone, the lock only spares them retries. With ``within``, the file is reached
    from that folder down without links. Raises LockTimeoutError, LinkOnTheWayError.
    """
    make_directory(path.parent, within=within)
    try:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT, mode=0o600, within=within)
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        _acquire(descriptor, path, timeout_s)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, timeout_s: float) -> None:
    from time import monotonic, sleep

    deadline = monotonic() + timeout_s
    while not _try_lock(descriptor):
        if monotonic() > deadline:
            raise LockTimeoutError(str(path), timeout_s)
        sleep(LOCK_POLL_S)


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return _try_lock_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _try_lock_windows(descriptor: int) -> bool:
    import msvcrt

    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EDEADLK)
    return True
