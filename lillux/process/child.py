"""What a `ProcessManager` sees to: something that runs, with three pipes and an end."""

from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from typing import Protocol

from lillux.process.model import Command, SpawnError
from lillux.process.pump import OpenPump, Pump, Sink, pump_for
from lillux.process.spawn import spawn
from lillux.process.tree import ProcessTree, tree_of


class Child(ProcessTree, Protocol):
    """A running child with all that descends from it, see `ProcessTree`."""

    def open_pump(self, stdin: bytes, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """What moves its pipes. Raises SpawnError when the system has no means left for one."""
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

    def open_pump(self, stdin: bytes, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """What the platform does best. Raises SpawnError."""
        try:
            return self._open_pump(self._process, stdin, on_stdout, on_stderr)
        except (OSError, RuntimeError) as error:  # no more descriptors, or threads, to be had
            raise SpawnError(self._program, str(error).lower()) from error

    def reap(self, limit_s: float) -> int | None:
        """Its exit code."""
        # Not even KILL ends what took another user's rights. `subprocess` reaps it when it ends.
        with suppress(TimeoutExpired):
            self._process.wait(limit_s)
        return self._process.returncode


def spawned_child(command: Command, open_pump: OpenPump | None = None) -> SpawnedChild:
    """Start a command. Raises ProgramNotFoundError, SpawnError, ConfigurationError."""
    process = spawn(command)
    tree = tree_of(process, command.env)
    return SpawnedChild(command.argv[0], process, tree, open_pump or pump_for())
