"""Standard input and output of a server, closed to all other code.

What a dependency prints, or a child, must never get between two messages.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress

from lillux.jsonrpc import INTERNAL_ERROR, Failure, Message, Result, as_json

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from typing import Any, NoReturn


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
        """Write a message, in a line. Raises OSError when the client reads no more."""
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
        """Return when the client writes no more, though there may be something left to read."""
        from ryeos.mcp.hang_ups import await_hang_up

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


# JSON as it goes over the wire: one line, no spaces, nothing that a strict reader refuses.


def compact(value: Any) -> str:  # noqa: ANN401 - JSON, and what can be shown as text
    """The value as JSON that every encoding of Unicode can hold.

    Half characters are replaced, numbers that JSON does not have are null, and other values are
    shown as text.
    """
    try:
        text = _dumps(value)
    except ValueError:
        text = _dumps(_finite(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


def _dumps(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
    )


def _finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


# How a server comes to its end: at once, and by signals, which a thread of its own waits for.
#
# Nothing depends on the main thread: one that waits for a read learns of no signal which another
# thread has got, nor of one that came just before it began to wait.

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
        if sys.platform != "win32":  # where a pipe need not be set, and cannot
            os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _go_on)
        start_new_thread(self._await, (reader,))

    def _await(self, reader: int) -> None:
        while not set(os.read(reader, 1)) & set(_SIGNALS):
            """Another signal that the program catches."""
        self.end()


def leave() -> NoReturn:
    """End the process, now."""
    with suppress(OSError, ValueError):  # standard error has no reader
        sys.stderr.flush()
    os._exit(0)


def _go_on(_number: int, _frame: object) -> None:
    """Leave the main thread at its work: the pipe has the number."""


# Failures of our own: what the client sees, and where the rest is.

MESSAGE = "internal error"
Log = Callable[[str, str], None]


def quiet(_level: str, _text: str) -> None:
    """A log that keeps nothing."""


def report_failure(error: BaseException, log: Log = quiet) -> str:
    """The number of a failure; its traceback is under it on standard error and in the log.

    Never raises: standard error may have no reader.
    """
    import traceback
    import uuid

    reference = uuid.uuid4().hex[:12]
    text = f"{MESSAGE} {reference}\n{''.join(traceback.format_exception(error))}"
    with suppress(OSError, ValueError):
        sys.stderr.write(f"rye: {text}")
        sys.stderr.flush()
    log("error", text)
    return reference
