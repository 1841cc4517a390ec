"""Resolution of a caller's paths to open folders, and names in them."""

import errno
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lillux.mediation.callers import FileCall, GoOn, as_signed, status_of
from lillux.mediation.system_calls import (
    AT_FDCWD,
    MAX_LINKS,
    OPEN_FOLDER,
    require_success,
    system_call,
)

_NO_MAGIC_LINKS, _IN_ROOT, CACHED = 0x02, 0x10, 0x20  # RESOLVE_*
OPEN_ANY = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC
_RETRIES = 8


class Spot(NamedTuple):
    """A name in an open folder, with the real path of it. ``tail`` is a slash that stood behind."""

    folder: int
    name: str
    place: str
    tail: str = ""

    @property
    def as_given(self) -> str:
        """The name as the kernel should read it."""
        return self.name + self.tail


class Opened:
    """Descriptors that are closed at the end of a call."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def keep(self, descriptor: int) -> int:
        """The descriptor itself."""
        self.descriptors.append(descriptor)
        return descriptor

    def close(self) -> None:
        """Close all of them."""
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)


class Way:
    """Resolves the paths of a call, one step after the other, to open folders."""

    def __init__(self, call: FileCall, opened: Opened) -> None:
        self.call, self.opened = call, opened

    def spot(self, at: int, path: str, resolve: int = 0) -> Spot:
        """The folder and the name that a path leads to, the last name not followed."""
        if resolve & _IN_ROOT:
            path = f"./{path.lstrip('/')}"
        base = self.opened.keep(with_marked_error(self.call.open_base, at, path))
        return self._below(base, path, resolve)

    def _below(self, base: int, path: str, resolve: int = 0) -> Spot:
        plain = path.rstrip("/")
        head, slash, name = plain.rpartition("/")
        tail = "/" if plain != path else ""
        if not plain or name in {".", ".."}:
            head, name, tail = path, ".", ""
        elif slash and not head:
            head = "/"
        folder = self.opened.keep(with_marked_error(open_folder, base, head or ".", resolve))
        return Spot(folder, name, joined_place(real_place(folder), name), tail)

    def final(self, spot: Spot, *, follows: bool = True) -> tuple[int, Spot]:
        """A descriptor of what a name stands for, and its spot: of a link the end, if followed."""
        for _ in range(MAX_LINKS):
            own = self.own_descriptor(spot)
            if own is not None and follows:
                found = self.opened.keep(self.call.open_own(own))
                return found, Spot(spot.folder, spot.name, real_place(found))
            found = self.opened.keep(os.open(spot.name, OPEN_ANY, dir_fd=spot.folder))
            if not stat.S_ISLNK(os.fstat(found).st_mode) or not (follows or spot.tail):
                return found, spot
            spot = self.followed(spot)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def followed(self, spot: Spot) -> Spot:
        """Spot that the link at a spot leads to, one step."""
        if spot.place.startswith("/proc/"):
            raise GoOn
        target = os.readlink(spot.name, dir_fd=spot.folder) + spot.tail
        if target.startswith("/"):
            return self.spot(AT_FDCWD, target)
        return self._below(spot.folder, target)

    def own_descriptor(self, spot: Spot) -> int | None:
        """The number of a descriptor of the caller, where a path leads through /proc/self/fd.

        That resolved to this process, of course.
        """
        folder = spot.place.rpartition("/")[0]
        if folder == f"/proc/{os.getpid()}/fd" and spot.name.isdecimal():
            return int(spot.name)
        if folder.startswith("/proc/") and folder.endswith("/fd") and spot.name.isdecimal():
            leader = folder.split("/")[2]
            if leader in {str(self.call.pid), str(status_of(self.call.pid).leader)}:
                return int(spot.name)
        return None


ON_THE_WAY = "\0"
"""Marks an error on the way to a folder."""


def with_marked_error(act: Callable[..., int], *words: object) -> int:
    """The result of a step on the way to a folder; its error has `ON_THE_WAY` as file name."""
    try:
        return act(*words)
    except OSError as error:
        raise OSError(error.errno, error.strerror, ON_THE_WAY) from error


def open_folder(base: int, path: str, resolve: int) -> int:
    """The folder at a path, links followed, but none of /proc, which mean another process here."""
    how = struct.pack("<QQQ", OPEN_FOLDER, 0, resolve | _NO_MAGIC_LINKS)
    return require_success(system_call("openat2", base, os.fsencode(path), how, len(how)))


def real_place(descriptor: int) -> str:
    """The real path of an open file. Raises OSError where it is no longer there.

    What has no path at all (a pipe) has a name like ``pipe:[1]``.
    """
    for _ in range(_RETRIES):
        place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - as above
        if not place.startswith("/"):
            return place
        status = os.fstat(descriptor)
        if status.st_nlink == 0:  # without a name: it is not in a folder that may be looked at
            return place
        with suppress(OSError):
            there = os.lstat(place)
            if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
                return place
    if stat.S_ISREG(status.st_mode) and place.endswith(" (deleted)"):
        return place  # it was opened there, and has another name
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def joined_place(folder: str, name: str) -> str:
    """The real path of a name in a folder."""
    if name == ".":
        return folder
    return f"{folder.rstrip('/')}/{name}"


def target_text(at: int, path: str | None) -> str:
    """A path as a call names it, or the number of its open file."""
    return f"descriptor {as_signed(at)}" if path is None else path
