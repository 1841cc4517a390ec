"""What is shown while a command runs: the steps of graphs, transfers, else the time."""

import sys
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Self, TextIO

from lillux.foreign_text import one_line
from ryeos.app.output import Output

if TYPE_CHECKING:
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

    def tell(self, event: "StepEvent") -> None:
        """Show what has happened."""
        if self._is_silent:
            return
        if event.what == "finished":
            self._write(f"{_CLEAR if self._is_live else ''}{self._finished_line(event)}\n")
        elif self._is_live:
            self._write(f"{_CLEAR}{self._going_on(event)}")

    def end(self) -> None:
        """Remove the line of a step that has not come to its end."""
        if self._is_live and not self._is_silent:
            self._write(_CLEAR)

    def _finished_line(self, event: "StepEvent") -> str:
        color, mark = _MARKS["error" if event.error is not None else "ok"]
        name = "error" if event.error is not None else "ok"
        shown = self._output.paint(mark if self._is_live else name, color, stream=self._stream)
        took = "kept" if event.cache_hit else _duration(event.elapsed_s)
        line = f"{event.step:>4}  {_node(event)}  {shown}  {took}"
        if event.error is not None:
            line += f"  {one_line(event.error, 80)}"
        return line

    def _going_on(self, event: "StepEvent") -> str:
        line = f"{event.step:>4}  {_node(event)}  ..."
        if event.what == "progress":
            line += f"  {event.done}" + (f"/{event.total}" if event.total else "")
        return line

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()


def _node(event: "StepEvent") -> str:
    return f"{one_line(event.node, _NODE_WIDTH):<{_NODE_WIDTH}}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# --- progress bar ---------------------------------------------------------------------------------
# A line that says how far a transfer is: on a terminal only, and only once it takes a while.

PATIENCE_S = 0.5
LEAST_APART_S = 0.1
_WIDTH = 28


class ProgressBar:
    """Called with progress, it writes to standard error, in one line that it removes in the end."""

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
        now = self._now()
        if self._is_silent or not total or now - self._started < PATIENCE_S:
            return
        if self._shown_at is not None and now - self._shown_at < LEAST_APART_S:
            return
        self._shown_at = now
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


# --- spinner --------------------------------------------------------------------------------------
# A spinner on a terminal: how long a command has been running, whenever it is silent.

QUIET_S, AGAIN_S, TURN_S = 1.0, 3.0, 0.1
"""Silent for so long before the first word, and after one; how often the time is drawn."""
_TURNS = "|/-\\"


class Spinner:
    """Shows the time while a command is silent, below whole lines only.

    What is written removes it first. It ends for good with the first word that goes elsewhere than
    to a terminal: a pager may draw what it gets.
    """

    def __init__(
        self, stream: TextIO, *, quiet_s: float = QUIET_S, again_s: float = AGAIN_S
    ) -> None:
        self._stream, self._quiet_s, self._again_s = stream, quiet_s, again_s
        self._streams = sys.stdout, sys.stderr
        self._ended, self._lock = Event(), Lock()
        self._is_shown, self._is_inside_line = False, False
        self._heard_at = monotonic()

    shown: ClassVar["Spinner | None"] = None
    """The one of this process, until it ends."""

    def __enter__(self) -> Self:
        """Begin to wait, and note what is written from here on."""
        Spinner.shown = self
        sys.stdout, sys.stderr = (_HeardStream(stream, self._hear) for stream in self._streams)
        Thread(target=self._turn, name="rye-spinner", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no line behind."""
        self.end()

    def end(self) -> None:
        """Leave no line behind."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            Spinner.shown = None
            sys.stdout, sys.stderr = self._streams
            self._clear()

    def _hear(self, stream: TextIO, write: Callable[[Any], Any], data: Any) -> Any:  # noqa: ANN401
        """Write text or bytes, where nothing of ours stands."""
        with self._lock:
            self._clear()
            if not stream.isatty():
                self._end()
            written = write(data)
            if data:
                self._is_inside_line = data[-1:] not in {"\n", b"\n"}
            self._heard_at, self._quiet_s = monotonic(), self._again_s
            return written

    def _turn(self) -> None:
        started = monotonic()
        turns = 0
        while not self._ended.wait(TURN_S):
            with self._lock:
                now = monotonic()
                is_silent = now - self._heard_at >= self._quiet_s and not self._is_inside_line
                if is_silent and not self._ended.is_set():
                    self._is_shown = True
                    turn = _TURNS[turns % len(_TURNS)]
                    self._write(f"{_CLEAR}{turn} {int(now - started)} s")
            turns += 1

    def _clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


Hear = Callable[[TextIO, Callable[[Any], Any], Any], Any]


class _HeardStream:
    """A stream, or its buffer, whose writes go through ``hear``."""

    def __init__(self, stream: Any, hear: Hear, whole: TextIO | None = None) -> None:  # noqa: ANN401
        self._stream, self._hear, self._whole = stream, hear, whole or stream

    def write(self, data: Any) -> Any:  # noqa: ANN401 - text, or bytes of a buffer
        """As the stream's."""
        return self._hear(self._whole, self._stream.write, data)

    def writelines(self, lines: Iterable[Any]) -> None:
        """As the stream's."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> "_HeardStream":
        """The buffer of the stream."""
        return _HeardStream(self._stream.buffer, self._hear, self._whole)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        """What the stream has of this name."""
        return getattr(self._stream, name)


def end_spinner() -> None:
    """Leave the terminal to a program that is about to draw on it: a pager, an editor."""
    if Spinner.shown is not None:
        Spinner.shown.end()
