"""State of a process by its number: whether it runs, and since when.

A number alone does not name a process: systems use numbers again. A process is named by its number
and its *start token*, which says when it began: a look at the pair finds it gone when the
number belongs to another process by now.
"""

import os
import subprocess
import sys

from lillux.process.windows import creation_time, has_ended, process_handle
from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class ProcessState:
    """State of a process as the system shows it.

    ended        it is a zombie: it did end, and its parent has not noticed
    start_token  when it began, in the system's own words; ``""`` when it does not say
    group        its process group; 0 when the system does not say
    """

    ended: bool
    start_token: str
    group: int = 0


_LONGEST_PID = 2**31 - 1
# Fields of /proc/PID/stat behind the program's name, counted from 0. See proc_pid_stat(5).
_STATE, _GROUP, _START = 0, 2, 19
_ENDED_STATES = frozenset("ZX")


def start_token(pid: int, *, platform: str = sys.platform) -> str:
    """When the process began, in the system's own words: tells it from others with its number.

    Ticks since the machine started on Linux, a date elsewhere. ``""`` if there is no such
    process, or its owner does not show it.
    """
    seen = process_state(pid, platform)
    return seen.start_token if seen else ""


def is_alive(pid: int, token: str = "", *, platform: str = sys.platform) -> bool:
    """True if the process runs; with a token, whether it is the one that began then.

    A process of another user runs like any other, a zombie does not.
    """
    seen = process_state(pid, platform)
    if seen is None or seen.ended:
        return False
    return not token or seen.start_token == token


def process_state(pid: int, platform: str) -> ProcessState | None:
    """State of a process as the system shows it, or None."""
    if not 0 < pid <= _LONGEST_PID:
        return None
    if platform == "win32":
        return windows_process_state(pid)
    seen = _read_proc(pid) if platform == "linux" else _ask_ps(pid)
    # What other users run may be hidden from us (hidepid of proc(5)).
    return seen or (ProcessState(ended=False, start_token="") if _answers(pid) else None)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _read_proc(pid: int) -> ProcessState | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read thousands of times
            stat = file.read()
    except OSError:
        return None
    # The program's name stands in parentheses and may hold some itself.
    fields = stat[stat.rindex(b")") + 2 :].decode("ascii").split()
    return ProcessState(fields[_STATE] in _ENDED_STATES, fields[_START], int(fields[_GROUP]))


def _ask_ps(pid: int) -> ProcessState | None:
    try:
        ended = subprocess.run(
            ["/bin/ps", "-o", "stat=,pgid=,lstart=", "-p", str(pid)],
            capture_output=True,
            check=False,
            env={"LC_ALL": "C", "TZ": "UTC0"},
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return None
    shown = ended.stdout.decode("ascii", "replace").split()
    if len(shown) < 3:  # noqa: PLR2004 - state, group, and the words of a date
        return None
    return ProcessState(shown[0][0] in _ENDED_STATES, " ".join(shown[2:]), int(shown[1]))


def windows_process_state(pid: int) -> ProcessState | None:
    """State of a process as the system shows it."""
    try:
        with process_handle(pid) as handle:
            if handle is None:
                return None
            return ProcessState(ended=has_ended(handle, 0.0), start_token=creation_time(handle))
    except PermissionError:
        return ProcessState(ended=False, start_token="")
