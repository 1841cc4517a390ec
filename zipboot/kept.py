"""What is kept in the cache, and for how long: until nobody used it for 30 days.

When something was last used, its own modification time says, set once a day. What is new makes the
others be looked at. Nothing is touched whose name is not one of ours: a cache may have been put
where other things are. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_UNUSED_S = 30 * 24 * 3600
NOTED_EVERY_S = 24 * 3600

# A name of ours ends in a digest or in random digits: of a bundle or a file being written, of a
# compiled module, of what shiv unpacked.
_DIGITS = (16, 40, 64)
_KINDS = ("bundle", "native", "programs", "unpacked")


def note_use(entry: str, *, is_new: bool) -> None:
    """Remember that an entry of a folder of the cache is used now; sweep the folder if it is new.

    A cache that cannot be written is no obstacle.
    """
    from time import time

    try:
        now = time()
        if is_new:
            folder = os.path.dirname(entry)
            sweep(folder, now)
            if os.path.basename(folder) in _KINDS:  # no temporary one, beside what is not ours
                sweep(os.path.join(os.path.dirname(folder), "trees"), now)  # written by others
        elif now - os.stat(entry).st_mtime > NOTED_EVERY_S:
            os.utime(entry)
    except OSError:
        pass  # a read-only cache that was filled by somebody else


def sweep(folder: str, now: float) -> None:
    """Remove what nobody has used for `KEPT_UNUSED_S`, and what a killed process left behind."""
    for entry in kept_in(folder):
        if _modified(entry, now) < now - KEPT_UNUSED_S:
            remove(entry)


def kept_in(folder: str) -> Iterator[str]:
    """The paths in a folder of the cache that were made by this program."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    yield from (os.path.join(folder, name) for name in names if _is_name_of_ours(name))


def remove(entry: str) -> None:
    """Remove a file, a link or a whole folder. Raises OSError when some of it is left."""
    from shutil import rmtree

    if os.path.isdir(entry) and not os.path.islink(entry):
        rmtree(entry)
    else:
        os.unlink(entry)


def _is_name_of_ours(name: str) -> bool:
    stem = name.removesuffix(".tmp").removesuffix("_lock")
    digits = stem.replace("-", "_").rpartition("_")[2]
    return len(digits) in _DIGITS and not digits.strip("0123456789abcdef")


def _modified(entry: str, now: float) -> float:
    try:
        return os.lstat(entry).st_mtime
    except OSError:
        return now  # another process was quicker
