"""Which kept outputs are removed again, whenever one more is kept.

(1) those older than ``MAX_AGE_S``
(2) the oldest, until the rest are at most ``MAX_OUTPUTS`` and ``MAX_TOTAL_BYTES``
(3) never the one just kept, nor one younger than ``FRESH_S``: its call may still be running, and
    whoever was told of it has yet to read it

Only plain files with a name as we give it, in a folder that is reached without links.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lillux.values import dataclass

MAX_TOTAL_BYTES = 256 * 1024 * 1024
MAX_OUTPUTS = 1000
MAX_AGE_S = 7 * 24 * 3600.0
FRESH_S = 600.0
_OURS = re.compile(r"[0-9a-f]{32}\.log")
# The folder itself, and those that hold it up to the space's own.
_FOLDERS = 3


@dataclass(frozen=True, slots=True)
class _Output:
    """A kept output: when it was written (seconds), how large it is, and where it lies."""

    written_s: float
    size_bytes: int
    path: Path


def remove_old_outputs(
    folder: Path, kept: str, *, clock: Callable[[], float] = time.time
) -> tuple[str, ...]:
    """Remove what is too old and too much, but never the one named ``kept``.

    Gives the names of those removed, the oldest first. What cannot be looked at or removed stays,
    and is no error: the output was kept.
    """
    if any(one.is_symlink() for one in (folder, *folder.parents[: _FOLDERS - 1])):
        return ()
    try:
        outputs = sorted(_outputs(folder), key=lambda one: (-one.written_s, one.path))
    except OSError:
        return ()
    now_s = clock()
    removed = []
    for one in _too_many(outputs, now_s):
        if one.path.name == kept or now_s - one.written_s < FRESH_S:  # (3)
            continue
        with suppress(OSError):
            one.path.unlink()
            removed.append(one.path.name)
    return tuple(removed)


def _too_many(newest_first: Sequence[_Output], now_s: float) -> Iterable[_Output]:
    """Of the outputs, those beyond one of the bounds, the oldest first."""
    total_bytes = 0
    beyond = []
    for number, one in enumerate(newest_first, 1):
        total_bytes += one.size_bytes
        is_old = now_s - one.written_s > MAX_AGE_S  # (1)
        if is_old or number > MAX_OUTPUTS or total_bytes > MAX_TOTAL_BYTES:  # (2)
            beyond.append(one)
    return reversed(beyond)


def _outputs(folder: Path) -> Iterable[_Output]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _OURS.fullmatch(entry.name):
                continue
            try:
                mark = entry.stat(follow_symlinks=False)
            except OSError:  # another server has removed it
                continue
            if stat.S_ISREG(mark.st_mode):
                yield _Output(mark.st_mtime, mark.st_size, Path(entry.path))
