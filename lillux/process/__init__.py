"""Programs run to their end: output captured, limits kept, nothing left behind.

What every `ProcessManager.run` guarantees:

- The child leads a session and a process group of its own, and inherits no file but its pipes.
- Its three pipes are moved at the same time, so no order of reading and writing can deadlock.
- After ``timeout_s``, or a cancellation, the whole group gets TERM, and KILL after a grace.
- When the child has ended, what is left of its group is killed too: a finished tool leaves no
  orphan processes. A descendant that moved to a session of its own is found where the command
  ``leaves_nothing`` (Linux); else it is not waited for longer than a second, however long it keeps
  a pipe open.
- Memory is bounded by ``max_output_bytes``, and no zombie and no open file stay.

On Windows there is no gentle signal for a process without a window: a timeout kills the tree at
once, and descendants of a child that ended by itself are not found.
"""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from enum import Enum
from typing import TYPE_CHECKING

from lillux.cancellation import Cancellation
from lillux.process.model import BoundedCapture, CapturedStream, Command, Outcome, stdin_of

if TYPE_CHECKING:
    from lillux.process.children import Child
    from lillux.process.pipes import OpenPump, Pump, Sink, Stdin


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
    haste_s    if given, the grace for a run that is cancelled; its pipes are not waited for then.
    drain_s    how long a pipe may stay open once the child has ended or was killed.
    open_pump  how pipes are moved; what the platform does best by default.
    """

    def __init__(
        self,
        *,
        grace_s: float = GRACE_S,
        haste_s: float | None = None,
        drain_s: float = DRAIN_S,
        open_pump: "OpenPump | None" = None,
    ) -> None:
        self._grace_s, self._haste_s, self._drain_s = grace_s, haste_s, drain_s
        self._open_pump = open_pump

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
        from lillux.process.children import spawned_child
        from lillux.process.descendants import marked

        with marked(command) as started:
            return self.supervise(
                lambda: spawned_child(started, self._open_pump),
                stdin=stdin_of(command),
                timeout_s=command.timeout_s,
                max_output_bytes=command.max_output_bytes,
                cancellation=cancellation,
                on_stdout=command.on_stdout,
                on_stderr=on_stderr,
            )

    def supervise(
        self,
        start: "Callable[[], Child]",
        *,
        stdin: "Stdin" = b"",
        timeout_s: float | None = None,
        max_output_bytes: int,
        cancellation: Cancellation | None = None,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Start a child of any sort and see to its end, with all that `run` guarantees."""
        if cancellation is not None and cancellation.is_set:
            return _never_started()
        started = time.perf_counter()
        stdout, stderr = BoundedCapture(max_output_bytes), BoundedCapture(max_output_bytes)
        child = start()
        try:
            pump = child.open_pump(
                stdin, _tee(stdout.feed, on_stdout), _tee(stderr.feed, on_stderr)
            )
            waking = cancellation.waking(pump.wake) if cancellation else nullcontext()
            with closing(pump), waking:
                ended_by = self._await_end(timeout_s, pump, child, cancellation)
        finally:
            child.kill()  # before it is reaped: until then the group's number is ours
            code = child.reap(self._drain_s)
        return Outcome(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stdout=stdout.captured(),
            stderr=stderr.captured(),
            timed_out=ended_by is _EndedBy.TIMEOUT,
            cancelled=ended_by is _EndedBy.CANCELLATION,
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def _await_end(
        self,
        timeout_s: float | None,
        pump: "Pump",
        child: "Child",
        cancellation: Cancellation | None,
    ) -> _EndedBy:
        def has_exited_or_should() -> bool:
            return pump.has_exited or (cancellation is not None and cancellation.is_set)

        def is_over() -> bool:
            return (pump.has_exited and pump.is_drained) or self._is_hurried(cancellation)

        ended_by = _EndedBy.ITSELF
        in_time = pump_until(has_exited_or_should, pump, timeout_s)
        if not pump.has_exited:
            ended_by = _EndedBy.CANCELLATION if in_time else _EndedBy.TIMEOUT
            self._end_group(pump, child, cancellation)
        pump_until(is_over, pump, self._drain_s)
        return ended_by

    def _end_group(self, pump: "Pump", child: "Child", cancellation: Cancellation | None) -> None:
        """Ask it to end, and end it after the grace, which haste may cut short."""

        def has_exited() -> bool:
            return pump.has_exited

        def has_exited_or_should() -> bool:
            return pump.has_exited or self._is_hurried(cancellation)

        child.terminate()
        if pump_until(has_exited_or_should, pump, self._grace_s):
            pump_until(has_exited, pump, self._haste_s)
        if not pump.has_exited:
            child.kill()

    def _is_hurried(self, cancellation: Cancellation | None) -> bool:
        return self._haste_s is not None and cancellation is not None and cancellation.is_set


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


def _never_started() -> Outcome:
    nothing = CapturedStream(data=b"", total_bytes=0)
    return Outcome(exit_code=None, signal=None, stdout=nothing, stderr=nothing, cancelled=True)
