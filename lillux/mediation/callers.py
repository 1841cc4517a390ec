"""Callers of supervised calls: their state, their memory, their open files."""

import errno
import os
import re
from functools import lru_cache
from typing import NamedTuple

from lillux.mediation.system_calls import (
    AT_FDCWD,
    MAX_PATH,
    OPEN_FOLDER,
    require_success,
    system_call,
)


class GoOn(Exception):  # noqa: N818 - not an error
    """A call continues, and the kernel decides by its own rules.

    ``refused`` is the place of a change that it will refuse by them, ``""`` where none is known.
    """

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        super().__init__(refused)


class RefusedError(PermissionError):
    """A call that the rules refuse: what it is, as `lillux.attempts.Attempt` says it, and of what.

    The kernel refuses changes too, for reasons of its own, which are no matter of these rules.
    """

    def __init__(self, what: str, target: str) -> None:
        super().__init__(errno.EPERM, os.strerror(errno.EPERM))
        self.what, self.target = what, target


class Blocks(Exception):  # noqa: N818 - not an error
    """A call waits for another process: a pipe has no reader yet, or a lock is held."""


_STATUS = re.compile(
    rb"Umask:\t(\d+)\n.*?Tgid:\t(\d+)\n.*?PPid:\t(\d+)\n.*?Uid:\t([^\n]*)\nGid:\t([^\n]*)\n"
    rb".*?Groups:\t([^\n]*)\n.*?CapEff:\t(\w+)\n.*?(?:Seccomp_filters:\t(\d+)|\Z)",
    re.DOTALL,
)

_SIGNALS = re.compile(rb"\n(SigPnd|ShdPnd|SigBlk|SigCgt):\t(\w+)")
_KIN = re.compile(rb"\nTgid:\t(\d+)\n.*?\nPPid:\t(\d+)\n", re.DOTALL)


class User(NamedTuple):
    """Identity that the system decides by when a thread reaches for a file."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    capabilities: int


class Status(NamedTuple):
    """A process as the system shows it."""

    umask: int
    leader: int
    parent: int
    user: User
    filters: int


def status_of(pid: int | str) -> Status:
    """The status of a thread. Raises OSError."""
    found = _STATUS.search(_status_text(pid))
    if found is None:  # a zombie has no umask
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    umask, leader, parent, *user, filters = found.groups()
    return Status(
        umask=int(umask, 8),
        leader=int(leader),
        parent=int(parent),
        user=_user(*user),
        filters=int(filters or 0),
    )


def has_signal(pid: int) -> bool:
    """True if a thread has a signal to handle, for which a waiting call would end. Raises OSError.

    A supervised call itself ends for no signal but one that kills.
    """
    found = dict(_SIGNALS.findall(_status_text(pid)))
    pending = int(found[b"SigPnd"], 16) | int(found[b"ShdPnd"], 16)
    return bool(pending & ~int(found[b"SigBlk"], 16) & int(found[b"SigCgt"], 16))


def kin_of(pid: int) -> tuple[int, int]:
    """The leader of a thread's process, and its parent; also of one that has ended and waits.

    Raises ProcessLookupError where there is none.
    """
    try:
        found = _KIN.search(_status_text(pid))
    except FileNotFoundError:
        found = None
    if found is None:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return int(found[1]), int(found[2])


def _status_text(pid: int | str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 8192)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=64)
def _user(uids: bytes, gids: bytes, groups: bytes, capabilities: bytes) -> User:
    return User(
        uid=int(uids.split()[3]),
        gid=int(gids.split()[3]),
        groups=tuple(map(int, groups.split())),
        capabilities=int(capabilities, 16),
    )


class FileCall(NamedTuple):
    """A waiting call, its number, and the thread that made it."""

    pid: int
    name: str
    words: list[int]
    request: int

    def text(self, address: int) -> str:
        """The text up to a NUL. Raises OSError, with ENAMETOOLONG for one without an end."""
        if address == 0:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        text, descriptor = b"", self._open_memory()
        try:
            while len(text) <= MAX_PATH:
                # Up to the end of a page: the one behind it may not be there.
                more = os.pread(
                    descriptor, 4096 - (address + len(text)) % 4096, address + len(text)
                )
                head, end, _ = more.partition(b"\0")
                text += head
                if end:
                    return os.fsdecode(text)
                if not more:
                    break
        except OSError as error:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
        finally:
            os.close(descriptor)
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the memory of the caller. Raises OSError."""
        descriptor = os.open(f"/proc/{self.pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, data, address)
        finally:
            os.close(descriptor)

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of the memory of the caller. Raises OSError where there are fewer."""
        descriptor = self._open_memory()
        try:
            found = os.pread(descriptor, size, address)
        except OSError as error:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
        finally:
            os.close(descriptor)
        if len(found) < size:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return found

    def _open_memory(self) -> int:
        return os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def open_base(self, at: int, path: str) -> int:
        """A descriptor of the folder that a path starts from. Raises OSError, GoOn."""
        if path.startswith("/"):
            if os.readlink(f"/proc/{self.pid}/root") != "/":  # noqa: PTH115 - many a second
                raise GoOn
            return os.open("/", OPEN_FOLDER)
        number = as_signed(at)
        place = "cwd" if number == AT_FDCWD else f"fd/{number}"
        try:
            return os.open(f"/proc/{self.pid}/{place}", OPEN_FOLDER)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error

    def open_own(self, at: int) -> int:
        """A descriptor of the file of one of its descriptors. Raises OSError."""
        number = as_signed(at)
        if number == AT_FDCWD:
            return os.open(f"/proc/{self.pid}/cwd", OPEN_FOLDER)
        try:
            return os.open(f"/proc/{self.pid}/fd/{number}", getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error


def as_signed(word: int) -> int:
    """A register as an int of C."""
    return (word & 0xFFFF_FFFF) - ((word & 0x8000_0000) << 1)


def descriptor_of(pidfd: int, number: int) -> int:
    """A descriptor of our own for another process's. Raises OSError."""
    found = require_success(system_call("pidfd_getfd", pidfd, number & 0xFFFF_FFFF, 0))
    os.set_inheritable(found, False)  # noqa: FBT003 - its only way
    return found
