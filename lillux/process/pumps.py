"""Moves the bytes of the pipes of one child process, on each platform."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from threading import Condition, RLock, Semaphore, Thread
from typing import IO, Protocol

Sink = Callable[[bytes], None]
CHUNK_BYTES = 64 * 1024


class PipedProcess(Protocol):
    """What has the pipes: a `subprocess.Popen`, or something like one."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def wait(self) -> int:
        """Block until it has ended."""
        ...


class Pump(Protocol):
    """The three pipes of one child, moved at the same time, and the news of its end."""

    @property
    def has_exited(self) -> bool:
        """Whether the child has ended; its descendants may live on."""
        ...

    @property
    def is_drained(self) -> bool:
        """Whether both output pipes were read to their end."""
        ...

    def wait(self, timeout_s: float | None) -> None:
        """Move what can be moved; sleep first while there is nothing, at most ``timeout_s``.

        Sinks are called from here. Returns early after a `wake`.
        """
        ...

    def wake(self) -> None:
        """Make a `wait` return, from any thread and at any time, even after `close`."""
        ...

    def close(self) -> None:
        """Let go of everything, whether or not it was moved."""
        ...


class LaterInput:
    """The rest of the input of one child, which is not known when it starts. Thread-safe.

    The child reads ``first`` at once, and the rest and the end when `give` was called.
    """

    def __init__(self) -> None:
        self.first = b""
        self._rest: bytes | None = None
        self._hear: Callable[[], None] = lambda: None
        self._changed = Condition()

    def after(self, first: bytes) -> "LaterInput":
        """The same, behind what the child reads at once."""
        self.first = first
        return self

    @property
    def rest(self) -> bytes | None:
        """The second part, None until it was given."""
        return self._rest

    def give(self, rest: bytes) -> None:
        """Give the child the rest, and the end of its input. A second call changes nothing."""
        with self._changed:
            if self._rest is not None:
                return
            self._rest = rest
            self._changed.notify_all()
            hear = self._hear
        hear()

    def when_given(self, hear: Callable[[], None]) -> None:
        """Call a function when the rest is there: at once where it is."""
        with self._changed:
            self._hear = hear
            is_given = self._rest is not None
        if is_given:
            hear()

    def wait(self) -> bytes:
        """The rest, when it was given."""
        with self._changed:
            self._changed.wait_for(lambda: self._rest is not None)
            return self._rest or b""


Stdin = bytes | LaterInput
OpenPump = Callable[[PipedProcess, Stdin, Sink, Sink], Pump]


def pump_for(platform: str = sys.platform) -> OpenPump:
    """How pipes are moved there: ``open_pump(process, stdin, on_stdout, on_stderr)``."""
    if platform == "win32":  # whose pipes cannot be waited for together
        return ThreadPump
    return SelectorPump


def await_exit(process: PipedProcess) -> None:
    """Block until the child has ended.

    It is left unreaped where the system allows that, so that its group can still be signalled.
    """
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


# --- selector pump --------------------------------------------------------------------------------
# The pump of POSIX: one thread that sleeps until a pipe, the child or a waker has news.

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
        """Whether the child has ended."""
        return self._has_exited

    @property
    def is_drained(self) -> bool:
        """Whether both outputs were read to their end."""
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


# --- thread pump ----------------------------------------------------------------------------------
# The pump of platforms whose pipes cannot be waited for together: a thread for each.

# Windows notices Ctrl-C only between two waits of the main thread.
_LONGEST_WAIT_S = 0.5
_CHUNKS_IN_FLIGHT = 8


class ThreadPump:
    """Moves the pipes of one child by threads. See `Pump`.

    The threads hand everything over to the one that waits, which alone calls the sinks. Each owns
    its pipe, and closes it when it is done: to close it under a thread that reads would be unsafe.
    One that a stray descendant keeps busy is left behind with its pipe until that one ends.
    """

    def __init__(
        self, process: PipedProcess, stdin: Stdin, on_stdout: Sink, on_stderr: Sink
    ) -> None:
        from queue import SimpleQueue  # for this pump alone

        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._permits = Semaphore(_CHUNKS_IN_FLIGHT)
        self._busy_pipes = 0
        self._has_exited = self._is_closed = False
        self._later = None if isinstance(stdin, bytes) else stdin
        if process.stdin is not None:
            self._move(partial(self._feed, process.stdin, stdin))
        if process.stdout is not None:
            self._move(partial(self._read, process.stdout, on_stdout))
        if process.stderr is not None:
            self._move(partial(self._read, process.stderr, on_stderr))
        _start(partial(self._report_exit, process))

    @property
    def has_exited(self) -> bool:
        """Whether the child has ended."""
        return self._has_exited

    @property
    def is_drained(self) -> bool:
        """Whether both outputs were read to their end, and the input was let go of."""
        return self._busy_pipes == 0

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until a thread has news, and act on it."""
        longest = _LONGEST_WAIT_S if timeout_s is None else min(timeout_s, _LONGEST_WAIT_S)
        from queue import Empty

        with suppress(Empty):
            self._news.get(timeout=longest)()

    def wake(self) -> None:
        """Make a `wait` return."""
        self._news.put(lambda: None)

    def close(self) -> None:
        """Tell the threads to stop."""
        self._is_closed = True
        self._end_input()
        self._permits.release(2)  # one for each reader that may wait for one

    def _move(self, work: Callable[[], None]) -> None:
        def move_and_tell() -> None:
            try:
                work()
            finally:
                self._news.put(self._count_down)

        self._busy_pipes += 1
        _start(move_and_tell)

    def _feed(self, pipe: IO[bytes], stdin: Stdin) -> None:
        with suppress(OSError), pipe:  # it has no reader any more, which is for the child to decide
            for part in (stdin,) if isinstance(stdin, bytes) else _parts(stdin):
                unsent = memoryview(part)
                while unsent:
                    unsent = unsent[pipe.write(unsent[:CHUNK_BYTES]) :]

    def _end_input(self) -> None:
        """End the waiting of the thread that feeds the child."""
        if self._later is not None:
            self._later.give(b"")

    def _read(self, pipe: IO[bytes], sink: Sink) -> None:
        with pipe:
            while not self._is_closed and (chunk := pipe.read(CHUNK_BYTES)):
                self._permits.acquire()
                self._news.put(partial(self._deliver, sink, chunk))

    def _deliver(self, sink: Sink, chunk: bytes) -> None:
        self._permits.release()
        sink(chunk)

    def _count_down(self) -> None:
        self._busy_pipes -= 1

    def _report_exit(self, process: PipedProcess) -> None:
        await_exit(process)
        self._has_exited = True
        self._end_input()
        self.wake()


def _parts(stdin: LaterInput) -> Iterator[bytes]:
    yield stdin.first
    yield stdin.wait()


def _start(work: Callable[[], None]) -> None:
    Thread(target=work, name="lillux-process", daemon=True).start()
