"""Connections with incomplete requests, on a real server with shorter timeouts than a node."""

import asyncio
import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from rye_services.process.server import PatientProtocol


class Impatient(PatientProtocol):
    """The protocol of a node with shorter timeouts."""

    head_timeout_s = 0.3


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer at once, or slowly on request."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of the server."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        hello, http=Impatient, lifespan="off", log_config=None, timeout_keep_alive=300
    )
    ready = Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready.set()

    server = Server(config)
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    ready.wait(30)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(30)


def connect(port: int) -> socket.socket:
    """A connection to it."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_head_that_does_not_arrive_times_out(port: int, sent: bytes) -> None:
    with connect(port) as connection:
        connection.sendall(sent)

        assert connection.recv(100) == b""


def test_a_second_request_head_times_out_too(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
        answers = b""
        while part := connection.recv(1000):
            answers += part

    assert answers.count(b"HTTP/1.1 200 OK") == 1


def test_pieces_of_an_answer_do_not_wait_for_each_other() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    async def is_set() -> int:
        made: list[PatientProtocol] = []
        config = uvicorn.Config(hello, lifespan="off", log_config=None)
        config.load()
        loop = asyncio.get_running_loop()

        def make() -> PatientProtocol:
            made.append(PatientProtocol(config, ServerState(), {}))
            return made[-1]

        server = await loop.create_server(make, sock=listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        connection = made[0].transport.get_extra_info("socket")
        found = int(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        server.close()
        return found

    assert asyncio.run(is_set()) != 0


def test_a_body_may_take_longer_than_a_head(port: int) -> None:
    with connect(port) as other, connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1")
        assert other.recv(100) == b""  # its time is over, and so would be that of a head

        connection.sendall(b"2")

        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
