"""How a server comes to its end: by signals, which are caught, and at once."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:
    from typing import NoReturn

_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
]


class Stop(BaseException):  # no error: what a signal turns into
    """It is time to end."""


def catch_signals() -> None:
    """From now on the first signal to end is raised as `Stop`, in the main thread."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def leave() -> NoReturn:
    """End the process, now."""
    with suppress(OSError, ValueError):  # nobody reads standard error
        sys.stderr.flush()
    os._exit(0)


def _stop(_number: int, _frame: object) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Stop
