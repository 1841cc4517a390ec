"""The two pipes of a server, taken away from everybody else.

What a dependency prints, or a child, must never get between two messages.
"""

import os
import sys
import time
from _thread import allocate_lock  # of `threading`, which is not worth its time at a start

from lillux.jsonrpc import INTERNAL_ERROR, Failure, Message, Result, as_json
from ryeos.mcp.compact_json import compact

MAX_SENT_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024


class Wire:
    """Reads from one descriptor, sends messages to another. Sending is safe from any thread."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._lock = allocate_lock()
        self._writing_since: float | None = None

    def read(self) -> bytes:
        """The next bytes, blocking; nothing at the end."""
        return os.read(self._reader, _CHUNK_BYTES)

    def send(self, message: Message) -> None:
        """Write a message, in a line. Raises OSError when nobody reads any more."""
        unsent = memoryview(line_of(message))
        with self._lock:
            while unsent:
                self._writing_since = time.monotonic()
                unsent = unsent[os.write(self._writer, unsent[:_CHUNK_BYTES]) :]
            self._writing_since = None

    @property
    def waits_s(self) -> float:
        """For how many seconds the reader has taken nothing of what is being written."""
        since = self._writing_since
        return 0.0 if since is None else time.monotonic() - since

    def await_hang_up(self) -> None:
        """Return when nobody writes to us any more, though there may be something left to read."""
        from ryeos.mcp.hanging_up import await_hang_up

        await_hang_up(self._reader)


def line_of(message: Message) -> bytes:
    """A message as one line of UTF-8, never longer than ``MAX_SENT_BYTES``.

    An answer that is too long becomes an error that says so.
    """
    line = compact(as_json(message)).encode() + b"\n"
    if len(line) > MAX_SENT_BYTES and isinstance(message, Result | Failure):
        problem = f"the answer has {len(line)} bytes, more than the {MAX_SENT_BYTES} of a message"
        return line_of(Failure(message.id, INTERNAL_ERROR, problem))
    return line


def take_over() -> Wire:
    """Standard input and output, as a wire of this process alone.

    Where they were, there is the null device now, and standard error: for us, and for all children.
    """
    reader, writer = os.dup(0), os.dup(1)  # neither is inherited by a program that is started
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if sys.platform == "win32":  # bytes, as they are
        import msvcrt

        for descriptor in (reader, writer):
            msvcrt.setmode(descriptor, os.O_BINARY)
    else:  # a client may have made its own ends, and so ours, other than they are expected
        for descriptor in (reader, writer):
            os.set_blocking(descriptor, True)
    sys.stdout = sys.stderr
    return Wire(reader, writer)
