"""Landlock: rulesets of the kernel about files, for this thread and its children."""

import ctypes
import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock

from lillux.errors import UnsafePathError

_CREATE_RULESET, _ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture but one
_ASK_VERSION = 1
_PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION_3 = 0x2008_0522

EXECUTE, WRITE, _READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE | _READ | TRUNCATE | DEVICE_CONTROL
READING = EXECUTE | _READ | LIST
LOOKING = _READ | LIST
_RIGHTS_OF_VERSION_1 = (1 << 13) - 1
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
_VERSION_WITH_REFER, VERSION_WITH_TRUNCATE, _VERSION_WITH_DEVICES, _VERSION_WITH_SCOPES = (
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
    """Version of Landlock that the system has; 0 if absent."""
    if platform != "linux":
        return 0
    return max(0, system_call(_CREATE_RULESET, None, 0, _ASK_VERSION))


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
    rights = handled_rights(version)
    scopes = handled_scopes(version)
    attributes = _Ruleset(rights, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    ruleset = raise_for_errno(system_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in readable:
            allow_path(ruleset, path, rights & READING)
        for path in writable:
            allow_path(ruleset, path, rights)
        raise_for_errno(c_library().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _drop_capabilities()
        raise_for_errno(system_call(RESTRICT_SELF, ruleset, 0))
        confined_processes.add(os.getpid())
    finally:
        os.close(ruleset)
    return True


confined_processes: set[int] = set()
"""This process, once it is confined: its children may do less than `FolderRestrictions` allow."""


def handled_rights(version: int) -> int:
    """The rights that a ruleset of this version speaks about."""
    rights = _RIGHTS_OF_VERSION_1
    if version >= _VERSION_WITH_REFER:
        rights |= REFER
    if version >= VERSION_WITH_TRUNCATE:
        rights |= TRUNCATE
    if version >= _VERSION_WITH_DEVICES:
        rights |= DEVICE_CONTROL
    return rights


def handled_scopes(version: int) -> int:
    """Signals and abstract sockets: those of this process and what it starts alone."""
    return _SCOPE_SOCKETS | _SCOPE_SIGNALS if version >= _VERSION_WITH_SCOPES else 0


def allow_path(ruleset: int, path: Path, rights: int, *, follow: bool = True) -> None:
    """Allow a file or folder in a ruleset; what is not there, or hidden, is passed over."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        flags = _O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
        try:
            allow_descriptor(ruleset, descriptor, rights)
        finally:
            os.close(descriptor)


def allow_descriptor(ruleset: int, descriptor: int, rights: int) -> None:
    """Allow an open file or folder in a ruleset. Raises OSError."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):  # what it leads to is allowed where it is, or not at all
        return
    allowed = rights if stat.S_ISDIR(mode) else rights & _OF_FILES
    if not allowed:
        return
    rule = _PathBeneath(allowed, descriptor)
    raise_for_errno(system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))


_O_PATH: int = getattr(os, "O_PATH", 0)
_OPEN_WITHOUT_LINKS = 437  # openat2, the same on every architecture
_NO_LINKS = 0x06  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
_WITHOUT_THE_CALL = frozenset({errno.ENOSYS, errno.EPERM})  # the latter in containers


def open_real(path: Path) -> int:
    """A descriptor of a file or folder without access to its content, reached through no link.

    A path that was real when it was decided about may have become a link since. Raises OSError,
    with ELOOP for a link.
    """
    at = struct.pack("<QQQ", _O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    found = system_call(_OPEN_WITHOUT_LINKS, _HERE, os.fsencode(path), at, len(at))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in _WITHOUT_THE_CALL:
        return _open_step_by_step(path)
    raise OSError(number, os.strerror(number), str(path))


_HERE = -100


def _open_step_by_step(path: Path) -> int:
    first, *names = path.parts
    folder = os.open(first, _O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    for name in names:
        try:
            below = os.open(name, _O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
        if stat.S_ISLNK(os.fstat(folder).st_mode):
            os.close(folder)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return folder


@contextmanager
def opened_paths(paths: Iterable[Path]) -> Iterator[list[int]]:
    """Descriptors of real paths; what is not there is passed over.

    Raises UnsafePathError for a link: it stands where a folder stood that may be written.
    """
    descriptors: list[int] = []
    try:
        for path in paths:
            try:
                descriptors.append(open_real(path))
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                problem = "it has become a link since it was decided that it may be written"
                raise UnsafePathError(str(path), problem) from error
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _drop_capabilities() -> None:
    """Root is a user like any other then; with no new privileges, what it starts is so too."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    raise_for_errno(c_library().capset(header, none))


def raise_for_errno(result: int) -> int:
    """The result of a call that did not fail. Raises OSError."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system_call(number: int, *arguments: object) -> int:
    """The result of a system call, -1 for an error, which `raise_for_errno` raises."""
    words = (a if not isinstance(a, int) else ctypes.c_long(a) for a in arguments)
    return int(c_library().syscall(ctypes.c_long(number), *words))


@cache
def c_library() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


# What the work of root with files and processes of its own needs: CHOWN, DAC_OVERRIDE, FOWNER,
# FSETID, KILL, SETGID, SETUID. All else reaches the machine: its clock, network, devices, log.
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7)

kept_rulesets: dict[Hashable, tuple[object, int]] = {}
"""The rules that were made last, and what they were made of."""
kept_lock = Lock()
_MAX_MADE = 16
_STEP_NS = 50_000_000


def new_ruleset(rights: int, scopes: int = 0) -> int:
    """A descriptor of a ruleset that allows nothing yet. Raises OSError."""
    attributes = _Ruleset(rights, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    return raise_for_errno(system_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))


def keep_ruleset(owner: Hashable, state: object, ruleset: int) -> int:
    """Cache a ruleset for the next start, instead of the last one of the same owner."""
    while owner in kept_rulesets or len(kept_rulesets) >= _MAX_MADE:
        _, old = kept_rulesets.pop(owner if owner in kept_rulesets else next(iter(kept_rulesets)))
        os.close(old)
    kept_rulesets[owner] = state, ruleset
    return ruleset


EntriesState = tuple[int, int, int]


def are_settled(entries: Iterable[EntriesState]) -> bool:
    """True if each time is old enough for a change that follows to have another one."""
    return all(time.time_ns() - at > _STEP_NS for at, _, _ in entries)


def entries_state(folder: Path) -> EntriesState:
    """State of a folder's entries: its time, and its identity."""
    try:
        status = folder.stat()
    except OSError:
        return 0, 0, 0
    return max(status.st_mtime_ns, status.st_ctime_ns), status.st_ino, status.st_dev


def drop_extraordinary_capabilities() -> None:
    """Root keeps what its own files and processes need; with no new privileges that is final."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()
    raise_for_errno(c_library().capget(header, held))
    kept = sum(1 << number for number in _KEPT_CAPABILITIES)
    for which in range(3):  # effective, permitted, inheritable
        held[which] &= kept
        held[3 + which] = 0
    raise_for_errno(c_library().capset(header, held))
