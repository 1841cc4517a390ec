"""Signals that ask a program to end, which ends its child first and then by the same signal."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lillux.process import Cancellation


@contextmanager
def interruption() -> Iterator[Cancellation]:
    """Inside the block TERM, INT and HUP set the cancellation; at its end they end this process.

    Those that were ignored stay so. Windows has no such signals: nothing is changed there.
    """
    cancellation = Cancellation()
    came: list[int] = []

    def cancel(number: int, _: FrameType | None) -> None:
        came.append(number)
        cancellation.cancel()

    before = {number: signal.getsignal(number) for number in _asking_to_end()}
    taken = {number: kept for number, kept in before.items() if kept is not signal.SIG_IGN}
    try:
        for number in taken:
            signal.signal(number, cancel)
        yield cancellation
    finally:
        for number, kept in taken.items():
            signal.signal(number, kept)
        if came:
            signal.signal(came[-1], signal.SIG_DFL)
            signal.raise_signal(came[-1])


def _asking_to_end() -> tuple[signal.Signals, ...]:
    names = ("SIGTERM", "SIGINT", "SIGHUP") if os.name == "posix" else ()
    return tuple(signal.Signals[name] for name in names)
