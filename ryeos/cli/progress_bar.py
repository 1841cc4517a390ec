"""A line that says how far a transfer is: on a terminal only, and only once it takes a while."""

import sys
from collections.abc import Callable
from time import monotonic
from typing import TextIO

from ryeos.cli.output import Output

PATIENCE_S = 0.5
LEAST_APART_S = 0.1
_WIDTH = 28
_CLEAR = "\r\x1b[K"


class ProgressBar:
    """Told of progress, it writes to standard error, in one line that it removes in the end."""

    def __init__(
        self,
        output: Output,
        stream: TextIO | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_silent = output.quiet or output.as_json or not self._stream.isatty()
        self._now = now
        self._started = now()
        self._shown_at: float | None = None

    def tell(self, what: str, done: int, total: int) -> None:
        """Show how far it is, if that was not shown just now."""
        moment = self._now()
        if self._is_silent or not total or moment - self._started < PATIENCE_S:
            return
        if self._shown_at is not None and moment - self._shown_at < LEAST_APART_S:
            return
        self._shown_at = moment
        self._write(f"{_CLEAR}{bar(what, done, total)}")

    def end(self) -> None:
        """Leave no line behind."""
        if self._shown_at is not None:
            self._write(_CLEAR)
            self._shown_at = None

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def bar(what: str, done: int, total: int) -> str:
    """The line: ``sending    [######......]  120/240``."""
    filled = _WIDTH * min(done, total) // total
    return f"{what:<10} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done:>6}/{total}"
