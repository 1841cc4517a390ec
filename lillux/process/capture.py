"""Bounded memory for a stream of unbounded length."""

from lillux.process.model import Captured


class BoundedCapture:
    """Keeps the first and the last half of ``max_bytes`` of what it is fed.

    A stream of at most ``max_bytes`` is kept whole.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_tail = max_bytes // 2
        self._max_head = max_bytes - self._max_tail
        self._head, self._tail = bytearray(), bytearray()
        self._total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total_bytes += len(chunk)
        room = self._max_head - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            del self._tail[: max(0, len(self._tail) - self._max_tail)]

    def captured(self) -> Captured:
        """What was kept so far, with a marker line where something was left out."""
        left_out = self._total_bytes - len(self._head) - len(self._tail)
        marker = b"\n... [%d bytes left out] ...\n" % left_out if left_out else b""
        return Captured(
            data=bytes(self._head) + marker + bytes(self._tail),
            total_bytes=self._total_bytes,
            left_out_bytes=left_out,
        )
