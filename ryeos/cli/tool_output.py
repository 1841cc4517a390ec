"""What a tool writes, shown as it comes.

Standard output only on a terminal, and only where it is no JSON, which is laid out at the end. A
traceback on standard error is held back: if the tool fails with it, its last line comes first.

A file of its own because each run imports it.
"""

import sys

from ryeos.run.calls import TRACEBACK

_MARKER = TRACEBACK.encode()
_MAX_HELD_BYTES = 1024 * 1024
# How the text begins that another traceback follows.
_LINKS = (b"During handling of", b"The above exception")


class ToolOutput:
    """Passes on what a tool writes."""

    def __init__(self) -> None:
        # Of standard output: what might become JSON, and the last byte that was shown.
        self._unsure: bytearray | None = bytearray()
        self._is_json = False
        self._last = b""
        # Of standard error: the last line so far, whether a part of it was passed on, a traceback,
        # and whether that one has its message.
        self._line = b""
        self._is_inside_line = False
        self._traceback = bytearray()
        self._has_message = False

    @property
    def was_shown(self) -> bool:
        """Whether its standard output is on the terminal already."""
        return bool(self._last)

    def stdout(self, chunk: bytes) -> None:
        """Pass on standard output, from its first line on, unless that may be the start of JSON."""
        if self._is_json or not chunk:
            return
        if self._unsure is not None:
            self._unsure += chunk
            text = bytes(self._unsure).lstrip()
            self._is_json = text.startswith((b"{", b"[", b'"'))
            if not text or self._is_json:
                return
            chunk, self._unsure = bytes(self._unsure), None
        sys.stdout.flush()
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        self._last = chunk[-1:]

    def stderr(self, chunk: bytes) -> None:
        """Pass on standard error, but for a traceback that may be its end."""
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if self._line and not self._traceback and not _MARKER.startswith(self._line):
            self._write(self._line)
            self._line, self._is_inside_line = b"", True

    def end(self, *, has_failed: bool) -> str:
        """Leave nothing held back; the traceback with which the tool has failed, or ``""``."""
        if self._last not in {b"", b"\n"}:
            self.stdout(b"\n")
        if self._line:
            self._take(self._line)
        text = self._traceback.decode("utf-8", "replace") if has_failed else ""
        if not has_failed:
            self._release()
        return text

    def _take(self, line: bytes) -> None:
        if self._is_inside_line:
            self._is_inside_line = False
            self._write(line)
            return
        if self._traceback and not self._belongs(line):
            self._release()
        if self._traceback or line.startswith(_MARKER):
            self._traceback += line
            if len(self._traceback) > _MAX_HELD_BYTES:
                self._release()
        else:
            self._write(line)

    def _belongs(self, line: bytes) -> bool:
        """Whether a line goes on with the traceback: a frame, its message, or another one's."""
        if not line.strip() or line[:1].isspace():
            return True
        if line.startswith(_LINKS) and self._has_message:
            self._has_message = False
            return True
        if line.startswith(_MARKER):
            return not self._has_message
        had_message, self._has_message = self._has_message, True
        return not had_message

    def _release(self) -> None:
        self._write(bytes(self._traceback))
        self._traceback.clear()
        self._has_message = False

    def _write(self, data: bytes) -> None:
        if data:
            sys.stderr.flush()
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
