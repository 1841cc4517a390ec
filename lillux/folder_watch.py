"""Watch of folders: news that something in one changed, by what the system has."""

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

_EVENTS_BYTES = 64 * 1024


class FolderWatch(Protocol):
    """A folder that is watched."""

    @property
    def is_valid(self) -> bool:
        """True if the folder is still the one that is watched; it may have been removed."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something in the folder changed; False when nothing did in that time."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


def watch_folder(folder: Path, platform: str = sys.platform) -> FolderWatch | None:
    """A watch on what is in the folder, not below; None where it, or the means, is missing."""
    try:
        if platform == "linux":
            return _Inotify([folder])
        import select

        if hasattr(select, "kqueue"):
            return _Kqueue(folder)
    except OSError:  # not there yet, or more watches than the system allows
        pass
    return None


def watch_folders(folders: Collection[str], platform: str = sys.platform) -> FolderWatch | None:
    """A watch on what is in any of these folders that would miss no usual change of a file.

    Returns None for no folders, for a folder on a file system that other machines can change, and
    on a system without inotify. Changes through another hard link or mapped memory are not
    reported.
    """
    try:
        if platform == "linux" and folders and _are_local(folders):
            return _Inotify(folders)
    except OSError:
        pass
    return None


# Of these, every change goes through this machine. What is mounted over a network is not.
_LOCAL_TYPES = frozenset(
    ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
)


def _are_local(folders: Collection[str]) -> bool:
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    types = {}
    for line in lines:
        mounted, _, of = line.partition(" - ")
        types[mounted.split()[2]] = of.split()[0]
    devices = {os.stat(folder).st_dev for folder in folders}  # noqa: PTH116 - texts, many
    named = (f"{os.major(device)}:{os.minor(device)}" for device in devices)
    return all(types.get(device) in _LOCAL_TYPES for device in named)


class _Inotify:
    """The watch of Linux. See inotify(7)."""

    _MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
    _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
    _MOVE_SELF = 0x800
    _IGNORED = 0x8000
    _ONLY_FOLDERS = 0x0100_0000
    _CLOSE_ON_EXEC, _NON_BLOCKING = 0o2000000, 0o4000
    _WANTED = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
    # int watch, uint32 mask, uint32 cookie, uint32 length, then the name.
    _HEADER_BYTES = 16

    def __init__(self, folders: Iterable[str | Path]) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        try:
            add_watch, init = libc.inotify_add_watch, libc.inotify_init1
        except AttributeError as error:
            raise OSError(str(error)) from error
        self._descriptor: int = init(self._CLOSE_ON_EXEC | self._NON_BLOCKING)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = self._WANTED | self._MOVE_SELF | self._ONLY_FOLDERS
        for folder in folders:
            if add_watch(self._descriptor, os.fsencode(folder), mask) < 0:
                number = ctypes.get_errno()
                os.close(self._descriptor)
                raise OSError(number, "inotify_add_watch")
        self.is_valid = True

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something changed."""
        import select

        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return False
        self._read_events()
        return True

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)

    def _read_events(self) -> None:
        events = os.read(self._descriptor, _EVENTS_BYTES)
        while events:
            mask = int.from_bytes(events[4:8], sys.byteorder)
            if mask & (self._IGNORED | self._MOVE_SELF):
                self.is_valid = False
            length = int.from_bytes(events[12:16], sys.byteorder)
            events = events[self._HEADER_BYTES + length :]


class _Kqueue:
    """The watch of macOS and the BSDs: the folder itself, and the files that are in it now.

    What is made or removed later changes the folder, after which the watch is made anew.
    """

    def __init__(self, folder: Path) -> None:
        import select

        self._descriptors: list[int] = []
        self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        try:
            paths = [str(folder), *(entry.path for entry in os.scandir(folder) if entry.is_file())]
            for path in paths:
                self._add(path)
        except OSError:
            self.close()
            raise
        self.is_valid = True

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something changed."""
        events = self._queue.control(None, len(self._descriptors), timeout_s)
        self.is_valid = not any(event.ident == self._descriptors[0] for event in events)
        return bool(events)

    def close(self) -> None:
        """Stop watching."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._queue.close()

    def _add(self, path: str) -> None:
        import select
        from typing import Any

        module: Any = select
        descriptor = os.open(path, getattr(os, "O_EVTONLY", os.O_RDONLY))
        self._descriptors.append(descriptor)
        event = module.kevent(
            descriptor,
            filter=module.KQ_FILTER_VNODE,
            flags=module.KQ_EV_ADD | module.KQ_EV_CLEAR,
            fflags=module.KQ_NOTE_WRITE
            | module.KQ_NOTE_EXTEND
            | module.KQ_NOTE_DELETE
            | module.KQ_NOTE_RENAME,
        )
        self._queue.control([event], 0)
