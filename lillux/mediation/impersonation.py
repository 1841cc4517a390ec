"""Impersonation of a caller by one thread: its user, its umask."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from lillux.mediation.callers import Status, User, status_of
from lillux.mediation.system_calls import c_library, require_success, system_call

_SHARED_PLACE = 0x200  # CLONE_FS
_CAPABILITIES_VERSION_3 = 0x2008_0522
_LOOKING_AT_CALLERS = 1 << 19  # CAP_SYS_PTRACE, which counts for no file


class Impersonation:
    """Lets this thread alone reach for files as another user would, and with another umask.

    A process that is not root can be no other user; then nothing is to be done.
    """

    def __init__(self, entered: Status) -> None:
        own = status_of("thread-self").user
        self._is_root = own.uid == 0
        self._has_own_umask = system_call("unshare", _SHARED_PLACE) == 0
        if self._is_root:  # what those who are confined have lost is not lent to them
            _set_effective(own.capabilities & (entered.user.capabilities | _LOOKING_AT_CALLERS))
        self._own = status_of("thread-self").user

    @contextmanager
    def become(self, status: Status, pid: int) -> Iterator[int]:
        """Be like a caller within the block; the value is what a mode of its is to be ANDed with.

        Raises OSError where that is not possible.
        """
        if self._has_own_umask:
            os.umask(status.umask)
        wanted = self._capped(status.user, pid)
        if wanted == self._own:
            yield ~0 if self._has_own_umask else ~status.umask
            return
        if not self._is_root:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        try:
            self._switch(wanted)
            yield ~0 if self._has_own_umask else ~status.umask
        finally:
            self._switch_back()

    def become_for_good(self, status: Status, pid: int) -> None:
        """Be like a caller until the thread ends, also for those that it speaks to.

        Raises OSError where that is not possible.
        """
        if self._has_own_umask:
            os.umask(status.umask)
        wanted = self._capped(status.user, pid)
        if wanted == self._own:
            return
        if not self._is_root:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        user = wanted
        words = (ctypes.c_uint32 * max(len(user.groups), 1))(*user.groups)
        require_success(system_call("setgroups", len(user.groups), ctypes.addressof(words)))
        require_success(system_call("setresgid", user.gid, user.gid, user.gid))
        require_success(system_call("setresuid", user.uid, user.uid, user.uid))
        _set_effective(user.capabilities)

    def _capped(self, user: User, pid: int) -> User:
        capabilities = user.capabilities & self._own.capabilities
        if capabilities and _inode(f"/proc/{pid}/ns/user") != _own_user_namespace():
            capabilities = 0  # they count in its own namespace alone
        if not self._is_root:  # a process without rights has none to lose
            capabilities = self._own.capabilities
        capabilities |= self._own.capabilities & _LOOKING_AT_CALLERS
        return User(uid=user.uid, gid=user.gid, groups=user.groups, capabilities=capabilities)

    def _switch(self, user: User) -> None:
        words = (ctypes.c_uint32 * max(len(user.groups), 1))(*user.groups)
        require_success(system_call("setgroups", len(user.groups), ctypes.addressof(words)))
        system_call("setfsgid", user.gid)
        system_call("setfsuid", user.uid)
        _set_effective(user.capabilities)

    def _switch_back(self) -> None:
        _set_effective(self._own.capabilities)
        system_call("setfsuid", self._own.uid)
        system_call("setfsgid", self._own.gid)
        own = self._own.groups
        words = (ctypes.c_uint32 * max(len(own), 1))(*own)
        system_call("setgroups", len(own), ctypes.addressof(words))
        _set_effective(self._own.capabilities)  # changing the user has taken some


@cache
def _own_user_namespace() -> int:
    return _inode("/proc/self/ns/user")


def _inode(path: str) -> int:
    return os.stat(path).st_ino  # noqa: PTH116 - many a second


def _set_effective(wanted: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()
    require_success(c_library().capget(header, held))
    for word in range(2):
        held[3 * word] = wanted >> 32 * word & 0xFFFF_FFFF & held[3 * word + 1]
    require_success(c_library().capset(header, held))
