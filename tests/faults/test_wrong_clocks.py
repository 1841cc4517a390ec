"""A client whose clock is wrong."""

import sys
import time
from email.utils import formatdate

import pytest

from tests.support.node import Reply
from tests.support.node_proxy import Proxy
from tests.support.remote_client import RYE, Client, files_there

pytestmark = pytest.mark.heavy

OFF = """
import runpy, sys, time
right = time.time
time.time = lambda: right() + {seconds}
sys.argv = sys.argv[1:]
sys.path.insert(0, {folder!r})
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def set_clock(client: Client, seconds: int) -> None:
    """Have the clock of a client's processes be off by so many seconds."""
    rye = RYE[1]
    code = OFF.format(seconds=seconds, folder=rye.rpartition("/")[0])
    client.command = (sys.executable, "-c", code, rye)


@pytest.mark.parametrize("seconds", [-600, 600])
def test_a_clock_that_is_wrong_by_minutes_costs_one_request(
    proxy: Proxy, client: Client, seconds: int
) -> None:
    set_clock(client, seconds)

    pushed = client("remote", "push")

    assert pushed.status == 0, pushed.stderr
    assert files_there(client.user) == client.files()
    first = proxy.requests[1]
    assert proxy.requests[:3] == ["/public-key", first, first]
    assert all(
        one != other for one, other in zip(proxy.requests[2:], proxy.requests[3:], strict=False)
    )


def test_a_clock_that_cannot_be_set_right_is_reported(proxy: Proxy, client: Client) -> None:
    set_clock(client, -600)

    def with_the_same_wrong_clock(_: str, reply: Reply) -> Reply:
        wrong = formatdate(time.time() - 600, usegmt=True)
        return Reply(reply.status, {**reply.headers, "date": wrong}, reply.body)

    proxy.rewrite = with_the_same_wrong_clock

    refused = client("remote", "push")

    assert refused.status == 7
    assert "refused with status 401" in refused.stderr
    assert "is your key authorised there, and your clock right?" in refused.stderr
    assert len(proxy.requests) == 2


def test_a_node_that_always_blames_the_clock_gets_two_requests(
    proxy: Proxy, client: Client
) -> None:
    def in_the_future(path: str, reply: Reply) -> Reply:
        later = formatdate(time.time() + 1000 * len(proxy.requests), usegmt=True)
        status = reply.status if path == "/public-key" else 401
        return Reply(status, {**reply.headers, "date": later}, reply.body)

    proxy.rewrite = in_the_future

    refused = client("remote", "push")

    assert refused.status == 7
    assert len(proxy.requests) == 3
