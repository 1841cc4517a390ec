"""Output of a command: the answer on standard output, the rest on standard error.

Used by `rye` and by `rye-node`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from lillux.errors import LilluxError
from lillux.foreign_text import escaped, one_line, without_control_characters

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED, BROKEN_PIPE = 130, 141
"""Exit statuses, as shells say them of SIGINT and SIGPIPE."""
_INTERRUPTED_ANSWER = '{"status": "error", "error": "interrupted", "code": "CANCELLED"}\n'
# Set by the consoles of Windows that show colours.
_COLOR_CONSOLES = ("WT_SESSION", "TERM", "TERM_PROGRAM", "ANSICON")
_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}


class OutputError(LilluxError):
    """An answer could not be written; it cannot be reported on standard output either."""

    code = "FILE_SYSTEM_ERROR"

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"standard output: {(error.strerror or str(error)).lower()}",
            hint="the answer is lost, the command was carried out",
        )

    @classmethod
    def of_stream(cls, error: OSError) -> OutputError:
        """The error of standard output, which takes nothing any more."""
        # What is still buffered goes nowhere, or the interpreter fails once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return cls(error)


class Output:
    """Shows answers as text or JSON, in colour only where that makes sense."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        color: str = "auto",
        environ: Mapping[str, str],
        platform: str = sys.platform,
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._color = color
        self._environ = environ
        self._platform = platform
        self._warned: set[str] = set()

    def answer(self, envelope: Mapping[str, Any], text: str) -> None:
        """Show an answer: the envelope with ``--json``, else the text."""
        if self.as_json:
            import json

            text = escaped(json.dumps(envelope, ensure_ascii=False, default=str))
            # Bytes of a path that are no UTF-8 become escapes, which JSON has for them.
            self._write(text.encode("utf-8", "backslashreplace"))
        elif text:
            self.text(text)

    def text(self, text: str) -> None:
        """Write to standard output, with one newline at the end, as UTF-8 everywhere."""
        try:
            data = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half of a pair, which no encoding holds
            data = text.encode("utf-8", "backslashreplace")
        self._write(data)

    def note(self, text: str) -> None:
        """Write a note to standard error."""
        if not self.quiet:
            self._say(text)

    def warn(self, text: str) -> None:
        """Write a warning to standard error, once."""
        if text not in self._warned:
            self._warned.add(text)
            mark = self.paint("warning:", "yellow", stream=sys.stderr)
            self._say(f"{mark} {without_control_characters(text)}")

    def paint(self, text: str, color: str, *, stream: Any = None) -> str:  # noqa: ANN401 - a stream
        """The text in a colour, if the stream it goes to shows colours."""
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if self._shows_color(stream) else text

    def _write(self, data: bytes) -> None:
        stream = sys.stdout
        try:
            stream.flush()
            stream.buffer.write(data if data.endswith(b"\n") else data + b"\n")
            stream.buffer.flush()
        except BrokenPipeError:  # the reader is gone, which is no failure
            raise
        except OSError as error:
            raise OutputError.of_stream(error) from error

    def _say(self, text: str) -> None:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def _shows_color(self, stream: Any) -> bool:  # noqa: ANN401 - a stream
        if self._color != "auto":
            return self._color == "always"
        if self._environ.get("NO_COLOR") or self._environ.get("TERM") == "dumb":
            return False
        if self._environ.get("FORCE_COLOR") or self._environ.get("CLICOLOR_FORCE"):
            return True
        if self._platform == "win32" and not any(map(self._environ.get, _COLOR_CONSOLES)):
            return False  # the old console would show the codes themselves
        return bool((stream or sys.stdout).isatty())


_SHORTEST_TIME = len("2026-11-21T05:58:37")


def utc_text(text: str) -> str:
    """A time as people read it: ``2026-11-21 05:58:37 UTC``; text that is no time as it is."""
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return one_line(text)
    if len(text) < _SHORTEST_TIME:  # a day
        return text
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


_TIMES = ("_at", "_seen")


def field_text(name: str, value: object) -> str:
    """The value of a field of an answer on one line: a time as `utc_text`, no text as JSON."""
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, default=str)
    return utc_text(text) if name.endswith(_TIMES) else one_line(text)


def report(error: Exception, *, as_json: bool, environ: Mapping[str, str]) -> int:
    """Show a failure; the exit status.

    What the machine refuses names the file; any other failure that is not ours is a
    bug, and says so.
    """
    if environ.get("RYE_LOG") == "debug":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno is not None:
        from lillux.files import file_system_error

        name = error.filename
        known = isinstance(name, str | bytes)  # else a descriptor, or nothing
        error = file_system_error(os.fsdecode(name) if known else "an open file", error)
    if not isinstance(error, LilluxError):
        error = LilluxError(
            f"internal error: {type(error).__name__}: {error}",
            hint="this is a bug in rye; RYE_LOG=debug shows where it happened",
        )
    if not as_json or not _write_failure(error, environ):
        _say(error)
    return error.exit_status


def _write_failure(error: LilluxError, environ: Mapping[str, str]) -> bool:
    """Write the envelope of a failure; whether standard output took it."""
    from ryeos.items.errors import error_envelope

    if isinstance(error, OutputError):
        return False
    try:
        Output(as_json=True, environ=environ).answer(error_envelope(error), "")
    except OutputError:
        return False
    return True


def _say(error: LilluxError) -> None:
    sys.stderr.write(f"error: {without_control_characters(str(error))}\n")
    cause = error.__cause__
    if cause and str(cause) not in str(error):
        sys.stderr.write(f"  cause: {without_control_characters(str(cause))}\n")
    for line in getattr(error, "diff", ()):  # for a person: no envelope has it
        sys.stderr.write(f"  {without_control_characters(line)}\n")
    if error.hint:
        sys.stderr.write(f"  hint: {without_control_characters(error.hint)}\n")


def interrupted_status(error: KeyboardInterrupt | BrokenPipeError, *, as_json: bool) -> int:
    """The exit status of a program that was interrupted, or whose reader closed the pipe."""
    if isinstance(error, BrokenPipeError):
        # The interpreter's own flush at exit has to find a place to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    sys.stderr.write("interrupted\n")
    if as_json:
        sys.stdout.write(_INTERRUPTED_ANSWER)
    return INTERRUPTED
