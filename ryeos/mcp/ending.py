"""How a server comes to its end: at once, and by signals, which a thread of its own waits for.

Nothing depends on the main thread: one that waits for a read hears of no signal which another
thread has got, nor of one that came just before it began to wait.
"""

from __future__ import annotations

import os
import signal
import sys
from _thread import start_new_thread  # as in `ryeos.mcp.wire`
from contextlib import suppress

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
]


class SignalWatch:
    """Calls `end` at the first signal to end, from a thread of its own.

    Made in the main thread, once in a process. `end` may be set anew.
    """

    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end
        reader, writer = os.pipe()
        if sys.platform != "win32":  # where a pipe need not be told, and cannot
            os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _go_on)
        start_new_thread(self._await, (reader,))

    def _await(self, reader: int) -> None:
        while not set(os.read(reader, 1)) & set(_SIGNALS):
            """Another signal that somebody catches."""
        self.end()


def leave() -> NoReturn:
    """End the process, now."""
    with suppress(OSError, ValueError):  # nobody reads standard error
        sys.stderr.flush()
    os._exit(0)


def _go_on(_number: int, _frame: object) -> None:
    """Leave the main thread at its work: the pipe has been told."""
