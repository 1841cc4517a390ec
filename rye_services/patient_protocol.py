"""HTTP/1.1 as uvicorn serves it, but patient only for a while with who sends no whole request."""

import asyncio
import socket
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class PatientProtocol(H11Protocol):
    """A connection that is closed when the head of a request does not come to its end.

    Between requests uvicorn's own timeout for idle connections holds, and while a body comes that
    of `rye_services.limits`.
    """

    head_timeout_s = 30.0  # from the connection, or from the first byte on

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn narrows asyncio's
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # An answer goes out in two pieces; asyncio leaves Nagle's algorithm on for sockets that it
        # has not made itself, and the second piece would wait 40 ms for the other side's word.
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; wait for the rest of a head."""
        super().data_received(data)
        if self._is_busy():
            self._wait_no_longer()
        else:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Wait for the rest of a head that began to come before the answer was out."""
        super().on_response_complete()
        if not self._is_busy() and self.conn.trailing_data[0]:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self._is_busy():
            self.transport.close()

    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first
        return cycle is not None and not cycle.response_complete
