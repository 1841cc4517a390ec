"""Forcing of a store's files to the disk, many at once where the system can."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

from lillux.files import force_and_close

MANY = 64
"""Files, from which on one call for the whole file system is cheaper than one for each."""


def force_file_system(path: str, *, platform: str = sys.platform) -> bool:
    """Force the file system below a folder to the disk. Whether it did.

    Linux only, whose kernels tell of a failed write since 5.8. For many small files it takes a
    tenth of the time that each by itself would, as the journal is written once.
    """
    if platform != "linux":
        return False
    import ctypes

    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, AttributeError):  # a libc without it; a folder that may not be read
        return False
    try:
        return int(syncfs(descriptor)) == 0
    finally:
        os.close(descriptor)


class EarlyForce:
    """`force_file_system` in a thread of its own, while files are still being made.

    A caller that forces the same again waits less. The first caller that asks learns of a failure,
    later ones may not: where this one failed, each file has to be forced.
    """

    def __init__(self, path: str, *, force: Callable[[str], bool] = force_file_system) -> None:
        self._path, self._force = path, force
        self._succeeded = False
        self._thread = Thread(target=self._run, name="rye-early-force", daemon=True)
        self._thread.start()

    def succeeded(self) -> bool:
        """Wait for it. Whether the system could do it."""
        self._thread.join()
        return self._succeeded

    def _run(self) -> None:
        self._succeeded = self._force(self._path)


def force_files(root: Path, paths: Sequence[str], early: EarlyForce | None = None) -> None:
    """Force files below a folder to the disk; one that is gone needs no writing.

    ``early`` was begun when their content was written. Raises FileSystemError.
    """
    is_sound = len(paths) >= MANY and (early is None or early.succeeded())
    if is_sound and force_file_system(str(root)):
        return
    for path in paths:
        _force_file(root / path)


def _force_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except OSError:  # removed, or read-only: nothing of ours is waiting there
        return
    force_and_close(descriptor, path)
