import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from time import time

import pytest

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.http.client import HttpClient
from lillux.signing import generate_keypair
from ryeos.remote.errors import RemoteUnreachableError, ReplyTooLargeError
from ryeos.remote.requests import parse_headers, verify_request_signature
from ryeos.remote.settings import RemoteConfig
from ryeos.remote.transport import (
    ATTEMPTS,
    BearerCredentials,
    Credentials,
    HttpTransport,
    NodeReply,
    SignedCredentials,
)
from ryeos.trust.signing_key import SigningKey
from tests.support.http_servers import Answer, Exchange, Server, closed_port

KEY = SigningKey(generate_keypair())
NODE = "0123456789abcdef"


class Clock:
    """A clock of a test that records waits."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s
        self.waits: list[float] = []

    def now(self) -> float:
        return time() + self.ahead_s

    def wait(self, seconds: float, _: Cancellation | None) -> None:
        self.waits.append(seconds)


def transport(
    url: str, clock: Clock | None = None, credentials: Credentials | None = None
) -> HttpTransport:
    clock = clock or Clock()
    return HttpTransport(
        RemoteConfig(name="gpu", url=url, timeout_s=20),
        credentials or SignedCredentials(KEY),
        HttpClient({}),
        now=clock.now,
        wait=clock.wait,
    )


def ask(
    sent_by: HttpTransport, *, may_repeat: bool = True, max_response_bytes: int = 1000
) -> NodeReply:
    return sent_by.exchange(
        "POST",
        "/objects/has",
        [("b", "2 3"), ("a", "1")],
        b"{}",
        timeout_s=None,
        max_response_bytes=max_response_bytes,
        may_repeat=may_repeat,
    )


@contextmanager
def answering(*answers: Answer) -> Iterator[Server]:
    """A server that gives these answers in order, and repeats the last one."""
    left = list(answers)

    def reply(exchange: Exchange) -> None:
        answer = left.pop(0) if len(left) > 1 else left[0]
        answer(exchange)

    with Server(reply) as server:
        yield server


def fine(exchange: Exchange) -> None:
    exchange.answer(200, b"{}")


def status(code: int, **headers: str) -> Answer:
    return lambda exchange: exchange.answer(code, b'{"detail":"x"}', **headers)


def test_the_first_request_has_no_credentials() -> None:
    with answering(fine) as server:
        ask(transport(server.url))

    names = set(server.requests[0].headers)
    assert not names & {"authorization", "x-rye-key-id", "x-rye-signature", "x-rye-nonce"}


def test_a_request_is_signed_for_the_node_and_for_itself() -> None:
    with answering(fine) as server:
        sent_by = transport(server.url)
        sent_by.identify(NODE)
        ask(sent_by)

    seen = server.requests[0]
    verify_request_signature(
        KEY.public_pem,
        seen.headers,
        method="POST",
        path="/objects/has",
        query=seen.target.partition("?")[2],
        body_sha256=sha256_hex(b"{}"),
        audience=f"fp:{NODE}",
    )


def test_an_api_key_is_sent_as_a_bearer() -> None:
    with answering(fine) as server:
        sent_by = transport(server.url, credentials=BearerCredentials("rye_sk_x"))
        sent_by.identify(NODE)
        ask(sent_by)

    assert server.requests[0].headers["authorization"] == "Bearer rye_sk_x"


def test_each_attempt_has_a_new_nonce() -> None:
    with answering(Exchange.reset, fine) as server:
        sent_by = transport(server.url)
        sent_by.identify(NODE)
        ask(sent_by)

    nonces = [parse_headers(seen.headers).nonce for seen in server.requests]
    assert len(nonces) == len({*nonces}) == 2


def test_a_request_that_may_not_be_repeated_is_sent_once() -> None:
    with answering(Exchange.reset, fine) as server, pytest.raises(RemoteUnreachableError):
        ask(transport(server.url), may_repeat=False)

    assert len(server.requests) == 1


def test_a_busy_node_gets_the_request_again_after_retry_after() -> None:
    clock = Clock()
    with answering(status(503, Retry_After="3"), status(429), fine) as server:
        reply = ask(transport(server.url, clock), may_repeat=False)

    assert reply.status == 200
    assert clock.waits == [3.0, 2.0]


def test_a_request_to_a_busy_node_is_given_up() -> None:
    clock = Clock()
    with answering(status(503)) as server:
        reply = ask(transport(server.url, clock))

    assert reply.status == 503
    assert len(server.requests) == ATTEMPTS
    assert clock.waits == [1.0, 2.0, 4.0]


def test_after_a_502_only_a_repeatable_request_is_sent_again() -> None:
    with answering(status(502), fine) as server:
        assert ask(transport(server.url), may_repeat=False).status == 502
    with answering(status(502), fine) as server:
        assert ask(transport(server.url)).status == 200


def test_a_wrong_clock_is_corrected_by_the_nodes_clock_once() -> None:
    def by_time(exchange: Exchange) -> None:
        signed_at = parse_headers(exchange.seen.headers).timestamp
        exchange.answer(200 if abs(signed_at - time()) < 300 else 401, b"{}")

    with answering(by_time) as server:
        sent_by = transport(server.url, Clock(ahead_s=4000))
        sent_by.identify(NODE)
        assert ask(sent_by).status == 200
        assert ask(sent_by).status == 200

    assert len(server.requests) == 3  # the second request is right at once


def test_a_refusal_under_the_right_clock_is_the_answer() -> None:
    with answering(status(401, Date=formatdate(usegmt=True))) as server:
        sent_by = transport(server.url)
        sent_by.identify(NODE)
        assert ask(sent_by).status == 401

    assert len(server.requests) == 1


def test_an_unreachable_node_is_reported_by_name() -> None:
    url = f"http://127.0.0.1:{closed_port()}"

    with pytest.raises(RemoteUnreachableError, match=r"remote gpu: .*no connection") as error:
        ask(transport(url))

    assert error.value.exit_status == 7


def test_a_reply_that_is_too_large_is_not_read() -> None:
    with (
        answering(lambda exchange: exchange.answer(200, bytes(2000))) as server,
        pytest.raises(ReplyTooLargeError, match="at most 1000 bytes"),
    ):
        ask(transport(server.url))


def test_a_redirect_is_not_followed() -> None:
    with answering(fine) as other, answering(status(307, Location=f"{other.url}/x")) as server:
        assert ask(transport(server.url)).status == 307

    assert other.requests == []


def test_the_query_is_sent_in_form_encoding() -> None:
    with answering(fine) as server:
        ask(transport(server.url))

    assert server.requests[0].target == "/objects/has?b=2+3&a=1"
    assert json.loads(server.requests[0].body) == {}
