"""Background processes: start them detached, identify them safely, look at them, stop them.

A number alone does not name a process: systems use numbers again. A process is named by its number
and its *start token*, which says when it began: a look at the pair finds it gone when the
number belongs to another process by now, and never ends that one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from lillux.errors import ConfigurationError, LilluxError
from lillux.files import (
    file_system_error,
    open_file,
)
from lillux.process.model import Command
from lillux.values import dataclass

# --- detached -------------------------------------------------------------------------------------
# Starts a detached process.

# CREATE_NEW_PROCESS_GROUP | DETACHED_PROCESS; `subprocess` has the names on Windows only.
_WINDOWS_DETACHMENT = 0x0000_0200 | 0x0000_0008
_LOG_MODE = 0o600


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that was started. ``start_token`` tells it from a later one with its number."""

    pid: int
    start_token: str


def start_detached(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
    log_path: Path | None = None,
    log_within: Path | None = None,
    platform: str = sys.platform,
) -> StartedProcess:
    """Start a program that continues when this process ends, in a session of its own.

    argv, env, cwd  as of `lillux.process.model.Command`
    stdin           what it can read, however long; it need not be running to be handed it
    log_path        both its outputs are appended there, to a file for this user only; without one
                    they go nowhere
    log_within      the folder from which the log is reached without links, if any

    Raises ProgramNotFoundError, SpawnError, ConfigurationError for a missing ``cwd``, and
    FileSystemError when the log cannot be opened.
    """
    from lillux.process.children import find_program, spawn_error

    command = Command(argv=tuple(argv), env=env, cwd=cwd)
    path = find_program(command, platform=platform)
    on_windows = platform == "win32"
    with _input(stdin) as input_file, _log(log_path, log_within) as log_file:
        try:
            process = subprocess.Popen(
                command.argv,
                executable=path,
                env=command.env,
                cwd=command.cwd,
                stdin=input_file,
                stdout=log_file,
                stderr=log_file,
                start_new_session=not on_windows,
                creationflags=_WINDOWS_DETACHMENT if on_windows else 0,
            )
        except OSError as error:
            raise spawn_error(command, path, error) from error
    # Until it is reaped its number is its own, whatever became of it by now.
    started = StartedProcess(process.pid, start_token(process.pid, platform=platform))
    _reap_when_ended(process)
    return started


@contextmanager
def _input(data: bytes) -> Iterator[int]:
    """A descriptor to read the data from: a file without a name, as a pipe would need a writer."""
    if not data:
        yield subprocess.DEVNULL
        return
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


@contextmanager
def _log(path: Path | None, within: Path | None) -> Iterator[int]:
    if path is None:
        yield subprocess.DEVNULL
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = open_file(path, flags, mode=_LOG_MODE, within=within)
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _reap_when_ended(process: "subprocess.Popen[bytes]") -> None:
    """Leave no zombie behind for as long as we live ourselves; then the system sees to it."""
    from threading import Thread

    Thread(target=process.wait, name="lillux-background", daemon=True).start()


# --- ending ---------------------------------------------------------------------------------------
# Ending a process that is known by its number only, and never another one.

Method = Literal["terminated", "killed", "already_dead"]

GRACE_S = 3.0
# How long a killed process may take to be gone, which is for the system to decide.
_DEATH_S = 1.0
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.005, 0.1


class EndingRefusedError(LilluxError):
    """The system does not let us end a process, as it is another user's."""

    code, exit_status = "EXECUTION_FAILED", 6

    def __init__(self, pid: int) -> None:
        self.pid = pid
        super().__init__(
            f"process {pid}: it is another user's",
            hint="end it as the user that started it, or as root",
        )


def end_process(
    pid: int,
    *,
    grace_s: float = GRACE_S,
    token: str = "",
    tree: bool = False,
    platform: str = sys.platform,
) -> Method:
    """Ask a process to end, and make it end when ``grace_s`` have passed.

    token  the process is only touched if it is the one that began then, see `start_token`
    tree   its whole group is ended where it leads one, as `start_detached` makes it

    ``terminated`` ended when asked to, ``killed`` had to be made to, ``already_dead`` was not
    there (any more). Raises ConfigurationError for a process that must never be ended (0, 1,
    this one, the leader of our own group with ``tree``), EndingRefusedError for another user's.
    """
    _require_endable(pid, tree=tree, platform=platform)
    if platform == "win32":
        return _end_on_windows(pid, grace_s, token, tree=tree)
    with _target(pid, token, tree=tree, platform=platform) as target:
        if target is None or not target.send(signal.SIGTERM):
            return "already_dead"
        if target.is_gone_within(grace_s):
            return "terminated"
        if not target.send(signal.SIGKILL):
            return "terminated"
        target.is_gone_within(_DEATH_S)
        return "killed"


def _require_endable(pid: int, *, tree: bool, platform: str) -> None:
    if pid <= 1:
        raise ConfigurationError("pid", f"expected a process above 1, got {pid}")
    if pid == os.getpid():
        raise ConfigurationError("pid", f"expected another process than this one, got {pid}")
    if tree and platform != "win32" and pid == os.getpgrp():
        raise ConfigurationError("pid", f"expected another group than this process's, got {pid}")


class _Target:
    """A process, or the group it leads, that was there when it was looked at.

    ``handle`` is a descriptor that stands for the process itself where the system has such: then
    the number may be used again meanwhile, and nothing else is hit.
    """

    def __init__(self, pid: int, handle: int | None, *, is_group: bool, platform: str) -> None:
        self._pid, self._handle = pid, handle
        self._is_group, self._platform = is_group, platform

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False when the process is gone."""
        try:
            if self._is_group:
                # The number of a group is not used again while it has a member, or its leader is.
                os.killpg(self._pid, number)
            elif self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self._pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            if self.is_gone():  # macOS says so of a zombie
                return False
            raise EndingRefusedError(self._pid) from None
        return True

    def is_gone(self) -> bool:
        """Whether nothing of it runs any more."""
        if self._is_group and _has_members(self._pid, self._platform):
            return False
        if self._handle is not None:
            return _is_readable(self._handle)
        seen = look(self._pid, self._platform)
        return seen is None or seen.ended

    def is_gone_within(self, limit_s: float) -> bool:
        """Wait for its end, no longer than that; whether it came."""
        deadline = time.monotonic() + limit_s
        pause_s = _SHORTEST_LOOK_S
        while not self.is_gone():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, _LONGEST_LOOK_S)
        return True


@contextmanager
def _target(pid: int, token: str, *, tree: bool, platform: str) -> Iterator[_Target | None]:
    """What to end; None where nothing of that name runs."""
    with ExitStack() as opened:
        # (1) Hold the process that has the number now, (2) then check that it is the right one.
        try:
            handle = _open_handle(pid, opened)
        except ProcessLookupError:
            yield None
            return
        seen = look(pid, platform)
        if seen is None or seen.ended or (token and seen.start_token != token):
            yield None
            return
        is_group = tree and _leads_group(pid)
        yield _Target(pid, handle, is_group=is_group, platform=platform)


def _open_handle(pid: int, opened: ExitStack) -> int | None:
    """A descriptor of the process. Raises ProcessLookupError when there is none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # an older system, or a sandbox that does not allow it
        return None
    opened.callback(os.close, handle)
    return handle


def _is_readable(handle: int) -> bool:
    import select

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except OSError:
        return False


def _has_members(group: int, platform: str) -> bool:
    """Whether a process of the group runs; zombies, which a signal still finds, do not count."""
    if platform != "linux":
        return _answers_to_signals(group)
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    members = (look(pid, platform) for pid in pids)
    return any(seen and not seen.ended and seen.group == group for seen in members)


def _answers_to_signals(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _end_on_windows(pid: int, grace_s: float, token: str, *, tree: bool) -> Method:
    """Wait for the grace, as nothing gentle reaches a process without a window; then end it."""
    try:
        with ending_handle(pid) as handle:
            seen = look_at(pid)
            if handle is None or seen is None or seen.ended:
                return "already_dead"
            if token and seen.start_token != token:
                return "already_dead"
            if has_ended(handle, grace_s):
                return "terminated"
            if tree:
                terminate_tree(pid)
            terminate(handle)
            return "killed"
    except PermissionError:
        raise EndingRefusedError(pid) from None


# --- seen -----------------------------------------------------------------------------------------
# What a system shows of a process.


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the system shows of a process.

    ended        it is a zombie: it did end, and its parent has not noticed
    start_token  when it began, in the system's own words; ``""`` when it does not say
    group        its process group; 0 when the system does not say
    """

    ended: bool
    start_token: str
    group: int = 0


# --- liveness -------------------------------------------------------------------------------------
# Whether a process is there, and since when.

_LONGEST_PID = 2**31 - 1
# Fields of /proc/PID/stat behind the program's name, counted from 0. See proc_pid_stat(5).
_STATE, _GROUP, _START = 0, 2, 19
_ENDED_STATES = frozenset("ZX")


def start_token(pid: int, *, platform: str = sys.platform) -> str:
    """When the process began, in the system's own words: tells it from others with its number.

    Ticks since the machine started on Linux, a date elsewhere. ``""`` if there is no such
    process, or its owner does not show it.
    """
    seen = look(pid, platform)
    return seen.start_token if seen else ""


def is_alive(pid: int, token: str = "", *, platform: str = sys.platform) -> bool:
    """Whether the process runs; with a token, whether it is the one that began then.

    A process of another user runs like any other, a zombie does not.
    """
    seen = look(pid, platform)
    if seen is None or seen.ended:
        return False
    return not token or seen.start_token == token


def look(pid: int, platform: str) -> ProcessState | None:
    """What the system shows of a process, or None."""
    if not 0 < pid <= _LONGEST_PID:
        return None
    if platform == "win32":
        return look_at(pid)
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


# --- windows --------------------------------------------------------------------------------------
# Processes of Windows, by the calls of its kernel32. Imported there only.

_QUERY_LIMITED, _SYNCHRONIZE, _TERMINATE = 0x1000, 0x0010_0000, 0x0001
_ACCESS_DENIED = 5
_SIGNALED = 0
_EXIT_CODE = 1
_LONGEST_PATH = 260


@cache
def _kernel32() -> Any:  # noqa: ANN401 - a library of the system
    import ctypes

    library: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    library.OpenProcess.restype = ctypes.c_void_p
    for name in ("CloseHandle", "GetProcessTimes", "TerminateProcess", "WaitForSingleObject"):
        getattr(library, name).argtypes = None
    return library


@contextmanager
def process_handle(pid: int, access: int = _QUERY_LIMITED | _SYNCHRONIZE) -> Iterator[Any]:
    """A handle of the process, which keeps its number from being used again; None if none is.

    Raises PermissionError when the process is another user's.
    """
    import ctypes

    kernel32 = _kernel32()
    raw = kernel32.OpenProcess(access, False, pid)  # noqa: FBT003 - inherited or not
    if not raw:
        if ctypes.get_last_error() == _ACCESS_DENIED:  # type: ignore[attr-defined]
            raise PermissionError(f"process {pid}: access denied")
        yield None
        return
    handle = ctypes.c_void_p(raw)
    try:
        yield handle
    finally:
        kernel32.CloseHandle(handle)


def look_at(pid: int) -> ProcessState | None:
    """What the system shows of a process."""
    try:
        with process_handle(pid) as handle:
            if handle is None:
                return None
            return ProcessState(ended=has_ended(handle, 0.0), start_token=_creation_time(handle))
    except PermissionError:
        return ProcessState(ended=False, start_token="")


def has_ended(handle: Any, within_s: float) -> bool:  # noqa: ANN401 - as above
    """Whether the process ended, or does so within the time."""
    return bool(_kernel32().WaitForSingleObject(handle, round(within_s * 1000)) == _SIGNALED)


def terminate(handle: Any) -> None:  # noqa: ANN401 - as above
    """End the process now."""
    _kernel32().TerminateProcess(handle, _EXIT_CODE)


def terminate_tree(pid: int) -> None:
    """End the process and what descends from it, while it still runs."""
    import ctypes

    # By its full path: Windows would look in the working directory first.
    folder = ctypes.create_unicode_buffer(_LONGEST_PATH)
    _kernel32().GetSystemDirectoryW(folder, _LONGEST_PATH)
    subprocess.run(
        [rf"{folder.value}\taskkill.exe", "/T", "/F", "/PID", str(pid)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ending_handle(pid: int) -> Any:  # noqa: ANN401 - a context manager of a handle
    """A handle by which the process can be ended; see `process_handle`."""
    return process_handle(pid, _QUERY_LIMITED | _SYNCHRONIZE | _TERMINATE)


def _creation_time(handle: Any) -> str:  # noqa: ANN401 - as above
    import ctypes

    times = [ctypes.c_uint64() for _ in range(4)]
    if not _kernel32().GetProcessTimes(handle, *map(ctypes.byref, times)):
        return ""
    return str(times[0].value)
