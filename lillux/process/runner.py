"""The real `ProcessRunner`: starts a command, waits for its end or makes one, leaves nothing."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from enum import Enum
from typing import TYPE_CHECKING

from lillux.process.cancellation import Cancellation
from lillux.process.capture import BoundedCapture
from lillux.process.model import Captured, Command, Outcome, SpawnError

if TYPE_CHECKING:
    from subprocess import Popen

    from lillux.process.pump import OpenPump, Pump, Sink
    from lillux.process.tree import ProcessTree

GRACE_S = 2.0
DRAIN_S = 1.0
# Clocks of the system overflow on longer waits; the loop comes round again.
_LONGEST_WAIT_S = 86_400.0


class _EndedBy(Enum):
    ITSELF = "itself"
    TIMEOUT = "timeout"
    CANCELLATION = "cancellation"


class ProcessManager:
    """Runs commands as children of this process. Has no state: share one or make many.

    grace_s    between TERM and KILL for a group that should end.
    drain_s    how long a pipe may stay open once the child has ended or was killed.
    open_pump  how pipes are moved; what the platform does best by default.
    """

    def __init__(
        self,
        *,
        grace_s: float = GRACE_S,
        drain_s: float = DRAIN_S,
        open_pump: "OpenPump | None" = None,
    ) -> None:
        self._grace_s, self._drain_s, self._open_pump = grace_s, drain_s, open_pump

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run the command to its end. See `ProcessRunner.run`.

        Takes at most ``timeout_s`` + ``grace_s`` + ``drain_s``, whatever the child does, and
        ``drain_s`` more for one that not even KILL can end. Whatever interrupts it (Ctrl-C, an
        error of ``on_stderr``) kills the group on its way out.
        """
        if cancellation is not None and cancellation.is_set:
            return _never_started()
        from lillux.process.spawn import spawn
        from lillux.process.tree import tree_of

        started = time.perf_counter()
        stdout = BoundedCapture(command.max_output_bytes)
        stderr = BoundedCapture(command.max_output_bytes)
        process = spawn(command)
        tree = tree_of(process, command.env)
        try:
            pump = self._pump(command, process, stdout.feed, _tee(stderr.feed, on_stderr))
            waking = cancellation.waking(pump.wake) if cancellation else nullcontext()
            with closing(pump), waking:
                ended_by = self._await_end(command.timeout_s, pump, tree, cancellation)
        finally:
            tree.kill()  # before the child is reaped: until then the group's number is ours
            reap(process, self._drain_s)
        code = process.returncode
        return Outcome(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stdout=stdout.captured(),
            stderr=stderr.captured(),
            timed_out=ended_by is _EndedBy.TIMEOUT,
            cancelled=ended_by is _EndedBy.CANCELLATION,
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def _pump(
        self, command: Command, process: "Popen[bytes]", on_stdout: "Sink", on_stderr: "Sink"
    ) -> "Pump":
        from lillux.process.pump import pump_for

        open_pump = self._open_pump or pump_for()
        try:
            return open_pump(process, command.stdin, on_stdout, on_stderr)
        except (OSError, RuntimeError) as error:  # no more descriptors, or threads, to be had
            raise SpawnError(command.argv[0], str(error).lower()) from error

    def _await_end(
        self,
        timeout_s: float | None,
        pump: "Pump",
        tree: "ProcessTree",
        cancellation: Cancellation | None,
    ) -> _EndedBy:
        def has_exited() -> bool:
            return pump.has_exited

        def has_exited_or_should() -> bool:
            return pump.has_exited or (cancellation is not None and cancellation.is_set)

        def is_over() -> bool:
            return pump.has_exited and pump.is_drained

        ended_by = _EndedBy.ITSELF
        in_time = pump_until(has_exited_or_should, pump, timeout_s)
        if not pump.has_exited:
            ended_by = _EndedBy.CANCELLATION if in_time else _EndedBy.TIMEOUT
            tree.terminate()
            if not pump_until(has_exited, pump, self._grace_s):
                tree.kill()
        pump_until(is_over, pump, self._drain_s)
        return ended_by


def pump_until(is_reached: Callable[[], bool], pump: "Pump", limit_s: float | None) -> bool:
    """Move the pipes until the condition holds; False when ``limit_s`` was over before."""
    deadline = None if limit_s is None else time.monotonic() + limit_s
    while not is_reached():
        left_s = _LONGEST_WAIT_S if deadline is None else deadline - time.monotonic()
        if left_s <= 0:
            return False
        pump.wait(min(left_s, _LONGEST_WAIT_S))
    return True


def _tee(first: "Sink", second: "Sink | None") -> "Sink":
    if second is None:
        return first

    def both(chunk: bytes) -> None:
        first(chunk)
        second(chunk)

    return both


def reap(process: "Popen[bytes]", limit_s: float) -> None:
    """Take the exit code of a child that was killed, if it comes within the limit."""
    from subprocess import TimeoutExpired

    # Not even KILL ends what took another user's rights. `subprocess` reaps it when it does end.
    with suppress(TimeoutExpired):
        process.wait(limit_s)


def _never_started() -> Outcome:
    nothing = Captured(data=b"", total_bytes=0)
    return Outcome(exit_code=None, signal=None, stdout=nothing, stderr=nothing, cancelled=True)
