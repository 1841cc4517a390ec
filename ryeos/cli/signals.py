"""Signals that ask a command to end: a run ends its tool first, and waiting is interrupted."""

import signal
from types import FrameType

from lillux.process.cancellation import Cancellation

_ASKS_TO_END = ("SIGINT", "SIGTERM", "SIGHUP")


def cancelled_by_signals() -> Cancellation:
    """A cancellation that the first such signal sets; a second one ends this program at once."""
    cancellation = Cancellation()

    def cancel(number: int, _: FrameType | None) -> None:
        cancellation.cancel()
        signal.signal(number, signal.SIG_DFL)

    for name in _ASKS_TO_END:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, cancel)
    return cancellation


def interrupt_on_signals() -> None:
    """Let whatever asks this command to end interrupt it, as Ctrl-C does."""
    for name in _ASKS_TO_END:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
