"""Proxy on loopback that sends each request to the next server of a cluster.

Each connection is for one request, so that no two requests of a client meet the same server by
keeping it open. Bodies and answers pass through as they come, also those that never end.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from threading import Event, Thread

_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024


class RoundRobin:
    """The proxy, on a thread of its own. ``requests`` are those that were sent on, by server."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.requests: dict[int, int] = {}
        self._ports: tuple[int, ...] = ()
        # The loop has weak references alone: a connection that waits would be collected.
        self._connections: set[asyncio.Task[None] | None] = set()
        self._numbers = count()
        self._loop = asyncio.new_event_loop()
        self._is_ready = Event()
        self._thread = Thread(target=self._run, name="proxy", daemon=True)

    def start(self, ports: Sequence[int]) -> None:
        """Answer on the port, any that is free for 0, for the servers on these."""
        self._ports = tuple(ports)
        self.requests = dict.fromkeys(ports, 0)
        self._thread.start()
        self._is_ready.wait()

    def send_to(self, ports: Sequence[int]) -> None:
        """Send requests from now on to these servers only, as before one of them is replaced."""
        self._ports = tuple(ports)
        self.requests = {**dict.fromkeys(ports, 0), **self.requests}

    def stop(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        elif not self._loop.is_closed():  # it was never started
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_HEAD_BYTES)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # for connections that are closed now
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = [writer]
        sending: asyncio.Task[None] | None = None
        this = asyncio.current_task()
        self._connections.add(this)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            their_reader, their_writer = await self._next_server()
            opened.append(their_writer)
            their_writer.write(_for_one_request(head))
            sending = asyncio.ensure_future(_pass_on(reader, their_writer))
            await _pass_on(their_reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one of the two is gone, or is no client of HTTP
        finally:
            self._connections.discard(this)
            if sending is not None:
                sending.cancel()
            for one in opened:
                one.close()

    async def _next_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the next server that takes one. Raises OSError where none does."""
        ports = self._ports
        for _ in ports:
            port = ports[next(self._numbers) % len(ports)]
            with suppress(ConnectionRefusedError):
                streams = await asyncio.open_connection("127.0.0.1", port)
                self.requests[port] += 1
                return streams
        raise ConnectionRefusedError


def _for_one_request(head: bytes) -> bytes:
    """The head of a request without its ``Connection``, and with one that ends it."""
    line, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [one for one in headers if not one.lower().startswith((b"connection:", b"keep-alive:"))]
    return b"\r\n".join((line, *kept, b"Connection: close", b"", b""))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
