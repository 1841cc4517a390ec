"""Pipes of a child process, and what moves their bytes."""

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Condition
from typing import IO, Protocol

Sink = Callable[[bytes], None]
CHUNK_BYTES = 64 * 1024


class PipedProcess(Protocol):
    """Owner of the pipes: a `subprocess.Popen`, or something like one."""

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
        """True if the child has ended; its descendants may live on."""
        ...

    @property
    def is_drained(self) -> bool:
        """True if both output pipes were read to their end."""
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


def await_exit(process: PipedProcess) -> None:
    """Block until the child has ended.

    It is left unreaped where the system allows that, so that its group can still be signalled.
    """
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
