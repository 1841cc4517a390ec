"""Runs work among processes of its own, which sees and reaches no others. Linux.

    caller --fork--> gate --fork--> work, process number 1 of its namespace

Processes that do not share a namespace have no numbers for each other: no signal, no limit, no
priority, no name of a program reaches out of it. The gate stays outside: it hands on signals and
the status. With the work all that it started ends, as the kernel ends a namespace with its first
process. See pid_namespaces(7), user_namespaces(7).

Work may have a user id of its own too (`lillux.uids`). Where namespaces are plain, a folder that is
closed to that user is replaced by one that holds only what the work is shown.
"""

import ctypes
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from lillux.uids import become

_NEW_MOUNTS, _NEW_GROUPS, _NEW_IPC = 0x0002_0000, 0x0200_0000, 0x0800_0000
_NEW_USERS, _NEW_PROCESSES = 0x1000_0000, 0x2000_0000
_NO_SUID, _NO_DEVICES, _NO_EXEC, _READ_ONLY = 2, 4, 8, 1
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_CAPABILITIES_VERSION_3 = 0x2008_0522
_HANDED_ON = (signal.SIGTERM, signal.SIGINT)
_GROUPS_FOLDER = Path("/sys/fs/cgroup")


class Apart(StrEnum):
    """Isolation of work from other processes.

    NOT    it shares all with them
    USERS  in namespaces that belong to a user namespace: no privilege is needed
    PLAIN  in the same ones without that: it takes CAP_SYS_ADMIN
    """

    NOT = ""
    USERS = "users"
    PLAIN = "plain"


def run_apart(
    how: Apart, work: Callable[[], int], *, uid: int = 0, shown: Iterable[Path] = ()
) -> int:
    """The status of the work, done in namespaces of its own: 0, or 1 for any other.

    With a ``uid`` that is its user, and in plain namespaces it can go to what is ``shown`` wherever
    that lies; it takes root. For a process with one thread, which does nothing else and ends with
    its parent. Raises OSError where the system makes no namespaces.
    """
    if how is Apart.NOT:
        if uid:
            become(uid)
            _give_up_privileges()
        return work()
    if uid and how is Apart.USERS:
        become(uid)  # before: no other number has a name in a namespace of users
    _end_with_parent()
    _enter(how)
    inner = os.fork()
    if not inner:
        if how is Apart.USERS:
            uid, shown = 0, ()
        _leave_with(_as_first, work, uid, tuple(shown))
    for number in (*_HANDED_ON, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda received, _: os.kill(inner, received))
    return int(os.waitpid(inner, 0)[1] != 0)


def obstacle(
    how: Apart, *, uid: int = 0, shown: Sequence[Path] = (), needed: Sequence[Path] = ()
) -> str:
    """Why nothing can be kept apart so here, ``""`` where it can: tried in a process of its own.

    ``needed`` are files and folders that the user ``uid`` has to read; all lie in what is shown.
    """
    if sys.platform != "linux":
        return "only Linux has namespaces"
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _leave_with(_try, how, uid, shown, needed, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    return said or ("" if status == 0 else "the namespaces cannot be entered")


def _try(how: Apart, uid: int, shown: Sequence[Path], needed: Sequence[Path], writing: int) -> int:
    """Write what is in the way to a pipe."""

    def look() -> int:
        closed = next((path for path in needed if not os.access(path, _access_to(path))), None)
        if closed is not None:
            os.write(writing, f"{closed} is closed to other users".encode(errors="replace"))
        is_first = os.getpid() == 1 and Path("/proc/1/stat").exists()
        return int(closed is not None or not (is_first or how is Apart.NOT))

    try:
        return run_apart(how, look, uid=uid, shown=shown)
    except OSError as error:
        os.write(writing, f"{error.strerror or error}".lower().encode())
        return 1


def _access_to(path: Path) -> int:
    return os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK  # noqa: PTH112 - raises nothing


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


def _as_first(work: Callable[[], int], uid: int, shown: Sequence[Path]) -> int:
    """Do the work as the first process, with a ``/proc`` that shows what it may see."""
    _end_with_parent()
    _call("unshare", ctypes.c_int(_NEW_MOUNTS))
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    plain = _NO_SUID | _NO_DEVICES | _NO_EXEC
    _mount("proc", Path("/proc"), "proc", plain)
    if _GROUPS_FOLDER.is_dir():  # it would show the groups of all others
        _mount("tmpfs", _GROUPS_FOLDER, "tmpfs", plain | _READ_ONLY)
    if uid:
        _open_ways(shown, uid)
        become(uid)
        _end_with_parent()
    _give_up_privileges()
    return work()


def closed_folder(path: Path, uid: int) -> Path | None:
    """The first folder on the way to a path that a user cannot go through, None for none."""
    return _first_closed(path.parent, uid, {})


def _first_closed(folder: Path, uid: int, known: dict[Path, Path | None]) -> Path | None:
    if folder not in known:
        above = _first_closed(folder.parent, uid, known) if folder != folder.parent else None
        known[folder] = above or (None if _lets_through(folder, uid) else folder)
    return known[folder]


def _lets_through(folder: Path, uid: int) -> bool:
    try:
        status = folder.stat()
    except OSError:  # what is not there closes nothing
        return True
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == uid else stat.S_IXOTH))


def _open_ways(shown: Iterable[Path], uid: int) -> None:
    """Put a folder in the place of each that is closed to a user, with what it is shown in it.

    So a path leads to the same as before, and nothing beside it can be seen.
    """
    known: dict[Path, Path | None] = {}
    parts: dict[Path, dict[Path, int]] = {}
    for path in sorted({place for one in shown for place in (one.absolute(), one.resolve())}):
        closed = _first_closed(path.parent, uid, known)
        if closed is not None:
            with suppress(FileNotFoundError, NotADirectoryError):
                parts.setdefault(closed, {})[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    mask, plain = os.umask(0o022), _NO_SUID | _NO_DEVICES
    for closed, inner in parts.items():
        _mount("tmpfs", closed, "tmpfs", plain, b"mode=0755")
        for path, descriptor in inner.items():
            _bind(descriptor, path)
            os.close(descriptor)
        _mount(None, closed, None, _REMOUNT | _BIND | plain | _READ_ONLY)
    os.umask(mask)


def _bind(descriptor: int, path: Path) -> None:
    """Have a path lead to what is open. One that lies in another that was shown does already."""
    if path.exists():
        return
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    _mount(f"/proc/self/fd/{descriptor}", path, None, _BIND | _RECURSIVE)


def _mount(
    source: str | None, target: Path, kind: str | None, flags: int, options: bytes | None = None
) -> None:
    words = (source and source.encode(), os.fsencode(target), kind and kind.encode())
    _call("mount", *words, ctypes.c_ulong(flags), options)


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
