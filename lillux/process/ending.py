"""End of a process that is known by its number only, and never of another one."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from lillux.errors import ConfigurationError, LilluxError
from lillux.process.states import process_state, windows_process_state
from lillux.process.windows import ending_handle, has_ended, terminate, terminate_tree

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


class _EndTarget:
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
        """True if nothing of it runs any more."""
        if self._is_group and _has_members(self._pid, self._platform):
            return False
        if self._handle is not None:
            return _is_readable(self._handle)
        seen = process_state(self._pid, self._platform)
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
def _target(pid: int, token: str, *, tree: bool, platform: str) -> Iterator[_EndTarget | None]:
    """Target to end; None where nothing of that name runs."""
    with ExitStack() as opened:
        # (1) Hold the process that has the number now, (2) then check that it is the right one.
        try:
            handle = _open_handle(pid, opened)
        except ProcessLookupError:
            yield None
            return
        seen = process_state(pid, platform)
        if seen is None or seen.ended or (token and seen.start_token != token):
            yield None
            return
        is_group = tree and _leads_group(pid)
        yield _EndTarget(pid, handle, is_group=is_group, platform=platform)


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
    """True if a process of the group runs; zombies, which a signal still finds, do not count."""
    if platform != "linux":
        return _answers_to_signals(group)
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    members = (process_state(pid, platform) for pid in pids)
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
            seen = windows_process_state(pid)
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
