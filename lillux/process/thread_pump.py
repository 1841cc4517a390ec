"""Pump of Windows, where pipes cannot be waited for together: a thread for each."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Semaphore, Thread
from typing import IO

from lillux.process.pipes import CHUNK_BYTES, LaterInput, PipedProcess, Sink, Stdin, await_exit

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
        """True if the child has ended."""
        return self._has_exited

    @property
    def is_drained(self) -> bool:
        """True if both outputs were read to their end, and the input was let go of."""
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
