"""Child processes, each with all that descends from it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Protocol

from lillux.process.guard import program_ends
from lillux.process.model import Command, SpawnError
from lillux.process.pipes import OpenPump, Pump, Sink, Stdin
from lillux.process.pumps import pump_for
from lillux.process.spawn import spawn


class ProcessTree(Protocol):
    """A tree that is ended as one. Both calls return at once and never raise for what is gone."""

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


class Child(ProcessTree, Protocol):
    """A running child with all that descends from it, see `ProcessTree`."""

    def open_pump(self, stdin: Stdin, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """The pump of its pipes. Raises SpawnError when the system has no means left for one."""
        ...

    def reap(self, limit_s: float) -> int | None:
        """Its exit code, or the negative number of the signal that ended it.

        None when it has not ended within the limit. Called once, after `kill`.
        """
        ...


class SpawnedChild:
    """A program that was started for one command. See `Child`."""

    def __init__(
        self, program: str, process: Popen[bytes], tree: ProcessTree, open_pump: OpenPump
    ) -> None:
        self._program, self._process, self._tree = program, process, tree
        self._open_pump = open_pump

    def terminate(self) -> None:
        """Ask its group to end."""
        self._tree.terminate()

    def kill(self) -> None:
        """End its group."""
        self._tree.kill()

    def open_pump(self, stdin: Stdin, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """The best pump of the platform. Raises SpawnError."""
        try:
            return self._open_pump(self._process, stdin, on_stdout, on_stderr)
        except (OSError, RuntimeError) as error:  # no more descriptors, or threads, to be had
            raise SpawnError(self._program, str(error).lower()) from error

    def reap(self, limit_s: float) -> int | None:
        """Its exit code."""
        program_ends(self._process.pid)
        # Not even KILL ends what took another user's rights. `subprocess` reaps it when it ends.
        with suppress(TimeoutExpired):
            self._process.wait(limit_s)
        return self._process.returncode


def spawned_child(command: Command, open_pump: OpenPump | None = None) -> SpawnedChild:
    """Start a command. Raises ProgramNotFoundError, SpawnError, ConfigurationError."""
    process = spawn(command)
    tree = tree_of(process, command.env)
    return SpawnedChild(command.argv[0], process, tree, open_pump or pump_for())
