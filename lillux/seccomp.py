"""Refuses system calls for a thread and its children, permanently: Linux seccomp.

No privilege is needed for a filter. It looks at the numbers of a call alone, never at memory, which
could change under it. What is decided by memory, an address above all, it hands to a supervisor
(`lillux.supervisor`). See seccomp(2):

    another architecture              the process is killed: its calls have other numbers
    the x32 numbers of x86-64         ENOSYS, as where there are none
    io_uring_setup                    ENOSYS: a ring opens sockets without a call of that name
    socket(AF_UNIX, ...)              EACCES, where local sockets are refused: one with a path
                                      reaches services like /run/docker.sock
    socket of any other family        EACCES, where the network is refused; with streams alone,
                                      all but TCP over IPv4 and IPv6
    socketpair(AF_UNIX, SOCK_DGRAM)   EACCES, with local sockets: such a pair can be sent elsewhere
    calls of `HARDENED`               EPERM, where asked for; clone3 ENOSYS, as its flags lie in
                                      memory: what starts processes then uses clone
    supervised calls                  wait for the supervisor
    all else                          as before, so also the pairs that event loops are woken by
"""

import ctypes
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache

from lillux.values import dataclass

_NO_NEW_PRIVILEGES, _GET_SECCOMP = 38, 21
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _REFUSE, _ASK, _KILL = 0x7FFF_0000, 0x0005_0000, 0x7FC0_0000, 0x8000_0000
_X32 = 0x4000_0000
_AF_UNIX, _AF_INET, _AF_INET6, _TYPE_MASK = 1, 2, 10, 0xF
_STREAM, _DATAGRAM = 1, 2  # of both machines; importing socket costs 3 ms
_RAW = 3  # the kernel takes it for SOCK_DGRAM
_IPPROTO_TCP = 6
_FAST_OPEN = 0x2000_0000  # MSG_FASTOPEN: sendto() and sendmsg() connect with it
_NEW_NAMESPACES = 0x7E02_0000  # flags of clone
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal

Instruction = tuple[int, int, int, int]
"""Opcode, jump if true, jump if false, operand."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The system call numbers of an architecture, for 64-bit processes."""

    audit_number: int
    calls: Mapping[str, int]
    has_x32: bool = False


# Calls with the same number everywhere.
_COMMON = {
    "pidfd_open": 434,
    "clone3": 435,
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsmount": 432,
    "mount_setattr": 442,
    "openat2": 437,
    "process_madvise": 440,
    "process_mrelease": 448,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
}
_X86_64 = {
    "seccomp": 317,
    "socket": 41,
    "socketpair": 53,
    "connect": 42,
    "bind": 49,
    "listen": 50,
    "sendto": 44,
    "sendmsg": 46,
    "sendmmsg": 307,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "bpf": 321,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "semtimedop": 220,
    "mq_open": 240,
    "mq_unlink": 241,
    "open_by_handle_at": 304,
    "kexec_load": 246,
    "init_module": 175,
    "finit_module": 313,
    "clone": 56,
    "ioctl": 16,
    "fcntl": 72,
    "flock": 73,
    "open": 2,
    "openat": 257,
    "creat": 85,
    "mkdir": 83,
    "mkdirat": 258,
    "rmdir": 84,
    "unlink": 87,
    "unlinkat": 263,
    "rename": 82,
    "renameat": 264,
    "renameat2": 316,
    "truncate": 76,
    "execve": 59,
    "execveat": 322,
    "link": 86,
    "linkat": 265,
    "symlink": 88,
    "symlinkat": 266,
    "mknod": 133,
    "mknodat": 259,
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "fchownat": 260,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
    "utimensat": 280,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "memfd_create": 319,
    "prlimit64": 302,
    "setpriority": 141,
    "ioprio_set": 251,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "sched_setaffinity": 203,
    "sched_setattr": 314,
    "migrate_pages": 256,
    "move_pages": 279,
    "setgroups": 116,
    "setfsuid": 122,
    "setfsgid": 123,
    "setresuid": 117,
    "setresgid": 119,
}
_AARCH64 = {
    "seccomp": 277,
    "socket": 198,
    "socketpair": 199,
    "connect": 203,
    "bind": 200,
    "listen": 201,
    "sendto": 206,
    "sendmsg": 211,
    "sendmmsg": 269,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "bpf": 280,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "unshare": 97,
    "setns": 268,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "keyctl": 219,
    "add_key": 217,
    "request_key": 218,
    "shmget": 194,
    "shmat": 196,
    "shmctl": 195,
    "msgget": 186,
    "msgctl": 187,
    "msgrcv": 188,
    "msgsnd": 189,
    "semget": 190,
    "semctl": 191,
    "semtimedop": 192,
    "semop": 193,
    "mq_open": 180,
    "mq_unlink": 181,
    "open_by_handle_at": 265,
    "kexec_load": 104,
    "init_module": 105,
    "finit_module": 273,
    "clone": 220,
    "ioctl": 29,
    "fcntl": 25,
    "flock": 32,
    "openat": 56,
    "mkdirat": 34,
    "unlinkat": 35,
    "renameat": 38,
    "renameat2": 276,
    "truncate": 45,
    "execve": 221,
    "execveat": 281,
    "linkat": 37,
    "symlinkat": 36,
    "mknodat": 33,
    "fchmod": 52,
    "fchmodat": 53,
    "fchown": 55,
    "fchownat": 54,
    "utimensat": 88,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "memfd_create": 279,
    "prlimit64": 261,
    "setpriority": 140,
    "ioprio_set": 30,
    "sched_setparam": 118,
    "sched_setscheduler": 119,
    "sched_setaffinity": 122,
    "sched_setattr": 274,
    "migrate_pages": 238,
    "move_pages": 239,
    "setgroups": 159,
    "setfsuid": 151,
    "setfsgid": 152,
    "setresuid": 147,
    "setresgid": 149,
}
_MACHINES = {
    "x86_64": _Machine(0xC000_003E, _COMMON | _X86_64, has_x32=True),
    "aarch64": _Machine(0xC000_00B7, _COMMON | _AARCH64),
}

TRACING = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")
"""The calls by which a debugger works. Landlock keeps them to what a confined process started."""

HARDENED = (
    *TRACING,
    *("bpf", "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "perf_event_open"),
    *("userfaultfd", "keyctl", "add_key", "request_key", "shmget", "shmat", "shmctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl", "semtimedop"),
    *("mq_open", "mq_unlink"),
    *("open_by_handle_at", "kexec_load", "init_module", "finit_module", "open_tree", "move_mount"),
    *("fsopen", "fsmount", "mount_setattr"),
)
"""Calls that no tool needs, or that reach other processes, the kernel, or shared memory."""

ADDRESSED = ("connect", "bind", "listen")
"""The calls that name an address of a stream socket."""

STARTS = ("execve", "execveat")
"""The calls that start a program."""

MESSAGES = ("sendto", "sendmsg", "sendmmsg")
"""The calls that may name an address beside what they send."""

FILES = (
    *("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"),
    *("rename", "renameat", "renameat2", "truncate", "execve", "execveat"),
)
"""The calls that name a file to open, change or start; some exist on one machine only."""


WRITES = (
    *("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("mknod", "mknodat", "truncate"),
)
"""The calls that change files by a path: of the opening ones, those that open to write."""

METADATA = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr", "setxattrat", "removexattrat"),
    "file_setattr",
)
"""The calls that change what the system knows of a file beside its content. Landlock has no rights
for them."""

LOCKS = ("flock",)
"""The calls that lock a whole file, by a descriptor that is open for reading alone too."""

NEIGHBOURS = (
    *("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"),
    *("migrate_pages", "move_pages", "prlimit64", "setpriority", "ioprio_set", "pidfd_open"),
    "fcntl",
)
"""The calls that change, hold or signal a process that they name by its number."""

_OF_MEMORY = ("process_madvise", "process_mrelease", "kcmp")
# The kinds of ioctl, bits 8 to 15 of its number, that file systems and block devices have: those of
# ext4 and most others, FS_IOC_GETVERSION, XFS, btrfs, f2fs, FAT, OCFS2, NILFS2, CIFS, Ceph,
# bcachefs, ZFS, reiserfs, HFS+, autofs, FUSE, names of file systems, block devices. Many take a
# descriptor that is open for reading, and new ones are added: what is not known to read is refused.
_FILE_SYSTEMS = (
    *(0x66, 0x76, 0x58, 0x94, 0xF5, 0x72, 0x6F, 0x6E, 0xCF, 0x97, 0xBC, 0x83, 0xCD, 0x68, 0x93),
    *(0xE5, 0x15, 0x12),
)
_KIND_OF_CONTROL = 0xFF00
# Those that read, or write to a file that the kernel wants open for writing or owned by the caller.
_READING_CONTROLS = (
    *(0x4004_9409, 0x4020_940D, 0xC018_9436),  # FICLONE, FICLONERANGE, FIDEDUPERANGE
    *(0x8008_6601, 0x8004_6601, 0x8008_7601, 0x8004_7601, 0x801C_581F),  # lsattr: flags, version
    *(0xC020_660B, 0x8008_6603, 0x8100_9431),  # FS_IOC_FIEMAP, EXT4_IOC_GETVERSION, the label
    *(0x400C_6615, 0xC009_6616, 0x8010_661B),  # FS_IOC_GET_ENCRYPTION_POLICY, _EX, _NONCE
    *(0xC004_6686, 0xC028_6687),  # FS_IOC_MEASURE_VERITY, FS_IOC_READ_VERITY_METADATA
    *(0x801C_582D, 0x800C_581E, 0x8070_5864, 0x8070_587C, 0x8100_587E),  # XFS: geometry, direct I/O
    *(0x8400_941F, 0xD000_941E, 0xD000_9412, 0x8008_9419, 0xC010_9414, 0x8018_9439),  # btrfs
    *(0x81F8_943C, 0xD000_943D, 0xD000_943E),  # btrfs: what a subvolume is
    *(0x8004_7210, 0x8004_7213, 0x8230_7201, 0x8230_7202),  # FAT: attributes, volume, short names
    *(0x8011_1500, 0x8081_1501, 0x8008_8301),  # UUID and path of a file system; ZFS
    *(0x125E, 0x1260, 0x1263, 0x1268, 0x1278, 0x1279, 0x127A, 0x127B, 0x127C, 0x127E),
    *(0x8008_1270, 0x8008_1272, 0x8008_1280),  # sizes and limits of a block device
)
_LEASES = (1024, 1026, 1040)  # F_SETLEASE, F_NOTIFY, F_SETDELEG: the writes of others wait, or tell
_SET_OWNER, _SET_OWNER_BY_MEMORY = 8, 15  # F_SETOWN, F_SETOWN_EX
_OWNERS_BY_MEMORY = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NOT_EXECUTABLE = 8  # MFD_NOEXEC_SEAL
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH
_UNLOCK = 8  # LOCK_UN
_OF_USER = {"setpriority": 2, "ioprio_set": 3}  # all processes of a user


class Hold(Enum):
    """Treatment of calls of a kind."""

    FREE = "free"
    REFUSED = "refused"
    """with EPERM"""
    ASKED = "asked"
    """they wait for the supervisor"""


class Reach(Enum):
    """The addresses that streams of a process may connect to."""

    PROXY = "proxy"
    """one port of this machine, `Addresses.port`"""
    LOOPBACK = "loopback"
    """this machine"""
    PUBLIC = "public"
    """all except loopback and link-local addresses (cloud metadata services)"""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Limits on connections and servers of confined processes; a supervisor enforces them."""

    reach: Reach
    port: int = 0


def supervised_calls(addresses: Addresses | None, *, watches: bool) -> tuple[str, ...]:
    """The calls that must wait for a supervisor with these rules."""
    return (*(ADDRESSED if addresses or watches else ()), *(FILES if watches else ()))


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
    """The sockets that a process may open: local ones, all others, or streams only."""

    local: bool = False
    network: bool = True
    streams_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Calls that are refused, and calls that wait for a supervisor.

    refused         further calls that are refused, with EACCES
    supervised      calls that wait, whatever their arguments
    writes          calls that change files by a path
    metadata        calls that change modes, owners, times, attributes; where these wait, locks too
    neighbours      calls that reach other processes by their number
    messages        datagrams to an address
    starts_named    programs start by their path alone, from no file without a name
    limits_local    no local datagrams, which need no connection to reach a service
    may_trace       of what is hardened, not `TRACING`
    """

    sockets: Sockets
    is_hardened: bool = False
    may_trace: bool = False
    refused: tuple[str, ...] = ()
    supervised: tuple[str, ...] = ()
    writes: Hold = Hold.FREE
    metadata: Hold = Hold.FREE
    neighbours: Hold = Hold.FREE
    messages: Hold = Hold.FREE
    starts_named: bool = False
    limits_local: bool = False

    @property
    def is_supervised(self) -> bool:
        """True if any call waits."""
        holds = (self.writes, self.metadata, self.neighbours, self.messages)
        return bool(self.supervised) or Hold.ASKED in holds


def number_of(call: str, machine: str = "") -> int:
    """The number of a call on a machine, this one by default; -1 where it has none."""
    return _MACHINES[machine or os.uname().machine].calls.get(call, -1)


def can_filter(*, platform: str = sys.platform, machine: str = "") -> bool:
    """True if the system has filters, and this module knows its system call numbers."""
    if platform != "linux" or sys.maxsize <= 2**32:
        return False
    return (machine or os.uname().machine) in _MACHINES and _prctl(_GET_SECCOMP) >= 0


def refuse_sockets(allowed: Sockets, *, platform: str = sys.platform, machine: str = "") -> bool:
    """Allow only these sockets to this thread and its children; False if not supported.

    Raises OSError when the system has filters and refuses this one.
    """
    if not can_filter(platform=platform, machine=machine):
        return False
    enter(Filter(sockets=allowed), machine)
    return True


def enter(wanted: Filter, machine: str = "") -> int | None:
    """Install a filter on this thread; its children inherit it.

    With supervised calls, the descriptor that they are heard from; this process owns it. Raises
    OSError when the system refuses.
    """
    program = _compiled(machine or os.uname().machine, wanted)
    _require_success(_prctl(_NO_NEW_PRIVILEGES, 1))
    if not wanted.is_supervised:
        _require_success(_seccomp(_SET_FILTER, 0, ctypes.addressof(program)))
        return None
    # A signal must not make a caller repeat what is done already; older kernels have no such flag.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = _seccomp(_SET_FILTER, flags, ctypes.addressof(program))
        if listener >= 0 or ctypes.get_errno() != errno.EINVAL:
            break
    _require_success(listener)
    return listener


@lru_cache(maxsize=16)
def _compiled(machine: str, wanted: Filter) -> _Program:
    lines = instructions(machine, wanted)
    array = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    return _Program(len(lines), array)


def instructions(machine: str, wanted: Filter | Sockets) -> Sequence[Instruction]:
    """The filter for a machine, one of ``x86_64`` and ``aarch64``."""
    rules = wanted if isinstance(wanted, Filter) else Filter(sockets=wanted)
    known = _MACHINES[machine]
    sockets, calls = rules.sockets, known.calls
    lines: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, known.audit_number),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if known.has_x32:
        lines += [(_IF_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)]
    lines += _for_call(calls["io_uring_setup"], [_refuse(errno.ENOSYS)])
    if rules.is_hardened:
        for name in HARDENED[len(TRACING) if rules.may_trace else 0 :]:
            lines += _for_call(calls[name], [_refuse(errno.EPERM)])
        lines += _for_call(calls["clone3"], [_refuse(errno.ENOSYS)])
        lines += _for_call(
            calls["clone"], [_load(0), (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refuse(errno.EPERM)]
        )
    lines += _for_call(calls["ioctl"], _control_rules(rules))
    for name in rules.refused:
        lines += _for_call(calls[name], [_refuse(errno.EACCES)])
    blocks = {**_held_blocks(rules), **_message_blocks(rules)}
    for name, block in blocks.items():
        if name in calls and name not in rules.refused:
            lines += _for_call(calls[name], block)
    for name in rules.supervised:
        if name in calls and name not in blocks:
            lines += _for_call(calls[name], [_ASK_LINE])
    lines += _for_call(calls["socket"], _socket_rules(sockets, rules))
    if not sockets.local or rules.limits_local:
        lines += _for_call(calls["socketpair"], _PAIRS)
    return [*lines, _ALLOW_LINE]


def _control_rules(rules: Filter) -> list[Instruction]:
    """The decision on ``ioctl(descriptor, number)``."""
    refusal = _refuse(errno.EPERM)
    owners = () if rules.neighbours is Hold.FREE else _OWNERS_BY_MEMORY
    lines = _if_one_of(1, (*_TERMINAL_INPUT, *owners), refusal)
    if rules.metadata is not Hold.FREE:
        kinds = tuple(kind << 8 for kind in _FILE_SYSTEMS)
        lines += _if_one_of_loaded(_READING_CONTROLS, _ALLOW_LINE)
        lines += [(_AND, 0, 0, _KIND_OF_CONTROL), *_if_one_of_loaded(kinds, refusal)]
    return lines


def _held_blocks(rules: Filter) -> dict[str, Sequence[Instruction]]:
    """Treatment of the calls that change files, their metadata, and other processes."""
    blocks: dict[str, Sequence[Instruction]] = {}
    if rules.writes is Hold.ASKED:
        blocks |= {name: [_ASK_LINE] for name in WRITES}
        for name, flags in (("open", 1), ("openat", 2)):
            if name not in rules.supervised:
                blocks[name] = [_load(flags), (_IF_ANY_BIT, 0, 1, _WRITE_FLAGS), _ASK_LINE]
    if rules.metadata is not Hold.FREE:
        blocks |= {name: [_decision(rules.metadata)] for name in METADATA}
    if rules.metadata is Hold.ASKED:
        blocks |= {name: [_load(1), (_IF_ANY_BIT, 1, 0, _UNLOCK), _ASK_LINE] for name in LOCKS}
    if rules.neighbours is not Hold.FREE:
        ends = _decision(rules.neighbours)
        blocks |= {name: [_load(0), (_IF_EQUAL, 1, 0, 0), ends] for name in NEIGHBOURS}
        blocks["pidfd_open"] = [ends]
        blocks["prlimit64"] = [
            *(_load(0), (_IF_EQUAL, 5, 0, 0)),  # its own limits
            *(_load(2), (_IF_EQUAL, 0, 2, 0), _load(2, 4), (_IF_EQUAL, 1, 0, 0)),  # reads only
            ends,
        ]
        for name, of_user in _OF_USER.items():
            which = (_load(0), (_IF_EQUAL, 0, 1, of_user))
            blocks[name] = [_load(1), (_IF_EQUAL, 0, 2, 0), *which, ends]
        blocks |= {name: [_refuse(errno.EPERM)] for name in _OF_MEMORY}
        blocks["fcntl"] = [
            *_if_one_of(1, (*_LEASES, _SET_OWNER_BY_MEMORY), _refuse(errno.EPERM)),
            *((_IF_EQUAL, 0, 3, _SET_OWNER), _load(2), (_IF_EQUAL, 1, 0, 0)),  # 0: no owner
            ends,
        ]
    if rules.starts_named:
        without = _refuse(errno.EACCES)
        blocks["memfd_create"] = [_load(1), (_IF_ANY_BIT, 1, 0, _NOT_EXECUTABLE), without]
        blocks["execveat"] = [_load(4), (_IF_ANY_BIT, 0, 1, _EMPTY_PATH), without]
        if "execveat" in rules.supervised:
            blocks["execveat"] = [*blocks["execveat"], _ASK_LINE]
    return blocks


def _message_blocks(rules: Filter) -> dict[str, Sequence[Instruction]]:
    """Treatment of messages that name an address, or connect with their first bytes."""
    if not any(name in rules.supervised for name in ADDRESSED):
        return {}
    blocks: dict[str, Sequence[Instruction]] = {}
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        refusal = _refuse(errno.EOPNOTSUPP)
        blocks[name] = [_load(flags), (_IF_ANY_BIT, 0, 1, _FAST_OPEN), refusal]
    if rules.messages is Hold.ASKED:
        blocks["sendmsg"] = [*blocks["sendmsg"], _ASK_LINE]
        blocks["sendmmsg"] = [*blocks["sendmmsg"], _ASK_LINE]
        named = (_load(4), (_IF_EQUAL, 0, 2, 0), _load(4, 4), (_IF_EQUAL, 1, 0, 0))
        blocks["sendto"] = [*blocks["sendto"], *named, _ASK_LINE]
    return blocks


def _decision(hold: Hold) -> Instruction:
    return _ASK_LINE if hold is Hold.ASKED else _refuse(errno.EPERM)


def _if_one_of(argument: int, values: Sequence[int], then: Instruction) -> list[Instruction]:
    """An instruction for an argument that is one of these values."""
    last = len(values) - 1
    tests = [
        (_IF_EQUAL, last - at, 0 if at < last else 1, value) for at, value in enumerate(values)
    ]
    return [_load(argument), *tests, then]


def packed(lines: Sequence[Instruction]) -> bytes:
    """A filter as ``struct sock_fprog`` needs it."""
    return b"".join(bytes(_Instruction(*line)) for line in lines)


def _for_call(number: int, block: Sequence[Instruction]) -> list[Instruction]:
    """The block for a call of this number; a program that reaches its end has the call allowed."""
    closed = list(block)
    if closed[-1][0] != _RETURN or len(closed) > 1:
        closed.append((_RETURN, 0, 0, _ALLOW))
    return [(_IF_EQUAL, 0, len(closed), number), *closed]


def _socket_rules(allowed: Sockets, rules: Filter) -> list[Instruction]:
    """The decision on ``socket(family, type, protocol)``."""
    refusal = _refuse(errno.EACCES)
    if not allowed.local:
        local = [refusal]
    elif rules.limits_local:
        kind = (_load(1), (_AND, 0, 0, _TYPE_MASK))
        local = [*kind, *_if_one_of_loaded((_DATAGRAM, _RAW), refusal), _ALLOW_LINE]
    else:
        local = [_ALLOW_LINE]
    lines = [_load(0), (_IF_EQUAL, 0, len(local), _AF_UNIX), *local]
    if not allowed.network:
        return [*lines, refusal]
    if rules.messages is Hold.ASKED:
        return [*lines, *_INTERNET_ALONE]
    if allowed.streams_only:
        lines += [
            (_IF_EQUAL, 2, 0, _AF_INET),
            (_IF_EQUAL, 1, 0, _AF_INET6),
            _refuse(errno.EACCES),
            _load(1),
            (_AND, 0, 0, _TYPE_MASK),
            (_IF_EQUAL, 1, 0, _STREAM),
            _refuse(errno.EACCES),
            _load(2),
            (_IF_EQUAL, 2, 0, 0),
            (_IF_EQUAL, 1, 0, _IPPROTO_TCP),
            _refuse(errno.EACCES),
        ]
    return [*lines, _ALLOW_LINE]


def _if_one_of_loaded(values: Sequence[int], then: Instruction) -> list[Instruction]:
    return _if_one_of(0, values, then)[1:]


def _load(argument: int, at: int = 0) -> Instruction:
    """The lower half of an argument of the call, or with 4 the upper one."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * argument + at


def _refuse(number: int) -> Instruction:
    return _RETURN, 0, 0, _REFUSE | number


_ALLOW_LINE: Instruction = (_RETURN, 0, 0, _ALLOW)
_ASK_LINE: Instruction = (_RETURN, 0, 0, _ASK)
_AF_NETLINK, _IPPROTO_UDP = 16, 17
# Streams and datagrams of the internet, whose addresses the supervisor knows, and the routes of
# netlink, which resolvers of names read.
_INTERNET_ALONE: Sequence[Instruction] = (
    (_IF_EQUAL, 0, 4, _AF_NETLINK),
    _load(2),
    (_IF_EQUAL, 0, 1, 0),
    _ALLOW_LINE,
    _refuse(errno.EACCES),
    (_IF_EQUAL, 2, 0, _AF_INET),
    (_IF_EQUAL, 1, 0, _AF_INET6),
    _refuse(errno.EACCES),
    _load(1),
    (_AND, 0, 0, _TYPE_MASK),
    (_IF_EQUAL, 2, 0, _STREAM),
    (_IF_EQUAL, 5, 0, _DATAGRAM),
    _refuse(errno.EACCES),
    _load(2),
    (_IF_EQUAL, 6, 0, 0),
    (_IF_EQUAL, 5, 0, _IPPROTO_TCP),
    _refuse(errno.EACCES),
    _load(2),
    (_IF_EQUAL, 2, 0, 0),
    (_IF_EQUAL, 1, 0, _IPPROTO_UDP),
    _refuse(errno.EACCES),
    _ALLOW_LINE,
)
_PAIRS: Sequence[Instruction] = (
    _load(0),
    (_IF_EQUAL, 0, 5, _AF_UNIX),
    _load(1),
    (_AND, 0, 0, _TYPE_MASK),
    (_IF_EQUAL, 1, 0, _DATAGRAM),
    (_IF_EQUAL, 0, 1, _RAW),
    _refuse(errno.EACCES),
)


def _prctl(option: int, *arguments: int) -> int:
    words = [*arguments, 0, 0, 0, 0][:4]
    return int(_libc().prctl(option, *map(ctypes.c_ulong, words)))


def _seccomp(operation: int, flags: int, address: int) -> int:
    words = (number_of("seccomp"), operation, flags, address)
    return int(_libc().syscall(*map(ctypes.c_ulong, words)))


def _require_success(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
