"""A child and its descendants, as far as the system can name them together."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class ProcessTree(Protocol):
    """What can be ended as one. Both calls return at once and never raise for what is gone."""

    def terminate(self) -> None:
        """Ask all of it to end."""
        ...

    def kill(self) -> None:
        """End all of it."""
        ...


class PosixGroup:
    """The process group that a child leads.

    Its number stays taken until the child is reaped and its last member is gone, so it is safe to
    use until then.
    """

    def __init__(self, leader_pid: int) -> None:
        self._group = leader_pid

    def terminate(self) -> None:
        """Send TERM to every member."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send KILL to every member."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        # Permission is missing when all that is left is a zombie (macOS) or has another user's
        # rights; in both cases there is nothing that we could do.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)


class WindowsTree:
    """A running child and the processes that descend from it.

    ``system_root`` is the folder of the system, as ``SYSTEMROOT`` in the child's environment.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", system_root: Path) -> None:
        self._process = process
        # By its full path: Windows would look in the working directory first.
        self._taskkill = system_root / "System32" / "taskkill.exe"

    def terminate(self) -> None:
        """The same as `kill`: nothing gentler reaches a process without a window."""
        self.kill()

    def kill(self) -> None:
        """End the tree while its root runs; without the root its members cannot be found."""
        if self._process.poll() is not None:
            return
        with suppress(OSError):
            subprocess.run(
                [self._taskkill, "/T", "/F", "/PID", str(self._process.pid)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with suppress(OSError):
            self._process.kill()


def tree_of(
    process: "subprocess.Popen[bytes]", env: Mapping[str, str], *, platform: str = sys.platform
) -> ProcessTree:
    """The tree that a child started by `spawn`, with this environment, is the root of."""
    if platform != "win32":
        return PosixGroup(process.pid)
    return WindowsTree(process, Path(env.get("SYSTEMROOT", r"C:\Windows")))
