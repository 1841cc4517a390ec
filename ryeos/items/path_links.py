"""A folder of the PATH whose links lead to where agents write, and a folder in its place.

A link in ``~/bin`` into a folder that an agent may write is a program of that agent, under the bare
name by which the user's own tools start it. Such a folder is replaced on the PATH by a private one,
with a link to each of its other entries.

It is a file of its own because most starts have only folders of the system on their PATH.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.values import dataclass
from ryeos.items.places import IsInside

KIND = "path"
"""The folder of the cache that the private folders are in."""
_RECENT_NS = 1_000_000_000
_NOTED_EVERY_S = 24 * 3600

# What was read of a folder, and what it was then: a server looks at it again where that differs.
_State = tuple[int, int, int]
_read: dict[str, tuple[_State, tuple[str, ...], tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class LinkedFolder:
    """A folder of programs: the names of its entries, and of those that lead into a project."""

    path: str
    names: tuple[str, ...]
    leading: tuple[str, ...]

    def is_about(self, warning: str) -> bool:
        """True if a warning says that something of this folder was left out."""
        starts = (f"{self.path}: ", *(f"{self.path}/{name}: " for name in self.leading))
        return warning.startswith(starts)

    def without(self, left_out: Collection[str], place: Callable[[], Path | None]) -> str:
        """A folder with the entries that are not left out, ``""`` where none can be made.

        ``place`` gives the folder of the cache that it is made in, which no agent can write.
        """
        if not left_out:
            return self.path
        folder = place()
        if folder is None or os.pathsep in str(folder):
            return ""
        names = [name for name in self.names if name not in left_out]
        named = b"\0".join(map(os.fsencode, (self.path, *names)))
        made = folder / sha256_hex(named)[:40]
        links = {name: f"{self.path}/{name}" for name in names}
        try:
            if _links_in(made) != links:
                _make(made, links)
            _note_use(made)
        except OSError:
            return ""
        return str(made)


def linked_folders(folders: Iterable[str], is_inside: IsInside) -> Mapping[str, LinkedFolder]:
    """Those of the folders, by their paths, with a link that leads to where an agent may write."""
    found = {}
    for folder in folders:
        names, links = _entries(folder)
        leading = tuple(name for name in links if is_inside(f"{folder}/{name}"))
        if leading:
            found[folder] = LinkedFolder(folder, names, leading)
    return found


def source_of(folder: Path, cache: Path) -> Path | None:
    """The folder that one of these takes the place of, None for another folder."""
    links = _links_in(folder) if folder.parent == cache / KIND else {}
    return next((Path(target).parent for target in links.values()), None)


def _entries(folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the entries of a folder, and of those that are links; none if unreadable."""
    try:
        status = Path(folder).stat()
        state = (status.st_mtime_ns, status.st_ino, status.st_dev)
        kept = _read.get(folder)
        if kept and kept[0] == state:
            return kept[1:]
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_symlink()) for entry in entries)
    except OSError:
        return (), ()
    names, links = (
        tuple(name for name, _ in found),
        tuple(name for name, is_link in found if is_link),
    )
    # A change in the moment of the reading may not show in the time.
    if time.time_ns() - status.st_mtime_ns > _RECENT_NS:
        _read[folder] = state, names, links
    return names, links


def _links_in(folder: Path) -> dict[str, str]:
    """The links of a folder of these with what they say; of a missing one, and of others, none."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found[entry.name] = os.readlink(entry.path)  # noqa: PTH115 - text
        return found
    return {}


def _make(made: Path, links: Mapping[str, str]) -> None:
    """Make a folder of links, whole or not at all."""
    new, old = (made.with_name(f"{os.urandom(8).hex()}.tmp") for _ in range(2))
    new.mkdir(mode=0o700)
    try:
        for name, target in links.items():
            (new / name).symlink_to(target)
        if os.path.lexists(made):  # not as it was made
            made.rename(old)
        new.rename(made)
    except OSError:
        if _links_in(made) != links:  # no other process was quicker
            raise
    finally:
        _remove(new)
        _remove(old)


def _note_use(made: Path) -> None:
    """Set its time, once a day: what was unused for 30 days is removed, see `zipboot.places`."""
    if time.time() - made.lstat().st_mtime > _NOTED_EVERY_S:
        with suppress(OSError):  # a cache that cannot be written
            os.utime(made)


def _remove(folder: Path) -> None:
    if os.path.lexists(folder):
        from shutil import rmtree

        rmtree(folder, ignore_errors=True)
