"""Parser of server-sent events, the whole grammar of the HTML standard. Pure.

Lines end with CR, LF or CRLF. ``data:`` lines of one event are joined by a line feed, a line that
begins with a colon is a comment, an empty line ends the event; what has no such end is no event,
and its ``id:`` does not count: who connects again asks for what came after the last whole event.
"""

from lillux.errors import LilluxError
from lillux.values import dataclass

MAX_EVENT_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(LilluxError):
    """An event, or a single line, that does not end. ``max_bytes`` is what one may have."""

    code, exit_status = "RESOURCE_EXCEEDED", 7

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(f"expected a server-sent event of at most {max_bytes} bytes, got more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSentEvent:
    """One event.

    event     its type, ``message`` unless it has another
    id        the last one that the stream gave, of this event or one before
    retry_ms  how long to wait before connecting again, if the event says so
    """

    event: str = "message"
    data: str = ""
    id: str = ""
    retry_ms: int | None = None


class EventParser:
    """Reads one stream. Give it the bytes as they come, in pieces of any size."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._is_first_line = True
        self._after_cr = False
        self._last_id = self._id = ""
        self._retry_ms: int | None = None
        self._event_retry_ms: int | None = None
        self._start_event()

    @property
    def last_event_id(self) -> str:
        """The id to send as ``Last-Event-ID`` when connecting again."""
        return self._last_id

    @property
    def retry_ms(self) -> int | None:
        """The last wait that the stream asked for, with or without an event."""
        return self._retry_ms

    def begin_again(self) -> None:
        """Read another stream, which continues this one: what did not end is dropped.

        The last id and the last wait are kept.
        """
        self._line = bytearray()
        self._is_first_line = True
        self._after_cr = False
        self._id = self._last_id
        self._start_event()

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that these bytes complete. Raises EventTooLargeError."""
        events: list[ServerSentEvent] = []
        if data and self._after_cr:
            # The line feed of a CRLF that was cut in two.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        # (bytes.splitlines knows exactly CR, LF and CRLF.)
        for line in data.splitlines(keepends=True):
            text = line.rstrip(b"\r\n")
            self._line += text
            if self._size + len(self._line) > self._max_event_bytes:
                raise EventTooLargeError(self._max_event_bytes)
            if len(text) < len(line):
                self._end_line(events)
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        return events

    def _end_line(self, events: list[ServerSentEvent]) -> None:
        line, self._line = bytes(self._line), bytearray()
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(_BOM), False
        if not line:
            self._dispatch(events)
        elif not line.startswith(b":"):
            self._size += len(line)
            name, _, value = line.decode("utf-8", "replace").partition(":")
            self._take(name, value.removeprefix(" "))

    def _take(self, name: str, value: str) -> None:
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self._retry_ms = self._event_retry_ms = int(value[:9])

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        self._last_id = self._id
        if self._data:
            events.append(
                ServerSentEvent(
                    event=self._event or "message",
                    data="\n".join(self._data),
                    id=self._last_id,
                    retry_ms=self._event_retry_ms,
                )
            )
        self._start_event()

    def _start_event(self) -> None:
        self._data: list[str] = []
        self._event = ""
        self._event_retry_ms = None
        self._size = 0
