"""What moves the bytes of one child, whatever the platform offers for it."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Protocol

Sink = Callable[[bytes], None]
CHUNK_BYTES = 64 * 1024


class Piped(Protocol):
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


OpenPump = Callable[[Piped, bytes, Sink, Sink], Pump]


def pump_for(platform: str = sys.platform) -> OpenPump:
    """How pipes are moved there: ``open_pump(process, stdin, on_stdout, on_stderr)``."""
    if platform == "win32":  # whose pipes cannot be waited for together
        from lillux.process.thread_pump import ThreadPump

        return ThreadPump
    from lillux.process.selector_pump import SelectorPump

    return SelectorPump


def await_exit(process: Piped) -> None:
    """Block until the child has ended.

    It is left unreaped where the system allows that, so that its group can still be signalled.
    """
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
