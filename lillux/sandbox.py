"""Gives up rights on files and sockets for this process and its children: Landlock and seccomp.

No privilege is needed for it. What is not named may be neither read nor written, and no process
outside may be looked into or signalled; capabilities, which could get around that, are given away
too. See landlock(7).
"""

import ctypes
import errno
import os
import socket
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from threading import Lock

from lillux.values import dataclass

# --- landlock -------------------------------------------------------------------------------------

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
    """Which version of it the system has; 0 if absent."""
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
        _confined.add(os.getpid())
    finally:
        os.close(ruleset)
    return True


_confined: set[int] = set()
"""This process, once it is confined: what it starts has less than any `Withholding` leaves."""


def _rights(version: int) -> int:
    rights = _RIGHTS_OF_VERSION_1
    if version >= _VERSION_WITH_REFER:
        rights |= _REFER
    if version >= _VERSION_WITH_TRUNCATE:
        rights |= _TRUNCATE
    if version >= _VERSION_WITH_DEVICES:
        rights |= _DEVICE_CONTROL
    return rights


def _allow(ruleset: int, path: Path, rights: int, *, follow: bool = True) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        flags = getattr(os, "O_PATH", 0) | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(mode):  # what it leads to is allowed where it is, or not at all
                return
            is_folder = stat.S_ISDIR(mode)
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


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# --- withholding ----------------------------------------------------------------------------------
# Folders that a child gets less of than its parent has, and all else as it is.
#
# Landlock only allows. So beside each folder on the way to a withheld one, everything that is there
# is allowed by itself: a confined child makes no new entry in those folders. Measured: about 0.4 ms
# for a child with the usual folders of a home.

# What root could get around it with: raw devices, modules, mounts, other processes' memory.
_DANGEROUS_CAPABILITIES = (2, 16, 17, 19, 21, 22, 27, 38, 39)


class Access(Enum):
    """What a child may do in a folder and below it."""

    NONE = 0
    READ = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class Withholding:
    """What a child may do below some folders; the nearest folder that is named counts."""

    folders: tuple[tuple[Path, Access], ...]

    def enter(self, *, platform: str = sys.platform) -> bool:
        """Confine this thread, and what it starts; False where the system has no Landlock.

        Raises OSError when the system has it and refuses.
        """
        version = landlock_version(platform=platform)
        if not version or os.getpid() in _confined:
            return bool(version)
        with _made_lock:  # a ruleset that is replaced is closed
            ruleset = self._ruleset(_rights(version))
            _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
            _drop_dangerous_capabilities()
            _checked(_call(_RESTRICT_SELF, ruleset, 0))
        return True

    def _ruleset(self, rights: int) -> int:
        """A descriptor of the rules; those made before as long as no folder got or lost an entry.

        The time of a folder that is younger than the clock's steps may hide a change.
        """
        folders = {Path(os.path.realpath(path)): access for path, access in self.folders}
        ancestors = {above for path in folders for above in path.parents}
        state = (os.getpid(), tuple(folders.items()), tuple(map(_entries, sorted(ancestors))))
        known = _made.get(self)
        if known is not None and known[0] == state:
            return known[1]
        is_settled = all(time.time_ns() - at > _STEP_NS for at, _, _ in state[2])
        attributes = _Ruleset(rights, 0, 0)
        size = ctypes.sizeof(ctypes.c_uint64)
        ruleset = _checked(_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
        self._grant(ruleset, Path("/"), Access.ALL, (folders, ancestors), rights)
        for _, old in _made.values():
            os.close(old)
        _made.clear()
        _made[self] = (state if is_settled else None, ruleset)
        return ruleset

    def _grant(
        self,
        ruleset: int,
        folder: Path,
        access: Access,
        named: tuple[dict[Path, Access], set[Path]],
        rights: int,
    ) -> None:
        folders, ancestors = named
        access = folders.get(folder, access)
        if folder not in ancestors:
            if access is not Access.NONE:
                granted = rights if access is Access.ALL else rights & _READING
                _allow(ruleset, folder, granted, follow=False)
            return
        _allow(ruleset, folder, rights & _LIST, follow=False)
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 - names are what is wanted
                self._grant(ruleset, folder / name, access, named, rights)

    def macos_profile(self) -> str:
        """The same for ``sandbox-exec`` of macOS, whose last matching rule counts."""
        lines = ["(version 1)", "(allow default)"]
        for path, access in sorted(self.folders, key=lambda one: len(one[0].parts)):
            quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
            place = f'(subpath "{quoted}")'
            reads = "deny" if access is Access.NONE else "allow"
            writes = "allow" if access is Access.ALL else "deny"
            lines += [f"({reads} file-read-data {place})", f"({writes} file-write* {place})"]
        return "\n".join(lines) + "\n"


_made: dict[Withholding, tuple[object, int]] = {}
"""The rules that were made last, and what they were made of."""
_made_lock = Lock()
_STEP_NS = 50_000_000


def _entries(folder: Path) -> tuple[int, int, int]:
    """What changes with the entries of a folder: its time, and which folder it is."""
    try:
        status = folder.stat()
    except OSError:
        return 0, 0, 0
    return max(status.st_mtime_ns, status.st_ctime_ns), status.st_ino, status.st_dev


def _drop_dangerous_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()
    _checked(_libc().capget(header, held))
    for number in _DANGEROUS_CAPABILITIES:
        word, bit = divmod(number, 32)
        for which in range(3):  # effective, permitted, inheritable
            held[3 * word + which] &= ~(1 << bit) & 0xFFFF_FFFF
    _checked(_libc().capset(header, held))


# --- seccomp --------------------------------------------------------------------------------------
# Taking local sockets away from this process and all that it starts, for ever: Linux's seccomp.
#
# A socket with a path (``AF_UNIX``) reaches services of the machine, like ``/run/docker.sock``, and
# Landlock says nothing about it. No privilege is needed for the filter. See seccomp(2).
#
# The filter looks at the numbers of a call alone, never at memory, which could change under it:
#
#     another architecture              the process is killed: its calls have other numbers
#     the x32 numbers of x86-64         ENOSYS, as where there are none
#     io_uring_setup                    ENOSYS: a ring opens sockets without a call of that name
#     socket(AF_UNIX, ...)              EACCES, where local sockets are refused
#     socket of any other family        EACCES, where the network is refused
#     socketpair(AF_UNIX, SOCK_DGRAM)   EACCES: such a pair can be sent elsewhere by an address
#     all else                          as before, so also the pairs that event loops are woken by

_SECCOMP_NO_NEW_PRIVILEGES, _GET_SECCOMP, _SET_SECCOMP, _FILTER = 38, 21, 22, 2
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in what a filter sees of a call
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_X32 = 0x4000_0000
_AF_UNIX, _TYPE_MASK = 1, 0xF
_RAW = 3  # the kernel takes it for SOCK_DGRAM
_IO_URING_SETUP = 425  # the same on both

Instruction = tuple[int, int, int, int]
"""Code, how many to skip if so, how many if not, operand."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of an architecture, as its processes of 64 bits use them."""

    audit_number: int
    socket: int
    socketpair: int
    has_x32: bool = False


_MACHINES = {
    "x86_64": _Machine(0xC000_003E, 41, 53, has_x32=True),
    "aarch64": _Machine(0xC000_00B7, 198, 199),
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_so", ctypes.c_uint8),
        ("if_not", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


@dataclass(frozen=True, slots=True)
class Sockets:
    """Which sockets a process may open: local ones, and all others."""

    local: bool = False
    network: bool = True


def can_refuse_sockets(*, platform: str = sys.platform, machine: str = "") -> bool:
    """Whether the system has filters, and this module knows the numbers of its calls."""
    if platform != "linux" or sys.maxsize <= 2**32:
        return False
    return (machine or os.uname().machine) in _MACHINES and _prctl(_GET_SECCOMP) >= 0


def refuse_sockets(allowed: Sockets, *, platform: str = sys.platform, machine: str = "") -> bool:
    """Let this thread and all that it starts open these alone; False where that cannot be.

    Raises OSError when the system has filters and refuses this one.
    """
    if not can_refuse_sockets(platform=platform, machine=machine):
        return False
    lines = instructions(machine or os.uname().machine, allowed)
    array = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    _require_success(_prctl(_SECCOMP_NO_NEW_PRIVILEGES, 1))
    program = _Program(len(lines), array)
    _require_success(_prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(program)))
    return True


def instructions(machine: str, allowed: Sockets) -> Sequence[Instruction]:
    """The filter for a machine, one of ``x86_64`` and ``aarch64``."""
    known = _MACHINES[machine]
    may_open = (allowed.local, allowed.network)
    verdicts = [(_RETURN, 0, 0, _ALLOW if one else _REFUSE | errno.EACCES) for one in may_open]
    x32 = (
        [(_IF_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
        if known.has_x32
        else []
    )
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, known.audit_number),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *x32,
        (_IF_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_IF_EQUAL, 0, 4, known.socket),
        (_LOAD, 0, 0, _FIRST),
        (_IF_EQUAL, 0, 1, _AF_UNIX),
        *verdicts,
        *([(_RETURN, 0, 0, _ALLOW)] if allowed.local else []),
        (_IF_EQUAL, 0, 7, known.socketpair),
        (_LOAD, 0, 0, _FIRST),
        (_IF_EQUAL, 0, 5, _AF_UNIX),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _TYPE_MASK),
        (_IF_EQUAL, 1, 0, int(socket.SOCK_DGRAM)),
        (_IF_EQUAL, 0, 1, _RAW),
        (_RETURN, 0, 0, _REFUSE | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _prctl(option: int, *arguments: int) -> int:
    words = [*arguments, 0, 0, 0, 0][:4]
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(option, *map(ctypes.c_ulong, words)))


def _require_success(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
