"""Ending all that descends from this process, wherever it moved to."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

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
    device. Every child is reaped, whoever waited for it.
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
