"""Changes of a run in folders, found by a look before it and one after it.

Both looks take what the system keeps of each entry; nothing is read but the files that changed. A
program may set the modification time of a file to any moment. The change time is set by the kernel
alone, also when a file is renamed or its modification time is set back.
"""

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.digests import rolling_sha256
from lillux.values import dataclass, field

MAX_ENTRIES = 5000
"""So many entries of folders are looked at: a receipt may not cost more than a run."""
MAX_FILES = 200
"""So many files, and as many other changes, are named."""
MAX_TEXT = 256 * 1024
"""So long may all names be together: a run with long ones would have no place in the log."""
_CLOCK_STEP_NS = 20_000_000  # file systems take the time of the last tick, up to 10 ms ago
_SECOND_NS = 1_000_000_000
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """The record that the system keeps of a file, a folder, or what else stands in one."""

    number: tuple[int, int]
    mode: int
    owner: tuple[int, int]
    size: int
    modified_ns: int
    changed_ns: int

    @property
    def kind(self) -> str:
        """``file``, ``link``, ``folder``, ``pipe``, ``socket`` or ``device``."""
        return _KINDS.get(stat.S_IFMT(self.mode), "device")


@dataclass(frozen=True, slots=True)
class Look:
    """The entries of folders at a moment, by path; not complete where there were too many."""

    folders: tuple[str, ...] = ()
    at_ns: int = 0
    entries: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Path and SHA-256 of each file that was written, and what else was changed.

    ``changes`` have ``path``, ``kind`` and ``change``: ``made``, ``changed``, ``removed``, or
    ``unreadable`` for a file without a digest; ``target`` of a link, ``mode`` and ``owner`` where
    these are others. Not complete where there was more than could be looked at.
    """

    files: tuple[tuple[str, str], ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    is_complete: bool = True


def look_at(folders: Sequence[str]) -> Look:
    """The folders themselves and all that is in them; links are not followed."""
    at_ns = time.time_ns()
    found: dict[str, Entry] = {}
    for entry in _entries(folders):
        if entry is None or len(found) == MAX_ENTRIES:
            return Look(tuple(folders), at_ns, found, is_complete=False)
        path, status = entry
        found[path] = Entry(
            (status.st_dev, status.st_ino),
            status.st_mode,
            (status.st_uid, status.st_gid),
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
    return Look(tuple(folders), at_ns, found)


def written_files(before: Look) -> WrittenFiles:
    """The changes in the folders since a look at them.

    A renamed entry is removed under one name and written under the other.
    """
    after = look_at(before.folders)
    found = _Changes(before)
    for path, entry in after.entries.items():
        if not found.add(path, entry):
            return found.result(is_complete=False)
    both = before.is_complete and after.is_complete
    if both:  # else what was not looked at would seem to be gone
        for path in before.entries.keys() - after.entries.keys():
            if not found.add_removed(path):
                return found.result(is_complete=False)
    return found.result(is_complete=both)


class _Changes:
    """Collects what changed since a look, as far as there is room."""

    def __init__(self, before: Look) -> None:
        self._before = before
        self._files: list[tuple[str, str]] = []
        self._changes: list[dict[str, Any]] = []
        self._room = MAX_TEXT

    def result(self, *, is_complete: bool) -> WrittenFiles:
        """All that was found."""
        changes = sorted(self._changes, key=lambda one: str(one["path"]))
        return WrittenFiles(tuple(self._files), tuple(changes), is_complete)

    def add(self, path: str, entry: Entry) -> bool:
        """Note an entry if it changed; False where there is no more room."""
        old = self._before.entries.get(path)
        is_same = old is not None and (old.number, old.kind) == (entry.number, entry.kind)
        said = {} if old is None or not is_same else _metadata(old, entry)
        if not said and is_same and not self._is_written(old, entry):
            return True
        if entry.kind == "file":
            return self._add_file(path, said)
        change = "changed" if is_same else "made"
        return self._note(path, entry.kind, change, said | _target(path, entry))

    def _is_written(self, old: Entry | None, entry: Entry) -> bool:
        """True if an entry with the same number may be another than before.

        The times of a folder change with its entries, which are named themselves. A change right
        before the look may hide one right after it: the clock goes in steps.
        """
        if entry.kind == "folder":
            return False
        keeps_seconds = entry.changed_ns % _SECOND_NS == 0
        step_ns = _SECOND_NS if keeps_seconds else _CLOCK_STEP_NS
        return old != entry or entry.changed_ns >= self._before.at_ns - step_ns

    def _add_file(self, path: str, said: dict[str, Any]) -> bool:
        if said and not self._note(path, "file", "changed", said):
            return False
        if len(self._files) == MAX_FILES:
            return False
        digest = file_digest(path)
        if digest:
            self._files.append((path, digest))
            return self._has_room(path)
        return self._note(path, "file", "unreadable", {})

    def add_removed(self, path: str) -> bool:
        """Note an entry that is gone; False where there is no more room."""
        return self._note(path, self._before.entries[path].kind, "removed", {})

    def _note(self, path: str, kind: str, change: str, more: Mapping[str, Any]) -> bool:
        if len(self._changes) == MAX_FILES:
            return False
        self._changes.append({"path": path, "kind": kind, "change": change, **more})
        return self._has_room(path + str(more.get("target", "")))

    def _has_room(self, text: str) -> bool:
        self._room -= len(json.dumps(text))
        return self._room > 0


def _metadata(old: Entry, entry: Entry) -> dict[str, Any]:
    """Mode and owner of an entry where these changed."""
    said: dict[str, Any] = {}
    if old.mode != entry.mode:
        said["mode"] = f"{stat.S_IMODE(entry.mode):04o}"
    if old.owner != entry.owner:
        said["owner"] = ":".join(map(str, entry.owner))
    return said


def _target(path: str, entry: Entry) -> dict[str, Any]:
    """The text of a link: what was written there."""
    if entry.kind != "link":
        return {}
    try:
        return {"target": os.readlink(path)}  # noqa: PTH115 - the text itself
    except OSError:
        return {}


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


def _entries(folders: Sequence[str]) -> Iterator[tuple[str, os.stat_result] | None]:
    """Each entry with its state, the folders first; None for a folder that cannot be listed."""
    todo = []
    for folder in folders:
        try:
            yield folder, os.lstat(folder)
        except FileNotFoundError:
            continue
        except OSError:
            yield None
        todo.append(folder)
    todo.reverse()
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as listing:
                for entry in sorted(listing, key=lambda one: one.name):
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield None
