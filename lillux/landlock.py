"""Taking rights on files away from this process and all that it starts, for ever: Linux's Landlock.

No privilege is needed for it. What is not named may be neither read nor written, and no process
outside may be looked into or signalled; capabilities, which could get around that, are given away
too. See landlock(7).
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture but one
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION_3 = 0x2008_0522

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
_READING = _EXECUTE | _READ | _LIST
_RIGHTS_OF_VERSION_1 = (1 << 13) - 1
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
_VERSION_WITH_REFER, _VERSION_WITH_TRUNCATE, _VERSION_WITH_DEVICES, _VERSION_WITH_SCOPES = (
    2,
    3,
    5,
    6,
)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version(*, platform: str = sys.platform) -> int:
    """Which version of it the system has; 0 where there is none."""
    if platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def confine(
    readable: Iterable[Path], writable: Iterable[Path], *, platform: str = sys.platform
) -> bool:
    """Leave this process and its children only these folders and files; False where none can.

    ``readable`` may be read and executed, ``writable`` may be written too. What is not there is
    passed over. Raises OSError when the system has it and refuses.
    """
    version = landlock_version(platform=platform)
    if not version:
        return False
    rights = _rights(version)
    scopes = _SCOPE_SOCKETS | _SCOPE_SIGNALS if version >= _VERSION_WITH_SCOPES else 0
    attributes = _Ruleset(rights, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    ruleset = _checked(_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in readable:
            _allow(ruleset, path, rights & _READING)
        for path in writable:
            _allow(ruleset, path, rights)
        _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _drop_capabilities()
        _checked(_call(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _rights(version: int) -> int:
    rights = _RIGHTS_OF_VERSION_1
    if version >= _VERSION_WITH_REFER:
        rights |= _REFER
    if version >= _VERSION_WITH_TRUNCATE:
        rights |= _TRUNCATE
    if version >= _VERSION_WITH_DEVICES:
        rights |= _DEVICE_CONTROL
    return rights


def _allow(ruleset: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        descriptor = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            rule = _PathBeneath(rights if is_folder else rights & _OF_FILES, descriptor)
            _checked(_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
        finally:
            os.close(descriptor)


def _drop_capabilities() -> None:
    """Root is a user like any other then; with no new privileges, what it starts is so too."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(header, none))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(number: int, *arguments: object) -> int:
    words = (a if not isinstance(a, int) else ctypes.c_long(a) for a in arguments)
    return int(_libc().syscall(ctypes.c_long(number), *words))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
