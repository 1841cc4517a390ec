"""Runs work among processes of its own, which sees and reaches no others. Linux.

    caller --fork--> gate --fork--> work, process number 1 of its namespace

Processes that do not share a namespace have no numbers for each other: no signal, no limit, no
priority, no name of a program reaches out of it. The gate stays outside: it hands on signals and
the status. With the work all that it started ends, as the kernel ends a namespace with its first
process. See pid_namespaces(7), user_namespaces(7).
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

_NEW_MOUNTS, _NEW_GROUPS, _NEW_IPC = 0x0002_0000, 0x0200_0000, 0x0800_0000
_NEW_USERS, _NEW_PROCESSES = 0x1000_0000, 0x2000_0000
_NO_SUID, _NO_DEVICES, _NO_EXEC, _READ_ONLY = 2, 4, 8, 1
_RECURSIVE, _PRIVATE = 1 << 14, 1 << 18
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_CAPABILITIES_VERSION_3 = 0x2008_0522
_HANDED_ON = (signal.SIGTERM, signal.SIGINT)
_GROUPS_FOLDER = Path("/sys/fs/cgroup")


class Apart(StrEnum):
    """How work is kept apart from other processes.

    NOT    it shares all with them
    USERS  in namespaces that belong to a user namespace: no privilege is needed
    PLAIN  in the same ones without that: it takes CAP_SYS_ADMIN
    """

    NOT = ""
    USERS = "users"
    PLAIN = "plain"


def run_apart(how: Apart, work: Callable[[], int]) -> int:
    """The status of the work, done in namespaces of its own: 0, or 1 for any other.

    For a process with one thread, which does nothing else and ends with its parent. Raises OSError
    where the system makes no namespaces.
    """
    _end_with_parent()
    _enter(how)
    inner = os.fork()
    if not inner:
        _leave_with(_as_first, work)
    for number in (*_HANDED_ON, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda received, _: os.kill(inner, received))
    return int(os.waitpid(inner, 0)[1] != 0)


def obstacle(how: Apart) -> str:
    """Why nothing can be kept apart so here, ``""`` where it can: tried in a process of its own."""
    if sys.platform != "linux":
        return "only Linux has namespaces"
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _leave_with(_try, how, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    return said or ("" if status == 0 else "the namespaces cannot be entered")


def _try(how: Apart, writing: int) -> int:
    """Write what is in the way to a pipe."""
    try:
        return run_apart(how, lambda: int(os.getpid() != 1 or not Path("/proc/1/stat").exists()))
    except OSError as error:
        os.write(writing, f"{error.strerror or error}".lower().encode())
        return 1


def _leave_with(work: Callable[..., int], *arguments: object) -> None:
    """Do the work as a process that was just forked, and end."""
    status = 1
    try:
        status = work(*arguments)
    except BaseException:  # noqa: BLE001 - the door of this process
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _enter(how: Apart) -> None:
    """Make the namespaces. This process keeps its number; its next child is the first in them."""
    flags = _NEW_PROCESSES | _NEW_IPC | _NEW_GROUPS
    user, group = os.geteuid(), os.getegid()
    if how is Apart.USERS:
        flags |= _NEW_USERS
    _call("unshare", ctypes.c_int(flags))
    if how is Apart.USERS:  # each number stands for itself, and no other has a name there
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _as_first(work: Callable[[], int]) -> int:
    """Do the work as the first process, with a ``/proc`` that shows what it may see."""
    _end_with_parent()
    _call("unshare", ctypes.c_int(_NEW_MOUNTS))
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    plain = _NO_SUID | _NO_DEVICES | _NO_EXEC
    _mount("proc", Path("/proc"), "proc", plain)
    if _GROUPS_FOLDER.is_dir():  # it would show the groups of all others
        _mount("tmpfs", _GROUPS_FOLDER, "tmpfs", plain | _READ_ONLY)
    _give_up_privileges()
    return work()


def _mount(source: str | None, target: Path, kind: str | None, flags: int) -> None:
    words = (source and source.encode(), os.fsencode(target), kind and kind.encode())
    _call("mount", *words, ctypes.c_ulong(flags), None)


def _end_with_parent() -> None:
    """End when the process ends that has started this one, whatever becomes of it."""
    _call("prctl", _PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def _give_up_privileges() -> None:
    """Be unable to undo any of it: by a mount, or by a program that has more rights."""
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
