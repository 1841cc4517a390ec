"""How long things stay in the cache: until nobody used them for 30 days.

When something was last used, its own modification time says, set once a day. What is new makes the
others be looked at. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os

KEPT_UNUSED_S = 30 * 24 * 3600
NOTED_EVERY_S = 24 * 3600


def note_use(entry: str, *, is_new: bool) -> None:
    """Remember that an entry of a folder of the cache is used now; sweep the folder if it is new.

    A cache that cannot be written is no obstacle.
    """
    from time import time

    try:
        now = time()
        if is_new:
            sweep(os.path.dirname(entry), now)
        elif now - os.stat(entry).st_mtime > NOTED_EVERY_S:
            os.utime(entry)
    except OSError:
        pass  # a read-only cache that was filled by somebody else


def sweep(folder: str, now: float) -> None:
    """Remove what nobody has used for `KEPT_UNUSED_S`, and what a killed process left behind."""
    from shutil import rmtree

    with os.scandir(folder) as entries:
        outdated = [e for e in entries if _modified(e, now) < now - KEPT_UNUSED_S]
    for entry in outdated:
        if entry.is_dir(follow_symlinks=False):
            rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _modified(entry: os.DirEntry[str], now: float) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return now  # another process was quicker
