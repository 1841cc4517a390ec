"""Descendants of this process and of a run, ended wherever they moved to."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lillux.process.model import Command
from lillux.values import replace

_SET_CHILD_SUBREAPER = 36
_PARENT = 1  # of the fields of /proc/PID/stat behind the program's name
_PAUSE_S = 0.002


def adopt_orphans(*, platform: str = sys.platform) -> bool:
    """Become the parent of every descendant whose own parent ends; False where none can.

    With it `end_descendants` finds daemons too. Linux only.
    """
    if platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def end_descendants(limit_s: float, *, platform: str = sys.platform) -> bool:
    """Kill the children of this process, and theirs as they become ours, until none is left.

    False when some still are there after the limit: they took another user's rights, or wait for a
    device. Every child is reaped, whichever thread waited for it.
    """
    deadline = time.monotonic() + limit_s
    while True:
        for child in _children(platform):
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)


MARK_VARIABLE = "LILLUX_RUN"
"""Marks the orphans of each run: a run with ``leaves_nothing`` has a value of its own."""
_MAX_ROUNDS = 100


@contextmanager
def marked(command: Command, *, platform: str = sys.platform) -> Iterator[Command]:
    """The command with a mark in its environment; at the end all that still has the mark is killed.

    What moved to a session of its own is found by its mark, whatever process adopted it. One that
    gave its environment away is not found.
    """
    if not command.leaves_nothing or platform != "linux":
        yield command
        return
    value = os.urandom(16).hex()
    before = _last_pid()
    try:
        yield replace(command, env={**command.env, MARK_VARIABLE: value})
    finally:
        _end_marked(f"{MARK_VARIABLE}={value}".encode(), before)


def _end_marked(mark: bytes, before: int) -> None:
    """Kill all that has the mark, of the processes that were started after number ``before``."""
    for _ in range(_MAX_ROUNDS):
        # Numbers go up, and begin again at the end: then each process may be a new one.
        first = before if _last_pid() >= before else 0
        found = [pid for pid in _pids() if pid > first and mark in _environment(pid)]
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(_PAUSE_S)  # until those are gone, and have started nothing more


def _pids() -> Iterator[int]:
    names = os.listdir("/proc")  # noqa: PTH208 - names are what is wanted
    return (int(name) for name in names if name.isdecimal())


def _last_pid() -> int:
    """The number that was given to a process last; 0 where that is unknown."""
    try:
        return int(Path("/proc/loadavg").read_bytes().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _children(platform: str) -> list[int]:
    """The numbers of the processes whose parent this one is."""
    if platform != "linux":
        return []
    own = os.getpid()
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal())
    return [pid for pid in pids if _parent(pid) == own]


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(status[status.rindex(b")") + 2 :].split()[_PARENT])
