"""The files that a run wrote, found afterwards by their change time.

A program may set the modification time of a file to any moment. The change time is set by the
kernel alone, also when a file is renamed or its modification time is set back.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from lillux.digests import rolling_sha256
from lillux.values import dataclass

MAX_ENTRIES = 5000
"""So many entries of folders are looked at: a receipt may not cost more than a run."""
MAX_FILES = 200
_CLOCK_STEP_NS = 20_000_000  # file systems take the time of the last tick, up to 10 ms ago
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Path and SHA-256 of each file; not complete where there was more than could be looked at."""

    files: tuple[tuple[str, str], ...]
    is_complete: bool


def written_files(folders: Sequence[str], since_ns: int) -> WrittenFiles:
    """The regular files in folders that changed since a time, in nanoseconds since 1970.

    A file that is gone or cannot be read any more is left out; links are not followed.
    """
    found: list[tuple[str, str]] = []
    for count, entry in enumerate(_entries(folders), start=1):
        if entry is None or count > MAX_ENTRIES:
            return WrittenFiles(tuple(found), is_complete=False)
        path, status = entry
        if not stat.S_ISREG(status.st_mode) or not _is_since(status.st_ctime_ns, since_ns):
            continue
        if len(found) == MAX_FILES:
            return WrittenFiles(tuple(found), is_complete=False)
        digest = file_digest(path)
        if digest:
            found.append((path, digest))
    return WrittenFiles(tuple(found), is_complete=True)


def file_digest(path: str) -> str:
    """The SHA-256 of a regular file, ``""`` where it cannot be read."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
        with open(descriptor, "rb") as file:  # noqa: PTH123 - no path
            digest = rolling_sha256()
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError:
        return ""
    return str(digest.hexdigest())


def _is_since(changed_ns: int, since_ns: int) -> bool:
    if changed_ns % _SECOND_NS == 0:  # a file system that keeps whole seconds
        return changed_ns >= since_ns - since_ns % _SECOND_NS
    return changed_ns >= since_ns - _CLOCK_STEP_NS


def _entries(folders: Sequence[str]) -> Iterator[tuple[str, os.stat_result] | None]:
    """Each file with its state, folder by folder; None for a folder that cannot be listed."""
    todo = list(reversed(folders))
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as listing:
                for entry in sorted(listing, key=lambda one: one.name):
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(entry.path)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            yield folder, Path(folder).lstat()
        except OSError:
            yield None
