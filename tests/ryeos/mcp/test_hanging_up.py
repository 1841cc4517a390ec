"""Noticing that the other end of a pipe was closed, by real pipes and sockets."""

import os
import socket
import sys
from threading import Thread

import pytest

from ryeos.mcp.hang_ups import await_hang_up

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
PATIENCE_S = 20.0


def watched(descriptor: int, platform: str) -> Thread:
    thread = Thread(
        target=await_hang_up, args=(descriptor,), kwargs={"platform": platform, "poll_s": 0.01}
    )
    thread.start()
    return thread


@pytest.mark.parametrize("platform", [sys.platform, "darwin"])
def test_the_end_of_a_pipe_is_seen_though_it_is_not_read(platform: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"left")
    thread = watched(reading, platform)
    was_waiting = thread.is_alive()

    os.close(writing)
    thread.join(PATIENCE_S)

    assert (was_waiting, thread.is_alive(), os.read(reading, 9)) == (True, False, b"left")
    os.close(reading)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the whole socket has to be closed")
def test_a_socket_that_is_shut_for_writing_has_ended() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = watched(ours.fileno(), "linux")

        theirs.shutdown(socket.SHUT_WR)
        thread.join(PATIENCE_S)

        assert not thread.is_alive()


def test_each_platform_has_its_own_way_to_see_the_end() -> None:
    found = iter([False, False, True])

    await_hang_up(5, platform="win32", looks={"win32": lambda _: next(found)}, poll_s=0)

    assert list(found) == []
