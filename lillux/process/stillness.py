"""Stops a process between two pieces of its work, so that nothing is done in between.

A process that has run foreign code may have left a thread, a child, or a loop that writes later.
One that is stopped does none of that, whatever its code. What could act all the same is looked for
from outside: other threads and children, and files that are mapped to be written, since a write to
memory that is written already changes no time of the file. Linux.
"""

import errno
import fcntl
import os
import re
import signal
import struct
import sys
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from itertools import starmap

from lillux.values import dataclass

_LIMIT_S = 2.0
_QUICK_LOOKS = 4
_PAUSE_S = 0.0002
_PIECE = 1 << 16
_AT_REST = (b"T", b"Z", b"X")  # stopped, or ended
# PROCMAP_QUERY of Linux 6.11: the next mapping from an address on that is shared and of a file.
_ASK = 0xC068_6611
_QUERY = struct.Struct("<9Q2I24x")  # size, flags, address; start, end, ..., inode, major, minor
_SHARED_FILES = 0x08 | 0x10 | 0x20
# Device and inode of a mapping; in smaps also its flags, of which "sh" is: shared, may be written.
_SHARED_LINE = re.compile(rb"^\S+ ...s \S+ (\w+):(\w+) (\d+)", re.MULTILINE)
_MAPPING = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ (\w+):(\w+) (\d+).*?^VmFlags:([^\n]*)",
    re.MULTILINE | re.DOTALL,
)
File = tuple[int, int, int]
"""Major and minor number of a device, and an inode."""


@cache
def can_stop() -> bool:
    """True if this system shows the children of a process, and holds it by a descriptor."""
    own = f"/proc/self/task/{os.getpid()}/children"
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and os.path.exists(own)  # noqa: PTH110


def children_of(pid: int) -> set[int]:
    """The children of the first thread of a process. Raises OSError."""
    return set(map(int, _text(f"/proc/{pid}/task/{pid}/children").split()))


@dataclass(slots=True)
class Stoppable:
    """A process, held so that its number is no other's. Raises OSError where it is gone.

    ``harmless`` are files that it may have mapped: its parent had them before foreign code ran.
    """

    pid: int
    harmless: AbstractSet[File] = frozenset()
    held: int = -1

    def __post_init__(self) -> None:
        self.held = os.pidfd_open(self.pid)

    def go_on(self) -> None:
        """Let it run."""
        self._send(signal.SIGCONT)

    def stop(self) -> bool:
        """Stop it; whether it stands still now with nothing beside it that could act."""
        try:
            return (self._stops_asleep() or self._is_stopped()) and self._is_alone()
        except (FileNotFoundError, ProcessLookupError):
            return True  # it has ended
        except OSError:
            return False

    def close(self) -> None:
        """End it, and let go of it."""
        if self.held >= 0:
            self._send(signal.SIGKILL)
            os.close(self.held)
            self.held = -1

    def _send(self, number: int) -> None:
        with suppress(OSError):  # it is gone
            signal.pidfd_send_signal(self.held, number)

    def _stops_asleep(self) -> bool:
        """Send the signal; whether it was asleep before, and has not run since.

        Then it stops before it does anything else, and need not be waited for.
        """
        before = self._runs()
        is_asleep = self._state() == b"S"
        self._send(signal.SIGSTOP)
        return is_asleep and before == self._runs() != b"0"

    def _runs(self) -> bytes:
        """Times that its first thread was given a processor; 0 where the system does not count."""
        return _text(f"/proc/{self.pid}/schedstat").split()[2]

    def _state(self) -> bytes:
        return _text(f"/proc/{self.pid}/stat").rpartition(b")")[2][1:2]

    def _is_stopped(self) -> bool:
        deadline = time.monotonic() + _LIMIT_S
        looks = 0
        while self._state() not in _AT_REST:
            if time.monotonic() > deadline:
                return False
            looks += 1
            if looks > _QUICK_LOOKS:
                time.sleep(_PAUSE_S)
        return True

    def _is_alone(self) -> bool:
        threads = os.listdir(f"/proc/{self.pid}/task")  # noqa: PTH208 - names are what is wanted
        if len(threads) > 1 or children_of(self.pid):
            return False
        return not maps_files(self.pid, self.harmless)


def maps_files(pid: int, harmless: AbstractSet[File] = frozenset()) -> bool:
    """True if a process can write to a file through its memory. Raises OSError."""
    mapped = shared_files(pid) - harmless
    if not mapped:
        return False
    with open(f"/proc/{pid}/smaps", "rb") as file:  # noqa: PTH123 - of the system
        found = _MAPPING.findall(file.read())
    return any(b"sh" in flags.split() and _file(*which) in mapped for *which, flags in found)


def shared_files(pid: int) -> AbstractSet[File]:
    """The files that are mapped to be shared, if only for reading. Raises OSError."""
    found: set[File] = set()
    with open(f"/proc/{pid}/maps", "rb", buffering=0) as maps:  # noqa: PTH123 - of the system
        at = 0
        while True:
            query = bytearray(_QUERY.size)
            _QUERY.pack_into(query, 0, _QUERY.size, _SHARED_FILES, at, *[0] * 8)
            try:
                fcntl.ioctl(maps, _ASK, query)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    break
                lines = _SHARED_LINE.findall(_all_of(maps.fileno()))  # an older kernel
                return {one for one in starmap(_file, lines) if one[:2] != _nameless()}
            *_, at, _, _, _, inode, major, minor = _QUERY.unpack(query)
            found.add((major, minor, inode))
    return {one for one in found if one[:2] != _nameless()}


def _file(major: bytes, minor: bytes, inode: bytes) -> File:
    return int(major, 16), int(minor, 16), int(inode)


@cache
def _nameless() -> tuple[int, int]:
    """The device of memory that is shared under no name."""
    descriptor = os.memfd_create("lillux")
    try:
        device = os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
    return os.major(device), os.minor(device)


def _text(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _all_of(descriptor)
    finally:
        os.close(descriptor)


def _all_of(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, _PIECE):
        pieces.append(piece)
    return b"".join(pieces)
