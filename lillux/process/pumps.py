"""Pump of POSIX: one thread that sleeps until a pipe, the child or a waker has news."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from threading import RLock, Thread
from typing import IO

from lillux.process.pipes import CHUNK_BYTES, OpenPump, PipedProcess, Sink, Stdin, await_exit


def pump_for(platform: str = sys.platform) -> OpenPump:
    """The pump for a platform: ``open_pump(process, stdin, on_stdout, on_stderr)``."""
    if platform == "win32":  # whose pipes cannot be waited for together
        from lillux.process.thread_pump import ThreadPump

        return ThreadPump
    return SelectorPump


_NO_WAKEUP_FD = -1


def open_pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the child has ended; None where there is no such thing.

    Linux from 5.3 on has it, unless a sandbox forbids it.
    """
    pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if pidfd_open is None:
        return None
    try:
        return pidfd_open(pid)
    except OSError:
        return None


class SelectorPump:
    """Moves the pipes of one child in the thread that waits. See `Pump`."""

    def __init__(
        self,
        process: PipedProcess,
        stdin: Stdin,
        on_stdout: Sink,
        on_stderr: Sink,
        *,
        open_exit_fd: Callable[[int], int | None] = open_pidfd,
    ) -> None:
        self._later = None if isinstance(stdin, bytes) else stdin
        self._unsent = memoryview(stdin if isinstance(stdin, bytes) else stdin.first)
        self._send_rest: Callable[[], None] = lambda: None
        self._open_outputs = 0
        self._has_exited = False
        with ExitStack() as opened:
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                opened.callback(pipe.close)
            self._selector = opened.enter_context(DefaultSelector())
            self._bell = Bell()
            opened.callback(self._bell.close)
            self._selector.register(self._bell, EVENT_READ, self._hear_bell)
            self._watch_output(process.stdout, on_stdout)
            self._watch_output(process.stderr, on_stderr)
            if process.stdin is not None:
                self._watch_input(process.stdin)
            self._watch_exit(process, open_exit_fd(process.pid), opened)
            opened.enter_context(rung_by_signals(self._bell))
            self._opened = opened.pop_all()

    @property
    def has_exited(self) -> bool:
        """True if the child has ended."""
        return self._has_exited

    @property
    def is_drained(self) -> bool:
        """True if both outputs were read to their end."""
        return self._open_outputs == 0

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until there is news, and act on it."""
        for key, _events in self._selector.select(timeout_s):
            key.data()

    def wake(self) -> None:
        """Make a `wait` return."""
        self._bell.ring()

    def close(self) -> None:
        """Close all pipes."""
        self._opened.close()

    def _watch_output(self, pipe: IO[bytes] | None, sink: Sink) -> None:
        if pipe is None:
            return

        def read() -> None:
            chunk = os.read(pipe.fileno(), CHUNK_BYTES)
            if chunk:
                sink(chunk)
            else:
                self._selector.unregister(pipe)
                pipe.close()
                self._open_outputs -= 1

        self._selector.register(pipe, EVENT_READ, read)
        self._open_outputs += 1

    def _watch_input(self, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)

        def write() -> None:
            try:
                sent = os.write(pipe.fileno(), self._unsent[:CHUNK_BYTES])
            except BlockingIOError:
                return
            except OSError:  # it has no reader any more, which is for the child to decide
                sent = len(self._unsent)
            self._unsent = self._unsent[sent:]
            if not self._unsent:
                self._selector.unregister(pipe)
                send_rest()

        def send_rest() -> None:
            rest = self._later.rest if self._later else b""
            if rest is None:
                self._send_rest = send_rest  # when the bell rings
                return
            self._later, self._send_rest = None, lambda: None
            self._unsent = memoryview(rest)
            if rest:
                self._selector.register(pipe, EVENT_WRITE, write)
            else:
                pipe.close()

        self._selector.register(pipe, EVENT_WRITE, write)
        if self._later:
            self._later.when_given(self._bell.ring)

    def _hear_bell(self) -> None:
        self._bell.silence()
        self._send_rest()

    def _watch_exit(self, process: PipedProcess, exit_fd: int | None, opened: ExitStack) -> None:
        if exit_fd is None:
            Thread(target=self._report_exit, args=(process,), daemon=True).start()
            return
        opened.callback(os.close, exit_fd)

        def note() -> None:
            self._selector.unregister(exit_fd)
            self._has_exited = True

        self._selector.register(exit_fd, EVENT_READ, note)

    def _report_exit(self, process: PipedProcess) -> None:
        await_exit(process)
        self._has_exited = True
        self._bell.ring()


@contextmanager
def rung_by_signals(bell: "Bell") -> Iterator[None]:
    """Inside the block a signal that has a handler rings: one that comes just before a wait, too.

    Handlers run in the main thread only, and there between two instructions: a wait that has
    begun meanwhile would miss it. An earlier wakeup descriptor of this process stays in use.
    """
    try:
        before = signal.set_wakeup_fd(bell.ringer, warn_on_full_buffer=False)
    except ValueError:  # not the main thread, which hears no signal
        yield
        return
    if before != _NO_WAKEUP_FD:
        signal.set_wakeup_fd(before)
    try:
        yield
    finally:
        if before == _NO_WAKEUP_FD:
            signal.set_wakeup_fd(_NO_WAKEUP_FD)


class Bell:
    """A pipe to itself: what wakes a selector. ``ring`` is safe in any thread, signal and state."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._is_closed = False
        # Reentrant: a signal handler may ring while its own thread closes.
        self._lock = RLock()

    def fileno(self) -> int:
        """The descriptor that is readable after a `ring`."""
        return self._reader

    @property
    def ringer(self) -> int:
        """The descriptor that rings when anything is written to it, and never blocks."""
        return self._writer

    def ring(self) -> None:
        """Make the descriptor readable."""
        with self._lock, suppress(BlockingIOError):  # a full pipe is readable already
            if not self._is_closed:  # the number may be another file's by now
                os.write(self._writer, b"!")

    def silence(self) -> None:
        """Make it unreadable again, once it was rung."""
        os.read(self._reader, CHUNK_BYTES)

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            self._is_closed = True
            os.close(self._reader)
            os.close(self._writer)
