"""Progress of long work and of graph steps: a live list on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable
from time import monotonic
from typing import TextIO

from ryeos.app.output import Output, one_line
from ryeos.graph.runner import StepEvent

# --- step list ------------------------------------------------------------------------------------

_NODE_WIDTH = 24
_CLEAR = "\r\x1b[K"
_MARKS = {"ok": ("green", "\N{CHECK MARK}"), "error": ("red", "\N{BALLOT X}")}


class StepList:
    """Writes to standard error: standard output is for the answer."""

    def __init__(self, output: Output, stream: TextIO | None = None) -> None:
        self._output = output
        self._stream = stream or sys.stderr
        self._is_live = self._stream.isatty()
        self._is_silent = output.quiet or output.as_json

    def tell(self, event: StepEvent) -> None:
        """Show what has happened."""
        if self._is_silent:
            return
        if event.what == "finished":
            self._write(f"{_CLEAR if self._is_live else ''}{self._finished(event)}\n")
        elif self._is_live:
            self._write(f"{_CLEAR}{self._going_on(event)}")

    def end(self) -> None:
        """Remove the line of a step that has not come to its end."""
        if self._is_live and not self._is_silent:
            self._write(_CLEAR)

    def _finished(self, event: StepEvent) -> str:
        color, mark = _MARKS["error" if event.error is not None else "ok"]
        name = "error" if event.error is not None else "ok"
        shown = self._output.paint(mark if self._is_live else name, color, stream=self._stream)
        took = "kept" if event.cache_hit else _duration(event.elapsed_s)
        line = f"{event.step:>4}  {_node(event)}  {shown}  {took}"
        if event.error is not None:
            line += f"  {one_line(event.error, 80)}"
        return line

    def _going_on(self, event: StepEvent) -> str:
        line = f"{event.step:>4}  {_node(event)}  ..."
        if event.what == "progress":
            line += f"  {event.done}" + (f"/{event.total}" if event.total else "")
        return line

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()


def _node(event: StepEvent) -> str:
    return f"{one_line(event.node, _NODE_WIDTH):<{_NODE_WIDTH}}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# --- progress bar ---------------------------------------------------------------------------------
# A line that says how far a transfer is: on a terminal only, and only once it takes a while.

PATIENCE_S = 0.5
LEAST_APART_S = 0.1
_WIDTH = 28


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
