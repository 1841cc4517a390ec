"""A child process that exchanges lines with us while it runs.

`ProcessManager` writes everything a program may read before it looks at what it says. A server on
standard input and output wants an answer first. The same isolation, pumps and endings are used
here; only the input is written by a thread of its own, so that a child that reads nothing blocks
no caller.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import IO

from lillux.cancellation import Cancellation
from lillux.process import DRAIN_S, GRACE_S, pump_until
from lillux.process.children import SpawnedChild, tree_of
from lillux.process.model import Command, SpawnError
from lillux.process.pipes import Pump, Sink
from lillux.process.pumps import pump_for
from lillux.process.spawn import spawn

_LAST_WORDS_S = 0.1


class Conversation:
    """A running child. Of one thread; `converse` makes it, and ends it."""

    def __init__(self, child: SpawnedChild, pump: Pump, writer: "_Writer") -> None:
        self._child, self._pump, self._writer = child, pump, writer

    @property
    def has_ended(self) -> bool:
        """True if the child has ended and everything it wrote was handed over."""
        return self._pump.has_exited and self._pump.is_drained

    @property
    def has_exited(self) -> bool:
        """True if the child has ended; what it wrote last may still be on its way."""
        return self._pump.has_exited

    def send(self, data: bytes) -> None:
        """Write to the child, some time. What it no longer reads is lost."""
        self._writer.put(data)

    def wait_until(self, is_reached: Callable[[], bool], limit_s: float | None) -> bool:
        """Hand over what the child writes until the condition holds; False when it is too late.

        The condition is asked after every piece of news, so also after a cancellation.
        """
        return pump_until(is_reached, self._pump, limit_s)

    def end_politely(self, patience_s: float) -> None:
        """Close the child's input, which asks a server to end, and wait until it has."""
        self._writer.close()
        pump_until(lambda: self._pump.has_exited, self._pump, patience_s)
        # (Its descendants may keep its pipes open: its last words are at hand by now.)
        self.drain(min(patience_s, _LAST_WORDS_S))

    def end(self, grace_s: float) -> None:
        """TERM to the whole group, and wait for the child; whatever is left gets KILL later."""
        self._writer.close()
        if self._pump.has_exited:
            return
        self._child.terminate()
        pump_until(lambda: self._pump.has_exited, self._pump, grace_s)

    def drain(self, limit_s: float) -> None:
        """Hand over what the ended child has written."""
        pump_until(lambda: self.has_ended, self._pump, limit_s)


@contextmanager
def converse(
    command: Command,
    *,
    on_stdout: Sink,
    on_stderr: Sink,
    cancellation: Cancellation | None = None,
    on_end: Callable[[int | None], None],
    grace_s: float = GRACE_S,
) -> Iterator[Conversation]:
    """Start the command, whose ``stdin`` is the first thing it reads; inside the block talk to it.

    The sinks are called inside `Conversation.wait_until` and similar. A cancellation only
    wakes the thread that waits. However the block is left, nothing of the child's group lives on;
    ``on_end`` then gets its exit code, the negative number of its signal, or None when not even
    KILL could end it.

    Raises ProgramNotFoundError, SpawnError, ConfigurationError.
    """
    process = spawn(command)
    # The pump closes an input once everything was written: it must not know this one.
    pipe, process.stdin = process.stdin, None
    child = SpawnedChild(command.argv[0], process, tree_of(process, command.env), pump_for())
    writer = _Writer(pipe)
    try:
        writer.start(command.argv[0])
        writer.put(command.stdin)
        pump = child.open_pump(b"", on_stdout, on_stderr)
        waking = cancellation.waking(pump.wake) if cancellation else nullcontext()
        with closing(pump), waking:
            conversation = Conversation(child, pump, writer)
            try:
                yield conversation
            finally:
                conversation.end(grace_s)
    finally:
        child.kill()  # before it is reaped: until then the group's number is ours
        writer.close()
        on_end(child.reap(DRAIN_S))


class _Writer:
    """Writes to a pipe in a thread of its own, which owns the pipe and closes it."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()

    def start(self, program: str) -> None:
        try:
            Thread(target=self._write, name="lillux-conversation", daemon=True).start()
        except RuntimeError as error:
            if self._pipe is not None:
                self._pipe.close()
            raise SpawnError(program, str(error).lower()) from error

    def put(self, data: bytes) -> None:
        self._pieces.put(data)

    def close(self) -> None:
        self._pieces.put(None)

    def _write(self) -> None:
        if self._pipe is None:
            return
        with suppress(OSError), self._pipe as pipe:  # it has no reader any more
            while (piece := self._pieces.get()) is not None:
                unsent = memoryview(piece)
                while unsent:
                    unsent = unsent[pipe.write(unsent) :]


def remaining_s(deadline: float | None) -> float | None:
    """Seconds until a deadline on `time.monotonic`, not below 0; None for no limit."""
    return None if deadline is None else max(0.0, deadline - monotonic())
